/**
 * The agents of Qwen 2.5 VL and Qwen 3 VL: calls of the function `computer_use`, written as text in `<tool_call>` tags.
 *
 * @since 0.1.0
 */
import type { NonEmptyReadonlyArray } from "effect/Array"
import * as Either from "effect/Either"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import type { ArtifactStore } from "../artifact/ArtifactStore.js"
import type { HistoryPolicy } from "../history/HistoryPolicy.js"
import { assistant, image, type Message, system, text, user } from "../model/Conversation.js"
import type { ModelClient } from "../model/ModelClient.js"
import { DesktopAgent } from "./DesktopAgent.js"
import { emptyReply, type Frame, frames, type Numbered, startingWith } from "./internal/frames.js"
import * as loop from "./internal/loop.js"
import { ours } from "./internal/qwenTexts.js"
import { smartResize } from "./internal/smartResize.js"
import { fill } from "./internal/template.js"
import type { PromptView, Protocol, Size } from "./Protocol.js"
import * as QwenReply from "./QwenReply.js"

const protocolId = "deskhand-qwen-vl-v1"
const parserId = "deskhand-qwen-vl-reply-v1"

const optional = <A, I>(schema: Schema.Schema<A, I>) => Schema.optionalWith(schema, { exact: true })

/**
 * Where one is left out, it is as the generation has it.
 *
 * @since 0.1.0
 * @category models
 */
export const Options = Schema.Struct({
  /** What coordinates count in: pixels of the picture (2.5), or a grid from 0 to 999 (3). */
  coordinates: optional(Schema.Literal("image", "grid")),
  /** Pixels of a picture, at least and at most, as the server of the model has them. */
  min_pixels: optional(Schema.Int.pipe(Schema.positive())),
  max_pixels: optional(Schema.Int.pipe(Schema.positive())),
  /** Model calls that a step may take; 3. */
  attempts: optional(Schema.Int.pipe(Schema.positive()))
})

/**
 * @since 0.1.0
 * @category models
 */
export type Options = typeof Options.Type

/**
 * @since 0.1.0
 * @category models
 */
export type Generation = "2.5" | "3"

// The factor is the side of what the model sees as one place: two patches of 14 pixels, or of 16.
const generations = {
  "2.5": { name: "qwen2.5-vl", coordinates: "image", factor: 28, min_pixels: 56 * 56, max_pixels: 16384 * 28 * 28 },
  "3": { name: "qwen3-vl", coordinates: "grid", factor: 32, min_pixels: 56 * 56, max_pixels: 16 * 16 * 4 * 12800 }
} as const

interface Settings {
  readonly coordinates: "image" | "grid"
  readonly factor: number
  readonly min_pixels: number
  readonly max_pixels: number
}

const imageSize = ({ factor, max_pixels, min_pixels }: Settings, screen: Size): Size =>
  smartResize(screen, { factor, minPixels: min_pixels, maxPixels: max_pixels })

/** What the model is told that the screen is. */
const told = (settings: Settings, screen: Size): Size =>
  settings.coordinates === "image" ? imageSize(settings, screen) : { width: 1000, height: 1000 }

/** Where the last place of the grid is the far edge of the screen. */
const space = (settings: Settings, screen: Size): Size =>
  settings.coordinates === "image" ? imageSize(settings, screen) : { width: 999, height: 999 }

const stepText = ({ number, turn }: Numbered): string =>
  fill(ours.step_template, {
    step_num: String(number + 1),
    action: Either.match(turn.read, {
      onLeft: () => ours.unknown_action,
      onRight: ({ action, code }) => action ?? code ?? ours.unknown_action
    })
  })

const render = (settings: Settings, view: PromptView): NonEmptyReadonlyArray<Message> => {
  const { height, width } = told(settings, view.screen)
  const { last, past } = frames(view)
  const opening = [
    fill(ours.instruction_template, { instruction: view.instruction }),
    ...(view.summary === undefined ? [] : [fill(ours.summary_template, { summary: view.summary.text })])
  ]
  const shown = (frame: Frame, first: boolean) => {
    const steps = frame.folded.length === 0 ? [] : [[ours.history_heading, ...frame.folded.map(stepText)].join("\n")]
    const words = [...(first ? opening : []), ...steps].join("\n\n")
    const picture = image(frame.shown.image, "high")
    return words === "" ? user(picture) : user(picture, text(words))
  }
  const replyText = (reply: string) => (reply.trim() === "" ? emptyReply : reply)
  return startingWith<Message>(
    system(
      fill(ours.system_prompt_template, {
        width: String(width),
        height: String(height),
        // It stands in JSON.
        password: JSON.stringify(view.password).slice(1, -1)
      })
    ),
    [
      ...past.flatMap((frame, index) => [
        shown(frame, index === 0),
        assistant(text(replyText(QwenReply.repeated(frame.turn.message))))
      ]),
      shown(last, past.length === 0)
    ]
  )
}

/**
 * The agent of a generation. Four turns before the newest keep their pictures and replies; older ones are lines of text.
 *
 * @since 0.1.0
 * @category constructors
 */
export const make =
  (generation: Generation) =>
  (options: Options): Protocol => {
    const { name, ...defaults } = generations[generation]
    const { attempts = 3, ...given } = options
    const settings: Settings = { ...defaults, ...given }
    return {
      name,
      observation: "screenshot",
      actionSpace: "pyautogui",
      wire: {
        protocolId,
        parserId,
        thinking: false,
        contract: { schema_version: 1, protocol_id: protocolId, parser_id: parserId, ...ours, ...settings }
      },
      options: { ...settings, attempts },
      historyPolicy: "fixed:5",
      imageSize: (screen) => imageSize(settings, screen),
      retries: {
        attempts,
        // At 0 the same reply would come again.
        temperature: (first) => (first === undefined ? undefined : Math.max(0.2, first)),
        exhausted: "stop"
      },
      render: (view) => render(settings, view),
      read: (reply, { screen }) => QwenReply.read(reply, { screen, space: space(settings, screen) })
    }
  }

/**
 * The agent, over the model client and the history policy that are provided.
 *
 * @since 0.1.0
 * @category layers
 */
export const layer = (
  generation: Generation,
  options: Options = {},
  run: Omit<loop.LoopOptions, "settings"> = {}
): Layer.Layer<DesktopAgent, never, ModelClient | HistoryPolicy | ArtifactStore> => {
  const protocol = make(generation)(options)
  return Layer.effect(DesktopAgent, loop.make(protocol, { ...run, settings: { name: protocol.name, options } }))
}
