/** How many random schedules a conformance suite runs, and from which seed: DESKHAND_SCHEDULES=500 for the full proof. */
export const drawn = (count: number): { readonly schedules: number; readonly seed?: number } => {
  const seed = process.env["DESKHAND_SEED"]
  return {
    schedules: Number(process.env["DESKHAND_SCHEDULES"] ?? count),
    ...(seed === undefined ? {} : { seed: Number(seed) })
  }
}
