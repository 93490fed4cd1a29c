/**
 * Owners: one slot of a group each, with one reward, one advantage and one validity. What fails is masked whole, and its
 * siblings stay.
 *
 * @since 0.1.0
 */
import * as Arr from "effect/Array"
import * as Either from "effect/Either"
import * as Schema from "effect/Schema"
import { groupOwners, placeholderRow, rowsOf } from "./internal/assembling.js"
import { ownerId, type Row } from "./Row.js"
import {
  effectiveSampleMask,
  type ModelCall,
  type Segment,
  type SegmentError,
  segments as segmentsOf,
  truncated
} from "./Segment.js"
import { StepError } from "./StepError.js"

// -----------------------------------------------------------------------------
// Models
// -----------------------------------------------------------------------------

/**
 * Why an owner must not train:
 *
 * - `missing_receipt`, `invalid_receipt`: nothing, or nothing legible, says what was captured
 * - `identity_mismatch`: what was captured is of another rollout
 * - `rollout_failed`: the rollout itself must not be used
 * - `capture_poisoned`: tokens may be missing, or somebody may still be writing
 * - `empty_manifest`: no call generated anything
 * - `duplicate_staging_key`: two calls have the same id
 * - `missing_staging_row`: a call is named and its tokens are not there
 * - `rebuild_failed`: the calls don't make segments
 * - `route_assembly:...`: the routed experts don't fit
 * - `image_alignment`: the pictures don't stand where they are said to
 * - `action_flags_mismatch`: what is said of the actions does not fit the calls
 * - `logical_owner_invalid`: a segment is masked, so the whole owner is
 *
 * @since 0.1.0
 * @category models
 */
export const RejectionReason = Schema.Union(
  Schema.Literal(
    "missing_receipt",
    "invalid_receipt",
    "identity_mismatch",
    "rollout_failed",
    "capture_poisoned",
    "empty_manifest",
    "duplicate_staging_key",
    "missing_staging_row",
    "rebuild_failed",
    "image_alignment",
    "action_flags_mismatch",
    "logical_owner_invalid"
  ),
  Schema.TemplateLiteral("route_assembly:", Schema.String)
)

/**
 * @since 0.1.0
 * @category models
 */
export type RejectionReason = typeof RejectionReason.Type

/**
 * What is known of an owner whatever became of it.
 *
 * @since 0.1.0
 * @category models
 */
export interface OwnerFacts {
  /** The group that was dispatched: two dispatches of one task are two groups. */
  readonly groupId: string
  /** From 0 to `groupSize` - 1. */
  readonly slot: number
  readonly groupSize: number
  /** Finite. A failed owner has one too: where the whole group is the population, it counts in the baseline. */
  readonly reward: number
  /**
   * The prompt that the owner was dispatched with: the same for all of its segments. Empty only where nothing of its group
   * trains.
   */
  readonly promptTokenIds: Int32Array
  /** The lowest number of optimizer steps behind the weights of its calls; without calls, of when it was dispatched. */
  readonly weightVersion: number
}

/**
 * An owner whose segments train.
 *
 * @since 0.1.0
 * @category models
 */
export interface ValidOwner extends OwnerFacts {
  readonly _tag: "Valid"
  readonly segments: Arr.NonEmptyReadonlyArray<Segment>
  /** `[segments]`. */
  readonly truncated: ReadonlyArray<boolean>
}

/**
 * An owner that must not train.
 *
 * @since 0.1.0
 * @category models
 */
export interface RejectedOwner extends OwnerFacts {
  readonly _tag: "Rejected"
  readonly reason: RejectionReason
  readonly detail: string
}

/**
 * @since 0.1.0
 * @category models
 */
export type Owner = ValidOwner | RejectedOwner

/**
 * The tokens of a rollout's calls, in the order in which they were made; a frozen capture is one as it is.
 *
 * @since 0.1.0
 * @category models
 */
export interface Capture {
  readonly rolloutId: string
  readonly entries: ReadonlyArray<ModelCall & { readonly rolloutId: string; readonly createdAt?: number }>
  /** Whether tokens may be missing: a call that was begun and not committed is enough. */
  readonly incomplete: boolean
  /** Why, one sentence each. */
  readonly gaps?: ReadonlyArray<string>
}

/**
 * Chains of calls that extend each other, as a trace has them.
 *
 * @since 0.1.0
 * @category models
 */
export interface CapturedTrace {
  readonly rolloutId: string
  /** In the order of segments. Where chains share their beginning, the first one owns it. */
  readonly chains: ReadonlyArray<{ readonly calls: ReadonlyArray<ModelCall>; readonly owns: ReadonlySet<string> }>
  /** Why a trainer that takes one sequence must not train on it. */
  readonly reasons: ReadonlyArray<string>
}

/**
 * What a row may be.
 *
 * @since 0.1.0
 * @category models
 */
