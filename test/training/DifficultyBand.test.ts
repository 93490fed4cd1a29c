import { createHash } from "node:crypto"
import * as FileSystem from "@effect/platform/FileSystem"
import * as Path from "@effect/platform/Path"
import * as NodeContext from "@effect/platform-node/NodeContext"
import { assert, describe, it } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as FC from "effect/FastCheck"
import * as Fiber from "effect/Fiber"
import * as Schema from "effect/Schema"
import * as DifficultyBand from "../../src/training/DifficultyBand.js"
import { left, right, vector } from "./dataFixture.js"

const { inputs, outputs } = vector(
  "filter.dapo_band",
  Schema.Struct({
    manifest: Schema.Array(DifficultyBand.Calibration),
    repeats: Schema.Number,
    invalid_example: DifficultyBand.Calibration
  }),
  Schema.Struct({
    kept: Schema.Array(Schema.String),
    rows: Schema.Array(Schema.Struct({ task: Schema.String, repeat: Schema.Number, group_id: Schema.String })),
    rows_for_361_tasks_x5: Schema.Number
  })
)

describe("the difficulty band", () => {
  it("from training-vectors.json filter.dapo_band", () => {
    const kept = right(DifficultyBand.band(inputs.manifest)).map(({ task_id }) => task_id)
    assert.deepStrictEqual(kept, [...outputs.kept])
    assert.deepStrictEqual(
      DifficultyBand.bandRows(kept, inputs.repeats).map(({ groupId, repeat, task }) => ({
        task,
        repeat,
        group_id: groupId
      })),
      [...outputs.rows]
    )
    assert.strictEqual(left(DifficultyBand.band([inputs.invalid_example])).reason, "manifest")
    const many = Array.from({ length: 361 }, (_, index) => `t${index}`)
    assert.strictEqual(DifficultyBand.bandRows(many, 5).length, outputs.rows_for_361_tasks_x5)
  })

  it.prop("keeps exactly what was solved 1 to 7 times", { solved: FC.array(FC.nat({ max: 8 })) }, ({ solved }) => {
    const manifest = solved.map((count, index) => ({
      task_id: `t${index}`,
      calib_reps: DifficultyBand.calibrationRuns,
      calib_pass_rate: count / 8 + 1e-8
    }))
    assert.deepStrictEqual(
      right(DifficultyBand.band(manifest)).map(({ task_id }) => task_id),
      solved.flatMap((count, index) => (count > 0 && count < 8 ? [`t${index}`] : []))
    )
  })

  it("does not go on with a task that is there twice, or a rate that is none", () => {
    const row = (calib_pass_rate: number, task_id = "t") => ({
      task_id,
      calib_reps: DifficultyBand.calibrationRuns,
      calib_pass_rate
    })
    assert.deepStrictEqual(
      [
        [row(0.5), row(0)],
        [row(0.5), row(0.51, "u")],
        [row(1.125)],
        [row(-0.125)],
        [row(Number.NaN)],
        [row(0.5 + 2e-7)]
      ].map((rows) => left(DifficultyBand.band(rows)).reason),
      ["duplicate", "manifest", "manifest", "manifest", "manifest", "manifest"]
    )
  })
})

const rate = (task: string) => (task === "easy" ? 1 : task === "hard" ? 0 : 0.375)

