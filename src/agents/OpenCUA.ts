/**
 * The agents of OpenCUA and of Kimi: sections with a thought and an action in words, and pyautogui code in a fence.
 *
 * @since 0.1.0
 */
import type { NonEmptyReadonlyArray } from "effect/Array"
import * as Either from "effect/Either"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import type { ArtifactStore } from "../artifact/ArtifactStore.js"
import type { HistoryPolicy } from "../history/HistoryPolicy.js"
import {
  type AssistantMessage,
  assistant,
  image,
  type Message,
  ReasoningPart,
  system,
  text,
  user
} from "../model/Conversation.js"
import type { ModelClient } from "../model/ModelClient.js"
import { DesktopAgent } from "./DesktopAgent.js"
import { type Frame, frames, type Numbered, startingWith } from "./internal/frames.js"
import * as loop from "./internal/loop.js"
import { type History, type Level, ours } from "./internal/openCuaTexts.js"
import { smartResize } from "./internal/smartResize.js"
import { fill } from "./internal/template.js"
import * as OpenCUAReply from "./OpenCUAReply.js"
import type { PromptView, Protocol, Size } from "./Protocol.js"

const protocolId = "deskhand-opencua-v1"
const parserId = "deskhand-opencua-reply-v1"

const attempts = Schema.optionalWith(Schema.Int.pipe(Schema.positive()), { default: () => 5, exact: true })

/**
 * What may be said of the agent, by the keys of its part of `--agent`.
 *
 * @since 0.1.0
 * @category models
 */
export const Options = Schema.Struct({
  /** What points count in: pixels of the picture as the model sees it, or shares of the screen from 0 to 1. */
  coordinates: Schema.optionalWith(Schema.Literal("image", "relative"), {
    default: () => "image" as const,
    exact: true
  }),
  /** What the model writes: an action (`l1`), a thought too (`l2`), an observation too (`l3`); and code, always. */
  level: Schema.optionalWith(Schema.Literal("l1", "l2", "l3"), { default: () => "l2" as const, exact: true }),
  /** What later prompts repeat of it, and all that comes after: never the code. */
  history: Schema.optionalWith(Schema.Literal("action", "thought", "observation"), {
    default: () => "action" as const,
    exact: true
  }),
  /** Model calls that a step may take. */
  attempts
})

/**
 * @since 0.1.0
 * @category models
 */
export type Options = typeof Options.Type

/**
 * What may be said of the agent in Kimi's form, by the keys of its part of `--agent`.
 *
 * @since 0.1.0
 * @category models
 */
export const KimiOptions = Schema.Struct({
  /** Whether the model reasons in a field of its own; otherwise it writes a Thought section. */
  thinking: Schema.optionalWith(Schema.Boolean, { default: () => true, exact: true }),
  /** Model calls that a step may take. */
  attempts
})

/**
 * @since 0.1.0
 * @category models
 */
export type KimiOptions = typeof KimiOptions.Type

interface Settings {
  readonly name: string
  readonly coordinates: "image" | "relative"
  readonly level: Level
  readonly history: History
  readonly thinking: boolean
  readonly attempts: number
}

// The limits that these models were trained with; points in them mean nothing under others.
const imageSize = (screen: Size): Size =>
  smartResize(screen, { factor: 28, minPixels: 56 * 56, maxPixels: 16384 * 28 * 28 })

const textsOf = ({ coordinates, history, level }: Settings) => ours(level, coordinates, history)

const stepText = (settings: Settings, { number, turn }: Numbered): string => {
  const { history_template, step_template } = textsOf(settings)
  const { action = "", thought = "" } = Either.getOrElse(turn.read, () => ({ action: "", thought: "" }))
  const observation = settings.history === "observation" ? OpenCUAReply.observation(turn.message) : ""
  return (
    fill(step_template, { step_num: String(number + 1) }) + fill(history_template, { observation, thought, action })
  )
}

