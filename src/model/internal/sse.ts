/**
 * Server-Sent Events, read from bytes as they come and written as text, by the rules of the WHATWG's HTML standard (9.2,
 * "Server-sent events").
 *
 * `@effect/experimental/Sse` was looked at first: it wants text that somebody else has decoded, takes a line feed that
 * comes apart from its carriage return for an empty line, dies where an event is too large, and sleeps when a server
 * says `retry`. Here each of these is a value that the caller decides on.
 *
 * @since 0.1.0
 */
import * as Channel from "effect/Channel"
import * as Chunk from "effect/Chunk"
import * as Either from "effect/Either"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"

// -----------------------------------------------------------------------------
// Models
// -----------------------------------------------------------------------------

/**
 * One event as a client dispatches it.
 *
 * @since 0.1.0
 * @category models
 */
export interface SseEvent {
  /** Its type; `message` where the server named none. */
  readonly event: string
  /** Its lines, joined by a line feed. */
  readonly data: string
  /** The last id that the server gave, in this event or before it. */
  readonly id?: string
}

/**
 * What is to be written: an event, with the time after which a client that lost the connection comes back.
 *
 * @since 0.1.0
 * @category models
 */
export interface SseOutput {
  readonly event?: string
  readonly data: string
  readonly id?: string
  /** Milliseconds. */
  readonly retry?: number
}

/**
 * How a stream is read.
 *
 * @since 0.1.0
 * @category models
 */
export interface SseOptions {
  /** Bytes that one event may have; 16 MiB unless given. */
  readonly maxEventBytes?: number
}

/**
 * Bytes that one event may have where nothing else is said: 16 MiB.
 *
 * @since 0.1.0
 * @category models
 */
export const defaultMaxEventBytes: number = 16 * 1024 * 1024

/**
 * - `invalid_utf8`: a line of the stream is no UTF-8
 * - `event_too_large`: an event has more bytes than the limit
 *
 * @since 0.1.0
 * @category errors
 */
export class SseError extends Schema.TaggedError<SseError>("deskhand/model/SseError")("SseError", {
  reason: Schema.Literal("invalid_utf8", "event_too_large"),
  /** The limit, where it was passed. */
  maxEventBytes: Schema.optionalWith(Schema.Int, { exact: true })
}) {
  override get message() {
    return this.reason === "invalid_utf8"
      ? "the event stream holds bytes that are no UTF-8: it was corrupted on its way, or is no event stream"
      : `an event of the stream has more than ${this.maxEventBytes} bytes: raise the limit, or look at what the server sends`
  }
}

/** Pieces of a line that is not whole yet, newest first; each is longer than the one that came after it. */
type Pieces = { readonly bytes: Uint8Array; readonly before: Pieces } | undefined

/**
 * Where a decoder is in its stream. It is a value: the same state fed twice gives the same twice.
 *
 * @since 0.1.0
 * @category models
 */
export interface SseState {
  readonly maxEventBytes: number
  readonly line: Pieces
  readonly lineBytes: number
  /** Whether the last byte was a carriage return, so that a line feed that comes next belongs to it. */
  readonly afterReturn: boolean
  /** Whether no line has ended yet: the first may start with a byte order mark. */
  readonly atStart: boolean
  readonly event: string
  readonly data: string | undefined
  /** Bytes of the lines that make up the pending event. */
  readonly eventBytes: number
  readonly id: string
  /** What the server last asked for as the time to come back, in milliseconds. */
  readonly retry: number | undefined
}

/**
 * What came of one chunk: the events that it made whole, and how to go on, or why it can't.
 *
 * @since 0.1.0
 * @category models
 */
export interface SseFed {
  readonly events: ReadonlyArray<SseEvent>
  readonly next: Either.Either<SseState, SseError>
}

// -----------------------------------------------------------------------------
// Decoding
// -----------------------------------------------------------------------------

/**
 * A decoder that has read nothing.
 *
 * @since 0.1.0
 * @category constructors
 */
export const initial = (options: SseOptions = {}): SseState => ({
  maxEventBytes: options.maxEventBytes ?? defaultMaxEventBytes,
  line: undefined,
  lineBytes: 0,
  afterReturn: false,
  atStart: true,
  event: "",
  data: undefined,
  eventBytes: 0,
  id: "",
  retry: undefined
})

const lineFeed = 0x0a
const carriageReturn = 0x0d

const joined = (first: Uint8Array, second: Uint8Array): Uint8Array => {
  const whole = new Uint8Array(first.length + second.length)
  whole.set(first)
  whole.set(second, first.length)
  return whole
}

/** Merges as it goes, so that a server which sends a byte at a time costs neither a square nor an object for each. */
const append = (pieces: Pieces, bytes: Uint8Array): Pieces => {
  let [merged, before] = [bytes, pieces]
  while (before !== undefined && before.bytes.length <= merged.length) {
    merged = joined(before.bytes, merged)
    before = before.before
  }
  return { bytes: merged, before }
}

const whole = (pieces: Pieces, last: Uint8Array): Uint8Array => {
  let bytes = last
  for (let rest = pieces; rest !== undefined; rest = rest.before) bytes = joined(rest.bytes, bytes)
  return bytes
}

// It keeps nothing from one call to the next: each is a whole line. The mark is taken off by `text`, once a stream.
const utf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true })

const text = (bytes: Uint8Array, atStart: boolean): string | undefined => {
  try {
    const line = utf8.decode(bytes)
    return atStart && line.startsWith("\uFEFF") ? line.slice(1) : line
  } catch {
    return undefined
  }
}

