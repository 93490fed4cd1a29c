/**
 * Reads a model's reply as pyautogui code and the words `WAIT`, `DONE` and `FAIL`.
 *
 * @since 0.1.0
 */
import type { DesktopAction } from "../desktop/Action.js"
import type { Decision } from "../rollout/Agent.js"
import { act, withoutThoughts, word } from "./internal/reply.js"

/** What a fence holds: its code, or nothing where its tag names another language. */
const fenceBody = (inside: string): string => {
  const tagged = /^([A-Za-z0-9_+-]+)[ \t]*(?:\r?\n|$)([\s\S]*)$/.exec(inside)
  const tag = tagged?.[1]
  if (tag !== undefined && word(tag.toUpperCase()) === undefined) {
    return isPython(tag) ? (tagged?.[2] ?? "") : ""
  }
  const inline = /^([A-Za-z0-9_+-]+)[ \t]+([\s\S]*)$/.exec(inside)
  return inline?.[1] !== undefined && isPython(inline[1]) ? (inline[2] ?? "") : inside
}

const isPython = (tag: string): boolean => /^(?:python3?|py|code)$/i.test(tag)

/**
 * The decisions in a reply, in order; none where it holds none.
 *
 * - The whole reply is one of the words, in any case: that word.
 * - Otherwise every ``` fence that is closed: a word alone, or Python, whose last line may be a word of its own. A fence
 *   tagged with another language is no action. Text outside the fences is never executed.
 *
 * @since 0.1.0
 * @category parsing
 */
export const parse = (reply: string): ReadonlyArray<Decision<DesktopAction>> => {
  const text = withoutThoughts(reply)
  const whole = word(text.trim().toUpperCase())
  if (whole !== undefined) return [whole]
  return Array.from(text.matchAll(/```([\s\S]*?)```/g)).flatMap(([, inside = ""]) => {
    const code = fenceBody(inside).trim()
    if (code === "") return []
    const alone = word(code.toUpperCase())
    if (alone !== undefined) return [alone]
    const lastBreak = code.lastIndexOf("\n")
    const last = lastBreak < 0 ? undefined : word(code.slice(lastBreak + 1).trim())
    return last === undefined ? [act(code)] : [act(code.slice(0, lastBreak).trimEnd()), last]
  })
}
