/**
 * What one model wants to be shown and how its replies are read: pure, and all that differs between agents that ask a
 * model. The loop around it is one for all.
 *
 * @since 0.1.0
 */
import type { NonEmptyReadonlyArray } from "effect/Array"
import type * as Either from "effect/Either"
import type { BlobRef } from "../artifact/ArtifactStore.js"
import type { DesktopAction } from "../desktop/Action.js"
import type { Canonical } from "../identity/StableId.js"
import type { AssistantMessage, Message, OfferedTool } from "../model/Conversation.js"
import type { Decision, ParseFailure } from "../rollout/Agent.js"
import type { ObservationType } from "../rollout/Contract.js"

/**
 * Pixels.
 *
 * @since 0.1.0
 * @category models
 */
export interface Size {
  readonly width: number
  readonly height: number
}

/**
 * An observation as it is shown to the model: made ready once, the same in every prompt that shows it.
 *
 * @since 0.1.0
 * @category models
 */
export interface Shown {
  /** At the size that the protocol asks for, with marks where it asks for them. */
  readonly image: BlobRef
  /** The accessibility tree as text, where the protocol asks for it. */
  readonly tree?: string
  /** Where the numbered marks are, in pixels of the screen; mark 1 is first. */
  readonly marks?: ReadonlyArray<{ readonly x: number; readonly y: number }>
}

/**
 * What a reply says to do, and the words of it that later prompts repeat.
 *
 * @since 0.1.0
 * @category models
 */
export interface Read {
  readonly decisions: ReadonlyArray<Decision<DesktopAction>>
  readonly thought?: string
  readonly action?: string
  readonly code?: string
}

/**
 * A turn that the model has answered. `read` is a failure where the reply consumed a step and said nothing to do.
 *
 * @since 0.1.0
 * @category models
 */
export interface Turn {
  readonly shown: Shown
  readonly message: AssistantMessage
  readonly read: Either.Either<Read, ParseFailure>
}

/**
 * All that a prompt is made of.
 *
 * @since 0.1.0
 * @category models
 */
export interface PromptView {
  readonly instruction: string
  /** The desktop user's password. */
  readonly password: string
  readonly screen: Size
  /** The answered turns, oldest first. */
  readonly turns: ReadonlyArray<Turn>
  readonly now: Shown
  /** Whether a turn's image is shown; the newest's always is. */
  readonly isLive: (turn: number) => boolean
  /** What stands for the first turns, where the history policy has them summed up. */
  readonly summary?: { readonly turns: number; readonly text: string }
}

/**
 * @since 0.1.0
 * @category models
 */
export interface ReadContext {
  readonly screen: Size
  readonly finishReason: string
  /** The observation that the reply answers. */
  readonly shown: Shown
  /** The turns before it. */
  readonly turns: ReadonlyArray<Turn>
}

/**
 * What is done about a reply that cannot be read.
 *
 * @since 0.1.0
 * @category models
 */
export interface ParseRetries {
  /** Model calls that a step may take; at least 1. */
  readonly attempts: number
  /** Messages that are added to the step's own prompt, so that the model sees what was wrong; none unless given. */
  readonly feedback?: (failure: ParseFailure, reply: AssistantMessage) => ReadonlyArray<Message>
  /** Of the second call and those that follow; the first one's unless given. */
  readonly temperature?: (first: number | undefined) => number | undefined
  /** When no reply could be read: end the episode, or let the step pass. */
  readonly exhausted: "stop" | "step"
}

/**
 * Wires that models are spoken to on.
 *
 * @since 0.1.0
 * @category models
 */
export type Dialect = "chat" | "responses" | "messages"

/**
 * @since 0.1.0
 * @category models
 */
export interface Protocol {
  /** As flags and contracts name it. */
  readonly name: string
  /** What contracts say of it where ids that others have published are to come out equal; its name unless given. */
  readonly runner?: { readonly name: string; readonly kind: string; readonly agentClassPath: string }
  /** The wire that the model is spoken to on: Chat Completions unless given. */
  readonly dialect?: Dialect
  readonly observation: ObservationType
  readonly actionSpace: string
  /** What is hashed as the wire contract: every text and number that shapes prompts and their reading. */
  readonly wire: {
    readonly protocolId: string
    readonly parserId: string
    readonly thinking: boolean
    readonly contract: Canonical
  }
  /** Options that contracts carry. */
  readonly options: { readonly [key: string]: Canonical }
  /** The history policy that holds unless the user chooses one, in its short form, such as `fixed:3`. */
  readonly historyPolicy: string
  readonly tools?: (screen: Size) => ReadonlyArray<OfferedTool>
  /** The size that screenshots are shown at; the screen's own unless given. */
  readonly imageSize?: (screen: Size) => Size
  readonly retries: ParseRetries
  /** The prompt. It throws nothing: every view has one. */
  readonly render: (view: PromptView) => NonEmptyReadonlyArray<Message>
  /** Reads a reply. It throws nothing, and makes up nothing that the reply does not hold. */
  readonly read: (reply: AssistantMessage, context: ReadContext) => Either.Either<Read, ParseFailure>
}
