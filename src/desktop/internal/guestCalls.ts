/**
 * What the guest's client makes of answers, and how it writes an upload.
 */
import * as Fs from "node:fs"
import * as Path from "node:path"
import * as HttpClientError from "@effect/platform/HttpClientError"
import * as NodeStream from "@effect/platform-node/NodeStream"
import * as Data from "effect/Data"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as ParseResult from "effect/ParseResult"
import type * as Stream from "effect/Stream"
import { type GuestErrorReason, GuestUploadUnreadable } from "../GuestError.js"

export class RefusedAnswer extends Data.TaggedError("RefusedAnswer")<{
  readonly status: number
  readonly text: string
}> {}

type CallError = RefusedAnswer | HttpClientError.HttpClientError | ParseResult.ParseError | { readonly _tag: "Other" }

const detailLimit = 2000

/** What a server said in an answer other than success: its message when the answer has one, else its text. */
const detailOf = (text: string): string => {
  const said = Option.getOrElse(
    Option.flatMap(Option.liftThrowable((): unknown => JSON.parse(text))(), (json) =>
      typeof json === "object" && json !== null
        ? Option.fromNullable(
            "message" in json && typeof json.message === "string"
              ? json.message
              : "error" in json && typeof json.error === "string"
                ? json.error
                : undefined
          )
        : Option.none()
    ),
    () =>
      text
        .replace(/<[^>]*>/g, " ")
        .replace(/\s+/g, " ")
        .trim()
  )
  return said === "" ? "it said nothing" : said.slice(0, detailLimit)
}

const transportDetail = (cause: unknown): string => {
  if (!(cause instanceof Error)) return String(cause)
  const inner = cause.cause instanceof Error ? `: ${cause.cause.message}` : ""
  return `${cause.message}${inner}`
}

export const reasonOf = (error: CallError): GuestErrorReason => {
  switch (error._tag) {
    case "RefusedAnswer":
      // No guest answers these; a gateway does, for a guest that it does not reach.
      if ([502, 503, 504].includes(error.status)) {
        return { _tag: "Unreachable", detail: `a gateway answered ${error.status}: ${detailOf(error.text)}` }
      }
      return { _tag: "Refused", status: error.status, detail: detailOf(error.text) }
    case "RequestError":
      return { _tag: "Unreachable", detail: transportDetail(error.cause) }
    case "ResponseError":
      // A body that broke off has a cause, a body of an unknown form has none.
      return error.cause === undefined
        ? { _tag: "Malformed", detail: `status ${error.response.status} is not one of this call's` }
        : { _tag: "Unreachable", detail: transportDetail(error.cause) }
    case "ParseError":
      return { _tag: "Malformed", detail: ParseResult.TreeFormatter.formatErrorSync(error).slice(0, detailLimit) }
    case "Other":
      return { _tag: "Malformed", detail: "the guest refused in an unknown way" }
  }
}

/** Errors of calls as the ones that are told apart; the protocol's own are answered before they are decoded. */
export const asCallError = (error: unknown): CallError =>
  error instanceof RefusedAnswer || HttpClientError.isHttpClientError(error) || ParseResult.isParseError(error)
    ? error
    : { _tag: "Other" }

export const sizeOf = (path: string): Effect.Effect<number, GuestUploadUnreadable> =>
  Effect.map(
    Effect.tryPromise({
      try: () => Fs.promises.stat(path),
      catch: (cause) => unreadable(path, cause)
    }),
    ({ size }) => size
  )

export const fileStream = (path: string): Stream.Stream<Uint8Array, GuestUploadUnreadable> =>
  NodeStream.fromReadable<GuestUploadUnreadable, Uint8Array>(
    () => Fs.createReadStream(path),
    (cause) => unreadable(path, cause)
  )

const unreadable = (path: string, cause: unknown) =>
  new GuestUploadUnreadable({ path, detail: cause instanceof Error ? cause.message : String(cause) })

// The path comes before the file: a server that streams knows where to put it.
export const formHead = (boundary: string, path: string): string => {
  const name = Path.posix.basename(path).replace(/[\r\n"]/g, "_")
  return (
    `--${boundary}\r\nContent-Disposition: form-data; name="file_path"\r\n\r\n${path}\r\n` +
    `--${boundary}\r\nContent-Disposition: form-data; name="file_data"; filename="${name}"\r\n` +
    "Content-Type: application/octet-stream\r\n\r\n"
  )
}
