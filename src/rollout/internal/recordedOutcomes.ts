/** Outcomes made again from a run's rows and evidence. */
import * as FileSystem from "@effect/platform/FileSystem"
import * as Path from "@effect/platform/Path"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import * as ParseResult from "effect/ParseResult"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import type { RolloutIdentity } from "../../identity/Identity.js"
import * as Evidence from "../Evidence.js"
import { EvidenceFault } from "../EvidenceFault.js"
import { Failed, Masked, type RolloutOutcome, Scored, Step, Unresolved } from "../Outcome.js"
import { fromRecords, type RecordedRollout } from "../RecordedRollout.js"
import { byteLines } from "./evidence/lines.js"
import { stepCalls } from "./stepCalls.js"

/** What the evidence does not have is read of a row, and what both have is compared. */
const Row = Schema.Struct({
  _ng_task_index: Schema.NonNegativeInt,
  _ng_rollout_index: Schema.NonNegativeInt,
  _ng_attempt_index: Schema.NonNegativeInt,
  _ng_rollout_id: Schema.String,
  outcome: Schema.Literal("scored", "masked", "failed", "unresolved"),
  reward: Schema.NullOr(Schema.Finite),
  evaluation_completed: Schema.Boolean,
  runtime_admission_reason: Schema.String,
  _ng_failure_class: Schema.optionalWith(Schema.Unknown, { exact: true }),
  milliseconds: Schema.optionalWith(Schema.Finite, { default: () => 0 }),
  verifier_metadata: Schema.Struct({
    task_id: Schema.NonEmptyString,
    osworld_score: Schema.NullOr(Schema.Finite),
    osworld_error: Schema.NullOr(Schema.String),
    osworld_steps: Schema.Array(
      Schema.Struct({
        step: Schema.NonNegativeInt,
        model_text: Schema.String,
        actions: Schema.Array(Schema.String),
        screenshot_sha256: Schema.String,
        decide_milliseconds: Schema.Finite
      })
    )
  })
})

interface Placed {
  readonly path: string
  readonly line: number
  readonly row: typeof Row.Type
}

type Made<A = RolloutOutcome> = Effect.Effect<A, EvidenceFault, FileSystem.FileSystem>

const TaskIndex = Schema.parseJson(Schema.Struct({ _ng_task_index: Schema.NonNegativeInt }))
const decodeIndex = Schema.decodeUnknownEither(TaskIndex)
const decode = Schema.decodeUnknownEither(Schema.parseJson(Row))

const keyOf = ({ row }: Placed) => `${row._ng_task_index}-${row._ng_rollout_index}`

/** The rows of a file that are of these tasks. The last one may be under way, and is none before it has its newline. */
const rowsOf = (
  fs: FileSystem.FileSystem,
  path: string,
  isWanted: (taskIndex: number) => boolean
): Stream.Stream<Placed, EvidenceFault> =>
  byteLines(fs.stream(path)).pipe(
    Stream.catchAll((error) =>
      error._tag === "SystemError" && error.reason === "NotFound"
        ? Stream.empty
        : Stream.fail(new EvidenceFault({ kind: "unreadable", path, detail: error.message }))
    ),
    Stream.filter(({ bytes, torn }) => bytes.length > 0 && !torn),
    Stream.mapEffect(({ bytes, number }): Either.Either<ReadonlyArray<Placed>, EvidenceFault> => {
      const text = bytes.toString("utf8")
      const index = decodeIndex(text)
      if (Either.isRight(index) && !isWanted(index.right._ng_task_index)) return Either.right([])
      return Either.mapBoth(decode(text), {
        onLeft: (error) => {
          const detail = ParseResult.TreeFormatter.formatErrorSync(error)
          return new EvidenceFault({ kind: "unreadable", path, line: number, detail })
        },
        onRight: (row) => [{ path, line: number, row }]
      })
    }),
    Stream.flattenIterables
  )

const differs = ({ line, path }: Placed, detail: string) =>
  new EvidenceFault({ kind: "row_differs", path, line, detail })

/** The identity, if it is that of the row. */
const checked = (placed: Placed, identity: RolloutIdentity): Either.Either<RolloutIdentity, EvidenceFault> => {
  const { _ng_rollout_id: id, _ng_rollout_index, _ng_task_index } = placed.row
  return identity.rolloutId === id &&
    identity.taskIndex === _ng_task_index &&
    identity.rolloutIndex === _ng_rollout_index
    ? Either.right(identity)
    : Either.left(differs(placed, `it is of rollout ${id}, and the evidence of ${identity.rolloutId}`))
}

const stepsOf = (placed: Placed, { last, steps }: RecordedRollout): Either.Either<ReadonlyArray<Step>, EvidenceFault> =>
  Either.all(
    placed.row.verifier_metadata.osworld_steps.map((told, at) => {
      const seen = steps[at]
      const observation = seen?.observation ?? (at === steps.length ? last : undefined)
      if (observation === undefined || told.step !== at || observation.screenshot.sha256 !== told.screenshot_sha256) {
        return Either.left(differs(placed, `the evidence has another step ${at}`))
      }
      const calls = stepCalls(seen?.calls ?? [])
      return Either.right(
        new Step({
          step: at,
          text: told.model_text,
          actions: told.actions,
          facts: seen?.acts.map(({ facts }) => facts) ?? [],
          screenshot: told.screenshot_sha256,
          observeMilliseconds: observation.milliseconds,
          decideMilliseconds: told.decide_milliseconds,
          ...(calls === undefined ? {} : { calls })
        })
      )
    })
  )

