/**
 * What the lines of a rollout's files say, and what it means when they cannot be read.
 */
import { createHash } from "node:crypto"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { TokenEntry, tokenEntryVersion } from "../../TokenEntry.js"
import { isObject } from "./json.js"

/** Why an operation was refused by what is kept. */
export interface Refusal {
  readonly _tag: "Refusal"
  readonly reason: "frozen" | "retired" | "conflict" | "unreadable" | "newer"
  readonly detail: string
}

export const refuse = (reason: Refusal["reason"], detail: string): Effect.Effect<never, Refusal> =>
  Effect.fail({ _tag: "Refusal", reason, detail })

/** The state that a rollout ends in; while it runs there is none. */
const State = Schema.Struct({
  rollout_id: Schema.String,
  snapshot_id: Schema.String,
  frozen: Schema.Boolean,
  retired: Schema.Boolean,
  version: Schema.NonNegativeInt,
  incomplete: Schema.Boolean,
  /** Milliseconds since 1970. */
  changed_at: Schema.Number
})

export type State = typeof State.Type

export const StateText = Schema.parseJson(State)

export const Intent = Schema.parseJson(
  Schema.Union(
    Schema.Struct({ begun: Schema.String, at: Schema.Number }),
    Schema.Struct({ abandoned: Schema.String, why: Schema.String, at: Schema.Number })
  )
)

export const Gap = Schema.parseJson(Schema.Struct({ why: Schema.String, at: Schema.Number }))

export const unreadable = (path: string) => (error: { readonly message: string }) =>
  ({ _tag: "Refusal", reason: "unreadable", detail: `${path}: ${error.message.slice(0, 500)}` }) satisfies Refusal

const entryText = Schema.parseJson(Schema.Unknown)
const decodeEntry = Schema.decodeUnknown(TokenEntry)
export const encodeEntry = Schema.encode(Schema.parseJson(TokenEntry))

export const readEntry = (path: string, line: string): Effect.Effect<TokenEntry, Refusal> =>
  Effect.gen(function* () {
    const json = yield* Effect.mapError(Schema.decode(entryText)(line), unreadable(path))
    const version = isObject(json) ? json["schema_version"] : undefined
    if (typeof version === "number" && version > tokenEntryVersion) {
      return yield* refuse(
        "newer",
        `${path} has an entry of form ${version}, and ${tokenEntryVersion} is the newest known`
      )
    }
    return yield* Effect.mapError(decodeEntry(json), unreadable(path))
  })

export const digestOf = (line: string): string => createHash("sha256").update(line).digest("base64")
