import * as Either from "effect/Either"
import {
  each,
  eachFlat,
  isSet,
  type JsonObject,
  kindOf,
  list,
  nonEmpty,
  object,
  type Reading,
  refuse,
  string,
  typeName
} from "./json.js"
import { split } from "./think.js"
import { readTokens } from "./tokens.js"
import type { AssistantTurn, CallPiece, InputPiece, InputTurn, OutputPiece, ToolTurn, Turn } from "./turn.js"

/** An address and how closely it is looked at, as both OpenAI wires tell them. */
export const readImage = (url: unknown, detail: unknown, path: string): Reading<InputPiece> =>
  Either.flatMap(nonEmpty(url, path), (address): Reading<InputPiece> => {
    if (!isSet(detail)) return Either.right({ _tag: "image", url: address })
    return Either.map(string(detail, `${path}.detail`), (word) => ({ _tag: "image", url: address, detail: word }))
  })

const inputPart = (value: unknown, path: string): Reading<InputPiece> =>
  Either.flatMap(object(value, path), (part): Reading<InputPiece> => {
    switch (part["type"]) {
      case "text":
        return Either.map(string(part["text"], `${path}.text`), (text) => ({ _tag: "text", text }))
      case "image_url":
        return Either.flatMap(object(part["image_url"], `${path}.image_url`), (image) =>
          readImage(image["url"], image["detail"], `${path}.image_url.url`)
        )
      case "video_url":
        return Either.flatMap(object(part["video_url"], `${path}.video_url`), (video) =>
          Either.map(nonEmpty(video["url"], `${path}.video_url.url`), (url) => ({ _tag: "video", url }))
        )
      default:
        return refuse(path, `a content part of type ${typeName(part["type"])}`)
    }
  })

/** A text, or a list of parts. */
const inputContent = (
  content: unknown,
  path: string
): Reading<{ readonly pieces: ReadonlyArray<InputPiece>; readonly plain: boolean }> => {
  if (typeof content === "string") return Either.right({ pieces: [{ _tag: "text", text: content }], plain: true })
  if (!Array.isArray(content)) return refuse(path, `${kindOf(content)} where a text or a list of parts should be`)
  return Either.map(each(content, path, inputPart), (pieces) => ({ pieces, plain: false }))
}

const nameOf = (message: JsonObject, path: string): Reading<{ readonly name?: string }> =>
  isSet(message["name"]) ? Either.map(string(message["name"], `${path}.name`), (name) => ({ name })) : Either.right({})

/** A call as Chat Completions tells it; other dialects' histories may hold it too. */
export const readCall = (value: unknown, path: string): Reading<CallPiece> =>
  Either.gen(function* () {
    const call = yield* object(value, path)
    if (isSet(call["type"]) && call["type"] !== "function") {
      return yield* refuse(path, `a tool call of type ${typeName(call["type"])}`)
    }
    const called = yield* object(call["function"], `${path}.function`)
    return {
      _tag: "call" as const,
      id: yield* nonEmpty(call["id"], `${path}.id`),
      name: yield* string(called["name"], `${path}.function.name`),
      arguments: yield* string(called["arguments"], `${path}.function.arguments`)
    }
  })

/** The calls of an assistant's message. */
export const readCalls = (message: JsonObject, path: string): Reading<ReadonlyArray<CallPiece>> =>
  isSet(message["tool_calls"])
    ? Either.flatMap(list(message["tool_calls"], `${path}.tool_calls`), (calls) =>
        each(calls, `${path}.tool_calls`, readCall)
      )
    : Either.right([])

/** Reasoning in a field of its own. Servers name it either way, and some both ways; an empty one is none. */
const reasoningField = (message: JsonObject, path: string): Reading<ReadonlyArray<OutputPiece>> => {
  const told = ["reasoning_content", "reasoning"].filter((key) => isSet(message[key]) && message[key] !== "")
  const [first, second] = told
  if (first === undefined) return Either.right([])
  if (second !== undefined && message[first] !== message[second]) {
    return refuse(path, "reasoning_content and reasoning that differ")
  }
  return Either.map(string(message[first], `${path}.${first}`), (text) => [{ _tag: "reasoning", text }])
}

/** Words of an assistant: not one empty piece where nothing is said. */
const words = (text: string, thinkTags: boolean): ReadonlyArray<OutputPiece> => {
  if (thinkTags) return split(text)
  return text === "" ? [] : [{ _tag: "text", text }]
}

