import { assert, describe, it } from "@effect/vitest"
import * as FastCheck from "effect/FastCheck"
import { rowScanner, type ScannedRow, type Selection } from "../../../src/rollout/internal/report/rowScan.js"

const selection: Selection = { values: ["index", "meta.id", "meta.score"], lengths: ["meta.steps"] }

const scan = (text: string | Uint8Array, chunk = Number.POSITIVE_INFINITY): ReadonlyArray<ScannedRow> => {
  const bytes = typeof text === "string" ? Buffer.from(text) : text
  const scanner = rowScanner(selection)
  const rows: Array<ScannedRow> = []
  for (let at = 0; at < bytes.length; at += chunk) rows.push(...scanner.feed(bytes.subarray(at, at + chunk)))
  return [...rows, ...scanner.end()]
}

const found = (row: ScannedRow | undefined): unknown =>
  row === undefined || typeof row.row === "string" ? row?.row : Object.fromEntries(row.row)

/** What the scanner should find of a row, by way of JSON.parse. */
const expected = (json: string): unknown => {
  const row: unknown = JSON.parse(json)
  if (typeof row !== "object" || row === null || Array.isArray(row)) return undefined
  const result: Record<string, unknown> = {}
  const at = (value: unknown, key: string): unknown =>
    typeof value === "object" && value !== null && !Array.isArray(value) && Object.hasOwn(value, key)
      ? Reflect.get(value, key)
      : undefined
  for (const path of selection.values) {
    const value = path.split(".").reduce(at, row)
    if (value !== undefined && (typeof value !== "object" || value === null)) result[path] = value
  }
  const steps = at(at(row, "meta"), "steps")
  if (Array.isArray(steps)) result["meta.steps"] = steps.length
  return result
}

const value = FastCheck.jsonValue({ maxDepth: 3, stringUnit: "binary" })

const row = FastCheck.record(
  {
    other: value,
    index: value,
    meta: FastCheck.oneof(
      value,
      FastCheck.record(
        { id: FastCheck.string({ unit: "grapheme" }), score: value, steps: FastCheck.array(value), rest: value },
        { requiredKeys: [] }
      )
    ),
    "meta.id": value,
    "": value
  },
  { requiredKeys: [] }
)

const sorted = (record: unknown) =>
  typeof record === "object" && record !== null ? Object.fromEntries(Object.entries(record).sort()) : record

describe("rowScanner", () => {
  it.prop(
    "finds what JSON.parse finds, however the bytes are cut",
    {
      rows: FastCheck.array(row, { maxLength: 4 }),
      chunk: FastCheck.integer({ min: 1, max: 40 }),
      space: FastCheck.constantFrom(0, 1)
    },
    ({ chunk, rows, space }) => {
      const lines = rows.map((row) => JSON.stringify(row, null, space).replaceAll("\n", " "))
      const scanned = scan(lines.map((line) => `${line}\n`).join(""), chunk)
      assert.deepStrictEqual(
        scanned.map((row) => sorted(found(row))),
        lines.map((line) => sorted(expected(line)))
      )
      assert.deepStrictEqual(
        scanned.map(({ line }) => line),
        lines.map((_, index) => index + 1)
      )
    },
    { fastCheck: { numRuns: 300 } }
  )

  it.prop(
    "takes as a row what JSON.parse takes for an object, and nothing else",
    { row, at: FastCheck.nat(), sign: FastCheck.constantFrom(...'{}[]",:\\0e.-+tn \tux\u0001') },
    ({ at, row, sign }) => {
      const json = JSON.stringify(row)
      const where = at % (json.length + 1)
      for (const text of [
        json.slice(0, where) + sign + json.slice(where),
        json.slice(0, where) + sign + json.slice(where + 1),
        json.slice(0, where)
      ]) {
        if (text.trim() === "") continue
        let takes = false
        try {
          takes = expected(text) !== undefined
        } catch {}
        const [scanned] = scan(`${text}\n`)
        assert.strictEqual(typeof scanned?.row !== "string", takes, text)
      }
    },
    { fastCheck: { numRuns: 300 } }
  )

  it("knows the escapes of JSON, and no others", () => {
    const texts = ["\\u12aF", "\\u12g4", "\\u123g", "\\u123", '\\n\\\\\\"', "\\x", "\\"].map(
      (text) => `{"meta":{"id":"${text}"},"other":"${text}"}`
    )
    for (const text of texts) {
      let right: unknown
      try {
        right = expected(text)
      } catch {}
      const [row] = scan(`${text}\n`)
      if (right === undefined) assert.isString(row?.row, text)
      else assert.deepStrictEqual(found(row), right)
    }
  })

  it("says where a line is wrong, and goes on with the next", () => {
    assert.deepStrictEqual(
      scan('\n{"index":1}\n{"index":}\n  \n[1]\n{"index":01}\n{"index":6}\n').map((row) => [row.line, found(row)]),
      [
        [2, { index: 1 }],
        [3, "unexpected } (byte 10)"],
        [5, "it is no object (byte 1)"],
        [6, '"01" is no value (byte 12)'],
        [7, { index: 6 }]
      ]
    )
  })

  it("tells a last line without its newline, whole or not", () => {
    assert.deepStrictEqual(
      scan('{"index":1}\n{"index":2}').map(({ torn }) => torn),
      [false, true]
    )
    assert.deepStrictEqual(scan('{"index":1}\n{"ind').map(found), [{ index: 1 }, "it ends in the middle"])
  })

  it("takes from a key that comes twice what it had last", () => {
    assert.deepStrictEqual(scan('{"index":1,"meta":{"id":"a"},"index":{},"meta":{"score":2}}\n').map(found), [
      { "meta.score": 2 }
    ])
  })

  it("cuts a long text between two characters", () => {
    const [row] = scan(`${JSON.stringify({ meta: { id: "é".repeat(5000) } })}\n`)
    assert.deepStrictEqual(found(row), { "meta.id": `${"é".repeat(2048)}…` })
  })

  it("keeps nothing of what nobody asked for", () => {
    const scanner = rowScanner(selection)
    scanner.feed(Buffer.from('{"index":7,"payload":"'))
    const chunk = Buffer.alloc(1 << 20, "x")
    // Were the 64 MiB kept, as numbers in an array they would be half a gigabyte.
    const before = process.memoryUsage()
    for (let mebibyte = 0; mebibyte < 64; mebibyte++) scanner.feed(chunk)
    const after = process.memoryUsage()
    assert.isBelow(after.heapUsed + after.external - before.heapUsed - before.external, 32 * 1024 * 1024)
    assert.deepStrictEqual(scanner.feed(Buffer.from('"}\n')).map(found), [{ index: 7 }])
  })
})
