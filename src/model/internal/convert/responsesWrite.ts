import type { JsonObject } from "./json.js"
import { tokenFields } from "./tokens.js"
import { type AssistantTurn, type InputPiece, type OutputPiece, runs, type Turn } from "./turn.js"

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
    if (first?._tag === "reasoning") {
      return reasoningItem(
        run.flatMap((piece) => (piece._tag === "reasoning" ? [piece.text] : [])),
        itemId("rs", id, index)
      )
    }
    return messageItem(run, itemId("msg", id, index))
  })
  const said = items.length === 0 ? [messageItem([{ _tag: "text", text: "" }], itemId("msg", id, 0))] : items
  return said.map((item, index) => (index === said.length - 1 ? { ...item, ...tokenFields(turn.tokens) } : item))
}

/** Items of a Responses request. */
export const writeResponsesItems = (
  turns: ReadonlyArray<Turn>,
  writing: { readonly reasoning: boolean; readonly tokens: boolean }
): ReadonlyArray<JsonObject> =>
  turns.flatMap((turn, index): ReadonlyArray<JsonObject> => {
    switch (turn.role) {
      case "assistant": {
        const pieces = writing.reasoning ? turn.pieces : turn.pieces.filter(({ _tag }) => _tag !== "reasoning")
        const tokens = writing.tokens && turn.tokens !== undefined ? { tokens: turn.tokens } : {}
        return assistantItems({ pieces, ...tokens }, String(index))
      }
      case "tool": {
        const [first] = turn.pieces
        const output = turn.plain && first?._tag === "text" ? first.text : turn.pieces.map(inputPart)
        return [{ type: "function_call_output", call_id: turn.callId, output }]
      }
      default:
        return [{ type: "message", role: turn.role, content: turn.pieces.map(inputPart) }]
    }
  })
