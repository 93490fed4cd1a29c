/** The loop of an agent without its effects: what to ask next, and what an answer means. The loop and the replay of evidence run the same. */
import type { NonEmptyReadonlyArray } from "effect/Array"
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import type { DesktopAction } from "../../desktop/Action.js"
import {
  type HistoryPlan,
  type HistoryPolicy,
  type HistoryState,
  isLive,
  shrink,
  wantsNewSummary
} from "../../history/HistoryPolicy.js"
import { AssistantMessage, type Message, type OfferedTool, text, user } from "../../model/Conversation.js"
import type { ModelReply } from "../../model/ModelClient.js"
import type { ModelError } from "../../model/ModelError.js"
import { Sampling } from "../../model/Sampling.js"
import {
  type AgentTurn,
  CallFailed,
  type Decision,
  ParseFailure,
  PlanFacts,
  Reading,
  Replied
} from "../../rollout/Agent.js"
import { PolicyStop } from "../../rollout/Termination.js"
import type { PromptView, Protocol, Read, Shown, Size, Turn } from "../Protocol.js"
import { withoutOlderImages } from "./olderImages.js"
import { inWords, isCall } from "./words.js"

/** What does not change in a rollout. */
export interface Setup {
  readonly protocol: Protocol
  readonly policy: HistoryPolicy["Type"]
  readonly instruction: string
  readonly password: string
  readonly screen: Size
  readonly sampling: Sampling
}

type Summary = NonNullable<PromptView["summary"]>

/** Between two steps. */
export interface State {
  readonly turns: ReadonlyArray<Turn>
  readonly history: HistoryState
  readonly summary?: Summary
  /** The newest prompt that was answered, and its answer: what a summary is made from. */
  readonly last?: { readonly messages: NonEmptyReadonlyArray<Message>; readonly reply: AssistantMessage }
}

/** A call that is to be made. */
export interface Asking {
  readonly purpose: "act" | "summary"
  readonly step: number
  /** Calls that the step has made before it. */
  readonly made: number
  readonly messages: NonEmptyReadonlyArray<Message>
  readonly tools?: ReadonlyArray<OfferedTool>
  readonly sampling: Sampling
  readonly plan: PlanFacts
  /** How the step stands. */
  readonly stage: Stage
}

interface Stage {
  readonly state: State
  readonly shown: Shown
  readonly plan: HistoryPlan
  readonly limit?: number
  readonly summary?: Summary
  /** Calls to act, and calls for the summary that is wanted, that were made. */
  readonly acts: number
  readonly sums: number
  /** Whether the summary is asked for without older images. */
  readonly slim: boolean
  /** What the last reply was, and why it could not be read. */
  readonly refused?: { readonly failure: ParseFailure; readonly reply: AssistantMessage }
}

export type Next =
  | { readonly _tag: "Ask"; readonly asking: Asking }
  | { readonly _tag: "Turn"; readonly turn: AgentTurn<DesktopAction>; readonly state: State }
  | { readonly _tag: "Failed"; readonly error: ModelError }

export interface Answered {
  readonly result: Replied | CallFailed
  readonly next: Next
}

export const initial = (policy: HistoryPolicy["Type"]): State => ({ turns: [], history: policy.initial })

/** What asks the model to sum up; hashed into the contract of an agent whose policy has summaries. */
export const summaryRequest = `Before you go on, sum up the work so far: what the user wants, what you have done and what came of it, what you have
found out (names, paths, values, word for word) and what is left to do. The summary takes the place of the earlier turns,
which will not be shown again. Answer with the summary alone, and do not act in this turn.`

export const begin = (setup: Setup, state: State, shown: Shown, step: number): Asking =>
  ask(setup, step, 0, {
    state,
    shown,
    plan: setup.policy.plan(state.history, state.turns.length),
    acts: 0,
    sums: 0,
    slim: false,
    ...(state.summary === undefined ? {} : { summary: state.summary })
  })

