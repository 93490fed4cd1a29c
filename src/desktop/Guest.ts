/**
 * The client of a desktop's guest server: ours, and both generations of the official one.
 *
 * @since 0.1.0
 */
import * as Path from "node:path"
import * as HttpApiClient from "@effect/platform/HttpApiClient"
import * as HttpBody from "@effect/platform/HttpBody"
import * as HttpClient from "@effect/platform/HttpClient"
import * as HttpClientRequest from "@effect/platform/HttpClientRequest"
import type * as HttpClientResponse from "@effect/platform/HttpClientResponse"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Random from "effect/Random"
import * as Ref from "effect/Ref"
import * as Schedule from "effect/Schedule"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import { type Endpoint, httpClient } from "../sandbox/Endpoint.js"
import * as Action from "./Action.js"
import { type Command, type DirectoryEntry, GuestApi, paths } from "./GuestApi.js"
import { GuestError, type GuestErrorReason, GuestFileMissing, type GuestUploadUnreadable } from "./GuestError.js"
import { asCallError, fileStream, formHead, RefusedAnswer, reasonOf, sizeOf } from "./internal/guestCalls.js"
import * as Verification from "./internal/verification.js"

// -----------------------------------------------------------------------------
// Models
// -----------------------------------------------------------------------------

/**
 * How a command ended. A command that failed is an answer, not an error.
 *
 * @since 0.1.0
 * @category models
 */
export interface CommandResult {
  readonly stdout: string
  readonly stderr: string
  /** Negative when a signal ended it. */
  readonly exitCode: number
}

/**
 * @since 0.1.0
 * @category models
 */
export interface Size {
  readonly width: number
  readonly height: number
}

/**
 * How long each kind of call may take before it fails with `Timeout`. Of a stream it is the time to the next bytes.
 *
 * @since 0.1.0
 * @category models
 */
export interface GuestTimeouts {
  readonly screenshot: Duration.DurationInput
  /** `execute`, `runPython`, `runBash`, `runAction`, `launch`: the guest itself stops a command after 120 s. */
  readonly execute: Duration.DurationInput
  /** `accessibilityTree` and `terminal`. */
  readonly accessibility: Duration.DurationInput
  readonly upload: Duration.DurationInput
  /** `openFile`: the guest itself gives up after 1800 s. */
  readonly open: Duration.DurationInput
  /** Everything else. */
  readonly other: Duration.DurationInput
}

/**
 * The timeouts unless given: a little longer than the guest's own, so that the guest is who says it.
 *
 * @since 0.1.0
 * @category constants
 */
export const defaultTimeouts: GuestTimeouts = {
  screenshot: "10 seconds",
  execute: "130 seconds",
  accessibility: "60 seconds",
  upload: "600 seconds",
  open: "1810 seconds",
  other: "30 seconds"
}

/**
 * Which window is meant: the first whose title contains `name` in any case; with `strict`, whose title is `name`; with
 * `byClass`, whose class is looked at too.
 *
 * @since 0.1.0
 * @category models
 */
export interface WindowMatch {
  readonly name: string
  readonly strict?: boolean
  readonly byClass?: boolean
}

/**
 * A command, and what it should bring about.
 *
 * @since 0.1.0
 * @category models
 */
export interface VerifiedRequest {
  readonly command: Command
  readonly shell?: boolean | string
  readonly windowExists?: string
  readonly commandSuccess?: string
  readonly maxWait: Duration.DurationInput
  readonly interval: Duration.DurationInput
}

/**
 * @since 0.1.0
 * @category models
 */
export interface VerifiedResult extends CommandResult {
  readonly verified: boolean
}

/**
 * A guest. Only reads are tried again when the guest cannot be reached; whatever acts on the desktop is tried once,
 * because nobody knows whether a call whose answer was lost has acted.
 *
 * @since 0.1.0
 * @category models
 */
