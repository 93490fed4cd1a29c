import { assert } from "@effect/vitest"
import type { Objective, StepInputs } from "../../src/training/Objective.js"
import { mulberry32 } from "../../src/training/Random.js"
import { groupBy } from "../../src/training/StepColumns.js"

export const close = (
  actual: ArrayLike<number>,
  expected: ArrayLike<number>,
  tolerance = 1e-12,
  message = ""
): void => {
  assert.strictEqual(actual.length, expected.length, `${message} length`)
  for (let at = 0; at < expected.length; at++) near(actual[at], expected[at], tolerance, `${message} [${at}]`)
}

/** Within the tolerance, relative to what is larger than 1. */
export const near = (
  actual: number | undefined,
  expected: number | undefined,
  tolerance = 1e-12,
  message = ""
): void => {
  const [found, wanted] = [actual ?? Number.NaN, expected ?? Number.NaN]
  const allowed = tolerance * Math.max(1, Math.abs(wanted))
  assert.isTrue(Math.abs(found - wanted) <= allowed, `${message}: found ${found}, expected ${wanted}`)
}

/** A number for each, of 0 where a masked value would be. */
export const derivative = (of: (x: number) => number, x: number, h = 1e-5): number => (of(x + h) - of(x - h)) / (2 * h)

export const sameSlope = (found: number, measured: number, message = ""): void =>
  assert.isTrue(
    Math.abs(found - measured) <= 1e-6 * Math.max(Math.abs(found), Math.abs(measured)) + 1e-9,
    `${message}: gradient ${found}, central difference ${measured}`
  )

export interface OwnerSpec {
  readonly id: string
  readonly group: string
  readonly reward: number
  readonly valid?: number
}

export interface RowSpec {
  readonly id: string
  /** `null` for a row that pads. */
  readonly owner: string | null
  readonly group: string
  readonly sampleMask?: number
  readonly mask: ReadonlyArray<number>
  readonly generation: ReadonlyArray<number>
  readonly previous?: ReadonlyArray<number>
  readonly current: ReadonlyArray<number>
}

export const stepOf = (owners: ReadonlyArray<OwnerSpec>, rows: ReadonlyArray<RowSpec>): StepInputs => {
  const { group, groupIds } = groupBy(owners.map((owner) => owner.group))
  const indexOf = new Map(owners.map(({ id }, index) => [id, index]))
  const offsets = new Int32Array(rows.length + 1)
  for (const [row, { mask }] of rows.entries()) offsets[row + 1] = (offsets[row] ?? 0) + mask.length
  return {
    owners: {
      ids: owners.map(({ id }) => id),
      groupIds,
      group,
      reward: Float64Array.from(owners, ({ reward }) => reward),
      valid: Uint8Array.from(owners, ({ valid }) => valid ?? 1)
    },
    rows: {
      ids: rows.map(({ id }) => id),
      owner: Int32Array.from(rows, ({ owner }) => (owner === null ? -1 : (indexOf.get(owner) ?? -2))),
      group: Int32Array.from(rows, ({ group }) => groupIds.indexOf(group))
    },
    batch: {
      offsets,
      mask: Uint8Array.from(rows.flatMap(({ mask }) => mask)),
      sampleMask: Uint8Array.from(rows, ({ sampleMask }) => sampleMask ?? 1),
      generation: Float64Array.from(rows.flatMap(({ generation }) => generation)),
      previous: Float64Array.from(rows.flatMap(({ current, previous }) => previous ?? current)),
      current: Float64Array.from(rows.flatMap(({ current }) => current))
    }
  }
}

export interface Specs {
  readonly owners: ReadonlyArray<OwnerSpec>
  readonly rows: ReadonlyArray<RowSpec>
}

/** A step with failed owners, padding, masked places and empty rows; at least one token trains. */
export const randomSpecs = (seed: number, segments = 3, spread = 0.3): Specs => {
  const random = mulberry32(seed)
  const upTo = (least: number, most: number) => least + Math.floor(random() * (most - least + 1))
  const owners: Array<OwnerSpec> = []
  const rows: Array<RowSpec> = []
  const row = (id: string, owner: string | null, group: string, sampleMask: number, least: number): RowSpec => {
    const places = upTo(least, 6)
    const generation = Array.from({ length: places }, () => -0.2 - 2 * random())
    const drift = () => generation.map((value) => Math.min(value + (random() - 0.5) * spread, -0.01))
    const mask = generation.map((_, at) => (at < least || random() < 0.7 ? 1 : 0))
    return { id, owner, group, sampleMask, mask, generation, previous: drift(), current: drift() }
  }
  for (const group of ["A", "B", "C"].slice(0, upTo(1, 3))) {
    for (let slot = 0, count = upTo(2, 4); slot < count; slot++) {
      const id = `${group}_g${slot}`
      const first = owners.length === 0
      const valid = first || random() < 0.8 ? 1 : 0
      owners.push({ id, group, valid, reward: Math.floor(random() * 5) / 4 })
      const own = valid === 1 ? upTo(1, segments) : 1
      for (let segment = 0; segment < own; segment++)
        rows.push(row(`${id}_s${segment}`, id, group, valid, first ? 1 : 0))
    }
    if (random() < 0.5) rows.push(row(`${group}_pad0`, null, group, 0, 0))
  }
  return { owners, rows }
}

/** Each row's part of an array of places, by the row's id. */
export const byRow = ({ batch, rows }: StepInputs, values: Float64Array): ReadonlyMap<string, ReadonlyArray<number>> =>
  new Map(rows.ids.map((id, row) => [id, Array.from(values.subarray(batch.offsets[row], batch.offsets[row + 1]))]))

export const flash: Objective = {
  advantage: { name: "reinforce_baseline", population: "all_owners" },
  loss: { name: "on_policy" },
  importance: { truncation: { name: "seq-mask-tis" }, level: "token" },
  gate: { statistic: "binary_kl", min: 0, max: 0.01 },
  aggregation: { name: "prompt-mean-token-mean" }
}

export const molt: Objective = {
  ...flash,
  gate: { statistic: "ratio", min: 0.99, max: 1.01 },
  aggregation: { name: "token-mean" }
}

export const standard: Objective = {
  advantage: { name: "grpo", leaveOneOut: true, normalize: true, population: "valid_owners" },
  loss: { name: "ppo", clipLow: 0.2, clipHigh: 0.28 },
  aggregation: { name: "token-mean" }
}
