/**
 * Commands that a request asks for: run to their end, checked, launched and left alone, or asked to open something.
 *
 * @since 0.1.0
 */
import * as Fs from "node:fs"
import * as Os from "node:os"
import * as Path from "node:path"
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import * as Schedule from "effect/Schedule"
import type { Command } from "../GuestApi.js"
import { BadRequest, Failed, NotFound, ScriptTimedOut, VerificationFailed } from "../GuestApi.js"
import * as CommandLine from "./CommandLine.js"
import * as Process from "./Process.js"
import * as Windows from "./Windows.js"

const failed = (message: string) => new Failed({ status: "error", message })

interface CommandRequest {
  readonly command: Command
  readonly shell: boolean | string
}

const words = (request: CommandRequest): Effect.Effect<CommandLine.Words, BadRequest> =>
  Either.mapLeft(CommandLine.parse(request, Os.homedir()), (message) => new BadRequest({ status: "error", message }))

/**
 * How long a command may run.
 *
 * @since 0.1.0
 * @category constants
 */
export const executeLimit = Duration.seconds(120)

/**
 * Runs a command to its end. A command that fails is an answer, not an error.
 *
 * @since 0.1.0
 * @category actions
 */
export const execute = (request: CommandRequest, limit: Duration.DurationInput = executeLimit) =>
  Effect.gen(function* () {
    const ended = yield* Process.run(yield* words(request), { limit }).pipe(
      Effect.mapError((error) => failed(error.message))
    )
    return { status: "success", output: ended.stdout, error: ended.stderr, returncode: ended.exitCode }
  })

/**
 * Runs a command and waits for what it should bring about.
 *
 * @since 0.1.0
 * @category actions
 */
export const executeAndVerify = (
  request: CommandRequest & {
    readonly verification: { readonly window_exists?: string; readonly command_success?: string }
    readonly max_wait_time: number
    readonly check_interval: number
  }
) =>
  Effect.gen(function* () {
    const answer = yield* execute(request)
    const { command_success: command, window_exists: title } = request.verification
    const windowShows =
      title === undefined
        ? Effect.succeed(true)
        : Effect.map(Windows.list, (windows) =>
            windows.some((window) => window.title.toLowerCase().includes(title.toLowerCase()))
          )
    const commandSucceeds =
      command === undefined
        ? Effect.succeed(true)
        : Process.run(["/bin/sh", "-c", command], { limit: "5 seconds" }).pipe(
            Effect.map(({ exitCode }) => exitCode === 0),
            Effect.catchTag("TimedOut", () => Effect.succeed(false))
          )
    const began = yield* Clock.currentTimeMillis
    const passed = yield* Effect.zipWith(windowShows, commandSucceeds, (shows, succeeds) => shows && succeeds).pipe(
      Effect.mapError((error) => failed(error.message)),
      Effect.repeat(
        Schedule.spaced(Duration.seconds(Math.max(0.05, request.check_interval))).pipe(
          Schedule.zipRight(Schedule.recurUntil((met: boolean) => met))
        )
      ),
      Effect.timeoutTo({
        duration: Duration.seconds(request.max_wait_time),
        onSuccess: (met) => met,
        onTimeout: () => false
      })
    )
    const wait_time = ((yield* Clock.currentTimeMillis) - began) / 1000
    if (passed) return { ...answer, verification: "passed", wait_time }
    return yield* Effect.fail(
      new VerificationFailed({
        ...answer,
        status: "verification_failed",
        verification: "failed",
        message: `what was to be verified did not come about within ${request.max_wait_time} s`,
        wait_time
      })
    )
  })

/**
 * Runs a Python program from a file of its own.
 *
 * @since 0.1.0
 * @category actions
 */
export const runPython = (code: string) =>
  withScript("py", code, (path) =>
    Process.run(["/usr/bin/python3", path], { limit: "30 seconds" }).pipe(
      Effect.mapError((error) => failed(error.message)),
      Effect.map(({ exitCode, stderr, stdout }) => ({
        status: exitCode === 0 ? "success" : "error",
        message: exitCode === 0 ? "" : `the program ended with code ${exitCode}`,
        need_more: false,
        output: stdout,
        error: stderr,
        return_code: exitCode
      }))
    )
  )

/**
 * Runs a bash script. What it prints to stderr is in with the rest.
 *
 * @since 0.1.0
 * @category actions
 */
