/**
 * A rollout as its evidence has it, put together by step: what every export is made of.
 *
 * @since 0.1.0
 */
import * as FileSystem from "@effect/platform/FileSystem"
import * as Path from "@effect/platform/Path"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import * as Stream from "effect/Stream"
import type { RolloutIdentity } from "../identity/Identity.js"
import * as TrajectoryIdentity from "../identity/TrajectoryIdentity.js"
import type { ModelReply } from "../model/ModelClient.js"
import type { ModelCall, ParseFailure } from "./Agent.js"
import type { Observation, StepFacts } from "./Environment.js"
import type { Evaluation } from "./Evaluation.js"
import { read } from "./Evidence.js"
import { EvidenceFault } from "./EvidenceFault.js"
import type { EvidenceRecord, Started } from "./EvidenceRecord.js"
import { type PlacedRow, rowsOf, stemOf } from "./internal/evidence/rowFile.js"
import type { Termination } from "./Termination.js"

/**
 * A step: what was seen, which calls were made, what was carried out.
 *
 * @since 0.1.0
 * @category models
 */
export interface RecordedStep {
  readonly step: number
  readonly observation: Observation
  /** In the order in which they were made: retries, refused prompts and summaries too. */
  readonly calls: ReadonlyArray<ModelCall>
  readonly acts: ReadonlyArray<{ readonly action: string; readonly facts: StepFacts }>
}

/**
 * @since 0.1.0
 * @category models
 */
export interface RecordedRollout {
  readonly started: Started
  readonly steps: ReadonlyArray<RecordedStep>
  /** What the last action led to; absent where the episode was cut short before it was looked at. */
  readonly last?: Observation
  /** Absent where the evidence ends before the episode. */
  readonly termination?: Termination
  /** Absent where there is none. */
  readonly evaluation?: Evaluation
}

/**
 * What a run's row says of the rollout, where there is a row.
 *
 * @since 0.1.0
 * @category models
 */
export interface RowVerdict {
  /** Null where the rollout may not be used. */
  readonly reward: number | null
  readonly mask_sample: boolean
  /** The model's name, as it was asked for. */
  readonly model: string
}

/**
 * The records of one evidence file, in their order. `None` where they have no head: then nobody knows whose they are.
 *
 * @since 0.1.0
 * @category constructors
 */
export const fromRecords = (records: Iterable<EvidenceRecord>): Option.Option<RecordedRollout> => {
  let started: Started | undefined
  const steps: Array<{
    step: number
    observation: Observation
    calls: Array<ModelCall>
    acts: Array<{ action: string; facts: StepFacts }>
  }> = []
  let termination: Termination | undefined
  let evaluation: Evaluation | undefined
  for (const record of records) {
    switch (record._tag) {
      case "Started":
        started = record
        break
      case "Observed":
        steps.push({ step: record.step, observation: record.observation, calls: [], acts: [] })
        break
      case "Called":
        steps.at(-1)?.calls.push(record.call)
        break
      case "Acted":
        steps.at(-1)?.acts.push({ action: record.action, facts: record.facts })
        break
      case "Ended":
        termination = record.termination
        break
      case "Evaluated":
        evaluation = record.evaluation
        break
      case "NotEvaluated":
        break
    }
  }
  if (started === undefined) return Option.none()
  // An episode looks once more at its end, and that is no step. One that was cut short may not have come to it.
  const final = steps.at(-1)
  const last =
    final !== undefined && final.calls.length === 0 && final.acts.length === 0 ? final.observation : undefined
  if (last !== undefined) steps.pop()
  return Option.some({
    started,
    steps,
    ...(last === undefined ? {} : { last }),
    ...(termination === undefined ? {} : { termination }),
    ...(evaluation === undefined ? {} : { evaluation })
  })
}

/**
 * What the environment showed after a step, where it was looked at again.
 *
 * @since 0.1.0
 * @category queries
 */
export const after = ({ last, steps }: RecordedRollout, index: number): Observation | undefined =>
  steps[index + 1]?.observation ?? (index === steps.length - 1 ? last : undefined)

/**
 * The reply of a call, where it got one.
 *
 * @since 0.1.0
 * @category queries
 */
