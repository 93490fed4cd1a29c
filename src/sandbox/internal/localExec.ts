/** Runs commands in local sandboxes, and ends all that they started. */
import { type ChildProcess, spawn } from "node:child_process"
import { randomBytes } from "node:crypto"
import * as os from "node:os"
import type { Readable, Writable } from "node:stream"
import * as FileSystem from "@effect/platform/FileSystem"
import * as NodeStream from "@effect/platform-node/NodeStream"
import * as Clock from "effect/Clock"
import * as Deferred from "effect/Deferred"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Schedule from "effect/Schedule"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import { type ExecCommand, ExecEvent, ExecOutcome } from "../ExecOutcome.js"
import { guest } from "./bwrapArguments.js"
import { collect } from "./collect.js"
import * as Enter from "./enter.js"
import { execMark, marked } from "./execMark.js"
import { isRunning, parseStat } from "./owner.js"
import * as Proc from "./proc.js"

/** What a command needs to know of the sandbox that it runs in. */
export interface Place {
  readonly id: string
  readonly env: Readonly<Record<string, string>>
  readonly workdir: string | undefined
  /** The container's processes 1 and 2, by their numbers on this host. */
  readonly first: number
  readonly guest: number
}

const defaultTimeout = Duration.minutes(3)

/** A process that left its output open to another one is waited for as long as that one says something. */
const quiet = Duration.millis(300)

export type Fs = FileSystem.FileSystem

/** All that one command started: what carries its mark, what is in its session, and what came of these. */
const tree = (token: string, leader: number): Effect.Effect<ReadonlyArray<number>, never, Fs> =>
  Effect.gen(function* () {
    const fs = yield* FileSystem.FileSystem
    const here = yield* Effect.orElseSucceed(fs.readLink("/proc/self/ns/pid"), () => "")
    const names = yield* Effect.orElseSucceed(fs.readDirectory("/proc"), () => [])
    const read = (path: string) => Effect.orElseSucceed(fs.readFileString(path), () => "")
    const parents = new Map<number, number>()
    const members = new Set<number>()
    yield* Effect.forEach(
      names.filter((name) => /^\d+$/.test(name)),
      (name) =>
        Effect.gen(function* () {
          const text = yield* read(`/proc/${name}/stat`)
          const stat = parseStat(text)
          if (!isRunning(stat) || name === `${process.pid}`) {
            return
          }
          const session = Number(text.slice(text.lastIndexOf(")") + 2).split(" ")[3])
          const pid = Number(name)
          parents.set(pid, stat.parent)
          const marked = session === leader || (yield* read(`/proc/${name}/environ`)).includes(`${execMark}=${token}`)
          if (marked) {
            members.add(pid)
          }
        }),
      { concurrency: 16, discard: true }
    )
    for (let grown = true; grown; ) {
      grown = false
      for (const [pid, parent] of parents) {
        if (!members.has(pid) && members.has(parent)) {
          members.add(pid)
          grown = true
        }
      }
    }
    // The forwarders end by themselves, with what they still have to tell told.
    return yield* Effect.filter(members, (pid) =>
      parents.get(pid) === leader
        ? Effect.map(
            Effect.orElseSucceed(fs.readLink(`/proc/${pid}/ns/pid`), () => ""),
            (namespace) => namespace !== here
          )
        : Effect.succeed(true)
    )
  })

/** Stops all that a command started. Who is stopped starts nothing, and keeps its place among parents and children. */
const stopTree = (token: string, leader: number): Effect.Effect<ReadonlyArray<number>, never, Fs> =>
  Effect.gen(function* () {
    const stopped = new Set<number>()
    for (;;) {
      const fresh = (yield* tree(token, leader)).filter((pid) => !stopped.has(pid))
      if (fresh.length === 0) {
        return [...stopped]
      }
      for (const pid of fresh) {
        stopped.add(pid)
        yield* Effect.ignore(Proc.signal(pid, "SIGSTOP"))
      }
    }
  })

/** Ends all that a command started. */
const killTree = (token: string, leader: number): Effect.Effect<void, never, Fs> =>
  stopTree(token, leader).pipe(
    Effect.tap((pids) => Effect.forEach(pids, (pid) => Effect.ignore(Proc.kill(pid)), { discard: true })),
    Effect.repeat({ until: (pids) => pids.length === 0, schedule: Schedule.spaced("10 millis") }),
    Effect.timeoutOption("5 seconds"),
    Effect.interruptible,
    Effect.asVoid
  )