const outputPart =
  (thinkTags: boolean) =>
  (value: unknown, path: string): Reading<ReadonlyArray<OutputPiece>> =>
    Either.flatMap(object(value, path), (part): Reading<ReadonlyArray<OutputPiece>> => {
      switch (part["type"]) {
        case "text":
          return Either.map(string(part["text"], `${path}.text`), (text) => words(text, thinkTags))
        case "refusal":
          return Either.map(string(part["refusal"], `${path}.refusal`), (text) => [{ _tag: "refusal", text }])
        default:
          return refuse(path, `a content part of type ${typeName(part["type"])}`)
      }
    })

const outputContent = (content: unknown, thinkTags: boolean, path: string): Reading<ReadonlyArray<OutputPiece>> => {
  if (!isSet(content)) return Either.right([])
  if (typeof content === "string") return Either.right(words(content, thinkTags))
  return Either.flatMap(list(content, path), (parts) => eachFlat(parts, path, outputPart(thinkTags)))
}

const isFilled = (value: unknown): boolean => isSet(value) && !(Array.isArray(value) && value.length === 0)

/** What a model said. Keys that are no part of the dialect are not read; those that are and have no place, are refused. */
export const readChatMessage = (wire: unknown, thinkTags: boolean, path: string): Reading<AssistantTurn> => {
  // Each reply is read here, so the first that is refused is returned by hand: a generator costs more than the reading.
  const told = object(wire, path)
  if (Either.isLeft(told)) return Either.left(told.left)
  const message = told.right
  if (isSet(message["role"]) && message["role"] !== "assistant") {
    return refuse(`${path}.role`, `the role ${typeName(message["role"])} where an assistant should speak`)
  }
  for (const key of ["function_call", "audio", "annotations"]) {
    if (isFilled(message[key])) return refuse(`${path}.${key}`, `a message with ${key}`)
  }
  const reasoning = reasoningField(message, path)
  if (Either.isLeft(reasoning)) return Either.left(reasoning.left)
  const content = outputContent(message["content"], thinkTags, `${path}.content`)
  if (Either.isLeft(content)) return Either.left(content.left)
  const refusal = isSet(message["refusal"]) ? string(message["refusal"], `${path}.refusal`) : Either.right("")
  if (Either.isLeft(refusal)) return Either.left(refusal.left)
  const calls = readCalls(message, path)
  if (Either.isLeft(calls)) return Either.left(calls.left)
  const tokens = readTokens(message, path)
  if (Either.isLeft(tokens)) return Either.left(tokens.left)
  return Either.map(nameOf(message, path), (name) => ({
    role: "assistant",
    pieces: [
      ...reasoning.right,
      ...content.right,
      ...(refusal.right === "" ? [] : [{ _tag: "refusal" as const, text: refusal.right }]),
      ...calls.right
    ],
    ...(tokens.right === undefined ? {} : { tokens: tokens.right }),
    ...name,
    path
  }))
}

const inputTurn = (role: InputTurn["role"], message: JsonObject, path: string): Reading<InputTurn> =>
  Either.gen(function* () {
    const content = yield* inputContent(message["content"], `${path}.content`)
    return { role, ...content, ...(yield* nameOf(message, path)), path }
  })

/** What came of a call, as Chat Completions tells it. */
export const readToolMessage = (message: JsonObject, path: string): Reading<ToolTurn> =>
  Either.gen(function* () {
    const callId = yield* nonEmpty(message["tool_call_id"], `${path}.tool_call_id`)
    const content = yield* inputContent(message["content"], `${path}.content`)
    return { role: "tool" as const, callId, ...content, path }
  })

export const readChatMessages = (
  wire: ReadonlyArray<unknown>,
  thinkTags: boolean,
  root: string
): Reading<ReadonlyArray<Turn>> =>
  each(wire, root, (value, path) =>
    Either.flatMap(object(value, path), (message): Reading<Turn> => {
      switch (message["role"]) {
        case "system":
        case "developer":
        case "user":
          return inputTurn(message["role"], message, path)
        case "tool":
          return readToolMessage(message, path)
        case "assistant":
          return readChatMessage(message, thinkTags, path)
        default:
          return refuse(`${path}.role`, `the role ${typeName(message["role"])}`)
      }
    })
  )
