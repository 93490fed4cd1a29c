/** Owners by group, without an array for each group. */

export interface Members {
  readonly groups: number
  /** `[groups + 1]` into `order`. */
  readonly starts: Int32Array
  /** `[owners]`: indices of owners, group by group, each group in the order of the owners. */
  readonly order: Int32Array
}

export const membersOf = (group: Int32Array): Members => {
  let groups = 0
  for (let owner = 0; owner < group.length; owner++) groups = Math.max(groups, (group[owner] ?? 0) + 1)
  const starts = new Int32Array(groups + 1)
  for (let owner = 0; owner < group.length; owner++) {
    const next = (group[owner] ?? 0) + 1
    starts[next] = (starts[next] ?? 0) + 1
  }
  for (let index = 0; index < groups; index++) starts[index + 1] = (starts[index + 1] ?? 0) + (starts[index] ?? 0)
  const next = starts.slice()
  const order = new Int32Array(group.length)
  for (let owner = 0; owner < group.length; owner++) {
    const index = group[owner] ?? 0
    const at = next[index] ?? 0
    order[at] = owner
    next[index] = at + 1
  }
  return { groups, starts, order }
}
