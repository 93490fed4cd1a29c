/**
 * Segments: the model calls of a rollout, cut where a prompt does not go on from the one before, and laid end to end. Each
 * is one row of an optimizer step.
 *
 * @since 0.1.0
 */
import * as Either from "effect/Either"
import * as Schema from "effect/Schema"
import { checkGeometry, extendsImages, type Image, owned } from "./MediaMask.js"
import { assemble, decode, type Routes, validate as validateRoutes } from "./RouterReplay.js"

// -----------------------------------------------------------------------------
// Models
// -----------------------------------------------------------------------------

/**
 * One model call: the whole prompt that was sent, and what was generated. A captured token entry is one as it is.
 *
 * @since 0.1.0
 * @category models
 */
export interface ModelCall {
  readonly modelCallId: string
  readonly promptTokenIds: ArrayLike<number>
  readonly generationTokenIds: ArrayLike<number>
  /** Natural logarithms, as many as there are generated tokens, at most 0. */
  readonly generationLogProbs: ArrayLike<number>
  /** Experts of the prompt's and the reply's tokens: an `nrlre1` envelope, or lists. */
  readonly routedExperts?: unknown
  /** All pictures in the prompt, in order. */
  readonly images?: ReadonlyArray<Image>
}

/**
 * Where a call stands in a segment: its prompt is the first `promptLength` tokens, and its reply follows.
 *
 * @since 0.1.0
 * @category models
 */
export interface SegmentCall {
  readonly modelCallId: string
  readonly promptLength: number
  readonly generationLength: number
  /** Whether the reply trains here; calls that several segments share train in the first. */
  readonly owned: boolean
}

/**
 * All arrays have as many places as there are tokens. The first token of a row is predicted by nothing, so a segment of
 * `n` tokens has `n - 1` places in a batch.
 *
 * @since 0.1.0
 * @category models
 */
export interface Segment {
  readonly calls: ReadonlyArray<SegmentCall>
  readonly tokenIds: Int32Array
  /** 1 for tokens that the policy generated and that train here; 0 for prompts and what came between calls. */
  readonly tokenMask: Uint8Array
  /** As captured where the mask is 1, otherwise 0. */
  readonly generationLogProbs: Float64Array
  /** Pictures of the last prompt, in order: all that are in the segment. */
  readonly images: ReadonlyArray<Image>
  readonly routes: Routes | undefined
}

/**
 * A rollout's calls that cannot become segments.
 *
 * - `token_ids`: a token id is no integer from 0 to 2^31 - 1
 * - `log_probs`: a log-probability is NaN, infinite or above 0
 * - `length`: tokens and log-probabilities are not as many
 * - `duplicate_call`: two calls have the same id
 * - `not_contiguous`: a prompt does not begin with all tokens before it
 * - `no_generated_token`: no call generated anything
 * - `images`: the pictures don't stand where they are said to
 * - `routes`: the routed experts cannot be read or don't fit
 * - `too_long`: there are more tokens than a row may have
 *
 * @since 0.1.0
 * @category errors
 */
export class SegmentError extends Schema.TaggedError<SegmentError>("deskhand/training/SegmentError")("SegmentError", {
  reason: Schema.Literal(
    "token_ids",
    "log_probs",
    "length",
    "duplicate_call",
    "not_contiguous",
    "no_generated_token",
    "images",
    "routes",
    "too_long"
  ),
  detail: Schema.String,
  call: Schema.optionalWith(Schema.String, { exact: true }),
  row: Schema.optionalWith(Schema.String, { exact: true }),
  owner: Schema.optionalWith(Schema.String, { exact: true }),
  group: Schema.optionalWith(Schema.String, { exact: true })
}) {
  override get message() {
    const where = [
      this.call === undefined ? [] : [`call ${this.call}`],
      this.row === undefined ? [] : [`row ${this.row}`],
      this.owner === undefined ? [] : [`owner ${this.owner}`],
      this.group === undefined ? [] : [`group ${this.group}`]
    ].flat()
    return `${where.length === 0 ? "a rollout" : where.join(", ")}: ${this.detail}`
  }
}

/**
 * Whose calls they are, for errors to say.
 *
 * @since 0.1.0
 * @category models
 */
export interface SegmentOwner {
  readonly owner: string
  readonly group: string
}

// -----------------------------------------------------------------------------
// Checks of one call
// -----------------------------------------------------------------------------

const largest = 0x7fffffff

const badTokenAt = (tokens: ArrayLike<number>): number => {
  for (let at = 0; at < tokens.length; at++) {
    const token = tokens[at]
    if (token === undefined || !Number.isInteger(token) || token < 0 || token > largest) return at
  }
  return -1
}

type Refuse = (reason: SegmentError["reason"], detail: string, call?: string) => Either.Either<never, SegmentError>

