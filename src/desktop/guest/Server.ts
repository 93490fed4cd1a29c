/**
 * The guest server: `GuestApi` over HTTP.
 *
 * @since 0.1.0
 */
import * as Fs from "node:fs"
import { createServer } from "node:http"
import * as Os from "node:os"
import * as Path from "node:path"
import * as FetchHttpClient from "@effect/platform/FetchHttpClient"
import * as FileSystem from "@effect/platform/FileSystem"
import * as HttpApiBuilder from "@effect/platform/HttpApiBuilder"
import * as HttpClient from "@effect/platform/HttpClient"
import * as HttpServerError from "@effect/platform/HttpServerError"
import * as HttpServerResponse from "@effect/platform/HttpServerResponse"
import * as NodeHttpServer from "@effect/platform-node/NodeHttpServer"
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as ParseResult from "effect/ParseResult"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import { BadRequest, Failed, GuestApi, guestPort, NotFound, ScriptTimedOut, VerificationFailed } from "../GuestApi.js"
import * as Commands from "./Commands.js"
import * as Files from "./Files.js"
import * as Process from "./Process.js"
import { Recording, layer as recordingLayer } from "./Recording.js"
import { Screen, layer as screenLayer } from "./Screen.js"
import * as Wallpaper from "./Wallpaper.js"
import * as Windows from "./Windows.js"

/**
 * Where the guest server listens and what it works with.
 *
 * @since 0.1.0
 * @category models
 */
export interface ServerOptions {
  /** The address to listen on. In a container the published port arrives at the container's own address. */
  readonly host: string
  readonly port: number
  readonly display: string
  /** The folder of our Python helpers. */
  readonly python: string
  /** The folder of our small programs. */
  readonly bin: string
}

/**
 * The options that the environment gives.
 *
 * @since 0.1.0
 * @category constructors
 */
export const optionsFromEnv = (env: Readonly<Record<string, string | undefined>>): ServerOptions => ({
  host: env.DESKHAND_GUEST_HOST ?? "127.0.0.1",
  port: Number(env.DESKHAND_GUEST_PORT ?? guestPort),
  display: env.DISPLAY ?? ":0",
  python: env.DESKHAND_GUEST_PYTHON ?? "/opt/deskhand/python",
  bin: env.DESKHAND_GUEST_BIN ?? "/opt/deskhand/bin"
})

const failed = (message: string) => new Failed({ status: "error", message })
const toFailed = ({ message }: { readonly message: string }) => failed(message)

const TerminalAnswer = Schema.parseJson(Schema.Struct({ output: Schema.NullOr(Schema.String) }))

