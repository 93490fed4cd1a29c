import type { ReasoningSeal } from "../../Conversation.js"
import type { TokenBundle } from "../../TokenBundle.js"
import type { JsonObject } from "./json.js"

/*
 * What every dialect is read into and written from: more than a conversation holds, so that a request can pass from one
 * wire to another with what only wires know.
 */

export interface TextPiece {
  readonly _tag: "text"
  readonly text: string
}

export interface ImagePiece {
  readonly _tag: "image"
  readonly url: string
  readonly detail?: string
}

export interface VideoPiece {
  readonly _tag: "video"
  readonly url: string
}

/** A model's words of refusal, which every wire keeps apart from its text. */
export interface RefusalPiece {
  readonly _tag: "refusal"
  readonly text: string
}

export interface ReasoningPiece {
  readonly _tag: "reasoning"
  readonly text: string
  readonly seal?: ReasoningSeal
}

export interface CallPiece {
  readonly _tag: "call"
  readonly id: string
  readonly name: string
  readonly arguments: string
}

export type ComputerForm = "action" | "actions" | "member"

/** A call of the computer tool. */
export interface ComputerPiece {
  readonly _tag: "computer"
  readonly callId: string
  readonly actions: ReadonlyArray<JsonObject>
  readonly form: ComputerForm
  readonly safetyChecks: ReadonlyArray<JsonObject>
  readonly id?: string
}

export type InputPiece = TextPiece | ImagePiece | VideoPiece

export type OutputPiece = TextPiece | RefusalPiece | ReasoningPiece | CallPiece | ComputerPiece

/** What the model is shown. */
export interface InputTurn {
  readonly role: "system" | "developer" | "user"
  readonly pieces: ReadonlyArray<InputPiece>
  /** Whether the wire had a text, not a list of parts. */
  readonly plain: boolean
  /** Who speaks, where the wire tells. */
  readonly name?: string
  /** Where it was read, for errors. */
  readonly path: string
}

/** What came of a call. */
export interface ToolTurn {
  readonly role: "tool"
  readonly callId: string
  readonly pieces: ReadonlyArray<InputPiece>
  /** Set where the answer is a screenshot after a call of the computer. */
  readonly computer?: { readonly form: ComputerForm; readonly acknowledged: ReadonlyArray<JsonObject> }
  readonly plain: boolean
  readonly path: string
}

/** What the model said, in its order. */
export interface AssistantTurn {
  readonly role: "assistant"
  readonly pieces: ReadonlyArray<OutputPiece>
  readonly tokens?: TokenBundle
  readonly name?: string
  readonly path: string
}

export type Turn = InputTurn | ToolTurn | AssistantTurn

/** What a piece is called in an error. */
export const called = (piece: InputPiece): string =>
  piece._tag === "text" ? "a text" : piece._tag === "image" ? "an image" : "a video"

/** Whether it stands alone: calls do, and where a seal begins so does a new span. */
const isOwn = (piece: OutputPiece): boolean =>
  piece._tag === "call" || piece._tag === "computer" || (piece._tag === "reasoning" && piece.seal !== undefined)

/** Neighbours of one kind together, in order. */
export const runs = (pieces: ReadonlyArray<OutputPiece>): ReadonlyArray<ReadonlyArray<OutputPiece>> => {
  const kind = (piece: OutputPiece | undefined) => (piece?._tag === "refusal" ? "text" : piece?._tag)
  const groups: Array<Array<OutputPiece>> = []
  for (const piece of pieces) {
    const last = groups.at(-1)
    if (last !== undefined && !isOwn(piece) && kind(last[0]) === kind(piece)) last.push(piece)
    else groups.push([piece])
  }
  return groups
}
