/**
 * Runs a command as a process: signals stop it in good order, and the exit status says how it ended.
 *
 * @since 0.1.0
 */
import * as NodeRuntime from "@effect/platform-node/NodeRuntime"
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"

const numbers = { SIGHUP: 1, SIGINT: 2, SIGTERM: 15 } as const

type Signal = keyof typeof numbers

/** Wrappers such as npm and tsx pass on a signal that the terminal has sent to everybody already. */
const echoMilliseconds = 1000

/**
 * Runs `program`, whose value is the exit status.
 *
 * The first INT, TERM or HUP interrupts it: whatever it holds is given back, and the status is 128 and the signal's
 * number. One more, a second later or after that, ends the process at once and leaves the rest to `deskhand sweep`.
 *
 * @since 0.1.0
 * @category programs
 */
export const runMain = (program: Effect.Effect<number>): void => {
  let first: { readonly signal: Signal; readonly at: number } | undefined
  const onSignal = (signal: Signal) => {
    const at = performance.now()
    if (first === undefined) {
      first = { signal, at }
      process.stderr.write(`\n${signal}: stopping; what is open is being closed. Once more to leave at once.\n`)
      // The runtime listens to the other two.
      if (signal === "SIGHUP") process.emit("SIGTERM")
    } else if (at - first.at > echoMilliseconds) {
      process.stderr.write("Left at once. To remove what is left of the desktops: deskhand sweep\n")
      process.exit(128 + numbers[signal])
    }
  }
  for (const signal of ["SIGHUP", "SIGINT", "SIGTERM"] as const) process.on(signal, onSignal)
  // Whoever started this program and passes signals on to it has been killed.
  process.on("disconnect", () => process.emit("SIGTERM"))
  process.channel?.unref()
  let status = 0
  const remembered = Effect.map(program, (code) => {
    status = code
  })
  NodeRuntime.runMain(remembered, {
    disableErrorReporting: true,
    teardown: (exit, done) => {
      if (Exit.isSuccess(exit)) return done(status)
      if (first !== undefined && Cause.isInterrupted(exit.cause)) return done(128 + numbers[first.signal])
      process.stderr.write(`deskhand: this is a bug of ours, please report it:\n${Cause.pretty(exit.cause)}\n`)
      done(70)
    }
  })
}
