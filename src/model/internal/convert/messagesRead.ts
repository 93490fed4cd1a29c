import * as Either from "effect/Either"
import { ReasoningSeal } from "../../Conversation.js"
import {
  each,
  eachFlat,
  fields,
  isSet,
  type JsonObject,
  kindOf,
  nonEmpty,
  object,
  type Reading,
  refuse,
  string,
  typeName
} from "./json.js"
import { computerName } from "./tools.js"
import type { InputPiece, InputTurn, OutputPiece, TextPiece, ToolTurn, Turn } from "./turn.js"

/** A text, or blocks. */
const blocks = (content: unknown, path: string): Reading<ReadonlyArray<unknown>> => {
  if (typeof content === "string") return Either.right([{ type: "text", text: content }])
  if (!Array.isArray(content)) return refuse(path, `${kindOf(content)} where a text or a list of blocks should be`)
  return Either.right(content)
}

const other = (block: JsonObject, path: string) => refuse(path, `a block of type ${typeName(block["type"])}`)

const text = (block: JsonObject, path: string): Reading<TextPiece> =>
  Array.isArray(block["citations"]) && block["citations"].length > 0
    ? refuse(`${path}.citations`, "citations of a text")
    : Either.map(string(block["text"], `${path}.text`), (words) => ({ _tag: "text", text: words }))

const image = (block: JsonObject, path: string): Reading<InputPiece> =>
  Either.gen(function* () {
    const at = `${path}.source`
    const source = yield* object(block["source"], at)
    switch (source["type"]) {
      case "url":
        return { _tag: "image" as const, url: yield* nonEmpty(source["url"], `${at}.url`) }
      case "base64": {
        const mediaType = yield* nonEmpty(source["media_type"], `${at}.media_type`)
        const data = yield* nonEmpty(source["data"], `${at}.data`)
        return { _tag: "image" as const, url: `data:${mediaType};base64,${data}` }
      }
      default:
        return yield* refuse(at, `an image whose source is ${typeName(source["type"])}`)
    }
  })

const inputBlock = (block: JsonObject, path: string): Reading<InputPiece> => {
  switch (block["type"]) {
    case "text":
      return text(block, path)
    case "image":
      return image(block, path)
    default:
      return other(block, path)
  }
}

/** Chat Completions has no place for the mark of a failed call, so words say it, on a line before what the tool said. */
const failed: InputPiece = { _tag: "text", text: "Error:\n" }

const toolResult = (block: JsonObject, path: string): Reading<ToolTurn> =>
  Either.gen(function* () {
    const callId = yield* nonEmpty(block["tool_use_id"], `${path}.tool_use_id`)
    const { content } = block
    const values = isSet(content) ? yield* blocks(content, `${path}.content`) : []
    const pieces = yield* each(values, `${path}.content`, (value, at) =>
      Either.flatMap(object(value, at), (inner) => inputBlock(inner, at))
    )
    const marked = block["is_error"] === true ? [failed, ...pieces] : pieces
    const said = marked.length === 0 ? [{ _tag: "text" as const, text: "" }] : marked
    return { role: "tool" as const, callId, pieces: said, plain: said.length === 1, path }
  })

/** Answers of tools are messages of their own, in the order of the blocks. */
const userTurns = (content: unknown, path: string): Reading<ReadonlyArray<Turn>> =>
  Either.gen(function* () {
    const turns: Array<Turn> = []
    let open: { readonly turn: InputTurn; readonly pieces: Array<InputPiece> } | undefined
    for (const [index, value] of (yield* blocks(content, path)).entries()) {
      const at = `${path}[${index}]`
      const block = yield* object(value, at)
      if (block["type"] === "tool_result") {
        open = undefined
        turns.push(yield* toolResult(block, at))
        continue
      }
      const piece = yield* inputBlock(block, at)
      if (open === undefined) {
        const pieces: Array<InputPiece> = []
        open = { turn: { role: "user", pieces, plain: typeof content === "string", path }, pieces }
        turns.push(open.turn)
      }
      open.pieces.push(piece)
    }
    return turns.length === 0 ? yield* refuse(path, "a message of no blocks") : turns
  })

