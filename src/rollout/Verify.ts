/**
 * Whether a run's evidence is whole and true: every byte, every blob, every plan and prompt made again, every row.
 *
 * @since 0.1.0
 */
import * as FileSystem from "@effect/platform/FileSystem"
import * as Path from "@effect/platform/Path"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import type * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import type { Sampling } from "../model/Sampling.js"
import type { ModelCall, Replied } from "./Agent.js"
import { entries } from "./Evidence.js"
import { EvidenceFault } from "./EvidenceFault.js"
import type { Started } from "./EvidenceRecord.js"
import { abandoned, type Successors, succeed } from "./internal/evidence/abandoned.js"
import { type Blobs, referenceFaults, survey } from "./internal/evidence/blobs.js"
import { blobsOf, type Checker, check, checker, type Found } from "./internal/evidence/check.js"
import { type PlacedRow, rowsOf, stemOf } from "./internal/evidence/rowFile.js"
import { type RowFacts, rowFaults } from "./internal/evidence/rows.js"

/**
 * What a call should have been.
 *
 * @since 0.1.0
 * @category models
 */
export interface Replayed {
  readonly purpose: ModelCall["purpose"]
  readonly parseAttempt: number
  readonly messages: ModelCall["messages"]
  readonly plan: ModelCall["plan"]
  readonly sampling: Sampling
  /** How the recorded reply reads; undefined for a call that failed. */
  readonly read: Replied["read"] | undefined
}

/**
 * Takes the calls of a rollout in their order and says of each what it should have been; or, in words, why that cannot
 * be said.
 *
 * @since 0.1.0
 * @category models
 */
export type Replayer = (call: ModelCall) => Either.Either<Replayed, string>

/**
 * @since 0.1.0
 * @category models
 */
export interface VerifyOptions {
  /**
   * Makes an agent's calls again, from the head of its evidence and the sampling of its first call. `None` where it does
   * not know the agent: then only the plans are made again.
   */
  readonly replay?: (started: Started, sampling: Sampling) => Option.Option<Replayer>
}

/**
 * What was found of one rollout.
 *
 * @since 0.1.0
 * @category models
 */
export interface RolloutReport {
  /** The name of its files. */
  readonly stem: string
  readonly records: number
  readonly steps: number
  readonly calls: number
  /** Calls whose prompt was made again and compared. */
  readonly replayed: number
  /** Calls whose plan was made again and compared. */
  readonly replanned: number
  readonly faults: ReadonlyArray<EvidenceFault>
  /**
   * There where the attempt was stopped in its middle: the later attempt of the same rollout that has its row instead.
   * Then a torn end, no end and no row are no faults.
   */
  readonly abandonedFor?: number
}

/**
 * @since 0.1.0
 * @category models
 */
export interface VerifyReport {
  readonly rollouts: ReadonlyArray<RolloutReport>
  /** Blobs that were read. */
  readonly blobs: number
  /** Of the run as a whole: damaged blobs, rows that cannot be read, rows without evidence. */
  readonly faults: ReadonlyArray<EvidenceFault>
}

/**
 * All faults of a report.
 *
 * @since 0.1.0
 * @category queries
 */
export const faultsOf = ({ faults, rollouts }: VerifyReport): ReadonlyArray<EvidenceFault> => [
  ...faults,
  ...rollouts.flatMap((rollout) => rollout.faults)
]

/**
 * There is nothing to verify in this folder.
 *
 * @since 0.1.0
 * @category errors
 */
export class VerifyError extends Schema.TaggedError<VerifyError>("deskhand/VerifyError")("VerifyError", {
  path: Schema.String,
  reason: Schema.String
}) {
  override get message() {
    return `${this.path} holds no evidence of a run: ${this.reason}. Give the folder that deskhand run wrote`
  }
}

/** How an evidence file ends, where its row does not excuse it. */
const endFaults = ({ end, order, started, verdict }: Checker, row: RowFacts | undefined): ReadonlyArray<Found> => {
  // Where the environment did not open, nothing follows the head.
  if (row?.outcome === "failed" && order.step < 0) return []
  if (started === undefined && end === undefined && order.step < 0)
    return [{ kind: "unfinished", detail: "it is empty" }]
  if (end === undefined) return [{ kind: "unfinished", detail: "it does not say how the episode ended" }]
  return verdict === undefined ? [{ kind: "unfinished", detail: "it does not say what the evaluator said" }] : []
}

interface Verifying {
  readonly blobs: Blobs
  readonly runId: string | undefined
  readonly options: VerifyOptions
}

