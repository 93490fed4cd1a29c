/** Prompts to render: turns that were answered with given replies, under a policy's own plans. */
import type { PromptView, Protocol, Shown, Turn } from "../../src/agents/Protocol.js"
import { BlobRef } from "../../src/artifact/ArtifactStore.js"
import { type HistoryPlan, type HistoryPolicy, isLive } from "../../src/history/HistoryPolicy.js"
import { type AssistantMessage, assistant, type Message, text } from "../../src/model/Conversation.js"

export const screen = { width: 1920, height: 1080 }

export const shown = (turn: number): Shown => ({
  image: new BlobRef({ sha256: turn.toString(16).padStart(64, "0"), bytes: 1, mediaType: "image/png" })
})

export const turnOf = (protocol: Protocol, number: number, said: string | AssistantMessage): Turn => {
  const message = typeof said === "string" ? assistant(text(said)) : said
  const context = { screen, finishReason: "stop", shown: shown(number), turns: [] }
  return { shown: shown(number), message, read: protocol.read(message, context) }
}

export const view = (
  turns: ReadonlyArray<Turn>,
  live: (turn: number) => boolean,
  more: Partial<PromptView> = {}
): PromptView => ({
  instruction: "Open the file",
  password: "secret",
  screen,
  turns,
  now: shown(turns.length),
  isLive: (turn) => turn === turns.length || live(turn),
  ...more
})

/** A message on a line or more, its pictures by the number of their turn. */
export const written = ({ content, role }: Message): string =>
  `${role}: ${content
    .map((part) => {
      switch (part._tag) {
        case "TextPart":
          return part.text
        case "ReasoningPart":
          return `(${part.text})`
        case "ImagePart":
          return `[${Number.parseInt(part.blob.sha256, 16)}]`
        default:
          return part._tag
      }
    })
    .join("|")}`

export interface Rendered {
  readonly messages: ReadonlyArray<string>
  readonly plan: HistoryPlan
}

/** The prompts of an episode, turn by turn. */
export const episode = (
  protocol: Protocol,
  policy: HistoryPolicy["Type"],
  replies: ReadonlyArray<string | AssistantMessage>
): ReadonlyArray<Rendered> => {
  const turns = replies.map((reply, number) => turnOf(protocol, number, reply))
  let state = policy.initial
  return Array.from({ length: replies.length + 1 }, (_, now) => {
    const plan = policy.plan(state, now)
    state = plan.next
    const messages = protocol.render(view(turns.slice(0, now), (turn) => isLive(plan, turn))).map(written)
    return { messages, plan }
  })
}

/** The numbers of the pictures in a prompt, in order. */
export const pictures = (messages: ReadonlyArray<string>): ReadonlyArray<number> =>
  messages.flatMap((message) => Array.from(message.matchAll(/\[(\d+)\]/g), ([, number = ""]) => Number(number)))

/** Faults of prompts that were to extend the one before, and did not. */
export const brokenPrefixes = (prompts: ReadonlyArray<Rendered>): ReadonlyArray<number> =>
  prompts.flatMap(({ messages, plan }, turn) => {
    const before = prompts[turn - 1]?.messages ?? []
    const extended = before.every((message, index) => messages[index] === message)
    return extended || plan.compaction ? [] : [turn]
  })
