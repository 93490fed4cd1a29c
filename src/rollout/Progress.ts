/**
 * What goes on in a run, as events that whoever shows it listens to.
 *
 * @since 0.1.0
 */
import * as Context from "effect/Context"
import * as Data from "effect/Data"
import * as Effect from "effect/Effect"
import type { RolloutIdentity } from "../identity/Identity.js"
import type { RolloutOutcome } from "./Outcome.js"
import type { TaskRow } from "./TaskRow.js"

/**
 * @since 0.1.0
 * @category models
 */
export type ProgressEvent = Data.TaggedEnum<{
  /** An attempt was admitted: its environment is being opened. */
  Dispatched: { readonly identity: RolloutIdentity; readonly row: TaskRow }
  /** The environment is open; the agent decides on step 0. */
  Opened: { readonly identity: RolloutIdentity }
  /** Step `step` (from 0) was carried out. */
  Stepped: {
    readonly identity: RolloutIdentity
    readonly step: number
    readonly maxSteps: number
    readonly actions: ReadonlyArray<string>
  }
  Evaluating: { readonly identity: RolloutIdentity }
  /** The attempt failed, its row is on disk, and another begins after so many milliseconds. */
  Retrying: { readonly outcome: RolloutOutcome; readonly row: TaskRow; readonly milliseconds: number }
  /** The outcome of the last attempt is on disk. */
  Finished: { readonly outcome: RolloutOutcome; readonly row: TaskRow }
}>

/**
 * Constructors of events, and matchers.
 *
 * @since 0.1.0
 * @category constructors
 */
export const ProgressEvent = Data.taggedEnum<ProgressEvent>()

/**
 * Nobody listens unless a listener is provided.
 *
 * @since 0.1.0
 * @category context
 */
export class Progress extends Context.Reference<Progress>()("deskhand/rollout/Progress", {
  defaultValue: (): { readonly emit: (event: ProgressEvent) => Effect.Effect<void> } => ({ emit: () => Effect.void })
}) {}

/**
 * Tells the listener that is provided; nobody hears it where none is.
 *
 * @since 0.1.0
 * @category events
 */
export const emit = (event: ProgressEvent): Effect.Effect<void> =>
  Effect.flatMap(Progress, (progress) => progress.emit(event))
