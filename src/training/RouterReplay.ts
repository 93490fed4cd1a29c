/**
 * Router replay: the experts that the engine chose for each token travel with the tokens, so that the trainer can send
 * them the same way (R3, arXiv 2510.11370).
 *
 * The trainer takes the recorded indices alone and weighs the experts by its own logits, so the gradient goes on through
 * its router.
 *
 * @since 0.1.0
 */
import * as Either from "effect/Either"
import * as Schema from "effect/Schema"

// -----------------------------------------------------------------------------
// Models
// -----------------------------------------------------------------------------

/**
 * The integers of an envelope, little-endian on every machine.
 *
 * @since 0.1.0
 * @category models
 */
export const RouteType = Schema.Literal("int8", "int16", "int32")

/**
 * @since 0.1.0
 * @category models
 */
export type RouteType = typeof RouteType.Type

/**
 * The experts of a sequence, `[tokens, layers, topK]`, the last index fastest. A choice is the `topK` experts of one token
 * in one layer; a choice of `-1` alone leaves it to the trainer's own router.
 *
 * @since 0.1.0
 * @category models
 */
export interface Routes {
  readonly tokens: number
  /** Layers that have experts. */
  readonly layers: number
  readonly topK: number
  readonly experts: Int32Array
}

/**
 * Where nothing is recorded.
 *
 * @since 0.1.0
 * @category constants
 */
export const sentinel = -1

/**
 * Routes that cannot be read or replayed.
 *
 * - `envelope`: the text is no envelope
 * - `shape`: the sizes don't fit
 * - `partial`: a choice has some experts and some `-1`
 * - `duplicate`: a choice names an expert twice
 * - `range`: an expert is not one of the model's, or does not fit the integers asked for
 *
 * @since 0.1.0
 * @category errors
 */
export class RouteError extends Schema.TaggedError<RouteError>("deskhand/training/RouteError")("RouteError", {
  reason: Schema.Literal("envelope", "shape", "partial", "duplicate", "range"),
  detail: Schema.String,
  token: Schema.optionalWith(Schema.Number, { exact: true }),
  layer: Schema.optionalWith(Schema.Number, { exact: true })
}) {
  override get message() {
    const where = this.token === undefined ? "" : ` (token ${this.token}, layer ${this.layer})`
    return `routed experts${where}: ${this.detail}`
  }
}

const refuse = (reason: RouteError["reason"], detail: string, token?: number, layer?: number) =>
  Either.left(
    new RouteError({
      reason,
      detail,
      ...(token === undefined ? {} : { token }),
      ...(layer === undefined ? {} : { layer })
    })
  )

// -----------------------------------------------------------------------------
// Envelope
// -----------------------------------------------------------------------------

const magic = "nrlre1"

const widths: Readonly<Record<RouteType, number>> = { int8: 1, int16: 2, int32: 4 }

/**
 * The narrowest type that holds all experts.
 *
 * @since 0.1.0
 * @category encoding
 */
export const smallestType = (experts: Int32Array): RouteType => {
  let most = 0
  for (const expert of experts) if (expert > most) most = expert
  return most <= 0x7f ? "int8" : most <= 0x7fff ? "int16" : "int32"
}

/**
 * `nrlre1:{type}:{tokens}x{layers}x{topK}:{base64}`. Fails where an expert does not fit the type.
 *
 * @since 0.1.0
 * @category encoding
 */
export const encode = (routes: Routes, type: RouteType): Either.Either<string, RouteError> => {
  const { experts, layers, tokens, topK } = routes
  const size = tokens * layers * topK
  if (experts.length !== size) {
    return refuse("shape", `${tokens}x${layers}x${topK} is ${size} experts, and there are ${experts.length}`)
  }
  const width = widths[type]
  const bytes = Buffer.alloc(size * width)
  const most = 2 ** (8 * width - 1) - 1
  for (let at = 0; at < size; at++) {
    const expert = experts[at] ?? sentinel
    if (expert > most || expert < sentinel) {
      const token = Math.floor(at / (layers * topK))
      return refuse("range", `expert ${expert} is no ${type}`, token, Math.floor(at / topK) % layers)
    }
    bytes.writeIntLE(expert, at * width, width)
  }
  return Either.right(`${magic}:${type}:${tokens}x${layers}x${topK}:${bytes.toString("base64")}`)
}

const shapePattern = /^(\d{1,9})x(\d{1,9})x(\d{1,9})$/
const base64Pattern = /^[A-Za-z0-9+/]*={0,2}$/

const isRouteType = Schema.is(RouteType)

const decodeText = (text: string): Either.Either<Routes, RouteError> => {
  const [head, type, shape = "", data, ...rest] = text.split(":")
  if (head !== magic || data === undefined || rest.length > 0) {
    return refuse("envelope", `expected ${magic}:type:SxLxK:base64`)
  }
  if (!isRouteType(type)) return refuse("envelope", `${type} is none of ${RouteType.literals.join(", ")}`)
  const sizes = shapePattern.exec(shape)
  if (sizes === null) return refuse("envelope", `${shape} is no shape of three numbers`)
  if (data.length % 4 !== 0 || !base64Pattern.test(data)) return refuse("envelope", "its data are no base64")
  const [tokens = 0, layers = 0, topK = 0] = sizes.slice(1).map(Number)
  const size = tokens * layers * topK
  const width = widths[type]
  const bytes = Buffer.from(data, "base64")
  if (bytes.length !== size * width) {
    return refuse("shape", `${shape} of ${type} is ${size * width} bytes, and there are ${bytes.length}`)
  }
  const experts = new Int32Array(size)
  for (let at = 0; at < size; at++) experts[at] = bytes.readIntLE(at * width, width)
  return Either.right({ tokens, layers, topK, experts })
}

