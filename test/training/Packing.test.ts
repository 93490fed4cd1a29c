import { performance } from "node:perf_hooks"
import { assert, describe, it } from "@effect/vitest"
import * as FC from "effect/FastCheck"
import * as Schema from "effect/Schema"
import * as Packing from "../../src/training/Packing.js"
import { left, right, vector } from "./dataFixture.js"

const numbers = Schema.Array(Schema.Number)
const bins = Schema.Array(numbers)

const pack = (
  lengths: ReadonlyArray<number>,
  packer: Packing.Packer,
  capacity: number,
  more: Partial<Packing.PackOptions> = {}
) => Packing.pack(lengths, { packer, capacity, random: () => 0.3, ...more })

describe("packing, from training-vectors.json", () => {
  it("pack.algorithms", () => {
    const { inputs, outputs } = vector(
      "pack.algorithms",
      Schema.Struct({ lengths: numbers, capacity: Schema.Number }),
      Schema.Struct({ concatenative: bins, ffd: bins, mffd: bins, bin_totals_mffd: numbers })
    )
    const of = (packer: Packing.Packer) => right(pack(inputs.lengths, packer, inputs.capacity))
    assert.deepStrictEqual(of("concatenative"), outputs.concatenative)
    assert.deepStrictEqual(of("first_fit_decreasing"), outputs.ffd)
    assert.deepStrictEqual(of("modified_first_fit_decreasing"), outputs.mffd)
    assert.deepStrictEqual(
      of("modified_first_fit_decreasing").map((bin) => bin.reduce((sum, row) => sum + (inputs.lengths[row] ?? 0), 0)),
      outputs.bin_totals_mffd
    )
    for (const packer of Packing.Packer.literals) {
      const error = left(pack([50, 101], packer, 100))
      assert.deepStrictEqual([error.reason, error.row], ["capacity", 1])
    }
  })

  it("pack.cu_seqlens", () => {
    const { inputs, outputs } = vector(
      "pack.cu_seqlens",
      Schema.Struct({ lengths: numbers, per_sequence_multiple: Schema.Number, total_multiple: Schema.Number }),
      Schema.Struct({ padded: numbers, cu_seqlens_padded: numbers, cu_seqlens: numbers, total: Schema.Number })
    )
    // cp 2, tp 2
    assert.strictEqual(Packing.rowMultiple(2, 2), inputs.per_sequence_multiple)
    const { cuSeqlens, cuSeqlensPadded, padded, total } = right(
      Packing.layout(inputs.lengths, {
        rowMultiple: inputs.per_sequence_multiple,
        totalMultiple: inputs.total_multiple
      })
    )
    assert.deepStrictEqual(
      {
        padded: Array.from(padded),
        cu_seqlens_padded: Array.from(cuSeqlensPadded),
        cu_seqlens: Array.from(cuSeqlens),
        total
      },
      outputs
    )
  })
})

describe("a layout", () => {
  it("fills the last row up to the multiple of the whole", () => {
    const { cuSeqlensPadded, padded, total } = right(Packing.layout([5, 8], { rowMultiple: 8, totalMultiple: 32 }))
    assert.deepStrictEqual([Array.from(padded), Array.from(cuSeqlensPadded), total], [[8, 24], [0, 8, 32], 32])
    assert.strictEqual(left(Packing.layout([0], { rowMultiple: 8 })).reason, "length")
    assert.strictEqual(left(Packing.layout([1], { rowMultiple: 0 })).reason, "options")
  })
})

describe("values by token", () => {
  it("lie where their rows do, and are 0 where these are padded", () => {
    const layout = right(Packing.layout([2, 3], { rowMultiple: 4 }))
    assert.deepStrictEqual(
      Array.from(
        right(
          Packing.lay(
            [
              [1, 1],
              [1, 0, 1]
            ],
            layout
          )
        )
      ),
      [1, 1, 0, 0, 1, 0, 1, 0]
    )
    assert.strictEqual(left(Packing.lay([[1, 1, 1, 1, 1], [1]], layout)).row, 0)
    assert.strictEqual(left(Packing.lay([[1]], layout)).reason, "options")
  })
})

/** Definitions as one would say them, in as many passes as it takes. */
const plainFirstFit = (lengths: ReadonlyArray<number>, capacity: number): Array<Array<number>> => {
  const order = lengths.map((length, row) => ({ length, row })).sort((a, b) => b.length - a.length || b.row - a.row)
  const found: Array<{ room: number; rows: Array<number> }> = []
  for (const { length, row } of order) {
    const bin = found.find(({ room }) => room >= length)
    if (bin === undefined) found.push({ room: capacity - length, rows: [row] })
    else {
      bin.room -= length
      bin.rows.push(row)
    }
  }
  return found.map(({ rows }) => rows)
}

