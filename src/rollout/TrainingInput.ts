/**
 * From what was collected to what trains: outcomes and the tokens of their model calls become owners, and owners a batch.
 *
 * A reward comes from a scored outcome alone. What failed, was masked or is unresolved becomes a masked owner, with its
 * reason; what is broken, such as a log-probability that is NaN, is an error.
 *
 * @since 0.1.0
 */
import * as FileSystem from "@effect/platform/FileSystem"
import * as Path from "@effect/platform/Path"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import * as Stream from "effect/Stream"
import type { RolloutIdentity } from "../identity/Identity.js"
import { TokenCapture, type TokenCaptureError } from "../model/TokenCapture.js"
import * as TraceBuilder from "../model/TraceBuilder.js"
import * as Batch from "../training/Batch.js"
import * as GenerationWindow from "../training/GenerationWindow.js"
import * as Owner from "../training/Owner.js"
import { ownerId, type Row } from "../training/Row.js"
import type { ModelCall, SegmentError } from "../training/Segment.js"
import type { StepError } from "../training/StepError.js"
import * as TokenFree from "../training/TokenFree.js"
import type { Sampler } from "../training/Window.js"
import * as Evidence from "./Evidence.js"
import type { EvidenceFault } from "./EvidenceFault.js"
import { recordedOutcomes } from "./internal/recordedOutcomes.js"
import { callsOf } from "./internal/trainingCalls.js"
import type { RolloutOutcome, Scored } from "./Outcome.js"
import { fromRecords } from "./RecordedRollout.js"

// -----------------------------------------------------------------------------
// Models
// -----------------------------------------------------------------------------

/**
 * The tokens of one rollout as they were kept.
 *
 * @since 0.1.0
 * @category models
 */
export interface Captured {
  readonly rolloutId: string
  /** In the order in which they were made; tokens may be unknown. */
  readonly calls: ReadonlyArray<TokenFree.MaybeTokens & { readonly model: string }>
  /** How the calls hang together, where that is known better than by their order. */
  readonly trace?: Owner.CapturedTrace
  /** Whether somebody may still be writing, or tokens are lost. */
  readonly incomplete: boolean
  readonly gaps: ReadonlyArray<string>
}

/**
 * What was kept is of no use.
 *
 * @since 0.1.0
 * @category models
 */
export interface Unusable {
  readonly reason: Owner.RejectionReason
  readonly detail: string
}

/**
 * Where the tokens of a scored rollout are. It only reads: nothing that somebody may still write to is given up.
 *
 * @since 0.1.0
 * @category models
 */
export type TokenSource<R> = (
  identity: RolloutIdentity
) => Effect.Effect<Either.Either<Captured, Unusable>, TokenCaptureError, R>

/**
 * Which weights a rollout's tokens are of.
 *
 * @since 0.1.0
 * @category models
 */
export interface WeightVersions {
  /** The newest weights when the rollouts were dispatched. */
  readonly dispatched: number
  /**
   * The weights behind a model's name, as the server told it in its reply. A call of which they are not known counts as one
   * of `dispatched`.
   */
  readonly ofModel?: (model: string) => number | undefined
}

/**
 * @since 0.1.0
 * @category models
 */
export interface OwnersOptions extends Owner.RowLimits {
  /** Owners of a group. */
  readonly groupSize: number
  readonly weightVersions: WeightVersions
}

/**
 * @since 0.1.0
 * @category models
 */
export interface BatchOptions extends OwnersOptions {
  /** The weight version that the step starts from. */
  readonly version: number
  /** Groups of the step. */
  readonly prompts: number
  /** With how many the step may go on where nothing of others trains (`DropRules.fewestGroups`); all unless given. */
  readonly fewestGroups?: number
  /** Which weights a step may train on. */
  readonly sampler: Sampler
  /** What the number of rows is filled up to a multiple of; 1 when absent. */
  readonly rowQuantum?: number
}

// -----------------------------------------------------------------------------
// Outcomes on disk
// -----------------------------------------------------------------------------

