/**
 * A chat stream as pieces in a row: words, reasoning, refusals and tool calls, each begun, continued and ended before
 * the next one begins. Both translators are written on it.
 *
 * @since 0.1.0
 */
import * as Either from "effect/Either"
import * as Braces from "./braces.js"
import { isObject, isText, type JsonObject, StreamError } from "./streamError.js"
import * as Think from "./think.js"

// -----------------------------------------------------------------------------
// Models
// -----------------------------------------------------------------------------

/**
 * What begins.
 *
 * @since 0.1.0
 * @category models
 */
export type Piece =
  | { readonly kind: "text" | "reasoning" | "refusal" }
  | { readonly kind: "call"; readonly id: string; readonly name: string }

/**
 * What happens to the one piece that is open.
 *
 * @since 0.1.0
 * @category models
 */
export type PieceEvent =
  | { readonly _tag: "Start"; readonly piece: Piece }
  | { readonly _tag: "Delta"; readonly text: string }
  /** Nothing more of the piece comes; `text` is all of it. */
  | { readonly _tag: "End"; readonly text: string }

/** A piece that is being put together. */
interface Segment {
  readonly kind: Piece["kind"]
  /** What tells it from a neighbour of its kind: the index of a call, the number of a span. */
  readonly source: number
  readonly id: string
  readonly name: string
  readonly text: string
  /** Where the arguments of a call are. */
  readonly braces: Braces.Braces
}

/**
 * Where a stream is.
 *
 * @since 0.1.0
 * @category models
 */
export interface PiecesState {
  readonly thinkTags: boolean
  readonly think: Think.ThinkState
  /** Spans of reasoning in the text so far. */
  readonly spans: number
  /** The piece that has begun. */
  readonly open: Segment | undefined
  /** Pieces that can't begin before the open call is whole, or before their own id is known. */
  readonly waiting: ReadonlyArray<Segment>
  /** Indices of the calls that have ended. */
  readonly ended: ReadonlySet<number>
  /** Ids of all calls, with their indices. */
  readonly ids: ReadonlyMap<string, number>
}

/**
 * What a step makes: where the stream is now, and what happened.
 *
 * @since 0.1.0
 * @category models
 */
export type Step = Either.Either<readonly [PiecesState, ReadonlyArray<PieceEvent>], StreamError>

/**
 * Before the first chunk.
 *
 * @since 0.1.0
 * @category constructors
 */
export const initial = (options: { readonly thinkTags: boolean }): PiecesState => ({
  thinkTags: options.thinkTags,
  think: Think.initial,
  spans: 0,
  open: undefined,
  waiting: [],
  ended: new Set(),
  ids: new Map()
})

// -----------------------------------------------------------------------------
// One at a time
// -----------------------------------------------------------------------------

const malformed = (detail: string): StreamError => new StreamError({ reason: "malformed", detail })

const start = ({ id, kind, name }: Segment): PieceEvent => ({
  _tag: "Start",
  piece: kind === "call" ? { kind, id, name } : { kind }
})

const delta = (text: string): ReadonlyArray<PieceEvent> => (text === "" ? [] : [{ _tag: "Delta", text }])

/** Servers send calls one after the other, but nothing says that they must: only whole arguments end a call. */
const isWhole = ({ braces, kind }: Segment): boolean => kind !== "call" || braces.whole

const canStart = ({ id, kind, name }: Segment): boolean => kind !== "call" || (id !== "" && name !== "")

/** Ends the open piece and begins the waiting ones as far as that can be. */
const advance = (
  state: PiecesState,
  events: Array<PieceEvent>,
  atEnd: boolean
): Either.Either<PiecesState, StreamError> => {
  let { ended, open } = state
  const waiting = Array.from(state.waiting)
  for (let next = waiting[0]; next !== undefined; next = waiting[0]) {
    if (!atEnd && ((open !== undefined && !isWhole(open)) || !canStart(next))) break
    if (!canStart(next)) {
      const what = next.id === "" ? "an id" : "a name"
      return Either.left(malformed(`the tool call ${next.source} has not got ${what}`))
    }
    if (open !== undefined) {
      events.push({ _tag: "End", text: open.text })
      if (open.kind === "call") ended = new Set(ended).add(open.source)
    }
    waiting.shift()
    open = next
    events.push(start(next), ...delta(next.text))
  }
  return Either.right({ ...state, ended, open, waiting })
}

/** Adds text to the piece that it belongs to, wherever that is. */
const add = (state: PiecesState, part: Segment, events: Array<PieceEvent>): Either.Either<PiecesState, StreamError> => {
  const belongs = (other: Segment | undefined): other is Segment =>
    other !== undefined && other.kind === part.kind && other.source === part.source
  const into = (other: Segment): Segment => ({
    ...other,
    id: other.id === "" ? part.id : other.id,
    name: other.name === "" ? part.name : other.name,
    text: other.text + part.text,
    braces: part.kind === "call" ? Braces.push(other.braces, part.text) : other.braces
  })
  const { open, waiting } = state
  // Words go on only while nothing else came after them; a call has its index wherever it is.
  const at = part.kind === "call" ? waiting.findIndex(belongs) : belongs(waiting.at(-1)) ? waiting.length - 1 : -1
  const target = waiting[at]
  if (target !== undefined) {
    return advance({ ...state, waiting: waiting.with(at, into(target)) }, events, false)
  }
  if (belongs(open) && (part.kind === "call" || waiting.length === 0)) {
    events.push(...delta(part.text))
    return advance({ ...state, open: into(open) }, events, false)
  }
  if (part.kind === "call" && state.ended.has(part.source)) {
    if (part.text.trim() === "") return Either.right(state)
    return Either.left(malformed(`the tool call ${part.source} went on after its arguments were whole`))
  }
  return advance({ ...state, waiting: [...waiting, part] }, events, false)
}

