import { assert, describe, it } from "@effect/vitest"
import * as Either from "effect/Either"
import * as FastCheck from "effect/FastCheck"
import * as CellRange from "../../../src/osworld/evaluator/internal/cellRange.js"
import * as PythonRegex from "../../../src/osworld/evaluator/internal/pythonRegex.js"
import { matches } from "../../../src/osworld/evaluator/Rule.js"
import { rightOf } from "./support.js"

const holds = (value: unknown, method: string, ref: unknown) => rightOf(matches(value, { method, ref }))

describe("Rule", () => {
  it("compares", () => {
    assert.isTrue(holds([1, { a: 2 }], "eq", [1, { a: 2 }]))
    assert.isFalse(holds("1", "eq", 1))
    assert.isTrue(holds(1, "ne", 2))
    assert.isTrue(holds(1, "lt", 2))
    assert.isFalse(holds("1", "lt", 2))
    assert.isTrue(holds("a", "le", "a"))
    assert.isTrue(holds([1, 2], "gt", [1]))
    assert.isFalse(holds(null, "ge", 0))
  })

  it("approx and range", () => {
    assert.isTrue(holds(0.3, "approx:0.1", 0.25))
    assert.isTrue(holds("-3670.05", "approx:0.1", -3670))
    assert.isFalse(holds("x", "approx:0.1", 0))
    assert.isFalse(holds(null, "approx:0.1", 0))
    assert.isTrue(holds(1, "range.et", [1, 2]))
    assert.isFalse(holds(2, "range.et", [1, 2]))
    assert.isFalse(holds(1, "range.tt", [1, 2]))
    assert.isTrue(holds(2, "range.te", [1, 2]))
  })

  it("re and lists", () => {
    assert.isTrue(holds("a\nb", "re.S", "a.b"))
    assert.isFalse(holds("a\nb", "re", "a.b"))
    assert.isTrue(holds("the SMART mode", "re.I", "\\bsmart\\b"))
    assert.isTrue(holds('"b,a"', "str_set_eq", ["a", "b"]))
    assert.isFalse(holds('"b,a"', "str_list_eq", ["a", "b"]))
    assert.isTrue(holds('"a,b"', "str_list_eq", ["a", "b"]))
  })

  it("spreadsheet_range", () => {
    const ref = [["D2:D29"], ["D2:D1048576"]]
    assert.isTrue(holds("D2:D40", "spreadsheet_range", ref))
    assert.isTrue(holds("D2:D20 D21:D29", "spreadsheet_range", ref))
    assert.isFalse(holds("D2:D28", "spreadsheet_range", ref))
    assert.isFalse(holds("D1:D40", "spreadsheet_range", ref))
    assert.isFalse(holds("C2:D40", "spreadsheet_range", ref))
  })

  it("a rule that makes no sense is no mismatch", () => {
    for (const [method, ref] of [
      ["equals", 1],
      ["re", 5],
      ["re", "("],
      ["approx:x", 1],
      ["range.ee", [1]],
      ["str_set_eq", "a"],
      ["spreadsheet_range", ["A1"]]
    ] as const) {
      assert.isTrue(Either.isLeft(matches("a", { method, ref })), method)
    }
  })

  // Results of Python 3.11's re.search.
  it("Python's patterns mean what they mean in Python", () => {
    const finds = (pattern: string, text: string) => rightOf(PythonRegex.compile(pattern)).test(text)
    assert.isTrue(finds("^ab$", "ab\n"))
    assert.isFalse(finds("^ab$", "ab\nb"))
    assert.isFalse(finds("\\Aab\\Z", "ab\n"))
    assert.isTrue(finds("a.c", "a\u2028c"))
    assert.isFalse(finds("\\bsmart\\b", "smarté"))
    assert.isTrue(finds("^\\w+$", "歡é_1"))
    assert.isTrue(finds("\\d{2,}", "٣٤"))
    assert.isTrue(finds("x{,2}y", "xxy"))
    assert.isTrue(finds("{foo}", "{foo}"))
    assert.isTrue(finds("a\\-b\\_", "a-b_"))
    assert.isTrue(finds("(?P<q>['\"]).*?(?P=q)", "'x'"))
    assert.isTrue(finds("(?i)ABC", "abc"))
    assert.isTrue(finds("[]a]", "]"))
  })

  const rectangle = FastCheck.tuple(
    FastCheck.integer({ min: 1, max: 6 }),
    FastCheck.integer({ min: 1, max: 6 }),
    FastCheck.integer({ min: 0, max: 3 }),
    FastCheck.integer({ min: 0, max: 3 })
  ).map(([top, left, height, width]) => ({ top, left, bottom: top + height, right: left + width }))
  const rectangles = FastCheck.array(rectangle, { maxLength: 4 })

  it.prop("covers agrees with counting cells", [rectangles, rectangles], ([outer, inner]) => {
    const cells = (list: ReadonlyArray<CellRange.Rectangle>) =>
      new Set(
        Array.from({ length: 100 }, (_, i) => i).filter((i) =>
          list.some((each) => CellRange.contains(each, Math.floor(i / 10), i % 10))
        )
      )
    const outside = cells(outer)
    assert.strictEqual(
      CellRange.covers(outer, inner),
      Array.from(cells(inner)).every((cell) => outside.has(cell))
    )
  })
})
