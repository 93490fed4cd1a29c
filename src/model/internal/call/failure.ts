/**
 * What a failure means: plain functions over what the server said and how the connection ended.
 */
import { ArtifactError } from "../../../artifact/ArtifactStore.js"
import type { ModelError } from "../../ModelError.js"
import type { ExchangeFailure } from "./exchange.js"
import { decodeUtf8, keptBytes } from "./reply.js"

/**
 * Words of OpenAI, vLLM, SGLang, llama.cpp, TGI and Anthropic for a prompt that is too long, in tokens or, with many
 * images, in bytes.
 */
const overflow =
  /context_length_exceeded|request_too_large|exceed_context_size|(?:maximum|max\.?|model'?s?) context (?:length|size)|context (?:length|window|size) (?:exceed|of|is|limit)|exceeds? (?:the )?(?:available |model'?s? |maximum )*context|prompt is too long|(?:longer|larger|greater) than the (?:model'?s |maximum )*context|input (?:is )?too long|prompt contains .{0,40} tokens.{0,80}(?:context|limit)/i

/**
 * The reason behind a refusal. A prompt that is too long is told with a 400, a 413, a 422 and, by some servers, a 500.
 */
export const refusalReason = (status: number, body: string): ModelError["reason"] => {
  if (status === 401 || status === 403) return "unauthorised"
  if (status === 429) return "rate_limited"
  if (overflow.test(body)) return "context_overflow"
  // 408: the server gave up on reading the request.
  return status >= 500 || status === 408 ? "unavailable" : "bad_request"
}

/** The reason behind an error that a server reports with a 200: in mid-stream, or in a response that failed. */
export const reportedReason = (told: string, status?: number): ModelError["reason"] => {
  if (status !== undefined && status >= 400) return refusalReason(status, told)
  if (overflow.test(told)) return "context_overflow"
  if (/rate_limit|too many requests/i.test(told)) return "rate_limited"
  return /invalid_request|invalid_prompt|bad_?request/i.test(told) ? "bad_request" : "unavailable"
}

/** `Retry-After` in milliseconds from `now`: seconds, or a date; undefined where it is neither or is past. */
export const retryAfter = (value: string | undefined, now: number): number | undefined => {
  if (value === undefined || value.trim() === "") return undefined
  const seconds = Number(value)
  const wait = Number.isFinite(seconds) ? seconds * 1000 : Date.parse(value) - now
  return Number.isFinite(wait) && wait > 0 ? wait : undefined
}

/** `retry-after-ms`, which some servers send beside `Retry-After`, is the finer one. */
export const retryAfterOf = (
  headers: Readonly<Record<string, string | ReadonlyArray<string> | undefined>>,
  now: number
): number | undefined => {
  const one = (name: string) => {
    const value = headers[name]
    return typeof value === "string" ? value : value?.[0]
  }
  const fine = Number(one("retry-after-ms") ?? "")
  return Number.isFinite(fine) && fine > 0 ? fine : retryAfter(one("retry-after"), now)
}

/** The first line's worth of a body, for people. */
export const excerpt = (body: string): string => {
  const line = body.slice(0, 2_000).replace(/\s+/g, " ").trim()
  return line === "" ? "an empty body" : line.length > 300 ? `${line.slice(0, 300)}…` : line
}

/** A body as an error keeps it. `hide` takes out our own secrets, should a server repeat them. */
export const bodyFields = (
  bytes: Buffer,
  hide: (text: string) => string
): { readonly body: string } | { readonly bodyBase64: string } => {
  const kept = bytes.length > keptBytes ? bytes.subarray(0, keptBytes) : bytes
  // A cut may go through a character, which is no fault of the server's.
  const text = decodeUtf8(kept) ?? (kept.length < bytes.length ? decodeUtf8(wholeCharacters(kept)) : undefined)
  return text === undefined ? { bodyBase64: kept.toString("base64") } : { body: hide(text) }
}

const wholeCharacters = (bytes: Buffer): Buffer => {
  let end = bytes.length
  while (end > 0 && ((bytes[end - 1] ?? 0) & 0xc0) === 0x80) end--
  return bytes.subarray(0, Math.max(0, end - 1))
}

const causesOf = (error: Error): ReadonlyArray<Error> => {
  const causes: Array<Error> = []
  for (let cause: unknown = error; cause instanceof Error && causes.length < 8; cause = cause.cause) causes.push(cause)
  return causes
}

/** `connect ECONNREFUSED 127.0.0.1:8000` says more than `fetch failed`; several addresses fail as one error without words. */
const innermost = (causes: ReadonlyArray<Error>): string => {
  const words = causes.flatMap((cause) => [
    cause.message,
    ...(cause instanceof AggregateError
      ? [cause.errors.flatMap((one) => (one instanceof Error ? [one.message] : [])).join("; ")]
      : [])
  ])
  return words.findLast((message) => message !== "") ?? "the connection broke"
}

/** What broke an exchange. */
export const broken = (
  failure: ExchangeFailure
): Pick<ModelError, "reason" | "detail"> & { readonly delivered?: false } => {
  const causes = causesOf(failure.cause)
  const artifact = causes.find((cause) => cause instanceof ArtifactError)
  if (artifact !== undefined) {
    return { reason: "artifact", detail: `an image of the prompt could not be sent: ${artifact.message}` }
  }
  const detail = innermost(causes)
  switch (failure.phase) {
    case "waiting":
      return { reason: "transport", detail, delivered: false }
    case "sent":
      return { reason: "transport", detail }
    case "replying":
      return { reason: "truncated", detail: `the reply broke off: ${detail}` }
  }
}
