import { execFileSync } from "node:child_process"
import { mkdirSync, rmSync, utimesSync, writeFileSync } from "node:fs"
import { fileURLToPath } from "node:url"
import * as Command from "@effect/platform/Command"
import * as FileSystem from "@effect/platform/FileSystem"
import * as NodeContext from "@effect/platform-node/NodeContext"
import { assert, it } from "@effect/vitest"
import * as Chunk from "effect/Chunk"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Schedule from "effect/Schedule"
import * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import { afterAll } from "vitest"
import * as Ledger from "../../src/sandbox/Ledger.js"
import * as LocalProvider from "../../src/sandbox/LocalProvider.js"
import { SandboxProvider } from "../../src/sandbox/SandboxProvider.js"
import { failingReads } from "./internal/failingReads.js"
import { isRoot, leftovers, makeStateDir, nothing, provided, report, reportSpec, scriptSpec } from "./internal/local.js"

const folders: Array<string> = []
afterAll(() => {
  for (const folder of folders) {
    rmSync(folder, { recursive: true, force: true })
  }
})

const withStateDir = <A, E, R>(use: (stateDir: string) => Effect.Effect<A, E, R>) =>
  Effect.suspend(() => {
    const stateDir = makeStateDir()
    folders.push(stateDir)
    return Effect.provide(use(stateDir), provided(stateDir))
  })

const listed = Effect.gen(function* () {
  const provider = yield* SandboxProvider
  return Chunk.toReadonlyArray(yield* Stream.runCollect(provider.list({})))
})

/** Starts a program that opens a sandbox, and kills it without a chance to clean up; answers with the sandbox's id. */
const killedDriver = (stateDir: string) =>
  Effect.gen(function* () {
    const driver = fileURLToPath(new URL("internal/driver.ts", import.meta.url))
    const process = yield* Command.start(Command.make("node", "--import", "tsx", driver, stateDir))
    const id = yield* process.stdout.pipe(Stream.decodeText(), Stream.splitLines, Stream.runHead)
    const alive = yield* leftovers(stateDir)
    assert.isAtLeast(alive.processes.length, 4)
    const during = yield* listed
    assert.deepStrictEqual(
      during.map((info) => info.state),
      ["running"]
    )
    const provider = yield* SandboxProvider
    assert.deepStrictEqual((yield* provider.sweep({})).inUse, [Option.getOrThrow(id)])
    yield* Effect.exit(process.kill("SIGKILL"))
    return Option.getOrThrow(id)
  }).pipe(Effect.scoped)

it.live("SIGKILL of a driver ends its container, and sweep removes what is left, and nothing else", () =>
  withStateDir((stateDir) =>
    Effect.gen(function* () {
      const provider = yield* SandboxProvider
      const id = yield* killedDriver(stateDir)
      yield* leftovers(stateDir).pipe(
        Effect.repeat({ until: ({ processes }) => processes.length === 0, schedule: Schedule.spaced("50 millis") }),
        Effect.timeout("5 seconds")
      )
      assert.deepStrictEqual(
        (yield* listed).map(({ id, state, metadata }) => ({ id, state, metadata })),
        [{ id, state: "orphaned", metadata: { run: "killed" } }]
      )

      yield* Effect.scoped(
        Effect.gen(function* () {
          const live = yield* provider.acquire(reportSpec("echo alive", { metadata: { run: "live" } }))
          assert.deepStrictEqual(yield* provider.sweep({ run: "another" }), {
            provider: "local",
            removed: [],
            left: [],
            inUse: []
          })
          const receipts = yield* Effect.all([provider.sweep({}), provider.sweep({})], { concurrency: 2 })
          for (const receipt of receipts) {
            assert.deepStrictEqual(receipt.left, [])
            assert.deepStrictEqual(receipt.inUse, [live.id])
          }
          assert.include(
            receipts.flatMap((receipt) => receipt.removed),
            id
          )
          assert.strictEqual(yield* report(live), "alive")
        })
      )
      assert.deepStrictEqual(yield* leftovers(stateDir, [id]), nothing)
    })
  )
)

