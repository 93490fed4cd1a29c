import { execFileSync } from "node:child_process"
import { fileURLToPath } from "node:url"
import { assert, describe, it } from "@effect/vitest"
import * as FastCheck from "effect/FastCheck"
import * as Schema from "effect/Schema"
import { combination, keyName } from "../../../src/agents/internal/keys.js"
import { code, codeOfAll, type Input, whileDown } from "../../../src/agents/internal/pyautogui.js"

const python = (program: string, input: unknown): string =>
  execFileSync("/usr/bin/python3", ["-c", program], {
    input: JSON.stringify(input),
    encoding: "utf8",
    maxBuffer: 2 ** 28
  })

const point = FastCheck.record({ x: FastCheck.nat(3839), y: FastCheck.nat(2159) })
const maybe = FastCheck.oneof(
  FastCheck.constant({}),
  point.map((at) => ({ at }))
)
const key = FastCheck.constantFrom("a", "'", "\\", "ctrl", "enter", "f5")
const notches = FastCheck.integer({ min: -20, max: 20 })
const typed = FastCheck.oneof(
  FastCheck.string({ unit: "binary" }),
  FastCheck.array(
    FastCheck.constantFrom("'", '"', "\\", "\n", "\r\n", "\r", "')", "\nimport os", "{x}", "é", "𝄞", "\ud800", "\0")
  ).map((all) => all.join(""))
)

const input: FastCheck.Arbitrary<Input> = FastCheck.oneof(
  point.map((to): Input => ({ type: "move", to })),
  FastCheck.tuple(
    maybe,
    FastCheck.constantFrom("left" as const, "middle" as const, "right" as const),
    FastCheck.constantFrom(1 as const, 2 as const, 3 as const)
  ).map(([at, button, clicks]): Input => ({ type: "click", button, clicks, ...at })),
  FastCheck.tuple(FastCheck.option(point, { nil: undefined }), point).map(
    ([from, to]): Input => ({ type: "drag", to, seconds: 0.5, ...(from === undefined ? {} : { from }) })
  ),
  FastCheck.tuple(maybe, notches, notches).map(([at, right, up]): Input => ({ type: "scroll", right, up, ...at })),
  FastCheck.tuple(FastCheck.constantFrom("press" as const, "keyDown" as const, "keyUp" as const), key).map(
    ([type, key]): Input => ({ type, key })
  ),
  FastCheck.array(key, { minLength: 1, maxLength: 4 }).map((keys): Input => ({ type: "hotkey", keys })),
  FastCheck.constantFrom("mouseDown" as const, "mouseUp" as const).map((type): Input => ({ type })),
  FastCheck.tuple(point, FastCheck.array(point, { maxLength: 4 })).map(
    ([first, rest]): Input => ({ type: "path", points: [first, ...rest] })
  ),
  FastCheck.integer({ min: 0, max: 30 }).map((seconds): Input => ({ type: "pause", seconds })),
  typed.map((text): Input => ({ type: "write", text }))
)

type Seen = readonly [name: string, given: ReadonlyArray<unknown>, named: { readonly [key: string]: unknown }]

/** What pyautogui is to be asked for, said without any code. */
const meant = (input: Input): ReadonlyArray<Seen> => {
  switch (input.type) {
    case "move":
      return [["moveTo", [input.to.x, input.to.y], {}]]
    case "click": {
      const name = input.clicks === 1 ? "click" : input.clicks === 2 ? "doubleClick" : "tripleClick"
      const at = input.at === undefined ? [] : [input.at.x, input.at.y]
      return [[name, at, input.button === "left" ? {} : { button: input.button }]]
    }
    case "drag":
      return [
        ...(input.from === undefined ? [] : [["moveTo", [input.from.x, input.from.y], {}] as const]),
        ["dragTo", [input.to.x, input.to.y], { duration: 0.5, button: "left" }]
      ]
    case "scroll": {
      const at = input.at === undefined ? {} : { x: input.at.x, y: input.at.y }
      return [
        ...(input.up === 0 ? [] : [["scroll", [input.up], at] as const]),
        ...(input.right === 0 ? [] : [["hscroll", [input.right], at] as const])
      ]
    }
    case "mouseDown":
    case "mouseUp":
      return [[input.type, [], {}]]
    case "path": {
      const [first, ...rest] = input.points
      return [
        ["moveTo", [first.x, first.y], {}],
        ["mouseDown", [], {}],
        ...rest.map(({ x, y }) => ["moveTo", [x, y], { duration: 0.2 }] as const),
        ["mouseUp", [], {}]
      ]
    }
    case "pause":
      return [["sleep", [input.seconds], {}]]
    case "press":
    case "keyDown":
    case "keyUp":
      return [[input.type, [input.key], {}]]
    case "hotkey":
      return [["hotkey", input.keys, {}]]
    case "write":
      return [["write", [input.text.replaceAll("\r\n", "\n")], {}]]
  }
}