const isList = (value: unknown): value is ReadonlyArray<unknown> => Array.isArray(value)

const decodeLists = (value: ReadonlyArray<unknown>): Either.Either<Routes, RouteError> => {
  const firstToken = value[0]
  const firstChoice = isList(firstToken) ? firstToken[0] : undefined
  const layers = isList(firstToken) ? firstToken.length : 0
  const topK = isList(firstChoice) ? firstChoice.length : 0
  const experts = new Int32Array(value.length * layers * topK)
  for (const [token, choices] of value.entries()) {
    if (!isList(choices) || choices.length !== layers) {
      return refuse("shape", `expected the choices of ${layers} layers`, token, 0)
    }
    for (const [layer, choice] of choices.entries()) {
      if (!isList(choice) || choice.length !== topK) return refuse("shape", `expected ${topK} experts`, token, layer)
      for (const [at, expert] of choice.entries()) {
        if (typeof expert !== "number" || !Number.isInteger(expert) || Math.abs(expert) > 0x7fffffff) {
          return refuse("range", `${String(expert)} is no expert`, token, layer)
        }
        experts[(token * layers + layer) * topK + at] = expert
      }
    }
  }
  return Either.right({ tokens: value.length, layers, topK, experts })
}

/**
 * Reads an envelope, or lists in lists as older engines send them. What the experts are is checked by `validate`.
 *
 * @since 0.1.0
 * @category decoding
 */
export const decode = (value: unknown): Either.Either<Routes, RouteError> => {
  if (typeof value === "string") return decodeText(value)
  return isList(value) ? decodeLists(value) : refuse("envelope", "expected an envelope or lists of experts")
}

// -----------------------------------------------------------------------------
// Checks
// -----------------------------------------------------------------------------

/**
 * Every choice must be `-1` alone, or `topK` different experts, each of `0` to `experts - 1`; to any number when `experts`
 * is absent.
 *
 * @since 0.1.0
 * @category checks
 */
export const validate = (routes: Routes, experts?: number): Either.Either<Routes, RouteError> => {
  const { layers, tokens, topK } = routes
  for (let choice = 0; choice < tokens * layers; choice++) {
    const start = choice * topK
    const token = Math.floor(choice / layers)
    const layer = choice % layers
    let missing = 0
    for (let at = 0; at < topK; at++) {
      const expert = routes.experts[start + at] ?? sentinel
      if (expert === sentinel) missing++
      else if (expert < 0 || (experts !== undefined && expert >= experts)) {
        const known = experts === undefined ? "" : ` of the ${experts}`
        return refuse("range", `expert ${expert} is none${known}`, token, layer)
      }
    }
    if (missing === topK) continue
    if (missing > 0) return refuse("partial", `${missing} of ${topK} experts are missing`, token, layer)
    for (let at = 1; at < topK; at++) {
      const expert = routes.experts[start + at]
      // topK is small: comparing each with each takes no memory.
      for (let before = 0; before < at; before++) {
        if (routes.experts[start + before] === expert) {
          return refuse("duplicate", `expert ${expert} is there twice`, token, layer)
        }
      }
    }
  }
  return Either.right(routes)
}

const sizeOf = ({ layers, topK }: Routes): number => layers * topK

const recorded = (routes: Routes, token: number): boolean => {
  const start = token * sizeOf(routes)
  for (let at = start; at < start + sizeOf(routes); at++) if (routes.experts[at] !== sentinel) return true
  return false
}

// -----------------------------------------------------------------------------
// Segments
// -----------------------------------------------------------------------------

/**
 * The routes of one call and what they must cover.
 *
 * @since 0.1.0
 * @category models
 */
export interface CallRoutes {
  /** Tokens of the call's prompt and reply together. */
  readonly length: number
  /** For all of them, or for all but the last; `undefined` where the engine sent none. */
  readonly routes: Routes | undefined
}

/**
 * The routes of calls whose prompts extend each other, `[length of the last, layers, topK]`; `undefined` where no call has
 * any.
 *
 * A token keeps the choice of the first call that has one. The last token of a reply went through no layer in its own
 * call: its choice is the one that the next call made when it read it, and of the very last token it is left open.
 *
 * @since 0.1.0
 * @category constructors
 */
export const assemble = (calls: ReadonlyArray<CallRoutes>): Either.Either<Routes | undefined, RouteError> => {
  const first = calls.find(({ routes }) => routes !== undefined)?.routes
  const last = calls.at(-1)
  if (first === undefined || last === undefined) return Either.right(undefined)
  const { layers, topK } = first
  const width = sizeOf(first)
  const whole: Routes = { tokens: last.length, layers, topK, experts: new Int32Array(last.length * width).fill(-1) }
  for (const { length, routes } of calls) {
    if (routes === undefined) continue
    if (routes.layers !== layers || routes.topK !== topK) {
      return refuse("shape", `${routes.layers}x${routes.topK} follows ${layers}x${topK}`)
    }
    if (routes.tokens !== length && routes.tokens !== length - 1) {
      return refuse("shape", `a call of ${length} tokens has the routes of ${routes.tokens}`)
    }
    for (let token = 0; token < routes.tokens && token < whole.tokens; token++) {
      if (recorded(whole, token)) continue
      const start = token * width
      whole.experts.set(routes.experts.subarray(start, start + width), start)
    }
  }
  return Either.right(whole)
}

/**
 * Routes that leave every token to the trainer's own router: for rows that pad.
 *
 * @since 0.1.0
 * @category constructors
 */
export const open = (tokens: number, layers: number, topK: number): Routes => ({
  tokens,
  layers,
  topK,
  experts: new Int32Array(tokens * layers * topK).fill(sentinel)
})
