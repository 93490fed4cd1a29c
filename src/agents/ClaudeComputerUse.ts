/**
 * The agent of Claude's computer use: calls of Anthropic's computer tool, spoken on the Messages wire.
 *
 * @since 0.1.0
 */
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import type { ArtifactStore } from "../artifact/ArtifactStore.js"
import type { HistoryPolicy } from "../history/HistoryPolicy.js"
import {
  type AssistantMessage,
  ComputerTool,
  image,
  type Message,
  system,
  text,
  tool,
  user
} from "../model/Conversation.js"
import type { ModelClient } from "../model/ModelClient.js"
import type { ParseFailure } from "../rollout/Agent.js"
import * as ClaudeComputerUseReply from "./ClaudeComputerUseReply.js"
import { DesktopAgent } from "./DesktopAgent.js"
import { claude as ours } from "./internal/computerUseTexts.js"
import { startingWith } from "./internal/frames.js"
import * as loop from "./internal/loop.js"
import { fill } from "./internal/template.js"
import { isCall } from "./internal/words.js"
import type { PromptView, Protocol, Shown } from "./Protocol.js"

const protocolId = "deskhand-claude-computer-use-v1"
const parserId = "deskhand-claude-computer-use-reply-v1"

const optional = <A, I>(schema: Schema.Schema<A, I>) => Schema.optionalWith(schema, { exact: true })

/**
 * What may be said of the agent, by the keys of `--agent claude-computer-use:...`.
 *
 * @since 0.1.0
 * @category models
 */
export const Options = Schema.Struct({
  /** The tool's version; 2025-11-24. Models of the year 2026 want the toolset, 2026-08-01. */
  version: optional(Schema.Literal("2025-01-24", "2025-11-24", "2026-08-01")),
  /** The size in pixels that screenshots are shown at and that coordinates count in; 1280 by 720. */
  width: optional(Schema.Int.pipe(Schema.positive())),
  height: optional(Schema.Int.pipe(Schema.positive())),
  /** Model calls that a step may take; 3. */
  attempts: optional(Schema.Int.pipe(Schema.positive()))
})

/**
 * @since 0.1.0
 * @category models
 */
export type Options = typeof Options.Type

const picture = (shown: Shown) => image(shown.image)

/** Every call has to be answered; the last of a message with the screenshot after it. */
const answers = (message: AssistantMessage, shown: Shown | undefined): ReadonlyArray<Message> => {
  const ids = message.content.flatMap((part) =>
    part._tag === "ToolCallPart" || part._tag === "ComputerCallPart" ? [part.callId] : []
  )
  if (ids.length === 0) return [shown === undefined ? user(text(ours.go_on)) : user(text(ours.go_on), picture(shown))]
  return ids.map((id, index) =>
    index < ids.length - 1 || shown === undefined
      ? tool(id, text(ours.success))
      : tool(id, text(ours.success), picture(shown))
  )
}

const render = ({ instruction, isLive, now, password, summary, turns }: PromptView) => {
  const start = summary?.turns ?? 0
  const shownAt = (turn: number): Shown | undefined => (isLive(turn) ? (turns[turn]?.shown ?? now) : undefined)
  const first = shownAt(start)
  return startingWith<Message>(system(fill(ours.system_prompt_template, { password })), [
    user(
      text(fill(ours.instruction_template, { instruction })),
      ...(summary === undefined ? [] : [text(fill(ours.summary_template, { summary: summary.text }))]),
      ...(first === undefined ? [] : [picture(first)])
    ),
    ...turns.slice(start).flatMap(({ message }, index) => [message, ...answers(message, shownAt(start + index + 1))])
  ])
}

/** The reply with an answer to each of its calls, as the wire wants it. */
const feedback = ({ message: error }: ParseFailure, reply: AssistantMessage): ReadonlyArray<Message> => {
  const words = text(fill(ours.feedback_template, { error }))
  const ids = reply.content.flatMap((part) =>
    part._tag === "ToolCallPart" || part._tag === "ComputerCallPart" ? [part.callId] : []
  )
  if (ids.length > 0) return [reply, ...ids.map((id) => tool(id, words))]
  const spoke = reply.content.some((part) => isCall(part) || (part._tag === "TextPart" && part.text.trim() !== ""))
  return spoke ? [reply, user(words)] : [user(words)]
}

/**
 * The agent. All turns stay in the prompt, and the last ten screenshots of them.
 *
 * @since 0.1.0
 * @category constructors
 */
export const make = (options: Options): Protocol => {
  const { attempts = 3, height = 720, version = "2025-11-24", width = 1280 } = options
  const size = { width, height }
  return {
    name: "claude-computer-use",
    dialect: "messages",
    observation: "screenshot",
    actionSpace: "pyautogui",
    wire: {
      protocolId,
      parserId,
      thinking: true,
      contract: { schema_version: 1, protocol_id: protocolId, parser_id: parserId, ...ours, version, ...size }
    },
    options: { version, ...size, attempts },
    historyPolicy: "fixed:10",
    tools: () => [new ComputerTool({ generation: version, ...size, environment: "linux" })],
    imageSize: () => size,
    retries: { attempts, feedback, exhausted: "stop" },
    render,
    read: (reply, { screen }) => ClaudeComputerUseReply.read(reply, { screen, space: size })
  }
}

/**
 * The agent over the model client and history policy that are provided.
 *
 * @since 0.1.0
 * @category layers
 */
export const layer = (
  options: Options = {},
  run: Omit<loop.LoopOptions, "settings"> = {}
): Layer.Layer<DesktopAgent, never, ModelClient | HistoryPolicy | ArtifactStore> => {
  const protocol = make(options)
  return Layer.effect(DesktopAgent, loop.make(protocol, { ...run, settings: { name: protocol.name, options } }))
}