const plainModified = (lengths: ReadonlyArray<number>, capacity: number): Array<Array<number>> => {
  const of = (row: number) => lengths[row] ?? 0
  const all = [...lengths.keys()]
  const within = (low: number, high: number) => all.filter((row) => of(row) > low && of(row) <= high)
  const take = (from: Array<number>, index: number) => from.splice(index, 1)
  const medium = within(capacity / 3, capacity / 2).sort((a, b) => of(b) - of(a))
  const small = within(capacity / 6, capacity / 3).sort((a, b) => of(a) - of(b))
  const tiny = within(0, capacity / 6).sort((a, b) => of(a) - of(b))
  const found = within(capacity / 2, capacity)
    .sort((a, b) => of(b) - of(a))
    .map((row) => [row])
  const room = (bin: Array<number>) => capacity - bin.reduce((sum, row) => sum + of(row), 0)
  for (const bin of found) {
    const index = medium.findIndex((row) => of(row) <= room(bin))
    if (index >= 0) bin.push(...take(medium, index))
  }
  for (const bin of found.toReversed()) {
    if (bin.length > 1 || of(small[0] ?? -1) + of(small[1] ?? -1) > room(bin) || small.length < 2) continue
    bin.push(...take(small, 0))
    bin.push(
      ...take(
        small,
        small.findLastIndex((row) => of(row) <= room(bin))
      )
    )
  }
  const rest = [...medium, ...small, ...tiny].sort((a, b) => of(b) - of(a))
  for (const bin of found) {
    for (let index = 0; index >= 0; ) {
      index = rest.findIndex((row) => of(row) <= room(bin))
      if (index >= 0) bin.push(...take(rest, index))
    }
  }
  const left: Array<Array<number>> = []
  for (const row of rest) {
    const bin = left[0] !== undefined && of(row) <= room(left[0]) ? (left.shift() ?? []) : []
    bin.push(row)
    const place = left.findIndex((other) => room(other) < room(bin))
    left.splice(place < 0 ? left.length : place, 0, bin)
  }
  return [...found, ...left]
}

const rows = FC.record({
  capacity: FC.integer({ min: 6, max: 60 }),
  shares: FC.array(FC.double({ min: 0, max: 1, noNaN: true }), { maxLength: 60 })
}).map(({ capacity, shares }) => ({
  capacity,
  lengths: shares.map((share) => 1 + Math.floor(share * (capacity - 1)))
}))

describe("packers", () => {
  it.prop(
    "put every row in one bin, none over its capacity, none empty, and as many bins as asked for",
    {
      given: rows,
      packer: FC.constantFrom(...Packing.Packer.literals),
      minBins: FC.nat({ max: 5 }),
      binMultiple: FC.integer({ min: 1, max: 4 })
    },
    ({ binMultiple, given: { capacity, lengths }, minBins, packer }) => {
      const found = pack(lengths, packer, capacity, { minBins, binMultiple })
      if (found._tag === "Left") {
        assert.strictEqual(found.left.reason, "too_few")
        const free = right(pack(lengths, packer, capacity))
        assert.isBelow(lengths.length, Math.ceil(Math.max(minBins, free.length) / binMultiple) * binMultiple)
        return
      }
      assert.deepStrictEqual(
        found.right.flat().sort((a, b) => a - b),
        [...lengths.keys()]
      )
      for (const bin of found.right) {
        assert.isAbove(bin.length, 0)
        assert.isAtMost(
          bin.reduce((sum, row) => sum + (lengths[row] ?? 0), 0),
          capacity
        )
      }
      assert.isAtLeast(found.right.length, minBins)
      assert.strictEqual(found.right.length % binMultiple, 0)
    }
  )

  it.prop("give the bins of their definition", { given: rows }, ({ given: { capacity, lengths } }) => {
    assert.deepStrictEqual(right(pack(lengths, "first_fit_decreasing", capacity)), plainFirstFit(lengths, capacity))
    assert.deepStrictEqual(
      right(pack(lengths, "modified_first_fit_decreasing", capacity)),
      plainModified(lengths, capacity)
    )
  })

  it("more bins are made of the last rows of the fullest ones", () => {
    // Bins [0,1,2] and [3,4]: the first gives until it holds one row.
    const given = pack([3, 3, 3, 5, 5], "concatenative", 10, { minBins: 5 })
    assert.deepStrictEqual(right(given), [[0], [3], [2], [1], [4]])
    assert.strictEqual(left(pack([3], "concatenative", 10, { minBins: 2 })).reason, "too_few")
    assert.deepStrictEqual(right(pack([], "modified_first_fit_decreasing", 10)), [])
  })

  it("refuse what they cannot do", () => {
    for (const packer of Packing.Packer.literals) {
      assert.deepStrictEqual(
        [0, -1, 1.5, Number.NaN].map((length) => left(pack([1, length], packer, 10)).reason),
        ["length", "length", "length", "length"]
      )
      assert.strictEqual(left(pack([1], packer, 0)).reason, "options")
      assert.strictEqual(left(pack([1], packer, 10, { minBins: -1 })).reason, "options")
      assert.strictEqual(left(pack([1], packer, 10, { binMultiple: 0 })).reason, "options")
    }
    assert.strictEqual(left(Packing.pack([1], { packer: "first_fit_shuffle", capacity: 10 })).reason, "options")
  })

  it("pack 10,000 rows in less than 200 ms each", () => {
    let state = 1
    const random = () => {
      state = (Math.imul(state, 48271) >>> 0) % 2147483647
      return state / 2147483647
    }
    const lengths = Array.from({ length: 10_000 }, () => 1 + Math.floor(random() ** 2 * 49_151))
    for (const packer of Packing.Packer.literals) {
      const began = performance.now()
      right(Packing.pack(lengths, { packer, capacity: 49_152, random }))
      assert.isBelow(performance.now() - began, 200, packer)
    }
  })
})