/** A source of four tasks, two of them in the band; one uploads a file twice and brings a function. */
const makeSource = Effect.gen(function* () {
  const fs = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  const root = yield* fs.makeTempDirectoryScoped()
  const source = path.join(root, "band")
  yield* fs.makeDirectory(path.join(source, "tasks"), { recursive: true })
  yield* fs.makeDirectory(path.join(source, "uploads"))
  yield* fs.makeDirectory(path.join(source, "tmp_funcs", "mid", "getters"), { recursive: true })
  yield* fs.writeFileString(path.join(source, "uploads", "input.txt"), "an asset\n")
  yield* fs.writeFileString(path.join(source, "tmp_funcs", "mid", "getters", "custom.py"), "pass\n")
  const lines: Array<string> = []
  for (const id of ["easy", "mid", "hard", "other"]) {
    const calibration = { calib_reps: 8, calib_pass_rate: rate(id) }
    const upload = (local_path: string) => ({
      type: "upload_file",
      parameters: { files: [{ local_path, path: "/a" }] }
    })
    const task = {
      id,
      instruction: `Do ${id}`,
      config:
        id === "mid"
          ? [upload(path.join(source, "uploads", "input.txt")), upload("../uploads/input.txt"), { type: "sleep" }]
          : [],
      metadata: {
        ...calibration,
        ...(id === "mid" ? { new_functions_paths: ["/elsewhere/mid/getters/custom.py"] } : {})
      }
    }
    yield* fs.writeFileString(path.join(source, "tasks", `${id}.json`), JSON.stringify(task))
    lines.push(JSON.stringify({ task_id: id, ...calibration, note: "kept" }))
  }
  yield* fs.writeFileString(path.join(source, "manifest.jsonl"), `${lines.join("\n")}\n`)
  return { root, source }
})

const contents = (folder: string) =>
  Effect.gen(function* () {
    const fs = yield* FileSystem.FileSystem
    const path = yield* Path.Path
    const found: Record<string, string> = {}
    for (const entry of (yield* fs.readDirectory(folder, { recursive: true })).toSorted()) {
      const file = path.join(folder, entry)
      if ((yield* fs.stat(file)).type === "File") found[entry] = yield* fs.readFileString(file)
    }
    return found
  })

const sha256 = (text: string) => createHash("sha256").update(text).digest("hex")

const Task = Schema.parseJson(
  Schema.Struct({
    config: Schema.Array(
      Schema.Struct({
        parameters: Schema.optional(
          Schema.Struct({ files: Schema.Array(Schema.Struct({ local_path: Schema.String })) })
        )
      })
    ),
    metadata: Schema.Struct({ new_functions_paths: Schema.Array(Schema.String) })
  })
)

const pathsOf = (json: string) => {
  const { config, metadata } = Schema.decodeUnknownSync(Task)(json)
  return [
    ...config.flatMap(({ parameters }) => parameters?.files.map(({ local_path }) => local_path) ?? []),
    ...metadata.new_functions_paths
  ]
}