it.live("a container that outlived its driver is ended by sweep", () =>
  withStateDir((stateDir) =>
    Effect.gen(function* () {
      const provider = yield* SandboxProvider
      const fs = yield* FileSystem.FileSystem
      const scope = yield* Scope.make()
      const sandbox = yield* Scope.extend(provider.acquire(scriptSpec("sleep 1000")), scope)
      // As if the owner's number now belonged to a later process.
      const record = `${stateDir}/${sandbox.id}/sandbox.json`
      const text = yield* fs.readFileString(record)
      yield* fs.writeFileString(record, text.replace(/"startedAt":"\d+"/, '"startedAt":"1"'))
      assert.deepStrictEqual(
        (yield* listed).map((info) => info.state),
        ["orphaned"]
      )
      assert.deepStrictEqual((yield* provider.sweep({})).removed, [sandbox.id])
      assert.deepStrictEqual(yield* leftovers(stateDir, [sandbox.id]), nothing)
      assert.include((yield* Effect.flip(sandbox.gone)).reason, "SIGKILL")
      yield* Scope.close(scope, Exit.void)
    })
  )
)

it.live("closing while sweeps run is harmless", () =>
  withStateDir((stateDir) =>
    Effect.gen(function* () {
      const provider = yield* SandboxProvider
      const fs = yield* FileSystem.FileSystem
      const scope = yield* Scope.make()
      const sandbox = yield* Scope.extend(provider.acquire(scriptSpec("sleep 1000")), scope)
      yield* fs.rename(`${stateDir}/${sandbox.id}/sandbox.json`, `${stateDir}/${sandbox.id}/orphaned.json`)
      const [, ...receipts] = yield* Effect.all(
        [Scope.close(scope, Exit.void), provider.sweep({}), provider.sweep({}), provider.sweep({})],
        { concurrency: "unbounded" }
      )
      assert.deepStrictEqual(
        receipts.flatMap((receipt) => receipt.left),
        []
      )
      assert.deepStrictEqual(yield* leftovers(stateDir, [sandbox.id]), nothing)
    })
  )
)

/** A provider on the same folder, for which reading some paths fails with the code that `codeOf` has for them. */
const blinded = (stateDir: string, codeOf: (path: string) => string | undefined) =>
  Effect.provide(LocalProvider.make({ stateDir }), failingReads(codeOf))

it.live("what a read that fails leaves unknown is left and named, and nothing of it is touched", () =>
  withStateDir((stateDir) =>
    Effect.gen(function* () {
      const provider = yield* SandboxProvider
      const live = yield* provider.acquire(reportSpec("echo alive", { metadata: { run: "live" } }))
      const paths = [
        `${stateDir}/${live.id}`,
        `${stateDir}/${live.id}/sandbox.json`,
        `${stateDir}/${live.id}/orphaned.json`,
        "/proc/sys/kernel/random/boot_id",
        "/proc/self/ns/pid",
        `/proc/${process.pid}/stat`
      ]
      for (const path of paths) {
        for (const code of ["EMFILE", "EIO", "EACCES"]) {
          const blind = yield* blinded(stateDir, (each) => (each === path ? code : undefined))
          for (const selector of [{}, { run: "live" }]) {
            const receipt = yield* blind.sweep(selector)
            assert.deepStrictEqual([receipt.removed, receipt.inUse], [[], []])
            assert.deepStrictEqual(
              receipt.left.map(({ id }) => id),
              [live.id]
            )
            assert.include(receipt.left[0]?.reason ?? "", `${path} could not be read: ${code}`)
            assert.match(receipt.left[0]?.reason ?? "", /sweep again when that can be read, or remove .* by hand/)
          }
          assert.deepStrictEqual(
            Chunk.toReadonlyArray(yield* Stream.runCollect(blind.list({}))).map(({ id, state }) => [id, state]),
            [[live.id, "unknown"]]
          )
        }
      }
      assert.strictEqual(yield* report(live), "alive")
      assert.deepStrictEqual((yield* provider.sweep({})).inUse, [live.id])
    }).pipe(Effect.scoped)
  )
)

