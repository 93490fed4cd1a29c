/** Tells a model that it does the same again and again. */
import * as Either from "effect/Either"
import type { Turn } from "../Protocol.js"

/** What may be done often without being stuck: to wait, and to press Return. */
const isTrivial = (code: string): boolean =>
  /^(?:(?:pyautogui\.|time\.)?(?:wait|sleep)\(\s*[\d.]*\s*\)|pyautogui\.(?:press|keyDown|keyUp)\(\s*['"](?:return|enter|down|up)['"]\s*\))$/i.test(
    code.trim()
  )

const codeOf = ({ read }: Turn): string | undefined =>
  Either.isRight(read) && read.right.decisions.some(({ _tag }) => _tag === "Act") ? read.right.code : undefined

export const repeatedNotice = (
  turns: ReadonlyArray<Turn>,
  { threshold, window }: { readonly threshold: number; readonly window: number }
): string | undefined => {
  const newest = turns.at(-1)
  const code = newest === undefined ? undefined : codeOf(newest)
  if (threshold <= 1 || code === undefined || isTrivial(code)) return undefined
  const times = turns.slice(-window).filter((turn) => codeOf(turn) === code).length
  return times < threshold
    ? undefined
    : `You have run the same code ${times} times in your last ${Math.min(window, turns.length)} steps:\n${code.slice(0, 500)}\nIf it does not bring the task on, do something else.`
}
