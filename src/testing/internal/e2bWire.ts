/**
 * Requests and answers in Node's own terms, and Connect's envelopes.
 */
import type { IncomingMessage, ServerResponse } from "node:http"
import * as Effect from "effect/Effect"

export type Json = string | number | boolean | null | undefined | { readonly [key: string]: Json } | ReadonlyArray<Json>

/** `lost`: the connection is cut instead. An undefined body is none. */
export interface Reply {
  readonly status: number
  readonly body?: Json
  readonly headers?: Readonly<Record<string, string>>
  readonly lost?: true
}

export const problem = (code: number, message: string): Reply => ({ status: code, body: { code, message } })

export const send = (response: ServerResponse, reply: Reply): void => {
  if (reply.lost === true) {
    response.destroy()
    return
  }
  if (response.headersSent || response.destroyed) return
  const text = reply.body === undefined ? "" : JSON.stringify(reply.body)
  response.writeHead(reply.status, {
    ...(reply.body === undefined ? {} : { "content-type": "application/json" }),
    ...reply.headers
  })
  response.end(text)
}

/** No request but a file's content is larger. */
const bodyLimit = 4 * 1024 * 1024

/** The body, whole; undefined when it is too large or the client left. */
export const readBody = (request: IncomingMessage): Effect.Effect<Buffer | undefined> =>
  Effect.async((resume) => {
    const parts: Array<Buffer> = []
    let size = 0
    request.on("data", (part: Buffer) => {
      size += part.length
      if (size <= bodyLimit) parts.push(part)
    })
    request.on("end", () => resume(Effect.succeed(size <= bodyLimit ? Buffer.concat(parts) : undefined)))
    request.on("error", () => resume(Effect.succeed(undefined)))
    request.on("close", () => resume(Effect.succeed(undefined)))
  })

export const header = (request: IncomingMessage, name: string): string | undefined => {
  const value = request.headers[name]
  return Array.isArray(value) ? value[0] : value
}

export const envelope = (flags: number, message: Json): Buffer => {
  const body = Buffer.from(JSON.stringify(message))
  const head = Buffer.alloc(5)
  head.writeUInt8(flags, 0)
  head.writeUInt32BE(body.length, 1)
  return Buffer.concat([head, body])
}

/** The last envelope of a stream. */
export const endOfStream = (error?: { readonly code: string; readonly message: string }): Buffer =>
  envelope(2, error === undefined ? {} : { error })

/** The JSON of a request's only envelope. */
export const opened = (body: Buffer): string | undefined => {
  if (body.length < 5) return undefined
  const size = body.readUInt32BE(1)
  return body.length === size + 5 ? body.subarray(5).toString("utf8") : undefined
}

/** Writes, and waits for a slow reader. A reader that left is none. */
export const write = (response: ServerResponse, bytes: Uint8Array): Effect.Effect<void> =>
  Effect.async((resume) => {
    if (response.destroyed || response.writableEnded || response.write(bytes)) {
      resume(Effect.void)
      return
    }
    const done = () => {
      response.off("drain", done)
      response.off("close", done)
      resume(Effect.void)
    }
    response.on("drain", done)
    response.on("close", done)
  })
