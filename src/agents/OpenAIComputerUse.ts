/**
 * The agents of OpenAI's computer use: calls of its computer tool, spoken on the Responses wire. The preview tells one
 * action a call, the tool since then a batch of them.
 *
 * @since 0.1.0
 */
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import type { ArtifactStore } from "../artifact/ArtifactStore.js"
import type { HistoryPolicy } from "../history/HistoryPolicy.js"
import {
  type AssistantMessage,
  ComputerAnswer,
  type ComputerCallPart,
  ComputerTool,
  type ImagePart,
  image,
  type Message,
  system,
  ToolMessage,
  text,
  user
} from "../model/Conversation.js"
import type { ModelClient } from "../model/ModelClient.js"
import type { ParseFailure } from "../rollout/Agent.js"
import { DesktopAgent } from "./DesktopAgent.js"
import { openai as ours } from "./internal/computerUseTexts.js"
import { startingWith } from "./internal/frames.js"
import * as loop from "./internal/loop.js"
import { fill } from "./internal/template.js"
import { inWords } from "./internal/words.js"
import * as OpenAIComputerUseReply from "./OpenAIComputerUseReply.js"
import type { PromptView, Protocol, Shown } from "./Protocol.js"

const protocolId = "deskhand-openai-computer-use-v1"
const parserId = "deskhand-openai-computer-use-reply-v1"

const optional = <A, I>(schema: Schema.Schema<A, I>) => Schema.optionalWith(schema, { exact: true })

/**
 * What may be said of the agent, by the keys of its part of `--agent`.
 *
 * @since 0.1.0
 * @category models
 */
export const Options = Schema.Struct({
  /** Whether the tool is that of `computer-use-preview`; it is the one since then unless this is true. */
  preview: optional(Schema.Boolean),
  /**
   * Whether calls with safety checks are carried out and the checks are sent back as acknowledged. Unless this is true
   * such a call cannot be read, and ends the episode where the model insists on it.
   */
  acknowledge_safety_checks: optional(Schema.Boolean),
  /** Model calls that a step may take; 3. */
  attempts: optional(Schema.Int.pipe(Schema.positive()))
})

/**
 * @since 0.1.0
 * @category models
 */
export type Options = typeof Options.Type

interface Settings {
  readonly preview: boolean
  readonly acknowledge_safety_checks: boolean
}

const picture = ({ preview }: Settings, shown: Shown): ImagePart => image(shown.image, preview ? undefined : "original")

const answer = (settings: Settings, { callId, form, safetyChecks }: ComputerCallPart, shown: Shown): Message =>
  new ToolMessage({
    role: "tool",
    callId,
    content: [picture(settings, shown)],
    computer: new ComputerAnswer({ form, acknowledged: settings.acknowledge_safety_checks ? safetyChecks : [] })
  })

/** A call without its screenshot is refused by the server: such a turn is told in words. */
const turnMessages = (
  settings: Settings,
  message: AssistantMessage,
  after: Shown | undefined
): ReadonlyArray<Message> => {
  const { computerCalls } = message
  if (after === undefined) return inWords(message)
  return computerCalls.length === 0
    ? [...inWords(message), user(picture(settings, after))]
    : [message, ...computerCalls.map((call) => answer(settings, call, after))]
}

const render = (settings: Settings, { instruction, isLive, now, password, summary, turns }: PromptView) => {
  const start = summary?.turns ?? 0
  const shownAt = (turn: number): Shown | undefined => (isLive(turn) ? (turns[turn]?.shown ?? now) : undefined)
  const first = shownAt(start)
  return startingWith<Message>(system(fill(ours.system_prompt_template, { password })), [
    user(
      text(fill(ours.instruction_template, { instruction })),
      ...(summary === undefined ? [] : [text(fill(ours.summary_template, { summary: summary.text }))]),
      ...(first === undefined ? [] : [picture(settings, first)])
    ),
    ...turns.slice(start).flatMap(({ message }, index) => turnMessages(settings, message, shownAt(start + index + 1)))
  ])
}

const feedback = ({ message: error }: ParseFailure, reply: AssistantMessage): ReadonlyArray<Message> => [
  ...inWords(reply),
  user(text(fill(ours.feedback_template, { error })))
]

/**
 * The agent. All turns stay in the prompt with their screenshots unless a history policy says otherwise; a turn whose
 * screenshot does not is told in words.
 *
 * @since 0.1.0
 * @category constructors
 */
export const make = (options: Options): Protocol => {
  const { acknowledge_safety_checks = false, attempts = 3, preview = false } = options
  const settings: Settings = { preview, acknowledge_safety_checks }
  const { pixelsPerNotch } = OpenAIComputerUseReply
  return {
    name: "openai-computer-use",
    dialect: "responses",
    observation: "screenshot",
    actionSpace: "pyautogui",
    wire: {
      protocolId,
      parserId,
      thinking: true,
      contract: {
        schema_version: 1,
        protocol_id: protocolId,
        parser_id: parserId,
        ...ours,
        ...settings,
        pixels_per_notch: pixelsPerNotch
      }
    },
    options: { ...settings, attempts },
    // More than any episode has.
    historyPolicy: "fixed:1000",
    tools: (screen) => [
      new ComputerTool({ generation: preview ? "preview" : "responses", ...screen, environment: "linux" })
    ],
    retries: { attempts, feedback, exhausted: "stop" },
    render: (view) => render(settings, view),
    read: (reply, { screen }) =>
      OpenAIComputerUseReply.read(reply, { screen, acknowledge: settings.acknowledge_safety_checks })
  }
}

/**
 * The agent, over the model client and the history policy that are provided.
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
