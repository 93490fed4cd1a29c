import * as Either from "effect/Either"
import { type JsonObject, type Reading, refuse } from "./json.js"
import { split, wrap } from "./think.js"
import { tokenFields } from "./tokens.js"
import {
  type AssistantTurn,
  type CallPiece,
  called,
  type InputPiece,
  type OutputPiece,
  type ToolTurn,
  type Turn
} from "./turn.js"

export interface ChatWriting {
  readonly reasoning: "inline" | "field" | "omit"
  readonly tokens: boolean
}

const inputPart = (piece: InputPiece): JsonObject => {
  switch (piece._tag) {
    case "text":
      return { type: "text", text: piece.text }
    case "image":
      return {
        type: "image_url",
        image_url: { url: piece.url, ...(piece.detail === undefined ? {} : { detail: piece.detail }) }
      }
    case "video":
      return { type: "video_url", video_url: { url: piece.url } }
  }
}

const inputContent = (pieces: ReadonlyArray<InputPiece>, plain: boolean): string | ReadonlyArray<JsonObject> => {
  const [first] = pieces
  return plain && pieces.length === 1 && first?._tag === "text" ? first.text : pieces.map(inputPart)
}

const toolMessage = (turn: ToolTurn): Reading<JsonObject> => {
  if (turn.computer !== undefined)
    return refuse(turn.path, "an answer of the computer tool, which Chat Completions lacks")
  const other = turn.pieces.find((piece) => piece._tag !== "text")
  return other === undefined
    ? Either.right({ role: "tool", tool_call_id: turn.callId, content: inputContent(turn.pieces, turn.plain) })
    : refuse(turn.path, `${called(other)} in a tool's answer, which Chat Completions takes as text only`)
}

const wireCall = (call: CallPiece): JsonObject => ({
  id: call.id,
  type: "function",
  function: { name: call.name, arguments: call.arguments }
})

type Said = ReadonlyArray<OutputPiece>

const inlineText = (pieces: Said): string =>
  pieces
    .map((piece) => (piece._tag === "text" ? piece.text : piece._tag === "reasoning" ? wrap(piece.text) : ""))
    .join("")

/** Whether whoever reads the text finds the same spans of reasoning in it. */
const readsTheSame = (pieces: Said, text: string): boolean => {
  const spans = pieces.flatMap((piece) => (piece._tag === "reasoning" ? [piece.text] : []))
  if (spans.length === 0) return true
  const found = split(text).flatMap((piece) => (piece._tag === "reasoning" ? [piece.text] : []))
  return found.length === spans.length && found.every((span, index) => span === spans[index])
}

const assistantMessage = (turn: AssistantTurn, { reasoning, tokens }: ChatWriting): Reading<JsonObject> => {
  if (turn.pieces.some(({ _tag }) => _tag === "computer")) {
    return refuse(turn.path, "a call of the computer tool, which Chat Completions lacks")
  }
  const spoken = reasoning === "omit" ? turn.pieces.filter(({ _tag }) => _tag !== "reasoning") : turn.pieces
  if (spoken.some((piece) => piece._tag === "reasoning" && piece.seal !== undefined)) {
    return refuse(turn.path, "sealed reasoning, which only the server that sealed it can read")
  }
  const [first] = spoken
  // Only a span before all words has the field's place; an empty field would be read as none.
  const field = reasoning === "field" && first?._tag === "reasoning" && first.text !== "" ? first.text : undefined
  const inline = field === undefined ? spoken : spoken.slice(1)
  const text = inlineText(inline)
  if (!readsTheSame(inline, text)) {
    return refuse(turn.path, "reasoning among words that hold <think> tags themselves, so that its ends can't be told")
  }
  const calls = turn.pieces.flatMap((piece) => (piece._tag === "call" ? [wireCall(piece)] : []))
  const refusal = turn.pieces.map((piece) => (piece._tag === "refusal" ? piece.text : "")).join("")
  const isEmpty = text === "" && field === undefined && calls.length === 0
  return Either.right({
    role: "assistant",
    ...(turn.name === undefined ? {} : { name: turn.name }),
    content: text === "" ? null : text,
    // Servers read one name or the other.
    ...(field === undefined ? {} : { reasoning_content: field, reasoning: field }),
    ...(refusal === "" ? {} : { refusal }),
    ...(calls.length === 0 ? {} : { tool_calls: calls }),
    ...(tokens && !isEmpty ? tokenFields(turn.tokens) : {})
  })
}

/** Messages of a Chat Completions request. */
export const writeChatMessages = (
  turns: ReadonlyArray<Turn>,
  writing: ChatWriting
): Reading<ReadonlyArray<JsonObject>> =>
  Either.all(
    turns.map((turn): Reading<JsonObject> => {
      switch (turn.role) {
        case "assistant":
          return assistantMessage(turn, writing)
        case "tool":
          return toolMessage(turn)
        default:
          return Either.right({
            role: turn.role,
            ...(turn.name === undefined ? {} : { name: turn.name }),
            content: inputContent(turn.pieces, turn.plain)
          })
      }
    })
  )
