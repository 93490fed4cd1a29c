/**
 * Commands in an E2B sandbox: always in the background on the SDK's side, with the deadline kept here, attached to again
 * when the stream breaks, and ended with all that they started.
 */
import { randomBytes } from "node:crypto"
import type { CommandHandle, Sandbox } from "e2b"
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Mailbox from "effect/Mailbox"
import * as Option from "effect/Option"
import * as Runtime from "effect/Runtime"
import * as Schedule from "effect/Schedule"
import * as Stream from "effect/Stream"
import { type ExecCommand, ExecEvent, ExecOutcome } from "../ExecOutcome.js"
import * as E2BErrors from "./e2bErrors.js"
import { quote } from "./e2bOptions.js"
import { e2bExecMark, marked } from "./execMark.js"

export interface ExecTarget {
  readonly sandbox: () => Sandbox
  readonly env: Readonly<Record<string, string>>
  readonly workdir: string | undefined
  readonly requestTimeoutMs: number
  /** Whether the control plane says that the sandbox is not there. */
  readonly isGone: Effect.Effect<boolean>
}

/** How often a broken stream is attached to again. */
const reattachments = 2

/** How long ending a command may take before it is left to the sandbox's own end. */
const endLimit = Duration.seconds(10)

/** Kills what carries the mark until nothing does: a process may start another while it is being killed. */
const killScript = (key: string): string =>
  `for round in 1 2 3 4 5; do pids=$(grep -lszx '${e2bExecMark}=${key}' /proc/[0-9]*/environ | cut -d/ -f3); ` +
  `[ -z "$pids" ] && break; kill -KILL $pids 2>/dev/null; done; true`

const failure = (thrown: unknown) => E2BErrors.ofData(E2BErrors.of(thrown))

type Ended =
  | { readonly _tag: "Result"; readonly code: number; readonly error: string | undefined }
  | { readonly _tag: "Lost"; readonly cause: E2BErrors.Classified }

const exitOf = (thrown: unknown): { readonly code: number; readonly error: string | undefined } | undefined =>
  thrown instanceof Error &&
  thrown.name === "CommandExitError" &&
  "exitCode" in thrown &&
  typeof thrown.exitCode === "number"
    ? { code: thrown.exitCode, error: thrown.message }
    : undefined

const wait = (handle: CommandHandle): Effect.Effect<Ended> =>
  Effect.matchEffect(
    Effect.tryPromise({ try: () => handle.wait(), catch: (thrown) => ({ exit: exitOf(thrown), thrown }) }),
    {
      onFailure: ({ exit, thrown }) =>
        Effect.succeed<Ended>(
          exit === undefined ? { _tag: "Lost", cause: failure(thrown) } : { _tag: "Result", ...exit }
        ),
      onSuccess: ({ error, exitCode }) => Effect.succeed<Ended>({ _tag: "Result", code: exitCode, error })
    }
  )

const none = { stdout: "", stderr: "" }

const outcomeOf = ({ code, error }: { readonly code: number; readonly error: string | undefined }): ExecOutcome => {
  const exit = E2BErrors.exitCode(code, error)
  return exit === undefined
    ? ExecOutcome.Unknown({ ...none, reason: `the command ended, and no exit code was told: ${error ?? code}` })
    : ExecOutcome.Exited({ ...none, code: exit })
}