const verifyRollout = (
  { blobs, options, runId }: Verifying,
  path: string,
  stem: string,
  placed: PlacedRow | undefined,
  abandonedFor?: number
): Effect.Effect<RolloutReport, never, FileSystem.FileSystem> =>
  Effect.gen(function* () {
    const state = checker(stem, runId, options)
    const faults: Array<EvidenceFault> = []
    const known = new Set<string>()
    let records = 0
    yield* Stream.runForEach(entries(path), (entry) =>
      Effect.sync(() => {
        if (Either.isLeft(entry)) {
          // A line whose digest alone is wrong can still be read; after one that cannot, nothing can be made again.
          if (entry.left.kind !== "chain_broken") state.intact = false
          if (abandonedFor === undefined || entry.left.kind !== "torn_tail") faults.push(entry.left)
          return
        }
        const { line, record } = entry.right
        records++
        const fresh = blobsOf(record).filter(({ bytes, sha256 }) => {
          const name = `${sha256} ${bytes}`
          return known.has(name) ? false : known.add(name)
        })
        const found = [...check(state, record), ...fresh.flatMap((blob) => referenceFaults(blobs, blob))]
        for (const fault of found) faults.push(new EvidenceFault({ ...fault, path, line }))
      })
    )
    const ends = abandonedFor === undefined ? endFaults(state, placed?.row) : []
    for (const fault of ends) faults.push(new EvidenceFault({ ...fault, path }))
    if (placed === undefined && abandonedFor === undefined) {
      faults.push(new EvidenceFault({ kind: "row_missing", path, detail: "no row tells of this rollout" }))
    } else if (placed !== undefined) {
      for (const fault of rowFaults(placed.row, state)) {
        faults.push(new EvidenceFault({ ...fault, path: placed.path, line: placed.line }))
      }
    }
    const { calls, replanned, replayed } = state
    return {
      stem,
      records,
      steps: placed?.row.verifier_metadata.osworld_steps.length ?? state.steps.length,
      calls,
      replayed,
      replanned,
      faults,
      ...(abandonedFor === undefined ? {} : { abandonedFor })
    }
  })

const runIdOf = (fs: FileSystem.FileSystem, file: string): Effect.Effect<string | undefined> =>
  fs.readFileString(file).pipe(
    Effect.flatMap(Schema.decodeUnknown(Schema.parseJson(Schema.Struct({ run_id: Schema.String })))),
    Effect.map(({ run_id }) => run_id),
    Effect.orElseSucceed(() => undefined)
  )

/**
 * Checks the run in `folder`: that no byte of its evidence or its blobs was changed, that nothing is missing, that plans,
 * prompts, sampling and readings come out again as they are on record, that tokens go on where messages do, and that the
 * rows say what the evidence says. A run that is still going on is not whole yet, and that shows as faults. An attempt that
 * was stopped in its middle is no fault once a later one of the same rollout has its row.
 *
 * Fails only where the folder holds no evidence at all. One rollout is looked at after another, a line at a time.
 *
 * @since 0.1.0
 * @category operations
 */
export const run = (
  folder: string,
  options: VerifyOptions = {}
): Effect.Effect<VerifyReport, VerifyError, FileSystem.FileSystem | Path.Path> =>
  Effect.gen(function* () {
    const fs = yield* FileSystem.FileSystem
    const path = yield* Path.Path
    const directory = path.join(folder, "evidence")
    const files = yield* Effect.mapError(
      fs.readDirectory(directory),
      ({ message }) => new VerifyError({ path: folder, reason: message })
    )
    const left = new Set(files.filter((file) => file.endsWith(".jsonl")).sort())
    const blobs = yield* survey(fs, path, path.join(folder, "blobs"))
    const verifying: Verifying = { blobs, options, runId: yield* runIdOf(fs, path.join(folder, "run.json")) }
    const faults: Array<EvidenceFault> = [...blobs.faults]
    const rollouts: Array<RolloutReport> = []
    const seen = new Set<string>()
    const successors: Successors = new Map()
    yield* Stream.runForEach(rowsOf(fs, path, folder), (row) =>
      Effect.gen(function* () {
        if (Either.isLeft(row)) {
          faults.push(row.left)
          return
        }
        const placed = row.right
        const stem = stemOf(placed)
        const fault = (kind: "row_differs" | "evidence_missing", detail: string) =>
          faults.push(new EvidenceFault({ kind, path: placed.path, line: placed.line, detail }))
        if (seen.has(stem)) {
          fault("row_differs", `there is an earlier row of ${stem}`)
          return
        }
        seen.add(stem)
        succeed(successors, placed.row)
        if (!left.delete(`${stem}.jsonl`)) {
          fault("evidence_missing", `there is no ${stem}.jsonl`)
          return
        }
        rollouts.push(yield* verifyRollout(verifying, path.join(directory, `${stem}.jsonl`), stem, placed))
      })
    )
    const stopped = yield* abandoned(fs, path.join(folder, "journal.jsonl"), successors)
    for (const file of left) {
      const stem = file.slice(0, -".jsonl".length)
      rollouts.push(yield* verifyRollout(verifying, path.join(directory, file), stem, undefined, stopped.get(stem)))
    }
    return { rollouts, blobs: blobs.bytes.size, faults }
  })