/**
 * The outcomes that the run in `out` has on disk, from its rows and its evidence: of each rollout the score, or else what the
 * newest attempt that failed came to. `tasks` are the task indices that are meant; all of the folder unless given.
 *
 * A collector emits what it runs itself and passes over what is over. So a step in the middle of which the program was
 * stopped is made whole from here: collect its rows with `resume`, and when the stream has ended, read them all, those that
 * were run before and those that were run now. What failed or is unresolved has no reward, here as there.
 *
 * Rows have no name of their run, so it is read of the evidence: fails with `EvidenceFault` where that is missing or its
 * head cannot be read, and where the evidence of a scored rollout is not whole or says something else than the row. A
 * failure whose evidence is cut short is `Unresolved`.
 *
 * @since 0.1.0
 * @category sources
 */
export const recorded = (
  out: string,
  options: { readonly tasks?: Iterable<number> } = {}
): Stream.Stream<RolloutOutcome, EvidenceFault, FileSystem.FileSystem | Path.Path> => {
  const tasks = options.tasks === undefined ? undefined : new Set(options.tasks)
  return recordedOutcomes(out, (taskIndex) => tasks?.has(taskIndex) ?? true)
}

// -----------------------------------------------------------------------------
// Sources
// -----------------------------------------------------------------------------

/**
 * The tokens that a gateway kept, frozen: from now on nobody adds to them. Calls that were begun and not committed make the
 * rollout incomplete, and keep their ids. Calls hang together as `TraceBuilder` finds it.
 *
 * A gateway is not told what a call was for, so every reply trains: those that were asked for again, and summaries, whatever
 * the history policy says of them. Where that matters, take the tokens from the evidence.
 *
 * @since 0.1.0
 * @category sources
 */
export const fromTokenCapture: TokenSource<TokenCapture> = ({ rolloutId }) =>
  Effect.gen(function* () {
    const frozen = yield* (yield* TokenCapture).freeze(rolloutId)
    const trace = TraceBuilder.build(frozen)
    return Either.right({
      rolloutId: frozen.rolloutId,
      calls: frozen.entries.toSorted((a, b) => a.createdAt - b.createdAt),
      trace,
      incomplete: frozen.incomplete,
      gaps: frozen.gaps
    })
  }).pipe(
    Effect.catchIf(
      ({ reason }) => reason === "unreadable" || reason === "newer",
      (error) => Effect.succeed(unusable("invalid_receipt", error.message))
    )
  )

const unusable = (reason: Owner.RejectionReason, detail: string): Either.Either<never, Unusable> =>
  Either.left({ reason, detail })

/**
 * Which of an engine's tokens stand for pictures, and how large all of them are once they are processed, in pixels.
 *
 * @since 0.1.0
 * @category models
 */
export interface Media {
  readonly tokenId: number
  readonly height: number
  readonly width: number
}

/**
 * The tokens in the evidence of the run in `out`. Of a step's calls the last that got a reply is what the policy did; a
 * reply that was asked for again is not, and trains nothing. A summary trains where the contract's history policy has the
 * parameter `trained`, and not otherwise. With `media`, the pictures of each prompt are those that the
 * evidence shows, in their order, and stand where their tokens are; tokens that the policy itself wrote are text.
 *
 * @since 0.1.0
 * @category sources
 */
export const fromEvidence =
  (out: string, options: { readonly media?: Media } = {}): TokenSource<FileSystem.FileSystem | Path.Path> =>
  (identity) =>
    Effect.gen(function* () {
      const fs = yield* FileSystem.FileSystem
      const path = yield* Path.Path
      const file = path.join(out, "evidence", `${Evidence.fileStem(identity)}.jsonl`)
      if (!(yield* Effect.orElseSucceed(fs.exists(file), () => false))) {
        return unusable("missing_receipt", `there is no ${file}`)
      }
      const records = yield* Effect.either(Stream.runCollect(Evidence.read(file)))
      if (Either.isLeft(records)) return unusable("invalid_receipt", records.left.message)
      const rollout = Option.getOrUndefined(fromRecords(records.right))
      if (rollout?.evaluation === undefined) {
        return unusable("invalid_receipt", `${file} does not tell of the rollout from its beginning to its evaluation`)
      }
      const { rolloutId } = rollout.started.identity
      if (rolloutId !== identity.rolloutId) {
        return unusable("identity_mismatch", `${file} is of rollout ${rolloutId}`)
      }
      return Either.map(callsOf(rollout, options.media), (calls) => ({ rolloutId, calls, incomplete: false, gaps: [] }))
    })

