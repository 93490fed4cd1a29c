/**
 * Who acts: turns observations into decisions.
 *
 * @since 0.1.0
 */
import * as Data from "effect/Data"
import type * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import type { RolloutIdentity } from "../identity/Identity.js"
import { Message } from "../model/Conversation.js"
import { ModelReply } from "../model/ModelClient.js"
import type { ModelError } from "../model/ModelError.js"
import { Sampling } from "../model/Sampling.js"
import type { Observation } from "./Environment.js"
import type { TaskRow } from "./TaskRow.js"

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
 * @since 0.1.0
 * @category constructors
 */
export const Decision = Data.taggedEnum<DecisionDefinition>()

/**
 * One request to a model and what came back, as it goes on disk: images by reference.
 *
 * @since 0.1.0
 * @category models
 */
export class ModelCall extends Schema.Class<ModelCall>("deskhand/rollout/ModelCall")({
  messages: Schema.Array(Message),
  sampling: Sampling,
  reply: ModelReply
}) {}

/**
 * What an agent made of one observation. No decisions means that its reply held none; that consumes the step.
 *
 * @since 0.1.0
 * @category models
 */
export interface AgentTurn<A> {
  readonly decisions: ReadonlyArray<Decision<A>>
  /** The model's text that the decisions were read from. */
  readonly text: string
  /** The model calls behind the turn, in order. */
  readonly calls: ReadonlyArray<ModelCall>
}

/**
 * An agent that works on one task.
 *
 * @since 0.1.0
 * @category models
 */
export interface AgentSession<A> {
  /** What to do now that `observation` is seen, at environment step `step` (from 0). */
  readonly decide: (observation: Observation, step: number) => Effect.Effect<AgentTurn<A>, ModelError>
}

/**
 * What makes two agents the same: whatever changes what the model sees, or what is read from its replies.
 *
 * @since 0.1.0
 * @category models
 */
export interface AgentContract {
  readonly name: string
  /** The model's name; absent for an agent that asks none. */
  readonly model?: string
  readonly historyPolicyId?: string
  readonly sampling: Sampling
}

/**
 * @since 0.1.0
 * @category models
 */
export interface Agent<A> {
  readonly contract: AgentContract
  readonly open: (row: TaskRow, identity: RolloutIdentity) => Effect.Effect<AgentSession<A>, never, Scope.Scope>
}
