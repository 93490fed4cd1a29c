/**
 * Who acts: turns observations into decisions.
 *
 * @since 0.1.0
 */
import * as Data from "effect/Data"
import type * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import { BlobRef } from "../artifact/ArtifactStore.js"
import type { RolloutIdentity } from "../identity/Identity.js"
import type { Canonical } from "../identity/StableId.js"
import { Message, OfferedTool } from "../model/Conversation.js"
import { ModelReply } from "../model/ModelClient.js"
import { ModelError } from "../model/ModelError.js"
import { Sampling } from "../model/Sampling.js"
import type { AgentContract } from "./Contract.js"
import type { Observation } from "./Environment.js"
import type { EvidenceError } from "./Evidence.js"
import type { TaskRow } from "./TaskRow.js"
import type { PolicyStop } from "./Termination.js"

/**
 * One thing an agent decided: to act, to wait, or to say that the task is done (`Done`) or cannot be done (`Fail`).
 *
 * @since 0.1.0
 * @category models
 */
export type Decision<A> = Data.TaggedEnum<{
  Act: { readonly action: A }
  Wait: Record<never, never>
  Done: Record<never, never>
  Fail: Record<never, never>
}>

interface DecisionDefinition extends Data.TaggedEnum.WithGenerics<1> {
  readonly taggedEnum: Decision<this["A"]>
}

/**
 * Constructors of decisions, and matchers.
 *
 * @since 0.1.0
 * @category constructors
 */
export const Decision = Data.taggedEnum<DecisionDefinition>()

// -----------------------------------------------------------------------------
// Model calls
// -----------------------------------------------------------------------------

/**
 * The plan that chose what a prompt shows. Intervals are half-open, turns count from 0.
 *
 * @since 0.1.0
 * @category models
 */
export class PlanFacts extends Schema.Class<PlanFacts>("deskhand/rollout/PlanFacts")({
  policyId: Schema.String,
  completedTurns: Schema.NonNegativeInt,
  imageIntervals: Schema.Array(Schema.Tuple(Schema.NonNegativeInt, Schema.NonNegativeInt)),
  /** Whether the prompt does not extend the one of the turn before. */
  compaction: Schema.Boolean,
  /** The most images that this prompt could have, where a longer one was refused as too long. */
  limit: Schema.optionalWith(Schema.Int.pipe(Schema.positive()), { exact: true })
}) {}

/**
 * Why a reply gave nothing to do: it was empty, it was cut off at the token limit, or it could not be read. The text is
 * in the reply.
 *
 * @since 0.1.0
 * @category models
 */
export class ParseFailure extends Schema.TaggedClass<ParseFailure>("deskhand/rollout/ParseFailure")("ParseFailure", {
  kind: Schema.Literal("empty", "truncated", "unparseable"),
  message: Schema.String
}) {}

/**
 * A reply that could be read: the words of it that agents keep, each where it has them.
 *
 * @since 0.1.0
 * @category models
 */
export class Reading extends Schema.TaggedClass<Reading>("deskhand/rollout/Reading")("Reading", {
  /** What was decided, each as its text. */
  decisions: Schema.Array(Schema.String),
  thought: Schema.optionalWith(Schema.String, { exact: true }),
  action: Schema.optionalWith(Schema.String, { exact: true }),
  code: Schema.optionalWith(Schema.String, { exact: true })
}) {}

/**
 * The model replied, whether or not the reply could be read.
 *
 * @since 0.1.0
 * @category models
 */
export class Replied extends Schema.TaggedClass<Replied>("deskhand/rollout/Replied")("Replied", {
  reply: ModelReply,
  read: Schema.Union(Reading, ParseFailure)
}) {}

/**
 * The model gave no reply.
 *
 * @since 0.1.0
 * @category models
 */
export class CallFailed extends Schema.TaggedClass<CallFailed>("deskhand/rollout/CallFailed")("CallFailed", {
  error: ModelError
}) {}