const ask = (setup: Setup, step: number, made: number, stage: Stage): Asking => {
  const { limit, plan, state } = stage
  const facts = new PlanFacts({
    policyId: setup.policy.id,
    completedTurns: state.turns.length,
    imageIntervals: plan.imageIntervals.map(([start, end]) => [start, end] as const),
    compaction: plan.compaction,
    ...(limit === undefined ? {} : { limit })
  })
  const tools = setup.protocol.tools?.(setup.screen)
  const common = { step, made, plan: facts, stage, ...(tools === undefined ? {} : { tools }) }
  if (wantsNewSummary(plan, stage.summary?.turns) && state.last !== undefined) {
    const { messages, reply } = state.last
    return {
      ...common,
      purpose: "summary",
      messages: [
        ...(stage.slim ? withoutOlderImages(messages) : messages),
        ...inWords(reply),
        user(text(summaryRequest))
      ],
      sampling: samplingOf(setup, stage.sums)
    }
  }
  const { feedback } = setup.protocol.retries
  const { refused } = stage
  return {
    ...common,
    purpose: "act",
    messages: [
      ...setup.protocol.render(viewOf(setup, stage)),
      ...(refused === undefined || feedback === undefined ? [] : feedback(refused.failure, refused.reply))
    ],
    sampling: samplingOf(setup, stage.acts)
  }
}

const viewOf = (setup: Setup, { plan, shown, state, summary }: Stage): PromptView => ({
  instruction: setup.instruction,
  password: setup.password,
  screen: setup.screen,
  turns: state.turns,
  now: shown,
  isLive: (turn) => turn === state.turns.length || isLive(plan, turn),
  ...(plan.summary === undefined || summary === undefined ? {} : { summary })
})

const samplingOf = ({ protocol, sampling }: Setup, before: number): Sampling => {
  if (before === 0 || protocol.retries.temperature === undefined) return sampling
  const { temperature, ...rest } = sampling
  const next = protocol.retries.temperature(temperature)
  return new Sampling(next === undefined ? rest : { ...rest, temperature: next })
}

/** A message of the model as later prompts repeat it: without its tokens, which belong to the reply. */
const repeated = ({ content, role }: AssistantMessage): AssistantMessage => new AssistantMessage({ role, content })

/**
 * What the answer to a call means: how it was read, and what comes next.
 */
export const answered = (setup: Setup, asking: Asking, outcome: Either.Either<ModelReply, ModelError>): Answered => {
  if (Either.isLeft(outcome)) {
    return { result: new CallFailed({ error: outcome.left }), next: afterError(setup, asking, outcome.left) }
  }
  const reply = outcome.right
  return asking.purpose === "summary" ? summedUp(setup, asking, reply) : acted(setup, asking, reply)
}

const unread = (setup: Setup, asking: Asking, reply: ModelReply, failure: ParseFailure): Answered => ({
  result: new Replied({ reply, read: failure }),
  next: afterFailure(setup, asking, reply, failure)
})

const summedUp = (setup: Setup, asking: Asking, reply: ModelReply): Answered =>
  Either.match(readSummary(reply), {
    onLeft: (failure) => unread(setup, asking, reply, failure),
    onRight: (summary) => {
      const turns = asking.stage.plan.summary?.turns ?? 0
      const stage: Stage = { ...asking.stage, summary: { turns, text: summary }, sums: 0, slim: false }
      return {
        result: new Replied({ reply, read: new Reading({ decisions: [] }) }),
        next: { _tag: "Ask", asking: ask(setup, asking.step, asking.made + 1, stage) }
      }
    }
  })

const acted = (setup: Setup, asking: Asking, reply: ModelReply): Answered =>
  Either.match(readReply(setup, asking, reply), {
    onLeft: (failure) => unread(setup, asking, reply, failure),
    onRight: (read) => ({
      result: new Replied({ reply, read: readingOf(read) }),
      next: taken(asking, reply, Either.right(read))
    })
  })

const taken = (asking: Asking, reply: ModelReply, read: Turn["read"]): Next => {
  const { plan, shown, state, summary } = asking.stage
  const message = repeated(reply.message)
  return {
    _tag: "Turn",
    turn: { decisions: Either.isRight(read) ? read.right.decisions : [], text: reply.text },
    state: {
      turns: [...state.turns, { shown, message, read }],
      history: plan.next,
      last: { messages: asking.messages, reply: message },
      ...(summary === undefined ? {} : { summary })
    }
  }
}

