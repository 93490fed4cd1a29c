/** One command in a sandbox: its events, its end, and what is known of it when its stream breaks off. */
import { randomBytes } from "node:crypto"
import * as Chunk from "effect/Chunk"
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import * as Stream from "effect/Stream"
import { type ExecCommand, ExecEvent, ExecOutcome } from "../ExecOutcome.js"
import type { SandboxSpec } from "../SandboxSpec.js"
import type * as Api from "./openSandboxApi.js"
import { type ApiFailure, describe } from "./openSandboxErrors.js"
import { exitCode, output, script } from "./openSandboxExec.js"
import { poll } from "./openSandboxLooks.js"
import type { Connection } from "./openSandboxPlace.js"

/** How long after its time a command that the service should have ended is waited for. */
const grace = Duration.seconds(5)

/** Whether a command that could not be handed over has not run: execd itself said so, or nothing was sent. */
const isUnrun = (failure: ApiFailure): boolean =>
  failure._tag === "NotSent" ||
  (failure._tag === "Status" && (failure.status < 500 || (failure.status === 500 && failure.code !== "")))

/** The sandbox that commands run in. */
export interface Place {
  readonly connection: Connection
  /** Why the sandbox is over, if it is. */
  readonly over: Effect.Effect<string | undefined>
  readonly spec: Pick<SandboxSpec, "env" | "workdir">
}

