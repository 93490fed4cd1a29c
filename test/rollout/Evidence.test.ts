import * as FileSystem from "@effect/platform/FileSystem"
import * as NodeContext from "@effect/platform-node/NodeContext"
import { assert, describe, it } from "@effect/vitest"
import * as Arbitrary from "effect/Arbitrary"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as ArtifactStore from "../../src/artifact/ArtifactStore.js"
import { Observation } from "../../src/rollout/Environment.js"
import * as Evidence from "../../src/rollout/Evidence.js"
import * as Simulator from "./simulator.js"

const withEvidence = <A, E>(
  use: (out: string) => Effect.Effect<A, E, FileSystem.FileSystem | Evidence.Evidence | ArtifactStore.ArtifactStore>
) =>
  Effect.gen(function* () {
    const fs = yield* FileSystem.FileSystem
    const out = yield* fs.makeTempDirectoryScoped()
    return yield* Effect.provide(
      use(out),
      Evidence.layer({ out }).pipe(Layer.provideMerge(ArtifactStore.layer({ directory: `${out}/blobs` })))
    )
  }).pipe(Effect.scoped, Effect.provide(NodeContext.layer))

describe("Evidence", () => {
  it.prop("is the same when it is read back", { record: Arbitrary.make(Evidence.EvidenceRecord) }, ({ record }) => {
    const json = Schema.parseJson(Evidence.EvidenceRecord)
    const encode = Schema.encodeSync(json)
    assert.strictEqual(encode(Schema.decodeSync(json)(encode(record))), encode(record))
  })

  it.effect("is on disk record by record, and shows each step's screenshot under its number", () =>
    withEvidence((out) =>
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
            const content = yield* fs.readFileString(`${out}/evidence/task-0.0-0.jsonl`)
            assert.deepStrictEqual(JSON.parse(content)._tag, "Observed")
            yield* log.append({ _tag: "NotEvaluated", reason: "timeout", detail: "late" })
          })
        )
        const lines = (yield* fs.readFileString(`${out}/evidence/task-0.0-0.jsonl`)).trim().split("\n")
        assert.deepStrictEqual(
          lines.map((line) => JSON.parse(line)._tag),
          ["Observed", "NotEvaluated"]
        )
        const picture = yield* fs.readFile(`${out}/screenshots/task-0.0-0/step-000.png`)
        assert.deepStrictEqual(Array.from(picture), [1, 2, 3])
      })
    )
  )

  it.effect("begins anew when an attempt that was stopped is begun again", () =>
    withEvidence((out) =>
      Effect.gen(function* () {
        const fs = yield* FileSystem.FileSystem
        const evidence = yield* Evidence.Evidence
        for (let round = 0; round < 2; round++) {
          yield* Effect.scoped(
            Effect.gen(function* () {
              const log = yield* evidence.open(Simulator.identity())
              yield* log.append({ _tag: "Observed", step: 0, observation: Simulator.observation })
            })
          )
        }
        const lines = (yield* fs.readFileString(`${out}/evidence/task-0.0-0.jsonl`)).trim().split("\n")
        assert.strictEqual(lines.length, 1)
      })
    )
  )

  it.effect("names the file when the disk is full", () =>
    withEvidence((out) =>
      Effect.gen(function* () {
        const fs = yield* FileSystem.FileSystem
        const evidence = yield* Evidence.Evidence
        yield* fs.symlink("/dev/full", `${out}/evidence/task-0.0-0.jsonl`)
        const error = yield* evidence.open(Simulator.identity()).pipe(
          Effect.flatMap((log) => log.append({ _tag: "NotEvaluated", reason: "timeout", detail: "" })),
          Effect.scoped,
          Effect.flip
        )
        assert.include(error.message, `${out}/evidence/task-0.0-0.jsonl`)
        assert.match(error.message, /no space left/i)
      })
    )
  )
})
