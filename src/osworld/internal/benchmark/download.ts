/** One file from one of several places: tried again, resumed, checked, and under its own name only when it is whole. */
import * as FileSystem from "@effect/platform/FileSystem"
import * as HttpClient from "@effect/platform/HttpClient"
import * as HttpClientRequest from "@effect/platform/HttpClientRequest"
import type * as HttpClientResponse from "@effect/platform/HttpClientResponse"
import * as Path from "@effect/platform/Path"
import * as Data from "effect/Data"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schedule from "effect/Schedule"
import * as Stream from "effect/Stream"
import { sha256OfFile } from "./digest.js"
import * as Partial from "./partial.js"
import { bare, redirected, type Source } from "./sources.js"

/** What is known of a file before it is there. */
export interface Expected {
  readonly sha256?: string | undefined
  readonly bytes?: number | undefined
}

export interface Content {
  readonly sha256: string
  readonly bytes: number
}

export class DownloadFailed extends Data.TaggedError("DownloadFailed")<{
  /** Whoever was asked says that there is no such file. */
  readonly missing: boolean
  /** The same place may answer otherwise. */
  readonly again: boolean
  /** How long the server asks to wait. */
  readonly after?: Duration.Duration | undefined
  readonly reason: string
}> {}

/** Worth another try unless it says otherwise. */
const failed = (
  reason: string,
  more: { readonly missing?: boolean; readonly again?: boolean; readonly after?: Duration.Duration } = {}
) => new DownloadFailed({ missing: false, again: true, reason, ...more })

const asFailed = (error: { readonly message: string }): DownloadFailed =>
  error instanceof DownloadFailed ? error : failed(error.message)

/** How long a server may be silent. */
const silence = Duration.seconds(60)

const maxRedirects = 10

/** Five tries, 1, 2, 4 and 8 seconds apart or as the server says, half a minute at most. */
const retrySchedule = Schedule.identity<DownloadFailed>().pipe(
  Schedule.intersect(Schedule.recurs(4)),
  Schedule.addDelay(([{ after }, count]) => Duration.min(after ?? Duration.seconds(2 ** count), Duration.seconds(30)))
)

const retryAfter = (response: HttpClientResponse.HttpClientResponse): { readonly after?: Duration.Duration } => {
  const value = response.headers["retry-after"]
  return value !== undefined && /^\d+$/.test(value) ? { after: Duration.seconds(Number(value)) } : {}
}

