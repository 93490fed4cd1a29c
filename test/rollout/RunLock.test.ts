import { spawnSync } from "node:child_process"
import { SystemError } from "@effect/platform/Error"
import * as FileSystem from "@effect/platform/FileSystem"
import * as NodeContext from "@effect/platform-node/NodeContext"
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as FastCheck from "effect/FastCheck"
import * as Logger from "effect/Logger"
import { type Holder, isStale } from "../../src/artifact/ProcessLock.js"
import { acquire } from "../../src/rollout/RunLock.js"

const holder: Holder = { pid: 7, host: "here", started: "boot/1", since: "2026-01-01T00:00:00.000Z", token: "t" }

const withFolder = <A, E>(test: (out: string) => Effect.Effect<A, E, NodeContext.NodeContext>) =>
  Effect.flatMap(FileSystem.FileSystem, (fs) => Effect.flatMap(fs.makeTempDirectoryScoped(), test)).pipe(
    Effect.scoped,
    Effect.provide(NodeContext.layer)
  )

describe("RunLock", () => {
  it("is stale when its process is gone, or another has its number, and never from another machine", () => {
    assert.isTrue(isStale(holder, { host: "here", runs: false, started: null }))
    assert.isTrue(isStale(holder, { host: "here", runs: true, started: "boot/2" }))
    assert.isFalse(isStale(holder, { host: "here", runs: true, started: "boot/1" }))
    assert.isFalse(isStale(holder, { host: "here", runs: true, started: null }), "nothing is known")
    assert.isFalse(isStale({ ...holder, started: null }, { host: "here", runs: true, started: "boot/1" }))
    assert.isFalse(isStale(holder, { host: "there", runs: false, started: null }))
  })

  it.prop("a process that runs since its start is never taken for gone", [FastCheck.string()], ([started]) => {
    assert.isFalse(isStale({ ...holder, started }, { host: holder.host, runs: true, started }))
  })

  it.effect("refuses a second holder and lets it in when the first is done", () =>
    withFolder((out) =>
      Effect.gen(function* () {
        const fs = yield* FileSystem.FileSystem
        yield* Effect.scoped(
          Effect.gen(function* () {
            yield* acquire(out)
            const error = yield* Effect.flip(Effect.scoped(acquire(out)))
            assert.include(error.message, `process ${process.pid}`)
          })
        )
        yield* Effect.scoped(acquire(out))
        assert.deepStrictEqual(yield* fs.readDirectory(out), [])
      })
    )
  )

  it.effect("takes over from a process that is gone; of many that try, one gets it", () =>
    withFolder((out) =>
      Effect.gen(function* () {
        const fs = yield* FileSystem.FileSystem
        const { pid } = spawnSync(process.execPath, ["--version"])
        const { hostname } = yield* Effect.promise(() => import("node:os"))
        const dead = { ...holder, pid, host: hostname(), started: "boot/0" }
        yield* fs.writeFileString(`${out}/lock`, `${JSON.stringify(dead)}\n`)
        yield* Effect.scoped(
          Effect.gen(function* () {
            const tries = yield* Effect.forEach(Array.from({ length: 8 }), () => Effect.either(acquire(out)), {
              concurrency: "unbounded"
            })
            assert.strictEqual(tries.filter(({ _tag }) => _tag === "Right").length, 1)
          })
        )
        assert.deepStrictEqual(yield* fs.readDirectory(out), [])
      })
    )
  )

  it.effect("names the guard, and what to do about it, where another takes the folder over", () =>
    withFolder((out) =>
      Effect.gen(function* () {
        const fs = yield* FileSystem.FileSystem
        const { pid } = spawnSync(process.execPath, ["--version"])
        const { hostname } = yield* Effect.promise(() => import("node:os"))
        yield* fs.symlink(JSON.stringify({ ...holder, pid, host: hostname(), started: "boot/0" }), `${out}/lock`)
        let guard = ""
        const error = yield* Effect.scoped(acquire(out)).pipe(
          Effect.flip,
          Effect.provideService(FileSystem.FileSystem, {
            ...fs,
            symlink: (target, path) => {
              if (path === `${out}/lock`) return fs.symlink(target, path)
              guard = path
              return Effect.zipRight(
                fs.symlink(JSON.stringify({ ...holder, host: "there" }), path),
                fs.symlink(target, path)
              )
            }
          })
        )
        assert.include(guard, `${out}/lock.`)
        assert.include(error.message, `${guard}: process 7 on there takes this folder over, since ${holder.since}`)
        assert.include(error.message, `if it runs no more, remove ${guard}`)
        // The guard's owner is gone as well.
        yield* fs.remove(guard)
        yield* fs.symlink(JSON.stringify({ ...holder, pid, host: hostname(), started: "boot/1" }), guard)
        yield* Effect.scoped(acquire(out))
        assert.deepStrictEqual(yield* fs.readDirectory(out), [])
      })
    )
  )

  it.effect("fails or holds, and does not die, where a file cannot be removed", () =>
    withFolder((out) =>
      Effect.gen(function* () {
        const fs = yield* FileSystem.FileSystem
        const told: Array<string> = []
        const logger = Logger.make(({ message }) => void told.push(String(message)))
        yield* Effect.scoped(acquire(out)).pipe(
          Effect.provideService(FileSystem.FileSystem, {
            ...fs,
            remove: () => new SystemError({ module: "FileSystem", method: "remove", reason: "PermissionDenied" })
          }),
          Effect.provide(Logger.replace(Logger.defaultLogger, logger))
        )
        assert.strictEqual(told.length, 1)
        assert.include(told[0], `${out}/lock: the lock could not be removed`)
      })
    )
  )

  it.effect("leaves a lock alone that it cannot read", () =>
    withFolder((out) =>
      Effect.gen(function* () {
        const fs = yield* FileSystem.FileSystem
        yield* fs.writeFileString(`${out}/lock`, "mine")
        const error = yield* Effect.flip(Effect.scoped(acquire(out)))
        assert.include(error.message, "it is no lock of a run")
        assert.strictEqual(yield* fs.readFileString(`${out}/lock`), "mine")
      })
    )
  )
})
