import { spawnSync } from "node:child_process"
import { hostname } from "node:os"
import { SystemError } from "@effect/platform/Error"
import * as FileSystem from "@effect/platform/FileSystem"
import * as NodeContext from "@effect/platform-node/NodeContext"
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as FastCheck from "effect/FastCheck"
import * as Logger from "effect/Logger"
import * as LogLevel from "effect/LogLevel"
import { vi } from "vitest"
import * as ProcessLock from "../../src/artifact/ProcessLock.js"

const holderOf = (pid: number, host: string, started: string): ProcessLock.Holder => ({
  pid,
  host,
  started,
  since: "2026-01-01T00:00:00.000Z",
  token: `${pid} ${started}`
})

const systemError = (method: string, reason: SystemError["reason"], path: string) =>
  new SystemError({ module: "FileSystem", method, reason, pathOrDescriptor: path })

/**
 * Processes that share a folder. Each stands before every change or look at a lock until it is told to go on, and may be
 * killed there; its number may be another's later.
 */
const world = () => {
  const links = new Map<string, string>()
  const running = new Map<number, string>()
  const waiting: Array<{ readonly pid: number; readonly goOn: () => void }> = []
  const inside = new Set<number>()
  let crowded = false
  let held = 0

  const turn = (pid: number) =>
    Effect.async<void>((resume) => void waiting.push({ pid, goOn: () => resume(Effect.void) }))

  const fileSystem = (pid: number): FileSystem.FileSystem => {
    const look = (method: string, path: string) =>
      Effect.suspend(() => {
        const there = links.get(path)
        return there === undefined ? systemError(method, "NotFound", path) : Effect.succeed(there)
      })
    return FileSystem.makeNoop({
      symlink: (target, path) =>
        Effect.zipRight(
          turn(pid),
          Effect.suspend(() => {
            if (links.has(path)) return systemError("symlink", "AlreadyExists", path)
            links.set(path, target)
            return Effect.void
          })
        ),
      readLink: (path) => Effect.zipRight(turn(pid), look("readLink", path)),
      remove: (path) =>
        Effect.zipRight(
          turn(pid),
          Effect.sync(() => void links.delete(path))
        ),
      readFileString: (path) =>
        Effect.suspend(() => {
          if (path === "/proc/sys/kernel/random/boot_id") return Effect.succeed("boot\n")
          const started = running.get(Number(path.split("/")[2]))
          // proc(5): the start is field 22, the name in field 2 may hold blanks and parentheses.
          return started === undefined
            ? systemError("readFile", "NotFound", path)
            : Effect.succeed(`1 (a b) c) S ${"0 ".repeat(18)}${started} 0`)
        })
    })
  }

  const hold = (pid: number, started: string) =>
    Effect.scoped(
      Effect.gen(function* () {
        yield* ProcessLock.hold("lock", holderOf(pid, "h", `boot/${started}`))
        if (inside.size > 0) crowded = true
        inside.add(pid)
        held++
        yield* turn(pid)
        inside.delete(pid)
      })
    ).pipe(
      Effect.retry({ while: ({ _tag }) => _tag === "LockBusy" }),
      Effect.provideService(FileSystem.FileSystem, fileSystem(pid))
    )

  return {
    links,
    waiting,
    isCrowded: () => crowded,
    held: () => held,
    start: (pid: number, started: string) => {
      running.set(pid, started)
      return Effect.forkDaemon(hold(pid, started))
    },
    kill: (pid: number) => {
      running.delete(pid)
      inside.delete(pid)
      for (let at = waiting.length - 1; at >= 0; at--) if (waiting[at]?.pid === pid) waiting.splice(at, 1)
    },
    runs: (pid: number) => running.has(pid)
  }
}

const settled = Effect.promise(() => new Promise<void>((resolve) => setImmediate(resolve)))

