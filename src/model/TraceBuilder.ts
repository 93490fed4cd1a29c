/**
 * Builds, from the tokens of a rollout's calls, the sequences that train. It is a plain function of what was captured:
 * the order in which calls were captured does not matter, and what is not certain is masked, with its reason.
 *
 * @since 0.1.0
 */
import * as Either from "effect/Either"
import * as Schema from "effect/Schema"
import { startsWith } from "./internal/tokens/ids.js"
import type { JsonObject } from "./internal/tokens/json.js"
import { chainsOf, type Fate, lineageOf } from "./internal/tokens/lineage.js"
import type { TokenSnapshot } from "./TokenCapture.js"
import type { TokenEntry } from "./TokenEntry.js"

// -----------------------------------------------------------------------------
// Models
// -----------------------------------------------------------------------------

/**
 * Why a rollout's tokens must not train:
 *
 * - `incomplete`: tokens may be missing
 * - `nothing_captured`: no call generated anything
 * - `unresolved_retries`: calls have the same prompt, and none says which was gone on with
 * - `ambiguous_parent`: a call may continue several others
 * - `roots`: not exactly one call begins a conversation
 * - `chains`: not exactly one way leads through the calls
 * - `invalid`: the entries contradict each other
 *
 * @since 0.1.0
 * @category models
 */
export const MaskReason = Schema.Literal(
  "incomplete",
  "nothing_captured",
  "unresolved_retries",
  "ambiguous_parent",
  "roots",
  "chains",
  "invalid"
)

/**
 * @since 0.1.0
 * @category models
 */
export type MaskReason = typeof MaskReason.Type

const Fraction = Schema.Finite.pipe(Schema.between(0, 1))

/**
 * What was captured and how much of it is delivered. The keys when encoded are the field's.
 *
 * @since 0.1.0
 * @category models
 */
export class TraceMetrics extends Schema.Class<TraceMetrics>("deskhand/model/TraceMetrics")({
  /** All calls, also those that generated nothing. */
  calls: Schema.propertySignature(Schema.NonNegativeInt).pipe(Schema.fromKey("n_calls")),
  chains: Schema.NonNegativeInt,
  /** Calls that continue no other and are not quarantined. */
  roots: Schema.NonNegativeInt,
  /** Calls that cannot be on a chain, because of themselves or of what they continue. */
  quarantinedCalls: Schema.propertySignature(Schema.NonNegativeInt).pipe(Schema.fromKey("quarantined_calls")),
  /** Of the calls that generated something; absent where there is none. */
  quarantinedFraction: Schema.optionalWith(Fraction, { exact: true }).pipe(Schema.fromKey("quarantined_fraction")),
  /** Of the tokens generated; absent where there is none. */
  deliveredFraction: Schema.optionalWith(Fraction, { exact: true }).pipe(Schema.fromKey("delivered_fraction")),
  generatedTokensCaptured: Schema.propertySignature(Schema.NonNegativeInt).pipe(
    Schema.fromKey("generated_tokens_captured")
  ),
  generatedTokensDelivered: Schema.propertySignature(Schema.NonNegativeInt).pipe(
    Schema.fromKey("generated_tokens_delivered")
  ),
  emptyGenerationCalls: Schema.propertySignature(Schema.NonNegativeInt).pipe(Schema.fromKey("empty_generation_calls")),
  captureIncomplete: Schema.optionalWith(Schema.Boolean, { exact: true }).pipe(Schema.fromKey("capture_incomplete")),
  error: Schema.optionalWith(Schema.String, { exact: true })
}) {}

/**
 * Calls, each of which continues the one before it.
 *
 * @since 0.1.0
 * @category models
 */
export interface Chain {
  readonly calls: ReadonlyArray<TokenEntry>
  /** Ids of the calls whose tokens train here. Where chains share their beginning the first one owns it. */
  readonly owns: ReadonlySet<string>
}

/**
 * What became of one call.
 *
 * @since 0.1.0
 * @category models
 */
export interface TracedCall {
  readonly modelCallId: string
  /** The call that it continues; none for a root; several where they cannot be told apart. */
  readonly parentCallIds: ReadonlyArray<string>
  readonly fate: Fate
}

/**
 * @since 0.1.0
 * @category models
 */
export interface Trace {
  readonly rolloutId: string
  /** Calls that generated something, the shorter prompts first. */
  readonly calls: ReadonlyArray<TracedCall>
  /** The chain whose root is the earliest comes first. */
  readonly chains: ReadonlyArray<Chain>
  /** The first chain. It is there also when the rollout is masked, and must not train then. */
  readonly delivered: Chain | undefined
  readonly masked: boolean
  /** All that hold, empty when it is not masked. */
  readonly reasons: ReadonlyArray<MaskReason>
  readonly metrics: TraceMetrics
}

