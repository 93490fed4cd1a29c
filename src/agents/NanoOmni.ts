/**
 * The agent of Nemotron 3 Nano Omni: thoughts, an action in words, and code in an explicit Code section, its points in shares of
 * the screen. Parser, projection and options are the published ones; the prompt texts are our own, so the wire contract has
 * an id of its own. With another project's texts as `wire` it gets that project's id, because the same fields are hashed.
 *
 * @since 0.1.0
 */
import type { NonEmptyReadonlyArray } from "effect/Array"
import * as Either from "effect/Either"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import type { ArtifactStore } from "../artifact/ArtifactStore.js"
import type { HistoryPolicy } from "../history/HistoryPolicy.js"
import type { Canonical } from "../identity/StableId.js"
import { assistant, image, type Message, system, text, user } from "../model/Conversation.js"
import type { ModelClient } from "../model/ModelClient.js"
import { DesktopAgent } from "./DesktopAgent.js"
import * as loop from "./internal/loop.js"
import { isPublished, ours, type WireTexts } from "./internal/nanoTexts.js"
import { repeatedNotice } from "./internal/repeats.js"
import { fill } from "./internal/template.js"
import * as NanoOmniReply from "./NanoOmniReply.js"
import type { PromptView, Protocol, Turn } from "./Protocol.js"

const protocolId = "nano-omni-v3-osworld-v1"
const parserId = "nemotron-v3-nano-omni-parser-v1"

const optional = <A, I>(schema: Schema.Schema<A, I>) => Schema.optionalWith(schema, { exact: true })

/**
 * The prompt texts, as a file gives them: the fields that are hashed, and two that the published recipe does not hash.
 * Placeholders: `{password}` in the system prompt, `{instruction}`, `{step_num}` (or `{step}`), `{thought}`, `{action}`,
 * and `{error}` in the text that asks again.
 *
 * @since 0.1.0
 * @category models
 */
export const Wire = Schema.Struct({
  schema_version: optional(Schema.Literal(1)),
  protocol_id: optional(Schema.Literal(protocolId)),
  parser_id: optional(Schema.Literal(parserId)),
  thinking: optional(Schema.Boolean),
  system_prompt_template: Schema.String,
  instruction_template: Schema.String,
  step_template: Schema.String,
  text_history_template: Schema.String,
  assistant_history_template: Schema.String,
  parse_retry_template: optional(Schema.String),
  pre_done_template: optional(Schema.String)
})

/**
 * What may be said of the agent, by the keys of its part of `--agent`.
 *
 * @since 0.1.0
 * @category models
 */
export const Options = Schema.Struct({
  coordinate_type: Schema.optionalWith(Schema.Literal("relative", "absolute", "qwen25"), {
    default: () => "relative" as const,
    exact: true
  }),
  /** Whether the model thinks before it answers. */
  thinking: Schema.optionalWith(Schema.Boolean, { default: () => true, exact: true }),
  /** Model calls that a step may take. */
  parse_retries: Schema.optionalWith(Schema.Int.pipe(Schema.positive()), { default: () => 5, exact: true }),
  /** Whether the model is told what was wrong with a reply that could not be read. */
  parse_error_feedback: Schema.optionalWith(Schema.Boolean, { default: () => false, exact: true }),
  /** Of the second call and later ones; `null` for the first one's, at least 0.2. */
  parse_retry_temperature: Schema.optionalWith(Schema.NullOr(Schema.Finite.pipe(Schema.nonNegative())), {
    default: () => null,
    exact: true
  }),
  /** Whether each prompt ends in what is to be checked before the task is called done. */
  pre_done_checklist: Schema.optionalWith(Schema.Boolean, { default: () => false, exact: true }),
  /** How often the same code may come before the model is told so; 0 and 1 for never. */
  repeated_action_warning_threshold: Schema.optionalWith(Schema.NonNegativeInt, { default: () => 0, exact: true }),
  /** The newest turns that are looked at for it. */
  repeated_action_window: Schema.optionalWith(Schema.Int.pipe(Schema.positive()), { default: () => 12, exact: true }),
  wire: optional(Wire)
}).pipe(
  Schema.filter(({ thinking, wire }) =>
    wire?.thinking === undefined || wire.thinking === thinking
      ? undefined
      : `the wire contract is one for thinking ${wire.thinking ? "on" : "off"}, and thinking is ${thinking ? "on" : "off"}`
  )
)

/**
 * @since 0.1.0
 * @category models
 */
export type Options = typeof Options.Type

const textsOf = ({ thinking, wire }: Options): WireTexts => ({ ...ours(thinking), ...wire })

