import { appendFileSync, mkdtempSync, readFileSync, rmSync } from "node:fs"
import * as os from "node:os"
import { SystemError } from "@effect/platform/Error"
import * as FileSystem from "@effect/platform/FileSystem"
import * as NodeContext from "@effect/platform-node/NodeContext"
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { afterAll } from "vitest"
import * as Ledger from "../../src/sandbox/Ledger.js"

const folder = mkdtempSync(`${os.tmpdir()}/dh-ledger-`)
afterAll(() => rmSync(folder, { recursive: true, force: true }))

const opened = <A, E>(path: string, use: (ledger: Ledger.Ledger["Type"]) => Effect.Effect<A, E>) =>
  Effect.flatMap(Ledger.Ledger, use).pipe(Effect.provide(Ledger.layer({ path })), Effect.provide(NodeContext.layer))

const intend = (ledger: Ledger.Ledger["Type"], attemptKey: string) =>
  ledger.intend({ attemptKey, provider: "p", metadata: { run: "r" } })

describe("Ledger", () => {
  it.effect("an intent is on disk when it returns", () => {
    const path = `${folder}/a/ledger.jsonl`
    return opened(path, (ledger) =>
      Effect.gen(function* () {
        yield* intend(ledger, "one")
        const [row] = readFileSync(path, "utf8").split("\n")
        const { at, ...rest } = JSON.parse(row ?? "")
        assert.isNumber(at)
        assert.deepStrictEqual(rest, { intended: "one", provider: "p", metadata: { run: "r" } })
      })
    )
  })

  it.effect("what an earlier program left open is open again, whatever a crash tore", () =>
    Effect.gen(function* () {
      const path = `${folder}/b.jsonl`
      yield* opened(path, (ledger) =>
        Effect.gen(function* () {
          yield* Effect.forEach(["one", "two", "three"], (key) => intend(ledger, key), { concurrency: 3 })
          yield* ledger.created("one", "sb-1")
          yield* ledger.removed("one")
          yield* ledger.confirmed("one")
          yield* ledger.created("two", "sb-2")
          yield* ledger.failed("two", "no answer")
        })
      )
      appendFileSync(path, '{"intended":"four","prov')
      yield* opened(path, (ledger) => intend(ledger, "five"))
      yield* opened(path, (ledger) =>
        Effect.gen(function* () {
          const receipt = yield* ledger.receipt("p")
          assert.deepStrictEqual([receipt.created, receipt.removed, receipt.confirmed], [2, 1, 1])
          assert.deepStrictEqual(
            receipt.left.map((entry) => [entry.attemptKey, entry.state, entry.sandboxId, entry.reason]),
            [
              ["two", "created", "sb-2", "no answer"],
              ["three", "intended", undefined, undefined],
              ["five", "intended", undefined, undefined]
            ]
          )
          yield* ledger.confirmed("three")
          assert.deepStrictEqual(
            (yield* ledger.open).map((entry) => entry.attemptKey),
            ["two", "five"]
          )
        })
      )
    })
  )

  it.effect("what is written after a write that failed half-way is on a line of its own", () =>
    Effect.gen(function* () {
      const path = `${folder}/full.jsonl`
      const real = yield* FileSystem.FileSystem
      let room = Number.POSITIVE_INFINITY
      const small: FileSystem.FileSystem = {
        ...real,
        open: (path, options) =>
          Effect.map(real.open(path, options), (file) => ({
            [FileSystem.FileTypeId]: FileSystem.FileTypeId,
            fd: file.fd,
            stat: file.stat,
            sync: file.sync,
            seek: (offset, from) => file.seek(offset, from),
            read: (buffer) => file.read(buffer),
            readAlloc: (size) => file.readAlloc(size),
            truncate: (length) => file.truncate(length),
            write: (buffer) => file.write(buffer),
            // As much as there is room for is written.
            writeAll: (bytes) =>
              bytes.length <= room
                ? file.writeAll(bytes)
                : Effect.zipRight(
                    file.writeAll(bytes.subarray(0, room)),
                    new SystemError({
                      module: "FileSystem",
                      method: "writeAll",
                      reason: "Unknown",
                      pathOrDescriptor: path,
                      description: "no space left on device"
                    })
                  )
          }))
      }
      yield* Effect.flatMap(Ledger.make({ path }), (ledger) =>
        Effect.gen(function* () {
          yield* intend(ledger, "one")
          for (const left of [20, 0]) {
            room = left
            assert.instanceOf(yield* Effect.flip(intend(ledger, "lost")), Ledger.LedgerError)
          }
          room = Number.POSITIVE_INFINITY
          yield* intend(ledger, "two")
          yield* ledger.created("two", "sb-2")
        })
      ).pipe(Effect.provideService(FileSystem.FileSystem, small), Effect.scoped)
      const open = yield* opened(path, (ledger) => ledger.open)
      assert.deepStrictEqual(
        open.map(({ attemptKey, sandboxId, state }) => [attemptKey, state, sandboxId]),
        [
          ["one", "intended", undefined],
          ["two", "created", "sb-2"]
        ]
      )
    }).pipe(Effect.provide(NodeContext.layer))
  )

  it.effect("an attempt that never came to be is confirmed, and counted nowhere", () =>
    Effect.gen(function* () {
      const ledger = yield* Ledger.makeMemory
      yield* intend(ledger, "one")
      yield* ledger.confirmed("one")
      assert.deepStrictEqual(
        yield* ledger.receipt("p"),
        Ledger.Receipt.make({
          provider: "p",
          created: 0,
          removed: 0,
          confirmed: 0,
          left: []
        })
      )
    })
  )

  it.effect("a ledger that cannot be kept is an error", () =>
    Effect.gen(function* () {
      const error = yield* Effect.flip(opened(`${folder}/a/ledger.jsonl/ledger.jsonl`, () => Effect.void))
      assert.instanceOf(error, Ledger.LedgerError)
    })
  )
})