export const replyOf = ({ result }: ModelCall): ModelReply | undefined =>
  result._tag === "Replied" ? result.reply : undefined

/**
 * Why a call's reply could not be read, where that is so.
 *
 * @since 0.1.0
 * @category queries
 */
export const parseFailureOf = ({ result }: ModelCall): ParseFailure | undefined =>
  result._tag === "Replied" && result.read._tag === "ParseFailure" ? result.read : undefined

/**
 * The call that decided a step: the last whose reply could be read.
 *
 * @since 0.1.0
 * @category queries
 */
export const accepted = ({ calls }: RecordedStep): ModelCall | undefined =>
  calls.findLast(
    ({ purpose, result }) => purpose === "act" && result._tag === "Replied" && result.read._tag === "Reading"
  )

/**
 * What a call's reply said to do, each as its text; nothing where it could not be read.
 *
 * @since 0.1.0
 * @category queries
 */
export const decisionsOf = ({ result }: ModelCall): ReadonlyArray<string> =>
  result._tag === "Replied" && result.read._tag === "Reading" ? result.read.decisions : []

/**
 * The trajectory's names, and the model's: as the row has it, or else as the server told it.
 *
 * @since 0.1.0
 * @category queries
 */
export const names = (
  rollout: RecordedRollout,
  row: RowVerdict | undefined
): ReturnType<typeof TrajectoryIdentity.of> & { readonly model: string; readonly rollout: RolloutIdentity } => {
  const told = rollout.steps.flatMap(({ calls }) => calls.flatMap((call) => replyOf(call)?.model ?? []))
  const model = row?.model ?? told[0] ?? "none"
  const { identity } = rollout.started
  return { ...TrajectoryIdentity.of(identity, model), model, rollout: identity }
}

// -----------------------------------------------------------------------------
// Reading a run
// -----------------------------------------------------------------------------

/**
 * A rollout with what its row says; without where no row tells of it.
 *
 * @since 0.1.0
 * @category models
 */
export interface RolloutWithRow {
  readonly rollout: RecordedRollout
  readonly row: RowVerdict | undefined
}

const verdictOf = ({ row }: PlacedRow): RowVerdict => ({
  reward: row.reward,
  mask_sample: row.mask_sample,
  model: row.verifier_metadata.osworld_model_name
})

/**
 * The rollouts of the run in `folder`, by the names of their files, one in memory at a time. A rollout whose evidence is
 * not whole, and a row that cannot be read, is a fault in its place.
 *
 * @since 0.1.0
 * @category reading
 */
export const readRun = (
  folder: string
): Stream.Stream<Either.Either<RolloutWithRow, EvidenceFault>, never, FileSystem.FileSystem | Path.Path> =>
  Stream.unwrap(
    Effect.gen(function* () {
      const fs = yield* FileSystem.FileSystem
      const path = yield* Path.Path
      const directory = path.join(folder, "evidence")
      const names = yield* Effect.either(fs.readDirectory(directory))
      if (Either.isLeft(names)) {
        const fault = new EvidenceFault({ kind: "unreadable", path: directory, detail: names.left.message })
        return Stream.make(Either.left(fault))
      }
      const verdicts = new Map<string, RowVerdict>()
      const faults: Array<Either.Either<never, EvidenceFault>> = []
      yield* Stream.runForEach(rowsOf(fs, path, folder), (placed) =>
        Effect.sync(() => {
          if (Either.isLeft(placed)) faults.push(Either.left(placed.left))
          else verdicts.set(stemOf(placed.right), verdictOf(placed.right))
        })
      )
      const rollouts = Stream.mapEffect(
        Stream.fromIterable(names.right.filter((name) => name.endsWith(".jsonl")).sort()),
        (name) => {
          const file = path.join(directory, name)
          return Stream.runCollect(read(file)).pipe(
            Effect.flatMap(fromRecords),
            Effect.map((rollout) => ({ rollout, row: verdicts.get(name.slice(0, -".jsonl".length)) })),
            Effect.catchTag(
              "NoSuchElementException",
              () => new EvidenceFault({ kind: "gap", path: file, detail: "the head, Started, is missing" })
            ),
            Effect.either
          )
        }
      )
      return Stream.concat(Stream.fromIterable(faults), rollouts)
    })
  )
