/**
 * Reads a command's events to their end.
 */
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import { type ExecEvent, ExecOutcome, outputLimit } from "../ExecOutcome.js"

/** The first `outputLimit` bytes of an output. */
const keeper = () => {
  const chunks: Array<Uint8Array> = []
  let kept = 0
  return {
    take: (bytes: Uint8Array) => {
      const room = outputLimit - kept
      if (room > 0) {
        const some = bytes.subarray(0, room)
        chunks.push(some)
        kept += some.length
      }
    },
    text: () => Buffer.concat(chunks).toString("utf8")
  }
}

/** The outcome of a command with the output that its events told. */
export const collect = <E, R>(events: Stream.Stream<ExecEvent, E, R>): Effect.Effect<ExecOutcome, E, R> =>
  Effect.suspend(() => {
    const stdout = keeper()
    const stderr = keeper()
    let outcome: ExecOutcome = ExecOutcome.Unknown({
      stdout: "",
      stderr: "",
      reason: "its output ended, and nothing said how the command did"
    })
    return Stream.runForEach(events, (event) =>
      Effect.sync(() => {
        if (event._tag === "Ended") {
          outcome = event.outcome
        } else {
          ;(event._tag === "Stdout" ? stdout : stderr).take(event.bytes)
        }
      })
    ).pipe(
      Effect.map(() => {
        const output = { stdout: stdout.text(), stderr: stderr.text() }
        return ExecOutcome.$match(outcome, {
          Exited: ({ code }) => ExecOutcome.Exited({ ...output, code }),
          TimedOut: () => ExecOutcome.TimedOut(output),
          SandboxFailed: ({ reason }) => ExecOutcome.SandboxFailed({ ...output, reason }),
          Unknown: ({ reason }) => ExecOutcome.Unknown({ ...output, reason })
        })
      })
    )
  })
