/**
 * `<think>` spans of a text that comes in pieces.
 *
 * @since 0.1.0
 */
import { closeTag, openTag } from "../convert/think.js"

/**
 * A stretch of words, or a span of reasoning, whole.
 *
 * @since 0.1.0
 * @category models
 */
export interface Stretch {
  readonly kind: "text" | "reasoning"
  readonly text: string
}

/**
 * What is held back because it may be, or be in, a span.
 *
 * @since 0.1.0
 * @category models
 */
export interface ThinkState {
  /** What a span that has no end yet holds; `undefined` outside of one. */
  readonly span: string | undefined
  /** The last characters, which may begin a tag. */
  readonly tail: string
}

/**
 * Outside of any span.
 *
 * @since 0.1.0
 * @category constructors
 */
export const initial: ThinkState = { span: undefined, tail: "" }

/** How many characters at the end of `text` may begin the tag. */
const begun = (text: string, tag: string): number => {
  for (let length = Math.min(tag.length - 1, text.length); length > 0; length--) {
    if (tag.startsWith(text.slice(text.length - length))) return length
  }
  return 0
}

/**
 * Takes a piece of text. A span is held until it ends, because one without an end is no reasoning but words, and nobody
 * knows before which it is. Words come as soon as they can't be the start of a tag.
 *
 * @since 0.1.0
 * @category combinators
 */
export const push = (state: ThinkState, piece: string): readonly [ThinkState, ReadonlyArray<Stretch>] => {
  const stretches: Array<Stretch> = []
  let { span } = state
  let rest = state.tail + piece
  while (true) {
    const tag = span === undefined ? openTag : closeTag
    const at = rest.indexOf(tag)
    const known = rest.slice(0, at < 0 ? rest.length - begun(rest, tag) : at)
    if (span === undefined) {
      if (known !== "") stretches.push({ kind: "text", text: known })
    } else {
      span += known
    }
    if (at < 0) return [{ span, tail: rest.slice(known.length) }, stretches]
    if (span !== undefined) stretches.push({ kind: "reasoning", text: span })
    span = span === undefined ? "" : undefined
    rest = rest.slice(at + tag.length)
  }
}

/**
 * What was held back when nothing more comes: words, the tag of a span without an end among them.
 *
 * @since 0.1.0
 * @category combinators
 */
export const flush = ({ span, tail }: ThinkState): string => (span === undefined ? tail : openTag + span + tail)