const signalNumbers: Readonly<Record<string, number>> = os.constants.signals

interface Running {
  readonly stdin: Writable | null
  readonly stdout: Readable
  readonly stderr: Readable
  /** Exit code, or 128 and the signal's number. */
  readonly exited: Effect.Effect<number>
  /** The command itself was reached. */
  readonly begun: () => boolean
  readonly kill: Effect.Effect<void>
}

const isReadable = (stream: unknown): stream is Readable => stream !== null && stream !== undefined

export const launch = (
  place: Place,
  command: Pick<ExecCommand, "command" | "env" | "workdir">,
  stdin: boolean
): Effect.Effect<Running, string, Fs | Scope.Scope> =>
  Effect.acquireRelease(
    Effect.gen(function* () {
      const platform = yield* Effect.context<Fs>()
      const token = randomBytes(16).toString("hex")
      const done = yield* Deferred.make<number>()
      const [program, ...args] = Enter.command({ ...place, stdin, root: process.getuid?.() === 0 })
      const child: ChildProcess = yield* Effect.try({
        try: () =>
          spawn(program, args, {
            cwd: "/",
            detached: true,
            env: { [execMark]: token, PATH: "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin" },
            stdio: [stdin ? "pipe" : "ignore", "pipe", "pipe", "pipe", "pipe"]
          }),
        catch: (cause) => String(cause)
      })
      let begun = false
      let ended = false
      const end = (code: number) => {
        ended = true
        Deferred.unsafeDone(done, Effect.succeed(code))
      }
      child.on("error", () => end(255))
      child.on("exit", (code, signal) => end(code ?? 128 + (signalNumbers[signal ?? "SIGKILL"] ?? 9)))
      const words = child.stdio[Enter.wordsFd]
      if (words !== null && words !== undefined && "write" in words) {
        // A process that ended before it read them says so by its exit.
        words.on("error", () => {})
        words.end(
          Enter.words({
            workdir: command.workdir ?? place.workdir ?? guest.home,
            env: marked(execMark, token, place.env, command.env),
            command: command.command
          })
        )
      }
      child.stdio[Enter.begunFd]?.on("data", () => {
        begun = true
      })
      child.stdin?.on("error", () => {})
      const { stderr, stdout } = child
      if (!isReadable(stdout) || !isReadable(stderr)) {
        return yield* Effect.fail("the command's output could not be opened")
      }
      const running: Running = {
        stdin: child.stdin,
        stdout,
        stderr,
        exited: Deferred.await(done),
        begun: () => begun,
        kill: Effect.suspend(() =>
          ended || child.pid === undefined ? Effect.void : Effect.provide(killTree(token, child.pid), platform)
        )
      }
      return running
    }),
    (running) => running.kill
  )

/** Whether a process is known to have ended. */
const isGone = (pid: number) =>
  Effect.match(Proc.stat(pid), { onFailure: () => false, onSuccess: (found) => !isRunning(found) })

/** Whether the container still runs, as far as is known; one whose end has begun may take a moment to show it. */
export const alive = (place: Place, patient: boolean): Effect.Effect<boolean, never, Fs> =>
  Effect.gen(function* () {
    for (let looks = 0; looks < (patient ? 5 : 1); looks++) {
      if (looks > 0) {
        yield* Effect.sleep("20 millis")
      }
      if ((yield* isGone(place.first)) || (yield* isGone(place.guest))) {
        return false
      }
    }
    return true
  })

export const noOutput = { stdout: "", stderr: "" }

export const sandboxEnded = ExecOutcome.SandboxFailed({ ...noOutput, reason: "the sandbox has ended" })

