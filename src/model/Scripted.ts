/**
 * A model that replays what was written down for it, behind the same HTTP wire as a real one.
 *
 * @since 0.1.0
 */

import { createServer } from "node:http"
import * as FileSystem from "@effect/platform/FileSystem"
import * as HttpRouter from "@effect/platform/HttpRouter"
import * as HttpServer from "@effect/platform/HttpServer"
import type { ServeError } from "@effect/platform/HttpServerError"
import * as HttpServerRequest from "@effect/platform/HttpServerRequest"
import * as HttpServerResponse from "@effect/platform/HttpServerResponse"
import * as Path from "@effect/platform/Path"
import * as NodeHttpServer from "@effect/platform-node/NodeHttpServer"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"

/**
 * What the model replies, by task and by step (from 0): `undefined` past the end of what was written down.
 *
 * @since 0.1.0
 * @category models
 */
export type Script = (taskId: string, step: number) => string | undefined

const Headers = Schema.Struct({
  "x-deskhand-task-id": Schema.String,
  "x-deskhand-step": Schema.NumberFromString
})

const refuse = (message: string) =>
  HttpServerResponse.unsafeJson({ error: { message, type: "invalid_request_error" } }, { status: 400 })

const complete = (script: Script) =>
  Effect.gen(function* () {
    const headers = yield* HttpServerRequest.schemaHeaders(Headers)
    // What the request shows to a model is of no account here, and may be megabytes of pictures.
    yield* Stream.runDrain((yield* HttpServerRequest.HttpServerRequest).stream)
    const taskId = decodeURIComponent(headers["x-deskhand-task-id"])
    const step = headers["x-deskhand-step"]
    const content = script(taskId, step)
    if (content === undefined) return refuse(`no reply is written down for step ${step} of task ${taskId}`)
    return HttpServerResponse.unsafeJson({
      id: `chatcmpl-${taskId}-${step}`,
      object: "chat.completion",
      created: 0,
      model: "scripted",
      choices: [{ index: 0, message: { role: "assistant", content }, finish_reason: "stop" }]
    })
  }).pipe(
    Effect.catchTags({
      ParseError: (error) => Effect.succeed(refuse(error.message)),
      RequestError: (error) => Effect.succeed(refuse(error.message))
    })
  )

/**
 * Serves the script on a free port of 127.0.0.1 for as long as the scope is open, and returns the base address to give
 * to a client, such as `http://127.0.0.1:40123/v1`.
 *
 * @since 0.1.0
 * @category servers
 */
export const serve = (script: Script): Effect.Effect<string, ServeError, Scope.Scope> =>
  Effect.gen(function* () {
    const server = yield* NodeHttpServer.make(createServer, { host: "127.0.0.1", port: 0 })
    const router = HttpRouter.empty.pipe(HttpRouter.post("/v1/chat/completions", complete(script)))
    yield* server.serve(Effect.catchTag(router, "RouteNotFound", () => HttpServerResponse.empty({ status: 404 })))
    return `${HttpServer.formatAddress(server.address)}/v1`
  })

/**
 * The scripts could not be read.
 *
 * @since 0.1.0
 * @category errors
 */
export class ScriptError extends Schema.TaggedError<ScriptError>("deskhand/ScriptError")("ScriptError", {
  path: Schema.String,
  reason: Schema.String
}) {
  override get message() {
    return `${this.path}: ${this.reason}. A folder of scripts holds a file <task id>.md for each task, its replies parted by lines of ---`
  }
}

/**
 * Reads a folder of scripts: a file `<task id>.md` for each task, whose replies are parted by lines that are `---`.
 *
 * @since 0.1.0
 * @category constructors
 */
export const load = (folder: string): Effect.Effect<Script, ScriptError, FileSystem.FileSystem | Path.Path> =>
  Effect.gen(function* () {
    const fs = yield* FileSystem.FileSystem
    const path = yield* Path.Path
    const failed = (at: string) => (error: { readonly message: string }) =>
      new ScriptError({ path: at, reason: error.message })
    const names = yield* Effect.mapError(fs.readDirectory(folder), failed(folder))
    const scripts = names.filter((name) => name.endsWith(".md"))
    if (scripts.length === 0) return yield* failed(folder)({ message: "there is no script in it" })
    const replies = new Map<string, ReadonlyArray<string>>()
    for (const name of scripts) {
      const file = path.join(folder, name)
      const content = yield* Effect.mapError(fs.readFileString(file), failed(file))
      replies.set(
        name.slice(0, -".md".length),
        content.split(/^---[ \t]*\r?$/m).map((reply) => reply.trim())
      )
    }
    return (taskId, step) => replies.get(taskId)?.[step]
  })