const answered = (settings: Settings, step: Numbered): AssistantMessage => {
  const words = text(stepText(settings, step))
  const { reasoning } = step.turn.message
  return settings.history === "reasoned" && reasoning !== undefined
    ? assistant(new ReasoningPart({ text: reasoning }), words)
    : assistant(words)
}

const render = (settings: Settings, view: PromptView): NonEmptyReadonlyArray<Message> => {
  const texts = textsOf(settings)
  const { last, past } = frames(view)
  const task = fill(texts.instruction_template, { instruction: view.instruction })
  const summary = view.summary === undefined ? "" : fill(texts.summary_template, { summary: view.summary.text })
  // The task is with every picture: with the newest, as these models know it, and where it was in the prompt before.
  const shown = (frame: Frame, first: boolean) =>
    user(image(frame.shown.image, "high"), text((first ? summary : "") + task))
  const before = ({ folded }: Frame) =>
    folded.length === 0 ? [] : [assistant(text(folded.map((step) => stepText(settings, step)).join("\n")))]
  return startingWith<Message>(system(fill(texts.system_prompt_template, { password: view.password })), [
    ...past.flatMap((frame, index) => [...before(frame), shown(frame, index === 0), answered(settings, frame)]),
    ...before(last),
    shown(last, past.length === 0)
  ])
}

const protocol = (settings: Settings): Protocol => {
  const { attempts, coordinates, name, thinking } = settings
  const onImage = coordinates === "image"
  return {
    name,
    observation: "screenshot",
    actionSpace: "pyautogui",
    wire: {
      protocolId,
      parserId,
      thinking,
      contract: {
        schema_version: 1,
        protocol_id: protocolId,
        parser_id: parserId,
        thinking,
        coordinates,
        ...textsOf(settings)
      }
    },
    options: { coordinates, level: settings.level, history: settings.history, attempts },
    historyPolicy: "fixed:3",
    ...(onImage ? { imageSize } : {}),
    retries: {
      attempts,
      // At 0 the same reply would come again.
      temperature: (first) => (first === undefined ? undefined : Math.max(0.2, first)),
      exhausted: "stop"
    },
    render: (view) => render(settings, view),
    read: (reply, { screen }) => OpenCUAReply.read(reply, { screen, ...(onImage ? { image: imageSize(screen) } : {}) })
  }
}

/**
 * The agent of OpenCUA with options that `Options` has made whole. The newest three pictures are in the prompt.
 *
 * @since 0.1.0
 * @category constructors
 */
export const make = (options: Options): Protocol => protocol({ ...options, name: "opencua", thinking: false })

/**
 * The agent of Kimi with options that `KimiOptions` has made whole. Points are shares of the screen.
 *
 * @since 0.1.0
 * @category constructors
 */
export const makeKimi = ({ attempts, thinking }: KimiOptions): Protocol =>
  protocol({
    name: "kimi",
    coordinates: "relative",
    level: thinking ? "l1" : "l2",
    history: thinking ? "reasoned" : "thought",
    thinking,
    attempts
  })

type Run = Omit<loop.LoopOptions, "settings">
type AgentLayer = Layer.Layer<DesktopAgent, never, ModelClient | HistoryPolicy | ArtifactStore>

/**
 * The agent, over the model client and the history policy that are provided.
 *
 * @since 0.1.0
 * @category layers
 */
export const layer = (options: typeof Options.Encoded = {}, run: Run = {}): AgentLayer =>
  Layer.effect(
    DesktopAgent,
    loop.make(make(Schema.decodeSync(Options)(options)), { ...run, settings: { name: "opencua", options } })
  )

/**
 * The agent in Kimi's form, over the model client and the history policy that are provided.
 *
 * @since 0.1.0
 * @category layers
 */
export const layerKimi = (options: typeof KimiOptions.Encoded = {}, run: Run = {}): AgentLayer =>
  Layer.effect(
    DesktopAgent,
    loop.make(makeKimi(Schema.decodeSync(KimiOptions)(options)), { ...run, settings: { name: "kimi", options } })
  )
