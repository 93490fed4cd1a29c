/**
 * What was asked of a model and what it said, call by call, on disk: evidence for whoever grades or audits a rollout.
 *
 * @since 0.1.0
 */
import { fstatSync, writeSync } from "node:fs"
import * as FileSystem from "@effect/platform/FileSystem"
import * as Path from "@effect/platform/Path"
import * as Cause from "effect/Cause"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as RcMap from "effect/RcMap"
import * as Schema from "effect/Schema"

// -----------------------------------------------------------------------------
// Models
// -----------------------------------------------------------------------------

/**
 * What was wrong with a call; absent when nothing was.
 *
 * - `timeout`: 408, 504, or the upstream was silent for too long
 * - `rate_limit`, `auth`, `not_found`: 429; 401 and 403; 404
 * - `client_error`, `upstream_error`: any other 4xx; 5xx, or an error event that ended a stream
 * - `incomplete`: the model stopped at a limit of its own
 * - `stream_truncated`: a stream without its last event
 * - `capture_parse_error`: a success that cannot be read, or is too large to be kept
 * - `connection`: the upstream could not be reached, or its connection broke
 * - `client_disconnected`: whoever asked went away before the reply's end
 * - `refused`: the gateway could not carry the call to the upstream and says so; nothing was generated
 * - `exception`: a fault of the gateway
 *
 * @since 0.1.0
 * @category models
 */
export const ErrorCategory = Schema.Literal(
  "timeout",
  "rate_limit",
  "auth",
  "not_found",
  "client_error",
  "upstream_error",
  "incomplete",
  "stream_truncated",
  "capture_parse_error",
  "connection",
  "client_disconnected",
  "refused",
  "exception"
)

/**
 * @since 0.1.0
 * @category models
 */
export type ErrorCategory = typeof ErrorCategory.Type

const Absent = <A, I>(schema: Schema.Schema<A, I>) => Schema.optionalWith(schema, { exact: true })

/**
 * One call, as a line of `<rollout id>.capture.jsonl`. The keys are the field's.
 *
 * @since 0.1.0
 * @category models
 */
export class ModelCallRecord extends Schema.Class<ModelCallRecord>("deskhand/model/ModelCallRecord")({
  /** Made by the gateway: 32 hexadecimal digits. */
  model_call_id: Schema.String,
  /** The wire that the client spoke. */
  dialect: Schema.Literal("chat", "responses", "messages"),
  /** The wire that the upstream spoke, where the call was translated. */
  upstream_dialect: Absent(Schema.Literal("chat", "responses", "messages")),
  model_ref: Schema.Struct({ type: Schema.Literal("responses_api_models"), name: Schema.String }),
  /** Seconds since 1970, as are those of the end. */
  started_at: Schema.Number,
  completed_at: Schema.Number,
  /** From the request's last byte to the end of the reply. */
  latency_ms: Schema.Number,
  /** From the request's last byte to the first byte of the reply's body; null when none came. */
  latency_ttft_ms: Schema.NullOr(Schema.Number),
  /** What the client got; null when it got nothing. */
  status_code: Schema.NullOr(Schema.Int),
  error_category: Schema.NullOr(ErrorCategory),
  /** More about the error. */
  error_detail: Absent(Schema.String),
  /** What the client asked, credentials masked; null when it is no JSON. */
  request: Schema.Unknown,
  /** What the client got as JSON, a stream's events put together; null when they make no reply. */
  response: Schema.Unknown,
  /** The request's body as it came, where it is no JSON. */
  request_raw: Absent(Schema.String),
  /** The reply's body as it went out: of streams, and of what is no JSON. */
  response_raw: Absent(Schema.String),
  /** The same, where it is no UTF-8. */
  response_raw_base64: Absent(Schema.String)
}) {}

/**
 * What a rollout's file holds.
 *
 * @since 0.1.0
 * @category models
 */
export interface CapturedCalls {
  /** In the order in which they ended. */
  readonly records: ReadonlyArray<ModelCallRecord>
  /** Lines that cannot be read: torn by a crash, or written by something else. Counted from 1. */
  readonly unreadable: ReadonlyArray<number>
  /** Whether a call may be missing, and what was said about it. */
  readonly incomplete: boolean
  readonly reasons: ReadonlyArray<string>
}

/**
 * A file of captured calls could not be written or read.
 *
 * @since 0.1.0
 * @category errors
 */
export class CaptureError extends Schema.TaggedError<CaptureError>("deskhand/CaptureError")("CaptureError", {
  operation: Schema.Literal("write", "mark", "read", "remove"),
  path: Schema.String,
  reason: Schema.String
}) {
  override get message() {
    return `could not ${this.operation} ${this.path}: ${this.reason}. Check the disk and the permissions of the capture folder`
  }
}