export interface RowLimits {
  /** In tokens. Longer segments are refused; one that is exactly as long was truncated. */
  readonly maxSequenceLength?: number
  /** Whether an owner with a truncated segment is masked. Its reward still counts in the baseline. */
  readonly overlongFiltering?: boolean
}

// -----------------------------------------------------------------------------
// One owner
// -----------------------------------------------------------------------------

/**
 * An owner that must not train. Its prompt and its reward stay its own.
 *
 * @since 0.1.0
 * @category constructors
 */
export const rejected = (facts: OwnerFacts, reason: RejectionReason, detail: string): RejectedOwner => ({
  _tag: "Rejected",
  ...factsOf(facts),
  reason,
  detail
})

const factsOf = ({ groupId, groupSize, promptTokenIds, reward, slot, weightVersion }: OwnerFacts): OwnerFacts => ({
  groupId,
  groupSize,
  promptTokenIds,
  reward,
  slot,
  weightVersion
})

/** Numbers that are none mean that something is broken, not that a rollout failed. */
const rejectionOf = (error: SegmentError): RejectionReason | undefined => {
  switch (error.reason) {
    case "log_probs":
    case "token_ids":
    case "length":
      return undefined
    case "duplicate_call":
      return "duplicate_staging_key"
    case "images":
      return "image_alignment"
    case "no_generated_token":
      return "empty_manifest"
    case "routes":
      return `route_assembly:${error.detail}`
    case "not_contiguous":
    case "too_long":
      return "rebuild_failed"
  }
}

/**
 * An owner of segments that were made already. It is masked whole when one of them is truncated and overlong rows are
 * filtered.
 *
 * @since 0.1.0
 * @category constructors
 */
export const fromSegments = (
  facts: OwnerFacts,
  segments: ReadonlyArray<Segment>,
  limits: RowLimits = {}
): Either.Either<Owner, SegmentError> => settle(facts, Either.right(segments), limits)

const settle = (
  facts: OwnerFacts,
  made: Either.Either<ReadonlyArray<Segment>, SegmentError>,
  { maxSequenceLength, overlongFiltering = false }: RowLimits
): Either.Either<Owner, SegmentError> => {
  const at = { owner: ownerId(facts.groupId, facts.slot), group: facts.groupId }
  const lengths = Either.flatMap(made, (segments) =>
    Either.map(
      Either.all(
        segments.map((segment) =>
          maxSequenceLength === undefined ? Either.right(false) : truncated(segment, maxSequenceLength, at)
        )
      ),
      (cut) => ({ segments, cut })
    )
  )
  if (Either.isLeft(lengths)) {
    const reason = rejectionOf(lengths.left)
    return reason === undefined
      ? Either.left(lengths.left)
      : Either.right(rejected(facts, reason, lengths.left.message))
  }
  const { cut, segments } = lengths.right
  if (!Arr.isNonEmptyReadonlyArray(segments))
    return Either.right(rejected(facts, "empty_manifest", "there is no segment"))
  const masked = cut.findIndex(
    (truncated) => effectiveSampleMask({ sampleMask: 1, maskSample: false, truncated, overlongFiltering }) === 0
  )
  if (masked >= 0) {
    const detail = `segment ${masked} has ${maxSequenceLength} tokens, the most that a row may have`
    return Either.right(rejected(facts, "logical_owner_invalid", detail))
  }
  return Either.right({ _tag: "Valid", ...factsOf(facts), segments, truncated: cut })
}

/**
 * An owner of what was captured. It is rejected, with the reason, when tokens may be missing or the calls don't make
 * segments; `SegmentError` is left for numbers that no honest capture has, such as a log-probability that is NaN.
 *
 * @param rolloutId Of which rollout the capture must be.
 *
 * @since 0.1.0
 * @category constructors
 */
export const fromCapture = (
  facts: OwnerFacts,
  rolloutId: string,
  capture: Capture | undefined,
  limits: RowLimits = {}
): Either.Either<Owner, SegmentError> => {
  const reject = (reason: RejectionReason, detail: string) => Either.right(rejected(facts, reason, detail))
  if (capture === undefined) return reject("missing_receipt", `nothing was captured of rollout ${rolloutId}`)
  const foreign = [capture, ...capture.entries].find((entry) => entry.rolloutId !== rolloutId)
  if (foreign !== undefined) {
    return reject("identity_mismatch", `expected rollout ${rolloutId}, found ${foreign.rolloutId}`)
  }
  if (capture.incomplete) {
    return reject("capture_poisoned", capture.gaps?.join("; ") || "tokens may be missing")
  }
  const at = { owner: ownerId(facts.groupId, facts.slot), group: facts.groupId }
  return settle(facts, segmentsOf(inOrder(capture.entries), at), limits)
}

