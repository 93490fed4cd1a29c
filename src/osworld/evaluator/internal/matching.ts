/** Whether one choice from each list can be exactly the things that were found. */
export const canCover = (choices: ReadonlyArray<ReadonlyArray<string>>, found: ReadonlyArray<string>): boolean => {
  const things = [...new Set(found)]
  if (choices.some((list) => !list.some((choice) => things.includes(choice)))) return false
  // Each thing takes a list of its own; a list that is taken may give way to another (Kuhn's matching).
  const takenBy = new Map<number, string>()
  const take = (thing: string, seen: Set<number>): boolean =>
    choices.some((list, index) => {
      if (seen.has(index) || !list.includes(thing)) return false
      seen.add(index)
      const holder = takenBy.get(index)
      if (holder !== undefined && !take(holder, seen)) return false
      takenBy.set(index, thing)
      return true
    })
  // More things than lists cannot be matched; saying so first bounds what a folder of a million pages costs.
  return things.length <= choices.length && things.every((thing) => take(thing, new Set()))
}
