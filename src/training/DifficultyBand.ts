/**
 * Freezes the tasks that a policy sometimes solves and sometimes doesn't into a data set that never changes: the offline
 * form of dynamic sampling (DAPO, arXiv 2503.14476).
 *
 * The source is a folder with `manifest.jsonl`, `tasks/{task}.json`, and `tmp_funcs/{task}/` for tasks that bring evaluator
 * functions.
 *
 * @since 0.1.0
 */
import * as FileSystem from "@effect/platform/FileSystem"
import * as Path from "@effect/platform/Path"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Schema from "effect/Schema"
import * as Frozen from "./internal/frozenFiles.js"

// -----------------------------------------------------------------------------
// Models
// -----------------------------------------------------------------------------

/**
 * How often each task was tried to find out how hard it is.
 *
 * @since 0.1.0
 * @category constants
 */
export const calibrationRuns = 8 as const

/**
 * One line of the manifest. Other keys are kept as they are.
 *
 * @since 0.1.0
 * @category models
 */
export const Calibration = Schema.Struct({
  /** A file name is made of it. */
  task_id: Schema.String.pipe(Schema.pattern(/^[A-Za-z0-9][A-Za-z0-9._-]*$/)),
  calib_reps: Schema.Literal(calibrationRuns),
  /** Successes over `calib_reps`. */
  calib_pass_rate: Schema.Finite
})

/**
 * @since 0.1.0
 * @category models
 */
export type Calibration = typeof Calibration.Type

/**
 * A group of the training file.
 *
 * @since 0.1.0
 * @category models
 */
export interface BandRow {
  readonly task: string
  /** From 0. */
  readonly repeat: number
  /** `rlvr-band:{task}:repeat:{repeat}`. */
  readonly groupId: string
}

/**
 * Options of the freezer.
 *
 * @since 0.1.0
 * @category models
 */
export interface FreezeOptions {
  readonly source: string
  /** A folder that must not be there. */
  readonly output: string
  /** How many groups each task gets. */
  readonly repeats: number
  /**
   * Where the folder will stand when it is read. Paths in the tasks are then absolute; otherwise they are relative to the
   * file that they are in.
   */
  readonly root?: string
  /** Whether a task whose assets cannot be read is left out and named in `quarantine.jsonl`; otherwise it is an error. */
  readonly quarantine?: boolean
}

/**
 * `SNAPSHOT.json`.
 *
 * @since 0.1.0
 * @category models
 */
export interface Snapshot {
  readonly schema_version: 1
  /** Of `manifest.jsonl` of the source. */
  readonly source_manifest_sha256: string
  readonly filter: string
  readonly source_tasks: number
  /** Tasks outside the band. */
  readonly filtered_tasks: number
  readonly quarantined_tasks: number
  readonly unique_tasks: number
  readonly num_repeats: number
  readonly gym_rows: number
  readonly upload_assets: number
}

/**
 * Nothing was frozen, and nothing is left behind.
 *
 * - `exists`: the output is there already
 * - `options`: the number of repeats is none
 * - `manifest`: a line cannot be read, or says no whole number of successes
 * - `duplicate`: a task is there twice
 * - `task`: a task's file is missing or says something else than the manifest
 * - `asset`: a file that a task uploads cannot be read
 * - `changed`: the source changed meanwhile
 * - `disk`: the folder cannot be read or written
 *
 * @since 0.1.0
 * @category errors
 */
export class FreezeError extends Schema.TaggedError<FreezeError>("deskhand/training/FreezeError")("FreezeError", {
  reason: Schema.Literal("exists", "options", "manifest", "duplicate", "task", "asset", "changed", "disk"),
  detail: Schema.String,
  task: Schema.optionalWith(Schema.String, { exact: true })
}) {
  override get message() {
    return `the band was not frozen${this.task === undefined ? "" : ` (task ${this.task})`}: ${this.detail}`
  }
}

// -----------------------------------------------------------------------------
// The band
// -----------------------------------------------------------------------------

const fail = (reason: FreezeError["reason"], detail: string, task?: string) =>
  new FreezeError({ reason, detail, ...(task === undefined ? {} : { task }) })

/**
 * How often a task was solved in 8 runs. Fails when that is no whole number from 0 to 8, to within 1e-6.
 *
 * @since 0.1.0
 * @category operations
 */
export const passes = ({ calib_pass_rate, task_id }: Calibration): Either.Either<number, FreezeError> => {
  const exact = calib_pass_rate * calibrationRuns
  const whole = Math.round(exact)
  return !(Math.abs(exact - whole) <= 1e-6) || whole < 0 || whole > calibrationRuns
    ? Either.left(fail("manifest", `a rate of ${calib_pass_rate} is no part of ${calibrationRuns} runs`, task_id))
    : Either.right(whole)
}

/**
 * The tasks that were solved at least once and not always, in their order. Fails for a task that is there twice and for
 * rates that are none, also outside the band.
 *
 * @since 0.1.0
 * @category operations
 */