const run = (
  target: ExecTarget,
  command: ExecCommand,
  emit: (kind: "Stdout" | "Stderr", text: string) => Promise<void>
): Effect.Effect<ExecOutcome> =>
  Effect.gen(function* () {
    const key = randomBytes(12).toString("hex")
    const deadline = (yield* Clock.currentTimeMillis) + Duration.toMillis(command.timeout ?? "3 minutes")
    const remaining = Effect.map(Clock.currentTimeMillis, (now) => Math.max(0, deadline - now))
    const sandbox = target.sandbox()
    const listeners = {
      onStdout: (text: string) => emit("Stdout", text),
      onStderr: (text: string) => emit("Stderr", text)
    }
    const workdir = command.workdir ?? target.workdir
    let handle: CommandHandle | undefined

    const end = Effect.gen(function* () {
      const pid = handle?.pid
      yield* Effect.promise(() => handle?.disconnect() ?? Promise.resolve())
      yield* Effect.tryPromise(() =>
        sandbox.commands.run(killScript(key), { timeoutMs: 5000, requestTimeoutMs: target.requestTimeoutMs })
      ).pipe(Effect.ignore)
      if (pid !== undefined) yield* Effect.ignore(Effect.tryPromise(() => sandbox.commands.kill(pid)))
    }).pipe(
      Effect.timeoutOption(endLimit),
      Effect.interruptible,
      Effect.forkDaemon,
      Effect.flatMap((fiber) => fiber.await),
      Effect.asVoid
    )

    const start = Effect.flatMap(remaining, (left) =>
      Effect.tryPromise({
        try: (signal) =>
          sandbox.commands.run(`exec ${command.command.map(quote).join(" ")}`, {
            background: true,
            envs: marked(e2bExecMark, key, target.env, command.env),
            ...(workdir === undefined ? {} : { cwd: workdir }),
            stdin: command.stdin !== undefined,
            timeoutMs: 0,
            requestTimeoutMs: Math.max(1, Math.min(target.requestTimeoutMs, left)),
            signal,
            ...listeners
          }),
        catch: failure
      })
    ).pipe(
      Effect.tap((started) =>
        Effect.sync(() => {
          handle = started
        })
      ),
      // The gateway turned it away: the sandbox never saw it, most often because it does not listen yet.
      Effect.retry({
        schedule: Schedule.intersect(Schedule.exponential("100 millis"), Schedule.recurs(5)),
        while: (cause) => cause._tag === "Unavailable" && cause.kind !== "unauthorised"
      })
    )

    const attach = (pid: number) =>
      Effect.flatMap(remaining, (left) =>
        Effect.tryPromise({
          try: (signal) =>
            sandbox.commands.connect(pid, {
              timeoutMs: 0,
              requestTimeoutMs: Math.max(1, Math.min(target.requestTimeoutMs, left)),
              signal,
              ...listeners
            }),
          catch: failure
        })
      )

    /** Contact was lost: with a sandbox that is gone the command has no effect any more, else it may be at it still. */
    const lost = (reason: string) =>
      Effect.map(target.isGone, (gone) =>
        gone
          ? ExecOutcome.SandboxFailed({ ...none, reason: `the sandbox is gone: ${reason}` })
          : ExecOutcome.Unknown({ ...none, reason })
      )

    const follow = (current: CommandHandle, left: number): Effect.Effect<ExecOutcome> =>
      Effect.flatMap(wait(current), (ended) => {
        if (ended._tag === "Result") return Effect.succeed(outcomeOf(ended))
        const { reason } = ended.cause
        if (ended.cause._tag === "Gone" || left === 0) return lost(reason)
        return attach(current.pid).pipe(
          Effect.retry({
            schedule: Schedule.spaced("250 millis"),
            times: left - 1,
            while: ({ _tag }) => _tag !== "NotFound"
          }),
          Effect.matchEffect({
            onFailure: () => lost(reason),
            onSuccess: (again) => {
              handle = again
              return follow(again, left - 1)
            }
          })
        )
      })

    const feed = (current: CommandHandle, text: string) =>
      Effect.tryPromise(async () => {
        const bytes = new TextEncoder().encode(text)
        for (let at = 0; at < bytes.length; at += 65_536) await current.sendStdin(bytes.subarray(at, at + 65_536))
        await current.closeStdin()
        // A command may end without reading all of it, and then the sending fails.
      }).pipe(Effect.ignore)

    const whole = start.pipe(
      Effect.matchEffect({
        onFailure: (cause): Effect.Effect<ExecOutcome> =>
          cause._tag === "Unavailable" || cause._tag === "Rejected" || cause._tag === "NotFound"
            ? Effect.succeed(
                ExecOutcome.SandboxFailed({ ...none, reason: `the command was not started: ${cause.reason}` })
              )
            : lost(cause.reason),
        onSuccess: (started) =>
          command.stdin === undefined
            ? follow(started, reattachments)
            : Effect.zipRight(Effect.fork(feed(started, command.stdin)), follow(started, reattachments))
      }),
      Effect.onInterrupt(() => end)
    )
    const allowed = yield* remaining
    const ended = yield* Effect.timeoutOption(whole, allowed)
    return Option.getOrElse(ended, () => ExecOutcome.TimedOut(none))
  })

export const execStream = (target: ExecTarget, command: ExecCommand): Stream.Stream<ExecEvent> =>
  Stream.unwrapScoped(
    Effect.gen(function* () {
      const mailbox = yield* Mailbox.make<ExecEvent>({ capacity: 64 })
      const runtime = yield* Effect.runtime<never>()
      const encoder = new TextEncoder()
      // The SDK waits for what its listeners return, so a reader that is slow slows the stream.
      const emit = (kind: "Stdout" | "Stderr", text: string) =>
        Runtime.runPromise(runtime)(Effect.asVoid(mailbox.offer(ExecEvent[kind]({ bytes: encoder.encode(text) }))))
      yield* Effect.forkScoped(
        run(target, command, emit).pipe(
          Effect.flatMap((outcome) => mailbox.offer(ExecEvent.Ended({ outcome }))),
          Effect.onExit((exit) => (Exit.isSuccess(exit) ? mailbox.end : mailbox.shutdown))
        )
      )
      return Mailbox.toStream(mailbox)
    })
  )
