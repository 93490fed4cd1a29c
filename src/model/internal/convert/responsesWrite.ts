import * as Either from "effect/Either"
import type { ReasoningSeal } from "../../Conversation.js"
import { type JsonObject, type Reading, refuse } from "./json.js"
import { tokenFields } from "./tokens.js"
import {
  type AssistantTurn,
  type ComputerPiece,
  type InputPiece,
  type OutputPiece,
  runs,
  type ToolTurn,
  type Turn
} from "./turn.js"

const inputPart = (piece: InputPiece): JsonObject => {
  switch (piece._tag) {
    case "text":
      return { type: "input_text", text: piece.text }
    case "image":
      return {
        type: "input_image",
        image_url: piece.url,
        ...(piece.detail === undefined ? {} : { detail: piece.detail })
      }
    case "video":
      return { type: "input_video", video_url: piece.url }
  }
}

/** The id of an item: `kind` is `rs` or `msg`, `index` its place among the reply's items. */
export const itemId = (kind: "rs" | "msg", id: string, index: number): string => `${kind}_${id}_${index}`

const contentPart = (piece: OutputPiece): JsonObject =>
  piece._tag === "refusal"
    ? { type: "refusal", refusal: piece.text }
    : { type: "output_text", text: piece._tag === "text" ? piece.text : "", annotations: [] }

/** A message of the model, from its words and refusals. */
export const messageItem = (said: ReadonlyArray<OutputPiece>, id: string): JsonObject => ({
  id,
  type: "message",
  role: "assistant",
  status: "completed",
  content: said.map(contentPart)
})

export const reasoningItem = (texts: ReadonlyArray<string>, id: string): JsonObject => ({
  id,
  type: "reasoning",
  status: "completed",
  summary: texts.map((text) => ({ type: "summary_text", text }))
})

/** Reasoning that its server hides: what it shows of it may be nothing. */
const sealedItem = (seal: ReasoningSeal, texts: ReadonlyArray<string>): JsonObject => ({
  ...(seal.id === undefined ? {} : { id: seal.id }),
  type: "reasoning",
  summary:
    texts.every((text) => text === "") && texts.length === 1
      ? []
      : texts.map((text) => ({ type: "summary_text", text })),
  encrypted_content: seal.value
})

const computerItem = ({ actions, callId, form, id, safetyChecks }: ComputerPiece): JsonObject => ({
  ...(id === undefined ? {} : { id }),
  type: "computer_call",
  call_id: callId,
  ...(form === "action" ? { action: actions[0] } : { actions }),
  pending_safety_checks: safetyChecks,
  status: "completed"
})

/** The call's id is the item's. */
export const callItem = (call: {
  readonly id: string
  readonly name: string
  readonly arguments: string
}): JsonObject => ({
  id: call.id,
  type: "function_call",
  status: "completed",
  call_id: call.id,
  name: call.name,
  arguments: call.arguments
})

/**
 * What the model said as items in its order: neighbouring words are one message, neighbouring reasoning one item with a
 * summary part for each span. Who says nothing says an empty text. The tokens stand on the last item.
 */
export const assistantItems = (
  turn: Pick<AssistantTurn, "pieces" | "tokens">,
  id: string
): ReadonlyArray<JsonObject> => {
  const items = runs(turn.pieces).map((run, index): JsonObject => {
    const [first] = run
    if (first?._tag === "call") return callItem(first)
    if (first?._tag === "computer") return computerItem(first)
    if (first?._tag === "reasoning") {
      const texts = run.flatMap((piece) => (piece._tag === "reasoning" ? [piece.text] : []))
      return first.seal === undefined ? reasoningItem(texts, itemId("rs", id, index)) : sealedItem(first.seal, texts)
    }
    return messageItem(run, itemId("msg", id, index))
  })
  const said = items.length === 0 ? [messageItem([{ _tag: "text", text: "" }], itemId("msg", id, 0))] : items
  return said.map((item, index) => (index === said.length - 1 ? { ...item, ...tokenFields(turn.tokens) } : item))
}

/** What the wire has no place for in what the model said. */
const foreign = (pieces: ReadonlyArray<OutputPiece>): string | undefined => {
  for (const piece of pieces) {
    if (piece._tag === "reasoning" && piece.seal !== undefined && piece.seal.kind !== "encrypted") {
      return "sealed reasoning, which only the server that sealed it can read"
    }
    if (piece._tag === "computer" && piece.form === "member") return "a call of another server's computer tool"
    if (piece._tag === "computer" && piece.form === "action" && piece.actions.length !== 1) {
      return `a computer_call of ${piece.actions.length} actions, which has to have one`
    }
  }
  return undefined
}

const toolItem = (turn: ToolTurn): Reading<JsonObject> => {
  const [first] = turn.pieces
  if (turn.computer === undefined) {
    const output = turn.plain && first?._tag === "text" ? first.text : turn.pieces.map(inputPart)
    return Either.right({ type: "function_call_output", call_id: turn.callId, output })
  }
  const { acknowledged, form } = turn.computer
  if (form === "member") return refuse(turn.path, "an answer of another server's computer tool")
  if (first?._tag !== "image" || turn.pieces.length !== 1) {
    return refuse(turn.path, "an answer of the computer tool that is not one image")
  }
  return Either.right({
    type: "computer_call_output",
    call_id: turn.callId,
    ...(acknowledged.length === 0 ? {} : { acknowledged_safety_checks: acknowledged }),
    output: { ...inputPart(first), type: form === "action" ? "input_image" : "computer_screenshot" }
  })
}

/** Items of a Responses request. */
export const writeResponsesItems = (
  turns: ReadonlyArray<Turn>,
  writing: { readonly reasoning: boolean; readonly tokens: boolean }
): Reading<ReadonlyArray<JsonObject>> =>
  Either.map(
    Either.all(
      turns.map((turn, index): Reading<ReadonlyArray<JsonObject>> => {
        switch (turn.role) {
          case "assistant": {
            const pieces = writing.reasoning ? turn.pieces : turn.pieces.filter(({ _tag }) => _tag !== "reasoning")
            const tokens = writing.tokens && turn.tokens !== undefined ? { tokens: turn.tokens } : {}
            const what = foreign(pieces)
            return what === undefined
              ? Either.right(assistantItems({ pieces, ...tokens }, String(index)))
              : refuse(turn.path, what)
          }
          case "tool":
            return Either.map(toolItem(turn), (item) => [item])
          default:
            return Either.right([{ type: "message", role: turn.role, content: turn.pieces.map(inputPart) }])
        }
      })
    ),
    (items) => items.flat()
  )
