/**
 * `process.Process` of an E2B-compatible server's envd. Process numbers are the server's own: a provider tells none.
 */
import type { IncomingMessage, ServerResponse } from "node:http"
import * as Deferred from "effect/Deferred"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import type { ExecCommand, ExecOutcome } from "../../sandbox/ExecOutcome.js"
import { type Faults, refusal } from "./e2bFaults.js"
import type { Guest, Running } from "./e2bGuests.js"
import { endOfStream, envelope, header, type Json, opened, send, write } from "./e2bWire.js"

const Strings = Schema.Record({ key: Schema.String, value: Schema.String })

const Start = Schema.parseJson(
  Schema.Struct({
    process: Schema.Struct({
      cmd: Schema.NonEmptyString,
      args: Schema.optionalWith(Schema.Array(Schema.String), { default: () => [] }),
      envs: Schema.optionalWith(Strings, { default: () => ({}) }),
      cwd: Schema.optional(Schema.String)
    }),
    tag: Schema.optional(Schema.String),
    stdin: Schema.optional(Schema.Boolean),
    pty: Schema.optional(Schema.Unknown)
  })
)

const Selector = Schema.Struct({ pid: Schema.optional(Schema.Int), tag: Schema.optional(Schema.String) })

const Selected = Schema.parseJson(
  Schema.Struct({
    process: Selector,
    signal: Schema.optional(Schema.String),
    input: Schema.optional(Schema.Struct({ stdin: Schema.optional(Schema.String) }))
  })
)

/** envd keeps the end of a command for those that come late; so long do we. */
const lateResult = Duration.minutes(1)

/** For a command without a limit of its own; the sandbox ends before. */
const longest = Duration.days(7)

let lastPid = 1000

/** A command's output is sent in pieces of at most this size. */
const chunk = 32_768

const pieces = (bytes: Uint8Array): ReadonlyArray<Uint8Array> =>
  Array.from({ length: Math.ceil(bytes.length / chunk) }, (_, at) => bytes.subarray(at * chunk, (at + 1) * chunk))

const endEvent = (exitCode: number, exited: boolean, status: string): Buffer =>
  envelope(0, {
    event: { end: { exitCode, exited, status, ...(exitCode === 0 && exited ? {} : { error: status }) } }
  })

/** What ends a command's stream. Where no exit was seen there is no `end` event. */
const ending = (outcome: ExecOutcome): Buffer => {
  switch (outcome._tag) {
    case "Exited":
      return Buffer.concat([endEvent(outcome.code, true, `exit status ${outcome.code}`), endOfStream()])
    case "TimedOut":
      return endOfStream({ code: "deadline_exceeded", message: "context deadline exceeded" })
    case "SandboxFailed":
      return endOfStream({ code: "unavailable", message: outcome.reason })
    case "Unknown":
      return endOfStream({ code: "internal", message: outcome.reason })
  }
}

const fork = (guest: Guest, wanted: typeof Start.Type, timeout: Duration.Duration): Effect.Effect<Running> =>
  Effect.gen(function* () {
    const { args, cmd, cwd, envs } = wanted.process
    const pid = ++lastPid
    const complete = yield* Deferred.make<void>()
    const running: Running = {
      pid,
      cmd,
      args,
      envs,
      cwd,
      tag: wanted.tag,
      listeners: new Set(),
      ended: undefined,
      stdin: "",
      start: Effect.asVoid(Deferred.succeed(complete, undefined)),
      kill: () => Effect.void
    }
    guest.processes.set(pid, running)
    const publish = (bytes: Buffer, last: boolean) =>
      Effect.forEach([...running.listeners], (listener) => listener(bytes, last), { concurrency: 8, discard: true })
    const finish = (bytes: Buffer) =>
      Effect.suspend(() => {
        if (running.ended !== undefined) return Effect.void
        running.ended = bytes
        return Effect.zipRight(
          publish(bytes, true),
          Effect.forkIn(
            Effect.delay(
              Effect.sync(() => guest.processes.delete(pid)),
              lateResult
            ),
            guest.scope
          )
        )
      })
    const [first, ...rest] = [cmd, ...args]
    const run = Effect.gen(function* () {
      yield* Deferred.await(complete)
      const command: ExecCommand = {
        command: [first ?? cmd, ...rest],
        env: { ...guest.envs, ...envs },
        ...(cwd === undefined || cwd === "" ? {} : { workdir: cwd }),
        timeout,
        ...(wanted.stdin === true ? { stdin: running.stdin } : {})
      }
      yield* Stream.runForEach(guest.sandbox.execStream(command), (event) =>
        event._tag === "Ended"
          ? finish(ending(event.outcome))
          : Effect.forEach(
              pieces(event.bytes),
              (piece) => {
                const text = Buffer.from(piece).toString("base64")
                return publish(
                  envelope(0, { event: { data: event._tag === "Stdout" ? { stdout: text } : { stderr: text } } }),
                  false
                )
              },
              { discard: true }
            )
      )
    }).pipe(
      Effect.catchAll((error) => finish(endOfStream({ code: "unimplemented", message: error.message }))),
      // It was killed, or its sandbox was.
      Effect.onExit((exit) =>
        Exit.isFailure(exit) ? finish(endOfStream({ code: "unavailable", message: "the sandbox ended" })) : Effect.void
      )
    )
    const fiber = yield* Effect.forkIn(Effect.interruptible(run), guest.scope)
    running.kill = (status) =>
      Effect.zipRight(
        finish(Buffer.concat([endEvent(-1, false, status), endOfStream()])),
        Effect.asVoid(Fiber.interrupt(fiber))
      )
    return running
  })

