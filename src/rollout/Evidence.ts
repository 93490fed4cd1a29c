/**
 * What the model saw and what happened, on disk, record by record while it happens.
 *
 * @since 0.1.0
 */
import { createHash } from "node:crypto"
import * as FileSystem from "@effect/platform/FileSystem"
import * as Path from "@effect/platform/Path"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import { ArtifactStore } from "../artifact/ArtifactStore.js"
import type { RolloutIdentity } from "../identity/Identity.js"
import { EvidenceFault } from "./EvidenceFault.js"
import { EvidenceRecord } from "./EvidenceRecord.js"
import { genesis, seal } from "./internal/evidence/chain.js"
import { byteLines } from "./internal/evidence/lines.js"
import { pack, packer } from "./internal/evidence/pack.js"
import { textWriter } from "./internal/evidence/textWriter.js"
import { unpack, unpacker } from "./internal/evidence/unpack.js"

export {
  /**
   * @since 0.1.0
   * @category models
   */
  EvidenceRecord,
  /**
   * @since 0.1.0
   * @category models
   */
  Started
} from "./EvidenceRecord.js"

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
  /**
   * Handed to the operating system when it returns: what kills this program loses nothing. The last record, which says
   * how the evaluation ended, returns when the whole file is on the disk, and no power cut loses it any more. The blobs
   * that it names are not waited for: see `ArtifactStore.layer`. After a failure nothing more can be appended: half a
   * record would be in the way.
   */
  readonly append: (record: EvidenceRecord) => Effect.Effect<void, EvidenceError>
}

/**
 * Who writes down what happens in episodes, as a service.
 *
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

const isLast = ({ _tag }: EvidenceRecord): boolean => _tag === "Evaluated" || _tag === "NotEvaluated"

const safe = (id: string) => id.replace(/[^A-Za-z0-9_.-]/g, "_").slice(0, 120)

/** Two ids that a file name cannot tell apart are told apart by a hash. */
const named = (id: string): string =>
  safe(id) === id ? id : `${safe(id)}_${createHash("sha256").update(id).digest("hex").slice(0, 8)}`

/**
 * The name of a rollout's files: readable first, unique by its end.
 *
 * @since 0.1.0
 * @category encoding
 */
export const fileStem = (identity: Pick<RolloutIdentity, "taskId" | "rolloutId">): string =>
  `${safe(identity.taskId)}.${named(identity.rolloutId)}`

/**
 * One file a rollout, `<out>/evidence/<task>.<rollout>.jsonl`, and its screenshots by step for a person to leaf through,
 * `<out>/screenshots/<task>.<rollout>/step-000.png`, each a link to its blob.
 *
 * The file grows with what is new alone: a message is written once, however many prompts show it, and a prompt's tokens
 * are written as what they add to an earlier call's. Each line ends in a digest of itself and of all lines before it.
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
      const writeText = textWriter()
      // Node has four threads for files, and episodes that end together would leave none to those that go on.
      const syncing = yield* Effect.makeSemaphore(2)
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
          const turn = yield* Effect.makeSemaphore(1)
          const packed = packer()
          let chain = genesis
          let broken: EvidenceError | undefined
          const blobs = path.relative(pictures, store.directory)
          const link = (record: EvidenceRecord) => {
            if (record._tag !== "Observed") return Effect.void
            const { sha256 } = record.observation.screenshot
            const picture = `${pictures}${path.sep}step-${String(record.step).padStart(3, "0")}.png`
            return Effect.mapError(fs.symlink(`${blobs}${path.sep}${sha256}`, picture), failed(picture))
          }
          const write = (record: EvidenceRecord) =>
            Effect.suspend(() => {
              if (broken !== undefined) return Effect.fail(broken)
              let lines = ""
              for (const json of pack(packed, record, encode)) {
                const sealed = seal(chain, json)
                chain = sealed.chain
                lines += sealed.line
              }
              const written = writeText(file, lines)
              // Once an episode, before its row: a sync at each step would cost more than the step's records.
              return (isLast(record) ? Effect.zipRight(written, syncing.withPermits(1)(file.sync)) : written).pipe(
                Effect.mapError(failed(target)),
                Effect.tapError((error) => Effect.sync(() => (broken = error)))
              )
            })
          return {
            append: (record) =>
              Effect.zipRight(link(record), write(record)).pipe(turn.withPermits(1), Effect.uninterruptible)
          }
        })
      })
    })
  )

// -----------------------------------------------------------------------------
// Reading
// -----------------------------------------------------------------------------

/**
 * A record and the line that it ends on, from 1; or what is wrong with a line.
 *
 * @since 0.1.0
 * @category models
 */
export type Entry = Either.Either<{ readonly line: number; readonly record: EvidenceRecord }, EvidenceFault>

/**
 * All of an evidence file, in its order: what can be read, and what is wrong with the rest. It never gives up on a
 * file; one that cannot be read is a fault too. What it keeps is each distinct message once and the tokens of a few
 * calls: memory grows with what is on disk, not with the sum of all prompts.
 *
 * @since 0.1.0
 * @category reading
 */
export const entries = (file: string): Stream.Stream<Entry, never, FileSystem.FileSystem> =>
  Stream.unwrap(
    Effect.map(FileSystem.FileSystem, (fs) => {
      const state = unpacker()
      const fault = (kind: EvidenceFault["kind"], detail: string, line?: number): Entry =>
        Either.left(new EvidenceFault({ kind, path: file, detail, ...(line === undefined ? {} : { line }) }))
      return byteLines(fs.stream(file)).pipe(
        Stream.mapConcat(({ bytes, number, torn }): ReadonlyArray<Entry> => {
          if (torn) return [fault("torn_tail", `the last ${bytes.length} bytes are no whole line`, number)]
          const { faults, record } = unpack(state, bytes)
          return [
            ...faults.map(({ detail, kind }) => fault(kind, detail, number)),
            ...(record === undefined ? [] : [Either.right({ line: number, record })])
          ]
        }),
        Stream.catchAll((error) => Stream.make(fault("unreadable", error.message)))
      )
    })
  )

/**
 * The records of an evidence file, in their order. Fails with the first fault.
 *
 * @since 0.1.0
 * @category reading
 */
export const read = (file: string): Stream.Stream<EvidenceRecord, EvidenceFault, FileSystem.FileSystem> =>
  Stream.mapEffect(
    entries(file),
    Either.map(({ record }) => record)
  )
