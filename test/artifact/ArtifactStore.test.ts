import { createHash } from "node:crypto"
import * as FileSystem from "@effect/platform/FileSystem"
import type * as Path from "@effect/platform/Path"
import * as NodeContext from "@effect/platform-node/NodeContext"
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as FastCheck from "effect/FastCheck"
import * as ArtifactStore from "../../src/artifact/ArtifactStore.js"

const withStore = <A, E>(
  use: (
    store: ArtifactStore.ArtifactStore["Type"],
    directory: string
  ) => Effect.Effect<A, E, FileSystem.FileSystem | Path.Path>
) =>
  Effect.gen(function* () {
    const fs = yield* FileSystem.FileSystem
    const directory = yield* fs.makeTempDirectoryScoped()
    return yield* Effect.provide(
      Effect.flatMap(ArtifactStore.ArtifactStore, (store) => use(store, directory)),
      ArtifactStore.layer({ directory })
    )
  }).pipe(Effect.scoped, Effect.provide(NodeContext.layer))

describe("ArtifactStore", () => {
  it.effect.prop(
    "gives back what was put, under its SHA-256",
    { bytes: FastCheck.uint8Array({ maxLength: 2000 }) },
    ({ bytes }) =>
      withStore((store) =>
        Effect.gen(function* () {
          const blob = yield* store.put(bytes, "image/png")
          assert.strictEqual(blob.sha256, createHash("sha256").update(bytes).digest("hex"))
          assert.strictEqual(blob.bytes, bytes.length)
          assert.deepStrictEqual(new Uint8Array(yield* store.get(blob)), new Uint8Array(bytes))
        })
      ),
    { fastCheck: { numRuns: 25 } }
  )

  it.effect.prop(
    "stores what comes in pieces as what they are together, however the sender's memory changes",
    {
      pieces: FastCheck.array(FastCheck.uint8Array({ maxLength: 90_000, size: "max" }), { maxLength: 6 }),
      before: FastCheck.nat({ max: 300_000 })
    },
    ({ before, pieces }) =>
      withStore((store) =>
        Effect.gen(function* () {
          yield* store.put(new Uint8Array(before), "image/png")
          const memory = new Uint8Array(90_000)
          const blob = yield* store.receive((add) =>
            Effect.sync(() => {
              for (const piece of pieces) {
                memory.set(piece)
                add(memory.subarray(0, piece.length))
              }
              return "image/jpeg"
            })
          )
          const whole = Buffer.concat(pieces)
          assert.deepStrictEqual(
            { ...blob },
            { sha256: createHash("sha256").update(whole).digest("hex"), bytes: whole.length, mediaType: "image/jpeg" }
          )
          assert.strictEqual(Buffer.compare(yield* store.get(blob), whole), 0)
          const lent = yield* store.lend(blob)
          assert.strictEqual(Buffer.compare(lent.bytes, whole), 0)
        })
      ),
    { fastCheck: { numRuns: 25 } }
  )

  it.effect("stores nothing of what broke off, and takes no piece that comes late", () =>
    withStore((store, directory) =>
      Effect.gen(function* () {
        const fs = yield* FileSystem.FileSystem
        let late: (piece: Uint8Array) => void = () => {}
        const error = yield* Effect.flip(
          store.receive((add) => {
            late = add
            add(new Uint8Array(10).fill(1))
            return Effect.fail("broken")
          })
        )
        assert.strictEqual(error, "broken")
        assert.deepStrictEqual(yield* fs.readDirectory(directory), [])
        const blob = yield* store.put(new Uint8Array(10).fill(2), "image/png")
        late(new Uint8Array(10).fill(3))
        const lent = yield* store.lend(blob)
        assert.deepStrictEqual(new Uint8Array(lent.bytes), new Uint8Array(10).fill(2))
      })
    )
  )

  it.effect("keeps the same bytes once, however many put them at a time", () =>
    withStore((store, directory) =>
      Effect.gen(function* () {
        const fs = yield* FileSystem.FileSystem
        const same = new Uint8Array(100_000).fill(7)
        const blobs = yield* Effect.forEach(Array.from({ length: 20 }), () => store.put(same, "image/png"), {
          concurrency: "unbounded"
        })
        assert.strictEqual(new Set(blobs.map(({ sha256 }) => sha256)).size, 1)
        assert.deepStrictEqual(yield* fs.readDirectory(directory), [blobs[0]?.sha256])
      })
    )
  )

  it.effect.prop(
    "lends what was put, to many at a time, in memory that nobody else writes to before it is given back",
    {
      blobs: FastCheck.array(FastCheck.uint8Array({ maxLength: 200_000, size: "max" }), { minLength: 1, maxLength: 6 })
    },
    ({ blobs }) =>
      withStore((store) =>
        Effect.forEach(
          blobs,
          (bytes, index) =>
            Effect.gen(function* () {
              const blob = yield* store.put(bytes, "image/png")
              for (let round = 0; round < 3; round++) {
                const lent = yield* store.lend(blob)
                yield* Effect.yieldNow()
                assert.strictEqual(Buffer.compare(lent.bytes, bytes), 0, `blob ${index}`)
                lent.release()
              }
            }),
          { concurrency: "unbounded", discard: true }
        )
      ),
    { fastCheck: { numRuns: 25 } }
  )

  it.effect("lends what was put a moment ago without the disk", () =>
    withStore((store, directory) =>
      Effect.gen(function* () {
        const fs = yield* FileSystem.FileSystem
        const bytes = new Uint8Array(1000).fill(3)
        const blob = yield* store.put(bytes, "image/png")
        // Whoever put it may use its memory for something else.
        bytes.fill(4)
        yield* fs.remove(`${directory}/${blob.sha256}`)
        const lent = yield* store.lend(blob)
        assert.deepStrictEqual(new Uint8Array(lent.bytes), new Uint8Array(1000).fill(3))
        lent.release()
        // A second release of the same loan gives nothing back that is another's.
        const again = yield* store.lend(blob)
        lent.release()
        const other = yield* store.put(new Uint8Array(1000).fill(5), "image/png")
        assert.strictEqual(other.bytes, 1000)
        assert.deepStrictEqual(new Uint8Array(again.bytes), new Uint8Array(1000).fill(3))
      })
    )
  )

  it.effect("does not lend a file that is longer or shorter than what was stored", () =>
    withStore((_, directory) =>
      Effect.gen(function* () {
        const fs = yield* FileSystem.FileSystem
        const sha256 = createHash("sha256").update(new Uint8Array(1000)).digest("hex")
        const blob = new ArtifactStore.BlobRef({ sha256, bytes: 1000, mediaType: "image/png" })
        for (const length of [0, 999, 1001]) {
          yield* fs.writeFile(`${directory}/${sha256}`, new Uint8Array(length))
          const error = yield* Effect.flip(
            Effect.flatMap(ArtifactStore.ArtifactStore, (store) => store.lend(blob)).pipe(
              Effect.provide(ArtifactStore.layer({ directory }))
            )
          )
          assert.include(error.message, `it has ${length} bytes, and 1000 were stored`)
        }
      })
    )
  )

  it.effect("names the file that it cannot read", () =>
    withStore((store, directory) =>
      Effect.gen(function* () {
        const fs = yield* FileSystem.FileSystem
        const blob = yield* store.put(new Uint8Array([1]), "image/png")
        yield* fs.remove(`${directory}/${blob.sha256}`)
        const error = yield* Effect.flip(store.get(blob))
        assert.strictEqual(error.operation, "read")
        assert.include(error.message, `${directory}/${blob.sha256}`)
      })
    )
  )

  it.effect("leaves nothing half written when it cannot write", () =>
    withStore((store, directory) =>
      Effect.gen(function* () {
        const fs = yield* FileSystem.FileSystem
        yield* fs.remove(directory, { recursive: true })
        const error = yield* Effect.flip(store.put(new Uint8Array([1]), "image/png"))
        assert.strictEqual(error.operation, "write")
        assert.isFalse(yield* fs.exists(directory))
        yield* fs.makeDirectory(directory)
      })
    )
  )
})
