/** How many random schedules a conformance suite runs, and from which seed: DESKHAND_SCHEDULES=500 for the full proof. */
import { seed } from "../../seed.js"

export const drawn = (count: number): { readonly schedules: number; readonly seed: number } => ({
  schedules: Number(process.env["DESKHAND_SCHEDULES"] ?? count),
  seed
})
