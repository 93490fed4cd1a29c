/**
 * What a model is shown and what it says, apart from any wire: messages of parts in their order, images held by
 * reference.
 *
 * @since 0.1.0
 */
import * as Schema from "effect/Schema"
import { BlobRef } from "../artifact/ArtifactStore.js"
import { TokenBundle } from "./TokenBundle.js"

// -----------------------------------------------------------------------------
// Parts
// -----------------------------------------------------------------------------

/**
 * Text of a user, a tool or a model.
 *
 * @since 0.1.0
 * @category parts
 */
export class TextPart extends Schema.TaggedClass<TextPart>("deskhand/model/TextPart")("TextPart", {
  text: Schema.String
}) {}

/**
 * How closely a model looks at an image; the server's own default holds when it is absent. Responses alone knows
 * `original`, and Messages none.
 *
 * @since 0.1.0
 * @category parts
 */
export const ImageDetail = Schema.Literal("auto", "low", "high", "original")

/**
 * An image, by reference: its bytes are read when the request is sent and forgotten afterwards.
 *
 * @since 0.1.0
 * @category parts
 */
export class ImagePart extends Schema.TaggedClass<ImagePart>("deskhand/model/ImagePart")("ImagePart", {
  blob: BlobRef,
  detail: Schema.optionalWith(ImageDetail, { exact: true })
}) {}

/**
 * An image that the server fetches by itself, or that came in as a `data:` address.
 *
 * @since 0.1.0
 * @category parts
 */
export class ImageUrlPart extends Schema.TaggedClass<ImageUrlPart>("deskhand/model/ImageUrlPart")("ImageUrlPart", {
  url: Schema.NonEmptyString,
  detail: Schema.optionalWith(ImageDetail, { exact: true })
}) {}

/**
 * What a server put on reasoning so that it knows it again: sent back as it came, and of use to that server alone.
 *
 * @since 0.1.0
 * @category parts
 */
export class ReasoningSeal extends Schema.Class<ReasoningSeal>("deskhand/model/ReasoningSeal")({
  /**
   * Messages signs the words (`signature`) or hides them (`redacted`); Responses hides them behind a summary
   * (`encrypted`), which may be empty.
   */
  kind: Schema.Literal("signature", "redacted", "encrypted"),
  value: Schema.NonEmptyString,
  /** The server's id of the reasoning, where its dialect has one. */
  id: Schema.optionalWith(Schema.NonEmptyString, { exact: true })
}) {}

/**
 * A span of reasoning, at its place among the model's words.
 *
 * @since 0.1.0
 * @category parts
 */
export class ReasoningPart extends Schema.TaggedClass<ReasoningPart>("deskhand/model/ReasoningPart")("ReasoningPart", {
  text: Schema.String,
  /** Of a seal over several spans, the first has it. */
  seal: Schema.optionalWith(ReasoningSeal, { exact: true })
}) {}

/**
 * A call of a function that the request offered.
 *
 * @since 0.1.0
 * @category parts
 */
export class ToolCallPart extends Schema.TaggedClass<ToolCallPart>("deskhand/model/ToolCallPart")("ToolCallPart", {
  callId: Schema.NonEmptyString,
  name: Schema.String,
  /** As the model wrote it: usually JSON, not looked into. */
  arguments: Schema.String
}) {}

const JsonFields = Schema.Record({ key: Schema.String, value: Schema.Unknown })

/**
 * How a wire tells what to do with a computer: one action a call (the preview of Responses, and Messages), a list of them
 * (Responses since then), or one whose name is the call's (the toolset of Messages), which is its `action` here.
 *
 * @since 0.1.0
 * @category parts
 */
export const ComputerForm = Schema.Literal("action", "actions", "member")

/**
 * A call of the computer tool that the request offered.
 *
 * @since 0.1.0
 * @category parts
 */