/**
 * A record whose request is JSON text already, so that it is not made twice.
 *
 * @since 0.1.0
 * @category models
 */
export interface ModelCallLine {
  readonly record: Omit<typeof ModelCallRecord.Encoded, "request">
  /** JSON. */
  readonly request: string
}

/**
 * Where calls go that belong to no rollout. No rollout's id starts with an underscore.
 *
 * @since 0.1.0
 * @category constants
 */
export const uncorrelated = "_uncorrelated"

// -----------------------------------------------------------------------------
// Service
// -----------------------------------------------------------------------------

/**
 * Who keeps what is said in the calls of rollouts, as a service.
 *
 * @since 0.1.0
 * @category context
 */
export class ModelCallCapture extends Context.Tag("deskhand/model/ModelCallCapture")<
  ModelCallCapture,
  {
    /** Whether anything is kept, so that nothing is made ready in vain. */
    readonly enabled: boolean
    /** Adds a call to its rollout's file. It is on disk when this returns. */
    readonly put: (rolloutId: string, line: ModelCallLine) => Effect.Effect<void, CaptureError>
    /** Says that a call may be missing. It stays said. */
    readonly markIncomplete: (rolloutId: string, reason: string) => Effect.Effect<void, CaptureError>
    /** A rollout's calls; none of a rollout that has no file. */
    readonly read: (rolloutId: string) => Effect.Effect<CapturedCalls, CaptureError>
    /** Removes what an earlier attempt under the same id left, mark and all. */
    readonly remove: (rolloutId: string) => Effect.Effect<void, CaptureError>
  }
>() {}

/** The line that a record becomes. */
export const encodeLine = ({ record, request }: ModelCallLine): string => {
  const text = JSON.stringify(record)
  return `${text.slice(0, -1)},"request":${request}}\n`
}

const decodeRecord = Schema.decodeUnknownOption(Schema.parseJson(ModelCallRecord))

const lineFeed = 0x0a

/** Files that are kept open between calls; beyond them each call opens its own. */
const openFiles = 256

/**
 * Lines of at most so many bytes are handed to the system at once, since a thread that does it takes longer to be woken
 * than the line to be copied. It is the sync that waits for the disk, and that is left to a thread.
 */
const quickBytes = 64 * 1024

/** What the system does without waiting for the disk. */
const quick = <A>(call: () => A): Effect.Effect<A, Error> =>
  Effect.try({ try: call, catch: (error) => (error instanceof Error ? error : new Error(String(error))) })

const factsOf = (handle: FileSystem.File) => quick(() => fstatSync(handle.fd, { bigint: true }))

/**
 * Files in a folder, made if it is missing: `<rollout id>.capture.jsonl`, and `<rollout id>.capture.incomplete` beside it
 * where a call may be missing. Fails when the folder cannot be made.
 *
 * @since 0.1.0
 * @category layers
 */
