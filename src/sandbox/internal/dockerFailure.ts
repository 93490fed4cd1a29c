/**
 * What an engine's refusals mean: pure decisions.
 */
import * as Data from "effect/Data"

/**
 * - `Unsent`: there was no connection, so the engine knows nothing of the call.
 * - `Lost`: it was sent and no answer came, or half of one. It may have happened.
 * - `Refused`: the engine's answer.
 */
export type Failure = Data.TaggedEnum<{
  Unsent: { readonly call: string; readonly reason: string; readonly denied: boolean }
  Lost: { readonly call: string; readonly reason: string }
  Refused: { readonly call: string; readonly status: number; readonly reason: string }
}>

export const Failure = Data.taggedEnum<Failure>()

export class EngineError extends Data.TaggedError("EngineError")<{ readonly failure: Failure }> {
  override get message() {
    return reasonOf(this.failure)
  }
}

export const reasonOf = (failure: Failure): string =>
  failure._tag === "Refused"
    ? failure.reason === ""
      ? `${failure.call} was answered with ${failure.status}`
      : `${failure.reason} (${failure.status})`
    : failure._tag === "Unsent"
      ? `no connection: ${failure.reason}`
      : `the connection was lost: ${failure.reason}`

export const isMissing = (failure: Failure): boolean => failure._tag === "Refused" && failure.status === 404

/** A removal that is on its way already is as good as an answer. */
export const isBeingRemoved = (failure: Failure): boolean =>
  failure._tag === "Refused" &&
  (failure.status === 409 || failure.status === 500) &&
  /removal .*(already )?in progress|marked for removal/i.test(failure.reason)

/** Podman's compatible API answers 500 where Docker answers 409. */
export const isNameTaken = (failure: Failure): boolean =>
  failure._tag === "Refused" &&
  (failure.status === 409 || (failure.status >= 500 && /name .* is already in use/i.test(failure.reason)))

/** The container ended, is paused, or is not there: the call had no effect. */
export const isNotRunning = (failure: Failure): boolean =>
  isMissing(failure) || (failure._tag === "Refused" && failure.status === 409)

export type CreateVerdict = "rejected" | "conflict" | "ambiguous" | "unavailable"

/**
 * What is known after a create that failed. An engine that answers with a 4xx has made nothing; one that answers with a
 * 5xx may have made the container and failed afterwards, and the same holds for an answer that never came.
 */
export const ofCreate = (failure: Failure): CreateVerdict => {
  switch (failure._tag) {
    case "Unsent":
      return "unavailable"
    case "Lost":
      return "ambiguous"
    case "Refused":
      return isNameTaken(failure)
        ? "conflict"
        : failure.status >= 500 || failure.status < 400
          ? "ambiguous"
          : failure.status === 401 || failure.status === 403 || failure.status === 429
            ? "unavailable"
            : "rejected"
  }
}

/** How the engine is not available. */
export const kindOf = (failure: Failure): "unreachable" | "unauthorised" | "rate_limited" | "failing" => {
  switch (failure._tag) {
    case "Unsent":
      return failure.denied ? "unauthorised" : "unreachable"
    case "Lost":
      return "unreachable"
    case "Refused":
      return failure.status === 401 || failure.status === 403
        ? "unauthorised"
        : failure.status === 429
          ? "rate_limited"
          : "failing"
  }
}
