/**
 * What the rewards of a group come to: the baseline that an owner's own reward is measured against, and how far they spread.
 *
 * Where all rewards that make a baseline are the same, the baseline is that reward and the spread is 0, exactly: a mean that rounding
 * has moved would otherwise be divided by next to nothing.
 *
 * @since 0.1.0
 */
import { type Members, membersOf } from "./internal/members.js"

/**
 * Rewards in groups. All arrays are `[owners]`; `group` counts from 0.
 *
 * @since 0.1.0
 * @category models
 */
export interface GroupedRewards {
  readonly group: Int32Array
  readonly reward: Float64Array
  /** 1 where the reward counts for baselines. All count unless given. */
  readonly valid?: Uint8Array
}

/**
 * Whose rewards make a group's baseline: all owners, failed ones too, or the valid ones.
 *
 * @since 0.1.0
 * @category models
 */
export type BaselinePopulation = "all_owners" | "valid_owners"

/**
 * @since 0.1.0
 * @category models
 */
export interface BaselineOptions {
  /** Each owner is measured against the others of its group. */
  readonly leaveOneOut: boolean
  /** `[owners]`: rewards to take the spread from, where shaping has changed the others. */
  readonly spreadReward?: Float64Array
}

/** Mean of the members that vote, but for `without`; the common value itself where they are all the same. */
const meanOf = (
  values: Float64Array,
  valid: Uint8Array | undefined,
  members: Members,
  group: number,
  without: number
) => {
  let [sum, count, low, high] = [0, 0, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY]
  const end = members.starts[group + 1] ?? 0
  for (let at = members.starts[group] ?? 0; at < end; at++) {
    const member = members.order[at] ?? 0
    if (member === without || (valid !== undefined && valid[member] !== 1)) continue
    const value = values[member] ?? 0
    sum += value
    count++
    if (value < low) low = value
    if (value > high) high = value
  }
  return { sum, count, mean: count === 0 ? 0 : low === high ? low : sum / count }
}

const squaresAround = (
  values: Float64Array,
  valid: Uint8Array | undefined,
  members: Members,
  group: number,
  without: number,
  centre: number
): number => {
  let sum = 0
  const end = members.starts[group + 1] ?? 0
  for (let at = members.starts[group] ?? 0; at < end; at++) {
    const member = members.order[at] ?? 0
    if (member === without || (valid !== undefined && valid[member] !== 1)) continue
    const difference = (values[member] ?? 0) - centre
    sum += difference * difference
  }
  return sum
}

/**
 * Baseline and spread of each owner, `[owners]` both: mean and standard deviation (unbiased) of the rewards of its group
 * that count, its own left out or not. A group where at most one reward counts gives each owner its own reward and spread 0.
 * A spread of one reward is 0. With `leaveOneOut` an owner whose reward does not count is given the sum of those that do over
 * one less than their number, as the field's trainers do; its rows don't train.
 *
 * @since 0.1.0
 * @category baselines
 */
export const baselineAndSpread = (
  { group, reward, valid }: GroupedRewards,
  { leaveOneOut, spreadReward = reward }: BaselineOptions
): { readonly baseline: Float64Array; readonly spread: Float64Array } => {
  const owners = reward.length
  const baseline = new Float64Array(owners)
  const spread = new Float64Array(owners)
  const members = membersOf(group)
  for (let index = 0; index < members.groups; index++) {
    const whole = meanOf(reward, valid, members, index, -1)
    const end = members.starts[index + 1] ?? 0
    let shared: { readonly mean: number; readonly deviation: number } | undefined
    for (let at = members.starts[index] ?? 0; at < end; at++) {
      const owner = members.order[at] ?? 0
      if (whole.count <= 1) {
        baseline[owner] = reward[owner] ?? 0
        continue
      }
      const votes = valid === undefined || valid[owner] === 1
      if (leaveOneOut && !votes) {
        const others = whole.count - 1
        baseline[owner] = whole.sum / others
        const mean = meanOf(spreadReward, valid, members, index, -1).sum / others
        const squares = squaresAround(spreadReward, valid, members, index, -1, 0) / others
        const variance = others > 1 ? ((squares - mean * mean) * others) / (others - 1) : 0
        spread[owner] = variance > 0 ? Math.sqrt(variance) : 0
        continue
      }
      if (leaveOneOut || shared === undefined) {
        const without = leaveOneOut ? owner : -1
        const { count, mean } = leaveOneOut ? meanOf(reward, valid, members, index, without) : whole
        const centre = spreadReward === reward ? mean : meanOf(spreadReward, valid, members, index, without).mean
        const squares = squaresAround(spreadReward, valid, members, index, without, centre)
        shared = { mean, deviation: count > 1 ? Math.sqrt(squares / (count - 1)) : 0 }
      }
      baseline[owner] = shared.mean
      spread[owner] = shared.deviation
    }
  }
  return { baseline, spread }
}
