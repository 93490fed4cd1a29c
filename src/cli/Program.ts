/**
 * Runs a program as a process: signals stop it in good order, and the exit status says how it ended.
 *
 * @since 0.1.0
 */
import * as Cause from "effect/Cause"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Logger from "effect/Logger"
import * as Runtime from "effect/Runtime"
import type * as Scope from "effect/Scope"
import { tuneEngine } from "./internal/engine.js"
import { exit } from "./internal/exit.js"
import { numbers, type Signal, statusOf } from "./internal/signals.js"
import { closeSeconds as bound, type Drain, makeStop } from "./internal/stop.js"
import { runBesideTsx, underTsx } from "./internal/tsx.js"

/**
 * Lets a program finish what it has begun when it is told to stop. Does nothing outside of `runMain`.
 *
 * @since 0.1.0
 * @category context
 */
export class Shutdown extends Context.Reference<Shutdown>()("deskhand/cli/Shutdown", {
  defaultValue: (): { readonly register: (drain: Drain) => () => void } => ({ register: () => () => {} })
}) {}

/**
 * While the scope is open, the first signal runs `drain`, and the program has so many seconds to come to its end by
 * itself. Then, or when one more signal comes, it is interrupted.
 *
 * @since 0.1.0
 * @category operations
 */
export const drainOnSignal = (drain: Effect.Effect<void>, seconds: number): Effect.Effect<void, never, Scope.Scope> =>
  Effect.gen(function* () {
    const { register } = yield* Shutdown
    const runtime = yield* Effect.runtime<never>()
    yield* Effect.acquireRelease(
      Effect.sync(() => register({ begin: () => Runtime.runFork(runtime)(drain), seconds })),
      (forget) => Effect.sync(forget)
    )
  })

/**
 * How long a program may take to close what it holds once it is interrupted, in seconds. Each thing that is closed has a
 * shorter bound of its own; this one is for what has none.
 *
 * @since 0.1.0
 * @category constants
 */
export const closeSeconds: number = bound

/**
 * Runs `program`, whose value is the exit status.
 *
 * The first INT, TERM or HUP interrupts it, or drains it where it asked for that by `drainOnSignal`: whatever it holds is
 * given back, and the status is 128 and the signal's number, unless all was done all the same. One more signal, a second
 * later or after that, goes one step further: from draining to interruption, and from there the process ends at once and
 * leaves the rest to `deskhand sweep`. It ends so too when closing takes longer than `closeSeconds`.
 *
 * The process sets flags of V8's, as any program may for itself: `node --interrupt-budget=250000` makes the first
 * evaluation of a large file a quarter faster, and once the heap has 128 MB `--heap-growing-percent=60
 * --compact-on-every-full-gc` keep it near what is alive, a third less memory with thousands of episodes.
 *
 * Under the `tsx` command, which kills a program that is too busy to answer a signal at once, the same file runs once more
 * in a process of its own. So this is the last thing that a file does, and nothing before it should act.
 *
 * @since 0.1.0
 * @category programs
 */
export const runMain = (program: Effect.Effect<number>): void => {
  if (underTsx(process.execArgv)) {
    runBesideTsx()
    return
  }
  tuneEngine()
  let first: Signal | undefined
  let drain: Drain | undefined

  // A terminal that was closed, or a reader that has gone, takes nothing any more; that is no reason to leave desktops.
  let hungUp = false
  for (const stream of [process.stdout, process.stderr]) {
    stream.on("error", () => {
      hungUp = true
    })
  }
  const say = (text: string) => process.stderr.write(`${text}\n`)

  const stop = Effect.runSync(
    makeStop({
      say,
      drain: () => drain,
      interrupt: () => fiber.unsafeInterruptAsFork(fiber.id()),
      leave: (signal) => exit(128 + numbers[signal], hungUp)
    })
  )
  const onSignal = (signal: Signal) => {
    hungUp ||= signal === "SIGHUP"
    first ??= signal
    stop(signal)
  }

  // Before the program takes its first step: whatever it starts, a signal finds somebody who answers for it.
  for (const signal of ["SIGHUP", "SIGINT", "SIGTERM"] as const) process.on(signal, onSignal)
  // Whoever started this program and passes signals on to it has been killed.
  process.on("disconnect", () => onSignal("SIGTERM"))
  process.channel?.unref()
  const keepAlive = setInterval(() => {}, 2 ** 31 - 1)
  const fiber = Effect.runFork(
    program.pipe(
      Effect.provideService(Shutdown, {
        register: (mine) => {
          drain = mine
          return () => {
            if (drain === mine) drain = undefined
          }
        }
      }),
      Effect.provide(Logger.pretty)
    )
  )
  // It may have gone before anybody here listened.
  if (process.connected === false) onSignal("SIGTERM")

  fiber.addObserver((ended) => {
    clearInterval(keepAlive)
    const status = Exit.match(ended, {
      onSuccess: (status) => statusOf(status, first),
      onFailure: (cause) => {
        if (first !== undefined && Cause.isInterrupted(cause)) return 128 + numbers[first]
        say(`deskhand: this is a bug, please report it:\n${Cause.pretty(cause)}`)
        return 70
      }
    })
    if (status !== 0 || first !== undefined) exit(status, hungUp)
  })
}
