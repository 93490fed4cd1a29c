import { statSync } from "node:fs"
import { SystemError } from "@effect/platform/Error"
import * as FileSystem from "@effect/platform/FileSystem"
import * as NodeContext from "@effect/platform-node/NodeContext"
import { assert, describe, it } from "@effect/vitest"
import * as Arbitrary from "effect/Arbitrary"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as FC from "effect/FastCheck"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import * as ArtifactStore from "../../src/artifact/ArtifactStore.js"
import { RolloutIdentity } from "../../src/identity/Identity.js"
import { Observation } from "../../src/rollout/Environment.js"
import { Evaluation } from "../../src/rollout/Evaluation.js"
import * as Evidence from "../../src/rollout/Evidence.js"
import { genesis, seal } from "../../src/rollout/internal/evidence/chain.js"
import { pack, packer } from "../../src/rollout/internal/evidence/pack.js"
import { intervals, listed } from "../../src/rollout/internal/evidence/stored.js"
import { packPrompt, unpackPrompt } from "../../src/rollout/internal/evidence/tokens.js"
import { unpack, unpacker } from "../../src/rollout/internal/evidence/unpack.js"
import { AgentDone } from "../../src/rollout/Termination.js"
import * as Fixture from "./evidenceFixture.js"
import * as Simulator from "./simulator.js"

const encode = Schema.encodeSync(Schema.parseJson(Evidence.EvidenceRecord))

const decodes = Schema.decodeEither(Schema.parseJson(Evidence.EvidenceRecord))

/** A number that is not finite, which a server's wait may be by its type alone, has no JSON. */
const isJson = (record: Evidence.EvidenceRecord) => Either.isRight(decodes(encode(record)))

const file = (out: string) => `${out}/evidence/task-0.0-0.jsonl`