export class ComputerCallPart extends Schema.TaggedClass<ComputerCallPart>("deskhand/model/ComputerCallPart")(
  "ComputerCallPart",
  {
    callId: Schema.NonEmptyString,
    /** JSON objects as the model wrote them, in order; exactly one unless the form is `actions`. */
    actions: Schema.Array(JsonFields),
    form: ComputerForm,
    /** What the server wants somebody to look at before the actions are carried out, as it wrote it. */
    safetyChecks: Schema.Array(JsonFields),
    /** The server's id of the call, where its dialect has one apart from `callId`. */
    id: Schema.optionalWith(Schema.NonEmptyString, { exact: true })
  }
) {}

/**
 * What a user or a tool says: text, or a picture by its digest or its address.
 *
 * @since 0.1.0
 * @category parts
 */
export const InputPart = Schema.Union(TextPart, ImagePart, ImageUrlPart)

/**
 * What a message to the model holds.
 *
 * @since 0.1.0
 * @category parts
 */
export type InputPart = typeof InputPart.Type

/**
 * What a model says: text, reasoning, and calls of tools or of the computer.
 *
 * @since 0.1.0
 * @category parts
 */
export const OutputPart = Schema.Union(TextPart, ReasoningPart, ToolCallPart, ComputerCallPart)

/**
 * What a message of the model holds.
 *
 * @since 0.1.0
 * @category parts
 */
export type OutputPart = typeof OutputPart.Type

// -----------------------------------------------------------------------------
// Messages
// -----------------------------------------------------------------------------

/**
 * What a model is told of its part before anybody speaks.
 *
 * @since 0.1.0
 * @category messages
 */
export class SystemMessage extends Schema.Class<SystemMessage>("deskhand/model/SystemMessage")({
  role: Schema.Literal("system", "developer"),
  content: Schema.NonEmptyArray(TextPart)
}) {}

/**
 * What a user says and shows; at least one part.
 *
 * @since 0.1.0
 * @category messages
 */
export class UserMessage extends Schema.Class<UserMessage>("deskhand/model/UserMessage")({
  role: Schema.Literal("user"),
  content: Schema.NonEmptyArray(InputPart)
}) {}

/**
 * What a model said, with its tokens where they are known.
 *
 * @since 0.1.0
 * @category messages
 */
export class AssistantMessage extends Schema.Class<AssistantMessage>("deskhand/model/AssistantMessage")({
  role: Schema.Literal("assistant"),
  /** In the model's order; empty when it said nothing. */
  content: Schema.Array(OutputPart),
  /** The tokens behind it, where the server told them. */
  tokens: Schema.optionalWith(TokenBundle, { exact: true })
}) {
  /** The words alone, joined. */
  get text(): string {
    return this.content.map((part) => (part._tag === "TextPart" ? part.text : "")).join("")
  }
  /** The reasoning alone, its spans joined by a line break; `undefined` where there is none. */
  get reasoning(): string | undefined {
    const spans = this.content.flatMap((part) => (part._tag === "ReasoningPart" ? [part.text] : []))
    return spans.length === 0 ? undefined : spans.join("\n")
  }
  get toolCalls(): ReadonlyArray<ToolCallPart> {
    return this.content.filter((part) => part._tag === "ToolCallPart")
  }
  get computerCalls(): ReadonlyArray<ComputerCallPart> {
    return this.content.filter((part) => part._tag === "ComputerCallPart")
  }
}

/**
 * That an answer is the screenshot after a call of the computer, which Responses tells apart from other tools' answers.
 * Messages does not: there a computer's answer is one like any other.
 *
 * @since 0.1.0
 * @category messages
 */
export class ComputerAnswer extends Schema.Class<ComputerAnswer>("deskhand/model/ComputerAnswer")({
  /** As the call has it. */
  form: ComputerForm,
  /** Of the call's safety checks, those that somebody has looked at. */
  acknowledged: Schema.Array(JsonFields)
}) {}

/**
 * What came of a tool call.
 *
 * @since 0.1.0
 * @category messages
 */
export class ToolMessage extends Schema.Class<ToolMessage>("deskhand/model/ToolMessage")({
  role: Schema.Literal("tool"),
  callId: Schema.NonEmptyString,
  /** Where `computer` is set, one image and nothing else. */
  content: Schema.NonEmptyArray(InputPart),
  computer: Schema.optionalWith(ComputerAnswer, { exact: true })
}) {}