/** What only a server of this wire takes back: thinking that it sealed, and calls of the computer. */
const nativeBlock = (block: JsonObject, path: string): Reading<ReadonlyArray<OutputPiece>> | undefined => {
  const { type } = block
  if (type === "thinking" && isSet(block["signature"]) && block["signature"] !== "") {
    return Either.gen(function* () {
      const value = yield* string(block["signature"], `${path}.signature`)
      const seal = new ReasoningSeal({ kind: "signature", value })
      return [{ _tag: "reasoning" as const, text: yield* string(block["thinking"], `${path}.thinking`), seal }]
    })
  }
  if (type === "redacted_thinking") {
    return Either.map(nonEmpty(block["data"], `${path}.data`), (value) => [
      { _tag: "reasoning" as const, text: "", seal: new ReasoningSeal({ kind: "redacted", value }) }
    ])
  }
  const isMember = block["toolset_name"] === computerName
  if (type !== "tool_use" || !(isMember || block["name"] === computerName)) return undefined
  return Either.gen(function* () {
    const callId = yield* nonEmpty(block["id"], `${path}.id`)
    const input = yield* fields(block["input"], `${path}.input`)
    const call = { _tag: "computer" as const, callId, safetyChecks: [] }
    if (!isMember) return [{ ...call, actions: [input], form: "action" as const }]
    if ("action" in input) return yield* refuse(`${path}.input.action`, "an action that has another one's name in it")
    const action = yield* nonEmpty(block["name"], `${path}.name`)
    return [{ ...call, actions: [{ action, ...input }], form: "member" as const }]
  })
}

const outputBlock = (value: unknown, native: boolean, path: string): Reading<ReadonlyArray<OutputPiece>> =>
  Either.gen(function* () {
    const block = yield* object(value, path)
    const own = native ? nativeBlock(block, path) : undefined
    if (own !== undefined) return yield* own
    switch (block["type"]) {
      case "text":
        return [yield* text(block, path)]
      case "thinking": {
        if (isSet(block["signature"]) && block["signature"] !== "") {
          return yield* refuse(`${path}.signature`, "thinking that another server sealed")
        }
        return [{ _tag: "reasoning" as const, text: yield* string(block["thinking"], `${path}.thinking`) }]
      }
      case "tool_use":
        return [
          {
            _tag: "call" as const,
            id: yield* nonEmpty(block["id"], `${path}.id`),
            name: yield* string(block["name"], `${path}.name`),
            arguments: JSON.stringify(yield* object(block["input"], `${path}.input`))
          }
        ]
      default:
        return yield* other(block, path)
    }
  })

/** What the model said, in blocks. */
export const readSaid = (content: unknown, native: boolean, path: string): Reading<ReadonlyArray<OutputPiece>> =>
  Either.flatMap(blocks(content, path), (values) =>
    eachFlat(values, path, (value, at) => outputBlock(value, native, at))
  )

/**
 * Messages of an Anthropic request. Neighbours of one role stay apart. Sealed thinking is kept and calls of the computer
 * are told apart where it is `native`; else the one is refused, and the others are calls like any.
 */
export const readMessages = (
  wire: ReadonlyArray<unknown>,
  root: string,
  native = false
): Reading<ReadonlyArray<Turn>> =>
  eachFlat(wire, root, (value, path) =>
    Either.flatMap(object(value, path), (message): Reading<ReadonlyArray<Turn>> => {
      const at = `${path}.content`
      switch (message["role"]) {
        case "user":
          return userTurns(message["content"], at)
        case "assistant":
          return Either.map(readSaid(message["content"], native, at), (pieces) => [{ role: "assistant", pieces, path }])
        default:
          return refuse(`${path}.role`, `the role ${typeName(message["role"])}`)
      }
    })
  )

/** The system prompt: a text, or blocks of text. */
export const readSystem = (system: unknown, path: string): Reading<ReadonlyArray<Turn>> =>
  isSet(system)
    ? Either.flatMap(blocks(system, path), (values) =>
        Either.map(
          each(values, path, (value, at) =>
            Either.flatMap(object(value, at), (block) =>
              block["type"] === "text" ? text(block, at) : other(block, at)
            )
          ),
          (pieces): ReadonlyArray<Turn> =>
            pieces.length === 0 ? [] : [{ role: "system", pieces, plain: typeof system === "string", path }]
        )
      )
    : Either.right([])
