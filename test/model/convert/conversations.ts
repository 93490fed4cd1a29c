/** Conversations for the properties of the conversions, and what a wire makes of them. */
import * as fc from "effect/FastCheck"
import { BlobRef } from "../../../src/artifact/ArtifactStore.js"
import {
  AssistantMessage,
  ComputerAnswer,
  ComputerCallPart,
  ImagePart,
  ImageUrlPart,
  type InputPart,
  type Message,
  type OutputPart,
  ReasoningPart,
  ReasoningSeal,
  SystemMessage,
  TextPart,
  ToolCallPart,
  ToolMessage,
  UserMessage
} from "../../../src/model/Conversation.js"
import { TokenBundle } from "../../../src/model/TokenBundle.js"

/** Words with what conversions look at among them: tags, their halves, white space, quotes, letters outside ASCII. */
export const words = fc
  .array(
    fc.oneof(
      fc.constantFrom(
        "<think>",
        "</think>",
        "<thi",
        "nk>",
        "</",
        "\n",
        "\r\n",
        "  ",
        '"',
        "\\",
        "é",
        "😀",
        "[",
        "null"
      ),
      fc.string({ maxLength: 8 })
    ),
    { maxLength: 6 }
  )
  .map((pieces) => pieces.join(""))

/** The address of an image held by reference, as the tests make it. */
export const address = (part: ImagePart): string => `blob:${part.blob.sha256}`

const text = words.map((value) => new TextPart({ text: value }))

const detail = fc.constantFrom(undefined, "auto" as const, "low" as const, "high" as const, "original" as const)

const image = fc.tuple(fc.nat(15), detail).map(
  ([seed, how]) =>
    new ImagePart({
      blob: new BlobRef({ sha256: seed.toString(16).repeat(64), bytes: seed, mediaType: "image/png" }),
      ...(how === undefined ? {} : { detail: how })
    })
)

const imageUrl = fc
  .tuple(fc.webUrl(), detail)
  .map(([url, how]) => new ImageUrlPart({ url, ...(how === undefined ? {} : { detail: how }) }))

const filled = <A>(part: fc.Arbitrary<A>): fc.Arbitrary<[A, ...Array<A>]> =>
  fc.tuple(part, fc.array(part, { maxLength: 3 })).map(([first, rest]) => [first, ...rest])

const call = fc
  .tuple(fc.string({ minLength: 1, maxLength: 8 }), fc.string({ maxLength: 8 }), words)
  .map(([callId, name, written]) => new ToolCallPart({ callId, name, arguments: written }))

const bundle = fc
  .tuple(
    fc.array(fc.nat(), { maxLength: 4 }),
    fc.array(fc.tuple(fc.nat(), fc.double({ max: 0, noNaN: true, min: -99 })), { maxLength: 4 }),
    fc.boolean()
  )
  .map(
    ([prompt, generated, routed]) =>
      new TokenBundle({
        promptTokenIds: prompt,
        generationTokenIds: generated.map(([id]) => id),
        // JSON knows no -0.
        generationLogProbs: generated.map(([, logProb]) => logProb + 0),
        ...(routed ? { routedExperts: [[[0, 3]]] } : {})
      })
  )

const system = fc
  .tuple(fc.constantFrom("system" as const, "developer" as const), filled(text))
  .map(([role, content]) => new SystemMessage({ role, content }))

const user = filled(fc.oneof(text, image, imageUrl)).map((content) => new UserMessage({ role: "user", content }))

const tool = (part: fc.Arbitrary<InputPart>) =>
  fc
    .tuple(fc.string({ minLength: 1, maxLength: 8 }), filled(part))
    .map(([callId, content]) => new ToolMessage({ role: "tool", callId, content }))

const assistant = (parts: fc.Arbitrary<ReadonlyArray<OutputPart>>) =>
  fc.tuple(parts, fc.option(bundle, { nil: undefined })).map(
    ([content, tokens]) =>
      new AssistantMessage({
        role: "assistant",
        content,
        ...(tokens === undefined || content.length === 0 ? {} : { tokens })
      })
  )

/**
 * What an assistant's chat message can hold: words and reasoning in turns, never two texts beside each other and none
 * empty, no start tag in words and no end tag in reasoning, calls after all of them, tokens only where something is said.
 */
const chatSaid: fc.Arbitrary<ReadonlyArray<OutputPart>> = fc
  .tuple(fc.array(fc.tuple(fc.boolean(), words), { maxLength: 5 }), fc.array(call, { maxLength: 2 }))
  .map(([spoken, calls]) => {
    const parts: Array<OutputPart> = []
    for (const [isReasoning, value] of spoken) {
      const said = value.replaceAll(isReasoning ? "</think>" : "<think>", "·")
      if (isReasoning) parts.push(new ReasoningPart({ text: said }))
      else if (said !== "" && parts.at(-1)?._tag !== "TextPart") parts.push(new TextPart({ text: said }))
    }
    return [...parts, ...calls]
  })

/** Canonical for Chat Completions: assistants as above, answers of tools in words alone. */
export const chatConversation: fc.Arbitrary<ReadonlyArray<Message>> = fc.array(
  fc.oneof(system, user, tool(text), assistant(chatSaid)),
  { maxLength: 5 }
)

const id = fc.string({ minLength: 1, maxLength: 8 })

const fields = fc.array(fc.dictionary(fc.string({ maxLength: 6 }), fc.jsonValue(), { noNullPrototype: true }), {
  maxLength: 3
})

// JSON knows no -0.
const plain = <A>(value: A): A => JSON.parse(JSON.stringify(value)) as A