/** Tells a client all that comes. The client may leave at any time; the command does not end with it. */
const follow = (
  request: IncomingMessage,
  response: ServerResponse,
  running: Running,
  go: Effect.Effect<void>,
  options: { readonly cut: boolean; readonly noEnd: boolean; readonly forget: () => void }
): Effect.Effect<void> =>
  Effect.async<void>((resume) => {
    response.writeHead(200, { "content-type": "application/connect+json" })
    response.write(envelope(0, { event: { start: { pid: running.pid } } }))
    const every = Number(header(request, "keepalive-ping-interval") ?? 90)
    const ping = setInterval(
      () => response.write(envelope(0, { event: { keepalive: {} } })),
      (Number.isFinite(every) && every > 0 ? every : 90) * 1000
    )
    const listener = (bytes: Buffer, last: boolean): Effect.Effect<void> =>
      last
        ? Effect.sync(() => {
            if (options.noEnd) options.forget()
            response.end(options.noEnd ? endOfStream() : bytes)
          })
        : write(response, bytes)
    const leave = () => {
      clearInterval(ping)
      running.listeners.delete(listener)
      resume(Effect.void)
    }
    response.on("close", leave)
    if (options.cut) {
      // What was written has to be on its way before the connection is cut.
      setTimeout(() => request.socket.destroy(), 50)
    } else {
      running.listeners.add(listener)
    }
    if (running.ended !== undefined) response.end(running.ended)
    resume(Effect.zipRight(go, Effect.void))
  })

export const handle = (
  guest: Guest,
  faults: Faults,
  request: IncomingMessage,
  response: ServerResponse,
  method: string,
  body: Buffer
): Effect.Effect<void> => {
  const streams = method === "Start" || method === "Connect"
  const reply = (json: Json) => Effect.sync(() => send(response, { status: 200, body: json }))
  /** A stream's error comes at its end, and the status is that of a stream. */
  const refuse = (status: number, code: string, message: string) =>
    Effect.sync(() => {
      if (!streams) return send(response, { status, body: { code, message } })
      response.writeHead(200, { "content-type": "application/connect+json" })
      response.end(endOfStream({ code, message }))
    })
  const find = (selector: typeof Selector.Type): Running | undefined =>
    selector.pid !== undefined
      ? guest.processes.get(selector.pid)
      : [...guest.processes.values()].find(({ tag }) => tag !== undefined && tag === selector.tag)
  const selected = (text: string, then: (running: Running, wanted: typeof Selected.Type) => Effect.Effect<void>) =>
    Either.match(Schema.decodeUnknownEither(Selected)(text), {
      onLeft: (error) => refuse(400, "invalid_argument", error.message),
      onRight: (wanted) => {
        const running = find(wanted.process)
        return running === undefined ? refuse(404, "not_found", "process not found") : then(running, wanted)
      }
    })
  switch (method) {
    case "Start": {
      const fault = faults.take("exec")
      const refused = refusal(fault)
      if (refused !== undefined) return Effect.sync(() => send(response, refused))
      return Either.match(Schema.decodeUnknownEither(Start)(opened(body) ?? ""), {
        onLeft: (error) => refuse(400, "invalid_argument", error.message),
        onRight: (wanted) => {
          if (wanted.pty !== undefined) return refuse(501, "unimplemented", "there are no terminals here")
          const limit = Number(header(request, "connect-timeout-ms"))
          return Effect.gen(function* () {
            const running = yield* fork(
              guest,
              wanted,
              Number.isFinite(limit) && limit > 0 ? Duration.millis(limit) : longest
            )
            yield* follow(request, response, running, wanted.stdin === true ? Effect.void : running.start, {
              cut: fault?._tag === "CutAfterStart" || fault?._tag === "CommitThenLose",
              noEnd: fault?._tag === "NoEndEvent",
              forget: () => guest.processes.delete(running.pid)
            })
          })
        }
      })
    }
    case "Connect":
      return selected(opened(body) ?? "", (running) =>
        follow(request, response, running, Effect.void, { cut: false, noEnd: false, forget: () => {} })
      )
    case "List":
      return reply({
        processes: [...guest.processes.values()]
          .filter(({ ended }) => ended === undefined)
          .map(({ args, cmd, cwd, envs, pid, tag }) => ({
            config: { cmd, args, envs, ...(cwd === undefined ? {} : { cwd }) },
            pid,
            ...(tag === undefined ? {} : { tag })
          }))
      })
    case "SendInput":
      return selected(body.toString(), (running, { input }) => {
        running.stdin += Buffer.from(input?.stdin ?? "", "base64").toString("utf8")
        return reply({})
      })
    case "CloseStdin":
      return selected(body.toString(), (running) => Effect.zipRight(running.start, reply({})))
    case "SendSignal":
      return selected(body.toString(), (running, { signal }) =>
        running.ended !== undefined
          ? refuse(404, "not_found", "process not found")
          : Effect.zipRight(
              running.kill(signal === "SIGNAL_SIGTERM" ? "signal: terminated" : "signal: killed"),
              reply({})
            )
      )
    default:
      return refuse(501, "unimplemented", `process.Process/${method}`)
  }
}
