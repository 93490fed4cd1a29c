/** How many random schedules a provider's conformance runs, and from which seed: the environment may say otherwise. */
export const drawn = (count: number): { readonly schedules: number; readonly seed?: number } => {
  const seed = process.env["DESKHAND_SEED"]
  return {
    schedules: Number(process.env["DESKHAND_SCHEDULES"] ?? count),
    ...(seed === undefined ? {} : { seed: Number(seed) })
  }
}
