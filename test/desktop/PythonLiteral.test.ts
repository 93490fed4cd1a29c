import { execFileSync } from "node:child_process"
import { assert, describe, it } from "@effect/vitest"
import * as FastCheck from "effect/FastCheck"
import * as PythonLiteral from "../../src/desktop/PythonLiteral.js"

// UTF-16 units, not characters: lone surrogates come up.
const text = FastCheck.array(
  FastCheck.oneof(
    FastCheck.integer({ min: 0, max: 0xffff }),
    FastCheck.integer({ min: 0, max: 0x17f }),
    FastCheck.constantFrom(..."'\"\\\n\r{}<>").map((character) => character.charCodeAt(0))
  )
).map((units) => String.fromCharCode(...units))

describe("PythonLiteral", () => {
  it("is read back by Python as the same text", () => {
    const texts = [
      "",
      "'",
      "\\",
      "a\nb",
      "😀",
      "\ud800",
      "\udc00\ud800",
      ...FastCheck.sample(text, { numRuns: 3000, seed: 3 })
    ]
    const program = `
import ast, json, sys
for line in sys.stdin:
    print(json.dumps(ast.literal_eval(line.rstrip("\\n"))))`
    const answers = execFileSync("/usr/bin/python3", ["-c", program], {
      input: `${texts.map(PythonLiteral.fromString).join("\n")}\n`,
      encoding: "utf8"
    })
    assert.deepStrictEqual(
      answers
        .trimEnd()
        .split("\n")
        .map((line): unknown => JSON.parse(line)),
      texts
    )
  })

  it.prop("is printable ASCII on one line", [text], ([text]) => {
    assert.match(PythonLiteral.fromString(text), /^'[\x20-\x7e]*'$/)
  })

  it("writes lists", () => {
    assert.strictEqual(PythonLiteral.fromStrings(["a'b", "c"]), "['a\\'b', 'c']")
  })
})
