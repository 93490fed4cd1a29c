/**
 * `deskhand export`: a run in the formats of others, a line for each rollout.
 *
 * @since 0.1.0
 */
import * as FileSystem from "@effect/platform/FileSystem"
import * as Path from "@effect/platform/Path"
import * as Console from "effect/Console"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import * as ArtifactStore from "../artifact/ArtifactStore.js"
import { atif } from "../rollout/Atif.js"
import { envelope } from "../rollout/ExactTrace.js"
import { names, type RolloutWithRow, readRun } from "../rollout/RecordedRollout.js"
import * as Trajectory from "../rollout/Trajectory.js"
import { version } from "./internal/host.js"
import { type UsageError, usage } from "./internal/usage.js"

/**
 * The formats.
 *
 * @since 0.1.0
 * @category constants
 */
export const formats = ["ng-trajectory", "exact-trace", "atif"] as const

/**
 * @since 0.1.0
 * @category models
 */
export interface ExportOptions {
  /** The run's folder. */
  readonly run: string
  readonly format: (typeof formats)[number]
  /** The file that is written: JSON Lines. */
  readonly out: string
}

/**
 * Rollouts were left out, because their evidence is not whole.
 *
 * @since 0.1.0
 * @category errors
 */
export class LeftOut extends Schema.TaggedError<LeftOut>("deskhand/cli/LeftOut")("LeftOut", {
  run: Schema.String,
  count: Schema.Int
}) {
  override get message() {
    const what = this.count === 1 ? "one rollout or row was" : `${this.count} rollouts and rows were`
    return `${what} left out; deskhand verify ${this.run} says more`
  }
}

const encode = (
  format: ExportOptions["format"],
  { rollout, row }: RolloutWithRow
): Effect.Effect<unknown, ArtifactStore.ArtifactError, ArtifactStore.ArtifactStore> => {
  switch (format) {
    case "ng-trajectory":
      return Effect.succeed(Trajectory.row(rollout, row, names(rollout, row).model))
    case "exact-trace":
      return envelope(rollout, row)
    case "atif":
      return Effect.succeed(atif(rollout, row, version))
  }
}

/**
 * Writes the run's rollouts. One whose evidence is not whole is left out and named; then it fails with `LeftOut`, and
 * what could be written is there. Fails with `UsageError` where the run cannot be read or the file not be written.
 *
 * @since 0.1.0
 * @category programs
 */
export const exportRun = ({
  format,
  out,
  run
}: ExportOptions): Effect.Effect<void, UsageError | LeftOut, FileSystem.FileSystem | Path.Path> =>
  Effect.gen(function* () {
    const fs = yield* FileSystem.FileSystem
    const path = yield* Path.Path
    const evidence = path.join(run, "evidence")
    if (!(yield* Effect.orElseSucceed(fs.exists(evidence), () => false))) {
      return yield* usage(`${run} holds no evidence of a run. Give the folder that deskhand run wrote`)
    }
    const unwritable = (error: { readonly message: string }) => usage(`${out} cannot be written: ${error.message}`)
    const file = yield* Effect.mapError(fs.open(out, { flag: "w" }), unwritable)
    let written = 0
    let left = 0
    const store = ArtifactStore.layer({ directory: path.join(run, "blobs") })
    yield* Stream.runForEach(readRun(run), (entry) =>
      Effect.gen(function* () {
        const line = yield* Effect.either(Effect.flatMap(entry, (found) => encode(format, found)))
        if (Either.isLeft(line)) {
          left++
          return yield* Console.error(line.left.message)
        }
        yield* Effect.mapError(file.writeAll(Buffer.from(`${JSON.stringify(line.right)}\n`)), unwritable)
        written++
      })
    ).pipe(
      Effect.provide(store),
      Effect.catchTag("ArtifactError", (error) => usage(error.message))
    )
    yield* Console.log(`${written} rollouts are in ${out}, as ${format}, a line each`)
    if (left > 0) return yield* new LeftOut({ run, count: left })
  }).pipe(Effect.scoped)
