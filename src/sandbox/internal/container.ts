/**
 * Starts one bubblewrap container, tells how it ended, and ends it.
 */
import * as Command from "@effect/platform/Command"
import type * as CommandExecutor from "@effect/platform/CommandExecutor"
import type { PlatformError } from "@effect/platform/Error"
import * as FileSystem from "@effect/platform/FileSystem"
import * as Data from "effect/Data"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schedule from "effect/Schedule"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import { driverFd, processMark } from "./bwrapArguments.js"
import { isRunning } from "./owner.js"
import * as Proc from "./proc.js"

/** Something of a container is left after it was told to end. */
export class StillRunning extends Data.TaggedError("StillRunning")<{ readonly pids: ReadonlyArray<number> }> {
  override get message() {
    return `processes ${this.pids.join(", ")} did not end`
  }
}

export interface Container {
  /** The bubblewrap process that supervises from outside. */
  readonly pid: number
  /** Completes when the container has ended, with how it ended, in words. */
  readonly ended: Effect.Effect<string>
}

/**
 * Runs bubblewrap in the place of this shell. What the driver inherited from its own parents stays outside; the
 * container's output goes to the disk and not through the driver; and when memory runs out, the guests go first. The
 * driver's end of the standard input, to which nothing is ever written, tells `init` whether the driver still runs.
 */
const launch = `
umask 022
for fd in /proc/self/fd/*; do fd=\${fd##*/}; if ((fd > 2)); then exec {fd}>&-; fi; done
folder=$1; shift
exec ${driverFd}<&0 </dev/null >>"$folder/log" 2>&1 3>"$folder/info.json" 4<"$folder/args"
echo 500 >/proc/self/oom_score_adj
exec -c bwrap --args 4 --info-fd 3 -- "$@"
`

const signalNames: Readonly<Record<number, string>> = { 6: "SIGABRT", 9: "SIGKILL", 11: "SIGSEGV", 15: "SIGTERM" }

/** How a command ended: bubblewrap answers 128 and the signal's number for a command that a signal ended. */
export const describeExit = (code: number): string =>
  code > 128 && code < 193
    ? `its entrypoint ended with exit code ${code} (signal ${signalNames[code - 128] ?? code - 128})`
    : `its entrypoint ended with exit code ${code}`

/** Expects `args` in the folder; writes `log` and `info.json` there. */
export const start = (
  id: string,
  folder: string,
  command: ReadonlyArray<string>
): Effect.Effect<Container, PlatformError, CommandExecutor.CommandExecutor | Scope.Scope> =>
  Command.make("/bin/bash", "-c", launch, processMark(id), folder, ...command).pipe(
    Command.env({}, { extendEnv: false }),
    Command.start,
    Effect.map((process) => ({
      pid: process.pid,
      ended: process.exitCode.pipe(
        Effect.map((code) => describeExit(code)),
        Effect.catchAll((error) => {
          const signal = /signal: (\w+)/.exec(error.message)?.[1]
          return Effect.succeed(`the bwrap process that supervised it was ended by ${signal ?? "a signal"}`)
        })
      )
    }))
  )

const Info = Schema.parseJson(Schema.Struct({ "child-pid": Schema.Int }))

/** The container's first process, as soon as bubblewrap has said which one it is. */
const firstProcess = (folder: string) =>
  Effect.flatMap(FileSystem.FileSystem, (fs) => fs.readFileString(`${folder}/info.json`)).pipe(
    Effect.flatMap(Schema.decode(Info)),
    Effect.map((info) => info["child-pid"])
  )

/**
 * The container's processes 1 and 2, by their numbers on this host: bubblewrap's own, and the entrypoint, which alone is
 * sure to be in the guest's user namespace.
 */
export const processes = (folder: string) =>
  Effect.gen(function* () {
    const fs = yield* FileSystem.FileSystem
    const first = yield* firstProcess(folder)
    const children = yield* fs.readFileString(`/proc/${first}/task/${first}/children`)
    for (const child of children.trim().split(" ")) {
      const status = yield* Effect.orElseSucceed(fs.readFileString(`/proc/${child}/status`), () => "")
      if (/^NSpid:.*\t2$/m.test(status)) {
        return { first, guest: Number(child) }
      }
    }
    return yield* Effect.fail({ message: "its entrypoint has ended" })
  })

const everyMoment = Schedule.spaced("10 millis")

type Waits = (error: StillRunning | Proc.ProcUnreadable) => Effect.Effect<void>

/** Waits until none of the processes is left, and says what it waits for. The caller bounds it. */
const confirmGone = (pids: ReadonlyArray<number>, waits: Waits = () => Effect.void) =>
  Effect.filter(pids, (pid) => Effect.map(Proc.stat(pid), isRunning)).pipe(
    Effect.flatMap((left) => (left.length === 0 ? Effect.void : Effect.fail(new StillRunning({ pids: left })))),
    Effect.tapError(waits),
    Effect.retry(everyMoment)
  )

/**
 * Kills what still supervises the sandbox, whoever started it, and waits until it is gone. A container's first process
 * goes only after the kernel has ended all others in it, so nothing else has to be looked for. Fails when it cannot be
 * read what runs.
 */
export const killAll = (id: string, waits?: Waits) =>
  Effect.gen(function* () {
    const pids = (yield* Proc.supervisors).get(id) ?? []
    yield* Effect.forEach(pids, Proc.kill, { discard: true })
    yield* confirmGone(pids, waits)
  })

/**
 * Ends a container that this process started: its first process by name, which bubblewrap then waits for. Killing
 * bubblewrap instead could leave a first process behind that nobody has tied to it yet.
 */
export const stop = (id: string, folder: string, container: Container) =>
  Effect.gen(function* () {
    const known = yield* firstProcess(folder).pipe(
      Effect.retry(everyMoment),
      Effect.option,
      Effect.raceFirst(Effect.as(container.ended, Option.none<number>())),
      Effect.timeoutTo({ duration: "2 seconds", onSuccess: (pid) => pid, onTimeout: () => Option.none<number>() })
    )
    const first = Option.getOrUndefined(known)
    if (first !== undefined && (yield* Proc.stat(first))?.parent === container.pid) {
      yield* Proc.kill(first)
      const done = yield* Effect.timeoutOption(Effect.zip(container.ended, confirmGone([first])), "2 seconds")
      if (Option.isSome(done)) {
        return
      }
    }
    yield* killAll(id)
    yield* container.ended
  })

/** How much of a log an error carries. */
const tailCharacters = 2_000

/** The end of what the container printed, without reading the rest. */
export const logTail = (folder: string): Effect.Effect<string, never, FileSystem.FileSystem> =>
  Effect.gen(function* () {
    const fs = yield* FileSystem.FileSystem
    const file = yield* fs.open(`${folder}/log`, { flag: "r" })
    const { size } = yield* file.stat
    const wanted = 4 * tailCharacters
    if (Number(size) > wanted) {
      yield* file.seek(Number(size) - wanted, "start")
    }
    const bytes = yield* file.readAlloc(wanted)
    return new TextDecoder().decode(Option.getOrElse(bytes, () => new Uint8Array())).slice(-tailCharacters)
  }).pipe(
    Effect.scoped,
    Effect.orElseSucceed(() => "")
  )
