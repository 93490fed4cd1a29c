import { readFileSync } from "node:fs"
import * as Effect from "effect/Effect"
import { strFromU8, strToU8, unzipSync, zipSync } from "fflate"
import type { Metric, MetricContext, Value } from "../../../src/osworld/evaluator/Metric.js"
import { file, fixture, judge, written } from "./support.js"

/** A deck's members by name. */
export type Members = Record<string, Uint8Array>

const read = (name: string): Members => unzipSync(readFileSync(fixture(`slides/${name}`)))

const edits = read("variants.zip")

/** `deck.pptx` as LibreOffice wrote it; see `fixtures/slides/make.py`. */
export const deck: Members = read("deck.pptx")

/** python-pptx's own template with two slides whose placeholders have no place of their own. */
export const plain: Members = read("plain.pptx")

/** The deck as LibreOffice writes it after one edit of its source. */
export const variant = (name: string): Members => {
  const changed = Object.entries(edits).filter(([part]) => part.startsWith(`${name}/`))
  if (changed.length === 0) throw new Error(`no variant ${name}`)
  return { ...deck, ...Object.fromEntries(changed.map(([part, content]) => [part.slice(name.length + 1), content])) }
}

/** A deck with a part's text replaced once: for what LibreOffice does not write. */
export const edited = (members: Members, part: string, from: string | RegExp, to: string): Members => {
  const before = strFromU8(members[part] ?? new Uint8Array())
  const after = before.replace(from, to)
  if (after === before) throw new Error(`${part} has no ${String(from)}`)
  return { ...members, [part]: strToU8(after) }
}

export const zipped = (members: Members): Uint8Array => zipSync(members, { level: 0 })

/** A metric's score of one deck, or of a deck and what the task gives. */
export const judgeDeck = (
  metric: Metric,
  result: Members | Uint8Array,
  expected?: Members | Value,
  options: Record<string, unknown> = {},
  context: Partial<MetricContext> = {}
): Effect.Effect<number | string> =>
  Effect.scoped(
    Effect.gen(function* () {
      const isValue = (value: Members | Value): value is Value => "_tag" in value
      const gold = expected === undefined || isValue(expected) ? undefined : zipped(expected)
      const files = yield* written({
        "result.pptx": result instanceof Uint8Array ? result : zipped(result),
        "gold.pptx": gold ?? ""
      })
      const value = expected !== undefined && isValue(expected) ? expected : undefined
      return yield* judge(
        metric,
        file(files("result.pptx")),
        gold === undefined ? value : file(files("gold.pptx")),
        options,
        context
      )
    })
  ).pipe(Effect.orDie)