export const runBash = (request: {
  readonly script: string
  readonly timeout: number
  readonly working_dir?: string
}) =>
  withScript("sh", request.script, (path) =>
    Process.run(["/bin/bash", path], {
      limit: Duration.seconds(request.timeout),
      merge: true,
      ...(request.working_dir === undefined
        ? {}
        : { cwd: CommandLine.expandPath(request.working_dir, process.env, Os.homedir()) })
    }).pipe(
      Effect.mapError((error) =>
        error._tag === "NotStarted"
          ? failed(error.message)
          : new ScriptTimedOut({ status: "error", output: error.stdout, error: error.message, returncode: -1 })
      ),
      Effect.map(({ exitCode, stdout }) => ({
        status: exitCode === 0 ? "success" : "error",
        output: stdout,
        error: "",
        returncode: exitCode
      }))
    )
  )

const withScript = <A, E>(extension: string, text: string, use: (path: string) => Effect.Effect<A, E>) =>
  Effect.acquireUseRelease(
    Effect.tryPromise({
      try: async () => {
        const folder = await Fs.promises.mkdtemp(Path.join(Os.tmpdir(), "deskhand-script-"))
        const path = Path.join(folder, `script.${extension}`)
        await Fs.promises.writeFile(path, text)
        return { folder, path }
      },
      catch: (cause) => failed(`the script cannot be written: ${cause instanceof Error ? cause.message : cause}`)
    }),
    ({ path }) => use(path),
    ({ folder }) => Effect.promise(() => Fs.promises.rm(folder, { recursive: true, force: true }))
  )

// A shell says by these codes that it did not find the program, or could not run it.
const shellCouldNot = new Set([126, 127])

/**
 * Starts a program and leaves it alone. One that does not start at all is an error.
 *
 * @since 0.1.0
 * @category actions
 */
export const launch = (request: CommandRequest) =>
  Effect.gen(function* () {
    const line = yield* words(request)
    const started = yield* Effect.mapError(Process.start(line), (error) => failed(error.message))
    started.child.unref()
    const early = yield* Effect.timeoutOption(started.exit, "100 millis")
    if (Option.isSome(early) && shellCouldNot.has(early.value)) {
      return yield* Effect.fail(failed(`${line.join(" ")} could not be started: it ended with code ${early.value}`))
    }
    return `${line.join(" ")} launched`
  })

/**
 * How long something may take to open.
 *
 * @since 0.1.0
 * @category constants
 */
export const openLimit = Duration.seconds(1800)

/**
 * Opens a file with the program for its type, or starts a program, and waits for its window.
 *
 * @since 0.1.0
 * @category actions
 */
export const open = (path: string, limit: Duration.DurationInput = openLimit) =>
  Effect.gen(function* () {
    const resolved = Path.resolve(Os.homedir(), CommandLine.expandPath(path, process.env, Os.homedir()))
    const exists = Fs.existsSync(resolved)
    if (!exists && !onPath(path)) {
      return yield* Effect.fail(
        new NotFound({ status: "error", message: `${path} is neither a file nor a program on the PATH` })
      )
    }
    const line: CommandLine.Words = exists ? ["xdg-open", resolved] : [path]
    const started = yield* Process.start(line, { stdio: ["ignore", "ignore", "pipe"] }).pipe(
      Effect.mapError((error) => failed(error.message))
    )
    started.child.unref()
    let log = ""
    started.child.stderr?.on("data", (chunk: Buffer) => {
      log = (log + chunk.toString("utf8")).slice(-1000)
    })
    const name = Path.basename(resolved)
    const found = yield* Windows.awaitShowing(name, limit).pipe(
      Effect.mapError((error) => failed(error.message)),
      // A program that hands over to one that runs already ends well, and the window is still to come.
      Effect.raceFirst(
        Effect.flatMap(started.exit, (exitCode) =>
          exitCode === 0
            ? Effect.never
            : Effect.fail(failed(`${line.join(" ")} ended with code ${exitCode}: ${log.trim() || "it said nothing"}`))
        )
      )
    )
    if (Option.isNone(found)) {
      return yield* Effect.fail(
        failed(`no window with ${name} in its title appeared within ${Duration.format(Duration.decode(limit))}`)
      )
    }
    return `${path} is open in the window ${found.value.title}`
  })

const onPath = (program: string): boolean =>
  !program.includes("/") &&
  program !== "" &&
  (process.env.PATH ?? "").split(":").some((folder) => Fs.existsSync(Path.join(folder, program)))
