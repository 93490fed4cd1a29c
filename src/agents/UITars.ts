/**
 * The agent of UI-TARS 1.5 and of models with its text form: a Thought, and an Action such as `click(start_box='(1,2)')`.
 *
 * @since 0.1.0
 */
import type { NonEmptyReadonlyArray } from "effect/Array"
import * as Either from "effect/Either"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import type { ArtifactStore } from "../artifact/ArtifactStore.js"
import type { HistoryPolicy } from "../history/HistoryPolicy.js"
import { assistant, image, type Message, text, user } from "../model/Conversation.js"
import type { ModelClient } from "../model/ModelClient.js"
import { DesktopAgent } from "./DesktopAgent.js"
import { emptyReply, frames, startingWith } from "./internal/frames.js"
import * as loop from "./internal/loop.js"
import { smartResize } from "./internal/smartResize.js"
import { fill } from "./internal/template.js"
import { ours } from "./internal/uiTarsTexts.js"
import type { PromptView, Protocol, Size, Turn } from "./Protocol.js"
import * as UITarsReply from "./UITarsReply.js"

const protocolId = "deskhand-ui-tars-v1"
const parserId = "deskhand-ui-tars-reply-v1"

const natural = (otherwise: number) =>
  Schema.optionalWith(Schema.Int.pipe(Schema.positive()), { default: () => otherwise, exact: true })

/**
 * What may be said of the agent, by the keys of its part of `--agent`.
 *
 * @since 0.1.0
 * @category models
 */
export const Options = Schema.Struct({
  /** How points are written: `start_box='(1,2)'` in v1, `point='<point>1 2</point>'` in v2. Both are read in either. */
  form: Schema.optionalWith(Schema.Literal("v1", "v2"), { default: () => "v1" as const, exact: true }),
  /** What points count in: pixels of the picture as the model sees it, or thousandths of it (models made of Qwen2-VL). */
  coordinates: Schema.optionalWith(Schema.Literal("image", "thousandths"), {
    default: () => "image" as const,
    exact: true
  }),
  /** The language of thoughts, as the model is told. */
  language: Schema.optionalWith(Schema.NonEmptyString, { default: () => "English", exact: true }),
  /** How often the model may call the user, and wait in vain, before that counts as giving up. */
  call_user_tolerance: Schema.optionalWith(Schema.NonNegativeInt, { default: () => 3, exact: true }),
  /** Pixels of a picture, at least and at most, as the server of the model has them. */
  min_pixels: natural(100 * 28 * 28),
  max_pixels: natural(16384 * 28 * 28),
  /** Model calls that a step may take. */
  attempts: natural(3)
})

/**
 * @since 0.1.0
 * @category models
 */
export type Options = typeof Options.Type

const imageSize = ({ coordinates, max_pixels, min_pixels }: Options, screen: Size): Size =>
  coordinates === "image" ? smartResize(screen, { factor: 28, minPixels: min_pixels, maxPixels: max_pixels }) : screen

const space = (options: Options, screen: Size): Size =>
  options.coordinates === "image" ? imageSize(options, screen) : { width: 1000, height: 1000 }

// Servers leave special tokens out of what they return, and the model has learned from prompts that have them.
const withBoxTokens = (reply: string): string =>
  reply.replace(
    /((?:start|end)_box=)(['"])(\(\d{1,9}, ?\d{1,9}\))\2/g,
    (_, name: string, quote: string, box: string) => `${name}${quote}<|box_start|>${box}<|box_end|>${quote}`
  )

const replyText = ({ form }: Options, { message }: Turn): string => {
  if (message.text.trim() === "") return emptyReply
  return form === "v1" ? withBoxTokens(message.text) : message.text
}

const render = (options: Options, view: PromptView): NonEmptyReadonlyArray<Message> => {
  const texts = ours(options.form)
  const { last, past } = frames(view)
  const said = (turn: Turn) => assistant(text(replyText(options, turn)))
  const shown = (blob: Turn["shown"]["image"]) => user(image(blob, "high"))
  const task = fill(texts.prompt_template, {
    language: options.language,
    password: view.password,
    instruction: view.instruction
  })
  const before = view.summary === undefined ? "" : fill(texts.summary_template, { summary: view.summary.text })
  return startingWith<Message>(user(text(task + before)), [
    ...past.flatMap((frame) => [
      ...frame.folded.map(({ turn }) => said(turn)),
      shown(frame.shown.image),
      said(frame.turn)
    ]),
    ...last.folded.map(({ turn }) => said(turn)),
    shown(last.shown.image)
  ])
}

/**
 * The agent with options that `Options` has made whole. All replies stay in the prompt, and the newest five pictures.
 *
 * @since 0.1.0
 * @category constructors
 */
export const make = (options: Options): Protocol => ({
  name: "ui-tars",
  observation: "screenshot",
  actionSpace: "pyautogui",
  wire: {
    protocolId,
    parserId,
    thinking: false,
    contract: {
      schema_version: 1,
      protocol_id: protocolId,
      parser_id: parserId,
      ...ours(options.form),
      language: options.language,
      coordinates: options.coordinates,
      min_pixels: options.min_pixels,
      max_pixels: options.max_pixels
    }
  },
  options,
  historyPolicy: "fixed:5",
  imageSize: (screen) => imageSize(options, screen),
  retries: {
    attempts: options.attempts,
    // At 0, which is this model's own, the same reply would come again.
    temperature: (first) => (first === undefined ? undefined : Math.max(1, first)),
    exhausted: "stop"
  },
  render: (view) => render(options, view),
  read: (reply, { screen, turns }) =>
    UITarsReply.read(reply.text, {
      screen,
      space: space(options, screen),
      form: options.form,
      callsBefore: () =>
        UITarsReply.userCalls(turns.filter((turn) => Either.isRight(turn.read)).map(({ message }) => message.text)),
      tolerance: options.call_user_tolerance
    })
})

/**
 * The agent, over the model client and the history policy that are provided.
 *
 * @since 0.1.0
 * @category layers
 */
export const layer = (
  options: typeof Options.Encoded = {},
  run: Omit<loop.LoopOptions, "settings"> = {}
): Layer.Layer<DesktopAgent, never, ModelClient | HistoryPolicy | ArtifactStore> =>
  Layer.effect(
    DesktopAgent,
    loop.make(make(Schema.decodeSync(Options)(options)), { ...run, settings: { name: "ui-tars", options } })
  )