export const layer = (options: {
  readonly directory: string
}): Layer.Layer<ModelCallCapture, CaptureError, FileSystem.FileSystem | Path.Path> =>
  Layer.scoped(
    ModelCallCapture,
    Effect.gen(function* () {
      const fs = yield* FileSystem.FileSystem
      const path = yield* Path.Path
      const directory = path.resolve(options.directory)
      const file = (rolloutId: string) => path.join(directory, `${rolloutId}.capture.jsonl`)
      const mark = (rolloutId: string) => path.join(directory, `${rolloutId}.capture.incomplete`)
      const failed = (operation: CaptureError["operation"], at: string) =>
        Effect.mapError(
          (cause: { readonly message: string }) => new CaptureError({ operation, path: at, reason: cause.message })
        )
      yield* failed("write", directory)(fs.makeDirectory(directory, { recursive: true }))
      const locks = new Map<string, { readonly semaphore: Effect.Semaphore; users: number }>()

      /** One writer at a time for each file, and no memory of files that nobody writes. */
      const alone = <A, E>(name: string, effect: Effect.Effect<A, E>): Effect.Effect<A, E> =>
        Effect.suspend(() => {
          const lock = locks.get(name) ?? { semaphore: Effect.unsafeMakeSemaphore(1), users: 0 }
          lock.users++
          locks.set(name, lock)
          return Effect.ensuring(
            lock.semaphore.withPermits(1)(effect),
            Effect.sync(() => {
              lock.users--
              if (lock.users === 0) locks.delete(name)
            })
          )
        })

      const opened = (at: string, flag: FileSystem.OpenFlag) =>
        fs.open(at, { flag }).pipe(
          // The folder may have been made, or removed, since the last call.
          Effect.catchTag("SystemError", (error) =>
            error.reason === "NotFound"
              ? Effect.zipRight(fs.makeDirectory(directory, { recursive: true }), fs.open(at, { flag }))
              : Effect.fail(error)
          )
        )

      /** A new name lasts only once its folder is on disk too. */
      const syncFolder = Effect.scoped(Effect.flatMap(fs.open(directory, { flag: "r" }), (folder) => folder.sync))

      const endsWithin = (handle: FileSystem.File, size: bigint) =>
        Effect.gen(function* () {
          if (size === 0n) return false
          yield* handle.seek(size - 1n, "start")
          const last = new Uint8Array(1)
          yield* handle.read(last)
          return last[0] !== lineFeed
        })

      /** A file that is open for appending. A line that a crash tore stays for the reader to report, and takes no other with it. */
      const openForAppend = (at: string) =>
        Effect.gen(function* () {
          const handle = yield* opened(at, "a+")
          const { size } = yield* factsOf(handle)
          return { handle, size, torn: yield* endsWithin(handle, size) }
        })

      // A rollout's calls follow each other: opening its file for each would cost as much as writing it.
      const handles = yield* RcMap.make({ lookup: openForAppend, idleTimeToLive: "10 seconds", capacity: openFiles })
      const shared = (at: string) =>
        RcMap.get(handles, at).pipe(Effect.catchIf(Cause.isExceededCapacityException, () => openForAppend(at)))

      const append = (at: string, text: string) =>
        Effect.gen(function* () {
          let file = yield* shared(at)
          let facts = yield* factsOf(file.handle)
          if (facts.nlink === 0n) {
            // Somebody has removed it meanwhile.
            yield* RcMap.invalidate(handles, at)
            file = yield* shared(at)
            facts = yield* factsOf(file.handle)
          }
          // What is not as we left it was written by another program, which may have been killed in the middle.
          const torn = facts.size === file.size ? file.torn : yield* endsWithin(file.handle, facts.size)
          const bytes = Buffer.from(torn ? `\n${text}` : text)
          const { fd } = file.handle
          const written = bytes.length <= quickBytes ? yield* quick(() => writeSync(fd, bytes)) : 0
          if (written < bytes.length) yield* file.handle.writeAll(bytes.subarray(written))
          file.size = facts.size + BigInt(bytes.length)
          file.torn = false
          yield* file.handle.sync
          if (facts.size === 0n) yield* syncFolder
          return torn
        }).pipe(
          Effect.scoped,
          // Nobody knows how much of the line is there.
          Effect.tapErrorCause(() => RcMap.invalidate(handles, at))
        )

      const markIncomplete = (rolloutId: string, reason: string) =>
        alone(mark(rolloutId), append(mark(rolloutId), `${reason.replace(/\s+/g, " ")}\n`)).pipe(
          failed("mark", mark(rolloutId)),
          Effect.asVoid,
          Effect.uninterruptible
        )

      return ModelCallCapture.of({
        enabled: true,
        put: (rolloutId, line) =>
          alone(file(rolloutId), append(file(rolloutId), encodeLine(line))).pipe(
            failed("write", file(rolloutId)),
            Effect.flatMap((torn) =>
              torn ? markIncomplete(rolloutId, "a line was torn before this file was opened again") : Effect.void
            ),
            Effect.uninterruptible
          ),
        markIncomplete,
        read: (rolloutId) =>
          Effect.gen(function* () {
            const lines = (at: string) =>
              Effect.gen(function* () {
                if (!(yield* fs.exists(at))) return []
                // Other characters that end lines elsewhere may stand in a JSON text.
                return (yield* fs.readFileString(at)).split("\n")
              })
            const records: Array<ModelCallRecord> = []
            const unreadable: Array<number> = []
            for (const [index, line] of (yield* lines(file(rolloutId))).entries()) {
              if (line === "") continue
              const record = decodeRecord(line)
              if (record._tag === "Some") records.push(record.value)
              else unreadable.push(index + 1)
            }
            const marked = yield* fs.exists(mark(rolloutId))
            const reasons = (yield* lines(mark(rolloutId))).filter((line) => line !== "")
            return { records, unreadable, incomplete: marked || unreadable.length > 0, reasons }
          }).pipe(failed("read", file(rolloutId))),
        remove: (rolloutId) =>
          Effect.forEach(
            [file(rolloutId), mark(rolloutId)],
            (at) => alone(at, Effect.zipRight(RcMap.invalidate(handles, at), fs.remove(at, { force: true }))),
            {
              discard: true
            }
          ).pipe(failed("remove", file(rolloutId)))
      })
    })
  )

/**
 * Keeps nothing.
 *
 * @since 0.1.0
 * @category layers
 */
export const layerDisabled: Layer.Layer<ModelCallCapture> = Layer.succeed(ModelCallCapture, {
  enabled: false,
  put: () => Effect.void,
  markIncomplete: () => Effect.void,
  read: () => Effect.succeed({ records: [], unreadable: [], incomplete: false, reasons: [] }),
  remove: () => Effect.void
})
