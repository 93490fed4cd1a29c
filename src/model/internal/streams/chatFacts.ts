/**
 * What the chunks of a chat stream tell of the reply as a whole, and how a translated stream reads them.
 *
 * @since 0.1.0
 */
import * as Either from "effect/Either"
import { type Completion, readFinish, readUsage } from "../convert/completion.js"
import type { Refused } from "../convert/json.js"
import { readTokens, tokenFields } from "../convert/tokens.js"
import type { SseEvent } from "../sse.js"
import * as ChatAccumulator from "./chatAccumulator.js"
import { chatEvent } from "./chatEvents.js"
import { isObject, isText, type JsonObject, StreamError, withData } from "./streamError.js"

/**
 * What a translated stream is made with, apart from its chunks.
 *
 * @since 0.1.0
 * @category models
 */
export interface BridgeOptions {
  /** The request as its client sent it, in the client's dialect. */
  readonly request: JsonObject
  /** Unique text that every id of the reply is made of: usually 32 hexadecimal digits. */
  readonly id: string
  /** Unix time in seconds. */
  readonly createdAt: number
  /** Whether `<think>` spans in the text are reasoning; a span is then told when it has ended. */
  readonly thinkTags: boolean
}

/**
 * What is known of the reply apart from what it says.
 *
 * @since 0.1.0
 * @category models
 */
export interface Facts extends Pick<Completion, "finish" | "model" | "stopText" | "usage"> {
  /** The token bundle, where deltas carry one. */
  readonly bundle: ChatAccumulator.ChatAccumulation
  /** Whether the server said `[DONE]`. */
  readonly done: boolean
}

/**
 * Nothing told yet.
 *
 * @since 0.1.0
 * @category constructors
 */
export const unknown: Facts = {
  finish: null,
  model: null,
  stopText: null,
  usage: null,
  bundle: ChatAccumulator.empty,
  done: false
}

/**
 * What could not be carried, as the error of a stream.
 *
 * @since 0.1.0
 * @category constructors
 */
export const refused = ({ path, what }: Refused): StreamError =>
  new StreamError({ reason: "malformed", detail: path === "" ? what : `${path}: ${what}` })

const bundleKeys = ["prompt_token_ids", "generation_token_ids", "generation_log_probs", "routed_experts"]

/** Parts of a delta that no other dialect has a place for. */
const foreign = ["function_call", "audio", "annotations"]

const isFilled = (value: unknown): boolean =>
  value !== undefined && value !== null && !(Array.isArray(value) && value.length === 0)

const malformed = (detail: string) => Either.left(new StreamError({ reason: "malformed", detail }))

const words = ["content", "refusal", "reasoning_content", "reasoning"]

const none: JsonObject = {}

const addChoice = (before: Facts, choice: JsonObject, delta: JsonObject): Either.Either<Facts, StreamError> => {
  const place = foreign.find((key) => isFilled(delta[key]))
  if (place !== undefined) return malformed(`a delta with ${place}, which the client's dialect has no place for`)
  const wrong = words.find((key) => isFilled(delta[key]) && typeof delta[key] !== "string")
  if (wrong !== undefined) return malformed(`the ${wrong} of a delta is no text`)
  const finish = readFinish(choice["finish_reason"], "choices[0].finish_reason")
  if (Either.isLeft(finish)) return Either.left(refused(finish.left))
  const facts: Facts = {
    ...before,
    finish: finish.right ?? before.finish,
    stopText: isText(choice["stop_reason"]) ? choice["stop_reason"] : before.stopText
  }
  const carried = bundleKeys.filter((key) => isFilled(delta[key]))
  if (carried.length === 0) return Either.right(facts)
  const bundle = { choices: [{ delta: Object.fromEntries(carried.map((key) => [key, delta[key]])) }] }
  return Either.map(ChatAccumulator.addChunk(before.bundle, bundle), (added) => ({ ...facts, bundle: added }))
}

/**
 * What a chunk adds, and the delta of the first choice in it. Other choices are no part of a reply in another dialect.
 *
 * @since 0.1.0
 * @category reading
 */
export const read = (
  before: Facts,
  chunk: JsonObject
): Either.Either<{ readonly facts: Facts; readonly delta: JsonObject }, StreamError> => {
  const choices = chunk["choices"] ?? []
  if (!Array.isArray(choices)) return malformed("the choices of a chunk are no list")
  if (!choices.every(isObject)) return malformed("a choice of a chunk is no object")
  const facts: Facts = {
    ...before,
    model: before.model ?? (isText(chunk["model"]) ? chunk["model"] : null),
    usage: readUsage(chunk["usage"]) ?? before.usage
  }
  const choice: JsonObject | undefined = choices.find(({ index }) => (index ?? 0) === 0)
  if (choice === undefined) return Either.right({ facts, delta: none })
  const delta = choice["delta"] ?? none
  if (!isObject(delta)) return malformed("the delta of a choice is no object")
  return Either.map(addChoice(facts, choice, delta), (told) => ({ facts: told, delta }))
}

/**
 * Whether the reply has an end: left, as `truncated`, where neither `[DONE]` nor a finish reason came.
 *
 * @since 0.1.0
 * @category reading
 */
export const ended = ({ done, finish }: Facts): Either.Either<void, StreamError> =>
  done || finish !== null
    ? Either.void
    : Either.left(
        new StreamError({ reason: "truncated", detail: "it ended without [DONE] and without a finish_reason" })
      )

/**
 * The keys of the token bundle, for the item that carries it; none where no delta had one.
 *
 * @since 0.1.0
 * @category reading
 */
export const bundleFields = ({ bundle }: Facts): Either.Either<JsonObject, StreamError> =>
  bundle.choices.size === 0
    ? Either.right({})
    : Either.flatMap(ChatAccumulator.finish({ ...bundle, done: true }), ({ choices }) => {
        const choice: unknown = Array.isArray(choices) ? choices[0] : undefined
        const message = isObject(choice) && isObject(choice["message"]) ? choice["message"] : {}
        return Either.mapLeft(Either.map(readTokens(message, "choices[0].message"), tokenFields), refused)
      })

/**
 * Reads an event for a translator: a chunk is given to `push`; `[DONE]` is remembered; an error of the upstream is left.
 *
 * @since 0.1.0
 * @category reading
 */
export const onEvent = <State extends { readonly facts: Facts }, Event>(
  state: State,
  event: SseEvent,
  push: (state: State, chunk: JsonObject) => Either.Either<readonly [State, ReadonlyArray<Event>], StreamError>
): Either.Either<readonly [State, ReadonlyArray<Event>], StreamError> =>
  Either.flatMap(chatEvent(event), (told) =>
    told._tag === "Done"
      ? Either.right([{ ...state, facts: { ...state.facts, done: true } }, []] as const)
      : Either.mapLeft(push(state, told.chunk), (error) => withData(error, event.data))
  )