/** The two unhashed texts are hashed where they are in use and not the published ones: ids differ when behaviour does. */
const wireContract = (options: Options): Canonical => {
  const texts = textsOf(options)
  const more = (used: boolean, key: "parse_retry_template" | "pre_done_template") =>
    used && !isPublished(key, texts[key]) ? { [key]: texts[key] } : {}
  return {
    schema_version: 1,
    protocol_id: protocolId,
    parser_id: parserId,
    thinking: options.thinking,
    instruction_template: texts.instruction_template,
    step_template: texts.step_template,
    text_history_template: texts.text_history_template,
    system_prompt_template: texts.system_prompt_template,
    assistant_history_template: texts.assistant_history_template,
    ...more(options.parse_error_feedback, "parse_retry_template"),
    ...more(options.pre_done_checklist, "pre_done_template")
  }
}

const agentOptions = ({ wire: _, ...options }: Options): { readonly [key: string]: Canonical } => options

// -----------------------------------------------------------------------------
// Prompts
// -----------------------------------------------------------------------------

const wordsOf = ({ message, read }: Turn): { readonly thought: string; readonly action: string } =>
  Either.match(read, {
    onLeft: () => ({ thought: message.reasoning ?? "", action: "" }),
    onRight: ({ action = "", thought = "" }) => ({ thought, action })
  })

const render = (options: Options, view: PromptView): NonEmptyReadonlyArray<Message> => {
  const texts = textsOf(options)
  const summed = view.summary?.turns ?? 0
  const stepText = (turn: number) => ({ step_num: String(turn + 1), step: String(turn + 1) })
  const messages: Array<Message> = []
  let folded: Array<string> =
    view.summary === undefined ? [] : [fill(texts.summary_template, { summary: view.summary.text })]
  let turns: Array<string> = []
  const blocks = (): ReadonlyArray<string> => {
    const history = turns.length === 0 ? [] : [[texts.history_heading, ...turns].join("\n")]
    const all = [...folded, ...history]
    folded = []
    turns = []
    return all
  }
  const shown = (turn: number, blob: Turn["shown"]["image"], more: ReadonlyArray<string>) =>
    user(
      image(blob, "high"),
      text(
        [
          fill(texts.instruction_template, { instruction: view.instruction }),
          ...blocks(),
          fill(texts.current_step_template, stepText(turn)),
          ...more
        ].join("\n")
      )
    )
  view.turns.forEach((past, turn) => {
    if (turn < summed) return
    const words = wordsOf(past)
    if (view.isLive(turn)) {
      messages.push(shown(turn, past.shown.image, []), assistant(text(fill(texts.assistant_history_template, words))))
    } else {
      turns.push(fill(texts.step_template, stepText(turn)) + fill(texts.text_history_template, words))
    }
  })
  const notice = repeatedNotice(view.turns, {
    threshold: options.repeated_action_warning_threshold,
    window: options.repeated_action_window
  })
  const more = [
    ...(notice === undefined ? [] : [notice]),
    ...(options.pre_done_checklist ? [texts.pre_done_template] : [])
  ]
  return [
    system(fill(texts.system_prompt_template, { password: view.password })),
    ...messages,
    shown(view.turns.length, view.now.image, more)
  ]
}

/**
 * The agent with options that `Options` has made whole.
 *
 * @since 0.1.0
 * @category constructors
 */
export const make = (options: Options): Protocol => {
  const texts = textsOf(options)
  return {
    name: "nano-omni",
    runner: {
      name: "nemotron_v3_nano_omni_agent",
      kind: "nemotron_v3_nano_omni_agent",
      // Others have hashed the place of their own class, and equal ids want the same words.
      agentClassPath: "responses_api_agents.osworld_agent.adapter_agents.NemotronV3NanoOmniAgent"
    },
    observation: "screenshot",
    actionSpace: "pyautogui",
    wire: { protocolId, parserId, thinking: options.thinking, contract: wireContract(options) },
    options: agentOptions(options),
    historyPolicy: "fixed:3",
    retries: {
      attempts: options.parse_retries,
      temperature: (first) =>
        options.parse_retry_temperature ?? (first === undefined ? undefined : Math.max(0.2, first)),
      ...(options.parse_error_feedback
        ? {
            feedback: ({ message }, reply) => [
              assistant(text(reply.text.trim() === "" ? texts.no_reply : reply.text.slice(-8000))),
              user(text(fill(texts.parse_retry_template, { error: message.slice(-2000) })))
            ]
          }
        : {}),
      exhausted: "stop"
    },
    render: (view) => render(options, view),
    read: (reply, { finishReason, screen }) =>
      NanoOmniReply.read(reply, {
        finishReason,
        screen,
        thinking: options.thinking,
        coordinateType: options.coordinate_type
      })
  }
}

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
    loop.make(make(Schema.decodeSync(Options)(options)), { ...run, settings: { name: "nano-omni", options } })
  )
