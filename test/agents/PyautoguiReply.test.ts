import { assert, describe, it } from "@effect/vitest"
import { parse } from "../../src/agents/PyautoguiReply.js"
import vectors from "../vectors/osworld-gym-vectors.json" with { type: "json" }

const actions = (reply: string): ReadonlyArray<string> =>
  parse(reply).map((decision) => (decision._tag === "Act" ? decision.action.code : decision._tag.toUpperCase()))

/** Where the vectors record a hole of the program that made them, the sensible reading, and why. */
const sensible = new Map<string, { readonly actions: ReadonlyArray<string>; readonly why: string }>([
  ["```WAIT\n```", { actions: ["WAIT"], why: "a word on the fence's first line is no language tag" }],
  ["```x = 1\ny```", { actions: ["x = 1\ny"], why: "code on the fence's first line keeps its first word" }],
  ["done", { actions: ["DONE"], why: "a word alone counts in any case" }],
  ["```done```", { actions: ["DONE"], why: "a word alone counts in any case, and is no Python" }],
  [
    "<think>never closed ```python\na()\n```",
    { actions: [], why: "a thought that was cut off holds nothing that was meant" }
  ]
])

describe("PyautoguiReply.parse", () => {
  for (const vector of vectors.gym_pyautogui_parse) {
    const other = sensible.get(vector.text)
    it(`${JSON.stringify(vector.text)}${other === undefined ? "" : `: ${other.why}`}`, () => {
      assert.deepStrictEqual(actions(vector.text), other?.actions ?? vector.actions)
    })
  }

  it("has no exception that the vectors do not need", () => {
    for (const [text, { actions: expected }] of sensible) {
      const vector = vectors.gym_pyautogui_parse.find((vector) => vector.text === text)
      assert.isDefined(vector)
      assert.notDeepEqual(vector?.actions, expected)
    }
  })

  // Readings that the vectors do not cover.
  for (const [reply, expected] of [
    ["```bash\nls\n```", []],
    ["a thought that the template began</think>```python\na()\n```", ["a()"]],
    ["```python\r\na()\r\n```", ["a()"]],
    ["```python\nx = 'a; b'\n```", ["x = 'a; b'"]],
    ["```python\nif x:\n    a()\nFAIL\n```", ["if x:\n    a()", "FAIL"]],
    ["", []]
  ] as const) {
    it(JSON.stringify(reply), () => {
      assert.deepStrictEqual(actions(reply), expected)
    })
  }
})