/** Only a prompt that is too long is asked for again, shorter; the client has retried what could go better unchanged. */
const afterError = (setup: Setup, asking: Asking, error: ModelError): Next => {
  if (error.reason !== "context_overflow") return { _tag: "Failed", error }
  const { made, stage, step } = asking
  if (asking.purpose === "summary") {
    return stage.slim
      ? overflowed(asking, error)
      : { _tag: "Ask", asking: ask(setup, step, made + 1, { ...stage, slim: true }) }
  }
  if (stage.acts + 1 >= setup.protocol.retries.attempts) return overflowed(asking, error)
  const { refused: _, ...rest } = stage
  return Option.match(shrink(setup.policy, stage.state.history, stage.state.turns.length, stage.plan), {
    onNone: () => overflowed(asking, error),
    onSome: ({ limit, plan }) => ({
      _tag: "Ask",
      asking: ask(setup, step, made + 1, { ...rest, plan, limit, acts: stage.acts + 1 })
    })
  })
}

const stopped = (
  asking: Asking,
  facts: { kind: PolicyStop["kind"]; completed: boolean; detail: string; text: string }
): Next => ({
  _tag: "Turn",
  turn: {
    decisions: [],
    text: facts.text,
    stop: new PolicyStop({
      kind: facts.kind,
      attempts: asking.made + 1,
      modelCallCompleted: facts.completed,
      detail: facts.detail
    })
  },
  state: asking.stage.state
})

const overflowed = (asking: Asking, error: ModelError): Next =>
  stopped(asking, { kind: "model_context_overflow", completed: false, detail: error.message, text: "" })

const stopKind = (failure: ParseFailure): PolicyStop["kind"] => {
  switch (failure.kind) {
    case "empty":
      return "model_response_empty"
    case "truncated":
      return "model_output_truncated"
    case "unparseable":
      return "model_response_unparseable"
  }
}

const afterFailure = (setup: Setup, asking: Asking, reply: ModelReply, failure: ParseFailure): Next => {
  const { made, purpose, stage, step } = asking
  const { attempts, exhausted } = setup.protocol.retries
  const stop = stopped(asking, {
    kind: stopKind(failure),
    completed: true,
    detail: failure.message,
    text: reply.text
  })
  if (purpose === "summary") {
    const sums = stage.sums + 1
    return sums >= attempts ? stop : { _tag: "Ask", asking: ask(setup, step, made + 1, { ...stage, sums }) }
  }
  const acts = stage.acts + 1
  if (acts < attempts) {
    const refused = { failure, reply: repeated(reply.message) }
    return { _tag: "Ask", asking: ask(setup, step, made + 1, { ...stage, acts, refused }) }
  }
  return exhausted === "stop" ? stop : taken(asking, reply, Either.left(failure))
}

// -----------------------------------------------------------------------------
// Reading
// -----------------------------------------------------------------------------

/** What no agent can read: a reply that was cut off, and one that says nothing. */
const whole = (reply: ModelReply): Either.Either<void, ParseFailure> => {
  if (reply.finishReason === "length") {
    return Either.left(new ParseFailure({ kind: "truncated", message: "the reply was cut off: finish_reason=length" }))
  }
  return reply.text.trim() === "" && !reply.message.content.some(isCall)
    ? Either.left(
        new ParseFailure({ kind: "empty", message: `the reply has no content: finish_reason=${reply.finishReason}` })
      )
    : Either.void
}

const readSummary = (reply: ModelReply): Either.Either<string, ParseFailure> =>
  Either.flatMap(whole(reply), () =>
    reply.text.trim() === ""
      ? Either.left(
          new ParseFailure({ kind: "empty", message: "the reply calls a tool where a summary was asked for" })
        )
      : Either.right(reply.text.trim())
  )

const readReply = (setup: Setup, asking: Asking, reply: ModelReply): Either.Either<Read, ParseFailure> =>
  Either.flatMap(whole(reply), () =>
    setup.protocol.read(reply.message, {
      screen: setup.screen,
      finishReason: reply.finishReason,
      shown: asking.stage.shown,
      turns: asking.stage.state.turns
    })
  )

const showDecision = (decision: Decision<DesktopAction>): string =>
  decision._tag === "Act" ? decision.action.code : decision._tag.toUpperCase()

const readingOf = ({ decisions, ...words }: Read): Reading =>
  new Reading({ decisions: decisions.map(showDecision), ...words }, true)
