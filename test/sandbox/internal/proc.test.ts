import { spawn } from "node:child_process"
import { once } from "node:events"
import { closeSync, openSync } from "node:fs"
import { FileSystem } from "@effect/platform/FileSystem"
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { processMark } from "../../../src/sandbox/internal/bwrapArguments.js"
import * as Container from "../../../src/sandbox/internal/container.js"
import { ownerLabel } from "../../../src/sandbox/internal/owner.js"
import * as Proc from "../../../src/sandbox/internal/proc.js"
import { isAbsent } from "../../../src/sandbox/internal/reasons.js"
import { failingReads } from "./failingReads.js"

const failing = (codes: Readonly<Record<string, string>>) => failingReads((path) => codes[path])
const whole = failing({})
const bootId = "/proc/sys/kernel/random/boot_id"

/** A process that bears a sandbox's mark, as what supervises one does. */
const supervisor = (id: string) =>
  Effect.acquireRelease(
    Effect.promise(async () => {
      const child = spawn("/bin/bash", ["-c", "echo; read", processMark(id)], { stdio: ["pipe", "pipe", "ignore"] })
      await once(child.stdout, "data")
      const pid = child.pid ?? 0
      return { pid, ended: once(child, "exit"), runs: () => child.exitCode === null && child.signalCode === null }
    }),
    ({ pid, runs }) => Effect.sync(() => runs() && process.kill(pid, "SIGKILL"))
  )

describe("what this host says of processes", () => {
  for (const path of ["/proc", "/proc/1/cmdline"]) {
    it.scopedLive(`a supervisor is not taken for gone when ${path} cannot be read`, () =>
      Effect.gen(function* () {
        const id = "sb-00000000aaaa"
        const { runs } = yield* supervisor(id)
        const error = yield* Effect.flip(Container.killAll(id)).pipe(Effect.provide(failing({ [path]: "EMFILE" })))
        assert.strictEqual(error._tag, "ProcUnreadable")
        assert.match(error.message, new RegExp(`^${path} could not be read: EMFILE`))
        assert.isTrue(runs())
        yield* Effect.provide(Container.killAll(id), whole)
        assert.isUndefined((yield* Effect.provide(Proc.supervisors, whole)).get(id))
      })
    )
  }

  it.scopedLive("its own command that may not be read is not taken for another's", () =>
    Effect.gen(function* () {
      const id = "sb-00000000bbbb"
      const { pid } = yield* supervisor(id)
      const error = yield* Effect.flip(Proc.supervisors).pipe(
        Effect.provide(failing({ [`/proc/${pid}/cmdline`]: "EPERM" }))
      )
      assert.strictEqual(error.path, `/proc/${pid}/cmdline`)
    })
  )

  it.scopedLive("a command of another user's that is hidden is passed over", () =>
    Effect.gen(function* () {
      const id = "sb-00000000eeee"
      const { pid } = yield* supervisor(id)
      const fs = yield* FileSystem
      // As with hidepid=1.
      const foreign = FileSystem.of({
        ...fs,
        stat: (path) =>
          Effect.map(fs.stat(path), (info) => ({ ...info, uid: Option.some(1 + (process.getuid?.() ?? 0)) }))
      })
      const all = yield* Effect.provideService(Proc.supervisors, FileSystem, foreign)
      assert.deepStrictEqual(all.get(id), [pid])
    }).pipe(Effect.provide(failing({ "/proc/1/cmdline": "EPERM" })))
  )

  it.scopedLive("reading a file of a process that has ended answers that it is not there", () =>
    Effect.gen(function* () {
      const fs = yield* FileSystem
      const { ended, pid } = yield* supervisor("sb-00000000ffff")
      const file = openSync(`/proc/${pid}/stat`, "r")
      process.kill(pid, "SIGKILL")
      yield* Effect.promise(() => ended)
      // The file that was opened in time, by the name of its descriptor.
      const error = yield* Effect.flip(fs.readFileString(`/proc/self/fd/${file}`))
      closeSync(file)
      assert.match(error.message, /ESRCH/)
      assert.isTrue(isAbsent(error))
    }).pipe(Effect.provide(whole))
  )

  it.scopedLive("an empty folder in the place of /proc says nothing of what runs", () =>
    Effect.gen(function* () {
      const empty = Effect.map(FileSystem, (fs) => FileSystem.of({ ...fs, readDirectory: () => Effect.succeed([]) }))
      const error = yield* Effect.flip(Effect.provideServiceEffect(Proc.supervisors, FileSystem, empty))
      assert.strictEqual(error.message, "/proc could not be read: it does not list this process")
    }).pipe(Effect.provide(whole))
  )

  it.scopedLive("a process that ends while it is read, and one of another user that is hidden, are passed over", () =>
    Effect.gen(function* () {
      const id = "sb-00000000cccc"
      const { pid } = yield* supervisor(id)
      const ended = yield* supervisor("sb-00000000dddd")
      const all = yield* Effect.provide(
        Proc.supervisors,
        failing({ [`/proc/${ended.pid}/cmdline`]: "ESRCH", "/proc/1/cmdline": "ENOENT" })
      )
      assert.deepStrictEqual([all.get(id), all.get("sb-00000000dddd")], [[pid], undefined])
      assert.isUndefined(yield* Effect.provide(Proc.stat(ended.pid), failing({ [`/proc/${ended.pid}/stat`]: "ESRCH" })))
      assert.isUndefined(
        yield* Effect.provide(Proc.stat(ended.pid), failing({ [`/proc/${ended.pid}/stat`]: "ENOENT" }))
      )
    })
  )

  for (const path of [`/proc/${process.pid}/stat`, bootId, "/proc/self/ns/pid"]) {
    for (const code of ["EMFILE", "EIO", "EACCES"]) {
      it.scopedLive(`nobody is dead, and nobody has an owner's name, when ${path} answers ${code}`, () =>
        Effect.gen(function* () {
          const label = ownerLabel(yield* Effect.provide(Proc.self, whole))
          assert.strictEqual(yield* Effect.provide(Proc.labelled(label), whole), "alive")
          const errors = yield* Effect.all([Effect.flip(Proc.labelled(label)), Effect.flip(Proc.self)]).pipe(
            Effect.provide(failing({ [path]: code }))
          )
          assert.deepStrictEqual(
            errors.map((error) => error.path),
            [path, path]
          )
        })
      )
    }
  }

  it.scopedLive("a system without /proc has no names for its processes, and they can be asked for", () =>
    Effect.gen(function* () {
      const self = yield* Proc.self
      assert.deepStrictEqual({ ...self }, { pid: process.pid, startedAt: "", boot: "", pidNamespace: "" })
    }).pipe(Effect.provide(failingReads((path) => (path.startsWith("/proc") ? "ENOENT" : undefined))))
  )
})