/**
 * One message of a conversation, by its role.
 *
 * @since 0.1.0
 * @category messages
 */
export const Message = Schema.Union(SystemMessage, UserMessage, AssistantMessage, ToolMessage)

/**
 * @since 0.1.0
 * @category messages
 */
export type Message = typeof Message.Type

/**
 * A function that the model may call.
 *
 * @since 0.1.0
 * @category models
 */
export class Tool extends Schema.Class<Tool>("deskhand/model/Tool")({
  name: Schema.NonEmptyString,
  description: Schema.optionalWith(Schema.String, { exact: true }),
  /** A JSON Schema of its arguments; sent as it is. */
  parameters: Schema.Record({ key: Schema.String, value: Schema.Unknown }),
  strict: Schema.optionalWith(Schema.Boolean, { exact: true })
}) {}

/**
 * The computer tools by whose they are and since when: those of Responses, `preview` and the one after it, and those of
 * Messages by the dates of their versions.
 *
 * @since 0.1.0
 * @category models
 */
export const ComputerGeneration = Schema.Literal("preview", "responses", "2025-01-24", "2025-11-24", "2026-08-01")

/**
 * A computer that the model may use: its server knows the actions.
 *
 * @since 0.1.0
 * @category models
 */
export class ComputerTool extends Schema.TaggedClass<ComputerTool>("deskhand/model/ComputerTool")("ComputerTool", {
  generation: ComputerGeneration,
  /** Pixels, as coordinates count them. Generations that are not told them count pixels of the screenshot. */
  width: Schema.Int.pipe(Schema.positive()),
  height: Schema.Int.pipe(Schema.positive()),
  /** Only `preview` is told it. */
  environment: Schema.Literal("linux", "ubuntu", "windows", "mac", "browser")
}) {}

/**
 * A tool that a model may call: one with parameters of its own, or the provider's computer.
 *
 * @since 0.1.0
 * @category models
 */
export const OfferedTool = Schema.Union(Tool, ComputerTool)

/**
 * What a request may offer.
 *
 * @since 0.1.0
 * @category models
 */
export type OfferedTool = typeof OfferedTool.Type

// -----------------------------------------------------------------------------
// Constructors
// -----------------------------------------------------------------------------

/** What the types of a constructor's arguments say is so: to look again at each of thousands of prompts costs more than to send them. */
const checked = true

/**
 * What the model is told before it sees anything.
 *
 * @since 0.1.0
 * @category constructors
 */
export const system = (text: string): SystemMessage =>
  new SystemMessage({ role: "system", content: [new TextPart({ text }, checked)] }, checked)

/**
 * A user's message of at least one part.
 *
 * @since 0.1.0
 * @category constructors
 */
export const user = (...content: readonly [InputPart, ...Array<InputPart>]): UserMessage =>
  new UserMessage({ role: "user", content }, checked)

/**
 * A model's message; without a part where it said nothing.
 *
 * @since 0.1.0
 * @category constructors
 */
export const assistant = (...content: ReadonlyArray<OutputPart>): AssistantMessage =>
  new AssistantMessage({ role: "assistant", content }, checked)

/**
 * The answer to a call of a tool, by the call's id.
 *
 * @since 0.1.0
 * @category constructors
 */
export const tool = (callId: string, ...content: readonly [InputPart, ...Array<InputPart>]): ToolMessage =>
  new ToolMessage({ role: "tool", callId, content }, checked)

/**
 * A part of plain text.
 *
 * @since 0.1.0
 * @category constructors
 */
export const text = (value: string): TextPart => new TextPart({ text: value }, checked)

/**
 * A part that shows an image; the server chooses the detail unless it is given.
 *
 * @since 0.1.0
 * @category constructors
 */
export const image = (blob: BlobRef, detail?: typeof ImageDetail.Type): ImagePart =>
  new ImagePart({ blob, ...(detail === undefined ? {} : { detail }) }, checked)
