/** Moves files through commands in local sandboxes: a guest's links lead nowhere but inside. */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import { ExecOutcome } from "../ExecOutcome.js"
import { SandboxFileError } from "../SandboxError.js"
import { collect } from "./collect.js"
import { alive, events, execStream, type Fs, feed, launch, noOutput, type Place, sandboxEnded } from "./localExec.js"
import { provider } from "./localRemoval.js"

const fileTimeout = Duration.hours(1)

const tools = { PATH: "/usr/bin:/bin", LC_ALL: "C" }

const missingCode = 66

const failure = (place: Place, operation: "upload" | "download", path: string, reason: string, missing: boolean) =>
  new SandboxFileError({ provider, sandboxId: place.id, operation, path, missing, reason })

const fileError = (
  place: Place,
  operation: "upload" | "download",
  path: string,
  outcome: ExecOutcome
): SandboxFileError | undefined => {
  const printed = outcome.stderr.trim().slice(-500)
  const reason =
    outcome._tag === "Exited"
      ? outcome.code === missingCode
        ? "there is no such file"
        : printed || `it ended with exit code ${outcome.code}`
      : outcome._tag === "TimedOut"
        ? `it took longer than ${Duration.format(fileTimeout)}`
        : outcome.reason
  return outcome._tag === "Exited" && outcome.code === 0
    ? undefined
    : failure(place, operation, path, reason, outcome._tag === "Exited" && outcome.code === missingCode)
}

const relative = (place: Place, operation: "upload" | "download", path: string) =>
  path.startsWith("/") && !path.includes("\0")
    ? undefined
    : failure(place, operation, path, "the path is not absolute", false)

export const upload = <E>(
  place: Place,
  path: string,
  bytes: Stream.Stream<Uint8Array, E>
): Effect.Effect<void, SandboxFileError | E, Fs> =>
  Effect.gen(function* () {
    const script = 'mkdir -p -- "$(dirname -- "$1")" && exec cat >"$1"'
    const problem =
      relative(place, "upload", path) ??
      ((yield* alive(place, false)) ? undefined : fileError(place, "upload", path, sandboxEnded))
    if (problem !== undefined) {
      return yield* problem
    }
    const running = yield* launch(
      place,
      { command: ["/bin/sh", "-c", script, "upload", path], env: tools, workdir: "/" },
      true
    ).pipe(
      Effect.mapError((reason) => fileError(place, "upload", path, ExecOutcome.SandboxFailed({ ...noOutput, reason }))),
      Effect.catchAll((error) => (error === undefined ? Effect.die("a failure is an error") : Effect.fail(error)))
    )
    const fed = running.stdin === null ? Effect.void : feed(running.stdin, bytes)
    const ended = collect(events(place, running, fileTimeout))
    // Who does not read to the end has ended for a reason of its own.
    const [outcome] = yield* Effect.all([ended, Effect.raceFirst(fed, running.exited)], { concurrency: 2 })
    const error = fileError(place, "upload", path, outcome)
    if (error !== undefined) {
      return yield* error
    }
  }).pipe(Effect.scoped)

export const download = (place: Place, path: string): Stream.Stream<Uint8Array, SandboxFileError, Fs> =>
  Stream.suspend(() => {
    const problem = relative(place, "download", path)
    if (problem !== undefined) {
      return Stream.fail(problem)
    }
    const script = `[ -e "$1" ] || [ -L "$1" ] || exit ${missingCode}; exec cat -- "$1"`
    let stderr = ""
    return execStream(place, {
      command: ["/bin/sh", "-c", script, "download", path],
      env: tools,
      workdir: "/",
      timeout: fileTimeout
    }).pipe(
      Stream.flatMap((event) => {
        if (event._tag === "Stdout") {
          return Stream.make(event.bytes)
        }
        if (event._tag === "Stderr") {
          stderr = (stderr + new TextDecoder().decode(event.bytes)).slice(-500)
          return Stream.empty
        }
        const error = fileError(place, "download", path, { ...event.outcome, stderr })
        return error === undefined ? Stream.empty : Stream.fail(error)
      })
    )
  })