/** What every outcome of an episode has; nothing where its end is not on record. */
const episodeOf = (placed: Placed, rollout: RecordedRollout) =>
  Either.gen(function* () {
    const { started, termination } = rollout
    const identity = yield* checked(placed, started.identity)
    const steps = yield* stepsOf(placed, rollout)
    if (termination === undefined) return undefined
    const { milliseconds } = placed.row
    return {
      identity,
      termination,
      steps,
      milliseconds,
      ...(started.origin === undefined ? {} : { origin: started.origin })
    }
  })

const wholeOf = (file: string): Made<RecordedRollout> =>
  Effect.flatMap(Stream.runCollect(Evidence.read(file)), (records) =>
    Effect.mapError(
      fromRecords(records),
      () => new EvidenceFault({ kind: "gap", path: file, detail: "the head, Started, is missing" })
    )
  )

const scoredOf = (placed: Placed, file: string): Made =>
  Effect.gen(function* () {
    const rollout = yield* wholeOf(file)
    const episode = yield* episodeOf(placed, rollout)
    const { evaluation } = rollout
    const { reward, verifier_metadata } = placed.row
    if (episode === undefined || evaluation === undefined) {
      return yield* new EvidenceFault({ kind: "unfinished", path: file, detail: "the episode's end is not on record" })
    }
    if (reward === null || evaluation.score !== verifier_metadata.osworld_score) {
      return yield* differs(placed, `the evidence has the score ${evaluation.score}`)
    }
    return new Scored({ ...episode, evaluation, reward })
  })

/** Whose the evidence is, however much of it there is. */
const headOf = (file: string): Made<RolloutIdentity> =>
  Effect.flatMap(Stream.runHead(Evidence.entries(file)), (first) => {
    const record = Option.getOrUndefined(Option.flatMap(first, Either.getRight))?.record
    return record?._tag === "Started"
      ? Effect.succeed(record.identity)
      : new EvidenceFault({ kind: "gap", path: file, detail: "the head, Started, is missing" })
  })

const isFault = Schema.is(Failed.fields.fault)

const otherOf = (placed: Placed, file: string): Made =>
  Effect.gen(function* () {
    const { row } = placed
    const identity = yield* Effect.flatMap(headOf(file), (identity) => checked(placed, identity))
    const detail = row.verifier_metadata.osworld_error ?? ""
    const { _ng_failure_class: fault, milliseconds } = row
    if (row.outcome === "failed") {
      return new Failed({ identity, fault: isFault(fault) ? fault : "infrastructure", detail, milliseconds })
    }
    // Evidence that ends too soon is no reason to do without the rollout's siblings.
    const found = yield* Effect.either(Effect.flatMap(wholeOf(file), (rollout) => episodeOf(placed, rollout)))
    const episode = Option.getOrUndefined(Either.getRight(found))
    if (row.outcome !== "masked" || episode === undefined) return new Unresolved({ identity })
    const { evaluation_completed: evaluationCompleted, runtime_admission_reason: reason } = row
    return new Masked({ ...episode, reason, detail, evaluationCompleted })
  })

/** One outcome of each rollout: its score, or else its newest attempt that failed. */
export const recordedOutcomes = (
  out: string,
  isWanted: (taskIndex: number) => boolean
): Stream.Stream<RolloutOutcome, EvidenceFault, FileSystem.FileSystem | Path.Path> =>
  Stream.unwrap(
    Effect.gen(function* () {
      const fs = yield* FileSystem.FileSystem
      const path = yield* Path.Path
      const fileOf = ({ row }: Placed) => {
        const stem = Evidence.fileStem({ taskId: row.verifier_metadata.task_id, rolloutId: row._ng_rollout_id })
        return path.join(out, "evidence", `${stem}.jsonl`)
      }
      const over = new Set<string>()
      const scored = rowsOf(fs, path.join(out, "rollouts.jsonl"), isWanted).pipe(
        Stream.filter((placed) => placed.row.outcome === "scored" && !over.has(keyOf(placed))),
        Stream.tap((placed) => Effect.sync(() => over.add(keyOf(placed)))),
        Stream.mapEffect((placed) => scoredOf(placed, fileOf(placed)))
      )
      const others = Stream.unwrap(
        Effect.gen(function* () {
          const newest = new Map<string, Placed>()
          yield* Stream.runForEach(rowsOf(fs, path.join(out, "failures.jsonl"), isWanted), (placed) =>
            Effect.sync(() => {
              const key = keyOf(placed)
              const before = newest.get(key)?.row._ng_attempt_index ?? -1
              if (!over.has(key) && placed.row._ng_attempt_index > before) newest.set(key, placed)
            })
          )
          return Stream.mapEffect(Stream.fromIterable(newest.values()), (placed) => otherOf(placed, fileOf(placed)))
        })
      )
      return Stream.concat(scored, others)
    })
  )
