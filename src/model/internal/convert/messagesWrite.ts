import * as Either from "effect/Either"
import { isSet, type JsonObject, nonEmpty, type Reading, refuse } from "./json.js"
import { callInput } from "./messagesReply.js"
import { computerName, taken } from "./tools.js"
import {
  type AssistantTurn,
  type ComputerPiece,
  called,
  type InputPiece,
  type InputTurn,
  type OutputPiece,
  type ToolTurn,
  type Turn
} from "./turn.js"

/** A conversation as the fields of a Messages request. */
export interface MessagesBody {
  /** Blocks of text; none where the conversation begins without a system message. */
  readonly system: ReadonlyArray<JsonObject>
  readonly messages: ReadonlyArray<JsonObject>
}

const dataUrl = /^data:([^;,]+);base64,/

const imageSource = (url: string, path: string): Reading<JsonObject> => {
  const [start = "", mediaType] = dataUrl.exec(url) ?? []
  if (mediaType !== undefined) {
    return Either.right({ type: "base64", media_type: mediaType, data: url.slice(start.length) })
  }
  return url.startsWith("data:")
    ? refuse(path, "an image whose data: address is not base64")
    : Either.right({ type: "url", url })
}

const inputBlock = (piece: InputPiece, path: string): Reading<JsonObject> => {
  switch (piece._tag) {
    case "text":
      return Either.right({ type: "text", text: piece.text })
    // How closely an image is looked at is the server's own affair on this wire.
    case "image":
      return Either.map(imageSource(piece.url, path), (source) => ({ type: "image", source }))
    case "video":
      return refuse(path, called(piece))
  }
}

const inputBlocks = ({ path, pieces }: InputTurn | ToolTurn): Reading<ReadonlyArray<JsonObject>> =>
  Either.all(pieces.map((piece, index) => inputBlock(piece, `${path}.content[${index}]`)))

const reasoningBlock = (
  piece: Extract<OutputPiece, { readonly _tag: "reasoning" }>,
  path: string
): Reading<JsonObject> => {
  switch (piece.seal?.kind) {
    case undefined:
      return Either.right({ type: "thinking", thinking: piece.text, signature: "" })
    case "signature":
      return Either.right({ type: "thinking", thinking: piece.text, signature: piece.seal?.value })
    case "redacted":
      return Either.right({ type: "redacted_thinking", data: piece.seal?.value })
    case "encrypted":
      return refuse(path, "sealed reasoning, which only the server that sealed it can read")
  }
}

const computerBlock = (piece: ComputerPiece, path: string): Reading<JsonObject> | undefined => {
  const [given] = piece.actions
  if (given === undefined || piece.actions.length > 1 || isSet(piece.id)) return undefined
  switch (piece.form) {
    case "action":
      return Either.right({ type: "tool_use", id: piece.callId, name: computerName, input: given })
    case "member": {
      const { action, ...input } = given
      return Either.map(nonEmpty(action, path), (name) => ({
        type: "tool_use",
        id: piece.callId,
        name,
        toolset_name: computerName,
        input
      }))
    }
    case "actions":
      return undefined
  }
}

const outputBlock = (piece: OutputPiece, path: string): Reading<JsonObject> => {
  switch (piece._tag) {
    case "text":
    case "refusal":
      return Either.right({ type: "text", text: piece.text })
    case "reasoning":
      return reasoningBlock(piece, path)
    case "call":
      return piece.name === computerName
        ? refuse(path, taken)
        : Either.map(callInput(piece, path), (input) => ({ type: "tool_use", id: piece.id, name: piece.name, input }))
    case "computer":
      return computerBlock(piece, path) ?? refuse(path, "a call of another server's computer tool")
  }
}

const assistantMessage = ({ path, pieces }: AssistantTurn, reasoning: boolean): Reading<JsonObject> => {
  const said = pieces.filter(
    (piece) => (piece._tag !== "reasoning" || reasoning) && (piece._tag !== "text" || piece.text !== "")
  )
  return said.length === 0
    ? refuse(path, "a message of the model that says nothing, which Messages takes none of")
    : Either.map(Either.all(said.map((piece) => outputBlock(piece, path))), (content) => ({
        role: "assistant",
        content
      }))
}

const toolResult = (turn: ToolTurn): Reading<JsonObject> =>
  turn.computer === undefined
    ? Either.map(inputBlocks(turn), (content) => ({ type: "tool_result", tool_use_id: turn.callId, content }))
    : refuse(turn.path, "an answer of another server's computer tool")

const isLeading = (turn: Turn): turn is InputTurn => turn.role === "system" || turn.role === "developer"

/**
 * Answers of tools that follow each other, and what a user says right after them, are one message: the wire wants the
 * answers to all calls of a message together.
 */
export const writeMessages = (
  turns: ReadonlyArray<Turn>,
  writing: { readonly reasoning: boolean }
): Reading<MessagesBody> =>
  Either.gen(function* () {
    const end = turns.findIndex((turn) => !isLeading(turn))
    const head = turns.slice(0, end === -1 ? turns.length : end).filter(isLeading)
    const system = (yield* Either.all(head.map(inputBlocks))).flat()
    const messages: Array<JsonObject> = []
    let answers: Array<JsonObject> | undefined
    for (const turn of turns.slice(head.length)) {
      switch (turn.role) {
        case "assistant":
          answers = undefined
          messages.push(yield* assistantMessage(turn, writing.reasoning))
          break
        case "tool": {
          const result = yield* toolResult(turn)
          if (answers === undefined) {
            answers = []
            messages.push({ role: "user", content: answers })
          }
          answers.push(result)
          break
        }
        case "user": {
          const content = yield* inputBlocks(turn)
          if (answers === undefined) messages.push({ role: "user", content })
          else for (const block of content) answers.push(block)
          answers = undefined
          break
        }
        default:
          return yield* refuse(turn.path, `a message of the role ${turn.role} after the beginning`)
      }
    }
    return { system, messages }
  })
