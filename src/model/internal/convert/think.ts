import type { ReasoningPiece, TextPiece } from "./turn.js"

export const openTag = "<think>"

export const closeTag = "</think>"

/** A span of reasoning as it is in a text. */
export const wrap = (text: string): string => `${openTag}${text}${closeTag}`

/**
 * A text as words and reasoning in their order, nothing trimmed and no empty words. A span ends at the first end tag
 * after its start; a start without an end stays in the words.
 */
export const split = (text: string): ReadonlyArray<TextPiece | ReasoningPiece> => {
  const pieces: Array<TextPiece | ReasoningPiece> = []
  let at = 0
  while (true) {
    const open = text.indexOf(openTag, at)
    const close = open === -1 ? -1 : text.indexOf(closeTag, open + openTag.length)
    if (close === -1) break
    if (open > at) pieces.push({ _tag: "text", text: text.slice(at, open) })
    pieces.push({ _tag: "reasoning", text: text.slice(open + openTag.length, close) })
    at = close + closeTag.length
  }
  if (at < text.length) pieces.push({ _tag: "text", text: text.slice(at) })
  return pieces
}
