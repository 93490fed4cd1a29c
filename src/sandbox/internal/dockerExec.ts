/**
 * Commands in a container: their output, their end, and the end of all that they started.
 */
import { randomBytes } from "node:crypto"
import * as Deferred from "effect/Deferred"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Ref from "effect/Ref"
import * as Schedule from "effect/Schedule"
import * as Stream from "effect/Stream"
import { type ExecCommand, ExecEvent, ExecOutcome } from "../ExecOutcome.js"
import type { SandboxSpec } from "../SandboxSpec.js"
import type { Engine, ExecInspected } from "./dockerEngine.js"
import { type EngineError, isMissing, isNotRunning, reasonOf } from "./dockerFailure.js"
import { execMark, marked } from "./execMark.js"

/**
 * The engine has no way to end a command, so all that a command starts carries a mark of its own. This ends what carries
 * the mark and what such processes started without it: all are stopped first, so that none can start another unseen.
 * Prints `ended` when nothing is left. What has dropped its environment and its parent, too, is not found.
 */
export const killScript = `
mark=$1
found=" "
add() { case "$found" in *" $1 "*) ;; *) found="$found$1 "; new="$new $1"; kill -STOP "$1" 2>/dev/null;; esac; }
collect() {
  while :; do
    new=""
    for file in $(grep -lsF "$mark" /proc/[0-9]*/environ 2>/dev/null); do
      pid=\${file#/proc/}
      add "\${pid%/environ}"
    done
    for folder in /proc/[0-9]*; do
      { read -r line <"$folder/stat"; } 2>/dev/null || continue
      set -- \${line##*) }
      [ "$1" = Z ] && continue
      case "$found" in *" $2 "*) add "\${folder#/proc/}";; esac
    done
    [ -n "$new" ] || break
  done
}
tries=0
while [ "$tries" -lt 20 ]; do
  found=" "
  collect
  [ "$found" != " " ] || break
  kill -KILL $found 2>/dev/null
  tries=$((tries + 1))
done
left=$(grep -lsF "$mark" /proc/[0-9]*/environ 2>/dev/null)
if [ -z "$left" ]; then echo ended; else echo left; fi
`

const defaultTimeout = Duration.minutes(3)

/** How long ending a command may take. */
const killLimit = Duration.seconds(10)

/** How long output may still come after the command has ended: something that it left behind may hold the pipes. */
const grace = Duration.millis(300)

/** How often it is asked whether a command that says nothing has ended. */
const askEvery = Duration.seconds(1)

const askSoon = Schedule.identity<typeof ExecInspected.Type>().pipe(
  Schedule.whileOutput(({ Running }) => Running),
  Schedule.addDelay(() => 0),
  Schedule.zipLeft(Schedule.union(Schedule.exponential("5 millis", 1.3), Schedule.spaced("500 millis")))
)

const assignments = (values: Readonly<Record<string, string>>) =>
  Object.entries(values).map(([name, value]) => `${name}=${value}`)

/** What the engine writes in the place of the command's output when it cannot start it. */
const notStarted = /^OCI runtime exec failed: /

type Sandbox = { readonly engine: Engine; readonly id: string; readonly spec: Pick<SandboxSpec, "env" | "workdir"> }

/** Runs something of ours to its end and answers with its exit code and its output. */
export const helper = (
  { engine, id }: Pick<Sandbox, "engine" | "id">,
  command: ReadonlyArray<string>,
  user?: string
): Effect.Effect<{ readonly code: number; readonly output: string }, EngineError> =>
  Effect.scoped(
    Effect.gen(function* () {
      const { Id } = yield* engine.execCreate(id, {
        Cmd: command,
        AttachStdin: false,
        AttachStdout: true,
        AttachStderr: true,
        ...(user === undefined ? {} : { User: user })
      })
      const frames = yield* engine.execStart(Id, undefined)
      const output = yield* Stream.runFold(frames, "", (text, { bytes }) =>
        text.length > 10_000 ? text : text + Buffer.from(bytes).toString("utf8")
      )
      return { code: (yield* ended(engine, Id)) ?? -1, output }
    })
  )

/** The exit code, once there is one: the output's end may come before it. */
const ended = (engine: Engine, execId: string) =>
  Effect.map(Effect.repeat(engine.execInspect(execId), askSoon), ({ ExitCode }) => ExitCode ?? undefined)

/**
 * Ends a command and all that it started; whether nothing is left. What is printed is the answer: engines tell an exit
 * code up to two seconds late for every process that keeps another's output open.
 */
const killTree = ({ engine, id }: Sandbox, value: string): Effect.Effect<boolean> =>
  Effect.scoped(
    Effect.gen(function* () {
      const { Id } = yield* engine.execCreate(id, {
        Cmd: ["/bin/sh", "-c", killScript, "sh", `${execMark}=${value}`],
        AttachStdin: false,
        AttachStdout: true,
        AttachStderr: true
      })
      const said = yield* Stream.runHead(yield* engine.execStart(Id, undefined))
      return Option.match(said, {
        onNone: () => false,
        onSome: ({ bytes }) => Buffer.from(bytes).toString("utf8").startsWith("ended")
      })
    })
  ).pipe(
    // A container that is gone has no processes.
    Effect.catchAll(({ failure }) => Effect.succeed(isNotRunning(failure))),
    Effect.timeoutTo({ duration: killLimit, onSuccess: (done) => done, onTimeout: () => false })
  )

const nothing = { stdout: "", stderr: "" }

