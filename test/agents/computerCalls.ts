/** Replies to fuzz readers of computer tools with: good actions that something happened to, and none. */
import { assert } from "@effect/vitest"
import * as FastCheck from "effect/FastCheck"
import { keyName } from "../../src/agents/internal/keys.js"
import type { Read } from "../../src/agents/Protocol.js"
import {
  type AssistantMessage,
  assistant,
  ComputerCallPart,
  ReasoningPart,
  ToolCallPart,
  text
} from "../../src/model/Conversation.js"
import { linesOf } from "./textReplies.js"

export type Fields = Readonly<Record<string, unknown>>

const value = FastCheck.oneof(
  FastCheck.jsonValue(),
  FastCheck.integer({ min: -2000, max: 3000 }),
  FastCheck.double({ noNaN: false }),
  FastCheck.tuple(FastCheck.integer({ min: -5, max: 2000 }), FastCheck.integer({ min: -5, max: 2000 })),
  FastCheck.constantFrom("ctrl", "ctrl+shift", "nonsense", "", " ", "'); import os #", "\u0000\ud800é\r\n", undefined)
)

/** A good action; one with a field changed, gone or another one's; or anything at all. */
const action = (good: ReadonlyArray<Fields>): FastCheck.Arbitrary<Fields> => {
  const one = FastCheck.constantFrom(...good)
  const names = Array.from(new Set(good.flatMap((fields) => Object.keys(fields))))
  const key = FastCheck.oneof(FastCheck.constantFrom(...names), FastCheck.string({ maxLength: 8 }))
  return FastCheck.oneof(
    { arbitrary: one, weight: 6 },
    {
      arbitrary: FastCheck.tuple(one, key, value).map(([fields, name, put]) => ({ ...fields, [name]: put })),
      weight: 4
    },
    {
      arbitrary: FastCheck.tuple(one, key).map(([fields, name]) =>
        Object.fromEntries(Object.entries(fields).filter(([other]) => other !== name))
      ),
      weight: 2
    },
    { arbitrary: FastCheck.tuple(one, one).map(([a, b]) => ({ ...a, ...b })), weight: 1 },
    { arbitrary: FastCheck.dictionary(key, value), weight: 1 }
  )
}

const words = FastCheck.array(
  FastCheck.oneof(
    FastCheck.constantFrom(
      "[INFEASIBLE]",
      "impossible",
      "This cannot be done.",
      "infeasible",
      "Done.",
      "click",
      " ",
      "\n"
    ),
    FastCheck.string({ maxLength: 12, unit: "binary" })
  ),
  { maxLength: 3 }
).map((parts) => parts.join(" "))

const rarely = <A>(some: A) => FastCheck.constantFrom(some, undefined, undefined, undefined, undefined, undefined)

export const computerReplies = (
  good: ReadonlyArray<Fields>,
  form: ComputerCallPart["form"]
): FastCheck.Arbitrary<AssistantMessage> => {
  const actions = FastCheck.array(action(good), form === "actions" ? { maxLength: 3 } : { minLength: 1, maxLength: 1 })
  const call = FastCheck.tuple(actions, rarely({ id: "sc", code: "malicious", message: "look" })).map(
    ([list, check]) =>
      new ComputerCallPart({
        callId: "c",
        form,
        actions: [...list],
        safetyChecks: form !== "member" && check !== undefined ? [check] : []
      })
  )
  return FastCheck.tuple(
    FastCheck.oneof({ arbitrary: words, weight: 1 }, { arbitrary: FastCheck.constantFrom("", "I click."), weight: 2 }),
    FastCheck.array(call, { maxLength: 2 }),
    rarely(new ToolCallPart({ callId: "d", name: "run", arguments: "{}" })),
    rarely(new ReasoningPart({ text: "hm [INFEASIBLE]" }))
  ).map(([said, calls, other, thought]) =>
    assistant(
      ...(thought === undefined ? [] : [thought]),
      ...(said === "" ? [] : [text(said)]),
      ...calls,
      ...(other === undefined ? [] : [other])
    )
  )
}