// -----------------------------------------------------------------------------
// Owners
// -----------------------------------------------------------------------------
/** The facts of an owner before its tokens are known. */
const factsOf = (outcome: RolloutOutcome, { groupSize, weightVersions }: OwnersOptions): Owner.OwnerFacts => ({
  groupId: outcome.identity.dispatchGroup,
  slot: outcome.identity.rolloutIndex,
  groupSize,
  reward: outcome._tag === "Scored" ? outcome.reward : 0,
  promptTokenIds: new Int32Array(0),
  weightVersion: weightVersions.dispatched
})

const oldest = (calls: Captured["calls"], { dispatched, ofModel }: WeightVersions): number =>
  calls.reduce((least, { model }) => Math.min(least, ofModel?.(model) ?? dispatched), Number.POSITIVE_INFINITY)

/** Why an outcome without a reward must not train. */
const refusalOf = (outcome: Exclude<RolloutOutcome, Scored>): Unusable => {
  switch (outcome._tag) {
    case "Masked":
      return { reason: "rollout_failed", detail: `${outcome.reason}: ${outcome.detail}` }
    case "Failed":
      return { reason: "rollout_failed", detail: `${outcome.fault}: ${outcome.detail}` }
    case "Unresolved":
      // That the program was stopped is no proof that everybody has stopped writing.
      return { reason: "capture_poisoned", detail: "nothing is known of its end" }
  }
}

const fromCaptured = (
  facts: Owner.OwnerFacts,
  rolloutId: string,
  captured: Captured,
  options: OwnersOptions
): Either.Either<Owner.Owner, SegmentError | TokenFree.NotTrainable> => {
  const { calls, gaps, incomplete, trace } = captured
  const prompt = calls.find(({ promptTokenIds }) => promptTokenIds !== undefined)?.promptTokenIds
  const known: Owner.OwnerFacts = {
    ...facts,
    promptTokenIds: Int32Array.from(prompt ?? []),
    weightVersion: calls.length === 0 ? facts.weightVersion : oldest(calls, options.weightVersions)
  }
  if (captured.rolloutId === rolloutId && !incomplete && trace !== undefined) {
    return Owner.fromTrace(known, rolloutId, trace, options)
  }
  const owner = ownerId(facts.groupId, facts.slot)
  const whole = TokenFree.forTraining({
    groupId: facts.groupId,
    owner,
    purpose: "training",
    reward: facts.reward,
    calls
  })
  if (Either.isLeft(whole) && !incomplete) {
    const { left } = whole
    if (left.reason === "no_calls") return Either.right(Owner.rejected(known, "empty_manifest", left.message))
    // One call that lacks its tokens is a hole; a server that tells none is asked wrongly.
    return calls.every(({ generationTokenIds }) => generationTokenIds === undefined)
      ? Either.left(left)
      : Either.right(Owner.rejected(known, "missing_staging_row", left.message))
  }
  const entries = Either.getOrElse(whole, (): ReadonlyArray<ModelCall> => [])
  const capture = {
    rolloutId: captured.rolloutId,
    entries: entries.map((call) => ({ ...call, rolloutId: captured.rolloutId })),
    incomplete,
    gaps
  }
  return Owner.fromCapture(known, rolloutId, capture, options)
}

