import { assert, describe, it } from "@effect/vitest"
import { syntaxError } from "../../../src/agents/internal/python.js"

// What `compile(code, "x", "exec")` of CPython 3.11 takes and refuses.
const compiles = [
  "",
  "# nothing",
  "pyautogui.click(100, 200)",
  "x = 400.",
  "if x: a(); b()",
  "while True: pass\nelse: pass",
  "a: int = 3",
  "with (a as b, c as d):\n  pass",
  "match x:\n  case 1:\n    pass",
  "lambda: (yield)",
  "f'{a!r:>{w}}'",
  "'abc' 'def'",
  "x\\\n= 3",
  "(x := 3)",
  "f(*a, **b)",
  "\f\na()",
  "a()\r\nb()",
  "é = 1",
  "'“'",
  "def f(a, /, b, *, c): return b",
  "async def f():\n  await x",
  "DONE",
  "import os\nos.system('ls')",
  "bash\nls"
]
const refused = [
  "if True",
  "print x",
  "a b",
  "'abc",
  '"""abc',
  "  a()",
  "a()\n  b()",
  "if x:\na()",
  "if x:\n    a()\n  b()",
  "print(“hi”)",
  "a(b=1, 2)",
  "0777",
  "a()\\nb()",
  "a();;b()",
  "f() = 3",
  "None = 1",
  "x = 1 if y",
  "b'é'",
  "\u200bclick()",
  "return 1",
  "break",
  "x = yield",
  "await x",
  "from __future__ import annotations",
  "try:\n  a()",
  "x <> y",
  "%matplotlib inline",
  "f'{'",
  "a()\u0000",
  "def f(x, x): pass"
]

describe("syntaxError", () => {
  for (const code of compiles) it(`${JSON.stringify(code)} compiles`, () => assert.isUndefined(syntaxError(code)))

  for (const code of refused) {
    it(`${JSON.stringify(code)} does not`, () => assert.match(syntaxError(code) ?? "", /^Invalid Python action: /))
  }

  it("says where, in lines and characters of the code", () => {
    assert.match(syntaxError("a()\nx = 'éé' b") ?? "", /\(line 2, offset 10\)$/)
  })

  it("is there again after code that it cannot bear", () => {
    assert.match(syntaxError("(".repeat(50_000)) ?? "", /nested too deeply/)
    assert.isUndefined(syntaxError("a()"))
    assert.match(syntaxError("a(") ?? "", /line/)
  })
})