it.live("nothing is gone while it cannot be read what runs", () =>
  withStateDir((stateDir) =>
    Effect.gen(function* () {
      const provider = yield* SandboxProvider
      const fs = yield* FileSystem.FileSystem
      const scope = yield* Scope.make()
      const sandbox = yield* Scope.extend(provider.acquire(reportSpec("echo alive")), scope)
      const folder = `${stateDir}/${sandbox.id}`
      yield* fs.rename(`${folder}/sandbox.json`, `${folder}/orphaned.json`)
      const blind = yield* blinded(stateDir, (path) => (path === "/proc" ? "EMFILE" : undefined))
      const receipt = yield* blind.sweep({})
      assert.deepStrictEqual([receipt.removed, receipt.inUse], [[], []])
      assert.match(receipt.left[0]?.reason ?? "", /^\/proc could not be read: EMFILE/)
      assert.strictEqual(yield* report(sandbox), "alive")
      assert.deepStrictEqual((yield* provider.sweep({})).removed, [sandbox.id])
      yield* Scope.close(scope, Exit.void)
      assert.deepStrictEqual(yield* leftovers(stateDir, [sandbox.id]), nothing)
    })
  )
)

it.live("a program that cannot tell its own name opens nothing, and a borrower that cannot look says so", () =>
  withStateDir((stateDir) =>
    Effect.gen(function* () {
      const provider = yield* SandboxProvider
      const error = yield* Effect.flip(provider.acquire(scriptSpec("true"))).pipe(
        Effect.provide(failingReads((path) => (path.endsWith("/boot_id") ? "EMFILE" : undefined)))
      )
      assert.strictEqual(error._tag, "SandboxCreateRejected")
      assert.match(error.message, /boot_id could not be read: EMFILE.*Nothing is opened/)
      assert.deepStrictEqual(yield* leftovers(stateDir), nothing)

      const live = yield* provider.acquire(scriptSpec("sleep 1000"))
      for (const path of ["/proc", stateDir, `${stateDir}/${live.id}/sandbox.json`]) {
        const cut = yield* blinded(stateDir, (each) => (each === path ? "EMFILE" : undefined))
        const error = yield* Effect.flip(cut.borrow(live.descriptor))
        assert.strictEqual(error._tag, "ProviderUnavailable")
        assert.match(error.message, /EMFILE/)
      }
      yield* provider.borrow(live.descriptor)
    }).pipe(Effect.scoped)
  )
)

it.live("folders without a record are swept once nobody can be writing it; other folders never", () =>
  withStateDir((stateDir) =>
    Effect.gen(function* () {
      const provider = yield* SandboxProvider
      const old = new Date(Date.now() - 120_000)
      for (const name of ["sb-000000000001", "sb-000000000002", "sb-000000000003", "photos"]) {
        mkdirSync(`${stateDir}/${name}`)
      }
      // A program that was killed while it wrote its record has not renamed it yet.
      writeFileSync(`${stateDir}/sb-000000000002/sandbox.json.new`, '{"id":"sb-0000')
      for (const name of ["sb-000000000001", "sb-000000000002", "photos"]) {
        utimesSync(`${stateDir}/${name}`, old, old)
      }
      assert.deepStrictEqual((yield* provider.sweep({ run: "any" })).removed, [])
      const receipt = yield* provider.sweep({})
      assert.sameMembers([...receipt.removed], ["sb-000000000001", "sb-000000000002"])
      assert.deepStrictEqual(receipt.inUse, ["sb-000000000003"])
      const fs = yield* FileSystem.FileSystem
      assert.sameMembers(yield* fs.readDirectory(stateDir), ["photos", "sb-000000000003"])
    })
  )
)

it.live("a folder of which nobody here understands the record is left, and said how to remove", () =>
  withStateDir((stateDir) =>
    Effect.gen(function* () {
      const provider = yield* SandboxProvider
      const old = new Date(Date.now() - 120_000)
      const id = "sb-000000000001"
      mkdirSync(`${stateDir}/${id}`)
      for (const text of ["", '{"id":"sb-0000', `{"id":"${id}","version":2}`]) {
        writeFileSync(`${stateDir}/${id}/sandbox.json`, text)
        utimesSync(`${stateDir}/${id}`, old, old)
        for (const selector of [{}, { run: "any" }]) {
          const receipt = yield* provider.sweep(selector)
          assert.deepStrictEqual([receipt.removed, receipt.inUse], [[], []])
          assert.strictEqual(receipt.left[0]?.id, id)
          const reason = receipt.left[0]?.reason ?? ""
          assert.include(
            reason,
            `${stateDir}/${id}/sandbox.json is no record that this version of Deskhand understands`
          )
          assert.include(reason, `remove ${stateDir}/${id} by hand when no run uses it`)
        }
      }
      assert.deepStrictEqual(
        (yield* listed).map((info) => [info.id, info.state]),
        [[id, "unknown"]]
      )
    })
  )
)