const computerCall = fc.oneof(
  fc
    .tuple(id, fields, fields, fc.option(id, { nil: undefined }))
    .map(([callId, [action = { type: "wait" }], safetyChecks, itemId]) => {
      const told = { form: "action" as const, actions: [plain(action)], safetyChecks: plain(safetyChecks) }
      return new ComputerCallPart({ callId, ...told, ...(itemId === undefined ? {} : { id: itemId }) })
    }),
  fc.tuple(id, fields, fields).map(
    ([callId, actions, safetyChecks]) =>
      new ComputerCallPart({
        callId,
        form: "actions",
        actions: plain(actions),
        safetyChecks: plain(safetyChecks)
      })
  )
)

const screenshot = fc
  .tuple(id, fc.oneof(image, imageUrl), fc.constantFrom("action" as const, "actions" as const), fields)
  .map(
    ([callId, picture, form, acknowledged]) =>
      new ToolMessage({
        role: "tool",
        callId,
        content: [picture],
        computer: new ComputerAnswer({ form, acknowledged: plain(acknowledged) })
      })
  )

const encrypted = fc.tuple(words, id, fc.option(id, { nil: undefined })).map(
  ([said, value, itemId]) =>
    new ReasoningPart({
      text: said,
      seal: new ReasoningSeal({ kind: "encrypted", value, ...(itemId === undefined ? {} : { id: itemId }) })
    })
)

const said: fc.Arbitrary<ReadonlyArray<OutputPart>> = fc.array(
  fc.oneof(
    text,
    words.map((value) => new ReasoningPart({ text: value })),
    call,
    computerCall,
    encrypted
  ),
  { minLength: 1, maxLength: 6 }
)

const noNeighbours = (messages: ReadonlyArray<Message>): ReadonlyArray<Message> =>
  messages.filter((message, index) => message.role !== "assistant" || messages[index - 1]?.role !== "assistant")

/** Canonical for Responses: assistants say something, in any order, and no two of them are neighbours. */
export const responsesConversation: fc.Arbitrary<ReadonlyArray<Message>> = fc
  .array(fc.oneof(system, user, tool(fc.oneof(text, image, imageUrl)), screenshot, assistant(said)), { maxLength: 5 })
  .map(noNeighbours)

const filledWords = words.map((value) => new TextPart({ text: `${value}.` }))

const bare = fc.oneof(
  text,
  image.map(({ blob }) => new ImagePart({ blob })),
  imageUrl.map(({ url }) => new ImageUrlPart({ url }))
)

const sealedThinking = fc.oneof(
  fc
    .tuple(words, id)
    .map(([said, value]) => new ReasoningPart({ text: said, seal: new ReasoningSeal({ kind: "signature", value }) })),
  id.map((value) => new ReasoningPart({ text: "", seal: new ReasoningSeal({ kind: "redacted", value }) }))
)

const messagesSaid: fc.Arbitrary<ReadonlyArray<OutputPart>> = fc.array(
  fc.oneof(
    filledWords,
    words.map((value) => new ReasoningPart({ text: value })),
    sealedThinking,
    call.map((part) => {
      const { callId, name } = part
      return new ToolCallPart({ callId, name: `f${name}`, arguments: JSON.stringify({ said: part.arguments }) })
    }),
    fc
      .tuple(id, fields)
      .map(
        ([callId, [action = { action: "wait" }]]) =>
          new ComputerCallPart({ callId, form: "action", actions: [plain(action)], safetyChecks: [] })
      ),
    fc.tuple(id, id, fields).map(
      ([callId, action, [input = {}]]) =>
        new ComputerCallPart({
          callId,
          form: "member",
          actions: [{ ...plain(input), action }],
          safetyChecks: []
        })
    )
  ),
  { minLength: 1, maxLength: 6 }
)

/**
 * Canonical for Messages: a system message at the beginning alone, no detail of images, assistants that say something
 * and no empty text, calls of functions with a JSON object for arguments and of the computer with one action.
 */
export const messagesConversation: fc.Arbitrary<ReadonlyArray<Message>> = fc
  .tuple(
    fc.option(filled(text), { nil: undefined }),
    fc.array(
      fc.oneof(
        filled(bare).map((content) => new UserMessage({ role: "user", content })),
        tool(bare),
        messagesSaid.map((content) => new AssistantMessage({ role: "assistant", content }))
      ),
      { maxLength: 6 }
    )
  )
  .map(([head, rest]) => [
    ...(head === undefined ? [] : [new SystemMessage({ role: "system", content: head })]),
    ...rest
  ])

/** Canonical for both. */
export const sharedConversation: fc.Arbitrary<ReadonlyArray<Message>> = chatConversation.map((messages) =>
  noNeighbours(messages.filter((message) => message.role !== "assistant" || message.content.length > 0))
)

/** One message of an assistant as a chat server tells it. */
export const chatAssistant = assistant(chatSaid)

const byAddress = (part: InputPart): InputPart =>
  part._tag === "ImagePart"
    ? new ImageUrlPart({ url: address(part), ...(part.detail === undefined ? {} : { detail: part.detail }) })
    : part

/** The conversation as a wire can tell it: an image held by reference has become its address. */
export const told = (messages: ReadonlyArray<Message>): ReadonlyArray<Message> =>
  messages.map((message) => {
    switch (message.role) {
      case "user":
        return new UserMessage({
          role: "user",
          content: [byAddress(message.content[0]), ...message.content.slice(1).map(byAddress)]
        })
      case "tool":
        return new ToolMessage({
          role: "tool",
          callId: message.callId,
          content: [byAddress(message.content[0]), ...message.content.slice(1).map(byAddress)],
          ...(message.computer === undefined ? {} : { computer: message.computer })
        })
      default:
        return message
    }
  })
