import { readFileSync } from "node:fs"
import * as Either from "effect/Either"
import * as Schema from "effect/Schema"
import type { OwnerFacts, ValidOwner } from "../../src/training/Owner.js"
import type { ModelCall, Segment } from "../../src/training/Segment.js"
import { segments } from "../../src/training/Segment.js"

const Vectors = Schema.parseJson(
  Schema.Struct({
    vectors: Schema.Array(Schema.Struct({ id: Schema.String, inputs: Schema.Unknown, outputs: Schema.Unknown }))
  })
)

const { vectors } = Schema.decodeUnknownSync(Vectors)(
  readFileSync(new URL("../vectors/training-vectors.json", import.meta.url), "utf8")
)

/** Inputs and outputs of a vector of `training-vectors.json`, as the schemas have them. */
export const vector = <A, I, B, J>(
  id: string,
  inputs: Schema.Schema<A, I>,
  outputs: Schema.Schema<B, J>
): { readonly inputs: A; readonly outputs: B } => {
  const found = vectors.find((entry) => entry.id === id)
  if (found === undefined) throw new Error(`there is no vector ${id}`)
  return {
    inputs: Schema.decodeUnknownSync(inputs)(found.inputs),
    outputs: Schema.decodeUnknownSync(outputs)(found.outputs)
  }
}

export const right = <A, E>(either: Either.Either<A, E>): A =>
  Either.getOrThrowWith(either, (error) => new Error(`expected a result, found ${String(error)}`))

export const left = <A, E>(either: Either.Either<A, E>): E =>
  Either.getOrThrowWith(Either.flip(either), () => new Error("expected an error"))

export const call = (
  modelCallId: string,
  promptTokenIds: ReadonlyArray<number>,
  generationTokenIds: ReadonlyArray<number>,
  more: Partial<ModelCall> = {}
): ModelCall => ({
  modelCallId,
  promptTokenIds,
  generationTokenIds,
  generationLogProbs: generationTokenIds.map((_, index) => -0.1 * (index + 1)),
  ...more
})

export const facts = (groupId: string, slot: number, more: Partial<OwnerFacts> = {}): OwnerFacts => ({
  groupId,
  slot,
  groupSize: 2,
  reward: slot,
  promptTokenIds: Int32Array.from([1, 2]),
  weightVersion: 3,
  ...more
})

/** One segment of a prompt of two tokens and `length` generated ones. */
export const segment = (length: number, id = "c0"): Segment => {
  const generated = Array.from({ length }, (_, index) => 10 + index)
  const [only] = right(segments([call(id, [1, 2], generated)]))
  if (only === undefined) throw new Error("there is no segment")
  return only
}

export const valid = (
  groupId: string,
  slot: number,
  lengths: readonly [number, ...Array<number>] = [3],
  more: Partial<OwnerFacts> = {}
): ValidOwner => {
  const [first, ...rest] = lengths
  return {
    _tag: "Valid",
    ...facts(groupId, slot, more),
    segments: [segment(first), ...rest.map((length, index) => segment(length, `c${index + 1}`))],
    truncated: lengths.map(() => false)
  }
}
