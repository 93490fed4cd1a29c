/**
 * From the events of an Anthropic Messages stream to the one message that a call without `stream` would have given.
 */
import * as Either from "effect/Either"
import type { SseEvent } from "../sse.js"
import { parseObject, upstreamError } from "./chatEvents.js"
import { isObject, type JsonObject, StreamError } from "./streamError.js"

interface Block {
  readonly start: JsonObject
  /** What its deltas added, by the key of the block that they add to. */
  readonly added: ReadonlyMap<string, string>
  readonly citations: ReadonlyArray<unknown>
  /** The arguments of a tool call, as text. */
  readonly json: string
}

export interface MessagesAccumulation {
  readonly message: JsonObject | undefined
  readonly blocks: ReadonlyMap<number, Block>
  readonly done: boolean
}

export const empty: MessagesAccumulation = { message: undefined, blocks: new Map(), done: false }

/** The key that a delta adds text to. */
const textKeys: Readonly<Record<string, string>> = {
  text_delta: "text",
  thinking_delta: "thinking",
  signature_delta: "signature"
}

const malformed = (detail: string, data: string) => Either.left(new StreamError({ reason: "malformed", detail, data }))

const addDelta = (block: Block, delta: JsonObject): Block | undefined => {
  const type = String(delta["type"])
  if (type === "input_json_delta") {
    const piece = delta["partial_json"]
    return typeof piece === "string" ? { ...block, json: block.json + piece } : undefined
  }
  if (type === "citations_delta") return { ...block, citations: [...block.citations, delta["citation"]] }
  const key = textKeys[type]
  const piece = key === undefined ? undefined : delta[key]
  return key !== undefined && typeof piece === "string"
    ? { ...block, added: new Map(block.added).set(key, (block.added.get(key) ?? "") + piece) }
    : undefined
}

/** Adds an event; kinds that are not known are passed over, as the wire's rules have it. */
export const addEvent = (
  before: MessagesAccumulation,
  event: SseEvent
): Either.Either<MessagesAccumulation, StreamError> =>
  Either.gen(function* () {
    const value = yield* parseObject(event)
    const { delta, index } = value
    switch (value["type"]) {
      case "error":
        return yield* Either.left(upstreamError(value["error"], event.data))
      case "message_start": {
        const message = value["message"]
        if (!isObject(message)) return yield* malformed("message_start has no message", event.data)
        return { ...before, message }
      }
      case "content_block_start": {
        const start = value["content_block"]
        if (typeof index !== "number" || !isObject(start)) {
          return yield* malformed("content_block_start has no index or no block", event.data)
        }
        const block: Block = { start, added: new Map(), citations: [], json: "" }
        return { ...before, blocks: new Map(before.blocks).set(index, block) }
      }
      case "content_block_delta": {
        const block = typeof index === "number" ? before.blocks.get(index) : undefined
        if (typeof index !== "number" || block === undefined || !isObject(delta)) {
          return yield* malformed("a delta belongs to no block", event.data)
        }
        const after = addDelta(block, delta)
        if (after === undefined) return yield* malformed(`a delta of type ${delta["type"]} is unknown`, event.data)
        return { ...before, blocks: new Map(before.blocks).set(index, after) }
      }
      case "message_delta": {
        if (before.message === undefined) return yield* malformed("message_delta came before message_start", event.data)
        const [told, more] = [before.message["usage"], value["usage"]]
        return {
          ...before,
          message: {
            ...before.message,
            ...(isObject(delta) ? delta : {}),
            ...(isObject(more) ? { usage: { ...(isObject(told) ? told : {}), ...more } } : {})
          }
        }
      }
      case "message_stop":
        return { ...before, done: true }
      default:
        return before
    }
  })

const parsed = (text: string): Either.Either<unknown, StreamError> =>
  Either.try({
    try: (): unknown => JSON.parse(text),
    catch: () =>
      new StreamError({ reason: "malformed", detail: "the arguments of a tool call are no JSON", data: text })
  })

const wholeBlock = (block: Block): Either.Either<JsonObject, StreamError> => {
  const grown = Array.from(block.added, ([key, text]) => {
    const first = block.start[key]
    return [key, (typeof first === "string" ? first : "") + text] as const
  })
  const whole = {
    ...block.start,
    ...Object.fromEntries(grown),
    ...(block.citations.length === 0 ? {} : { citations: block.citations })
  }
  return block.json === "" ? Either.right(whole) : Either.map(parsed(block.json), (input) => ({ ...whole, input }))
}

/** The whole message; `truncated` without `message_stop`. */
export const finish = (state: MessagesAccumulation): Either.Either<JsonObject, StreamError> => {
  if (!state.done || state.message === undefined) {
    return Either.left(new StreamError({ reason: "truncated", detail: "it ended without message_stop" }))
  }
  const { message } = state
  const blocks = Array.from(state.blocks).sort(([first], [second]) => first - second)
  return Either.map(Either.all(blocks.map(([, block]) => wholeBlock(block))), (content) => ({ ...message, content }))
}