/** What Hugging Face says of a large file before it sends us to where that is. */
const linkedOf = ({ headers }: HttpClientResponse.HttpClientResponse): Expected => {
  const etag = headers["x-linked-etag"]?.replace(/^W\//, "").replaceAll('"', "")
  const size = headers["x-linked-size"]
  return {
    ...(etag !== undefined && /^[0-9a-f]{64}$/.test(etag) ? { sha256: etag } : {}),
    ...(size !== undefined && /^\d+$/.test(size) ? { bytes: Number(size) } : {})
  }
}

const ask = (source: Source, range: Readonly<Record<string, string>>) =>
  Effect.gen(function* () {
    const http = yield* HttpClient.HttpClient
    let at = source
    let linked: Expected = {}
    for (let redirects = 0; redirects <= maxRedirects; redirects++) {
      const response = yield* http
        .execute(HttpClientRequest.get(at.url).pipe(HttpClientRequest.setHeaders({ ...at.headers, ...range })))
        .pipe(
          // Its message holds the address, which may be signed.
          Effect.mapError(({ reason, cause }) =>
            failed(`${bare(at.url)} gave no answer (${reason}${cause instanceof Error ? `: ${cause.message}` : ""})`)
          ),
          Effect.timeoutFail({
            duration: silence,
            onTimeout: () => failed(`${bare(at.url)} gave no answer within ${Duration.format(silence)}`)
          })
        )
      linked = { ...linked, ...linkedOf(response) }
      const { location } = response.headers
      if (response.status < 300 || response.status >= 400 || location === undefined) return { response, linked }
      const next = redirected(at, location)
      if (next === undefined) return yield* failed("it leads to what is no http address", { again: false })
      at = next
    }
    return yield* failed(`it leads on more than ${maxRedirects} times`, { again: false })
  })

const refusal = (response: HttpClientResponse.HttpClientResponse): DownloadFailed => {
  const { status } = response
  const reason = `the server answered HTTP ${status}`
  if (status === 404 || status === 410) return failed(reason, { missing: true, again: false })
  if (status === 401 || status === 403) {
    return failed(`${reason}; set HF_TOKEN where it is Hugging Face that wants to know who asks`, { again: false })
  }
  const transient = status === 408 || status === 425 || status === 429 || status >= 500
  return failed(reason, { again: transient, ...retryAfter(response) })
}

/** A validator that means the same bytes, and not only the same content: RFC 9110, 13.1.5. */
const validatorOf = ({ headers }: HttpClientResponse.HttpClientResponse): string | undefined => {
  const { etag } = headers
  return etag !== undefined && !etag.startsWith("W/") ? etag : headers["last-modified"]
}

/** How long the whole is, as far as the answer says. */
const totalOf = ({ headers, status }: HttpClientResponse.HttpClientResponse): number | undefined => {
  const text = status === 206 ? /\/(\d+)$/.exec(headers["content-range"] ?? "")?.[1] : headers["content-length"]
  return headers["content-encoding"] === undefined && text !== undefined && /^\d+$/.test(text)
    ? Number(text)
    : undefined
}

const startOf = ({ headers }: HttpClientResponse.HttpClientResponse): number | undefined => {
  const start = /^bytes (\d+)-/.exec(headers["content-range"] ?? "")?.[1]
  return start === undefined ? undefined : Number(start)
}

/** One try. What it got stays in the partial, whatever happens. */
const once = (source: Source, partial: Partial.Partial, expected: Expected, onBytes: (bytes: number) => void) =>
  Effect.gen(function* () {
    const fs = yield* FileSystem.FileSystem
    const note = yield* Effect.option(fs.readFileString(partial.note))
    const there = yield* Effect.option(fs.stat(partial.data))
    const offset = Option.isSome(there) && Option.isSome(note) ? Number(there.value.size) : 0
    const range: Record<string, string> =
      offset > 0 && Option.isSome(note) ? { range: `bytes=${offset}-`, "if-range": note.value } : {}
    // Compressed on its way, a file has no length and no place to go on from.
    const { linked, response } = yield* ask(source, { "accept-encoding": "identity", ...range })
    const { status } = response
    if (status === 416) {
      yield* Partial.discard(partial)
      return yield* failed("the server has no more than what is here of another download; it begins anew")
    }
    const resumed = status === 206 && startOf(response) === offset && offset > 0
    if (status !== 200 && !resumed) {
      if (status === 206) yield* Partial.discard(partial)
      return yield* status === 206 ? failed("the server sent another part than it was asked for") : refusal(response)
    }
    if (!resumed) {
      const validator = validatorOf(response)
      yield* fs.remove(partial.note, { force: true })
      yield* fs.writeFile(partial.data, new Uint8Array(0))
      if (validator !== undefined) yield* fs.writeFileString(partial.note, validator)
    } else onBytes(offset)
    yield* response.stream.pipe(
      Stream.mapError((error) =>
        failed(`the answer broke off (${error.cause instanceof Error ? error.cause.message : error.reason})`)
      ),
      Stream.timeoutFail(() => failed(`nothing came for ${Duration.format(silence)}`), silence),
      Stream.tap((bytes) => Effect.sync(() => onBytes(bytes.length))),
      Stream.run(fs.sink(partial.data, { flag: "a" }))
    )
    const size = Number((yield* fs.stat(partial.data)).size)
    const total = totalOf(response) ?? linked.bytes
    if (total !== undefined && size < total) return yield* failed(`${size} of ${total} bytes came`)
    const content = yield* sha256OfFile(partial.data)
    const wrong =
      total !== undefined && size > total
        ? `${size} bytes came, where the server spoke of ${total}`
        : wrongIn(content, linked) === undefined
          ? wrongIn(content, expected)
          : `${wrongIn(content, linked)} according to the server`
    if (wrong !== undefined) {
      yield* Partial.discard(partial)
      // Bytes of two downloads may have met; a whole one that is wrong stays wrong.
      return yield* failed(wrong, { again: resumed })
    }
    return content
  })

/** What content is not as it should be. */
export const wrongIn = (content: Content, expected: Expected): string | undefined => {
  if (expected.bytes !== undefined && content.bytes !== expected.bytes) {
    return `it has ${content.bytes} bytes, and should have ${expected.bytes}`
  }
  return expected.sha256 !== undefined && content.sha256 !== expected.sha256
    ? `its SHA-256 is ${content.sha256}, and should be ${expected.sha256}`
    : undefined
}

/**
 * Downloads to `target`, which appears whole or not at all, and read-only. What came before an interruption stays beside
 * it for the next time.
 */
export const download = (options: {
  readonly sources: ReadonlyArray<Source>
  readonly target: string
  readonly expected: Expected
  /** Hears of bytes as they come; of those that were there already, all at once. */
  readonly onBytes: (bytes: number) => void
}): Effect.Effect<Content, DownloadFailed, FileSystem.FileSystem | Path.Path | HttpClient.HttpClient> =>
  Effect.gen(function* () {
    const fs = yield* FileSystem.FileSystem
    const path = yield* Path.Path
    const { expected, onBytes, sources, target } = options
    const directory = path.dirname(target)
    const name = path.basename(target)
    yield* fs.makeDirectory(directory, { recursive: true })
    return yield* Effect.acquireUseRelease(
      Partial.claim(directory, name),
      (partial) =>
        Effect.gen(function* () {
          const content = yield* tried(sources, (source) => once(source, partial, expected, onBytes))
          yield* Effect.scoped(Effect.flatMap(fs.open(partial.data, { flag: "r+" }), ({ sync }) => sync))
          yield* fs.chmod(partial.data, 0o444)
          yield* Effect.uninterruptible(fs.rename(partial.data, target))
          return content
        }),
      (partial) => Partial.release(directory, name, partial)
    )
  }).pipe(Effect.mapError(asFailed))

/** From place to place. That a file does not exist is so where the last of them, its own address, says it. */
const tried = <R>(
  sources: ReadonlyArray<Source>,
  attempt: (source: Source) => Effect.Effect<Content, { readonly message: string }, R>
): Effect.Effect<Content, DownloadFailed, R> => {
  const [first, ...rest] = sources
  if (first === undefined) return failed("there is no place to get it from", { again: false })
  const here = attempt(first).pipe(
    Effect.mapError(asFailed),
    Effect.retry({ schedule: retrySchedule, while: ({ again }) => again })
  )
  return rest.length === 0 ? here : Effect.orElse(here, () => tried(rest, attempt))
}