describe("Evidence", () => {
  it.prop(
    "is the same when it is read back, whatever the records are",
    { records: FC.array(Arbitrary.make(Evidence.EvidenceRecord).filter(isJson), { maxLength: 8 }) },
    ({ records }) => {
      const writer = packer()
      const reader = unpacker()
      let chain = genesis
      const back = records.flatMap((written) =>
        pack(writer, written, encode).flatMap((json) => {
          // A line that is one record is what the record's own schema makes of it.
          if (written._tag !== "Called") assert.deepStrictEqual(JSON.parse(json), JSON.parse(encode(written)))
          const sealed = seal(chain, json)
          chain = sealed.chain
          const { faults, record } = unpack(reader, Buffer.from(sealed.line).subarray(0, -1))
          assert.deepStrictEqual(faults, [])
          return record === undefined ? [] : [record]
        })
      )
      assert.deepStrictEqual(
        back.map((record) => encode(record)),
        records.map((record) => encode(record))
      )
    },
    { fastCheck: { numRuns: 200 } }
  )

  it.effect("gives an episode back, calls with their prompts and tokens whole", () =>
    Fixture.withRun((out) =>
      Effect.gen(function* () {
        const records = yield* Fixture.episode("policy", { steps: 5, tokens: true, retry: true })
        const written = yield* Fixture.write(out, records)
        assert.deepStrictEqual(Array.from(yield* Stream.runCollect(Evidence.read(written))), records)
      })
    )
  )

  it.effect("grows with what is new, not with the sum of the prompts", () =>
    Fixture.withRun((out) =>
      Effect.gen(function* () {
        const fs = yield* FileSystem.FileSystem
        const sizeOf = (steps: number) =>
          Effect.gen(function* () {
            const written = yield* Fixture.write(out, yield* Fixture.episode("policy", { steps, tokens: true }))
            return Number((yield* fs.stat(written)).size)
          })
        // Whole prompts of 80 steps would take four times those of 40; this takes twice, and the head once.
        const ratio = (yield* sizeOf(80)) / (yield* sizeOf(40))
        assert.isBelow(ratio, 2.1)
      })
    )
  )

  it.effect("is on disk record by record, and shows each step's screenshot under its number", () =>
    Fixture.withRun((out) =>
      Effect.gen(function* () {
        const fs = yield* FileSystem.FileSystem
        const evidence = yield* Evidence.Evidence
        const store = yield* ArtifactStore.ArtifactStore
        const screenshot = yield* store.put(new Uint8Array([1, 2, 3]), "image/png")
        const observation = new Observation({ screenshot, milliseconds: 1 })
        yield* Effect.scoped(
          Effect.gen(function* () {
            const log = yield* evidence.open(Simulator.identity())
            yield* log.append({ _tag: "Observed", step: 0, observation })
            // Before the log is closed: a crash loses nothing that was appended.
            const content = yield* fs.readFileString(file(out))
            assert.deepStrictEqual(JSON.parse(content)._tag, "Observed")
            yield* log.append({ _tag: "NotEvaluated", reason: "timeout", detail: "late" })
          })
        )
        const lines = (yield* fs.readFileString(file(out))).trim().split("\n")
        assert.deepStrictEqual(
          lines.map((line) => JSON.parse(line)._tag),
          ["Observed", "NotEvaluated"]
        )
        const picture = yield* fs.readFile(`${out}/screenshots/task-0.0-0/step-000.png`)
        assert.deepStrictEqual(Array.from(picture), [1, 2, 3])
      })
    )
  )

  /** How much of a file was on the disk at each sync; a disk that is broken cannot tell. */
  const withSyncs = <A, E>(
    use: (
      disk: { readonly synced: ReadonlyArray<number>; broken: boolean },
      out: string
    ) => Effect.Effect<A, E, Evidence.Evidence>
  ) =>
    Effect.gen(function* () {
      const fs = yield* FileSystem.FileSystem
      const out = yield* fs.makeTempDirectoryScoped()
      const synced: Array<number> = []
      const disk = { synced, broken: false }
      const observed: FileSystem.FileSystem = {
        ...fs,
        open: (path, options) =>
          Effect.map(fs.open(path, options), (inner) => ({
            [FileSystem.FileTypeId]: FileSystem.FileTypeId,
            fd: inner.fd,
            stat: inner.stat,
            sync: Effect.suspend(() =>
              disk.broken
                ? new SystemError({ module: "FileSystem", method: "sync", reason: "Unknown", pathOrDescriptor: path })
                : Effect.zipRight(
                    inner.sync,
                    Effect.map(inner.stat, ({ size }) => void synced.push(Number(size)))
                  )
            ),
            seek: (offset, from) => inner.seek(offset, from),
            read: (buffer) => inner.read(buffer),
            readAlloc: (size) => inner.readAlloc(size),
            truncate: (length) => inner.truncate(length),
            write: (buffer) => inner.write(buffer),
            writeAll: (bytes) => inner.writeAll(bytes)
          }))
      }
      return yield* Effect.provide(
        use(disk, out),
        Evidence.layer({ out }).pipe(
          Layer.provide(ArtifactStore.layer({ directory: `${out}/blobs` })),
          Layer.provide(Layer.succeed(FileSystem.FileSystem, observed))
        )
      )
    }).pipe(Effect.scoped, Effect.provide(NodeContext.layer))

  for (const last of [
    { _tag: "Evaluated", evaluation: new Evaluation({ score: 1, details: [] }) },
    { _tag: "NotEvaluated", reason: "timeout", detail: "late" }
  ] as const) {
    it.effect(`is synced once an episode, when all of it is written: ${last._tag}`, () =>
      withSyncs((disk, out) =>
        Effect.gen(function* () {
          const evidence = yield* Evidence.Evidence
          const log = yield* evidence.open(Simulator.identity())
          for (const step of [0, 1, 2]) {
            yield* log.append({ _tag: "Observed", step, observation: Simulator.observation })
          }
          yield* log.append({ _tag: "Ended", termination: new AgentDone() })
          assert.deepStrictEqual(disk.synced, [])
          yield* log.append(last)
          assert.deepStrictEqual(disk.synced, [statSync(file(out)).size])
        }).pipe(Effect.scoped)
      )
    )
  }

  it.effect("is incomplete when it cannot be synced", () =>
    withSyncs((disk, out) =>
      Effect.gen(function* () {
        const evidence = yield* Evidence.Evidence
        const log = yield* evidence.open(Simulator.identity())
        yield* log.append({ _tag: "Observed", step: 0, observation: Simulator.observation })
        disk.broken = true
        const error = yield* Effect.flip(log.append({ _tag: "NotEvaluated", reason: "timeout", detail: "late" }))
        assert.instanceOf(error, Evidence.EvidenceError)
        assert.strictEqual(error.path, file(out))
      }).pipe(Effect.scoped)
    )
  )

  it.effect("begins anew when an attempt that was stopped is begun again", () =>
    Fixture.withRun((out) =>
      Effect.gen(function* () {
        const evidence = yield* Evidence.Evidence
        for (let round = 0; round < 2; round++) {
          yield* Effect.scoped(
            Effect.gen(function* () {
              const log = yield* evidence.open(Simulator.identity())
              yield* log.append({ _tag: "Observed", step: 0, observation: Simulator.observation })
            })
          )
        }
        assert.strictEqual(yield* Stream.runCount(Evidence.read(file(out))), 1)
      })
    )
  )

  it.effect("names the file when the disk is full, and takes nothing more", () =>
    Fixture.withRun((out) =>
      Effect.gen(function* () {
        const fs = yield* FileSystem.FileSystem
        const evidence = yield* Evidence.Evidence
        yield* fs.symlink("/dev/full", file(out))
        const append = { _tag: "NotEvaluated", reason: "timeout", detail: "" } as const
        yield* Effect.scoped(
          Effect.gen(function* () {
            const log = yield* evidence.open(Simulator.identity())
            const error = yield* Effect.flip(log.append(append))
            assert.include(error.message, file(out))
            assert.match(error.message, /no space left/i)
            assert.strictEqual(yield* Effect.flip(log.append(append)), error)
          })
        )
      })
    )
  )

  it.effect("names a torn tail and keeps what is before it", () =>
    Fixture.withRun((out) =>
      Effect.gen(function* () {
        const fs = yield* FileSystem.FileSystem
        const records = yield* Fixture.episode("policy", { steps: 2 })
        const written = yield* Fixture.write(out, records)
        const { size } = yield* fs.stat(written)
        yield* fs.truncate(written, FileSystem.Size(Number(size) - 10))
        const entries = yield* Fixture.readBack(written)
        const faults = entries.flatMap((entry) => (Either.isLeft(entry) ? [entry.left.kind] : []))
        assert.deepStrictEqual(faults, ["torn_tail"])
        assert.strictEqual(entries.length - 1, records.length - 1)
      })
    )
  )

  it.effect("says of a line that is gone what is missing, and reads on", () =>
    Fixture.withRun((out) =>
      Effect.gen(function* () {
        const fs = yield* FileSystem.FileSystem
        const written = yield* Fixture.write(out, yield* Fixture.episode("policy", { steps: 4, tokens: true }))
        const lines = (yield* fs.readFileString(written)).split("\n")
        const at = lines.findIndex((line) => line.startsWith('{"_tag":"Called"'))
        yield* fs.writeFileString(written, lines.filter((_, index) => index !== at).join("\n"))
        const faults = (yield* Fixture.readBack(written)).flatMap((entry) => (Either.isLeft(entry) ? [entry.left] : []))
        assert.deepStrictEqual(
          faults.map(({ kind }) => kind),
          ["chain_broken", "gap", "gap", "gap", "gap"]
        )
        assert.match(faults[1]?.message ?? "", /task-0\.0-0\.jsonl:\d+: gap: call 0 is missing: this is call 1/)
      })
    )
  )

  it("gives rollouts of unlike ids unlike files, whatever the ids hold", () => {
    const stem = (rolloutId: string) => Evidence.fileStem({ taskId: "a/b", rolloutId })
    assert.strictEqual(Evidence.fileStem(new RolloutIdentity(Simulator.identity(3))), "task-3.3-0")
    assert.notStrictEqual(stem("../x"), stem(".._x"))
    assert.notInclude(stem("../x"), "/")
  })
})

