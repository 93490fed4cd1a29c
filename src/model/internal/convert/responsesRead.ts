import * as Either from "effect/Either"
import { ReasoningSeal } from "../../Conversation.js"
import { readCalls, readImage, readToolMessage } from "./chatRead.js"
import {
  each,
  eachFlat,
  fields,
  isObject,
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
import { readTokens } from "./tokens.js"
import type { AssistantTurn, InputPiece, OutputPiece, ToolTurn, Turn } from "./turn.js"

export interface ResponsesReading {
  /** What an image without a detail gets; none where it is left out. */
  readonly detail?: string
  /**
   * Whether seals of reasoning and calls of the computer are kept, which only a server of this wire takes back; refused
   * unless it is true.
   */
  readonly native?: boolean
}

const video = (part: JsonObject, path: string): Reading<InputPiece> => {
  const told = ["video_url", "video"].filter((key) => isSet(part[key]))
  const [key] = told
  if (key === undefined || told.length > 1)
    return refuse(path, "an input_video without exactly one of video_url and video")
  return Either.map(nonEmpty(part[key], `${path}.${key}`), (url) => ({ _tag: "video", url }))
}

const inputPart =
  (detail: string | undefined) =>
  (value: unknown, path: string): Reading<InputPiece> =>
    Either.flatMap(object(value, path), (part): Reading<InputPiece> => {
      switch (part["type"]) {
        case "input_text":
          return Either.map(string(part["text"], `${path}.text`), (text) => ({ _tag: "text", text }))
        case "input_image":
          return isSet(part["file_id"])
            ? refuse(path, "an image that is a file of the server (file_id)")
            : readImage(part["image_url"], part["detail"] ?? detail, `${path}.image_url`)
        case "input_video":
          return video(part, path)
        default:
          return refuse(path, `a content part of type ${typeName(part["type"])}`)
      }
    })

const inputContent = (
  content: unknown,
  detail: string | undefined,
  path: string
): Reading<{ readonly pieces: ReadonlyArray<InputPiece>; readonly plain: boolean }> => {
  if (typeof content === "string") return Either.right({ pieces: [{ _tag: "text", text: content }], plain: true })
  if (!Array.isArray(content)) return refuse(path, `${kindOf(content)} where a text or a list of parts should be`)
  return Either.map(each(content, path, inputPart(detail)), (pieces) => ({ pieces, plain: false }))
}

const outputPart = (value: unknown, path: string): Reading<ReadonlyArray<OutputPiece>> =>
  Either.flatMap(object(value, path), (part): Reading<ReadonlyArray<OutputPiece>> => {
    switch (part["type"]) {
      // Histories that people write by hand say input_text for both sides.
      case "output_text":
      case "input_text":
        return Array.isArray(part["annotations"]) && part["annotations"].length > 0
          ? refuse(`${path}.annotations`, "annotations of a text")
          : Either.map(string(part["text"], `${path}.text`), (text) => [{ _tag: "text", text }])
      case "refusal":
        return Either.map(string(part["refusal"], `${path}.refusal`), (text) => [{ _tag: "refusal", text }])
      default:
        return refuse(path, `a content part of type ${typeName(part["type"])}`)
    }
  })

const outputContent = (content: unknown, path: string): Reading<ReadonlyArray<OutputPiece>> => {
  if (!isSet(content)) return Either.right([])
  if (typeof content === "string") return Either.right([{ _tag: "text", text: content }])
  return Either.flatMap(list(content, path), (parts) => eachFlat(parts, path, outputPart))
}

const spans = (value: unknown, type: string, path: string): Reading<ReadonlyArray<OutputPiece>> =>
  isSet(value)
    ? Either.flatMap(list(value, path), (parts) =>
        each(parts, path, (part, at) =>
          Either.flatMap(object(part, at), (span) =>
            span["type"] === type
              ? Either.map(string(span["text"], `${at}.text`), (text): OutputPiece => ({ _tag: "reasoning", text }))
              : refuse(at, `reasoning of type ${typeName(span["type"])}`)
          )
        )
      )
    : Either.right([])

const sealOf = (item: JsonObject, path: string): Reading<ReasoningSeal> =>
  Either.gen(function* () {
    const { id } = item
    return new ReasoningSeal({
      kind: "encrypted",
      value: yield* nonEmpty(item["encrypted_content"], `${path}.encrypted_content`),
      ...(isSet(id) ? { id: yield* nonEmpty(id, `${path}.id`) } : {})
    })
  })

/** The first span has the seal; where none is told, one without words. */
const sealed = (seal: ReasoningSeal, spans: ReadonlyArray<OutputPiece>): ReadonlyArray<OutputPiece> => {
  const [first, ...rest] = spans
  return [{ _tag: "reasoning", text: first?._tag === "reasoning" ? first.text : "", seal }, ...rest]
}

/** OpenAI tells a summary, open models the reasoning itself. */
const reasoning = (item: JsonObject, native: boolean, path: string): Reading<ReadonlyArray<OutputPiece>> =>
  Either.gen(function* () {
    const isSealed = isSet(item["encrypted_content"])
    if (isSealed && !native) return yield* refuse(`${path}.encrypted_content`, "sealed reasoning")
    const summary = yield* spans(item["summary"], "summary_text", `${path}.summary`)
    const content = yield* spans(item["content"], "reasoning_text", `${path}.content`)
    if (summary.length > 0 && content.length > 0) {
      return yield* refuse(path, "a reasoning item with both its words and a summary of them")
    }
    const told = summary.length > 0 ? summary : content
    return isSealed ? sealed(yield* sealOf(item, path), told) : told
  })

/** What one item is: part of what the model said, or a turn of its own. */
type Item = { readonly said: ReadonlyArray<OutputPiece>; readonly wire: JsonObject } | { readonly turn: Turn }

const message = (item: JsonObject, detail: string | undefined, path: string): Reading<Item> => {
  const { role } = item
  switch (role) {
    case "assistant":
      return Either.gen(function* () {
        const content = yield* outputContent(item["content"], `${path}.content`)
        return { said: [...content, ...(yield* readCalls(item, path))], wire: item }
      })
    case "tool":
      return Either.map(readToolMessage(item, path), (turn) => ({ turn }))
    case "system":
    case "developer":
    case "user":
      return Either.map(inputContent(item["content"], detail, `${path}.content`), (content) => ({
        turn: { role, ...content, path }
      }))
    default:
      return refuse(`${path}.role`, `the role ${typeName(role)}`)
  }
}

const callOutput = (item: JsonObject, detail: string | undefined, path: string): Reading<ToolTurn> =>
  Either.gen(function* () {
    const callId = yield* nonEmpty(item["call_id"], `${path}.call_id`)
    const output = yield* inputContent(item["output"], detail, `${path}.output`)
    return { role: "tool" as const, callId, ...output, path }
  })

const functionCall = (item: JsonObject, path: string): Reading<Item> =>
  Either.gen(function* () {
    if (isSet(item["namespace"])) return yield* refuse(`${path}.namespace`, "a call in a namespace")
    const call = {
      _tag: "call" as const,
      id: yield* nonEmpty(item["call_id"], `${path}.call_id`),
      name: yield* string(item["name"], `${path}.name`),
      arguments: yield* string(item["arguments"], `${path}.arguments`)
    }
    return { said: [call], wire: item }
  })

const objects = (value: unknown, path: string): Reading<ReadonlyArray<JsonObject>> =>
  isSet(value) ? Either.flatMap(list(value, path), (values) => each(values, path, fields)) : Either.right([])

const computerCall = (item: JsonObject, path: string): Reading<Item> =>
  Either.gen(function* () {
    const { action, actions, id } = item
    if (isSet(action) === isSet(actions))
      return yield* refuse(path, "a computer_call without exactly one of action and actions")
    const call = {
      _tag: "computer" as const,
      callId: yield* nonEmpty(item["call_id"], `${path}.call_id`),
      form: isSet(action) ? ("action" as const) : ("actions" as const),
      actions: isSet(action) ? [yield* fields(action, `${path}.action`)] : yield* objects(actions, `${path}.actions`),
      safetyChecks: yield* objects(item["pending_safety_checks"], `${path}.pending_safety_checks`),
      ...(isSet(id) ? { id: yield* nonEmpty(id, `${path}.id`) } : {})
    }
    return { said: [call], wire: item }
  })

/** The preview was answered with an image like any other, its successor with a `computer_screenshot`. */
const computerOutput = (item: JsonObject, path: string): Reading<ToolTurn> =>
  Either.gen(function* () {
    const at = `${path}.output`
    const output = yield* object(item["output"], at)
    const { detail, file_id, image_url, type } = output
    if (type !== "input_image" && type !== "computer_screenshot") {
      return yield* refuse(at, `a screenshot of type ${typeName(type)}`)
    }
    if (isSet(file_id)) return yield* refuse(at, "an image that is a file of the server (file_id)")
    const acknowledged = yield* objects(item["acknowledged_safety_checks"], `${path}.acknowledged_safety_checks`)
    return {
      role: "tool" as const,
      callId: yield* nonEmpty(item["call_id"], `${path}.call_id`),
      pieces: [yield* readImage(image_url, detail, `${at}.image_url`)],
      plain: false,
      computer: { form: type === "input_image" ? ("action" as const) : ("actions" as const), acknowledged },
      path
    }
  })

/** What only a server of this wire takes back. */
const nativeItem = (type: unknown, item: JsonObject, path: string): Reading<Item> | undefined => {
  switch (type) {
    case "computer_call":
      return computerCall(item, path)
    case "computer_call_output":
      return Either.map(computerOutput(item, path), (turn) => ({ turn }))
    default:
      return undefined
  }
}

const readItem =
  ({ detail, native = false }: ResponsesReading) =>
  (value: unknown, path: string): Reading<Item> =>
    Either.flatMap(object(value, path), (item): Reading<Item> => {
      const type = item["type"] ?? (isSet(item["role"]) ? "message" : undefined)
      switch (type) {
        case "message":
          return message(item, detail, path)
        case "reasoning":
          return Either.map(reasoning(item, native, path), (said) => ({ said, wire: item }))
        case "function_call":
          return functionCall(item, path)
        case "function_call_output":
          return Either.map(callOutput(item, detail, path), (turn) => ({ turn }))
        default:
          return (
            (native ? nativeItem(type, item, path) : undefined) ?? refuse(path, `an item of type ${typeName(type)}`)
          )
      }
    })

/** Neighbouring items of the assistant are one turn; the last bundle of tokens among them is its bundle. */
const gather = (items: ReadonlyArray<Item>, root: string): Reading<ReadonlyArray<Turn>> =>
  Either.gen(function* () {
    const turns: Array<Turn> = []
    let said: Array<OutputPiece> | undefined
    for (const [index, item] of items.entries()) {
      if ("turn" in item) {
        said = undefined
        turns.push(item.turn)
        continue
      }
      const path = `${root}[${index}]`
      const tokens = yield* readTokens(item.wire, path)
      const told = tokens === undefined ? {} : { tokens }
      const open = turns.at(-1)
      if (said !== undefined && open?.role === "assistant") {
        for (const piece of item.said) said.push(piece)
        turns[turns.length - 1] = { ...open, ...told }
      } else {
        said = [...item.said]
        turns.push({ role: "assistant", pieces: said, ...told, path })
      }
    }
    return turns
  })

export const readResponsesInput = (
  input: unknown,
  root: string,
  reading: ResponsesReading
): Reading<ReadonlyArray<Turn>> => {
  if (typeof input === "string") {
    return Either.right([{ role: "user", pieces: [{ _tag: "text", text: input }], plain: false, path: root }])
  }
  return Either.flatMap(list(input, root), (values) =>
    Either.flatMap(each(values, root, readItem(reading)), (items) => gather(items, root))
  )
}

export const readResponsesOutput = (items: ReadonlyArray<unknown>, root: string): Reading<AssistantTurn> =>
  Either.gen(function* () {
    for (const [index, item] of items.entries()) {
      if (isObject(item) && !isSet(item["type"]))
        return yield* refuse(`${root}[${index}].type`, "an item without a type")
    }
    const [first, ...others] = yield* readResponsesInput(items, root, { native: true })
    if (first === undefined) return { role: "assistant" as const, pieces: [], path: root }
    const other = [first, ...others].find(({ role }) => role !== "assistant")
    if (other !== undefined) return yield* refuse(other.path, "what the model did not say")
    // Nothing stands between items of the model, so that they are one turn.
    return first.role === "assistant" ? first : yield* refuse(first.path, "what the model did not say")
  })
