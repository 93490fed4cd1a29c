/**
 * Files of an E2B-compatible server's envd: the REST routes, streamed, and `filesystem.Filesystem` by means of `find`.
 */
import { createHash } from "node:crypto"
import type { IncomingMessage, ServerResponse } from "node:http"
import { PassThrough, pipeline, type Readable } from "node:stream"
import { createGunzip } from "node:zlib"
import * as NodeMultipart from "@effect/platform-node/NodeMultipart"
import * as NodeStream from "@effect/platform-node/NodeStream"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Exit from "effect/Exit"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import { type Faults, met, refusal } from "./e2bFaults.js"
import type { Guest } from "./e2bGuests.js"
import { header, type Json, problem, type Reply, send, write } from "./e2bWire.js"

/** The signature that stands for the token in a link to a file. */
export const signature = (parts: {
  readonly path: string
  readonly operation: "read" | "write"
  readonly user: string
  readonly token: string
  readonly expires: string | undefined
}): string => {
  const text = [
    parts.path,
    parts.operation,
    parts.user,
    parts.token,
    ...(parts.expires === undefined ? [] : [parts.expires])
  ]
  return `v1_${createHash("sha256").update(text.join(":")).digest("base64").replace(/=+$/, "")}`
}

/** Whether a request for a file may be answered: by the token, or by a signature that is not over. */
export const mayRead = (guest: Guest, request: IncomingMessage, url: URL, now: number): boolean => {
  if (header(request, "x-access-token") === guest.token) return true
  const expires = url.searchParams.get("signature_expiration") ?? undefined
  if (expires !== undefined && Number(expires) * 1000 < now) return false
  return (
    url.searchParams.get("signature") ===
    signature({
      path: url.searchParams.get("path") ?? "",
      operation: request.method === "POST" ? "write" : "read",
      user: url.searchParams.get("username") ?? "",
      token: guest.token,
      expires
    })
  )
}

const written = (path: string): Json => ({ path, name: path.split("/").at(-1) ?? path, type: "file" })

const uploaded = (guest: Guest, request: IncomingMessage, url: URL): Effect.Effect<Reply> =>
  Effect.gen(function* () {
    const path = url.searchParams.get("path") ?? undefined
    if ((header(request, "content-type") ?? "").startsWith("multipart/")) {
      const done: Array<Json> = []
      yield* Stream.runForEach(NodeMultipart.stream(request, request.headers), (part) => {
        const target = path ?? (part._tag === "File" ? part.name : "")
        return part._tag === "File"
          ? Effect.tap(guest.sandbox.upload(target, part.content), () => Effect.sync(() => done.push(written(target))))
          : Effect.void
      })
      return { status: 200, body: done }
    }
    if (path === undefined) return problem(400, "a path is needed")
    const source: Readable =
      header(request, "content-encoding") === "gzip"
        ? pipeline(request, createGunzip(), new PassThrough(), () => {})
        : request
    yield* guest.sandbox.upload(
      path,
      NodeStream.fromReadable<Error, Uint8Array>(
        () => source,
        (cause) => new Error(String(cause))
      )
    )
    return { status: 200, body: [written(path)] }
  }).pipe(Effect.catchAll((error): Effect.Effect<Reply> => Effect.succeed(problem(400, error.message))))

const downloaded = (guest: Guest, response: ServerResponse, url: URL): Effect.Effect<void> =>
  Effect.gen(function* () {
    const path = url.searchParams.get("path")
    if (path === null) return send(response, problem(400, "a path is needed"))
    let begun = false
    const exit = yield* Effect.exit(
      Stream.runForEach(guest.sandbox.download(path), (bytes) => {
        if (!begun) {
          begun = true
          response.writeHead(200, { "content-type": "application/octet-stream" })
        }
        return response.destroyed ? Effect.interrupt : write(response, bytes)
      })
    )
    if (Exit.isSuccess(exit)) {
      if (!begun) response.writeHead(200, { "content-type": "application/octet-stream", "content-length": "0" })
      response.end()
      return
    }
    const failure = exit.cause._tag === "Fail" ? exit.cause.error : undefined
    // Bytes are on their way already, so all that is left is not to end them well.
    if (begun) response.destroy()
    else {
      const missing = failure?._tag === "SandboxFileError" && failure.missing
      send(response, problem(missing ? 404 : 500, failure?.message ?? "the file cannot be read"))
    }
  })

