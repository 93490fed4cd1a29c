/**
 * From the chunks of a Chat Completions stream to the one completion that a call without `stream` would have given.
 *
 * @since 0.1.0
 */
import * as Chunk from "effect/Chunk"
import * as Either from "effect/Either"
import type { SseEvent } from "../sse.js"
import { chatEvent } from "./chatEvents.js"
import { isObject, isText, type JsonObject, StreamError, withData } from "./streamError.js"

// -----------------------------------------------------------------------------
// Models
// -----------------------------------------------------------------------------

/** Fields as they are sent, by name: a list is still being put together. */
type Fields = ReadonlyMap<string, unknown>

interface Call {
  readonly fields: Fields
  readonly function: Fields
  readonly arguments: string
}

interface Choice {
  readonly fields: Fields
  readonly message: Fields
  readonly logprobs: Fields | undefined
  readonly calls: ReadonlyMap<number, Call>
}

/**
 * What has come so far. It is a value: adding to it leaves it as it was.
 *
 * @since 0.1.0
 * @category models
 */
export interface ChatAccumulation {
  readonly fields: Fields
  readonly choices: ReadonlyMap<number, Choice>
  /** Whether the server said `[DONE]`. */
  readonly done: boolean
}

/**
 * Nothing yet.
 *
 * @since 0.1.0
 * @category constructors
 */
export const empty: ChatAccumulation = { fields: new Map(), choices: new Map(), done: false }

// -----------------------------------------------------------------------------
// Merging
// -----------------------------------------------------------------------------

const emptyChoice: Choice = { fields: new Map(), message: new Map(), logprobs: undefined, calls: new Map() }

const emptyCall: Call = { fields: new Map(), function: new Map(), arguments: "" }

const malformed = (detail: string): StreamError => new StreamError({ reason: "malformed", detail })

/** Fields of a message that grow by being appended to; every other text is told once, whole. */
const growing: ReadonlySet<string> = new Set(["content", "reasoning_content", "reasoning", "refusal"])

/** Lists that are told whole, though they may be told again. */
const wholeLists: ReadonlySet<string> = new Set(["prompt_token_ids", "prompt_logprobs"])

/**
 * How a field goes on: growing text and lists are appended to, anything else replaces what was there, and a null never
 * replaces a value.
 */
const merged = (name: string, before: unknown, value: unknown): unknown => {
  if (value === null) return before === undefined ? null : before
  if (Array.isArray(value) && !wholeLists.has(name)) {
    const list: Chunk.Chunk<unknown> = Chunk.unsafeFromArray<unknown>(value)
    return Chunk.isChunk(before) ? Chunk.appendAll(before, list) : list
  }
  if (typeof value === "string" && typeof before === "string" && growing.has(name)) return before + value
  return value
}

const mergeInto = (before: Fields, values: JsonObject, except: ReadonlySet<string>): Fields => {
  // Copied when something changes: most of what a chunk says was said by the one before it.
  let after: Map<string, unknown> | undefined
  for (const name of Object.keys(values)) {
    const value = values[name]
    if (value === undefined || except.has(name)) continue
    const known = (after ?? before).get(name)
    const next = merged(name, known, value)
    if (next === known) continue
    after ??= new Map(before)
    after.set(name, next)
  }
  return after ?? before
}

const none: ReadonlySet<string> = new Set()
const choiceParts: ReadonlySet<string> = new Set(["index", "delta", "logprobs"])
const chunkParts: ReadonlySet<string> = new Set(["choices", "object"])
const deltaParts: ReadonlySet<string> = new Set(["tool_calls"])
const callParts: ReadonlySet<string> = new Set(["index", "function"])
const functionParts: ReadonlySet<string> = new Set(["arguments"])

/** The call that a delta belongs to: by its index, else by its id, else the one before it. */
const callIndex = (calls: ReadonlyMap<number, Call>, delta: JsonObject): number => {
  const { id, index } = delta
  if (typeof index === "number") return index
  if (!isText(id)) return Math.max(0, calls.size - 1)
  for (const [at, call] of calls) if (call.fields.get("id") === id) return at
  return calls.size
}

const mergeCall = (
  calls: ReadonlyMap<number, Call>,
  delta: unknown
): Either.Either<ReadonlyMap<number, Call>, StreamError> => {
  if (!isObject(delta)) return Either.left(malformed("a tool call of a chunk is no object"))
  const index = callIndex(calls, delta)
  const call = calls.get(index) ?? emptyCall
  const part = isObject(delta["function"]) ? delta["function"] : {}
  const [known, id] = [call.fields.get("id"), delta["id"]]
  if (isText(known) && isText(id) && known !== id && isText(part["name"])) {
    return Either.left(malformed(`two tool calls, ${known} and ${id}, have the index ${index}`))
  }
  for (const [other, { fields }] of isText(known) || !isText(id) ? [] : calls) {
    // Nobody could tell whose answer is whose.
    if (other !== index && fields.get("id") === id) {
      return Either.left(malformed(`the tool calls ${other} and ${index} have the same id, ${id}`))
    }
  }
  // Some servers send an empty or a new id with each piece: the first that was told stands.
  const fields = mergeInto(call.fields, isText(known) || id === "" ? { ...delta, id: known ?? id } : delta, callParts)
  const named = part["name"] === "" && isText(call.function.get("name")) ? { ...part, name: null } : part
  const piece = part["arguments"]
  if (piece !== undefined && piece !== null && typeof piece !== "string") {
    return Either.left(malformed(`the arguments of the tool call ${index} are no text`))
  }
  return Either.right(
    new Map(calls).set(index, {
      fields,
      function: mergeInto(call.function, named, functionParts),
      arguments: call.arguments + (piece ?? "")
    })
  )
}

