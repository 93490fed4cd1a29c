/**
 * A Chat Completions stream told as an Anthropic Messages stream, as it comes.
 *
 * @since 0.1.0
 */
import * as Either from "effect/Either"
import { callInput, messageEnd, messageObject, messageUsage } from "../convert/messagesReply.js"
import type { SseEvent, SseOutput } from "../sse.js"
import { type BridgeOptions, ended, type Facts, onEvent, read, refused, unknown } from "./chatFacts.js"
import * as Pieces from "./chatPieces.js"
import type { JsonObject, StreamError } from "./streamError.js"

/**
 * Where a translation is. It is a value: going on from it leaves it as it was.
 *
 * @since 0.1.0
 * @category models
 */
export interface ChatToMessagesState {
  readonly options: BridgeOptions
  readonly facts: Facts
  readonly pieces: Pieces.PiecesState
  /** Whether `message_start` was told: it waits for the first chunk, which names the model. */
  readonly started: boolean
  /** Blocks that have begun. */
  readonly blocks: number
  readonly open: Pieces.Piece | undefined
  /** Whether the open block has had a delta. */
  readonly begun: boolean
  readonly calls: boolean
  readonly refusal: boolean
}

/**
 * What a step makes: where the translation is now, and the events to send.
 *
 * @since 0.1.0
 * @category models
 */
export type Step = Either.Either<readonly [ChatToMessagesState, ReadonlyArray<SseOutput>], StreamError>

/**
 * Before the first chunk.
 *
 * @since 0.1.0
 * @category constructors
 */
export const initial = (options: BridgeOptions): ChatToMessagesState => ({
  options,
  facts: unknown,
  pieces: Pieces.initial(options),
  started: false,
  blocks: 0,
  open: undefined,
  begun: false,
  calls: false,
  refusal: false
})

const output = (type: string, fields: JsonObject): SseOutput => ({
  event: type,
  data: JSON.stringify({ type, ...fields })
})

const blockStart = (piece: Pieces.Piece): JsonObject => {
  switch (piece.kind) {
    case "text":
    case "refusal":
      return { type: "text", text: "", citations: null }
    case "reasoning":
      return { type: "thinking", thinking: "", signature: "" }
    case "call":
      return { type: "tool_use", id: piece.id, name: piece.name, input: {} }
  }
}

const blockDelta = (kind: Pieces.Piece["kind"], text: string): JsonObject => {
  switch (kind) {
    case "text":
    case "refusal":
      return { type: "text_delta", text }
    case "reasoning":
      return { type: "thinking_delta", thinking: text }
    case "call":
      return { type: "input_json_delta", partial_json: text }
  }
}

/** The state with a block that begins. */
const opened = (state: ChatToMessagesState, piece: Pieces.Piece): ChatToMessagesState => ({
  ...state,
  blocks: state.blocks + 1,
  open: piece,
  begun: false,
  calls: state.calls || piece.kind === "call",
  refusal: state.refusal || piece.kind === "refusal"
})

const tell = (before: ChatToMessagesState, events: ReadonlyArray<Pieces.PieceEvent>): Step => {
  const told: Array<SseOutput> = []
  let state = before
  for (const event of events) {
    if (event._tag === "Start") {
      const { piece } = event
      told.push(output("content_block_start", { index: state.blocks, content_block: blockStart(piece) }))
      state = opened(state, piece)
      continue
    }
    const { begun, open } = state
    const index = state.blocks - 1
    if (open === undefined) continue
    if (event._tag === "Delta") {
      // Arguments of blanks alone are no arguments, so blanks before the first brace are not told.
      const text = open.kind === "call" && !begun ? event.text.trimStart() : event.text
      if (text === "") continue
      if (!begun) state = { ...state, begun: true }
      told.push(output("content_block_delta", { index, delta: blockDelta(open.kind, text) }))
      continue
    }
    if (open.kind === "call") {
      const input = callInput({ name: open.name, arguments: event.text }, `content[${index}]`)
      if (Either.isLeft(input)) return Either.left(refused(input.left))
    }
    state = { ...state, open: undefined }
    told.push(output("content_block_stop", { index }))
  }
  return Either.right([state, told] as const)
}

const begin = (state: ChatToMessagesState): readonly [ChatToMessagesState, ReadonlyArray<SseOutput>] => {
  if (state.started) return [state, []]
  const { facts, options } = state
  const message = messageObject(options.request, {
    id: options.id,
    model: facts.model,
    content: [],
    end: { stop_reason: null, stop_sequence: null },
    usage: facts.usage
  })
  return [{ ...state, started: true }, [output("message_start", { message })]]
}

/**
 * Goes on with a chunk. Left is a `StreamError` of reason `malformed`: the chunk is none, or holds what a message has no
 * place for.
 *
 * @since 0.1.0
 * @category translating
 */
export const push = (before: ChatToMessagesState, chunk: JsonObject): Step =>
  Either.flatMap(read(before.facts, chunk), ({ delta, facts }) => {
    const [started, first] = begin({ ...before, facts })
    return Either.flatMap(Pieces.push(started.pieces, delta), ([pieces, events]) =>
      Either.map(tell({ ...started, pieces }, events), ([state, told]) => [state, [...first, ...told]] as const)
    )
  })

/**
 * Goes on with an event of the chat stream. Left is a `StreamError`, of reason `upstream` where the server reports an
 * error.
 *
 * @since 0.1.0
 * @category translating
 */
export const addEvent = (state: ChatToMessagesState, event: SseEvent): Step => onEvent(state, event, push)

/**
 * The events that end the message: the last block's end, `message_delta` with the reason and the usage, `message_stop`.
 * Left is a `StreamError`: `truncated` where the chat stream has no end, `malformed` where a call is not whole or its
 * arguments are no JSON object.
 *
 * @since 0.1.0
 * @category translating
 */
export const finish = (before: ChatToMessagesState): Step =>
  Either.gen(function* () {
    yield* ended(before.facts)
    const [started, first] = begin(before)
    const [pieces, events] = yield* Pieces.finish(started.pieces)
    const [state, told] = yield* tell({ ...started, pieces }, events)
    const { calls, facts, refusal } = state
    const end = yield* Either.mapLeft(
      messageEnd(facts.finish, { calls, refusal, stopText: facts.stopText }, "choices[0].finish_reason"),
      refused
    )
    return [
      state,
      [
        ...first,
        ...told,
        output("message_delta", { delta: end, usage: messageUsage(facts.usage) }),
        output("message_stop", {})
      ]
    ] as const
  })

/**
 * The event with which a message that can't be finished ends.
 *
 * @since 0.1.0
 * @category translating
 */
export const failure = (message: string, type = "api_error"): SseOutput => output("error", { error: { type, message } })