/**
 * What was made of an observation before a model saw it: with it, every later prompt can be put together again.
 *
 * @since 0.1.0
 * @category models
 */
export class ShownFacts extends Schema.Class<ShownFacts>("deskhand/rollout/ShownFacts")({
  /** The screenshot at the size and with the marks that the agent asks for; often the screenshot itself. */
  image: BlobRef,
  /** The accessibility tree as text. */
  tree: Schema.optionalWith(Schema.String, { exact: true }),
  /** Pixels of the screen, mark 1 first. */
  marks: Schema.optionalWith(Schema.Array(Schema.Struct({ x: Schema.Int, y: Schema.Int })), { exact: true })
}) {}

/**
 * One request to a model and what came of it, as it goes on disk: images by reference. A reply that could not be read
 * and the request that follows it are two calls.
 *
 * @since 0.1.0
 * @category models
 */
export class ModelCall extends Schema.Class<ModelCall>("deskhand/rollout/ModelCall")({
  /** The environment step that it decides, from 0. */
  step: Schema.NonNegativeInt,
  /** Which call of the step it is, from 0: summaries, replies that could not be read and refused prompts all count. */
  parseAttempt: Schema.NonNegativeInt,
  /** What the call was for: to act, or to sum up turns that leave the prompt. */
  purpose: Schema.Literal("act", "summary"),
  messages: Schema.Array(Message),
  tools: Schema.optionalWith(Schema.Array(OfferedTool), { exact: true }),
  /** As asked for; what went on the wire after every override is in the reply. */
  sampling: Sampling,
  plan: Schema.optionalWith(PlanFacts, { exact: true }),
  /** What the step's observation was made into; on the first call of a step alone. */
  shown: Schema.optionalWith(ShownFacts, { exact: true }),
  result: Schema.Union(Replied, CallFailed)
}) {}

// -----------------------------------------------------------------------------
// Agents
// -----------------------------------------------------------------------------

/**
 * Something on this host that an agent needs failed: a picture could not be made smaller, or not be stored.
 *
 * @since 0.1.0
 * @category errors
 */
export class AgentError extends Schema.TaggedError<AgentError>("deskhand/AgentError")("AgentError", {
  reason: Schema.String
}) {
  override get message() {
    return this.reason
  }
}

/**
 * What an agent made of one observation. No decisions and no stop mean that its reply held none; that consumes the step.
 *
 * @since 0.1.0
 * @category models
 */
export interface AgentTurn<A> {
  readonly decisions: ReadonlyArray<Decision<A>>
  /** The model's text that the decisions were read from. */
  readonly text: string
  /** The policy cannot go on: no reply of its could be read, or no prompt fits. It ends the episode. */
  readonly stop?: PolicyStop
}

/**
 * What an agent is opened on.
 *
 * @since 0.1.0
 * @category models
 */
export interface AgentContext {
  readonly row: TaskRow
  readonly identity: RolloutIdentity
  /** Puts a model call on disk. The agent calls it for each, as soon as it knows what came of it. */
  readonly record: (call: ModelCall) => Effect.Effect<void, EvidenceError>
}

/**
 * An agent that works on one task.
 *
 * @since 0.1.0
 * @category models
 */
export interface AgentSession<A> {
  /** What to do now that `observation` is seen, at environment step `step` (from 0). */
  readonly decide: (
    observation: Observation,
    step: number
  ) => Effect.Effect<AgentTurn<A>, ModelError | AgentError | EvidenceError>
}

/**
 * @since 0.1.0
 * @category models
 */
export interface Agent<A> {
  /** What makes two agents the same, hashed. */
  readonly contract: AgentContract
  /** What the same agent can be made from again, to check its prompts: for the head of an evidence file. No secrets. */
  readonly settings?: Canonical
  readonly open: (context: AgentContext) => Effect.Effect<AgentSession<A>, never, Scope.Scope>
}