const handlers = (options: ServerOptions) =>
  HttpApiBuilder.group(GuestApi, "guest", (handlers) =>
    Effect.gen(function* () {
      const screen = yield* Screen
      const recording = yield* Recording
      const fs = yield* FileSystem.FileSystem

      // One walk over the windows at a time: they cost the applications more than they cost us.
      const walk = yield* Effect.makeSemaphore(1)
      const accessibility = (...words: ReadonlyArray<string>) =>
        Process.run(["python3", Path.join(options.python, "accessibility.py"), ...words], { limit: "55 seconds" }).pipe(
          Effect.mapError(toFailed),
          Effect.flatMap(({ exitCode, stderr, stdout }) =>
            exitCode === 0
              ? Effect.succeed(stdout)
              : Effect.fail(failed(`the accessibility tree cannot be read: ${stderr.trim().split("\n").at(-1)}`))
          ),
          walk.withPermits(1)
        )

      const windows = (
        request: { readonly window_name: string; readonly strict: boolean; readonly by_class: boolean },
        act: typeof Windows.activate,
        done: string
      ) =>
        Effect.map(
          Effect.mapError(
            act({ name: request.window_name, strict: request.strict, byClass: request.by_class }),
            toFailed
          ),
          (matched) =>
            matched ? `${done}: ${request.window_name}` : `no window matched ${request.window_name}; nothing was done`
        )

      return handlers
        .handle("screenshot", () => Effect.mapError(screen.screenshot, toFailed))
        .handle("cursorPosition", () =>
          Effect.map(Effect.mapError(screen.cursor, toFailed), ({ x, y }) => [x, y] as const)
        )
        .handle("screenSize", () => Effect.mapError(screen.size, toFailed))
        .handle("accessibility", () => Effect.map(accessibility("--timeout", "45"), (AT) => ({ AT })))
        .handle("terminal", () =>
          accessibility("--terminal").pipe(
            Effect.flatMap((text) => Effect.mapError(Schema.decode(TerminalAnswer)(text), toFailed)),
            Effect.map(({ output }) => ({ output, status: "success" }))
          )
        )
        .handle("execute", ({ payload }) => Commands.execute(payload))
        .handle("setupExecute", ({ payload }) => Commands.execute(payload))
        .handle("executeWithVerification", ({ payload }) => Commands.executeAndVerify(payload))
        .handle("setupExecuteWithVerification", ({ payload }) => Commands.executeAndVerify(payload))
        .handle("runPython", ({ payload }) => Commands.runPython(payload.code))
        .handle("runBashScript", ({ payload }) => Commands.runBash(payload))
        .handle("file", ({ payload }) => Files.respond(Files.resolve(payload.file_path), "application/octet-stream"))
        .handle("upload", ({ payload }) =>
          Files.receive(payload).pipe(
            Effect.provideService(FileSystem.FileSystem, fs),
            Effect.map(({ bytes }) => `File Uploaded: ${bytes} bytes`)
          )
        )
        .handle("downloadFile", ({ payload }) =>
          download(payload.url, Files.resolve(payload.path)).pipe(Effect.provideService(FileSystem.FileSystem, fs))
        )
        .handle("openFile", ({ payload }) => Commands.open(payload.path))
        .handle("launch", ({ payload }) => Commands.launch(payload))
        .handle("activateWindow", ({ payload }) => windows(payload, Windows.activate, "window activated"))
        .handle("closeWindow", ({ payload }) => windows(payload, Windows.close, "window closed"))
        .handle("changeWallpaper", ({ payload }) =>
          Effect.as(
            Wallpaper.change(Files.resolve(payload.path), Path.join(options.bin, "deskhand-wallpaper")),
            "Wallpaper changed"
          )
        )
        .handle("wallpaper", () => Effect.flatMap(Wallpaper.current, (path) => Files.respond(path, "image/png")))
        .handle("windowSize", ({ payload }) =>
          Effect.flatMap(
            Effect.mapError(Windows.findByClass(payload.app_class_name), toFailed),
            Option.match({
              onNone: () =>
                Effect.fail(
                  new NotFound({ status: "error", message: `no window is of the class ${payload.app_class_name}` })
                ),
              onSome: ({ height, width }) => Effect.succeed({ width, height })
            })
          )
        )
        .handle("desktopPath", () => {
          const path = Path.join(Os.homedir(), "Desktop")
          return Fs.existsSync(path)
            ? Effect.succeed({ desktop_path: path })
            : Effect.fail(new NotFound({ status: "error", message: `${path} does not exist` }))
        })
        .handle("listDirectory", ({ payload }) => {
          const path = Files.resolve(payload.path)
          return fs.stat(path).pipe(
            Effect.map((info) => info.type === "Directory"),
            Effect.orElseSucceed(() => false),
            Effect.flatMap((isFolder) =>
              isFolder
                ? Effect.map(Files.tree(path), (directory_tree) => ({ directory_tree }))
                : Effect.fail(new BadRequest({ status: "error", message: `${path} is not a folder` }))
            )
          )
        })
        .handle("platform", () => Effect.succeed("Linux"))
        .handle("startRecording", () => Effect.as(recording.start, { status: "success", message: "recording started" }))
        .handle("endRecording", () => Effect.flatMap(recording.end, (path) => Files.respond(path, "video/mp4")))
    })
  )