/** What failed before its first prompt was dispatched with the one that its siblings were. */
const withPrompts = (owners: ReadonlyArray<Owner.Owner>): ReadonlyArray<Owner.Owner> => {
  const prompts = new Map<string, Owner.Owner>()
  for (const owner of owners) {
    const known = prompts.get(owner.groupId)
    if (owner.promptTokenIds.length > 0 && (known === undefined || owner.slot < known.slot)) {
      prompts.set(owner.groupId, owner)
    }
  }
  return owners.map((owner) => {
    const sibling = prompts.get(owner.groupId)
    return owner.promptTokenIds.length > 0 || sibling === undefined
      ? owner
      : { ...owner, promptTokenIds: sibling.promptTokenIds }
  })
}

/**
 * An owner for each outcome, in their order: its group is the one that was dispatched, its slot the rollout's index.
 *
 * - `Scored`: its reward, and the segments of its tokens; masked where these are of no use, and then the reward still counts
 *   for its siblings
 * - `Masked`, `Failed`: masked (`rollout_failed`), reward 0
 * - `Unresolved`: masked (`capture_poisoned`), reward 0
 *
 * Fails with `SegmentError` where numbers are none, with `NotTrainable` where a server tells no tokens at all, and with
 * `TokenCaptureError` where kept tokens cannot be reached.
 *
 * @since 0.1.0
 * @category conversions
 */
export const owners = <R>(
  outcomes: Iterable<RolloutOutcome>,
  tokens: TokenSource<R>,
  options: OwnersOptions
): Effect.Effect<ReadonlyArray<Owner.Owner>, SegmentError | TokenFree.NotTrainable | TokenCaptureError, R> =>
  Effect.forEach(
    outcomes,
    (outcome) => {
      const facts = factsOf(outcome, options)
      if (outcome._tag !== "Scored") {
        const { detail, reason } = refusalOf(outcome)
        return Effect.succeed(Owner.rejected(facts, reason, detail))
      }
      return Effect.flatMap(tokens(outcome.identity), (captured) =>
        Either.match(captured, {
          onLeft: ({ detail, reason }) => Either.right(Owner.rejected(facts, reason, detail)),
          onRight: (captured) => fromCaptured(facts, outcome.identity.rolloutId, captured, options)
        })
      )
    },
    { concurrency: 8 }
  ).pipe(Effect.map(withPrompts))

/**
 * What a step trains on, and what became of the rest.
 *
 * @since 0.1.0
 * @category models
 */
export interface TrainingInput {
  readonly batch: Batch.Batch
  readonly assembled: Owner.Assembled
}

/**
 * The batch of one optimizer step: owners, their rows, and the checks that make rows a step. Groups of which nothing trains
 * are left out, as far as the step may do without, and told in `assembled.dropped`.
 *
 * Fails, besides as `owners` does, with `StepError` where an owner is missing or a group is not whole, and with
 * `GenerationWindowError` where weights are out of reach, a group is missing, or nothing trains.
 *
 * @since 0.1.0
 * @category conversions
 */
export const batch = <R>(
  outcomes: Iterable<RolloutOutcome>,
  tokens: TokenSource<R>,
  options: BatchOptions
): Effect.Effect<
  TrainingInput,
  SegmentError | TokenFree.NotTrainable | TokenCaptureError | StepError | GenerationWindow.GenerationWindowError,
  R
> =>
  Effect.gen(function* () {
    const { groupSize, prompts, rowQuantum, sampler, version } = options
    const assembled = yield* Owner.assemble(yield* owners(outcomes, tokens, options), groupSize)
    const window = yield* GenerationWindow.open<Row>({ sampler, version, prompts, generations: groupSize })
    const step = yield* GenerationWindow.close(yield* GenerationWindow.add(window, assembled.rows), {
      groups: Math.max(prompts - assembled.dropped.length, options.fewestGroups ?? prompts)
    })
    const batch = yield* Batch.make(step.rows, { groupSize, ...(rowQuantum === undefined ? {} : { rowQuantum }) })
    return { batch, assembled }
  })
