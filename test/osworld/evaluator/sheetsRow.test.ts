/** How a sheet's cells are kept and how their numbers are read, beside what JavaScript itself has for both. */
import { assert, describe, it } from "@effect/vitest"
import * as FastCheck from "effect/FastCheck"
import { readPalette } from "../../../src/osworld/evaluator/internal/sheets/colors.js"
import { Row } from "../../../src/osworld/evaluator/internal/sheets/row.js"
import { UsualCells } from "../../../src/osworld/evaluator/internal/sheets/usualCells.js"
import { readStyles } from "../../../src/osworld/evaluator/internal/spreadsheetStyles.js"

const { plain: style } = readStyles(undefined, readPalette(undefined, undefined))
const look = { style, kind: "number", formula: false } as const

// Near each other, far apart and in any order.
const column = FastCheck.oneof(
  FastCheck.integer({ min: 1, max: 6 }),
  FastCheck.integer({ min: 1, max: 60 }),
  FastCheck.integer({ min: 1, max: 16_384 })
)
const date = { _tag: "Date", millis: 0 } as const
const content = FastCheck.constantFrom(
  { value: null, stored: null },
  { value: "", stored: "" },
  { value: "a", stored: "a" },
  { value: 1.5, stored: 1.5 },
  { value: false, stored: false },
  { value: date, stored: 25_569 }
)
const write = FastCheck.record({ column, content, look: FastCheck.constantFrom(look, { ...look, formula: true }) })

describe("Row", () => {
  it("holds what was put there last, as a map does, beside rows that look alike", () => {
    // Each write to one of three rows, of which the second and third are made from the one above when they are first met.
    const writes = FastCheck.array(FastCheck.tuple(FastCheck.nat({ max: 2 }), write), { maxLength: 60 })
    FastCheck.assert(
      FastCheck.property(writes, column, (writes, other) => {
        const rows: Array<Row> = []
        const models = [0, 1, 2].map(() => new Map<number, (typeof writes)[number][1]>())
        for (const [wanted, each] of writes) {
          const at = Math.min(wanted, rows.length)
          const row = rows[at] ?? new Row(rows[at - 1])
          rows[at] = row
          row.set(each.column, each.content.value, each.content.stored, each.look)
          models[at]?.set(each.column, each)
        }
        for (const [i, row] of rows.entries()) {
          const model = models[i] ?? new Map<number, never>()
          assert.strictEqual(row.size, model.size)
          assert.sameMembers([...row.columns()], [...model.keys()])
          for (const at of [...model.keys(), other]) {
            const known = model.get(at)
            assert.strictEqual(row.has(at), known !== undefined)
            assert.strictEqual(row.value(at), known?.content.value)
            assert.deepStrictEqual(
              row.get(at),
              known && { ...known.content, style: known.look.style, formula: known.look.formula }
            )
          }
          const isText = (value: unknown) => value === "a"
          const texts = [...model].filter(([, { content }]) => isText(content.value)).map(([at]) => at)
          assert.strictEqual(row.last(isText), Math.max(0, ...texts))
        }
      }),
      { numRuns: 1_000 }
    )
  })

  it("takes no room for the columns between a cell and a far one", () => {
    // What it takes is told by its fields: the lists of 300 such rows would have five million places.
    for (const far of [40, 16_384]) {
      const row = new Row()
      row.set(1, 1, 1, look)
      row.set(far, 2, 2, look)
      assert.isBelow(JSON.stringify(row).length, 2_000)
      assert.deepStrictEqual([...row.columns()], [1, far])
    }
  })
})

describe("UsualCells", () => {
  const read = (...values: ReadonlyArray<string>) => {
    const cells = new UsualCells()
    const text = `<row>${values.map((value) => `<c r="AB12" s="3" t="n"><v>${value}</v></c>`).join("")}</row>`
    const seen: Array<readonly [number, string]> = []
    let at = "<row>".length
    while (cells.open(text, at)) {
      while (cells.next()) seen.push([cells.number, cells.content()])
      at = cells.at
    }
    assert.strictEqual(at, text.length - "</row>".length)
    return { cells, seen }
  }

  it("reads decimals to the last bit", () => {
    const digits = FastCheck.stringMatching(/^[0-9]{0,12}$/)
    const decimal = FastCheck.tuple(FastCheck.constantFrom("", "-"), digits, FastCheck.constantFrom("", "."), digits)
    FastCheck.assert(
      FastCheck.property(FastCheck.array(decimal, { maxLength: 5 }), FastCheck.double(), (parts, number) => {
        const texts = [...parts.map((part) => part.join("")), String(number)]
        for (const [value, text] of read(...texts).seen) {
          if (!Number.isNaN(value)) assert.strictEqual(value, Number(text))
        }
        assert.deepStrictEqual(
          read(...texts).seen.map(([, text]) => text),
          texts
        )
      }),
      { numRuns: 2_000 }
    )
    const plain = ["0", "007", "-0.5", ".5", "5.", "0.1", "123456789012345", "9945.6"]
    assert.deepStrictEqual(
      read(...plain).seen.map(([value]) => value),
      plain.map(Number)
    )
  })

  it("leaves what is no plain decimal, or too long for one, to others", () => {
    for (const text of ["", " 1", "1 ", ".", "-", "1e3", "0x10", "1.2.3", "+1", "1234567890123456", "1-2"]) {
      assert.deepStrictEqual(read(text).seen, [[Number.NaN, text]])
    }
  })

  it("reads place, style and type", () => {
    const cells = new UsualCells()
    const fields = (text: string) => {
      assert.isTrue(cells.open(text, 0))
      assert.isTrue(cells.next())
      return [cells.column, cells.row, cells.style, cells.type]
    }
    assert.deepStrictEqual(fields('<c r="AB12" s="34" t="str"><v>1</v></c>'), [28, 12, 34, "str"])
    assert.deepStrictEqual(fields('<c r="XFD1048576" t="s"><v>1</v></c>'), [16_384, 1_048_576, 0, "s"])
    assert.deepStrictEqual(fields('<c r="A1"><v>1</v></c>'), [1, 1, 0, "n"])
  })

  it("goes over more cells than one match takes", () => {
    const values = Array.from({ length: 200 }, (_, i) => String(i))
    assert.deepStrictEqual(
      read(...values).seen.map(([value]) => value),
      values.map(Number)
    )
  })
})