it.live("nothing to list or sweep where no sandbox was ever opened", () =>
  Effect.gen(function* () {
    const provider = yield* SandboxProvider
    assert.deepStrictEqual(yield* listed, [])
    assert.deepStrictEqual((yield* provider.sweep({})).removed, [])
  }).pipe(Effect.provide(provided("/tmp/dh-never-made")))
)

it.live.skipIf(!isRoot)("a cleanup that fails keeps the root cause, stays listed, and is finished by sweep", () =>
  withStateDir((stateDir) =>
    Effect.gen(function* () {
      const provider = yield* SandboxProvider
      const scope = yield* Scope.make()
      const sandbox = yield* Scope.extend(
        provider.acquire(scriptSpec("sleep 1000", { metadata: { run: "stuck" } })),
        scope
      )
      const home = `${stateDir}/${sandbox.id}/home`
      yield* Effect.acquireUseRelease(
        Effect.sync(() => execFileSync("mount", ["-t", "tmpfs", "-o", "ro", "tmpfs", home])),
        () =>
          Effect.gen(function* () {
            const error = yield* Effect.fail("the root cause").pipe(
              Effect.onExit((exit) => Scope.close(scope, exit)),
              Effect.flip
            )
            assert.strictEqual(error, "the root cause")
          }),
        () => Effect.sync(() => execFileSync("umount", [home]))
      )
      const [info] = yield* listed
      assert.strictEqual(info?.state, "orphaned")
      assert.deepStrictEqual(info?.metadata, { run: "stuck" })
      assert.deepStrictEqual((yield* leftovers(stateDir, [sandbox.id])).processes, [])
      assert.deepStrictEqual((yield* provider.sweep({ run: "stuck" })).removed, [sandbox.id])
      assert.deepStrictEqual((yield* leftovers(stateDir, [sandbox.id])).folders, [])
    })
  )
)

it.live.skipIf(!isRoot)("a full disk is a plain refusal", () =>
  withStateDir((stateDir) =>
    Effect.acquireUseRelease(
      Effect.sync(() => execFileSync("mount", ["-t", "tmpfs", "-o", "nr_inodes=4,mode=700", "tmpfs", stateDir])),
      () =>
        Effect.gen(function* () {
          const provider = yield* SandboxProvider
          const error = yield* Effect.flip(Effect.scoped(provider.acquire(scriptSpec("true"))))
          assert.strictEqual(error._tag, "SandboxCreateRejected")
          assert.include(error.message, "there is no space left for")
          const fs = yield* FileSystem.FileSystem
          assert.deepStrictEqual(yield* fs.readDirectory(stateDir), [])
        }),
      () => Effect.sync(() => execFileSync("umount", [stateDir]))
    )
  )
)

it.live("a sweep closes what a killed program left open in its ledger", () => {
  const stateDir = makeStateDir()
  folders.push(stateDir)
  const path = `${stateDir}/ledger.jsonl`
  const metadata = { run: "killed" }
  return Effect.gen(function* () {
    const ledger = yield* Ledger.Ledger
    const provider = yield* SandboxProvider
    // One whose folder was never made, one that is of another folder, and one of another run.
    const keys = [`${stateDir}/sb-000000000001`, "/elsewhere/sb-000000000002", `${stateDir}/sb-000000000003`]
    for (const [index, attemptKey] of keys.entries()) {
      yield* ledger.intend({ attemptKey, provider: "local", metadata: index === 2 ? { run: "other" } : metadata })
    }
    yield* Effect.scoped(
      Effect.gen(function* () {
        yield* provider.acquire(scriptSpec("sleep 100", { metadata }))
        yield* provider.sweep(metadata)
        const open = (yield* ledger.open).map((entry) => entry.attemptKey)
        assert.deepStrictEqual(open.slice(0, 2), keys.slice(1))
        assert.strictEqual(open.length, 3)
      })
    )
    const receipt = yield* ledger.receipt("local")
    assert.deepStrictEqual([receipt.created, receipt.removed, receipt.confirmed], [1, 1, 1])
    assert.deepStrictEqual(
      receipt.left.map((entry) => entry.attemptKey),
      keys.slice(1)
    )
  }).pipe(
    Effect.provide(
      LocalProvider.layer({ stateDir }).pipe(
        Layer.provideMerge(Ledger.layer({ path })),
        Layer.provide(NodeContext.layer)
      )
    )
  )
})