/** The command's events; leaving the stream ends the command. */
export const stream = (sandbox: Sandbox, command: ExecCommand): Stream.Stream<ExecEvent> =>
  Stream.unwrapScoped(
    Effect.gen(function* () {
      const { engine, id, spec } = sandbox
      const value = randomBytes(12).toString("hex")
      const workdir = command.workdir ?? spec.workdir
      const created = yield* Effect.either(
        engine.execCreate(id, {
          Cmd: command.command,
          Env: assignments(marked(execMark, value, spec.env, command.env)),
          AttachStdin: command.stdin !== undefined,
          AttachStdout: true,
          AttachStderr: true,
          ...(workdir === undefined ? {} : { WorkingDir: workdir })
        })
      )
      const only = (outcome: ExecOutcome) => Stream.make(ExecEvent.Ended({ outcome }))
      if (created._tag === "Left") {
        // It was made ready at most, and not started.
        return only(ExecOutcome.SandboxFailed({ ...nothing, reason: created.left.message }))
      }
      const execId = created.right.Id
      const finished = yield* Ref.make(false)
      yield* Effect.addFinalizer(() =>
        Effect.flatMap(Ref.get(finished), (done) => (done ? Effect.void : Effect.asVoid(killTree(sandbox, value))))
      )
      const frames = yield* Effect.either(engine.execStart(execId, command.stdin))
      if (frames._tag === "Left") {
        const { failure } = frames.left
        if (failure._tag !== "Lost") {
          yield* Ref.set(finished, true)
        }
        return only(
          failure._tag === "Lost"
            ? ExecOutcome.Unknown({ ...nothing, reason: reasonOf(failure) })
            : ExecOutcome.SandboxFailed({ ...nothing, reason: reasonOf(failure) })
        )
      }

      const over = yield* Ref.make(false)
      /** Whether all of it has been ended after its time was over. */
      const killed = yield* Deferred.make<boolean>()
      const lost = yield* Ref.make<string | undefined>(undefined)
      const began = yield* Ref.make("")
      // Completes when no more output is worth waiting for, whoever holds the pipes.
      const silent = yield* Deferred.make<void>()
      const timer = Effect.gen(function* () {
        yield* Effect.sleep(command.timeout ?? defaultTimeout)
        yield* Ref.set(over, true)
        yield* Deferred.succeed(killed, yield* killTree(sandbox, value))
        yield* Effect.sleep(grace)
      })
      const asking = engine.execInspect(execId).pipe(
        Effect.map(({ Running }) => Running),
        // The connection itself tells what is wrong.
        Effect.catchAll(({ failure }) => Effect.succeed(!isMissing(failure))),
        Effect.delay(askEvery),
        Effect.repeat({ while: (running) => running }),
        Effect.zipRight(Effect.sleep(grace)),
        // Once its time is over, it is not asked any more: what ends then was ended.
        Effect.zipRight(Effect.flatMap(Ref.get(over), (late) => (late ? Effect.never : Effect.void)))
      )
      yield* Effect.forkScoped(Effect.zipRight(Effect.raceFirst(timer, asking), Deferred.succeed(silent, undefined)))

      const runs = Effect.match(engine.inspect(id), {
        onSuccess: ({ State }) => State.Running,
        onFailure: ({ failure }) => !isMissing(failure)
      })
      const done = <A>(outcome: A) => Effect.as(Ref.set(finished, true), outcome)
      const sandboxEnded = ExecOutcome.SandboxFailed({ ...nothing, reason: "the container ended" })

      const outcome: Effect.Effect<ExecOutcome> = Effect.gen(function* () {
        const cut = yield* Ref.get(lost)
        if (cut !== undefined) {
          return (yield* runs) ? ExecOutcome.Unknown({ ...nothing, reason: cut }) : yield* done(sandboxEnded)
        }
        // Output may end before the command does, and its time goes on until then.
        const code = yield* Effect.raceFirst(
          Effect.either(ended(engine, execId)),
          Effect.zipRight(Deferred.await(silent), Effect.never.pipe(Effect.timeoutOption(grace)))
        )
        if (yield* Ref.get(over)) {
          return (yield* Deferred.await(killed))
            ? yield* done(ExecOutcome.TimedOut(nothing))
            : ExecOutcome.Unknown({ ...nothing, reason: "its time is over, and it could not be ended" })
        }
        const known = "right" in code ? code.right : undefined
        // Only a command that was killed may have ended with its container.
        if ((known === undefined || known === 137) && !(yield* runs)) {
          return yield* done(sandboxEnded)
        }
        if (known === undefined) {
          const reason = "left" in code ? code.left.message : "the engine tells no exit code"
          return ExecOutcome.Unknown({ ...nothing, reason })
        }
        const said = yield* Ref.get(began)
        return yield* done(
          (known === 126 || known === 127) && notStarted.test(said)
            ? ExecOutcome.SandboxFailed({ ...nothing, reason: said.trim() })
            : ExecOutcome.Exited({ ...nothing, code: known })
        )
      })

      const output = frames.right.pipe(
        Stream.interruptWhenDeferred(silent),
        Stream.tap(({ bytes }) =>
          Ref.update(began, (text) => (text.length > 0 ? text : Buffer.from(bytes.subarray(0, 500)).toString("utf8")))
        ),
        Stream.map(({ bytes, stream }) =>
          stream === "stdout" ? ExecEvent.Stdout({ bytes }) : ExecEvent.Stderr({ bytes })
        ),
        Stream.catchAll((error) => Stream.drain(Stream.fromEffect(Ref.set(lost, error.message))))
      )
      return Stream.concat(output, Stream.fromEffect(Effect.map(outcome, (outcome) => ExecEvent.Ended({ outcome }))))
    })
  )
