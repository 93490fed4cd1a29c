/**
 * What an error of the E2B SDK means: pure readings of its name, class, status and cause. The SDK throws its own classes,
 * raw `TypeError`s of fetch and raw `DOMException`s, and gives the same class to different things on its two planes.
 */
import { exitCodeOf } from "./signalWords.js"

/** The parts of an error that the classification reads; `of` takes them out of whatever was thrown. */
export interface Facts {
  readonly name: string
  readonly message: string
  readonly statusCode: number | undefined
  /** `cause.code`, as undici and Node set it. */
  readonly causeCode: string | undefined
  /** Milliseconds that the service asked to wait. */
  readonly retryAfter: number | undefined
}

/**
 * - `Rejected`: the service said no before it did anything.
 * - `Unavailable`: the request never arrived, or was turned away at the door.
 * - `Ambiguous`: it may have been done.
 * - `NotFound`: the service that knows says that there is no such thing.
 * - `Gone`: the sandbox was killed or came to its end.
 * - `TimedOut`: no answer in time.
 */
export type Classified =
  | { readonly _tag: "Rejected"; readonly reason: string }
  | {
      readonly _tag: "Unavailable"
      readonly kind: "unreachable" | "unauthorised" | "rate_limited" | "failing"
      readonly reason: string
      readonly retryAfter: number | undefined
    }
  | { readonly _tag: "Ambiguous"; readonly reason: string }
  | { readonly _tag: "NotFound"; readonly reason: string }
  | { readonly _tag: "Gone"; readonly reason: string }
  | { readonly _tag: "TimedOut"; readonly reason: string }

const property = (value: unknown, key: string): unknown =>
  typeof value === "object" && value !== null && key in value ? (value as Record<string, unknown>)[key] : undefined

const text = (value: unknown): string | undefined => (typeof value === "string" ? value : undefined)

const finite = (value: unknown): number | undefined =>
  typeof value === "number" && Number.isFinite(value) ? value : undefined

/** An SDK from before 2.49 sets no `statusCode`, but begins the message with it. */
const leadingStatus = (name: string, message: string): number | undefined => {
  const found = name === "SandboxError" ? /^([1-5]\d\d): /.exec(message) : null
  return found === null ? undefined : Number(found[1])
}

export const of = (thrown: unknown): Facts => {
  const name = text(property(thrown, "name")) ?? typeof thrown
  const own = text(property(thrown, "message")) ?? String(thrown)
  const cause = property(thrown, "cause")
  const causeMessage = text(property(cause, "message"))
  return {
    name,
    message: causeMessage === undefined || causeMessage === "" ? own : `${own}: ${causeMessage}`,
    statusCode: finite(property(thrown, "statusCode")) ?? leadingStatus(name, own),
    causeCode: text(property(cause, "code")) ?? text(property(property(cause, "cause"), "code")),
    retryAfter: finite(property(thrown, "retryAfter"))
  }
}

/** Codes of a connection that was never made, so nothing was sent over it. */
const neverSent =
  /^(ECONNREFUSED|ENOTFOUND|EAI_AGAIN|EHOSTUNREACH|ENETUNREACH|UND_ERR_CONNECT_TIMEOUT|ERR_INVALID_URL|CERT_.*|ERR_TLS_.*|DEPTH_ZERO_SELF_SIGNED_CERT|SELF_SIGNED_CERT_IN_CHAIN|UNABLE_TO_.*)$/

const unavailable = (
  kind: "unreachable" | "unauthorised" | "rate_limited" | "failing",
  { message, retryAfter }: Facts
): Classified => ({ _tag: "Unavailable", kind, reason: message, retryAfter })

const timedOut = (facts: Facts): boolean => facts.name === "TimeoutError" || facts.name === "AbortError"

/**
 * An error of a create or a fork. Only what is certain to have been refused before any work is `Rejected` or
 * `Unavailable`; all the rest may have left a sandbox behind, a 503 and a reply that makes no sense among it.
 */
export const ofCreate = (facts: Facts): Classified => {
  const { causeCode, message, name, statusCode } = facts
  if (name === "AuthenticationError" || statusCode === 401 || statusCode === 403) {
    return unavailable("unauthorised", facts)
  }
  if (name === "RateLimitError" || statusCode === 429) return unavailable("rate_limited", facts)
  if (causeCode !== undefined && neverSent.test(causeCode)) return unavailable("unreachable", facts)
  if (name === "InvalidArgumentError" || statusCode === 400 || statusCode === 404 || statusCode === 405) {
    return { _tag: "Rejected", reason: message }
  }
  if (name === "SandboxNotFoundError" || name === "NotFoundError") return { _tag: "NotFound", reason: message }
  // The SDK has sent the delete itself, and whether it worked is not known.
  return { _tag: "Ambiguous", reason: message }
}

/** An error of any other call to the control plane. These are safe to repeat. */
export const ofControl = (facts: Facts): Classified => {
  const { causeCode, message, name, statusCode } = facts
  // A gateway's 404 without a body has no code for the SDK to see.
  if (name === "SandboxNotFoundError" || name === "NotFoundError" || statusCode === 404) {
    return { _tag: "NotFound", reason: message }
  }
  if (name === "AuthenticationError" || statusCode === 401 || statusCode === 403) {
    return unavailable("unauthorised", facts)
  }
  if (name === "RateLimitError" || statusCode === 429) return unavailable("rate_limited", facts)
  if (name === "InvalidArgumentError" || statusCode === 400) return { _tag: "Rejected", reason: message }
  if (timedOut(facts)) return { _tag: "TimedOut", reason: message }
  if (causeCode !== undefined || (name === "TypeError" && /fetch failed|terminated/.test(message))) {
    return unavailable("unreachable", facts)
  }
  return unavailable("failing", facts)
}

/**
 * An error of the data plane. `SandboxNotFoundError` is no proof of absence here: the gateway's 429, 502, 503 and 504 get
 * that class, too, most often when the sandbox is not listening yet. `Unavailable` means that the sandbox never saw it.
 */
export const ofData = (facts: Facts): Classified => {
  const { causeCode, message, name, statusCode } = facts
  if (name === "FileNotFoundError") return { _tag: "NotFound", reason: message }
  if (name === "AuthenticationError" || statusCode === 401 || statusCode === 403) {
    return unavailable("unauthorised", facts)
  }
  if (name === "RateLimitError" || statusCode === 429) return unavailable("rate_limited", facts)
  if (name === "SandboxNotFoundError") return unavailable("unreachable", facts)
  if (name === "NotFoundError" || statusCode === 404) return { _tag: "NotFound", reason: message }
  if (name === "TimeoutError" && /killed or reached its end of life/.test(message)) {
    return { _tag: "Gone", reason: message }
  }
  if (timedOut(facts)) return { _tag: "TimedOut", reason: message }
  if (name === "InvalidArgumentError" || statusCode === 400) return { _tag: "Rejected", reason: message }
  if (causeCode !== undefined && neverSent.test(causeCode)) return unavailable("unreachable", facts)
  return { _tag: "Ambiguous", reason: message }
}

/**
 * The exit code that envd's `end` event means, 128 and the signal's number after a signal, and undefined where it names
 * none: a missing code arrives as 0, so a 0 with an error is no exit code.
 */
export const exitCode = (code: number, error: string | undefined): number | undefined => {
  const words = /^signal: (.*?)(?: \(core dumped\))?$/.exec(error ?? "")?.[1]
  if (words !== undefined) return exitCodeOf(words)
  if (!Number.isInteger(code) || code < 0) return undefined
  return code === 0 && error !== undefined && error !== "" ? undefined : code
}
