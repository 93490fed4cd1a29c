/**
 * The plain agent: a screenshot goes in, pyautogui code comes out.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type { BlobRef } from "../artifact/ArtifactStore.js"
import type { DesktopAction } from "../desktop/Action.js"
import { HistoryPolicy, type HistoryState, isLive } from "../history/HistoryPolicy.js"
import { assistant, ImagePart, system, text, type UserMessage, user } from "../model/Conversation.js"
import { ModelClient, ModelRequest } from "../model/ModelClient.js"
import { Sampling } from "../model/Sampling.js"
import { type Agent, ModelCall } from "../rollout/Agent.js"
import { DesktopAgent } from "./DesktopAgent.js"
import { parse } from "./PyautoguiReply.js"

/**
 * @since 0.1.0
 * @category models
 */
export interface PromptOptions {
  readonly sampling?: Sampling
  /** The desktop user's password, told to the model; OSWorld's `password` unless given. */
  readonly password?: string
}

/**
 * What the model is told before it sees anything.
 *
 * @since 0.1.0
 * @category prompts
 */
export const systemPrompt = (password: string): string =>
  `You operate a Linux desktop for its user. Each turn shows you a screenshot of the whole screen; its pixels are the
coordinates that you use, with (0, 0) in the upper left corner.

Answer each turn with a sentence or two on what you see and what you will do next, and then exactly one fenced block:

\`\`\`python
pyautogui.click(400, 300)
\`\`\`

The block is Python that runs on the desktop. pyautogui and time are imported already. Nothing is remembered from one
block to the next, so each must be complete in itself. Take coordinates from the screenshot; functions that search the
screen or take pictures of it are of no use here. Where one action needs a moment to show its effect before the next,
put a short time.sleep between them.

Instead of code the block may hold one of three words:
WAIT when the desktop needs more time before you can go on,
DONE when you have seen that the task is complete,
FAIL when the task cannot be done on this desktop at all. Try in earnest before you say so.

If a program asks for the user's password, it is: ${password}`

interface Turn {
  readonly screenshot: BlobRef
  readonly reply: string
}

const userMessage = (step: number, instruction: string, screenshot: BlobRef | undefined): UserMessage => {
  const said = step === 0 ? `The task: ${instruction}\n\nThis is the desktop now.` : `The desktop after step ${step}.`
  return screenshot === undefined
    ? user(text(`${said} (This screenshot is no longer shown.)`))
    : user(text(said), new ImagePart({ blob: screenshot, detail: "high" }))
}

/**
 * @since 0.1.0
 * @category constructors
 */
export const make = (
  options: PromptOptions = {}
): Effect.Effect<Agent<DesktopAction>, never, ModelClient | HistoryPolicy> =>
  Effect.gen(function* () {
    const client = yield* ModelClient
    const policy = yield* HistoryPolicy
    const sampling = options.sampling ?? new Sampling({})
    const told = system(systemPrompt(options.password ?? "password"))
    return {
      contract: { name: "prompt", model: client.model, historyPolicyId: policy.id, sampling },
      open: (row, identity) =>
        Effect.sync(() => {
          const turns: Array<Turn> = []
          let state: HistoryState = policy.initial
          return {
            decide: Effect.fnUntraced(function* (observation, step) {
              const plan = policy.plan(state, turns.length)
              const past = turns.flatMap(({ screenshot, reply }, turn) => [
                userMessage(turn, row.instruction, isLive(plan, turn) ? screenshot : undefined),
                assistant(text(reply === "" ? "(no reply)" : reply))
              ])
              const now = userMessage(turns.length, row.instruction, observation.screenshot)
              const request = new ModelRequest({ messages: [told, ...past, now], sampling, identity, step })
              const reply = yield* client.complete(request)
              state = plan.next
              turns.push({ screenshot: observation.screenshot, reply: reply.text })
              return {
                decisions: parse(reply.text),
                text: reply.text,
                calls: [new ModelCall({ messages: request.messages, sampling, reply })]
              }
            })
          }
        })
    }
  })

/**
 * @since 0.1.0
 * @category layers
 */
export const layer = (options?: PromptOptions): Layer.Layer<DesktopAgent, never, ModelClient | HistoryPolicy> =>
  Layer.effect(DesktopAgent, make(options))