/** Every text and number of a value, however deep. */
const within = (given: unknown): { readonly texts: ReadonlyArray<string>; readonly numbers: ReadonlyArray<number> } => {
  if (typeof given === "string") return { texts: [given], numbers: [] }
  if (typeof given === "number") return { texts: [], numbers: [given] }
  const inner = typeof given === "object" && given !== null ? Object.values(given).map(within) : []
  return { texts: inner.flatMap(({ texts }) => texts), numbers: inner.flatMap(({ numbers }) => numbers) }
}

export interface Rules {
  /** The field that names an action. */
  readonly name: string
  /** For each function of the code the names of actions that it may come of. */
  readonly verbs: Readonly<Record<string, ReadonlyArray<string>>>
  /** What a pixel may come of: across, and down. */
  readonly across: (value: number) => number
  readonly down: (value: number) => number
  /** What notches may come of. */
  readonly notches: (value: number) => number
  /** Words that mean that the task cannot be done, without a call. */
  readonly refusals: ReadonlyArray<string>
}

const checkCode = (code: string, fields: Fields, rules: Rules): void => {
  const { numbers, texts } = within(fields)
  const name = String(fields[rules.name])
  const keys = new Set(texts.flatMap((one) => [one, ...one.split(/[\s+]+/), one.slice(-1)]).map(keyName))
  for (const line of code.split("\n")) {
    const [, seconds] = /^time\.sleep\((.*)\)$/.exec(line) ?? []
    if (seconds !== undefined) {
      assert.strictEqual(name, "hold_key")
      assert.include(numbers, Number(seconds))
      continue
    }
    const [parsed] = linesOf(line) ?? []
    if (parsed === undefined) assert.fail(line)
    assert.include(rules.verbs[parsed.name] ?? [], name, line)
    const scrolls = parsed.name.endsWith("croll")
    const [x, y] = scrolls ? parsed.numbers.slice(1) : parsed.numbers
    if (scrolls) assert.isTrue(numbers.some((one) => Math.abs(rules.notches(one)) === Math.abs(parsed.numbers[0] ?? 0)))
    if (x !== undefined)
      assert.isTrue(
        numbers.some((one) => rules.across(one) === x),
        `${x} in ${JSON.stringify(fields)}`
      )
    if (y !== undefined)
      assert.isTrue(
        numbers.some((one) => rules.down(one) === y),
        `${y} in ${JSON.stringify(fields)}`
      )
    for (const one of parsed.texts) {
      if (parsed.name === "write") assert.strictEqual(String(fields["text"]).replaceAll("\r\n", "\n"), one)
      else assert.isTrue(keys.has(one), `${one} in ${JSON.stringify(fields)}`)
    }
  }
}

/**
 * What was read is what the reply holds. Without a call: DONE where there are words, and FAIL where they refuse. With
 * calls: their actions in order and each once, screenshots left out unless there is nothing else; the code of each is made
 * of that action's own name, numbers and texts. `[INFEASIBLE]` in the text is FAIL and nothing else.
 */
export const check = (reply: AssistantMessage, { decisions }: Read, rules: Rules): void => {
  const tags = decisions.map(({ _tag }) => _tag)
  const calls = reply.computerCalls.flatMap((call) => call.actions)
  const meant = calls.filter((fields) => fields[rules.name] !== "screenshot")
  if (reply.text.includes("[INFEASIBLE]")) {
    assert.deepStrictEqual(tags, ["Fail"])
  } else if (reply.computerCalls.length === 0) {
    const refuses = rules.refusals.some((word) => reply.text.toLowerCase().includes(word))
    assert.deepStrictEqual(tags, [refuses ? "Fail" : "Done"])
    assert.notStrictEqual(reply.text.trim(), "")
    assert.lengthOf(reply.toolCalls, 0)
  } else if (meant.length === 0) {
    assert.isAbove(calls.length, 0)
    assert.deepStrictEqual(tags, ["Wait"])
  } else {
    assert.lengthOf(reply.toolCalls, 0)
    assert.lengthOf(decisions, meant.length)
    for (const [index, decision] of decisions.entries()) {
      const fields = meant[index] ?? {}
      if (decision._tag === "Act") checkCode(decision.action.code, fields, rules)
      else assert.deepStrictEqual([decision._tag, fields[rules.name]], ["Wait", "wait"])
    }
  }
}
