import { execFile } from "node:child_process"
import { existsSync, readdirSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import { promisify } from "node:util"
import * as FileSystem from "@effect/platform/FileSystem"
import * as Path from "@effect/platform/Path"
import * as NodeContext from "@effect/platform-node/NodeContext"
import * as NodeHttpClient from "@effect/platform-node/NodeHttpClient"
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as FastCheck from "effect/FastCheck"
import * as Layer from "effect/Layer"
import type * as Scope from "effect/Scope"
import { zipSync } from "fflate"
import * as Benchmark from "../../src/osworld/Benchmark.js"
import * as Facts from "../../src/osworld/internal/benchmark/facts.js"
import { shard } from "../../src/osworld/internal/benchmark/rows.js"
import * as Task from "../../src/osworld/Task.js"
import * as TaskSource from "../../src/osworld/TaskSource.js"
import { make as makeServer, noise, sha256 } from "./assetServer.js"

type Json = Readonly<Record<string, unknown>>

const task = (id: string, more: Json = {}): Json => ({
  id,
  snapshot: "os",
  instruction: `Do ${id}`,
  config: [],
  evaluator: {
    func: "exact_match",
    result: { type: "vm_command_line", command: "id" },
    expected: { type: "rule", rules: { expected: "x" } }
  },
  ...more
})

const infeasible = { evaluator: { func: "infeasible" } }

const download = (...urls: ReadonlyArray<string>) => ({
  type: "download",
  parameters: { files: urls.map((url, i) => ({ url, path: `/tmp/${i}` })) }
})

const decoded = (json: unknown): Task.Task => Either.getOrThrow(Task.decode(json, "test"))

/** OSWorld's own layout. */
const checkout: Readonly<Record<string, unknown>> = {
  "evaluation_examples/examples/os/b.json": task("b", infeasible),
  "evaluation_examples/examples/chrome/c.json": task("c", {
    proxy: true,
    config: [{ type: "chrome_open_tabs", parameters: { urls_to_open: ["https://example.com"] } }]
  }),
  "evaluation_examples/examples/os/a.json": task("a"),
  "evaluation_examples/examples/multi_apps/d.json": task("d", { fixed_ip: true }),
  "evaluation_examples/examples_windows/excel/w.json": task("w"),
  "evaluation_examples/test_all.json": { os: ["a", "b"], chrome: ["c"], multi_apps: ["d"] },
  "evaluation_examples/test_small.json": { os: ["a"], chrome: ["c"] },
  "evaluation_examples/test_infeasible.json": { os: [] },
  "package.json": { name: "no task" }
}

const text = (content: unknown) => (typeof content === "string" ? content : JSON.stringify(content))

const written = (root: string, files: Readonly<Record<string, unknown>>) =>
  Effect.gen(function* () {
    const fs = yield* FileSystem.FileSystem
    const path = yield* Path.Path
    for (const [name, content] of Object.entries(files)) {
      yield* fs.makeDirectory(path.dirname(path.join(root, name)), { recursive: true })
      yield* fs.writeFileString(path.join(root, name), text(content))
    }
    return root
  })

const folder = Effect.flatMap(FileSystem.FileSystem, (fs) => fs.makeTempDirectoryScoped())

const platform = Layer.merge(NodeContext.layer, NodeHttpClient.layer)

const test = (name: string, effect: Effect.Effect<void, unknown, Layer.Layer.Success<typeof platform> | Scope.Scope>) =>
  it.scopedLive(name, () => Effect.provide(effect, platform))

const lines = (file: string) => readFileSync(file, "utf8").split("\n").slice(0, -1)

describe("Benchmark.prepare", () => {
  test(
    "pins a checkout by content and writes its parts as rows that load",
    Effect.gen(function* () {
      const source = yield* Effect.flatMap(folder, (root) => written(root, checkout))
      const out = yield* folder
      const manifest = yield* Benchmark.prepare({ source, out, shards: 2, agent: "prompt" })
      assert.deepStrictEqual(
        manifest.splits.map(({ infeasible, live_web, name, proxy, shards, tasks }) => [
          ...[name, tasks, infeasible, proxy, live_web, shards.length]
        ]),
        [
          ["all", 4, 1, 1, 1, 2],
          ["nogdrive", 3, 1, 1, 1, 2],
          ["small", 2, 0, 1, 1, 2],
          ["infeasible", 1, 1, 0, 0, 0]
        ]
      )
      // By domain and id, as no list says another order.
      assert.deepStrictEqual(
        manifest.tasks.map(({ domain, id, index }) => [index, domain, id]),
        [
          [0, "chrome", "c"],
          [1, "multi_apps", "d"],
          [2, "os", "a"],
          [3, "os", "b"]
        ]
      )
      assert.strictEqual(manifest.tasks[2]?.sha256, sha256(text(checkout["evaluation_examples/examples/os/a.json"])))
      assert.deepStrictEqual(manifest.notes, ["test_infeasible.json does not name b; the tasks themselves count"])

      assert.deepStrictEqual(JSON.parse(lines(join(out, "rows/small.jsonl"))[1] ?? ""), {
        responses_create_params: { input: [{ role: "user", content: "Do a" }] },
        agent_ref: { type: "responses_api_agents", name: "prompt" },
        verifier_metadata: { task_id: "a", domain: "os", osworld_task: task("a") },
        _ng_task_index: 2
      })
      const loaded = yield* TaskSource.load([join(out, "rows/nogdrive.jsonl")])
      assert.deepStrictEqual(
        loaded.map(({ row }) => [row.taskIndex, row.domain, row.taskId]),
        [
          [0, "chrome", "c"],
          [2, "os", "a"],
          [3, "os", "b"]
        ]
      )
      const [first, second] = ["00", "01"].map((shard) => lines(join(out, `rows/all-shard-${shard}-of-02.jsonl`)))
      assert.deepStrictEqual([first?.[0], second?.[0], first?.[1], second?.[1]], lines(join(out, "rows/all.jsonl")))
      assert.deepStrictEqual(
        JSON.parse(readFileSync(join(out, "rows/all-shard-01-of-02.jsonl.manifest.json"), "utf8")),
        {
          schema_version: 1,
          kind: "osworld-task-shard",
          source_path: "rows/all.jsonl",
          source_sha256: sha256(readFileSync(join(out, "rows/all.jsonl"))),
          selection: "nonempty-row-index-modulo",
          num_shards: 2,
          shard_index: 1,
          total_tasks: 4,
          shard_tasks: 2,
          task_ids_sha256: sha256("d\nb"),
          task_ids: ["d", "b"]
        }
      )
    })
  )

  test(
    "finds the same in a zip and in a tar.gz, and refuses what is neither",
    Effect.gen(function* () {
      const fs = yield* FileSystem.FileSystem
      const root = yield* Effect.flatMap(folder, (root) => written(`${root}/OSWorld-main`, checkout))
      const place = yield* folder
      const entries = Object.entries(checkout).map(([name, content]) => [
        `OSWorld-main/${name}`,
        Buffer.from(text(content))
      ])
      yield* fs.writeFile(`${place}/a.zip`, zipSync(Object.fromEntries(entries)))
      yield* Effect.promise(() =>
        promisify(execFile)("tar", ["-czf", `${place}/a.tar.gz`, "-C", join(root, ".."), "OSWorld-main"])
      )
      yield* fs.writeFileString(`${place}/a.txt`, "no archive")
      const manifests = yield* Effect.forEach([root, `${place}/a.zip`, `${place}/a.tar.gz`], (source, i) =>
        Benchmark.prepare({ source, out: `${place}/out${i}` })
      )
      const [first, ...others] = manifests.map(({ tasks_sha256 }) => tasks_sha256)
      for (const other of others) assert.strictEqual(other, first)
      assert.strictEqual(manifests[1]?.source.sha256, sha256(readFileSync(`${place}/a.zip`)))
      const error = yield* Effect.flip(Benchmark.prepare({ source: `${place}/a.txt`, out: `${place}/out3` }))
      assert.include(error.message, "neither a ZIP archive nor a tar archive")
      yield* fs.writeFile(`${place}/b.zip`, zipSync({ "../a.json": Buffer.from(text(task("a"))) }))
      const leaves = yield* Effect.flip(Benchmark.prepare({ source: `${place}/b.zip`, out: `${place}/out3` }))
      assert.include(leaves.message, "leaves the archive")
      assert.isFalse(existsSync(`${place}/out3`))
    })
  )

  test(
    "says all that is wrong at once, and writes nothing",
    Effect.gen(function* () {
      const chrome = (command: ReadonlyArray<string>) => ({ type: "launch", parameters: { command } })
      const source = yield* Effect.flatMap(folder, (root) =>
        written(root, {
          "examples/os/a.json": task("a"),
          "examples/vlc/a.json": task("a"),
          "examples/os/b.json": '{"id": ',
          "examples/os/c.json": task("c", { evaluator: { func: 5 } }),
          "examples/chrome/d.json": task("d", { config: [chrome(["google-chrome", "--remote-debugging-port=1337"])] })
        })
      )
      const error = yield* Effect.flip(Benchmark.prepare({ source, out: join(source, "out") }))
      for (const part of [
        "examples/vlc/a.json: id: the task id a is taken by examples/os/a.json",
        "examples/os/b.json: expected JSON",
        "examples/os/c.json: evaluator.func: Expected",
        "examples/chrome/d.json: config: expected a relay"
      ]) {
        assert.include(error.message, part)
      }
      assert.isFalse(existsSync(join(source, "out")))
      const index = yield* Effect.flatMap(folder, (root) =>
        written(root, { "examples/os/a.json": task("a"), "test_small.json": { os: ["a", "gone"] } })
      )
      assert.include(
        (yield* Effect.flip(Benchmark.prepare({ source: index, out: join(index, "out") }))).message,
        "test_small.json: it names tasks that are not there: gone"
      )
    })
  )

  test(
    "goes on with the same tasks, and refuses others unless it is told to",
    Effect.gen(function* () {
      const source = yield* Effect.flatMap(folder, (root) => written(root, checkout))
      const out = yield* folder
      const first = yield* Benchmark.prepare({ source, out })
      assert.deepStrictEqual(yield* Benchmark.prepare({ source, out }), first)
      yield* written(source, { "evaluation_examples/examples/os/a.json": task("a", { instruction: "Do it" }) })
      const error = yield* Effect.flip(Benchmark.prepare({ source, out }))
      assert.include(error.message, "1 task changed: os/a")
      assert.include(error.message, "--force")
      const forced = yield* Benchmark.prepare({ source, out, force: true })
      assert.notStrictEqual(forced.tasks_sha256, first.tasks_sha256)
      assert.deepStrictEqual(Benchmark.differences(first, forced), ["1 task changed: os/a"])
    })
  )

  test(
    "fetches assets, checks those that are there, and pins them",
    Effect.gen(function* () {
      const fs = yield* FileSystem.FileSystem
      const server = yield* makeServer
      const [gold, input] = [noise(50_000, "gold"), noise(60_000, "input")]
      server.files.set("/gold", gold)
      server.files.set("/input", input)
      const source = yield* Effect.flatMap(folder, (root) =>
        written(root, {
          "examples/os/a.json": task("a", {
            config: [download(`${server.url}/input`)],
            evaluator: {
              func: "compare_text_file",
              result: { type: "vm_file", path: "/tmp/a", dest: "a" },
              expected: { type: "cloud_file", path: `${server.url}/gold`, dest: "gold" }
            }
          }),
          "examples/os/b.json": task("b", {
            config: [download(`${server.url}/input`, `${server.url}/none?key=secret`)]
          })
        })
      )
      const out = yield* folder
      const assets = { directory: yield* folder }
      const first = yield* Benchmark.prepare({ source, out, assets })
      assert.deepStrictEqual(
        first.assets.map(({ bytes, sha256, url }) => [url, bytes, sha256]),
        [
          [`${server.url}/input`, input.length, sha256(input)],
          [`${server.url}/gold`, gold.length, sha256(gold)]
        ]
      )
      assert.deepStrictEqual(
        first.missing.map(({ reason, url }) => [url, reason]),
        [[`${server.url}/none`, "the server answered HTTP 404"]]
      )
      assert.notInclude(readFileSync(join(out, "benchmark.json"), "utf8"), "secret")

      // What is there stays; what was spoilt is had again; what was not there comes now.
      server.asked.length = 0
      server.files.set("/none", noise(10))
      const spoilt = join(assets.directory, first.assets[0]?.file ?? "")
      yield* fs.remove(spoilt)
      yield* fs.writeFile(spoilt, noise(input.length, "spoilt"))
      const second = yield* Benchmark.prepare({ source, out, assets })
      assert.deepStrictEqual(second.missing, [])
      assert.strictEqual(second.assets.length, 3)
      assert.deepStrictEqual(server.asked.map(({ url }) => url).sort(), ["/input", "/none?key=secret"])
      assert.deepStrictEqual(readFileSync(spoilt), input)

      // Offline it downloads nothing, and all is here.
      server.asked.length = 0
      assert.deepStrictEqual(
        (yield* Benchmark.prepare({ source, out, assets: { ...assets, offline: true } })).missing,
        []
      )
      const empty = yield* Benchmark.prepare({ source, out, assets: { directory: `${out}/none`, offline: true } })
      assert.strictEqual(empty.missing.length, 3)
      assert.include(empty.missing[0]?.reason ?? "", "nothing is downloaded offline")
      assert.isFalse(existsSync(`${out}/none`))
      assert.deepStrictEqual(server.asked, [])

      // A file that is another now is none that this benchmark means, unless one says so.
      server.files.set("/gold", input)
      const fresh = { directory: yield* folder }
      const changed = yield* Benchmark.prepare({ source, out, assets: fresh })
      assert.deepStrictEqual(
        changed.missing.map(({ reason }) => reason),
        [`it has ${input.length} bytes, and should have ${gold.length}`]
      )
      assert.deepStrictEqual(
        changed.assets.map((pin) => pin.sha256).sort(),
        [gold, input, noise(10)].map(sha256).sort()
      )
      assert.isFalse(readdirSync(fresh.directory).some((name) => name.endsWith("_gold")))
      const forced = yield* Benchmark.prepare({ source, out, assets: fresh, force: true })
      assert.deepStrictEqual(forced.missing, [])
    })
  )

  test(
    "tells how far it is",
    Effect.gen(function* () {
      const server = yield* makeServer
      for (const name of ["/a", "/b"]) server.files.set(name, noise(20_000, name))
      const source = yield* Effect.flatMap(folder, (root) =>
        written(root, { "examples/os/a.json": task("a", { config: [download(`${server.url}/a`, `${server.url}/b`)] }) })
      )
      const heard: Array<Benchmark.Progress> = []
      yield* Benchmark.prepare({
        source,
        out: yield* folder,
        assets: { directory: yield* folder },
        onProgress: (progress) => void heard.push(progress)
      })
      assert.deepStrictEqual(heard.at(-1), { phase: "assets", files: 2, failed: 0, total: 2, bytes: 40_000 })
      assert.isTrue(heard.every(({ bytes }, i) => i === 0 || bytes >= (heard[i - 1]?.bytes ?? 0)))
    })
  )
})

describe("shards", () => {
  it("share all rows, each once and in their order, whatever blank lines are between them", () =>
    FastCheck.assert(
      FastCheck.property(
        FastCheck.array(FastCheck.constantFrom("\n", "\r\n", " \n"), { maxLength: 5 }),
        FastCheck.integer({ min: 1, max: 40 }),
        FastCheck.integer({ min: 1, max: 8 }),
        (blanks, count, wanted) => {
          const shards = Math.min(count, wanted)
          const rows = Array.from({ length: count }, (_, i) =>
            JSON.stringify({ verifier_metadata: { task_id: `t${i}` } })
          )
          const content = `${blanks.join("")}${rows.join("\r\n")}\n${blanks.join("")}`
          const shares = Array.from({ length: shards }, (_, i) =>
            Either.getOrThrow(shard({ path: "p", content }, { shards, shard: i }))
          )
          const dealt = shares.map(({ content }) => content.split("\n").slice(0, -1))
          const together = rows.map((_, i) => dealt[i % shards]?.[Math.floor(i / shards)])
          assert.deepStrictEqual(together, rows)
          assert.strictEqual(dealt.flat().length, count)
          for (const { manifest } of shares) {
            assert.strictEqual(manifest.total_tasks, count)
            assert.strictEqual(manifest.task_ids_sha256, sha256(manifest.task_ids.join("\n")))
          }
        }
      )
    ))

  it("are never empty, and name rows that have no id by their place", () => {
    assert.isTrue(Either.isLeft(shard({ path: "p", content: "{}\n" }, { shards: 2, shard: 1 })))
    assert.deepStrictEqual(
      Either.getOrThrow(
        shard(
          { path: "p", content: '{}\n{"verifier_metadata":{"osworld_task":{"id":"x"}}}\nno' },
          { shards: 1, shard: 0 }
        )
      ).manifest.task_ids,
      ["row-0", "x", "row-2"]
    )
  })
})

describe("facts of a task", () => {
  const launch = (...command: ReadonlyArray<string>) => ({ type: "launch", parameters: { command } })
  const lacks = (...config: ReadonlyArray<unknown>) => Facts.lacksRelay(decoded(task("a", { config })))

  it("a Chrome that listens inside of the desktop wants a relay; other ports are others", () => {
    assert.isTrue(lacks(launch("google-chrome", "--remote-debugging-port=1337")))
    assert.isTrue(lacks(launch("google-chrome --remote-debugging-port 1337")))
    assert.isFalse(lacks(launch("google-chrome", "--remote-debugging-port=13370")))
    const relay = (port: string) => launch("socat", "tcp-listen:9222,fork", `tcp:${port}`)
    for (const port of ["localhost:1337", "127.0.0.1:1337"]) {
      assert.isFalse(lacks(launch("google-chrome", "--remote-debugging-port=1337"), relay(port)))
    }
    for (const port of ["localhost:13370", "10.127.0.0.1:1337", "notlocalhost:1337"]) {
      assert.isTrue(lacks(launch("google-chrome", "--remote-debugging-port=1337"), relay(port)), port)
    }
  })

  it("assets are those of setup, postconfig and gold, wherever it is, each once", () => {
    const url = (name: string) => `https://example.test/${name}`
    const found = Facts.assetsOf(
      decoded(
        task("a", {
          config: [download(url("a"), url("b")), download(url("a"))],
          evaluator: {
            postconfig: [download(url("c"))],
            func: ["compare_table", "exact_match"],
            result: [
              { type: "vm_file", path: "/tmp/x", dest: "x" },
              { type: "vm_command_line", command: "id" }
            ],
            expected: [
              { type: "cloud_file", multi: true, path: [url("d"), url("e")], dest: ["d", "e"] },
              { type: "rule", rules: { gold: { type: "cloud_file", path: url("f"), dest: "f" } } }
            ]
          }
        })
      )
    )
    assert.deepStrictEqual(found, ["a", "b", "c", "d", "e", "f"].map(url))
  })

  it("a page of the desktop itself is not the web", () => {
    const opens = (url: string) =>
      Facts.liveWeb(decoded(task("a", { config: [{ type: "chrome_open_tabs", parameters: { urls_to_open: [url] } }] })))
    assert.deepStrictEqual(opens("https://example.com"), ["setup"])
    for (const url of ["http://localhost:8000/a", "file:///home/user/a.html", "chrome://settings"]) {
      assert.deepStrictEqual(opens(url), [], url)
    }
  })
})

describe("Benchmark.identifyDisk", () => {
  test(
    "hashes a disk once, and again when it has changed",
    Effect.gen(function* () {
      const fs = yield* FileSystem.FileSystem
      const root = yield* folder
      const [disk, memory] = [`${root}/a.qcow2`, `${root}/cache/disks.json`]
      yield* fs.writeFile(disk, noise(5000))
      const identify = (expected?: string) =>
        Benchmark.identifyDisk({ disk, memory, out: root, ...(expected === undefined ? {} : { expected }) })
      const first = yield* identify(`sha256:${sha256(noise(5000))}`)
      assert.deepInclude(first, { bytes: 5000, sha256: sha256(noise(5000)), official: false, remembered: false })
      assert.isTrue((yield* identify()).remembered)
      assert.deepInclude(JSON.parse(readFileSync(`${root}/vm-snapshot.json`, "utf8")), {
        kind: "osworld-qcow2-base-snapshot",
        snapshot_id: `sha256:${sha256(noise(5000))}`,
        size_bytes: 5000,
        mount_mode: "read-only",
        live_ram_snapshot_supported: false
      })
      yield* fs.writeFile(disk, noise(5001))
      const second = yield* identify()
      assert.deepInclude(second, { bytes: 5001, sha256: sha256(noise(5001)), remembered: false })
      assert.include(
        (yield* Effect.flip(identify("00"))).message,
        `its SHA-256 is ${second.sha256}, and 00 was expected`
      )
      assert.include(
        (yield* Effect.flip(Benchmark.identifyDisk({ disk: `${root}/none`, memory }))).message,
        `${root}/none`
      )
    })
  )
})

const published = process.env.OSWORLD_TASKS ?? fileURLToPath(new URL("../../../shared/osworld-tasks", import.meta.url))

describe.skipIf(!existsSync(published))(`the published tasks in ${published}`, () => {
  test(
    "fall into the parts that their list says",
    Effect.gen(function* () {
      const index: ReadonlyArray<{ id: string; domain: string; proxy: boolean; func: unknown }> = JSON.parse(
        readFileSync(join(published, "INDEX.json"), "utf8")
      )
      const manifest = yield* Benchmark.prepare({ source: published, out: yield* folder })
      assert.strictEqual(manifest.tasks.length, 40)
      const ids = (tasks: ReadonlyArray<{ readonly id: string }>) => tasks.map(({ id }) => id).sort()
      assert.deepStrictEqual(ids(manifest.tasks.filter(({ proxy }) => proxy)), ids(index.filter(({ proxy }) => proxy)))
      assert.deepStrictEqual(
        ids(manifest.tasks.filter(({ infeasible }) => infeasible)),
        ids(index.filter(({ func }) => func === "infeasible"))
      )
      for (const { domain, id } of index) {
        assert.strictEqual(manifest.tasks.find((task) => task.id === id)?.domain, domain)
      }
    })
  )
})