// -----------------------------------------------------------------------------
// Chunks
// -----------------------------------------------------------------------------

const segment = (kind: Piece["kind"], source: number, text: string): Segment => ({
  kind,
  source,
  id: "",
  name: "",
  text,
  braces: Braces.initial
})

/** The reasoning of a delta: servers name it either way, and some both ways. */
const reasoningOf = (delta: JsonObject): Either.Either<string, StreamError> => {
  const [first, second] = [delta["reasoning_content"], delta["reasoning"]].filter(isText)
  return second !== undefined && first !== second
    ? Either.left(malformed("reasoning_content and reasoning of a delta differ"))
    : Either.right(first ?? "")
}

type Added = Either.Either<PiecesState, StreamError>

/** Words that were held back are words after all, once something else comes. */
const release = (state: PiecesState, events: Array<PieceEvent>): Added => {
  const held = Think.flush(state.think)
  return held === "" ? Either.right(state) : add({ ...state, think: Think.initial }, segment("text", 0, held), events)
}

/** What comes after words: nothing that they hold back can be a span any more. */
const addAfter = (state: PiecesState, part: Segment, events: Array<PieceEvent>): Added =>
  Either.flatMap(release(state, events), (released) => add(released, part, events))

const addContent = (before: PiecesState, content: string, events: Array<PieceEvent>): Added => {
  if (!before.thinkTags) return add(before, segment("text", 0, content), events)
  const [think, stretches] = Think.push(before.think, content)
  let state: Added = Either.right({ ...before, think })
  for (const { kind, text } of stretches) {
    state = Either.flatMap(state, (known) => {
      if (kind === "text") return add(known, segment("text", 0, text), events)
      // An empty span is a span, as it is in a whole reply.
      const spans = known.spans + 1
      return add({ ...known, spans }, segment("reasoning", spans, text), events)
    })
  }
  return state
}

/** The call that a delta belongs to: by its index, else by its id, else the one before it. */
const sourceOf = ({ ids }: PiecesState, index: unknown, id: string): number => {
  if (typeof index === "number") return index
  const last = Math.max(-1, ...ids.values())
  return id === "" ? Math.max(0, last) : (ids.get(id) ?? last + 1)
}

const addCall = (before: PiecesState, call: JsonObject, events: Array<PieceEvent>): Added => {
  const called = isObject(call["function"]) ? call["function"] : {}
  const id = isText(call["id"]) ? call["id"] : ""
  const name = isText(called["name"]) ? called["name"] : ""
  const source = sourceOf(before, call["index"], id)
  const piece = called["arguments"] ?? ""
  if (typeof piece !== "string") return Either.left(malformed(`the arguments of the tool call ${source} are no text`))
  let { ids } = before
  if (id !== "") {
    const other = ids.get(id)
    if (other !== undefined && other !== source) {
      return Either.left(malformed(`the tool calls ${other} and ${source} have the same id, ${id}`))
    }
    const known = Array.from(ids).find(([, index]) => index === source)
    if (known !== undefined && known[0] !== id && name !== "") {
      return Either.left(malformed(`two tool calls, ${known[0]} and ${id}, have the index ${source}`))
    }
    if (known === undefined) ids = new Map(ids).set(id, source)
  }
  const braces = Braces.push(Braces.initial, piece)
  return add({ ...before, ids }, { kind: "call", source, id, name, text: piece, braces }, events)
}

const addCalls = (before: PiecesState, calls: ReadonlyArray<unknown>, events: Array<PieceEvent>): Added => {
  let state = release(before, events)
  for (const call of calls) {
    state = Either.flatMap(state, (known) =>
      isObject(call) ? addCall(known, call, events) : Either.left(malformed("a tool call of a chunk is no object"))
    )
  }
  return state
}

/**
 * Takes the `delta` of a choice: reasoning, then words, then a refusal, then calls, as a whole reply has them.
 *
 * @since 0.1.0
 * @category combinators
 */
export const push = (before: PiecesState, delta: JsonObject): Step => {
  const events: Array<PieceEvent> = []
  const { content, refusal, tool_calls: calls } = delta
  const reasoning = reasoningOf(delta)
  if (Either.isLeft(reasoning)) return Either.left(reasoning.left)
  let state: Added = Either.right(before)
  if (reasoning.right !== "") {
    state = Either.flatMap(state, (known) => addAfter(known, segment("reasoning", 0, reasoning.right), events))
  }
  if (isText(content)) state = Either.flatMap(state, (known) => addContent(known, content, events))
  if (isText(refusal)) {
    state = Either.flatMap(state, (known) => addAfter(known, segment("refusal", 0, refusal), events))
  }
  if (calls !== undefined && calls !== null) {
    if (!Array.isArray(calls)) return Either.left(malformed("the tool calls of a delta are no list"))
    if (calls.length > 0) state = Either.flatMap(state, (known) => addCalls(known, calls, events))
  }
  return Either.map(state, (known) => [known, events] as const)
}

/**
 * Nothing more comes: what was held back or had to wait is told, and the last piece ends.
 *
 * @since 0.1.0
 * @category combinators
 */
export const finish = (before: PiecesState): Step =>
  Either.gen(function* () {
    const events: Array<PieceEvent> = []
    const state = yield* advance(yield* release(before, events), events, true)
    if (state.open === undefined) return [state, events] as const
    events.push({ _tag: "End", text: state.open.text })
    return [{ ...state, open: undefined }, events] as const
  })