export const band = <C extends Calibration>(
  manifest: ReadonlyArray<C>
): Either.Either<ReadonlyArray<C>, FreezeError> => {
  const seen = new Set<string>()
  const kept: Array<C> = []
  for (const row of manifest) {
    if (seen.has(row.task_id)) return Either.left(fail("duplicate", "the task is in the manifest twice", row.task_id))
    seen.add(row.task_id)
    const solved = passes(row)
    if (Either.isLeft(solved)) return Either.left(solved.left)
    if (solved.right > 0 && solved.right < calibrationRuns) kept.push(row)
  }
  return Either.right(kept)
}

/**
 * All tasks once, then all again: each repeat is a pass over the data.
 *
 * @since 0.1.0
 * @category operations
 */
export const bandRows = (tasks: ReadonlyArray<string>, repeats: number): ReadonlyArray<BandRow> =>
  Array.from({ length: repeats }, (_, repeat) =>
    tasks.map((task) => ({ task, repeat, groupId: `rlvr-band:${task}:repeat:${repeat}` }))
  ).flat()

// -----------------------------------------------------------------------------
// Freezing
// -----------------------------------------------------------------------------

const filter = "calib_reps == 8 and 0 < passes < 8"

const decodeCalibration = Schema.decodeUnknownEither(Calibration)
const parseJson = Schema.decodeUnknownEither(Schema.parseJson())

interface ManifestLine extends Calibration {
  /** As it stands in the file. */
  readonly line: string
}

const readManifest = (text: string): Either.Either<ReadonlyArray<ManifestLine>, FreezeError> => {
  const rows: Array<ManifestLine> = []
  for (const [index, line] of text.split(/\r?\n/).entries()) {
    if (line.trim() === "") continue
    const row = Either.flatMap(parseJson(line), decodeCalibration)
    if (Either.isLeft(row)) return Either.left(fail("manifest", `line ${index + 1}: ${row.left.message}`))
    rows.push({ ...row.right, line })
  }
  return rows.length === 0 ? Either.left(fail("manifest", "it has no line")) : Either.right(rows)
}

const TaskFile = Schema.Struct({
  id: Schema.String,
  instruction: Schema.String,
  metadata: Schema.Struct({ calib_reps: Schema.Number, calib_pass_rate: Schema.Number })
})

/** The task as its file has it, once the manifest and it agree. */
const readTask = (text: string, row: Calibration): Either.Either<Frozen.JsonRecord, FreezeError> => {
  const json = parseJson(text)
  const parsed = Either.flatMap(json, Schema.decodeUnknownEither(TaskFile))
  if (Either.isLeft(json) || Either.isLeft(parsed) || !Frozen.isRecord(json.right)) {
    return Either.left(fail("task", Either.isLeft(parsed) ? parsed.left.message : "it is no task", row.task_id))
  }
  const { id, metadata } = parsed.right
  if (id !== row.task_id) return Either.left(fail("task", `its file is of task ${id}`, row.task_id))
  if (metadata.calib_reps !== row.calib_reps) {
    const detail = `its file says ${metadata.calib_reps} runs, and the manifest ${row.calib_reps}`
    return Either.left(fail("task", detail, row.task_id))
  }
  if (!(Math.abs(metadata.calib_pass_rate - row.calib_pass_rate) <= 1e-9)) {
    const detail = `its file says a rate of ${metadata.calib_pass_rate}, and the manifest ${row.calib_pass_rate}`
    return Either.left(fail("task", detail, row.task_id))
  }
  return Either.right(json.right)
}

const trainingRow = (task: Frozen.JsonRecord, { groupId, task: taskId }: BandRow): Frozen.JsonRecord => ({
  responses_create_params: {
    input: [{ role: "user", content: task["instruction"] }],
    max_output_tokens: 16384,
    temperature: 0.6,
    top_p: 1
  },
  verifier_metadata: task,
  context_compaction_task_id: taskId,
  context_compaction_group_id: groupId
})

const jsonLines = (rows: ReadonlyArray<unknown>): string => rows.map((row) => `${JSON.stringify(row)}\n`).join("")

/**
 * Writes `train.jsonl` (each repeat a pass over the tasks), `tasks/`, `assets/{task}/{NNN}-{first 12 digits of its
 * SHA-256}-{name}`, `tmp_funcs/`, `manifest.jsonl` of the tasks that were kept, `SNAPSHOT.json` and `SHA256SUMS`.
 *
 * The same source gives the same bytes. The folder is written beside its place and renamed when it is whole: whoever sees
 * it sees all of it, and a freeze that fails or is interrupted leaves nothing. The manifest and the tasks must at the end
 * be what they were at the beginning.
 *
 * @since 0.1.0
 * @category programs
 */
