import { mkdirSync, mkdtempSync, readdirSync, rmSync, symlinkSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { NodeContext } from "@effect/platform-node"
import { afterEach, assert, beforeEach, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as TaskFolder from "../../src/osworld/TaskFolder.js"
import * as HostProgram from "../../src/sandbox/HostProgram.js"
import { failingReads } from "../sandbox/internal/failingReads.js"

describe("TaskFolder", () => {
  // A temporary folder of the test's own, so that it sees what is there, and nobody else's is touched.
  const before = process.env["TMPDIR"]
  let place = ""
  beforeEach(() => {
    place = mkdtempSync(join(tmpdir(), "dh-task-folder-"))
    process.env["TMPDIR"] = place
  })
  afterEach(() => {
    if (before === undefined) delete process.env["TMPDIR"]
    else process.env["TMPDIR"] = before
    rmSync(place, { recursive: true })
  })
  const there = () => readdirSync(place).toSorted()

  it.effect("goes with its scope", () =>
    Effect.gen(function* () {
      yield* Effect.scoped(
        Effect.map(TaskFolder.make, (folder) => {
          writeFileSync(join(folder, "file"), "x")
          assert.deepStrictEqual(there(), [folder.slice(place.length + 1)])
        })
      )
      assert.deepStrictEqual(there(), [])
    }).pipe(Effect.provide(NodeContext.layer))
  )

  it.effect("of a program that is gone is swept, and no other", () =>
    Effect.gen(function* () {
      const [boot, namespace, pid, startedAt] = (yield* HostProgram.label).split(".")
      // The same number, started at another tick: a process that is gone, and whose number was given again.
      const gone = `deskhand-task-${boot}.${namespace}.${pid}.1-aB3dE6`
      const rebooted = `deskhand-task-0123456789ab.${namespace}.${pid}.${startedAt}-aB3dE6`
      const others = [
        // Of another container, whose processes cannot be seen from here.
        `deskhand-task-${boot}.1.${pid}.1-aB3dE6`,
        "deskhand-task-",
        "deskhand-task-notes",
        "deskhand-0"
      ]
      for (const name of [gone, rebooted, ...others]) mkdirSync(join(place, name))
      writeFileSync(join(place, gone, "asset.bin"), "x")
      // What a link of such a name leads to is not in the folder.
      const kept = join(place, "kept")
      mkdirSync(kept)
      writeFileSync(join(kept, "file"), "x")
      symlinkSync(kept, join(place, `deskhand-task-${boot}.${namespace}.${pid}.2-aB3dE6`))

      yield* Effect.scoped(
        Effect.gen(function* () {
          const own = yield* TaskFolder.make
          const { left, removed } = yield* TaskFolder.sweep
          assert.deepStrictEqual(left, [])
          assert.includeMembers(
            [...removed],
            [gone, rebooted].map((name) => join(place, name))
          )
          assert.deepStrictEqual(there(), [...others, "kept", own.slice(place.length + 1)].toSorted())
          assert.deepStrictEqual(readdirSync(kept), ["file"])
        })
      )
    }).pipe(Effect.provide(NodeContext.layer))
  )

  for (const path of ["/proc/sys/kernel/random/boot_id", "/proc/self/ns/pid", `/proc/${process.pid}/stat`]) {
    it.effect(`of a program that runs is left and named when ${path} cannot be read`, () =>
      Effect.gen(function* () {
        const own = yield* Effect.provide(TaskFolder.make, NodeContext.layer)
        writeFileSync(join(own, "asset.bin"), "x")
        const { left, removed } = yield* TaskFolder.sweep
        assert.deepStrictEqual(removed, [])
        assert.deepStrictEqual(
          left.map(({ id }) => id),
          [own]
        )
        assert.include(left[0]?.reason ?? "", `${path} could not be read: EMFILE`)
        assert.deepStrictEqual(readdirSync(own), ["asset.bin"])
        // A folder that bears no true name could be swept under its program's feet.
        assert.strictEqual((yield* Effect.flip(TaskFolder.make))._tag, "ProcUnreadable")
      }).pipe(Effect.scoped, Effect.provide(failingReads((each) => (each === path ? "EMFILE" : undefined))))
    )
  }
})
