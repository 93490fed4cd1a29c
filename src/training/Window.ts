/**
 * Which groups an optimizer step may train on, given the weights they were generated with: four samplers, as decisions over
 * plain data.
 *
 * A weight version is the number of optimizer steps that made the weights. `version` is the trainer's own throughout.
 *
 * @since 0.1.0
 */
import * as Data from "effect/Data"
import * as Either from "effect/Either"
import * as Schema from "effect/Schema"

/**
 * - `in_order`: each group is stamped with the step that will train on it, and trains there
 * - `windowed`: any ready group whose weights are at most `maxStaleness` versions old
 * - `weight_fifo`: the oldest weights in the window alone, and it waits until enough of them are ready
 * - `ready_first`: whatever is ready, however old: only with importance-sampling correction, and not with a ratio that is
 *   forced to 1
 *
 * @since 0.1.0
 * @category models
 */
export const Sampler = Schema.Union(
  Schema.Struct({
    name: Schema.Literal("in_order"),
    /** Steps that dispatch may be ahead of the trainer. */
    window: Schema.NonNegativeInt
  }),
  Schema.Struct({
    name: Schema.Literal("windowed"),
    /** Versions that weights may be behind the trainer's. */
    maxStaleness: Schema.NonNegativeInt,
    /** Newest weights first; in the order in which slots were reserved otherwise. */
    freshestFirst: Schema.optionalWith(Schema.Boolean, { default: () => false, exact: true })
  }),
  Schema.Struct({ name: Schema.Literal("weight_fifo"), window: Schema.NonNegativeInt }),
  Schema.Struct({ name: Schema.Literal("ready_first"), window: Schema.NonNegativeInt })
)

/**
 * @since 0.1.0
 * @category models
 */
export type Sampler = typeof Sampler.Type

/**
 * How much is under way and kept, in groups. The values are NeMo RL's own where a recipe says nothing.
 *
 * @since 0.1.0
 * @category models
 */
export class WindowLimits extends Schema.Class<WindowLimits>("deskhand/training/WindowLimits")({
  /** Fewer ready groups than this train nothing yet. */
  minGroups: Schema.optionalWith(Schema.Int.pipe(Schema.positive()), { default: () => 32 }),
  /** Groups that are being generated at the same time. */
  maxInFlight: Schema.optionalWith(Schema.Int.pipe(Schema.positive()), { default: () => 32 }),
  /** Groups that are reserved or ready at the same time. */
  maxBuffered: Schema.optionalWith(Schema.Int.pipe(Schema.positive()), { default: () => 64 })
}) {}

/**
 * `[oldest, newest]`, both inclusive: the weights whose groups a step at `version` may train on by this sampler.
 *
 * @since 0.1.0
 * @category queries
 */
export const weightsInReach = (sampler: Sampler, version: number): readonly [oldest: number, newest: number] => {
  switch (sampler.name) {
    case "windowed":
      return [Math.max(0, version - sampler.maxStaleness), version]
    case "in_order":
    case "weight_fifo":
      return [Math.max(0, version - sampler.window), version]
    case "ready_first":
      return [0, version]
  }
}

// -----------------------------------------------------------------------------
// Admission
// -----------------------------------------------------------------------------

/**
 * Where dispatch stands.
 *
 * @since 0.1.0
 * @category models
 */
export interface DispatchState {
  /** Steps' worth of groups that were let in, and the step that the run was resumed at on top: 0 at the start of a run. */
  readonly dispatched: number
  readonly version: number
  /** Groups that are reserved or ready. */
  readonly buffered: number
  readonly maxBuffered: number
}

/**
 * Whether the next step's worth of groups may be dispatched.
 *
 * @since 0.1.0
 * @category models
 */
export type Admission = Data.TaggedEnum<{
  /** `targetStep` is the step that will train on them, for the sampler that stamps. */
  Admit: { readonly dispatched: number; readonly targetStep: number | undefined }
  /** Until the trainer is at `version`. */
  WaitForVersion: { readonly version: number }
  WaitForRoom: Record<never, never>
}>

/**
 * Constructors of answers, and matchers.
 *
 * @since 0.1.0
 * @category constructors
 */
export const Admission = Data.taggedEnum<Admission>()

/**
 * Dispatch `d` (from 0) of a gated sampler waits until `d <= version + window`; `windowed` is held by the buffer's room
 * alone. `in_order` stamps dispatch `d` with step `d`.
 *
 * @since 0.1.0
 * @category decisions
 */
export const admit = (sampler: Sampler, { buffered, dispatched, maxBuffered, version }: DispatchState): Admission => {
  if (buffered >= maxBuffered) return Admission.WaitForRoom()
  if (sampler.name !== "windowed" && dispatched > version + sampler.window) {
    return Admission.WaitForVersion({ version: dispatched - sampler.window })
  }
  return Admission.Admit({
    dispatched: dispatched + 1,
    targetStep: sampler.name === "in_order" ? dispatched : undefined
  })
}