export const freeze = Effect.fn("DifficultyBand.freeze")(function* (options: FreezeOptions) {
  const fs = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  const source = path.resolve(options.source)
  const output = path.resolve(options.output)
  const disk = (error: { readonly message: string }) => fail("disk", error.message)
  const refuseExisting = Effect.flatMap(Effect.mapError(fs.exists(output), disk), (exists) =>
    exists ? Effect.fail(fail("exists", `${output} is there already. Choose another folder`)) : Effect.void
  )
  if (!Number.isSafeInteger(options.repeats) || options.repeats < 1) {
    return yield* fail("options", `${options.repeats} is no number of repeats`)
  }
  yield* refuseExisting

  const manifestPath = path.join(source, "manifest.jsonl")
  const manifestBefore = yield* Effect.mapError(fs.readFile(manifestPath), disk)
  const manifest = yield* readManifest(Buffer.from(manifestBefore).toString())
  const inBand = yield* band(manifest)

  const write = (stage: string) =>
    Effect.gen(function* () {
      const kept: Array<{ readonly row: ManifestLine; readonly task: Frozen.JsonRecord; readonly text: string }> = []
      const quarantined: Array<unknown> = []
      let assets = 0
      const taskPath = (task: string) => path.join(source, "tasks", `${task}.json`)
      for (const row of inBand) {
        const text = yield* Effect.mapError(fs.readFileString(taskPath(row.task_id)), (error) =>
          fail("task", error.message, row.task_id)
        )
        const task = yield* readTask(text, row)
        const frozen = yield* Frozen.freezeTask({ source, stage, taskId: row.task_id, task, root: options.root }).pipe(
          Effect.mapError((error) => fail(error.reason, error.detail, row.task_id)),
          Effect.either
        )
        if (Either.isLeft(frozen)) {
          if (frozen.left.reason !== "asset" || options.quarantine !== true) return yield* frozen.left
          quarantined.push({ task_id: row.task_id, reason: "unreadable_upload_assets", detail: frozen.left.detail })
          continue
        }
        assets += frozen.right.assets
        kept.push({ row, task: frozen.right.inTraining, text })
        yield* fs.writeFileString(
          path.join(stage, "tasks", `${row.task_id}.json`),
          `${JSON.stringify(frozen.right.inTasks, null, 2)}\n`
        )
      }
      const tasks = new Map(kept.map(({ row, task }) => [row.task_id, task]))
      const rows = bandRows([...tasks.keys()], options.repeats)
      const snapshot: Snapshot = {
        schema_version: 1,
        source_manifest_sha256: Frozen.sha256(manifestBefore),
        filter,
        source_tasks: manifest.length,
        filtered_tasks: manifest.length - inBand.length,
        quarantined_tasks: quarantined.length,
        unique_tasks: tasks.size,
        num_repeats: options.repeats,
        gym_rows: rows.length,
        upload_assets: assets
      }
      yield* fs.writeFileString(path.join(stage, "manifest.jsonl"), kept.map(({ row }) => `${row.line}\n`).join(""))
      if (quarantined.length > 0) {
        yield* fs.writeFileString(path.join(stage, "quarantine.jsonl"), jsonLines(quarantined))
      }
      yield* fs.writeFileString(
        path.join(stage, "train.jsonl"),
        jsonLines(rows.map((row) => trainingRow(tasks.get(row.task) ?? {}, row)))
      )
      yield* fs.writeFileString(path.join(stage, "SNAPSHOT.json"), `${JSON.stringify(snapshot, null, 2)}\n`)
      yield* Frozen.writeChecksums(stage)

      const manifestAfter = yield* fs.readFile(manifestPath)
      if (!Buffer.from(manifestAfter).equals(Buffer.from(manifestBefore))) {
        return yield* fail("changed", "the manifest changed meanwhile. Freeze again")
      }
      for (const { row, text } of kept) {
        if ((yield* fs.readFileString(taskPath(row.task_id))) !== text) {
          return yield* fail("changed", "the task's file changed meanwhile. Freeze again", row.task_id)
        }
      }
      return snapshot
    })

  return yield* Effect.scoped(
    Effect.gen(function* () {
      yield* fs.makeDirectory(path.dirname(output), { recursive: true })
      // Beside its place, so that the rename stays on one file system.
      const stage = yield* Effect.acquireRelease(
        fs.makeTempDirectory({ directory: path.dirname(output), prefix: `.${path.basename(output)}.partial-` }),
        (folder) =>
          fs
            .remove(folder, { recursive: true, force: true })
            .pipe(Effect.catchAll((error) => Effect.logWarning(`${folder} is left behind: ${error.message}`)))
      )
      for (const folder of ["tasks", "assets", "tmp_funcs"]) yield* fs.makeDirectory(path.join(stage, folder))
      const snapshot = yield* write(stage)
      yield* refuseExisting
      yield* fs.rename(stage, output)
      return snapshot
    })
  ).pipe(Effect.mapError((error) => (error._tag === "FreezeError" ? error : disk(error))))
})