describe("a frozen band", () => {
  it.scoped("holds its tasks, their files and checksums over all", () =>
    Effect.gen(function* () {
      const path = yield* Path.Path
      const { root, source } = yield* makeSource
      const output = path.join(root, "frozen")
      const snapshot = yield* DifficultyBand.freeze({ source, output, repeats: 2 })
      const files = yield* contents(output)
      const asset = `assets/mid/000-${sha256("an asset\n").slice(0, 12)}-input.txt`
      assert.deepStrictEqual(Object.keys(files).sort(), [
        "SHA256SUMS",
        "SNAPSHOT.json",
        asset,
        "manifest.jsonl",
        "tasks/mid.json",
        "tasks/other.json",
        "tmp_funcs/mid/getters/custom.py",
        "train.jsonl"
      ])
      const functions = "tmp_funcs/mid/getters/custom.py"
      assert.deepStrictEqual(pathsOf(files["tasks/mid.json"] ?? ""), [`../${asset}`, `../${asset}`, `../${functions}`])
      const rows = (files["train.jsonl"] ?? "").trimEnd().split("\n")
      assert.deepStrictEqual(
        rows.map((row) => {
          const { context_compaction_group_id, responses_create_params } = JSON.parse(row)
          return [context_compaction_group_id, responses_create_params]
        }),
        [
          ["mid", 0],
          ["other", 0],
          ["mid", 1],
          ["other", 1]
        ].map(([task, repeat]) => [
          `rlvr-band:${task}:repeat:${repeat}`,
          {
            input: [{ role: "user", content: `Do ${task}` }],
            max_output_tokens: 16384,
            temperature: 0.6,
            top_p: 1
          }
        ])
      )
      const inTraining: unknown = JSON.parse(rows[0] ?? "").verifier_metadata
      assert.deepStrictEqual(pathsOf(JSON.stringify(inTraining)), [asset, asset, functions])
      assert.deepStrictEqual(JSON.parse(files["SNAPSHOT.json"] ?? ""), {
        schema_version: 1,
        source_manifest_sha256: snapshot.source_manifest_sha256,
        filter: "calib_reps == 8 and 0 < passes < 8",
        source_tasks: 4,
        filtered_tasks: 2,
        quarantined_tasks: 0,
        unique_tasks: 2,
        num_repeats: 2,
        gym_rows: 4,
        upload_assets: 1
      })
      const sums = (files["SHA256SUMS"] ?? "").trimEnd().split("\n")
      assert.deepStrictEqual(
        sums,
        Object.keys(files)
          .filter((name) => name !== "SHA256SUMS")
          .sort()
          .map((name) => `${sha256(files[name] ?? "")}  ${name}`)
      )
    }).pipe(Effect.provide(NodeContext.layer))
  )

  it.scoped("is the same bytes each time, wherever it is written", () =>
    Effect.gen(function* () {
      const path = yield* Path.Path
      const { root, source } = yield* makeSource
      const one = path.join(root, "one")
      const two = path.join(root, "deeper", "two")
      yield* DifficultyBand.freeze({ source, output: one, repeats: 3 })
      yield* DifficultyBand.freeze({ source, output: two, repeats: 3 })
      assert.deepStrictEqual(yield* contents(one), yield* contents(two))
      const three = path.join(root, "three")
      yield* DifficultyBand.freeze({ source, output: three, repeats: 3, root: "/data/band" })
      const [first] = pathsOf((yield* contents(three))["tasks/mid.json"] ?? "")
      assert.match(first ?? "", /^\/data\/band\/assets\/mid\/000-/)
    }).pipe(Effect.provide(NodeContext.layer))
  )

  it.scoped("is not frozen when something is not right, and nothing is left behind", () =>
    Effect.gen(function* () {
      const fs = yield* FileSystem.FileSystem
      const path = yield* Path.Path
      const freezing = (
        spoil: (source: string) => Effect.Effect<unknown, unknown>,
        more: Partial<DifficultyBand.FreezeOptions> = {}
      ) =>
        Effect.gen(function* () {
          const { root, source } = yield* makeSource
          yield* spoil(source)
          const output = path.join(root, "frozen")
          const error = yield* Effect.flip(DifficultyBand.freeze({ source, output, repeats: 1, ...more }))
          assert.deepStrictEqual(yield* fs.readDirectory(root), ["band"])
          return error.reason
        })
      const manifest = (source: string) => path.join(source, "manifest.jsonl")
      const task = (source: string) => path.join(source, "tasks", "mid.json")
      const edit = (file: string, from: string, to: string) =>
        Effect.flatMap(fs.readFileString(file), (text) => fs.writeFileString(file, text.replace(from, to)))
      const found = yield* Effect.all([
        freezing(() => Effect.void, { repeats: 0 }),
        freezing((source) => fs.remove(manifest(source))),
        freezing((source) => fs.writeFileString(manifest(source), "\n")),
        freezing((source) => edit(manifest(source), "{", "")),
        freezing((source) => edit(manifest(source), '"easy"', '"../easy"')),
        freezing((source) => edit(manifest(source), '"easy"', '"mid"')),
        freezing((source) => edit(manifest(source), '"calib_reps":8', '"calib_reps":4')),
        freezing((source) => edit(manifest(source), "0.375", "0.38")),
        freezing((source) => fs.remove(task(source))),
        freezing((source) => edit(task(source), '"id":"mid"', '"id":"other"')),
        freezing((source) => edit(task(source), "0.375", "0.3750001")),
        freezing((source) => fs.remove(path.join(source, "tmp_funcs", "mid"), { recursive: true })),
        freezing((source) => fs.remove(path.join(source, "uploads", "input.txt")))
      ])
      assert.deepStrictEqual(found, [
        "options",
        "disk",
        "manifest",
        "manifest",
        "manifest",
        "duplicate",
        "manifest",
        "manifest",
        "task",
        "task",
        "task",
        "task",
        "asset"
      ])
    }).pipe(Effect.provide(NodeContext.layer))
  )

  it.scoped("leaves out, and names, tasks whose files cannot be read when asked to", () =>
    Effect.gen(function* () {
      const fs = yield* FileSystem.FileSystem
      const path = yield* Path.Path
      const { root, source } = yield* makeSource
      yield* fs.remove(path.join(source, "uploads", "input.txt"))
      const output = path.join(root, "frozen")
      const snapshot = yield* DifficultyBand.freeze({ source, output, repeats: 1, quarantine: true })
      assert.deepStrictEqual([snapshot.unique_tasks, snapshot.quarantined_tasks, snapshot.upload_assets], [1, 1, 0])
      const files = yield* contents(output)
      assert.strictEqual(JSON.parse(files["quarantine.jsonl"] ?? "").task_id, "mid")
      assert.isUndefined(files["tmp_funcs/mid/getters/custom.py"])
    }).pipe(Effect.provide(NodeContext.layer))
  )

  it.scoped("does not take the place of anything", () =>
    Effect.gen(function* () {
      const fs = yield* FileSystem.FileSystem
      const path = yield* Path.Path
      const { root, source } = yield* makeSource
      const output = path.join(root, "frozen")
      yield* fs.makeDirectory(output)
      const error = yield* Effect.flip(DifficultyBand.freeze({ source, output, repeats: 1 }))
      assert.strictEqual(error.reason, "exists")
      assert.deepStrictEqual(yield* fs.readDirectory(output), [])
    }).pipe(Effect.provide(NodeContext.layer))
  )

  /** A file system on which something happens just before a file is written. */
  const disturbed = (name: string, happens: Effect.Effect<void, never, FileSystem.FileSystem>) =>
    Effect.map(FileSystem.FileSystem, (fs) =>
      FileSystem.FileSystem.of({
        ...fs,
        writeFileString: (path, data, options) =>
          path.endsWith(name)
            ? Effect.zipRight(
                Effect.provideService(happens, FileSystem.FileSystem, fs),
                fs.writeFileString(path, data, options)
              )
            : fs.writeFileString(path, data, options)
      })
    )

  it.scoped("is not frozen when the source changes meanwhile", () =>
    Effect.gen(function* () {
      const path = yield* Path.Path
      const fs = yield* FileSystem.FileSystem
      for (const changed of ["manifest.jsonl", "tasks/mid.json"]) {
        const { root, source } = yield* makeSource
        const file = path.join(source, changed)
        const slow = yield* disturbed(
          "SNAPSHOT.json",
          fs.readFileString(file).pipe(
            Effect.flatMap((text) => fs.writeFileString(file, `${text} `)),
            Effect.orDie
          )
        )
        const output = path.join(root, "frozen")
        const error = yield* DifficultyBand.freeze({ source, output, repeats: 1 }).pipe(
          Effect.provideService(FileSystem.FileSystem, slow),
          Effect.flip
        )
        assert.strictEqual(error.reason, "changed")
        assert.deepStrictEqual(yield* fs.readDirectory(root), ["band"])
      }
    }).pipe(Effect.provide(NodeContext.layer))
  )

  it.scoped("is not there, nor any part of it, when it is interrupted", () =>
    Effect.gen(function* () {
      const path = yield* Path.Path
      const fs = yield* FileSystem.FileSystem
      const { root, source } = yield* makeSource
      const reached = yield* Deferred.make<void>()
      const stuck = yield* disturbed(
        "SNAPSHOT.json",
        Effect.zipRight(Deferred.succeed(reached, undefined), Effect.never)
      )
      const fiber = yield* DifficultyBand.freeze({ source, output: path.join(root, "frozen"), repeats: 1 }).pipe(
        Effect.provideService(FileSystem.FileSystem, stuck),
        Effect.fork
      )
      yield* Deferred.await(reached)
      assert.strictEqual((yield* fs.readDirectory(root)).length, 2)
      yield* Fiber.interrupt(fiber)
      assert.deepStrictEqual(yield* fs.readDirectory(root), ["band"])
    }).pipe(Effect.provide(NodeContext.layer))
  )
})
