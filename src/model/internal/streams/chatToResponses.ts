/**
 * A Chat Completions stream told as a Responses stream, as it comes.
 *
 * @since 0.1.0
 */
import * as Either from "effect/Either"
import type { JsonObject } from "../convert/json.js"
import { responseEnd, responseObject } from "../convert/responsesReply.js"
import { callItem, itemId, messageItem, reasoningItem } from "../convert/responsesWrite.js"
import type { OutputPiece } from "../convert/turn.js"
import type { SseEvent, SseOutput } from "../sse.js"
import { type BridgeOptions, bundleFields, ended, type Facts, onEvent, read, unknown } from "./chatFacts.js"
import * as Pieces from "./chatPieces.js"
import type { StreamError } from "./streamError.js"

// -----------------------------------------------------------------------------
// Models
// -----------------------------------------------------------------------------

/** An item that has begun: its pieces that have ended are its parts. */
type Item =
  | { readonly kind: "message"; readonly id: string; readonly parts: ReadonlyArray<OutputPiece> }
  | { readonly kind: "reasoning"; readonly id: string; readonly parts: ReadonlyArray<string> }
  | { readonly kind: "call"; readonly id: string; readonly name: string; readonly arguments: string }

/**
 * Where a translation is. It is a value: going on from it leaves it as it was.
 *
 * @since 0.1.0
 * @category models
 */
export interface ChatToResponsesState {
  readonly options: BridgeOptions
  readonly facts: Facts
  readonly pieces: Pieces.PiecesState
  /** The number of the next event. */
  readonly sequence: number
  /** Items that have ended. */
  readonly output: ReadonlyArray<JsonObject>
  readonly open: { readonly item: Item; readonly piece: Pieces.Piece["kind"] } | undefined
}

/**
 * What a step makes: where the translation is now, and the events to send.
 *
 * @since 0.1.0
 * @category models
 */
export type Step = Either.Either<readonly [ChatToResponsesState, ReadonlyArray<SseOutput>], StreamError>

/**
 * Before the first chunk.
 *
 * @since 0.1.0
 * @category constructors
 */
export const initial = (options: BridgeOptions): ChatToResponsesState => ({
  options,
  facts: unknown,
  pieces: Pieces.initial(options),
  sequence: 0,
  output: [],
  open: undefined
})

// -----------------------------------------------------------------------------
// Objects
// -----------------------------------------------------------------------------

const wholeItem = (item: Item): JsonObject => {
  switch (item.kind) {
    case "message":
      return messageItem(item.parts, item.id)
    case "reasoning":
      return reasoningItem(item.parts, item.id)
    case "call":
      return callItem(item)
  }
}

const response = (
  { facts, options, output }: ChatToResponsesState,
  end: ReturnType<typeof responseEnd> | undefined
): JsonObject =>
  responseObject(options.request, {
    id: options.id,
    createdAt: options.createdAt,
    model: facts.model,
    ...(end ?? { status: "in_progress", incomplete: null }),
    output,
    usage: end === undefined ? null : facts.usage
  })

/** The part that a piece of a message or of reasoning is. */
const part = (kind: Pieces.Piece["kind"], text: string): JsonObject => {
  switch (kind) {
    case "refusal":
      return { type: "refusal", refusal: text }
    case "reasoning":
      return { type: "summary_text", text }
    default:
      return { type: "output_text", text, annotations: [] }
  }
}

// -----------------------------------------------------------------------------
// Telling
// -----------------------------------------------------------------------------

const output = ({ sequence }: ChatToResponsesState, type: string, fields: JsonObject): SseOutput => ({
  event: type,
  data: JSON.stringify({ type, sequence_number: sequence, ...fields })
})

const deltaTypes: Readonly<Record<Pieces.Piece["kind"], string>> = {
  text: "response.output_text.delta",
  refusal: "response.refusal.delta",
  reasoning: "response.reasoning_summary_text.delta",
  call: "response.function_call_arguments.delta"
}

/** The state of a translation while one step is made, and what the step tells. */
class Teller {
  readonly told: Array<SseOutput> = []

  constructor(public state: ChatToResponsesState) {}

  tell(type: string, fields: JsonObject): void {
    this.told.push(output(this.state, type, fields))
    this.state = { ...this.state, sequence: this.state.sequence + 1 }
  }

  begin(): void {
    if (this.state.sequence > 0) return
    this.tell("response.created", { response: response(this.state, undefined) })
    this.tell("response.in_progress", { response: response(this.state, undefined) })
  }

  /** Where the open item's events belong. */
  private at(item: Item): JsonObject {
    return { item_id: item.id, output_index: this.state.output.length }
  }

  private atPart(item: Item): JsonObject {
    switch (item.kind) {
      case "message":
        return { ...this.at(item), content_index: item.parts.length }
      case "reasoning":
        return { ...this.at(item), summary_index: item.parts.length }
      case "call":
        return this.at(item)
    }
  }

  endItem(extra: JsonObject): void {
    const { open, output } = this.state
    if (open === undefined) return
    const item = { ...wholeItem(open.item), ...extra }
    this.tell("response.output_item.done", { output_index: output.length, item })
    this.state = { ...this.state, output: [...output, item], open: undefined }
  }