/**
 * Groups that a gated sampler may have about at a time: those of the step that trains and of the `window` steps after it.
 *
 * @since 0.1.0
 * @category queries
 */
export const gatedCapacity = (groupsPerStep: number, window: number): number => groupsPerStep * (window + 1)

// -----------------------------------------------------------------------------
// Selection
// -----------------------------------------------------------------------------

/**
 * A group that was reserved, in the order of reservation.
 *
 * @since 0.1.0
 * @category models
 */
export interface Slot {
  /** The oldest weights that any of its calls was generated with. */
  readonly start: number
  /** Whether all of it has arrived. */
  readonly ready: boolean
  /** The step that it is stamped for. */
  readonly targetStep?: number | undefined
}

/**
 * Indices of slots. Nothing is in two of the lists.
 *
 * @since 0.1.0
 * @category models
 */
export interface Selection {
  /** What trains now; `undefined` when too few are ready. Never an empty list. */
  readonly selected: ReadonlyArray<number> | undefined
  /** Ready, and too old to ever train. */
  readonly evicted: ReadonlyArray<number>
  /** Still being generated, and too old already. */
  readonly aborted: ReadonlyArray<number>
}

/**
 * Bounds that contradict each other, or a slot without the stamp that its sampler needs.
 *
 * @since 0.1.0
 * @category errors
 */
export class SelectionError extends Data.TaggedError("SelectionError")<{
  readonly sampler: Sampler["name"]
  /** The slot that is at fault, where one is. */
  readonly slot: number | undefined
  readonly message: string
}> {}

/** Infinite is no bound; everything else is a whole number. */
const isCount = (value: number, least: number): boolean =>
  value >= least && (Number.isInteger(value) || value === Number.POSITIVE_INFINITY)

const fits = (sampler: Sampler, slot: Slot, version: number, oldest: number): boolean => {
  switch (sampler.name) {
    case "in_order":
      return slot.targetStep === version
    case "weight_fifo":
      return slot.start === oldest
    case "windowed":
    case "ready_first": {
      const [from, to] = weightsInReach(sampler, version)
      return from <= slot.start && slot.start <= to
    }
  }
}

const isPast = (sampler: Sampler, slot: Slot, version: number): boolean =>
  sampler.name === "in_order"
    ? (slot.targetStep ?? version) < version
    : slot.start < weightsInReach(sampler, version)[0]

/**
 * What a step at `version` trains on: at least `min` groups or none, at most `max`. It never waits to fill up above `min`.
 * Only ready groups are evicted; `windowed` gives up those in flight, too, once their weights are out of its window.
 *
 * @since 0.1.0
 * @category decisions
 */
export const select = (
  sampler: Sampler,
  slots: ReadonlyArray<Slot>,
  { max, min, version }: { readonly version: number; readonly min: number; readonly max: number }
): Either.Either<Selection, SelectionError> => {
  const wrong = (message: string, slot?: number) =>
    Either.left(new SelectionError({ sampler: sampler.name, slot, message }))
  if (!isCount(version, 0)) return wrong(`the trainer's version is ${version}: it has to be a whole number from 0`)
  if (!isCount(min, 1) || !isCount(max, min)) {
    return wrong(`at least ${min} and at most ${max} groups: they have to be whole numbers, 1 <= least <= most`)
  }
  for (const [index, slot] of slots.entries()) {
    if (!Number.isInteger(slot.start) || slot.start < 0) {
      return wrong(`slot ${index} has the weight version ${slot.start}: it has to be a whole number from 0`, index)
    }
    if (sampler.name === "in_order" && slot.targetStep === undefined) {
      return wrong(`slot ${index} is stamped for no step, and in_order trains a group at its own step alone`, index)
    }
  }
  const numbered = slots.map((slot, index) => ({ ...slot, index }))
  const past = numbered.filter((slot) => isPast(sampler, slot, version))
  // Groups in flight count: weight_fifo waits for the last of the oldest weights before it goes on to newer ones.
  const oldest = numbered
    .filter((slot) => !isPast(sampler, slot, version) && slot.start <= version)
    .reduce((least, { start }) => Math.min(least, start), Number.POSITIVE_INFINITY)
  const fitting = numbered.filter((slot) => slot.ready && fits(sampler, slot, version, oldest))
  if (sampler.name === "windowed" && sampler.freshestFirst) fitting.sort((a, b) => b.start - a.start)
  return Either.right({
    selected: fitting.length < min ? undefined : fitting.slice(0, max).map(({ index }) => index),
    evicted: sampler.name === "ready_first" ? [] : past.filter(({ ready }) => ready).map(({ index }) => index),
    aborted: sampler.name === "windowed" ? past.filter(({ ready }) => !ready).map(({ index }) => index) : []
  })
}