const download = (url: string, path: string) =>
  Effect.scoped(
    Effect.gen(function* () {
      const fs = yield* FileSystem.FileSystem
      const client = HttpClient.filterStatusOk(yield* HttpClient.HttpClient)
      yield* fs.makeDirectory(Path.dirname(path), { recursive: true })
      const folder = yield* fs.makeTempDirectoryScoped({ directory: Path.dirname(path), prefix: ".deskhand-download-" })
      const partial = Path.join(folder, "file")
      const response = yield* client.get(url)
      yield* Stream.run(response.stream, fs.sink(partial))
      const { size } = yield* fs.stat(partial)
      const promised = response.headers["content-length"]
      // A body that was compressed on its way has another length than the one promised.
      if (promised !== undefined && response.headers["content-encoding"] === undefined && BigInt(promised) !== size) {
        return yield* Effect.fail(failed(`${url} promised ${promised} bytes and sent ${size}`))
      }
      yield* fs.rename(partial, path)
      return `File downloaded: ${size} bytes`
    })
  ).pipe(
    Effect.timeoutFail({ duration: "300 seconds", onTimeout: () => failed(`${url} took longer than 300 s`) }),
    Effect.retry({ times: 2 }),
    Effect.mapError((error) => (error instanceof Failed ? error : failed(`${url}: ${error.message}`))),
    Effect.provide(FetchHttpClient.layer)
  )

/** Everything that is not an answer becomes one, in the protocol's form, and the server lives on. */
const answerEverything = HttpApiBuilder.middleware((app) =>
  Effect.catchAllCause(app, (cause) => {
    if (Cause.isInterruptedOnly(cause)) return Effect.failCause(cause)
    const error: unknown = Cause.squash(cause)
    if (error instanceof BadRequest || error instanceof NotFound || error instanceof Failed) return respond(error)
    if (HttpServerError.isServerError(error)) {
      if (error._tag === "RouteNotFound") {
        const { method, url } = error.request
        return respond(new NotFound({ status: "error", message: `${method} ${url} is not a route of this server` }))
      }
      if (error._tag === "RequestError") {
        const { method, url } = error.request
        return respond(
          new BadRequest({ status: "error", message: `the body of ${method} ${url} cannot be read: ${detail(error)}` })
        )
      }
    }
    const message = error instanceof Error ? error.message : String(error)
    if (isDecodeError(error)) return respond(new BadRequest({ status: "error", message }))
    // What the protocol declares is written by the protocol.
    if (error instanceof VerificationFailed || error instanceof ScriptTimedOut) return Effect.failCause(cause)
    return Effect.zipRight(Effect.logError(cause), respond(failed(`the guest server failed: ${message}`)))
  })
)

const isDecodeError = (error: unknown): boolean =>
  ParseResult.isParseError(error) ||
  (typeof error === "object" && error !== null && "_tag" in error && error._tag === "HttpApiDecodeError")

const detail = (error: HttpServerError.RequestError): string =>
  error.cause instanceof Error ? error.cause.message : error.message

const respond = (answer: BadRequest | NotFound | Failed) =>
  HttpServerResponse.unsafeJson(
    { status: answer.status, message: answer.message },
    { status: answer instanceof BadRequest ? 400 : answer instanceof NotFound ? 404 : 500 }
  )

/**
 * The server, listening on the loopback unless the options say otherwise.
 *
 * @since 0.1.0
 * @category layers
 */
export const layer = (options: ServerOptions) => {
  const services = Layer.provideMerge(
    Layer.unwrapEffect(
      Effect.map(Screen, (screen) =>
        recordingLayer({
          display: options.display,
          path: Path.join(Os.tmpdir(), "recording.mp4"),
          size: screen.size
        })
      )
    ),
    screenLayer(["python3", Path.join(options.python, "screen.py")], options.display)
  )
  const node = NodeHttpServer.layer(
    () => {
      const server = createServer()
      // Longer than clients keep idle connections, so that none is closed under a request; uploads take their time.
      server.keepAliveTimeout = 65_000
      server.requestTimeout = 0
      return server
    },
    { host: options.host, port: options.port }
  )
  return HttpApiBuilder.serve().pipe(
    Layer.provide(answerEverything),
    Layer.provide(HttpApiBuilder.api(GuestApi)),
    Layer.provide(handlers(options)),
    Layer.provide(services),
    Layer.provide(node)
  )
}