/** What it says while it runs, and how it ended. */
export const events = (
  place: Place,
  running: Running,
  timeout: Duration.DurationInput
): Stream.Stream<ExecEvent, never, Fs> =>
  Stream.unwrapScoped(
    Effect.gen(function* () {
      let timedOut = false
      let heard = yield* Clock.currentTimeMillis
      let complaint = ""
      yield* Effect.forkScoped(
        Effect.delay(
          Effect.suspend(() => {
            timedOut = true
            return running.kill
          }),
          timeout
        )
      )
      const read = (readable: Readable) =>
        NodeStream.fromReadable<string, Uint8Array>(
          () => readable,
          () => "it was closed"
        ).pipe(
          // A pipe that breaks has ended; how the command did is told by its exit.
          Stream.catchAll(() => Stream.empty),
          Stream.tap(() =>
            Effect.map(Clock.currentTimeMillis, (now) => {
              heard = now
            })
          )
        )
      const waiting = () => running.stdout.readableLength + running.stderr.readableLength
      const silent = Effect.zipRight(
        running.exited,
        Effect.map(Clock.currentTimeMillis, (now) => waiting() === 0 && now - heard > Duration.toMillis(quiet)).pipe(
          Effect.repeat({ until: (is) => is, schedule: Schedule.spaced("100 millis") }),
          Effect.delay("100 millis")
        )
      )
      const output = Stream.merge(
        Stream.map(read(running.stdout), (bytes) => ExecEvent.Stdout({ bytes })),
        read(running.stderr).pipe(
          Stream.tap((bytes) =>
            Effect.sync(() => {
              complaint = running.begun() ? "" : (complaint + new TextDecoder().decode(bytes)).slice(-500)
            })
          ),
          Stream.map((bytes) => ExecEvent.Stderr({ bytes }))
        )
      ).pipe(Stream.interruptWhen(silent))
      const outcome = Effect.gen(function* () {
        const code = yield* running.exited
        if (timedOut) {
          return ExecOutcome.TimedOut(noOutput)
        }
        if (!(yield* alive(place, code === 137))) {
          return sandboxEnded
        }
        return running.begun() || code === 126
          ? ExecOutcome.Exited({ ...noOutput, code })
          : ExecOutcome.SandboxFailed({ ...noOutput, reason: `the sandbox could not be entered: ${complaint.trim()}` })
      })
      return Stream.concat(output, Stream.fromEffect(Effect.map(outcome, (outcome) => ExecEvent.Ended({ outcome }))))
    })
  )

const failed = (reason: string): Stream.Stream<ExecEvent> =>
  Stream.make(ExecEvent.Ended({ outcome: ExecOutcome.SandboxFailed({ ...noOutput, reason }) }))

/** Words with a NUL cannot be told to a program. */
const unsayable = (place: Place, command: Pick<ExecCommand, "command" | "env" | "workdir">): string | undefined => {
  const env = { ...place.env, ...command.env }
  const texts = [...command.command, command.workdir ?? "", ...Object.entries(env).flat()]
  const name = Object.keys(env).find((each) => each === "" || each.includes("="))
  return texts.some((text) => text.includes("\0"))
    ? "a text of the command has a NUL character"
    : name === undefined
      ? undefined
      : `${JSON.stringify(name)} is no name of an environment variable`
}

/** Writes all of a stream to a process that may end before it has read it. */
export const feed = <E, R>(stdin: Writable, bytes: Stream.Stream<Uint8Array, E, R>): Effect.Effect<void, E, R> =>
  Stream.runForEach(bytes, (chunk) =>
    Effect.async<void>((resume) => {
      if (stdin.destroyed || stdin.writableEnded) {
        return resume(Effect.void)
      }
      stdin.write(chunk, () => resume(Effect.void))
    })
  ).pipe(
    Effect.tap(() =>
      Effect.sync(() => {
        stdin.end()
      })
    )
  )

export const execStream = (place: Place, command: ExecCommand): Stream.Stream<ExecEvent, never, Fs> =>
  Stream.unwrapScoped(
    Effect.gen(function* () {
      const problem = unsayable(place, command)
      if (problem !== undefined) {
        return failed(problem)
      }
      if (!(yield* alive(place, false))) {
        return Stream.make(ExecEvent.Ended({ outcome: sandboxEnded }))
      }
      const { stdin } = command
      const running = yield* launch(place, command, stdin !== undefined)
      if (stdin !== undefined && running.stdin !== null) {
        yield* Effect.forkScoped(feed(running.stdin, Stream.make(Buffer.from(stdin))))
      }
      return events(place, running, command.timeout ?? defaultTimeout)
    }).pipe(Effect.catchAll((reason) => Effect.succeed(failed(reason))))
  )

export const exec = (place: Place, command: ExecCommand): Effect.Effect<ExecOutcome, never, Fs> =>
  collect(execStream(place, command))