  /** The item that a piece goes into: neighbouring words are one message, neighbouring spans one item. */
  private itemFor(piece: Pieces.Piece): Item {
    const kind = piece.kind === "call" || piece.kind === "reasoning" ? piece.kind : "message"
    const { open } = this.state
    if (open !== undefined && kind !== "call" && open.item.kind === kind) return open.item
    this.endItem({})
    const { options, output } = this.state
    const item: Item =
      piece.kind === "call"
        ? { kind: "call", id: piece.id, name: piece.name, arguments: "" }
        : piece.kind === "reasoning"
          ? { kind: "reasoning", id: itemId("rs", options.id, output.length), parts: [] }
          : { kind: "message", id: itemId("msg", options.id, output.length), parts: [] }
    this.tell("response.output_item.added", {
      output_index: output.length,
      item: { ...wholeItem(item), status: "in_progress" }
    })
    return item
  }

  start(piece: Pieces.Piece): void {
    const item = this.itemFor(piece)
    this.state = { ...this.state, open: { item, piece: piece.kind } }
    if (item.kind === "call") return
    const type = item.kind === "message" ? "response.content_part.added" : "response.reasoning_summary_part.added"
    this.tell(type, { ...this.atPart(item), part: part(piece.kind, "") })
  }

  delta(text: string): void {
    const { open } = this.state
    if (open === undefined) return
    const extra = open.piece === "text" ? { logprobs: [] } : {}
    this.tell(deltaTypes[open.piece], { ...this.atPart(open.item), delta: text, ...extra })
  }

  end(text: string): void {
    const { open } = this.state
    if (open === undefined) return
    const { item, piece } = open
    const at = this.atPart(item)
    switch (item.kind) {
      case "call":
        this.tell("response.function_call_arguments.done", { ...at, name: item.name, arguments: text })
        this.state = { ...this.state, open: { piece, item: { ...item, arguments: text } } }
        return
      case "reasoning":
        this.tell("response.reasoning_summary_text.done", { ...at, text })
        this.tell("response.reasoning_summary_part.done", { ...at, part: part(piece, text) })
        this.state = { ...this.state, open: { piece, item: { ...item, parts: [...item.parts, text] } } }
        return
      case "message": {
        const refusal = piece === "refusal"
        if (refusal) this.tell("response.refusal.done", { ...at, refusal: text })
        else this.tell("response.output_text.done", { ...at, text, logprobs: [] })
        this.tell("response.content_part.done", { ...at, part: part(piece, text) })
        const said: OutputPiece = { _tag: refusal ? "refusal" : "text", text }
        this.state = { ...this.state, open: { piece, item: { ...item, parts: [...item.parts, said] } } }
      }
    }
  }

  all(events: ReadonlyArray<Pieces.PieceEvent>): void {
    for (const event of events) {
      if (event._tag === "Start") this.start(event.piece)
      else if (event._tag === "Delta") this.delta(event.text)
      else this.end(event.text)
    }
  }
}

// -----------------------------------------------------------------------------
// Translating
// -----------------------------------------------------------------------------

/**
 * Goes on with a chunk. Left is a `StreamError` of reason `malformed`: the chunk is none, or holds what a response has
 * no item for.
 *
 * @since 0.1.0
 * @category translating
 */
export const push = (before: ChatToResponsesState, chunk: JsonObject): Step =>
  Either.flatMap(read(before.facts, chunk), ({ delta, facts }) =>
    Either.map(Pieces.push(before.pieces, delta), ([pieces, events]) => {
      const teller = new Teller({ ...before, facts, pieces })
      teller.begin()
      teller.all(events)
      return [teller.state, teller.told] as const
    })
  )

/**
 * Goes on with an event of the chat stream. Left is a `StreamError`, of reason `upstream` where the server reports an
 * error.
 *
 * @since 0.1.0
 * @category translating
 */
export const addEvent = (state: ChatToResponsesState, event: SseEvent): Step => onEvent(state, event, push)

/**
 * The events that end the response: the last item's end, then `response.completed` or `response.incomplete`. A reply
 * that says nothing has one message of an empty text, as a whole one has. Left is a `StreamError`: `truncated` where the
 * chat stream has no end, `malformed` where a call is not whole.
 *
 * @since 0.1.0
 * @category translating
 */
export const finish = (before: ChatToResponsesState): Step =>
  Either.gen(function* () {
    yield* ended(before.facts)
    const [pieces, events] = yield* Pieces.finish(before.pieces)
    const bundle = yield* bundleFields(before.facts)
    const teller = new Teller({ ...before, pieces })
    teller.begin()
    teller.all(events)
    if (teller.state.open === undefined)
      teller.all([
        { _tag: "Start", piece: { kind: "text" } },
        { _tag: "End", text: "" }
      ])
    teller.endItem(bundle)
    const end = responseEnd(teller.state.facts.finish)
    teller.tell(`response.${end.status}`, { response: response(teller.state, end) })
    return [teller.state, teller.told] as const
  })

/**
 * The events with which a response that can't be finished ends: `response.failed`, with the items that are whole; before
 * it, where nothing has been told, those that begin a response.
 *
 * @since 0.1.0
 * @category translating
 */
export const failure = (
  before: ChatToResponsesState,
  error: { readonly message: string; readonly code?: string }
): ReadonlyArray<SseOutput> => {
  const teller = new Teller(before)
  teller.begin()
  const failed = {
    ...response(teller.state, undefined),
    status: "failed",
    error: { code: error.code ?? "server_error", message: error.message }
  }
  teller.tell("response.failed", { response: failed })
  return teller.told
}
