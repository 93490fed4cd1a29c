/**
 * Programs that the guest server runs: bounded in time and output, and gone with all their children when stopped.
 *
 * @since 0.1.0
 */
import { type ChildProcess, type StdioOptions, spawn as spawnChild } from "node:child_process"
import * as Fs from "node:fs"
import * as Os from "node:os"
import * as Data from "effect/Data"
import * as Deferred from "effect/Deferred"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as FiberId from "effect/FiberId"
import type * as Scope from "effect/Scope"
import type { Words } from "./CommandLine.js"

/**
 * How a program ended. A program that a signal ended has the negative number of the signal for a code, as in Python.
 *
 * @since 0.1.0
 * @category models
 */
export interface Ended {
  readonly stdout: string
  readonly stderr: string
  readonly exitCode: number
}

/**
 * The program could not be started.
 *
 * @since 0.1.0
 * @category errors
 */
export class NotStarted extends Data.TaggedError("NotStarted")<{ readonly program: string; readonly reason: string }> {
  override get message() {
    return `${this.program} could not be started: ${this.reason}`
  }
}

/**
 * The program ran into its time limit and was stopped, with what it had printed by then.
 *
 * @since 0.1.0
 * @category errors
 */
export class TimedOut extends Data.TaggedError("TimedOut")<{
  readonly program: string
  readonly limit: Duration.Duration
  readonly stdout: string
  readonly stderr: string
}> {
  override get message() {
    return `${this.program} did not end within ${Duration.format(this.limit)} and was stopped with all its children`
  }
}

/**
 * The bytes of a stream that are kept at most.
 *
 * @since 0.1.0
 * @category constants
 */
export const outputLimit = 8 * 1024 * 1024

// A program that ended may have left children that hold its output open: they keep it, and nobody waits for them.
const lateOutput = Duration.millis(300)

class Collected {
  private readonly chunks: Array<Buffer> = []
  private kept = 0
  private dropped = 0
  private open = true
  readonly add = (chunk: Buffer): void => {
    if (!this.open) return
    const room = Math.max(0, outputLimit - this.kept)
    const part = chunk.subarray(0, room)
    if (part.length > 0) this.chunks.push(part)
    this.kept += part.length
    this.dropped += chunk.length - part.length
  }
  text(): string {
    const note = this.dropped === 0 ? "" : `\n[deskhand: output truncated here, ${this.dropped} more bytes came]\n`
    return Buffer.concat(this.chunks).toString("utf8") + note
  }
  close(): string {
    const text = this.text()
    this.open = false
    this.chunks.length = 0
    return text
  }
}

const childrenOf = (): ReadonlyMap<number, ReadonlyArray<number>> => {
  const children = new Map<number, Array<number>>()
  for (const name of Fs.readdirSync("/proc")) {
    if (!/^\d+$/.test(name)) continue
    try {
      const stat = Fs.readFileSync(`/proc/${name}/stat`, "utf8")
      const parent = Number(stat.slice(stat.lastIndexOf(")") + 2).split(" ")[1])
      children.set(parent, [...(children.get(parent) ?? []), Number(name)])
    } catch {
      // It ended between the listing and the reading.
    }
  }
  return children
}

const signalQuietly = (pid: number, signal: NodeJS.Signals): void => {
  try {
    process.kill(pid, signal)
  } catch {
    // It is gone already, which is what was wanted.
  }
}

/** Stops a process, its group and whatever descends from it, whether or not that stayed in the group. */
const killTree = (pid: number): void => {
  const children = childrenOf()
  const doomed: Array<number> = [pid]
  for (let index = 0; index < doomed.length; index++) doomed.push(...(children.get(doomed[index] ?? 0) ?? []))
  signalQuietly(-pid, "SIGKILL")
  for (const process of doomed) signalQuietly(process, "SIGKILL")
}

/**
 * A program that was started.
 *
 * @since 0.1.0
 * @category models
 */
export interface Started {
  readonly child: ChildProcess
  readonly pid: number
  /** Its exit code, once it has ended. */
  readonly exit: Effect.Effect<number>
  /** Done when it has ended and nobody holds its output open any more. */
  readonly closed: Effect.Effect<void>
}