export interface Guest {
  /** Whether the guest answers. */
  readonly ping: Effect.Effect<void, GuestError>
  /** The screen as PNG or JPEG bytes, with the pointer in it. */
  readonly screenshot: Effect.Effect<Uint8Array, GuestError>
  /** The accessibility tree as XML. */
  readonly accessibilityTree: Effect.Effect<string, GuestError>
  /** The text of the terminal in front; `null` when there is none. */
  readonly terminal: Effect.Effect<string | null, GuestError>
  readonly screenSize: Effect.Effect<Size, GuestError>
  /** The size of the first window of a class; `Refused` when there is none. */
  readonly windowSize: (className: string) => Effect.Effect<Size, GuestError>
  readonly cursorPosition: Effect.Effect<{ readonly x: number; readonly y: number }, GuestError>
  /** `Linux`, `Windows` or `Darwin`. */
  readonly platform: Effect.Effect<string, GuestError>
  readonly desktopPath: Effect.Effect<string, GuestError>
  readonly listDirectory: (path: string) => Effect.Effect<DirectoryEntry, GuestError>
  /** The picture behind the windows. */
  readonly wallpaper: Effect.Effect<Uint8Array, GuestError>
  /** The bytes of a file. `~` and variables in the path are the guest's. Nothing is held in memory. */
  readonly readFile: (path: string) => Stream.Stream<Uint8Array, GuestError | GuestFileMissing>
  /**
   * Writes a file of the guest from a file of this host (its path), or from a stream, whose length is better given. The
   * folder is made when it is missing.
   */
  readonly writeFile: <E = never>(
    path: string,
    source: string | Stream.Stream<Uint8Array, E>,
    options?: { readonly length?: number }
  ) => Effect.Effect<void, GuestError | GuestUploadUnreadable | E>
  /** Runs a command to its end. `timeout` is ours; the guest's own limit is 120 s. */
  readonly execute: (request: {
    readonly command: Command
    readonly shell?: boolean | string
    readonly timeout?: Duration.DurationInput
  }) => Effect.Effect<CommandResult, GuestError>
  /**
   * Runs a command to its end and waits for what it should bring about: a window whose title has `windowExists` in it, in
   * any case, and a shell command that succeeds. That they did not come is an answer, `verified`. The old generation has
   * no such route, and is looked at from here.
   */
  readonly executeAndVerify: (request: VerifiedRequest) => Effect.Effect<VerifiedResult, GuestError>
  /** Runs Python from a file, for 30 s at most. */
  readonly runPython: (code: string) => Effect.Effect<CommandResult, GuestError>
  /** Runs a script in a login bash. After `timeout` it is stopped, and the exit code is 124. */
  readonly runBash: (
    script: string,
    options?: { readonly timeout?: Duration.DurationInput; readonly workingDirectory?: string }
  ) => Effect.Effect<CommandResult, GuestError>
  /** Performs an action. Code that raised is an answer with an exit code other than 0, and its traceback in `stderr`. */
  readonly runAction: (action: Action.DesktopAction) => Effect.Effect<CommandResult, GuestError>
  /** Starts a program and leaves it alone. */
  readonly launch: (request: {
    readonly command: Command
    readonly shell?: boolean | string
  }) => Effect.Effect<void, GuestError>
  /** Opens a file with the program for its type, or starts a program, and waits for its window. */
  readonly openFile: (path: string) => Effect.Effect<void, GuestError>
  /** Raises a window. Official guests say nothing about a window that does not exist. */
  readonly activateWindow: (match: WindowMatch) => Effect.Effect<void, GuestError>
  /** Asks a window to close. Official guests say nothing about a window that does not exist. */
  readonly closeWindow: (match: WindowMatch) => Effect.Effect<void, GuestError>
  readonly changeWallpaper: (path: string) => Effect.Effect<void, GuestError>
  readonly startRecording: Effect.Effect<void, GuestError>
  /** Ends the recording and gives it as MP4 bytes. */
  readonly endRecording: Stream.Stream<Uint8Array, GuestError>
}

// -----------------------------------------------------------------------------
// Pure decisions
// -----------------------------------------------------------------------------

/**
 * What follows from the first bytes of an image. The official guest answers JPEG in some setups.
 *
 * @since 0.1.0
 * @category predicates
 */
