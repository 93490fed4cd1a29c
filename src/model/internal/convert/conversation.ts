import * as Arr from "effect/Array"
import * as Either from "effect/Either"
import * as Schema from "effect/Schema"
import {
  AssistantMessage,
  ComputerAnswer,
  ComputerCallPart,
  ImageDetail,
  type ImagePart,
  ImageUrlPart,
  type InputPart,
  type Message,
  type OutputPart,
  ReasoningPart,
  SystemMessage,
  TextPart,
  ToolCallPart,
  ToolMessage,
  UserMessage
} from "../../Conversation.js"
import { type Reading, refuse, typeName } from "./json.js"
import type { AssistantTurn, InputPiece, InputTurn, OutputPiece, ToolTurn, Turn } from "./turn.js"

// -----------------------------------------------------------------------------
// From a conversation
// -----------------------------------------------------------------------------

const inputPiece = (part: InputPart, image: (part: ImagePart) => string, path: string): Reading<InputPiece> => {
  if (part._tag === "TextPart") return Either.right({ _tag: "text", text: part.text })
  const url = part._tag === "ImagePart" ? image(part) : part.url
  if (url === "") return refuse(path, `the image ${part._tag === "ImagePart" ? part.blob.sha256 : ""} with no address`)
  return Either.right({ _tag: "image", url, ...(part.detail === undefined ? {} : { detail: part.detail }) })
}

const outputPiece = (part: OutputPart): OutputPiece => {
  switch (part._tag) {
    case "TextPart":
      return { _tag: "text", text: part.text }
    case "ReasoningPart":
      return { _tag: "reasoning", text: part.text, ...(part.seal === undefined ? {} : { seal: part.seal }) }
    case "ToolCallPart":
      return { _tag: "call", id: part.callId, name: part.name, arguments: part.arguments }
    case "ComputerCallPart":
      return {
        _tag: "computer",
        callId: part.callId,
        actions: part.actions,
        form: part.form,
        safetyChecks: part.safetyChecks,
        ...(part.id === undefined ? {} : { id: part.id })
      }
  }
}

/** What a conversation says, for a wire; `image` gives the address that stands for an image held by reference. */
export const turnsOf = (
  messages: ReadonlyArray<Message>,
  image: (part: ImagePart) => string
): Reading<ReadonlyArray<Turn>> =>
  Either.all(
    messages.map((message, index): Reading<Turn> => {
      const path = `messages[${index}]`
      if (message.role === "assistant") {
        return Either.right({
          role: "assistant",
          pieces: message.content.map(outputPiece),
          ...(message.tokens === undefined ? {} : { tokens: message.tokens }),
          path
        })
      }
      const parts: ReadonlyArray<InputPart> = message.content
      const plain = parts.length === 1 && parts[0]?._tag === "TextPart"
      return Either.map(
        Either.all(parts.map((part, at) => inputPiece(part, image, `${path}.content[${at}]`))),
        (pieces): Turn =>
          message.role === "tool"
            ? {
                role: "tool",
                callId: message.callId,
                pieces,
                plain,
                path,
                ...(message.computer === undefined ? {} : { computer: message.computer })
              }
            : { role: message.role, pieces, plain, path }
      )
    })
  )

// -----------------------------------------------------------------------------
// To a conversation
// -----------------------------------------------------------------------------

const isDetail = Schema.is(ImageDetail)

const inputPart = (piece: InputPiece, path: string): Reading<InputPart> => {
  switch (piece._tag) {
    case "text":
      return Either.right(new TextPart({ text: piece.text }))
    case "image": {
      const { detail, url } = piece
      if (detail === undefined) return Either.right(new ImageUrlPart({ url }))
      if (!isDetail(detail)) return refuse(path, `an image of detail ${typeName(detail)}`)
      return Either.right(new ImageUrlPart({ url, detail }))
    }
    case "video":
      return refuse(path, "a video")
  }
}

const filled = <A>(parts: ReadonlyArray<A>, path: string): Reading<Arr.NonEmptyReadonlyArray<A>> =>
  Arr.isNonEmptyReadonlyArray(parts) ? Either.right(parts) : refuse(path, "a message of no parts")

const inputParts = (turn: InputTurn | ToolTurn): Reading<Arr.NonEmptyReadonlyArray<InputPart>> =>
  Either.flatMap(
    Either.all(turn.pieces.map((piece, index) => inputPart(piece, `${turn.path}.content[${index}]`))),
    (parts) => filled(parts, turn.path)
  )

const textParts = (turn: InputTurn): Reading<Arr.NonEmptyReadonlyArray<TextPart>> =>
  Either.flatMap(inputParts(turn), (parts) => {
    const texts = parts.flatMap((part) => (part._tag === "TextPart" ? [part] : []))
    return texts.length === parts.length
      ? filled(texts, turn.path)
      : refuse(turn.path, `an image in a message of the role ${turn.role}`)
  })

/** For what was checked where it was read: a class checks anew, at ten times the cost of what it makes. */
const checked = { disableValidation: true }

const outputPart = (piece: OutputPiece, path: string): Reading<OutputPart> => {
  switch (piece._tag) {
    case "text":
      return Either.right(new TextPart({ text: piece.text }, checked))
    case "reasoning":
      return Either.right(
        new ReasoningPart({ text: piece.text, ...(piece.seal === undefined ? {} : { seal: piece.seal }) }, checked)
      )
    case "call":
      return Either.right(new ToolCallPart({ callId: piece.id, name: piece.name, arguments: piece.arguments }))
    case "computer": {
      const { _tag, ...call } = piece
      return Either.right(new ComputerCallPart(call))
    }
    case "refusal":
      return refuse(path, "a refusal")
  }
}

const unnamed = (turn: InputTurn | AssistantTurn): Reading<void> =>
  turn.name === undefined ? Either.void : refuse(`${turn.path}.name`, "the name of a speaker")

/** A message of the model. */
export const assistantOf = (turn: AssistantTurn): Reading<AssistantMessage> =>
  Either.flatMap(unnamed(turn), () =>
    Either.map(
      Either.all(turn.pieces.map((piece) => outputPart(piece, turn.path))),
      (content) =>
        new AssistantMessage(
          { role: "assistant", content, ...(turn.tokens === undefined ? {} : { tokens: turn.tokens }) },
          checked
        )
    )
  )

const messageOf = (turn: Turn): Reading<Message> => {
  switch (turn.role) {
    case "assistant":
      return assistantOf(turn)
    case "tool":
      return Either.map(inputParts(turn), (content) => {
        const { callId, computer, role } = turn
        return new ToolMessage({
          role,
          callId,
          content,
          ...(computer === undefined ? {} : { computer: new ComputerAnswer(computer) })
        })
      })
    case "user":
      return Either.flatMap(unnamed(turn), () =>
        Either.map(inputParts(turn), (content) => new UserMessage({ role: "user", content }))
      )
    case "system":
    case "developer": {
      const { role } = turn
      return Either.flatMap(unnamed(turn), () =>
        Either.map(textParts(turn), (content) => new SystemMessage({ role, content }))
      )
    }
  }
}

/** The conversation that a wire told. */
export const conversationOf = (turns: ReadonlyArray<Turn>): Reading<ReadonlyArray<Message>> =>
  Either.all(turns.map(messageOf))