describe("ProcessLock", () => {
  it.effect.prop(
    "has one holder at a time, and one in the end, wherever processes are killed and whoever has their numbers next",
    {
      steps: FastCheck.array(
        FastCheck.record({
          who: FastCheck.nat({ max: 3 }),
          turns: FastCheck.integer({ min: 1, max: 9 }),
          killed: FastCheck.constantFrom(false, false, true)
        }),
        { minLength: 10, maxLength: 40 }
      )
    },
    ({ steps }) =>
      Effect.gen(function* () {
        const { held, isCrowded, kill, runs, start, waiting } = world()
        const spy = vi.spyOn(process, "kill").mockImplementation((pid) => {
          if (runs(pid)) return true
          throw Object.assign(new Error("no such process"), { code: "ESRCH" })
        })
        yield* Effect.addFinalizer(() => Effect.sync(() => spy.mockRestore()))
        const pids = [101, 102, 103, 104]
        let moment = 1
        for (const pid of pids) yield* start(pid, String(moment++))
        for (const { killed, turns, who } of steps) {
          const pid = pids[who] ?? 0
          for (let turn = 0; turn < turns; turn++) {
            yield* settled
            const at = waiting.findIndex((each) => each.pid === pid)
            waiting.splice(at, at < 0 ? 0 : 1)[0]?.goOn()
          }
          yield* settled
          assert.isFalse(isCrowded())
          // One that is killed, or is done, makes room for the next of its number.
          if (killed || !waiting.some((each) => each.pid === pid)) {
            kill(pid)
            yield* start(pid, String(moment++))
          }
        }
        // All are killed where they are; one that comes then gets it.
        for (const pid of pids) kill(pid)
        const before = held()
        yield* start(200, String(moment++))
        for (let turns = 0; turns < 400 && held() === before; turns++) {
          yield* settled
          waiting.shift()?.goOn()
        }
        yield* settled
        assert.strictEqual(held(), before + 1)
      }).pipe(Effect.scoped, Logger.withMinimumLogLevel(LogLevel.None)),
    { fastCheck: { numRuns: 150 } }
  )

  it.effect("is free again when its guard's owner was killed while it took a dead one's lock away", () =>
    Effect.gen(function* () {
      const fs = yield* FileSystem.FileSystem
      const folder = yield* fs.makeTempDirectoryScoped()
      const lock = `${folder}/lock`
      const { pid } = spawnSync(process.execPath, ["--version"])
      yield* fs.symlink(JSON.stringify(holderOf(pid, hostname(), "boot/1")), lock)
      const guards: Array<string> = []
      // It finds who holds the guard that it wants: twice a process that is dead, then nobody.
      const spied: FileSystem.FileSystem = {
        ...fs,
        symlink: (target, path) =>
          Effect.suspend(() => {
            if (path === lock || guards.length === 2) return fs.symlink(target, path)
            guards.push(path)
            const dead = JSON.stringify(holderOf(pid, hostname(), `boot/${guards.length + 1}`))
            return Effect.zipRight(fs.symlink(dead, path), fs.symlink(target, path))
          })
      }
      const me = yield* ProcessLock.self
      yield* Effect.scoped(
        Effect.gen(function* () {
          yield* Effect.provideService(ProcessLock.hold(lock, me), FileSystem.FileSystem, spied)
          assert.deepStrictEqual(yield* fs.readDirectory(folder), ["lock"])
        })
      )
      assert.strictEqual(guards.length, 2)
      assert.deepStrictEqual(yield* fs.readDirectory(folder), [])
    }).pipe(Effect.scoped, Logger.withMinimumLogLevel(LogLevel.None), Effect.provide(NodeContext.layer))
  )

  it.effect("names the guard where that is what is in the way", () =>
    Effect.gen(function* () {
      const fs = yield* FileSystem.FileSystem
      const folder = yield* fs.makeTempDirectoryScoped()
      const lock = `${folder}/lock`
      const { pid } = spawnSync(process.execPath, ["--version"])
      yield* fs.symlink(JSON.stringify(holderOf(pid, hostname(), "boot/1")), lock)
      const other = holderOf(1, "another-machine", "boot/1")
      let guard = ""
      const spied: FileSystem.FileSystem = {
        ...fs,
        symlink: (target, path) => {
          if (path === lock) return fs.symlink(target, path)
          guard = path
          return Effect.zipRight(fs.symlink(JSON.stringify(other), path), fs.symlink(target, path))
        }
      }
      const me = yield* ProcessLock.self
      const error = yield* Effect.flip(Effect.provideService(ProcessLock.hold(lock, me), FileSystem.FileSystem, spied))
      assert.deepStrictEqual(error, new ProcessLock.LockBusy({ path: guard, holder: other }))
      assert.include(error.message, `${guard}: process 1 on another-machine holds it`)
      assert.include(error.message, `remove ${guard}`)
    }).pipe(Effect.scoped, Effect.provide(NodeContext.layer))
  )
})
