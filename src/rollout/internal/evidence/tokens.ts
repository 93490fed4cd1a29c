/** Prompts mostly extend the calls before them, so their tokens are written as what they share with one and the rest. */
import * as Schema from "effect/Schema"
import type { TokenBundle } from "../../../model/TokenBundle.js"

const Ids = Schema.Array(Schema.NonNegativeInt)

/** The first `take` tokens of what call `call` was asked and answered, then those that are `added`. */
export const PackedPrompt = Schema.Struct({
  call: Schema.optionalWith(Schema.NonNegativeInt, { exact: true }),
  take: Schema.NonNegativeInt,
  added: Ids
})

export type PackedPrompt = typeof PackedPrompt.Type

/** A `TokenBundle` as it is written. */
export const PackedTokens = Schema.Struct({
  prompt: PackedPrompt,
  generation: Ids,
  logProbs: Schema.Array(Schema.Finite),
  routedExperts: Schema.optionalWith(Schema.Unknown, { exact: true })
})

export type PackedTokens = typeof PackedTokens.Type

/** A call's number and its tokens. */
export type Known = Pick<TokenBundle, "promptTokenIds" | "generationTokenIds"> & { readonly call: number }

/** How many calls back a prompt is looked for: a parse retry and a summary may stand between two that extend each other. */
const reach = 4

/** The calls that the next prompt may be written by. */
export const remember = (known: ReadonlyArray<Known>, next: Known): ReadonlyArray<Known> => [
  ...known.slice(-(reach - 1)),
  next
]

const shared = (prompt: ReadonlyArray<number>, { generationTokenIds, promptTokenIds }: Known): number => {
  const asked = promptTokenIds.length
  const most = Math.min(prompt.length, asked + generationTokenIds.length)
  let length = 0
  while (
    length < most &&
    prompt[length] === (length < asked ? promptTokenIds[length] : generationTokenIds[length - asked])
  ) {
    length++
  }
  return length
}

export const packPrompt = (prompt: ReadonlyArray<number>, known: ReadonlyArray<Known>): PackedPrompt => {
  let best: PackedPrompt = { take: 0, added: prompt }
  for (const candidate of known) {
    const take = shared(prompt, candidate)
    if (take > best.take) best = { call: candidate.call, take, added: prompt.slice(take) }
  }
  return best
}

/** The prompt again; undefined where it was written by a call that is not known, or by more tokens than that has. */
export const unpackPrompt = (
  { added, call, take }: PackedPrompt,
  known: ReadonlyArray<Known>
): ReadonlyArray<number> | undefined => {
  if (call === undefined) return take === 0 ? added : undefined
  const base = known.find((candidate) => candidate.call === call)
  if (base === undefined) return undefined
  const { generationTokenIds, promptTokenIds } = base
  if (take > promptTokenIds.length + generationTokenIds.length) return undefined
  return promptTokenIds
    .slice(0, take)
    .concat(generationTokenIds.slice(0, Math.max(0, take - promptTokenIds.length)), added)
}

/** Whether a prompt begins with all that an earlier call was asked and answered. */
export const extendsCall = (prompt: ReadonlyArray<number>, earlier: Omit<Known, "call">): boolean =>
  shared(prompt, { ...earlier, call: 0 }) === earlier.promptTokenIds.length + earlier.generationTokenIds.length