/**
 * A chain as one sequence: all arrays have the same length.
 *
 * @since 0.1.0
 * @category models
 */
export interface TokenSequence {
  readonly tokenIds: ReadonlyArray<number>
  /** 1 for tokens that the model generated and the chain owns; 0 for prompts and what came between calls. */
  readonly lossMask: Uint8Array
  /** Natural logarithms as captured where the mask is 1, otherwise 0. */
  readonly logProbs: Float64Array
}

/**
 * A chain as a Responses reply in the form that the field's trainers read.
 *
 * @since 0.1.0
 * @category models
 */
export interface Projection {
  /** `proj-` and the rollout's id. */
  readonly id: string
  readonly object: "response"
  /** Items of all calls in order; one of each call carries its tokens, the prompt's counted from the very first. */
  readonly output: ReadonlyArray<JsonObject>
  readonly usage: {
    /** Length of the first prompt. */
    readonly input_tokens: number
    /** All tokens that were generated. */
    readonly output_tokens: number
    readonly total_tokens: number
  }
}

/**
 * A call's prompt does not begin with all tokens before it.
 *
 * @since 0.1.0
 * @category errors
 */
export class ContiguityError extends Schema.TaggedError<ContiguityError>("deskhand/ContiguityError")(
  "ContiguityError",
  { rolloutId: Schema.String, modelCallId: Schema.String, before: Schema.String }
) {
  override get message() {
    return `the prompt of call ${this.modelCallId} of rollout ${this.rolloutId} does not begin with the prompt and reply of call ${this.before}. Send the model its own tokens again, unchanged`
  }
}

// -----------------------------------------------------------------------------
// Building
// -----------------------------------------------------------------------------

/** What no honest capture has. */
const contradiction = (rolloutId: string, entries: ReadonlyArray<TokenEntry>): string | undefined => {
  const ids = new Set<string>()
  const repeated = entries.map(({ modelCallId }) => modelCallId).filter((id) => ids.size === ids.add(id).size)
  if (repeated.length > 0) return `several entries are of call ${repeated.sort()[0]}`
  const foreign = entries.map((entry) => entry.rolloutId).filter((id) => id !== rolloutId)
  return foreign.length > 0 ? `an entry is of rollout ${foreign.sort()[0]}` : undefined
}

const tokensOf = (entries: ReadonlyArray<TokenEntry>): number =>
  entries.reduce((sum, { generationTokenIds }) => sum + generationTokenIds.length, 0)

const owned = (chains: ReadonlyArray<ReadonlyArray<TokenEntry>>): ReadonlyArray<Chain> => {
  const taken = new Set<string>()
  return chains.map((calls) => {
    const owns = new Set(calls.map(({ modelCallId }) => modelCallId).filter((id) => !taken.has(id)))
    for (const id of owns) taken.add(id)
    return { calls, owns }
  })
}

/** The first call of a chain that does not continue the one before it. */
const brokenAt = (calls: ReadonlyArray<TokenEntry>): ContiguityError | undefined => {
  for (const [at, { modelCallId, promptTokenIds, rolloutId }] of calls.entries()) {
    const before = calls[at - 1]
    if (before === undefined) continue
    const known = before.promptTokenIds.length
    const continues =
      startsWith(promptTokenIds, before.promptTokenIds) &&
      before.generationTokenIds.every((token, index) => promptTokenIds[known + index] === token)
    if (!continues) return new ContiguityError({ rolloutId, modelCallId, before: before.modelCallId })
  }
  return undefined
}

/**
 * Calls whose prompt begins with another's prompt and reply continue it: of several such, the longest. Never fails;
 * what cannot be told is masked. Time is linear in the tokens captured.
 *
 * @since 0.1.0
 * @category constructors
 */
