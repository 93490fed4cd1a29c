import * as Either from "effect/Either"
import { type ReplyUsage, readCompletion } from "./completion.js"
import { isObject, type JsonObject, type Reading, refuse, typeName } from "./json.js"
import type { OutputPiece } from "./turn.js"

/** The tokens of a message: what a cache had is counted apart from the other input. `null` is what nobody told. */
export const messageUsage = (usage: ReplyUsage | null): JsonObject => {
  const input = usage?.input ?? null
  const cached = usage?.cached ?? null
  return {
    input_tokens: input === null ? null : Math.max(0, input - (cached ?? 0)),
    cache_creation_input_tokens: null,
    cache_read_input_tokens: cached,
    output_tokens: usage?.output ?? null
  }
}

/** How a message ends whose completion ended with this word. */
export const messageEnd = (
  finish: string | null,
  facts: { readonly calls: boolean; readonly refusal: boolean; readonly stopText: string | null },
  path: string
): Reading<{ readonly stop_reason: string | null; readonly stop_sequence: string | null }> => {
  const end = (stop_reason: string | null, stop_sequence: string | null = null) =>
    Either.right({ stop_reason, stop_sequence })
  if (facts.refusal) return end("refusal")
  switch (finish) {
    case null:
      return end(null)
    case "stop":
      // Servers say `stop` too after a call that the request demanded.
      if (facts.calls) return end("tool_use")
      return facts.stopText === null ? end("end_turn") : end("stop_sequence", facts.stopText)
    case "tool_calls":
      return end("tool_use")
    case "length":
      return end("max_tokens")
    case "content_filter":
      return end("refusal")
    default:
      return refuse(path, `the finish reason ${typeName(finish)}`)
  }
}

const parsed = (text: string): unknown => {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

/** The arguments of a call as the object that a message holds; no text is no arguments. */
export const callInput = (
  call: { readonly name: string; readonly arguments: string },
  path: string
): Reading<JsonObject> => {
  const input = call.arguments.trim() === "" ? {} : parsed(call.arguments)
  return isObject(input)
    ? Either.right(input)
    : refuse(path, `arguments of a call of ${typeName(call.name)} that are no JSON object`)
}

const block = (piece: OutputPiece, path: string): Reading<JsonObject> => {
  switch (piece._tag) {
    case "text":
    case "refusal":
      return Either.right({ type: "text", text: piece.text, citations: null })
    case "reasoning":
      return Either.right({ type: "thinking", thinking: piece.text, signature: "" })
    case "call":
      return Either.map(callInput(piece, path), (input) => ({
        type: "tool_use",
        id: piece.id,
        name: piece.name,
        input
      }))
    // No chat completion has one.
    case "computer":
      return refuse(path, "a call of the computer tool")
  }
}

/** A message object. */
export const messageObject = (
  request: JsonObject,
  facts: {
    readonly id: string
    readonly model: string | null
    readonly content: ReadonlyArray<JsonObject>
    readonly end: { readonly stop_reason: string | null; readonly stop_sequence: string | null }
    readonly usage: ReplyUsage | null
  }
): JsonObject => ({
  id: `msg_${facts.id}`,
  type: "message",
  role: "assistant",
  model: facts.model ?? request["model"] ?? null,
  content: facts.content,
  ...facts.end,
  usage: messageUsage(facts.usage)
})

export const messagesReply = (
  completion: JsonObject,
  request: JsonObject,
  options: { readonly id: string; readonly thinkTags: boolean }
): Reading<JsonObject> =>
  Either.gen(function* () {
    const { finish, model, stopText, turn, usage } = yield* readCompletion(completion, options.thinkTags)
    const has = (tag: OutputPiece["_tag"]) => turn.pieces.some(({ _tag }) => _tag === tag)
    const content = yield* Either.all(turn.pieces.map((piece) => block(piece, turn.path)))
    const end = yield* messageEnd(
      finish,
      { calls: has("call"), refusal: has("refusal"), stopText },
      "choices[0].finish_reason"
    )
    return messageObject(request, { id: options.id, model, content, end, usage })
  })
