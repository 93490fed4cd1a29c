import { randomInt } from "node:crypto"

/**
 * Where random tests start. The same for everybody, so that what breaks a test is a change and not the dice;
 * `DESKHAND_SEED=random` looks for what nobody has seen yet, and a number looks at it again.
 */
const given = process.env["DESKHAND_SEED"] ?? "20261129"

export const seed: number = given === "random" ? randomInt(2 ** 31) : Number(given)

if (!Number.isSafeInteger(seed)) throw new Error(`DESKHAND_SEED is a whole number or "random", not ${given}`)
