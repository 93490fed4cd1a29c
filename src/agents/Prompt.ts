/**
 * The plain agent: any model that sees or reads, told in words how to act. It is shown a screenshot, the accessibility
 * tree, both, or a screenshot with numbered marks, and answers with pyautogui code or with typed actions.
 *
 * @since 0.1.0
 */
import * as Either from "effect/Either"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import type { ArtifactStore } from "../artifact/ArtifactStore.js"
import type { DesktopAction } from "../desktop/Action.js"
import type { HistoryPolicy } from "../history/HistoryPolicy.js"
import { assistant, type InputPart, image, type Message, system, text, user } from "../model/Conversation.js"
import type { ModelClient } from "../model/ModelClient.js"
import type { Decision, ParseFailure } from "../rollout/Agent.js"
import * as Computer13 from "./Computer13.js"
import { DesktopAgent } from "./DesktopAgent.js"
import * as loop from "./internal/loop.js"
import { systemTemplate, texts } from "./internal/promptTexts.js"
import { spans, syntaxError } from "./internal/python.js"
import { act, unreadable } from "./internal/reply.js"
import { fill } from "./internal/template.js"
import type { PromptView, Protocol, Read, ReadContext, Shown } from "./Protocol.js"
import * as PyautoguiReply from "./PyautoguiReply.js"

/**
 * What may be said of the agent, by the keys of its part of `--agent`.
 *
 * @since 0.1.0
 * @category models
 */
export const Options = Schema.Struct({
  /** What the model is shown; `screenshot` unless given. */
  observation: Schema.optionalWith(Schema.Literal("screenshot", "a11y_tree", "screenshot_a11y_tree", "som"), {
    default: () => "screenshot" as const,
    exact: true
  }),
  /** How it acts; `pyautogui` unless given. Marks are for code alone. */
  action_space: Schema.optionalWith(Schema.Literal("pyautogui", "computer_13"), {
    default: () => "pyautogui" as const,
    exact: true
  }),
  /** Model calls that a step may take when replies cannot be read or prompts are too long; 5 unless given. */
  attempts: Schema.optionalWith(Schema.Int.pipe(Schema.positive()), { default: () => 5, exact: true })
}).pipe(
  Schema.filter(({ action_space, observation }) =>
    observation === "som" && action_space !== "pyautogui"
      ? "marks (som) are for the action space pyautogui alone"
      : undefined
  )
)

/**
 * @since 0.1.0
 * @category models
 */
export type Options = typeof Options.Type

const shownParts = (
  { observation }: Options,
  said: string,
  shown: Shown,
  live: boolean
): readonly [InputPart, ...Array<InputPart>] => {
  if (!live) return [text(said + texts.gone)]
  const withTree = shown.tree === undefined ? said : said + fill(texts.tree, { tree: shown.tree })
  return observation === "a11y_tree" ? [text(withTree)] : [text(withTree), image(shown.image, "high")]
}

const render = (options: Options, view: PromptView): [Message, ...Array<Message>] => {
  const summed = view.summary?.turns ?? 0
  const task = fill(texts.task, { instruction: view.instruction })
  const opening = view.summary === undefined ? task : task + fill(texts.summary, { summary: view.summary.text })
  const turnParts = (turn: number, shown: Shown) =>
    shownParts(
      options,
      (turn === summed ? opening : "") + (turn === 0 ? texts.first : fill(texts.later, { step: String(turn) })),
      shown,
      view.isLive(turn)
    )
  return [
    system(fill(systemTemplate(options.observation, options.action_space), { password: view.password })),
    ...view.turns
      .slice(summed)
      .flatMap(({ message, shown }, at) => [
        user(...turnParts(summed + at, shown)),
        assistant(text(message.text.trim() === "" ? texts.noReply : message.text))
      ]),
    user(...turnParts(view.turns.length, view.now))
  ]
}

/** The pixels of the marks that the code speaks of, or why it cannot. */
const withMarks = (code: string, marks: NonNullable<Shown["marks"]>): Either.Either<string, ParseFailure> => {
  const named = spans(code).flatMap(({ kind, text }) =>
    kind === "code" ? Array.from(text.matchAll(/(?<![\w.])tag_(\d+)\b/g), ([, digits = ""]) => digits) : []
  )
  const lines: Array<string> = []
  for (const digits of new Set(named)) {
    const mark = /^[1-9]/.test(digits) ? marks[Number(digits) - 1] : undefined
    if (mark === undefined)
      return unreadable(`there is no tag_${digits}: the marks on the screen are 1 to ${marks.length}`)
    lines.push(`tag_${digits} = (${mark.x}, ${mark.y})`)
  }
  return Either.right([...lines, code].join("\n"))
}

const checked = (
  decision: Decision<DesktopAction>,
  marks: Shown["marks"]
): Either.Either<Decision<DesktopAction>, ParseFailure> => {
  if (decision._tag !== "Act") return Either.right(decision)
  const { code } = decision.action
  const fault = syntaxError(code)
  if (fault !== undefined) return unreadable(fault)
  return marks === undefined ? Either.right(decision) : Either.map(withMarks(code, marks), act)
}

const read = (options: Options, reply: string, { shown }: ReadContext): Either.Either<Read, ParseFailure> => {
  if (options.action_space === "computer_13") {
    return Either.map(Computer13.parse(reply), (decisions) => ({ decisions }))
  }
  const found = PyautoguiReply.parse(reply)
  if (found.length === 0)
    return unreadable("the reply holds no fenced block of Python, and none of WAIT, DONE and FAIL")
  return Either.map(Either.all(found.map((decision) => checked(decision, shown.marks))), (decisions) => ({ decisions }))
}

/**
 * The agent with options that `Options` has made whole.
 *
 * @since 0.1.0
 * @category constructors
 */
export const make = (options: Options): Protocol => ({
  name: "prompt",
  observation: options.observation,
  actionSpace: options.action_space,
  wire: {
    protocolId: "deskhand-prompt-v1",
    parserId: options.action_space === "pyautogui" ? "deskhand-pyautogui-reply-v1" : "deskhand-computer-13-reply-v1",
    thinking: false,
    contract: {
      schema_version: 1,
      protocol_id: "deskhand-prompt-v1",
      system_prompt_template: systemTemplate(options.observation, options.action_space),
      texts
    }
  },
  options: { attempts: options.attempts },
  historyPolicy: "fixed:3",
  retries: {
    attempts: options.attempts,
    feedback: ({ message }, reply) => [
      assistant(text(reply.text.trim() === "" ? texts.noReply : reply.text)),
      user(text(fill(texts.retry, { error: message })))
    ],
    exhausted: "stop"
  },
  render: (view) => render(options, view),
  read: (reply, context) => read(options, reply.text, context)
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
    loop.make(make(Schema.decodeSync(Options)(options)), { ...run, settings: { name: "prompt", options } })
  )
