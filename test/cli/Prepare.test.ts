import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { afterAll, assert, beforeAll, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Scope from "effect/Scope"
import { type AssetServer, make, noise, sha256 } from "../osworld/assetServer.js"
import { Workplace } from "./harness.js"
import { inProcess } from "./inProcess.js"

const pause = (milliseconds: number) => new Promise((resolve) => setTimeout(resolve, milliseconds))

describe("deskhand prepare", () => {
  let place: Workplace
  let server: AssetServer
  const scope = Effect.runSync(Scope.make())
  beforeAll(async () => {
    place = new Workplace()
    server = await Effect.runPromise(Scope.extend(make, scope))
  })
  afterAll(async () => {
    place.remove()
    await Effect.runPromise(Scope.close(scope, Exit.void))
  })

  const checkout = (name: string, assets: ReadonlyArray<string>) => {
    const root = join(place.folder, name)
    mkdirSync(join(root, "examples/os"), { recursive: true })
    const files = assets.map((asset, i) => ({ url: `${server.url}${asset}`, path: `/tmp/${i}` }))
    const task = {
      id: "a",
      instruction: "Do a",
      config: [{ type: "download", parameters: { files } }],
      evaluator: { func: "infeasible" }
    }
    writeFileSync(join(root, "examples/os/a.json"), JSON.stringify(task))
    return root
  }

  it("writes rows, fetches assets and shows a table; a second time it downloads nothing", async () => {
    server.files.set("/one/a.bin", noise(10_000))
    const [out, assets] = [join(place.folder, "out1"), join(place.folder, "assets1")]
    const args = ["prepare", checkout("one", ["/one/a.bin"]), "--out", out, "--assets", assets, "--shards", "1"]
    const first = await place.run(args)
    assert.strictEqual(first.status, 0, first.stderr)
    assert.match(first.stdout, /^part +tasks +infeasible +proxy +live web +shards +rows$/m)
    assert.match(first.stdout, /^all +1 +1 +0 +0 +1 +rows\/all\.jsonl$/m)
    assert.include(first.stdout, "1 of 1 assets are pinned, 10.0 kB")
    assert.include(first.stderr, "Assets: 1 of 1, 10.0 kB")
    assert.include(readFileSync(join(out, "rows/all-shard-00-of-01.jsonl"), "utf8"), '"task_id":"a"')
    server.asked.length = 0
    const second = await inProcess([...args, "--offline"])
    assert.strictEqual(second.status, 0, second.stderr)
    assert.deepStrictEqual(server.asked, [])

    // A run finds them there; offline, a task whose files are not there is told apart.
    const run = ["run", "--agent", "noop", "--dry-run", join(out, "rows/all.jsonl"), "--offline", "--assets", assets]
    assert.strictEqual((await inProcess(run)).status, 0)
  })

  it("ends with 1 where an asset cannot be had, and names it without what signs it", async () => {
    const args = ["--out", join(place.folder, "out2"), "--assets", join(place.folder, "assets2")]
    const ended = await inProcess(["prepare", checkout("two", ["/two/none.bin?signature=hunter2"]), ...args])
    assert.strictEqual(ended.status, 1)
    assert.include(ended.stdout, `Missing: ${server.url}/two/none.bin: the server answered HTTP 404`)
    assert.include(ended.stderr, "1 of 1 assets could not be had")
    assert.notInclude(ended.stdout + ended.stderr, "hunter2")
    assert.isTrue(existsSync(join(place.folder, "out2/benchmark.json")))
  })

  it("says what was asked in a wrong way", async () => {
    const source = checkout("three", [])
    const wrong = async (args: ReadonlyArray<string>, text: string) => {
      const ended = await inProcess(["prepare", ...args])
      assert.strictEqual(ended.status, 2, ended.stderr)
      assert.include(ended.stderr, text)
    }
    await wrong([source, "--expected-vm-sha256", "00"], "wants --vm")
    await wrong([source, "--offline", "--skip-assets"], "give one")
    await wrong([join(place.folder, "none")], "there is no such file or folder")
    await wrong([], "source")
  })

  it("goes on after it was killed, wherever that was, and nothing is ever half a file", async () => {
    const names = Array.from({ length: 12 }, (_, i) => `/four/${i}.bin`)
    for (const name of names) server.files.set(name, noise(400_000, name))
    const [out, assets] = [join(place.folder, "out4"), join(place.folder, "assets4")]
    const source = checkout("four", names)
    const whole = () => {
      const found = existsSync(assets) ? readdirSync(assets).filter((name) => name.endsWith(".bin")) : []
      const left = found.filter((name) => !name.startsWith(".partial-"))
      for (const name of left) {
        const asset = names.find((asset) => name.startsWith(sha256(`${server.url}${asset}`).slice(0, 32)))
        assert.strictEqual(sha256(readFileSync(join(assets, name))), sha256(noise(400_000, asset)), name)
      }
      for (const name of ["benchmark.json", "rows/all.jsonl"]) {
        const file = join(out, name)
        if (existsSync(file)) JSON.parse(readFileSync(file, "utf8"))
      }
      return left.length
    }
    const args = ["prepare", source, "--out", out, "--assets", assets, "--concurrency", "3"]
    let ranges = 0
    for (const [round, signal] of (["SIGKILL", "SIGKILL", "SIGTERM", "SIGKILL"] as const).entries()) {
      // Whatever is asked for next breaks off in the middle of nothing, and there the process ends.
      const left = names.filter((name) => (server.mishaps.get(name)?.length ?? 0) === 0).slice(round * 3)
      for (const name of left) server.mishaps.set(name, [{ _tag: "Stall", bytes: 100_000 * (1 + (round % 3)) }])
      server.asked.length = 0
      const running = place.start(args)
      while (server.asked.length < 3) await pause(10)
      await pause(30 * round)
      running.process.kill(signal)
      await running.ended
      ranges += server.asked.filter(({ range }) => range !== undefined).length
      whole()
    }
    for (const name of names) server.mishaps.delete(name)
    server.asked.length = 0
    const last = await place.run(args)
    assert.strictEqual(last.status, 0, last.stderr)
    assert.strictEqual(whole(), names.length)
    assert.isAbove(ranges + server.asked.filter(({ range }) => range !== undefined).length, 0)
    assert.deepStrictEqual(
      readdirSync(assets).filter((name) => name.startsWith(".partial-") && !name.endsWith(".note")),
      []
    )
    assert.deepStrictEqual(
      readdirSync(join(out, "rows")).filter((name) => name.includes("partial")),
      []
    )
  }, 240_000)
})