describe("Packed tokens", () => {
  const ids = FC.array(FC.nat(3), { maxLength: 12 })
  const known = FC.array(FC.record({ promptTokenIds: ids, generationTokenIds: ids }), { maxLength: 4 }).map((calls) =>
    calls.map((call, index) => ({ call: index, ...call }))
  )

  it.prop("are the prompt again", { prompt: ids, known }, ({ known, prompt }) => {
    assert.deepStrictEqual(unpackPrompt(packPrompt(prompt, known), known), prompt)
  })

  it("are only what is added, where a prompt extends a call", () => {
    const known = [{ call: 7, promptTokenIds: [1, 2], generationTokenIds: [3] }]
    assert.deepStrictEqual(packPrompt([1, 2, 3, 4], known), { call: 7, take: 3, added: [4] })
  })

  it.prop("are nothing where the call is not known", { prompt: ids, known }, ({ known, prompt }) => {
    const packed = packPrompt(prompt, known)
    assert.deepStrictEqual(unpackPrompt(packed, []), packed.call === undefined ? prompt : undefined)
  })
})

describe("Intervals", () => {
  it.prop("list the numbers in order", { numbers: FC.array(FC.nat(9)) }, ({ numbers }) => {
    assert.deepStrictEqual(listed(intervals(numbers)), numbers)
  })

  it("are as few as can be", () => {
    assert.deepStrictEqual(intervals([0, 4, 5, 6, 2]), [
      [0, 1],
      [4, 7],
      [2, 3]
    ])
  })
})
