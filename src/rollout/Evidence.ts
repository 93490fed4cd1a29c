/**
 * What the model saw and what happened, on disk, record by record while it happens.
 *
 * @since 0.1.0
 */
import * as FileSystem from "@effect/platform/FileSystem"
import * as Path from "@effect/platform/Path"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import { ArtifactStore } from "../artifact/ArtifactStore.js"
import type { RolloutIdentity } from "../identity/Identity.js"
import { ModelCall } from "./Agent.js"
import { Observation, StepFacts } from "./Environment.js"
import { Evaluation } from "./Evaluation.js"
import { Termination } from "./Termination.js"

/**
 * @since 0.1.0
 * @category models
 */
export const EvidenceRecord = Schema.Union(
  /** What a step is decided from. */
  Schema.TaggedStruct("Observed", { step: Schema.NonNegativeInt, observation: Observation }),
  /** A model call of a step. */
  Schema.TaggedStruct("Called", { step: Schema.NonNegativeInt, call: ModelCall }),
  /** A decision that was carried out. */
  Schema.TaggedStruct("Acted", { step: Schema.NonNegativeInt, action: Schema.String, facts: StepFacts }),
  /** Why the episode ended. */
  Schema.TaggedStruct("Ended", { termination: Termination }),
  Schema.TaggedStruct("Evaluated", { evaluation: Evaluation }),
  Schema.TaggedStruct("NotEvaluated", { reason: Schema.String, detail: Schema.String })
)

/**
 * @since 0.1.0
 * @category models
 */
export type EvidenceRecord = typeof EvidenceRecord.Type

/**
 * Evidence could not be written. An episode whose evidence is incomplete is not used.
 *
 * @since 0.1.0
 * @category errors
 */
export class EvidenceError extends Schema.TaggedError<EvidenceError>("deskhand/EvidenceError")("EvidenceError", {
  path: Schema.String,
  reason: Schema.String
}) {
  override get message() {
    return `could not write the evidence ${this.path}: ${this.reason}. Free space on that disk, then go on with --resume`
  }
}

/**
 * The evidence of one rollout, while it is written.
 *
 * @since 0.1.0
 * @category models
 */
export interface EvidenceLog {
  readonly append: (record: EvidenceRecord) => Effect.Effect<void, EvidenceError>
}

/**
 * @since 0.1.0
 * @category context
 */
export class Evidence extends Context.Tag("deskhand/rollout/Evidence")<
  Evidence,
  {
    readonly open: (identity: RolloutIdentity) => Effect.Effect<EvidenceLog, EvidenceError, Scope.Scope>
  }
>() {}

const encode = Schema.encodeSync(Schema.parseJson(EvidenceRecord))

/**
 * The name of a rollout's files: readable first, unique by its end.
 *
 * @since 0.1.0
 * @category encoding
 */
export const fileStem = (identity: RolloutIdentity): string =>
  `${identity.taskId.replace(/[^A-Za-z0-9_.-]/g, "_").slice(0, 120)}.${identity.rolloutId}`

/**
 * One file a rollout, `<out>/evidence/<task>.<rollout>.jsonl`, and its screenshots by step for a person to leaf through,
 * `<out>/screenshots/<task>.<rollout>/step-000.png`, each a link to its blob.
 *
 * @since 0.1.0
 * @category layers
 */
export const layer = (options: {
  readonly out: string
}): Layer.Layer<Evidence, EvidenceError, FileSystem.FileSystem | Path.Path | ArtifactStore> =>
  Layer.effect(
    Evidence,
    Effect.gen(function* () {
      const fs = yield* FileSystem.FileSystem
      const path = yield* Path.Path
      const store = yield* ArtifactStore
      const evidence = path.resolve(options.out, "evidence")
      const screenshots = path.resolve(options.out, "screenshots")
      const failed = (at: string) => (cause: { readonly message: string }) =>
        new EvidenceError({ path: at, reason: cause.message })
      yield* Effect.mapError(fs.makeDirectory(evidence, { recursive: true }), failed(evidence))
      return Evidence.of({
        open: Effect.fnUntraced(function* (identity) {
          const stem = fileStem(identity)
          const target = path.join(evidence, `${stem}.jsonl`)
          const pictures = path.join(screenshots, stem)
          // An attempt that was stopped in the middle left no outcome, and is begun anew.
          yield* fs
            .remove(pictures, { recursive: true, force: true })
            .pipe(Effect.zipRight(fs.makeDirectory(pictures, { recursive: true })), Effect.mapError(failed(pictures)))
          const file = yield* Effect.mapError(fs.open(target, { flag: "w" }), failed(target))
          const link = (record: EvidenceRecord) => {
            if (record._tag !== "Observed") return Effect.void
            const { sha256 } = record.observation.screenshot
            const picture = path.join(pictures, `step-${String(record.step).padStart(3, "0")}.png`)
            return Effect.mapError(
              fs.symlink(path.relative(pictures, path.join(store.directory, sha256)), picture),
              failed(picture)
            )
          }
          return {
            append: (record) =>
              Effect.zipRight(
                link(record),
                Effect.mapError(file.writeAll(Buffer.from(`${encode(record)}\n`)), failed(target))
              )
          }
        })
      })
    })
  )
