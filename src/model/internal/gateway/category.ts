/**
 * What was wrong with a call, in one word.
 */
import type { ErrorCategory } from "../../ModelCallCapture.js"
import { isObject, type JsonObject } from "../streams/streamError.js"
import type { Dialect, Refusal } from "./refusal.js"

/** By the upstream's status alone; null where it says nothing is wrong. */
export const ofStatus = (status: number): ErrorCategory | null => {
  if (status === 408 || status === 504) return "timeout"
  if (status === 429) return "rate_limit"
  if (status === 401 || status === 403) return "auth"
  if (status === 404) return "not_found"
  if (status >= 500) return "upstream_error"
  return status >= 400 ? "client_error" : null
}

const choices = (reply: JsonObject): ReadonlyArray<unknown> => {
  const value = reply["choices"]
  return Array.isArray(value) ? value : []
}

/** By what a successful reply says of itself. */
export const ofReply = (dialect: Dialect, reply: JsonObject): ErrorCategory | null => {
  switch (dialect) {
    case "chat":
      return choices(reply).some((choice) => isObject(choice) && choice["finish_reason"] === "length")
        ? "incomplete"
        : null
    case "responses":
      if (reply["status"] === "failed") return "upstream_error"
      return reply["status"] === "incomplete" ? "incomplete" : null
    case "messages":
      return reply["stop_reason"] === "max_tokens" ? "incomplete" : null
  }
}

/** By why the gateway itself answered. */
export const ofRefusal = (code: Refusal["code"]): ErrorCategory => {
  switch (code) {
    case "upstream_timeout":
      return "timeout"
    case "upstream_unreachable":
    case "upstream_broke":
      return "connection"
    case "upstream_malformed":
    case "upstream_too_large":
      return "capture_parse_error"
    case "gateway_bug":
      return "exception"
    default:
      return "refused"
  }
}