export const imageFormat = (bytes: Uint8Array): Option.Option<"png" | "jpeg"> => {
  if ([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a].every((byte, index) => bytes[index] === byte)) {
    return Option.some("png")
  }
  return [0xff, 0xd8, 0xff].every((byte, index) => bytes[index] === byte) ? Option.some("jpeg") : Option.none()
}

/**
 * How reads are tried again when the guest cannot be reached: three more times, within two seconds.
 *
 * @since 0.1.0
 * @category constants
 */
export const readSchedule: Schedule.Schedule<unknown> = Schedule.intersect(
  Schedule.exponential("200 millis"),
  Schedule.recurs(3)
)

// -----------------------------------------------------------------------------
// Constructor
// -----------------------------------------------------------------------------

/**
 * A guest at an endpoint. Nothing is sent until the first call; connections close with the scope.
 *
 * @since 0.1.0
 * @category constructors
 */
export const make = (
  endpoint: Endpoint,
  options: { readonly timeouts?: Partial<GuestTimeouts> } = {}
): Effect.Effect<Guest, never, Scope.Scope> =>
  Effect.gen(function* () {
    const limits: GuestTimeouts = { ...defaultTimeouts, ...options.timeouts }
    const client = HttpClient.transformResponse(
      // A span for every call would cost more than the call; steps have theirs.
      HttpClient.withTracerPropagation(
        HttpClient.withTracerDisabledWhen(yield* httpClient(endpoint), () => true),
        false
      ),
      Effect.flatMap((response) =>
        response.status >= 200 && response.status < 300
          ? Effect.succeed(response)
          : Effect.flatMap(response.text, (text) => Effect.fail(new RefusedAnswer({ status: response.status, text })))
      )
    )
    const api = yield* HttpApiClient.makeWith(GuestApi, { httpClient: client })
    // Learnt once for each guest: the old generation has no such route.
    const hasRunPython = yield* Ref.make(true)

    const failWith = (operation: string, reason: GuestErrorReason) => new GuestError({ operation, reason })
    const timeoutOf = (operation: string, limit: Duration.DurationInput) => () =>
      failWith(operation, { _tag: "Timeout", limit: Duration.decode(limit) })

    const once = <A, E>(operation: string, limit: Duration.DurationInput, request: Effect.Effect<A, E>) =>
      request.pipe(
        Effect.mapError((error) => failWith(operation, reasonOf(asCallError(error)))),
        Effect.timeoutFail({ duration: limit, onTimeout: timeoutOf(operation, limit) })
      )
    const isUnreachable = ({ reason }: GuestError) => reason._tag === "Unreachable"
    const ping = Effect.asVoid(
      Effect.retry(once("ping", limits.other, api.platform()), { schedule: readSchedule, while: isUnreachable })
    )
    /** A gateway before a guest that is gone refuses, too: a refusal is the guest's where it answers after it. */
    const refused = (error: GuestError) =>
      Effect.matchEffect(ping, {
        onFailure: ({ message, reason }) =>
          Effect.fail(
            failWith(
              error.operation,
              reason._tag === "Refused" ? { _tag: "Unreachable", detail: `${error.message}; ${message}` } : reason
            )
          ),
        onSuccess: () => Effect.fail(error)
      })
    const call = <A, E>(operation: string, limit: Duration.DurationInput, request: Effect.Effect<A, E>) =>
      Effect.catchIf(once(operation, limit, request), ({ reason }) => reason._tag === "Refused", refused)
    const read = <A, E>(operation: string, limit: Duration.DurationInput, request: Effect.Effect<A, E>) =>
      Effect.retry(call(operation, limit, request), { schedule: readSchedule, while: isUnreachable })
    const image = (operation: string, bytes: Effect.Effect<Uint8Array, GuestError>) =>
      Effect.filterOrFail(
        bytes,
        (bytes) => Option.isSome(imageFormat(bytes)),
        (bytes) =>
          failWith(operation, {
            _tag: "Malformed",
            detail: `${bytes.length} bytes that are neither PNG nor JPEG`
          })
      )
    /** The bytes of a response: the limit is for the first of them and then for each next piece. */
    const bytesOf = <E>(
      operation: string,
      response: Effect.Effect<HttpClientResponse.HttpClientResponse, E>
    ): Stream.Stream<Uint8Array, GuestError | E> =>
      Stream.unwrap(
        Effect.map(response, (response) =>
          response.stream.pipe(
            Stream.mapError((error) => failWith(operation, reasonOf(error))),
            Stream.timeoutFail(timeoutOf(operation, limits.other), limits.other)
          )
        )
      )

    const execute: Guest["execute"] = (request) => executeAs("execute", request)
    const executeAs = (
      operation: string,
      request: {
        readonly command: Command
        readonly shell?: boolean | string
        readonly timeout?: Duration.DurationInput
      }
    ) =>
      call(
        operation,
        request.timeout ?? limits.execute,
        api.execute({ payload: { command: request.command, shell: request.shell ?? false } })
      ).pipe(Effect.map((reply) => ({ stdout: reply.output, stderr: reply.error, exitCode: reply.returncode })))

    const executeAndVerify = Verification.make({
      execute,
      byRoute: (payload, limit) =>
        call("executeAndVerify", limit, Verification.answered(api.executeWithVerification({ payload }))),
      hasRoute: yield* Ref.make(true),
      limit: limits.execute
    })

    const runPython: Guest["runPython"] = (code) => {
      const fallback = executeAs("runPython", { command: ["python3", "-c", code] })
      return Effect.flatMap(Ref.get(hasRunPython), (has) =>
        has
          ? call("runPython", limits.execute, api.runPython({ payload: { code } })).pipe(
              Effect.map((reply) => ({ stdout: reply.output, stderr: reply.error, exitCode: reply.return_code })),
              Effect.catchIf(
                ({ reason }) => reason._tag === "Refused" && reason.status === 404,
                () => Effect.zipRight(Ref.set(hasRunPython, false), fallback)
              )
            )
          : fallback
      )
    }

    // The official /run_bash_script of half a year answers 500 after it has run the script: it is never used.
    const runBash: Guest["runBash"] = (script, options = {}) => {
      const limit = options.timeout === undefined ? undefined : Duration.decode(options.timeout)
      return executeAs("runBash", {
        command: [
          ...(options.workingDirectory === undefined ? [] : ["env", "-C", options.workingDirectory]),
          ...(limit === undefined ? [] : ["timeout", "-k", "2", `${Math.max(0.001, Duration.toSeconds(limit))}s`]),
          "bash",
          "-lc",
          script
        ],
        ...(limit === undefined ? {} : { timeout: Duration.sum(limit, Duration.seconds(10)) })
      })
    }

    /** Official servers say 404 of what is not there alone, and break off over a folder or over what they may not read. */
    const isNoFile = (path: string, { reason }: GuestError): Effect.Effect<boolean, GuestError> =>
      reason._tag === "Refused" && reason.status === 404
        ? Effect.succeed(true)
        : path.startsWith("/")
          ? Effect.map(
              executeAs("readFile", { command: ["sh", "-c", 'test -f "$1" && test -r "$1"', "sh", path] }),
              ({ exitCode }) => exitCode === 1
            )
          : Effect.succeed(false)

    const readFile: Guest["readFile"] = (path) =>
      bytesOf(
        "readFile",
        read(
          "readFile",
          limits.other,
          client.execute(HttpClientRequest.bodyUrlParams(HttpClientRequest.post(paths.file), { file_path: path }))
        ).pipe(
          Effect.catchIf(
            ({ reason }) => reason._tag === "Refused",
            (error) =>
              Effect.flatMap(isNoFile(path, error), (none) =>
                Effect.fail(none ? new GuestFileMissing({ path }) : error)
              )
          )
        )
      )

    const writeFile = <E>(
      path: string,
      source: string | Stream.Stream<Uint8Array, E>,
      options: { readonly length?: number } = {}
    ): Effect.Effect<void, GuestError | GuestUploadUnreadable | E> =>
      Effect.gen(function* () {
        // The old generation does not make the folder, and the wish is the same to the new one.
        const folder = Path.posix.dirname(path)
        if (![".", "/", "~"].includes(folder) && !folder.includes("$")) {
          yield* executeAs("writeFile", { command: ["mkdir", "-p", "--", folder], timeout: limits.other })
        }
        const length = typeof source === "string" ? yield* sizeOf(source) : options.length
        const boundary = `deskhand-${yield* Random.nextIntBetween(0, Number.MAX_SAFE_INTEGER)}`
        let sourceError = Option.none<GuestUploadUnreadable | E>()
        const bytes: Stream.Stream<Uint8Array, GuestUploadUnreadable | E> =
          typeof source === "string" ? fileStream(source) : source
        const head = new TextEncoder().encode(formHead(boundary, path))
        const tail = new TextEncoder().encode(`\r\n--${boundary}--\r\n`)
        const body = HttpBody.stream(
          Stream.make(head).pipe(
            Stream.concat(
              Stream.tapError(bytes, (error) =>
                Effect.sync(() => {
                  sourceError = Option.some(error)
                })
              )
            ),
            Stream.concat(Stream.make(tail))
          ),
          `multipart/form-data; boundary=${boundary}`,
          length === undefined ? undefined : head.length + length + tail.length
        )
        yield* call(
          "writeFile",
          limits.upload,
          Effect.flatMap(
            client.execute(HttpClientRequest.setBody(HttpClientRequest.post(paths.upload), body)),
            // Whatever the text says, the status has said it.
            (response) => response.text
          )
        ).pipe(
          Effect.catchAll(
            (error): Effect.Effect<never, GuestError | GuestUploadUnreadable | E> =>
              Option.isSome(sourceError) ? Effect.fail(sourceError.value) : Effect.fail(error)
          )
        )
      })

    const window = ({ byClass = false, name, strict = false }: WindowMatch) => ({
      payload: { window_name: name, strict, by_class: byClass }
    })

    return {
      ping,
      screenshot: image("screenshot", read("screenshot", limits.screenshot, api.screenshot())),
      accessibilityTree: Effect.map(
        read("accessibilityTree", limits.accessibility, api.accessibility()),
        ({ AT }) => AT
      ),
      terminal: Effect.map(read("terminal", limits.accessibility, api.terminal()), ({ output }) => output),
      screenSize: read("screenSize", limits.other, api.screenSize()),
      windowSize: (className) =>
        read("windowSize", limits.other, api.windowSize({ payload: { app_class_name: className } })),
      cursorPosition: Effect.map(read("cursorPosition", limits.other, api.cursorPosition()), ([x, y]) => ({ x, y })),
      platform: Effect.map(read("platform", limits.other, api.platform()), (text) => text.trim()),
      desktopPath: Effect.map(read("desktopPath", limits.other, api.desktopPath()), (reply) => reply.desktop_path),
      listDirectory: (path) =>
        Effect.map(
          read("listDirectory", limits.other, api.listDirectory({ payload: { path } })),
          (reply) => reply.directory_tree
        ),
      wallpaper: read("wallpaper", limits.other, api.wallpaper()),
      readFile,
      writeFile,
      execute,
      executeAndVerify,
      runPython,
      runBash,
      runAction: (action) =>
        executeAs("runAction", { command: ["python", "-c", Action.pythonProgram(action.code)], shell: false }),
      launch: ({ command, shell = false }) =>
        Effect.asVoid(call("launch", limits.execute, api.launch({ payload: { command, shell } }))),
      openFile: (path) => Effect.asVoid(call("openFile", limits.open, api.openFile({ payload: { path } }))),
      activateWindow: (match) => Effect.asVoid(call("activateWindow", limits.other, api.activateWindow(window(match)))),
      closeWindow: (match) => Effect.asVoid(call("closeWindow", limits.other, api.closeWindow(window(match)))),
      changeWallpaper: (path) =>
        Effect.asVoid(call("changeWallpaper", limits.other, api.changeWallpaper({ payload: { path } }))),
      startRecording: Effect.asVoid(call("startRecording", limits.other, api.startRecording())),
      endRecording: bytesOf(
        "endRecording",
        call("endRecording", limits.other, client.execute(HttpClientRequest.post(paths.endRecording)))
      )
    }
  })
