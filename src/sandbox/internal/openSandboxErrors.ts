/** What a failure of the service means for what was asked, as plain decisions over plain data. */
import { ProviderUnavailable, SandboxCreateAmbiguous, SandboxCreateRejected } from "../SandboxError.js"

export const provider = "opensandbox"

export type ApiFailure =
  /** Nothing was sent: no connection came about. */
  | { readonly _tag: "NotSent"; readonly reason: string }
  /** It may have arrived, and no whole answer came back. */
  | { readonly _tag: "Lost"; readonly reason: string }
  | {
      readonly _tag: "Status"
      readonly status: number
      /** The service's own code: `DOCKER::SANDBOX_NOT_FOUND`; empty where there is none. */
      readonly code: string
      readonly message: string
      /** Milliseconds. */
      readonly retryAfter: number | undefined
    }
  /** The answer says that it worked, and is not what it should be. */
  | { readonly _tag: "Malformed"; readonly status: number; readonly reason: string }

/** Codes of node and undici that say that no connection came about. */
const unsent = new Set([
  "ECONNREFUSED",
  "ENOTFOUND",
  "EAI_AGAIN",
  "EHOSTUNREACH",
  "ENETUNREACH",
  "ENOENT",
  "UND_ERR_CONNECT_TIMEOUT",
  "CERT_HAS_EXPIRED",
  "DEPTH_ZERO_SELF_SIGNED_CERT",
  "SELF_SIGNED_CERT_IN_CHAIN",
  "UNABLE_TO_VERIFY_LEAF_SIGNATURE",
  "UNABLE_TO_GET_ISSUER_CERT_LOCALLY",
  "ERR_TLS_CERT_ALTNAME_INVALID"
])

/** Follows causes, as undici and Node nest them. */
const codes = (cause: unknown, depth = 0): ReadonlyArray<string> => {
  if (typeof cause !== "object" || cause === null || depth > 4) {
    return []
  }
  const code = "code" in cause && typeof cause.code === "string" ? [cause.code] : []
  const inner = "cause" in cause ? codes(cause.cause, depth + 1) : []
  const several =
    "errors" in cause && Array.isArray(cause.errors) ? cause.errors.flatMap((each) => codes(each, depth + 1)) : []
  return [...code, ...inner, ...several]
}

/** A failure to send or to receive. */
export const ofTransport = (cause: unknown): ApiFailure => {
  const found = codes(cause)
  const said = cause instanceof Error && cause.message !== "" ? cause.message : (found[0] ?? String(cause))
  return found.length > 0 && found.every((code) => unsent.has(code))
    ? { _tag: "NotSent", reason: said }
    : { _tag: "Lost", reason: said }
}

/** Seconds or a date, as milliseconds from `now`. */
export const retryAfter = (header: string | undefined, now: number): number | undefined => {
  if (header === undefined || header.trim() === "") {
    return undefined
  }
  const seconds = Number(header)
  const millis = Number.isFinite(seconds) ? seconds * 1000 : Date.parse(header) - now
  return Number.isFinite(millis) ? Math.max(0, millis) : undefined
}

export const describe = (failure: ApiFailure): string => {
  switch (failure._tag) {
    case "NotSent":
    case "Lost":
      return failure.reason
    case "Malformed":
      return `it answered ${failure.status} with something else than it should: ${failure.reason}`
    case "Status":
      return `it answered ${failure.status}${failure.code === "" ? "" : ` ${failure.code}`}${
        failure.message === "" ? "" : `: ${failure.message}`
      }`
  }
}

/** Whatever is not a create: the service does not answer, or not now. */
export const unavailable = (operation: string, failure: ApiFailure): ProviderUnavailable => {
  const reason = describe(failure)
  switch (failure._tag) {
    case "NotSent":
    case "Lost":
      return new ProviderUnavailable({ provider, operation, kind: "unreachable", reason })
    case "Malformed":
      return new ProviderUnavailable({ provider, operation, kind: "failing", reason })
    case "Status":
      return new ProviderUnavailable({
        provider,
        operation,
        kind:
          failure.status === 401 || failure.status === 403
            ? "unauthorised"
            : failure.status === 429
              ? "rate_limited"
              : "failing",
        reason,
        ...(failure.retryAfter === undefined ? {} : { retryAfter: failure.retryAfter })
      })
  }
}

/**
 * A failed create. That nothing exists is said only where the service refused before it began: a 5xx can come from a
 * gateway that lost the service, and from a service that began and cleaned up badly.
 */
export const ofCreate = (
  attemptKey: string,
  failure: ApiFailure
): SandboxCreateRejected | SandboxCreateAmbiguous | ProviderUnavailable => {
  const ambiguous = () => new SandboxCreateAmbiguous({ provider, attemptKey, reason: describe(failure) })
  if (failure._tag === "NotSent") {
    return unavailable("create", failure)
  }
  if (failure._tag !== "Status") {
    return ambiguous()
  }
  const { status } = failure
  if (status === 401 || status === 403 || status === 425 || status === 429) {
    return unavailable("create", failure)
  }
  if (status >= 300 && status < 400) {
    return new SandboxCreateRejected({
      provider,
      reason: describe(failure),
      remedy: "Redirects are not followed, so that the key goes nowhere else: name the final address as the base URL"
    })
  }
  return status >= 400 && status < 500 && status !== 408
    ? new SandboxCreateRejected({ provider, reason: describe(failure), remedy: "Correct the spec or the base URL" })
    : ambiguous()
}