const refusing =
  (at: SegmentOwner | undefined, segment?: number): Refuse =>
  (reason, detail, call) =>
    Either.left(
      new SegmentError({
        reason,
        detail,
        ...(call === undefined ? {} : { call }),
        ...(at === undefined ? {} : at),
        ...(at === undefined || segment === undefined ? {} : { row: `${at.owner}_s${segment}` })
      })
    )

const checkCall = (call: ModelCall, refuse: Refuse): Either.Either<void, SegmentError> => {
  const { generationLogProbs, generationTokenIds, modelCallId, promptTokenIds } = call
  for (const [name, tokens] of [
    ["prompt", promptTokenIds],
    ["reply", generationTokenIds]
  ] as const) {
    const bad = badTokenAt(tokens)
    if (bad >= 0) return refuse("token_ids", `token ${bad} of its ${name} is ${tokens[bad]}`, modelCallId)
  }
  if (generationLogProbs.length !== generationTokenIds.length) {
    const detail = `${generationTokenIds.length} tokens have ${generationLogProbs.length} log-probabilities`
    return refuse("length", detail, modelCallId)
  }
  for (let at = 0; at < generationLogProbs.length; at++) {
    const value = generationLogProbs[at]
    if (value === undefined || !Number.isFinite(value) || value > 0) {
      return refuse("log_probs", `the log-probability of generated token ${at} is ${value}`, modelCallId)
    }
  }
  return Either.right(undefined)
}

// -----------------------------------------------------------------------------
// Joining
// -----------------------------------------------------------------------------

const cumulative = (call: ModelCall): number => call.promptTokenIds.length + call.generationTokenIds.length

/** Whether a prompt begins with another call's prompt and reply. */
const extendsTokens = (before: ModelCall, prompt: ArrayLike<number>): boolean => {
  const known = before.promptTokenIds.length
  if (cumulative(before) > prompt.length) return false
  // From the end: prompts that part differ in what was said last.
  for (let at = before.generationTokenIds.length - 1; at >= 0; at--) {
    if (prompt[known + at] !== before.generationTokenIds[at]) return false
  }
  for (let at = known - 1; at >= 0; at--) if (prompt[at] !== before.promptTokenIds[at]) return false
  return true
}

const continues = (before: ModelCall, call: ModelCall): boolean =>
  extendsTokens(before, call.promptTokenIds) && extendsImages(before.images ?? [], call.images ?? [])

const imagesChecked = (
  calls: ReadonlyArray<ModelCall>,
  refuse: Refuse
): Either.Either<ReadonlyArray<Image>, SegmentError> => {
  let known: ReadonlyArray<Image> = []
  let retained = 0
  for (const call of calls) {
    const images = call.images ?? []
    const checked = checkGeometry({ promptTokenIds: call.promptTokenIds, images: images.slice(known.length), retained })
    if (Either.isLeft(checked)) return refuse("images", checked.left.message, call.modelCallId)
    known = images
    retained = cumulative(call)
  }
  return Either.right(known)
}

const routesJoined = (
  calls: ReadonlyArray<ModelCall>,
  refuse: Refuse
): Either.Either<Routes | undefined, SegmentError> => {
  const all: Array<{ readonly length: number; readonly routes: Routes | undefined }> = []
  for (const call of calls) {
    const routes = call.routedExperts === undefined ? undefined : decode(call.routedExperts)
    if (routes !== undefined && Either.isLeft(routes)) return refuse("routes", routes.left.message, call.modelCallId)
    all.push({ length: cumulative(call), routes: routes?.right })
  }
  const joined = Either.flatMap(assemble(all), (routes) =>
    routes === undefined ? Either.right(routes) : validateRoutes(routes)
  )
  return Either.isLeft(joined) ? refuse("routes", joined.left.message) : Either.right(joined.right)
}

/** Calls that were checked one by one, the first at least. */
const joined = (
  calls: ReadonlyArray<ModelCall>,
  owns: (call: ModelCall) => boolean,
  refuse: Refuse
): Either.Either<Segment, SegmentError> => {
  const last = calls.at(-1)
  const length = last === undefined ? 0 : cumulative(last)
  const tokenIds = new Int32Array(length)
  const tokenMask = new Uint8Array(length)
  const generationLogProbs = new Float64Array(length)
  if (last !== undefined) {
    tokenIds.set(last.promptTokenIds)
    tokenIds.set(last.generationTokenIds, last.promptTokenIds.length)
  }
  const placed: Array<SegmentCall> = []
  for (const call of calls) {
    const start = call.promptTokenIds.length
    const own = owns(call)
    if (own) {
      tokenMask.fill(1, start, start + call.generationTokenIds.length)
      generationLogProbs.set(call.generationLogProbs, start)
    }
    placed.push({
      modelCallId: call.modelCallId,
      promptLength: start,
      generationLength: call.generationTokenIds.length,
      owned: own
    })
  }
  return Either.gen(function* () {
    const images = yield* imagesChecked(calls, refuse)
    const routes = yield* routesJoined(calls, refuse)
    return { calls: placed, tokenIds, tokenMask, generationLogProbs, images, routes }
  })
}