/** When the calls began, where all say it; a stable sort, so that equal times change nothing. */
const inOrder = (entries: Capture["entries"]): Capture["entries"] =>
  entries.every(({ createdAt }) => createdAt !== undefined)
    ? entries.toSorted((a, b) => (a.createdAt ?? 0) - (b.createdAt ?? 0))
    : entries

/** Several sequences are no reason where each becomes a segment. */
const segmented = new Set(["roots", "chains"])

const traceRejections: Readonly<Record<string, RejectionReason>> = {
  incomplete: "capture_poisoned",
  nothing_captured: "empty_manifest"
}

/**
 * An owner of a trace: each of its chains is a segment, or several where it shows other pictures. That a trace has several
 * chains is no reason against it here; everything else that makes one doubtful rejects the owner.
 *
 * @since 0.1.0
 * @category constructors
 */
export const fromTrace = (
  facts: OwnerFacts,
  rolloutId: string,
  trace: CapturedTrace | undefined,
  limits: RowLimits = {}
): Either.Either<Owner, SegmentError> => {
  if (trace === undefined) return Either.right(rejected(facts, "missing_receipt", `rollout ${rolloutId} has no trace`))
  if (trace.rolloutId !== rolloutId) {
    const detail = `expected rollout ${rolloutId}, found ${trace.rolloutId}`
    return Either.right(rejected(facts, "identity_mismatch", detail))
  }
  const doubt = trace.reasons.find((reason) => !segmented.has(reason))
  if (doubt !== undefined) {
    return Either.right(rejected(facts, traceRejections[doubt] ?? "rebuild_failed", `the trace is masked: ${doubt}`))
  }
  const at = { owner: ownerId(facts.groupId, facts.slot), group: facts.groupId }
  const made = Either.all(trace.chains.map(({ calls, owns }) => segmentsOf(calls, at, owns)))
  return settle(
    facts,
    Either.map(made, (parts) => parts.flat()),
    limits
  )
}

// -----------------------------------------------------------------------------
// Groups
// -----------------------------------------------------------------------------

/**
 * An owner that was masked, or whose group was dropped.
 *
 * @since 0.1.0
 * @category models
 */
export interface Rejection {
  readonly groupId: string
  readonly owner: string
  readonly reason: RejectionReason
  readonly detail: string
}

/**
 * A group of which nothing can train.
 *
 * @since 0.1.0
 * @category models
 */
export interface DroppedGroup {
  readonly groupId: string
  readonly reason: "no_valid_owner"
  /** One for each of its owners. */
  readonly owners: ReadonlyArray<Rejection>
}

/**
 * @since 0.1.0
 * @category models
 */
export interface Assembled {
  /** Groups as they came, owners by slot, segments in order. */
  readonly rows: ReadonlyArray<Row>
  /** Owners that are masked by a placeholder. */
  readonly rejections: ReadonlyArray<Rejection>
  readonly dropped: ReadonlyArray<DroppedGroup>
  /** Owners that came twice, the same each time. */
  readonly duplicates: number
}

const named = ({ groupId, slot }: OwnerFacts) => ({ groupId, owner: ownerId(groupId, slot) })

const rejectionsOf = (owners: ReadonlyArray<Owner>): ReadonlyArray<Rejection> =>
  owners.flatMap((owner) =>
    owner._tag === "Rejected" ? [{ ...named(owner), reason: owner.reason, detail: owner.detail }] : []
  )

/**
 * The rows of whole groups. An owner that failed becomes one masked row, which borrows the first segment, and its
 * weights' version, of the first sibling that is valid, and keeps its own prompt and reward. A group without a valid owner is dropped.
 *
 * Fails when a group lacks an owner or has one twice with different content, when sizes differ, when a prompt is missing
 * and when a reward is not finite. An owner that comes again unchanged counts once.
 *
 * @since 0.1.0
 * @category operations
 */
export const assemble = (owners: ReadonlyArray<Owner>, groupSize: number): Either.Either<Assembled, StepError> => {
  if (owners.length === 0) {
    return Either.left(new StepError({ reason: "Empty", field: "owners", detail: "there is no owner" }))
  }
  return Either.flatMap(groupOwners(owners, groupSize), ({ duplicates, groups }) => {
    const rows: Array<Row> = []
    const rejections: Array<Rejection> = []
    const dropped: Array<DroppedGroup> = []
    for (const [groupId, members] of groups) {
      const failed = rejectionsOf(members)
      const donor = members.find((owner) => owner._tag === "Valid")
      if (donor === undefined) {
        dropped.push({ groupId, reason: "no_valid_owner", owners: failed })
        continue
      }
      rejections.push(...failed)
      for (const owner of members) {
        if (owner._tag === "Valid") {
          rows.push(...rowsOf(owner))
          continue
        }
        const placeholder = placeholderRow(owner, donor)
        if (Either.isLeft(placeholder)) return Either.left(placeholder.left)
        rows.push(placeholder.right)
      }
    }
    return Either.right({ rows, rejections, dropped, duplicates })
  })
}