// Runs each code with a pyautogui that takes down what it is asked for.
const recorder = `
import json, sys
class Recorder:
    def __getattr__(self, name):
        return lambda *given, **named: seen.append([name, given, named])
answers = []
for code in json.load(sys.stdin):
    seen = []
    exec(code, {"pyautogui": Recorder(), "time": Recorder(), "__builtins__": {}})
    answers.append(seen)
print(json.dumps(answers))`

describe("pyautogui code", () => {
  it("asks pyautogui for what the input says and for nothing else, as Python reads it: 3,000 inputs", () => {
    const inputs = FastCheck.sample(input, 3000)
    const seen: unknown = JSON.parse(python(recorder, inputs.map(code)))
    assert.deepStrictEqual(seen, JSON.parse(JSON.stringify(inputs.map(meant))))
  })

  it.prop("is printable ASCII, one call a line", [input], ([input]) => {
    for (const line of code(input).split("\n"))
      assert.match(line, /^(?:(?:pyautogui|time)\.[A-Za-z]+\([\x20-\x7e]*\))?$/)
  })
})

describe("whileDown", () => {
  it("lets go of the keys the other way round", () => {
    const inputs = whileDown(["ctrl", "shift"], { type: "click", button: "left", clicks: 1 })
    assert.deepStrictEqual(codeOfAll(inputs).split("\n"), [
      "pyautogui.keyDown('ctrl')",
      "pyautogui.keyDown('shift')",
      "pyautogui.click()",
      "pyautogui.keyUp('shift')",
      "pyautogui.keyUp('ctrl')"
    ])
  })
})

describe("keys", () => {
  it("have names that the desktop's own pyautogui has keys for", () => {
    const guest = fileURLToPath(new URL("../../../src/desktop/guest/python", import.meta.url))
    const program = `
import json, sys
sys.path.insert(0, ${JSON.stringify(guest)})
from pyautogui import _keys
print(json.dumps({name: _keys.lookup(name) is not None for name in list(_keys.KEY_NAMES) + list(_keys._HINTS)}))`
    const Known = Schema.decodeUnknownSync(Schema.Record({ key: Schema.String, value: Schema.Boolean }))
    const known = Known(JSON.parse(python(program, null)))
    const names = Object.keys(known)
    assert.isAbove(names.length, 200)
    let found = 0
    for (const name of names) {
      const ours = keyName(name)
      if (ours === undefined) continue
      found++
      assert.isTrue(known[ours], `${name} is ${ours}, which is no key`)
    }
    assert.isAbove(found, 150)
  })

  // From the tables of the formats: what models write, and what pyautogui calls it.
  for (const [text, expected] of [
    ["ctrl c", ["ctrl", "c"]],
    ["Control+Shift+T", ["ctrl", "shift", "t"]],
    ["ctrl +", ["ctrl", "+"]],
    ["ctrl++", ["ctrl", "+"]],
    ["arrowleft", ["left"]],
    ["Page_Down", ["pagedown"]],
    ["Return", ["enter"]],
    [" ", ["space"]],
    ["super", ["win"]],
    ["F5", ["f5"]],
    ["", undefined],
    ["ctrl nonsense", undefined],
    ["constructor", undefined],
    ["__proto__", undefined]
  ] as const) {
    it(`${JSON.stringify(text)} is ${expected === undefined ? "no combination" : expected.join(", ")}`, () => {
      assert.deepStrictEqual(combination(text), expected === undefined ? undefined : [...expected])
    })
  }
})