interface StartOptions {
  readonly stdio?: StdioOptions
  readonly cwd?: string
  readonly env?: NodeJS.ProcessEnv
}

/**
 * Starts a program in a process group of its own and leaves it alone.
 *
 * @since 0.1.0
 * @category constructors
 */
export const start = (words: Words, options: StartOptions = {}): Effect.Effect<Started, NotStarted> =>
  Effect.async<Started, NotStarted>((resume) => {
    const [program, ...rest] = words
    const fail = (cause: unknown) => resume(Effect.fail(new NotStarted({ program, reason: reasonOf(cause, program) })))
    if (options.cwd !== undefined && !Fs.existsSync(options.cwd)) {
      return resume(
        Effect.fail(new NotStarted({ program, reason: `its working folder ${options.cwd} does not exist` }))
      )
    }
    try {
      const child = spawnChild(program, rest, {
        detached: true,
        stdio: options.stdio ?? "ignore",
        cwd: options.cwd,
        env: options.env ?? process.env
      })
      const ended = Deferred.unsafeMake<number>(FiberId.none)
      const closed = Deferred.unsafeMake<void>(FiberId.none)
      child.once("exit", (code, signal) =>
        Deferred.unsafeDone(ended, Effect.succeed(code ?? -(signal === null ? 1 : Os.constants.signals[signal])))
      )
      child.once("close", () => Deferred.unsafeDone(closed, Effect.void))
      child.once("error", fail)
      child.once("spawn", () =>
        resume(
          Effect.succeed({
            child,
            pid: child.pid ?? -1,
            exit: Deferred.await(ended),
            closed: Deferred.await(closed)
          })
        )
      )
    } catch (cause) {
      fail(cause)
    }
  })

/**
 * Starts a program that is stopped with all its children when the scope closes.
 *
 * @since 0.1.0
 * @category constructors
 */
export const startScoped = (
  words: Words,
  options: StartOptions = {}
): Effect.Effect<Started, NotStarted, Scope.Scope> =>
  Effect.acquireRelease(start(words, options), (started) =>
    Effect.sync(() => {
      if (started.child.exitCode === null && started.child.signalCode === null) killTree(started.pid)
    })
  )

/**
 * Runs a program to its end. When it runs into the limit, or whoever asked for it goes away, it is stopped with all its
 * children. `merge` puts what it prints to stderr in with the rest.
 *
 * @since 0.1.0
 * @category running
 */
export const run = (
  words: Words,
  options: {
    readonly limit: Duration.DurationInput
    readonly cwd?: string
    readonly merge?: boolean
  }
): Effect.Effect<Ended, NotStarted | TimedOut> =>
  Effect.scoped(
    Effect.gen(function* () {
      const stdout = new Collected()
      const stderr = options.merge === true ? stdout : new Collected()
      const started = yield* startScoped(words, {
        stdio: ["ignore", "pipe", "pipe"],
        ...(options.cwd === undefined ? {} : { cwd: options.cwd })
      })
      started.child.stdout?.on("data", stdout.add)
      started.child.stderr?.on("data", stderr.add)
      const limit = Duration.decode(options.limit)
      const exitCode = yield* started.exit.pipe(
        Effect.timeoutFail({
          duration: limit,
          onTimeout: () =>
            new TimedOut({
              program: words[0],
              limit,
              stdout: stdout.text(),
              stderr: stderr === stdout ? "" : stderr.text()
            })
        })
      )
      yield* Effect.timeoutOption(started.closed, lateOutput)
      return { stdout: stdout.close(), stderr: stderr === stdout ? "" : stderr.close(), exitCode }
    })
  )

const reasonOf = (cause: unknown, program: string): string => {
  const code = typeof cause === "object" && cause !== null && "code" in cause ? cause.code : undefined
  switch (code) {
    case "ENOENT":
      return program.includes("/") ? "there is no such file" : "no program of that name is on the PATH"
    case "EACCES":
      return "it is not an executable file, or permission is denied"
    case "E2BIG":
      return "its arguments are longer than the system allows"
    default:
      return cause instanceof Error ? cause.message : String(cause)
  }
}