/**
 * One segment of calls that must extend each other, such as a chain of a captured trace. Calls that `owns` does not name
 * are context; without it, all train.
 *
 * @since 0.1.0
 * @category constructors
 */
export const join = (
  chain: { readonly calls: ReadonlyArray<ModelCall>; readonly owns?: ReadonlySet<string> },
  at?: SegmentOwner
): Either.Either<Segment, SegmentError> => {
  const refuse = refusing(at)
  const { calls, owns } = chain
  for (const [index, call] of calls.entries()) {
    const checked = checkCall(call, refuse)
    if (Either.isLeft(checked)) return Either.left(checked.left)
    const before = calls[index - 1]
    if (before !== undefined && !continues(before, call)) {
      const detail = `its prompt does not begin with the prompt, the reply and the pictures of call ${before.modelCallId}`
      return refuse("not_contiguous", detail, call.modelCallId)
    }
  }
  if (!calls.some(({ generationTokenIds }) => generationTokenIds.length > 0)) {
    return refuse("no_generated_token", "no call generated anything")
  }
  return joined(calls, (call) => owns === undefined || owns.has(call.modelCallId), refuse)
}

/**
 * Cuts a rollout's calls, in the order in which they were made, into maximal runs whose prompts extend each other: a new
 * segment begins where a prompt does not begin with the prompt and the reply before it, or shows other pictures there.
 * Calls that generated nothing are left out, and so are runs of which nothing trains. Time is linear in the tokens of all
 * prompts.
 *
 * @param owns Ids of the calls that train; the others are context. All train when absent.
 *
 * @since 0.1.0
 * @category constructors
 */
export const segments = (
  calls: ReadonlyArray<ModelCall>,
  at?: SegmentOwner,
  owns?: ReadonlySet<string>
): Either.Either<ReadonlyArray<Segment>, SegmentError> => {
  const ids = new Set<string>()
  const runs: Array<Array<ModelCall>> = []
  const trains = ({ modelCallId }: ModelCall): boolean => owns === undefined || owns.has(modelCallId)
  for (const call of calls) {
    const checked = checkCall(call, refusing(at))
    if (Either.isLeft(checked)) return Either.left(checked.left)
    if (ids.has(call.modelCallId)) {
      return refusing(at)("duplicate_call", "two calls have this id", call.modelCallId)
    }
    ids.add(call.modelCallId)
    if (call.generationTokenIds.length === 0) continue
    const run = runs.at(-1)
    const before = run?.at(-1)
    if (run !== undefined && before !== undefined && continues(before, call)) run.push(call)
    else runs.push([call])
  }
  const kept = runs.filter((run) => run.some(trains))
  if (kept.length === 0) return refusing(at)("no_generated_token", "no call generated anything")
  return Either.all(kept.map((run, index) => joined(run, trains, refusing(at, index))))
}

// -----------------------------------------------------------------------------
// Reading
// -----------------------------------------------------------------------------

/**
 * How many tokens train: those of the mask, without the first token, which nothing predicts.
 *
 * @since 0.1.0
 * @category queries
 */
export const trainableTokens = ({ tokenMask }: Segment): number => {
  let count = 0
  for (let at = 1; at < tokenMask.length; at++) count += tokenMask[at] ?? 0
  return count
}

/**
 * `[tokens]`: 1 where a token is a picture's that the processor put there. Where it is 0, a picture's token is text, also
 * when the policy generated it.
 *
 * @since 0.1.0
 * @category queries
 */
export const mediaMask = ({ images, tokenIds }: Segment): Uint8Array => owned(tokenIds.length, images)

/**
 * Whether a segment was cut off by the row length: it has exactly as many tokens as a row may have. More are an error,
 * because cutting them would lose tokens that were sampled.
 *
 * @since 0.1.0
 * @category checks
 */
export const truncated = (
  { tokenIds }: Segment,
  maxSequenceLength: number,
  at?: SegmentOwner
): Either.Either<boolean, SegmentError> =>
  tokenIds.length > maxSequenceLength
    ? refusing(at)("too_long", `a segment has ${tokenIds.length} tokens, and a row at most ${maxSequenceLength}`)
    : Either.right(tokenIds.length === maxSequenceLength)

/**
 * Whether a row trains: its own sample mask, unless the rollout is masked, or it was truncated and overlong rows are
 * filtered. The reward of a filtered row still counts in its group's baseline.
 *
 * @since 0.1.0
 * @category queries
 */
export const effectiveSampleMask = (row: {
  readonly sampleMask: 0 | 1
  readonly maskSample: boolean
  readonly truncated: boolean
  readonly overlongFiltering: boolean
}): 0 | 1 => (row.maskSample || (row.truncated && row.overlongFiltering) ? 0 : row.sampleMask)