export const build = (captured: Pick<TokenSnapshot, "rolloutId" | "entries" | "incomplete">): Trace => {
  const { entries, incomplete, rolloutId } = captured
  const spoken = entries.filter(({ generationTokenIds }) => generationTokenIds.length > 0)
  const entryError = contradiction(rolloutId, entries)
  const lineage = entryError === undefined ? lineageOf(spoken) : { calls: [], unresolvedRetries: 0 }
  const chains = owned(chainsOf(lineage))
  const [delivered] = chains
  const error = entryError ?? (delivered === undefined ? undefined : brokenAt(delivered.calls)?.message)
  const roots = lineage.calls.filter(({ fate, parents }) => parents.length === 0 && fate === "kept").length
  const quarantined = lineage.calls.filter(({ fate }) => fate !== "kept")
  const capturedTokens = tokensOf(spoken)
  const deliveredTokens = tokensOf(delivered?.calls ?? [])
  // What follows from having no calls to look at is not said twice.
  const traced = lineage.calls.length > 0
  const holds: Readonly<Record<MaskReason, boolean>> = {
    incomplete,
    nothing_captured: spoken.length === 0,
    unresolved_retries: lineage.unresolvedRetries > 0,
    ambiguous_parent: quarantined.some(({ fate }) => fate === "ambiguous_parent"),
    roots: traced && roots !== 1,
    chains: traced && chains.length !== 1,
    invalid: error !== undefined
  }
  const reasons = MaskReason.literals.filter((reason) => holds[reason])
  return {
    rolloutId,
    calls: lineage.calls.map(({ entry, fate, parents }) => ({
      modelCallId: entry.modelCallId,
      parentCallIds: parents.map((parent) => parent.entry.modelCallId),
      fate
    })),
    chains,
    delivered,
    masked: reasons.length > 0,
    reasons,
    metrics: new TraceMetrics({
      calls: entries.length,
      chains: chains.length,
      roots,
      quarantinedCalls: quarantined.length,
      ...(lineage.calls.length === 0 ? {} : { quarantinedFraction: quarantined.length / lineage.calls.length }),
      ...(capturedTokens === 0 ? {} : { deliveredFraction: deliveredTokens / capturedTokens }),
      generatedTokensCaptured: capturedTokens,
      generatedTokensDelivered: deliveredTokens,
      emptyGenerationCalls: entries.length - spoken.length,
      ...(incomplete ? { captureIncomplete: true } : {}),
      ...(error === undefined ? {} : { error })
    })
  }
}

// -----------------------------------------------------------------------------
// What trains
// -----------------------------------------------------------------------------

/**
 * One sequence of a chain's tokens with its loss mask. Over all chains of a trace every generated token is 1 once.
 *
 * @since 0.1.0
 * @category conversions
 */
export const sequence = ({ calls, owns }: Chain): Either.Either<TokenSequence, ContiguityError> => {
  const broken = brokenAt(calls)
  if (broken !== undefined) return Either.left(broken)
  const last = calls.at(-1)
  const tokenIds = last === undefined ? [] : last.promptTokenIds.concat(last.generationTokenIds)
  const lossMask = new Uint8Array(tokenIds.length)
  const logProbs = new Float64Array(tokenIds.length)
  for (const { generationLogProbs, modelCallId, promptTokenIds } of calls) {
    if (!owns.has(modelCallId)) continue
    lossMask.fill(1, promptTokenIds.length, promptTokenIds.length + generationLogProbs.length)
    logProbs.set(generationLogProbs, promptTokenIds.length)
  }
  return Either.right({ tokenIds, lossMask, logProbs })
}

/** A call's items, with its tokens on the one that carried them; a bare message where it said nothing. */
const itemsOf = (call: TokenEntry): ReadonlyArray<JsonObject> => {
  const bare: JsonObject = {
    id: `msg_${call.modelCallId}`,
    type: "message",
    role: "assistant",
    status: "completed",
    content: []
  }
  const items = call.outputItems.length === 0 ? [bare] : call.outputItems
  const carrier = call.tokenItemIndex ?? items.length - 1
  return items.map((item, index) =>
    index === carrier
      ? {
          ...item,
          prompt_token_ids: call.promptTokenIds,
          generation_token_ids: call.generationTokenIds,
          generation_log_probs: call.generationLogProbs,
          ...(call.routedExperts === undefined ? {} : { routed_experts: call.routedExperts })
        }
      : item
  )
}

/**
 * A chain as a trainer of the field reads it. The arrays are those of the entries, not copies.
 *
 * @since 0.1.0
 * @category conversions
 */
export const project = (rolloutId: string, { calls }: Chain): Either.Either<Projection, ContiguityError> => {
  const broken = brokenAt(calls)
  if (broken !== undefined) return Either.left(broken)
  const input = calls[0]?.promptTokenIds.length ?? 0
  const output = tokensOf(calls)
  return Either.right({
    id: `proj-${rolloutId}`,
    object: "response",
    output: calls.flatMap(itemsOf),
    usage: { input_tokens: input, output_tokens: output, total_tokens: input + output }
  })
}