const lineEnd = (chunk: Uint8Array, from: number): number => {
  for (let at = from; at < chunk.length; at++) {
    if (chunk[at] === lineFeed || chunk[at] === carriageReturn) return at
  }
  return -1
}

type Mutable = { -readonly [Key in keyof SseState]: SseState[Key] }

const field = (state: Mutable, line: string, bytes: number): void => {
  const colon = line.indexOf(":")
  if (colon === 0) return
  const name = colon < 0 ? line : line.slice(0, colon)
  const value = colon < 0 ? "" : line.slice(line[colon + 1] === " " ? colon + 2 : colon + 1)
  switch (name) {
    case "data":
      state.data = state.data === undefined ? value : `${state.data}\n${value}`
      state.eventBytes += bytes
      break
    case "event":
      state.event = value
      state.eventBytes += bytes
      break
    case "id":
      if (!value.includes("\0")) state.id = value
      break
    case "retry":
      if (/^[0-9]+$/.test(value)) state.retry = Number(value)
      break
  }
}

/**
 * Reads one chunk. Events that were whole before an error are among `events`.
 *
 * @since 0.1.0
 * @category decoding
 */
export const feed = (before: SseState, chunk: Uint8Array): SseFed => {
  const events: Array<SseEvent> = []
  if (chunk.length === 0) return { events, next: Either.right(before) }
  const state: Mutable = { ...before }
  const failed = (reason: SseError["reason"]): SseFed => ({
    events,
    next: Either.left(
      new SseError({ reason, ...(reason === "event_too_large" ? { maxEventBytes: state.maxEventBytes } : {}) })
    )
  })
  let position = state.afterReturn && chunk[0] === lineFeed ? 1 : 0
  state.afterReturn = false
  while (position < chunk.length) {
    const end = lineEnd(chunk, position)
    const piece = chunk.subarray(position, end < 0 ? chunk.length : end)
    state.lineBytes += piece.length
    if (state.eventBytes + state.lineBytes > state.maxEventBytes) return failed("event_too_large")
    if (end < 0) {
      // A copy, so that what waits for its end doesn't keep the whole chunk.
      state.line = append(state.line, piece.slice())
      break
    }
    const line = text(whole(state.line, piece), state.atStart)
    if (line === undefined) return failed("invalid_utf8")
    if (line !== "") {
      field(state, line, state.lineBytes)
    } else {
      if (state.data !== undefined) {
        events.push({
          event: state.event === "" ? "message" : state.event,
          data: state.data,
          ...(state.id === "" ? {} : { id: state.id })
        })
      }
      state.event = ""
      state.data = undefined
      state.eventBytes = 0
    }
    state.atStart = false
    state.line = undefined
    state.lineBytes = 0
    position = end + 1
    if (chunk[end] === carriageReturn) {
      if (position === chunk.length) state.afterReturn = true
      else if (chunk[position] === lineFeed) position++
    }
  }
  return { events, next: Either.right(state) }
}

/**
 * Whether the stream broke off within an event. Such an event is not dispatched: nobody knows whether its data is whole.
 *
 * @since 0.1.0
 * @category decoding
 */
export const isPending = (state: SseState): boolean => state.data !== undefined || state.lineBytes > 0

/**
 * The events of a stream of bytes. Events before an error are emitted before it; one that is not whole at the end is
 * not emitted.
 *
 * @since 0.1.0
 * @category decoding
 */
export const decode =
  (options: SseOptions = {}) =>
  <E, R>(bytes: Stream.Stream<Uint8Array, E, R>): Stream.Stream<SseEvent, E | SseError, R> => {
    const loop = (
      state: SseState
    ): Channel.Channel<Chunk.Chunk<SseEvent>, Chunk.Chunk<Uint8Array>, E | SseError, E, void, unknown> =>
      Channel.readWithCause({
        onInput: (chunks: Chunk.Chunk<Uint8Array>) => {
          const events: Array<SseEvent> = []
          let next: Either.Either<SseState, SseError> = Either.right(state)
          for (const chunk of chunks) {
            if (Either.isLeft(next)) break
            const fed = feed(next.right, chunk)
            events.push(...fed.events)
            next = fed.next
          }
          const rest = Either.match(next, { onLeft: Channel.fail, onRight: loop })
          return events.length === 0 ? rest : Channel.zipRight(Channel.write(Chunk.unsafeFromArray(events)), rest)
        },
        onFailure: Channel.failCause,
        onDone: () => Channel.void
      })
    return Stream.pipeThroughChannel(bytes, loop(initial(options)))
  }

// -----------------------------------------------------------------------------
// Encoding
// -----------------------------------------------------------------------------

/**
 * An event as text. Its data may have lines; each kind of line end becomes a line feed when it is read.
 *
 * @since 0.1.0
 * @category encoding
 */
export const encode = ({ data, event, id, retry }: SseOutput): string =>
  `${id === undefined ? "" : `id: ${id}\n`}${event === undefined || event === "message" ? "" : `event: ${event}\n`}${
    retry === undefined ? "" : `retry: ${retry}\n`
  }${data
    .split(/\r\n|\r|\n/)
    .map((line) => `data: ${line}\n`)
    .join("")}\n`

/**
 * A line that clients skip: it keeps a connection open through proxies that close silent ones.
 *
 * @since 0.1.0
 * @category encoding
 */
export const comment = (value: string): string => `: ${value.replace(/[\r\n]+/g, " ")}\n\n`