export const rest = (
  guest: Guest,
  faults: Faults,
  request: IncomingMessage,
  response: ServerResponse,
  url: URL
): Effect.Effect<void> => {
  const fault = faults.take("files")
  const refused = refusal(fault)
  if (refused !== undefined) return Effect.sync(() => send(response, refused))
  if (request.method === "GET") return downloaded(guest, response, url)
  return Effect.map(met(fault, uploaded(guest, request, url)), (reply) => send(response, reply))
}

const Wanted = Schema.parseJson(
  Schema.Struct({
    path: Schema.optional(Schema.String),
    depth: Schema.optionalWith(Schema.Int.pipe(Schema.between(0, 64)), { default: () => 1 }),
    source: Schema.optional(Schema.String),
    destination: Schema.optional(Schema.String)
  })
)

const kinds: Readonly<Record<string, string>> = {
  f: "FILE_TYPE_FILE",
  d: "FILE_TYPE_DIRECTORY",
  l: "FILE_TYPE_SYMLINK"
}

const format = "%y\\t%s\\t%m\\t%M\\t%u\\t%g\\t%T@\\t%l\\t%p\\0"

/** What `find -printf` said of each file, the path last because it may hold anything. */
export const entries = (printed: string): ReadonlyArray<{ readonly [key: string]: Json }> =>
  printed
    .split("\0")
    .filter((line) => line !== "")
    .map((line) => {
      const [
        type = "",
        size = "0",
        mode = "0",
        permissions = "",
        owner = "",
        group = "",
        time = "0",
        target = "",
        ...path
      ] = line.split("\t")
      const whole = path.join("\t")
      return {
        name: whole.split("/").at(-1) ?? whole,
        type: kinds[type] ?? "FILE_TYPE_UNSPECIFIED",
        path: whole,
        size,
        mode: Number.parseInt(mode, 8),
        permissions,
        owner,
        group,
        modifiedTime: new Date(Number(time) * 1000).toISOString(),
        ...(target === "" ? {} : { symlinkTarget: target })
      }
    })

const shell = (guest: Guest, script: string, ...words: ReadonlyArray<string>) =>
  Effect.map(
    Effect.orElseSucceed(
      guest.sandbox.exec({ command: ["/bin/sh", "-c", script, "sh", ...words], timeout: "30 seconds" }),
      () => undefined
    ),
    (outcome) => (outcome?._tag === "Exited" ? outcome : undefined)
  )

/** The codes of the shell scripts' exits. */
const failures: Readonly<Record<number, readonly [number, string]>> = {
  3: [404, "not_found"],
  4: [409, "already_exists"],
  5: [400, "invalid_argument"]
}

export const rpc = (guest: Guest, method: string, body: string): Effect.Effect<Reply> => {
  const refuse = (status: number, code: string, message: string): Reply => ({ status, body: { code, message } })
  return Either.match(Schema.decodeUnknownEither(Wanted)(body), {
    onLeft: (error) => Effect.succeed(refuse(400, "invalid_argument", error.message)),
    onRight: ({ depth, destination = "", path = "", source = "" }) => {
      const stat = `find "$1" -maxdepth 0 -printf '${format}'`
      const scripts: Readonly<Record<string, readonly [string, ...ReadonlyArray<string>]>> = {
        Stat: [`[ -e "$1" ] || [ -L "$1" ] || exit 3; ${stat}`, path],
        ListDir: [
          `[ -e "$1" ] || exit 3; [ -d "$1" ] || exit 5; find "$1" -mindepth 1 -maxdepth "$2" -printf '${format}'`,
          path,
          String(Math.max(1, depth))
        ],
        MakeDir: [`[ -d "$1" ] && exit 4; mkdir -p "$1" && ${stat}`, path],
        Move: [`[ -e "$2" ] || exit 3; mkdir -p "$(dirname "$1")"; mv "$2" "$1" && ${stat}`, destination, source],
        Remove: [`rm -rf -- "$1"`, path]
      }
      const script = Object.hasOwn(scripts, method) ? scripts[method] : undefined
      if (script === undefined) return Effect.succeed(refuse(501, "unimplemented", `filesystem.Filesystem/${method}`))
      const [text, ...words] = script
      return Effect.map(shell(guest, text, ...words), (outcome): Reply => {
        if (outcome === undefined) return refuse(503, "unavailable", "the sandbox did not answer")
        if (outcome.code !== 0) {
          const [status, code] = failures[outcome.code] ?? [500, "internal"]
          return refuse(status, code, outcome.stderr.trim() === "" ? `${method} ${path}` : outcome.stderr.trim())
        }
        const found = entries(outcome.stdout)
        if (method === "ListDir") return { status: 200, body: { entries: found } }
        return { status: 200, body: method === "Remove" ? {} : { entry: found[0] } }
      })
    }
  })
}