export const commands = ({ connection, over, spec }: Place): ((command: ExecCommand) => Stream.Stream<ExecEvent>) => {
  const failed = (failure: ApiFailure) =>
    Effect.map(over, (reason) =>
      reason === undefined && !isUnrun(failure)
        ? ExecOutcome.Unknown({ stdout: "", stderr: "", reason: describe(failure) })
        : ExecOutcome.SandboxFailed({ stdout: "", stderr: "", reason: reason ?? describe(failure) })
    )

  /** What became of a command whose stream broke off: what execd remembers of it, or that nobody knows. */
  const settle = (execd: Api.Execd, commandId: string, failure: ApiFailure, timedOut: Effect.Effect<boolean>) =>
    Effect.gen(function* () {
      const unknown = (reason: string) => ExecOutcome.Unknown({ stdout: "", stderr: "", reason })
      const status = yield* poll(execd.status(commandId), ({ running }) => !running).pipe(
        Effect.timeoutFail({
          duration: "15 seconds",
          onTimeout: (): ApiFailure => ({ _tag: "Lost", reason: `${describe(failure)}; it still runs` })
        }),
        Effect.either
      )
      if (Either.isLeft(status)) {
        yield* connection.forget
        const reason = yield* over
        return reason === undefined
          ? unknown(`${describe(failure)}; asked how it ended, ${describe(status.left)}`)
          : ExecOutcome.SandboxFailed({ stdout: "", stderr: "", reason })
      }
      const { error, exit_code } = status.right
      const code = exitCode(exit_code, error ?? undefined)
      if (!(typeof exit_code === "number" && exit_code >= 0) && (yield* timedOut)) {
        return ExecOutcome.TimedOut({ stdout: "", stderr: "" })
      }
      return Option.match(code, {
        onSome: (code): ExecOutcome => ExecOutcome.Exited({ stdout: "", stderr: "", code }),
        onNone: () => unknown(`it ended and no exit code is known${error ? `: ${error}` : ""}`)
      })
    })

  const started = (execd: Api.Execd, command: ExecCommand, stdinPath: string | undefined) =>
    Effect.gen(function* () {
      const timeout = Duration.decode(command.timeout ?? "3 minutes")
      const millis = Math.max(1, Math.ceil(Duration.toMillis(timeout)))
      const begun = yield* Clock.currentTimeMillis
      const timedOut = Effect.map(Clock.currentTimeMillis, (now) => now - begun >= millis - 20)
      const mark = `dh${randomBytes(12).toString("hex")}`
      let commandId: string | undefined
      let ended = false
      const interrupt = Effect.suspend(() =>
        commandId === undefined || ended
          ? Effect.void
          : Effect.ignoreLogged(Effect.timeout(execd.interrupt(commandId), "5 seconds"))
      )
      yield* Effect.addFinalizer(() => interrupt)
      const end = (outcome: ExecOutcome) => {
        ended = true
        return [ExecEvent.Ended({ outcome })]
      }
      const nothing = { stdout: "", stderr: "" }

      /** How execd's last word is to be read. */
      const failedWith = (event: Api.Event): Effect.Effect<ReadonlyArray<ExecEvent>> =>
        Effect.gen(function* () {
          const said = event.error?.evalue ?? ""
          const note = (event.error?.traceback ?? []).join("; ")
          if (/^\d+$/.test(said)) {
            return end(ExecOutcome.Exited({ ...nothing, code: Number(said) }))
          }
          if (yield* timedOut) {
            return end(ExecOutcome.TimedOut(nothing))
          }
          const reason = yield* over
          if (reason !== undefined) {
            return end(ExecOutcome.SandboxFailed({ ...nothing, reason }))
          }
          const what = note === "" ? said : note
          return end(
            Option.match(exitCode(said, note), {
              onSome: (code): ExecOutcome => ExecOutcome.Exited({ ...nothing, code }),
              onNone: () =>
                /(?:^|\b)(?:fork\/exec|chdir|exec:)/.test(what)
                  ? ExecOutcome.SandboxFailed({ ...nothing, reason: `it could not be started: ${what}` })
                  : ExecOutcome.Unknown({
                      ...nothing,
                      reason: `it ended and no exit code is known${what === "" ? "" : `: ${what}`}`
                    })
            })
          )
        })

      /** Lines that came together are told together. */
      const on = (events: Chunk.Chunk<Api.Event>): Effect.Effect<Chunk.Chunk<ExecEvent>> =>
        Effect.gen(function* () {
          const told: Array<ExecEvent> = []
          let texts: Array<string> = []
          let of = "stdout"
          const flush = () => {
            const bytes = Buffer.from(texts.join(""))
            texts = []
            if (bytes.length > 0) {
              told.push(of === "stdout" ? ExecEvent.Stdout({ bytes }) : ExecEvent.Stderr({ bytes }))
            }
          }
          for (const event of events) {
            const text = event.text ?? ""
            if (event.type === "stdout" || event.type === "stderr") {
              if (event.type !== of) {
                flush()
                of = event.type
              }
              texts.push(output(text, mark))
            } else if (event.type === "init") {
              commandId = text === "" ? undefined : text
            } else if (event.type === "execution_complete" || event.type === "error") {
              flush()
              told.push(
                ...(event.type === "error"
                  ? yield* failedWith(event)
                  : end(ExecOutcome.Exited({ ...nothing, code: 0 })))
              )
            }
          }
          flush()
          return Chunk.unsafeFromArray(told)
        })

      const broken = (failure: ApiFailure) =>
        Effect.map(
          commandId === undefined
            ? Effect.zipRight(connection.forget, failed(failure))
            : settle(execd, commandId, failure, timedOut),
          end
        )

      const events = execd
        .run({
          command: script(command.command, { mark, stdinPath }),
          envs: { ...spec.env, ...command.env },
          timeout: millis,
          ...((command.workdir ?? spec.workdir) === undefined ? {} : { cwd: command.workdir ?? spec.workdir ?? "" })
        })
        .pipe(
          Stream.mapChunksEffect(on),
          Stream.catchAll((failure) => Stream.fromIterableEffect(broken(failure))),
          Stream.concat(
            Stream.fromIterableEffect(
              Effect.suspend(() =>
                ended ? Effect.succeed([]) : broken({ _tag: "Lost", reason: "its output ended before it did" })
              )
            )
          )
        )
      // The service ends what takes too long. Where it does not, and says nothing either, we ask once more.
      const late = Effect.gen(function* () {
        yield* Effect.sleep(Duration.sum(timeout, grace))
        const id = commandId
        const stopped =
          id !== undefined &&
          (yield* Effect.isSuccess(Effect.timeout(execd.interrupt(id), grace))) &&
          (yield* execd.status(id).pipe(
            Effect.map(({ running }) => !running),
            Effect.orElseSucceed(() => false)
          ))
        return ExecEvent.Ended({
          outcome: stopped
            ? ExecOutcome.TimedOut(nothing)
            : ExecOutcome.Unknown({ ...nothing, reason: "its time was over, and it is not known to have ended" })
        })
      })
      return Stream.merge(events, Stream.fromEffect(late), { haltStrategy: "either" }).pipe(
        Stream.takeUntil((event) => event._tag === "Ended")
      )
    })

  const execStream = (command: ExecCommand): Stream.Stream<ExecEvent> =>
    Stream.unwrapScoped(
      Effect.gen(function* () {
        const execd = yield* connection.get
        const stdinPath = command.stdin === undefined ? undefined : `/tmp/.deskhand-${randomBytes(8).toString("hex")}`
        if (command.stdin !== undefined && stdinPath !== undefined) {
          yield* execd.upload(stdinPath, 644, Stream.make(Buffer.from(command.stdin)))
        }
        return yield* started(execd, command, stdinPath)
      }).pipe(
        // Nothing was started yet.
        Effect.catchAll((failure) =>
          Effect.gen(function* () {
            yield* connection.forget
            const reason = (yield* over) ?? `it could not be started: ${describe(failure)}`
            return Stream.make(
              ExecEvent.Ended({ outcome: ExecOutcome.SandboxFailed({ stdout: "", stderr: "", reason }) })
            )
          })
        )
      )
    )

  return execStream
}
