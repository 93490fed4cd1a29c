/** A model server of a few lines, on a real socket: what it was sent is kept, what it answers is the test's. */
import { createServer, type IncomingHttpHeaders, type ServerResponse } from "node:http"
import * as FileSystem from "@effect/platform/FileSystem"
import * as NodeContext from "@effect/platform-node/NodeContext"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as ArtifactStore from "../../src/artifact/ArtifactStore.js"
import * as Connections from "../../src/model/Connections.js"
import { text, user } from "../../src/model/Conversation.js"
import { ModelRequest } from "../../src/model/ModelClient.js"
import { RetryPolicy } from "../../src/model/Retry.js"
import { Sampling } from "../../src/model/Sampling.js"
import * as Simulator from "../rollout/simulator.js"

export interface Received {
  readonly path: string
  readonly headers: IncomingHttpHeaders
  readonly body: Record<string, unknown>
}

export type Answer = (response: ServerResponse, request: Received) => void

/** Serves each answer in turn, the last for ever, on a free port of 127.0.0.1; open connections are cut at the end. */
export const stub = (...answers: ReadonlyArray<Answer>) =>
  Effect.acquireRelease(
    Effect.async<{ readonly url: string; readonly received: Array<Received>; readonly close: Effect.Effect<void> }>(
      (resume) => {
        const received: Array<Received> = []
        const server = createServer((request, response) => {
          const chunks: Array<Uint8Array> = []
          request.on("error", () => {})
          response.on("error", () => {})
          request.on("data", (chunk: Uint8Array) => chunks.push(chunk))
          request.on("end", () => {
            const sent = Buffer.concat(chunks).toString()
            const body = sent === "" ? {} : (JSON.parse(sent) as Record<string, unknown>)
            const one = { path: request.url ?? "", headers: request.headers, body }
            received.push(one)
            answers[Math.min(received.length, answers.length) - 1]?.(response, one)
          })
        })
        const close = Effect.async<void>((done) => {
          server.closeAllConnections()
          server.close(() => done(Effect.void))
        })
        server.listen(0, "127.0.0.1", () => {
          const address = server.address()
          const port = typeof address === "object" && address !== null ? address.port : 0
          resume(Effect.succeed({ url: `http://127.0.0.1:${port}/v1`, received, close }))
        })
      }
    ),
    ({ close }) => close
  )

export const json =
  (value: unknown, status = 200, headers: Readonly<Record<string, string>> = {}): Answer =>
  (response) => {
    response.writeHead(status, { "content-type": "application/json", ...headers }).end(JSON.stringify(value))
  }

export const bytes =
  (body: string | Uint8Array, status = 200, headers: Readonly<Record<string, string>> = {}): Answer =>
  (response) => {
    response.writeHead(status, headers).end(body)
  }

/** Sends these pieces apart, each when the socket has taken the one before it; then ends, cuts the line, or is silent. */
export const pieces =
  (
    parts: ReadonlyArray<string | Uint8Array>,
    end: "end" | "cut" | "silence" = "end",
    headers: Readonly<Record<string, string>> = { "content-type": "text/event-stream" }
  ): Answer =>
  (response) => {
    response.writeHead(200, headers)
    response.flushHeaders()
    const next = (index: number): void => {
      const part = parts[index]
      if (part !== undefined) response.write(part, () => setImmediate(next, index + 1))
      else if (end === "end") response.end()
      else if (end === "cut") response.destroy()
    }
    next(0)
  }

/** Cuts the line before any answer. */
export const cut: Answer = (response) => {
  response.destroy()
}

export const silence: Answer = () => {}

export const completion = (
  message: Readonly<Record<string, unknown>>,
  choice: Readonly<Record<string, unknown>> = { finish_reason: "stop" },
  rest: Readonly<Record<string, unknown>> = {}
) => ({
  id: "chatcmpl-1",
  model: "served",
  choices: [{ index: 0, message: { role: "assistant", ...message }, ...choice }],
  usage: { prompt_tokens: 7, completion_tokens: 3, total_tokens: 10 },
  ...rest
})

/** Server-sent events, as the chat wire frames them. */
export const events = (...data: ReadonlyArray<unknown>): string =>
  data.map((one) => `data: ${typeof one === "string" ? one : JSON.stringify(one)}\n\n`).join("")

export const chunk = (delta: Readonly<Record<string, unknown>>, finish_reason: string | null = null) => ({
  id: "chatcmpl-1",
  model: "served",
  choices: [{ index: 0, delta, finish_reason }]
})

export const request = (sampling: Sampling = new Sampling({}), step = 0, taskIndex = 0) =>
  new ModelRequest({ messages: [user(text("hello"))], sampling, identity: Simulator.identity(taskIndex), step })

/** Does not keep tests waiting. */
export const quick = new RetryPolicy({ baseMilliseconds: 1, attempts: 3 })

const store = Layer.unwrapScoped(
  Effect.map(
    Effect.flatMap(FileSystem.FileSystem, (fs) => fs.makeTempDirectoryScoped()),
    (directory) => ArtifactStore.layer({ directory })
  )
)

export const Platform = Layer.mergeAll(Connections.layer({ connectTimeout: "2 seconds" }), store).pipe(
  Layer.provideMerge(NodeContext.layer)
)