const mergeCalls = (
  before: ReadonlyMap<number, Call>,
  deltas: unknown
): Either.Either<ReadonlyMap<number, Call>, StreamError> => {
  if (deltas === undefined || deltas === null) return Either.right(before)
  if (!Array.isArray(deltas)) return Either.left(malformed("the tool calls of a delta are no list"))
  let calls: Either.Either<ReadonlyMap<number, Call>, StreamError> = Either.right(before)
  for (const delta of deltas) calls = Either.flatMap(calls, (known) => mergeCall(known, delta))
  return calls
}

const mergeChoice = (choice: Choice, values: JsonObject): Either.Either<Choice, StreamError> => {
  const delta = values["delta"] ?? {}
  if (!isObject(delta)) return Either.left(malformed("the delta of a choice is no object"))
  for (const name of growing) {
    const piece = delta[name]
    if (piece !== undefined && piece !== null && typeof piece !== "string") {
      return Either.left(malformed(`the ${name} of a delta is no text`))
    }
  }
  const logprobs = values["logprobs"]
  return Either.map(mergeCalls(choice.calls, delta["tool_calls"]), (calls) => ({
    fields: mergeInto(choice.fields, values, choiceParts),
    message: mergeInto(choice.message, delta, deltaParts),
    logprobs: isObject(logprobs) ? mergeInto(choice.logprobs ?? new Map(), logprobs, none) : choice.logprobs,
    calls
  }))
}

/**
 * Adds a chunk: text, lists of tokens and log-probabilities are appended, what is told once stands. Left is a
 * `StreamError` of reason `malformed`.
 *
 * @since 0.1.0
 * @category accumulating
 */
export const addChunk = (before: ChatAccumulation, chunk: JsonObject): Either.Either<ChatAccumulation, StreamError> => {
  const parts = chunk["choices"] ?? []
  if (!Array.isArray(parts)) return Either.left(malformed("the choices of a chunk are no list"))
  const choices = new Map(before.choices)
  for (const part of parts) {
    if (!isObject(part)) return Either.left(malformed("a choice of a chunk is no object"))
    const index = part["index"] ?? 0
    if (typeof index !== "number") return Either.left(malformed("the index of a choice is no number"))
    const choice = mergeChoice(choices.get(index) ?? emptyChoice, part)
    if (Either.isLeft(choice)) return Either.left(choice.left)
    choices.set(index, choice.right)
  }
  return Either.right({ ...before, fields: mergeInto(before.fields, chunk, chunkParts), choices })
}

/**
 * Adds an event. Left is a `StreamError`: `malformed`, or `upstream` where the server reports an error.
 *
 * @since 0.1.0
 * @category accumulating
 */
export const addEvent = (before: ChatAccumulation, event: SseEvent): Either.Either<ChatAccumulation, StreamError> =>
  Either.flatMap(chatEvent(event), (read) =>
    read._tag === "Done"
      ? Either.right({ ...before, done: true })
      : Either.mapLeft(addChunk(before, read.chunk), (error) => withData(error, event.data))
  )

// -----------------------------------------------------------------------------
// The end
// -----------------------------------------------------------------------------

const plain = (fields: Fields): JsonObject =>
  Object.fromEntries(
    Array.from(fields, ([name, value]) => [name, Chunk.isChunk(value) ? Chunk.toReadonlyArray(value) : value])
  )

const byIndex = <A>(values: ReadonlyMap<number, A>): ReadonlyArray<readonly [number, A]> =>
  Array.from(values).sort(([first], [second]) => first - second)

const wholeCall = (call: Call): JsonObject => ({
  type: "function",
  ...plain(call.fields),
  function: { ...plain(call.function), arguments: call.arguments }
})

const wholeChoice = (index: number, choice: Choice): JsonObject => ({
  finish_reason: null,
  ...plain(choice.fields),
  index,
  message: {
    role: "assistant",
    content: null,
    ...plain(choice.message),
    ...(choice.calls.size === 0 ? {} : { tool_calls: byIndex(choice.calls).map(([, call]) => wholeCall(call)) })
  },
  ...(choice.logprobs === undefined ? {} : { logprobs: plain(choice.logprobs) })
})

/**
 * Whether every choice has told why it ended, so that only the usage and `[DONE]` can come.
 *
 * @since 0.1.0
 * @category queries
 */
export const isFinished = ({ choices }: ChatAccumulation): boolean =>
  choices.size > 0 && Array.from(choices.values()).every(({ fields }) => isText(fields.get("finish_reason")))

/**
 * The whole completion. A stream that has neither said `[DONE]` nor why each choice ended is `truncated`: what came of
 * it is no reply. One without a choice is `malformed`.
 *
 * @since 0.1.0
 * @category accumulating
 */
export const finish = (state: ChatAccumulation): Either.Either<JsonObject, StreamError> => {
  if (!state.done && !isFinished(state)) {
    return Either.left(
      new StreamError({ reason: "truncated", detail: "it ended without [DONE] and without a finish_reason" })
    )
  }
  if (state.choices.size === 0) return Either.left(malformed("it ended without a choice"))
  return Either.right({
    ...plain(state.fields),
    object: "chat.completion",
    choices: byIndex(state.choices).map(([index, choice]) => wholeChoice(index, choice))
  })
}

/**
 * The completion of these events.
 *
 * @since 0.1.0
 * @category accumulating
 */
export const accumulate = (events: Iterable<SseEvent>): Either.Either<JsonObject, StreamError> =>
  Either.gen(function* () {
    let state = empty
    for (const event of events) state = yield* addEvent(state, event)
    return yield* finish(state)
  })
