/** An upstream that does what a test says, and a gateway before it. */

import { mkdtempSync, rmSync } from "node:fs"
import { createServer, type IncomingHttpHeaders, type ServerResponse } from "node:http"
import { tmpdir } from "node:os"
import { join } from "node:path"
import * as NodeContext from "@effect/platform-node/NodeContext"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type * as Scope from "effect/Scope"
import * as ModelCallCapture from "../../src/model/ModelCallCapture.js"
import * as ModelGateway from "../../src/model/ModelGateway.js"
import * as TokenCapture from "../../src/model/TokenCapture.js"

export interface Received {
  readonly method: string
  readonly url: string
  readonly headers: IncomingHttpHeaders
  readonly body: Buffer
  /** Settles when the gateway has closed its side before the reply's end. */
  readonly gone: Promise<void>
}

export type Handler = (received: Received, response: ServerResponse) => void

export interface Upstream {
  readonly url: string
  readonly received: Array<Received>
  /** The next request that comes in. */
  readonly next: Effect.Effect<Received>
}

/** Listens on a free port of 127.0.0.1; `handler` answers. */
export const upstream = (handler: Handler): Effect.Effect<Upstream, never, Scope.Scope> =>
  Effect.gen(function* () {
    const received: Array<Received> = []
    const waiting: Array<(one: Received) => void> = []
    const server = createServer((request, response) => {
      const parts: Array<Buffer> = []
      const gone = new Promise<void>((resolve) => {
        response.on("close", () => {
          if (!response.writableFinished) resolve()
        })
      })
      request.on("data", (part: Buffer) => parts.push(part))
      request.on("end", () => {
        const one: Received = {
          method: request.method ?? "",
          url: request.url ?? "",
          headers: request.headers,
          body: Buffer.concat(parts),
          gone
        }
        received.push(one)
        handler(one, response)
        waiting.shift()?.(one)
      })
    })
    yield* Effect.acquireRelease(
      Effect.async<void>((resume) => {
        server.listen(0, "127.0.0.1", () => resume(Effect.void))
      }),
      () =>
        Effect.async<void>((resume) => {
          server.close(() => resume(Effect.void))
          server.closeAllConnections()
        })
    )
    const address = server.address()
    const port = typeof address === "object" && address !== null ? address.port : 0
    return {
      url: `http://127.0.0.1:${port}/v1`,
      received,
      next: Effect.async((resume) => {
        waiting.push((one) => resume(Effect.succeed(one)))
      })
    }
  })

/** A folder of the test's own. */
export const folder: Effect.Effect<string, never, Scope.Scope> = Effect.acquireRelease(
  Effect.sync(() => mkdtempSync(join(tmpdir(), "gateway-"))),
  (path) => Effect.sync(() => rmSync(path, { recursive: true, force: true }))
)

export interface Running {
  readonly url: string
  readonly capture: ModelCallCapture.ModelCallCapture["Type"]
  readonly tokens: TokenCapture.TokenCapture["Type"]
  readonly directory: string
}

/** A gateway that captures. */
export const gateway = (
  options: ModelGateway.ModelGatewayOptions,
  into?: string
): Effect.Effect<Running, never, Scope.Scope> =>
  Effect.gen(function* () {
    const directory = into ?? (yield* folder)
    const services = yield* Layer.build(
      ModelGateway.layer(options).pipe(
        Layer.provideMerge(
          Layer.merge(ModelCallCapture.layer({ directory }), TokenCapture.layer({ directory })).pipe(
            Layer.provide(NodeContext.layer)
          )
        )
      )
    )
    return yield* Effect.gen(function* () {
      const { url } = yield* ModelGateway.ModelGateway
      const capture = yield* ModelCallCapture.ModelCallCapture
      const tokens = yield* TokenCapture.TokenCapture
      return { url, capture, tokens, directory }
    }).pipe(Effect.provide(services))
  }).pipe(Effect.orDie)

export const json = (response: ServerResponse, status: number, body: unknown, headers: Record<string, string> = {}) => {
  response.writeHead(status, { "content-type": "application/json", ...headers })
  response.end(JSON.stringify(body))
}

/** Server-sent events, a write each. */
export const events = (response: ServerResponse, data: ReadonlyArray<string>, end = true) => {
  response.writeHead(200, { "content-type": "text/event-stream" })
  for (const one of data) response.write(`data: ${one}\n\n`)
  if (end) response.end()
}

/** A chat completion as OpenAI's API reference shows it. */
export const completion = (message: object, more: object = {}) => ({
  id: "chatcmpl-1",
  object: "chat.completion",
  created: 1_700_000_000,
  model: "stub-1",
  choices: [{ index: 0, message: { role: "assistant", ...message }, finish_reason: "stop", ...more }],
  usage: { prompt_tokens: 5, completion_tokens: 3, total_tokens: 8 }
})

export const chunk = (delta: object, finish: string | null = null, more: object = {}) =>
  JSON.stringify({
    id: "chatcmpl-1",
    object: "chat.completion.chunk",
    created: 1_700_000_000,
    model: "stub-1",
    choices: [{ index: 0, delta, finish_reason: finish, ...more }]
  })

export const usageChunk = JSON.stringify({
  id: "chatcmpl-1",
  object: "chat.completion.chunk",
  created: 1_700_000_000,
  model: "stub-1",
  choices: [],
  usage: { prompt_tokens: 5, completion_tokens: 3, total_tokens: 8 }
})
