import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs"
import { createServer } from "node:http"
import { join } from "node:path"
import { afterEach, assert, beforeEach, describe, it } from "@effect/vitest"
import { Workplace } from "./harness.js"

/** A model server that is there and is asked, and never answers. */
const silentModel = () =>
  new Promise<{ readonly port: number; readonly asked: Promise<string | undefined> }>((resolve) => {
    let heard: (authorization: string | undefined) => void = () => {}
    const asked = new Promise<string | undefined>((resolve) => {
      heard = resolve
    })
    const server = createServer((request, response) => {
      if (request.method === "POST") heard(request.headers.authorization)
      else response.end('{"data":[]}')
    })
    server.unref()
    server.listen(0, "127.0.0.1", () => {
      const address = server.address()
      resolve({ asked, port: typeof address === "object" && address !== null ? address.port : 0 })
    })
  })

describe("a run that is spoken to", () => {
  let place: Workplace
  beforeEach(() => {
    place = new Workplace()
  })
  afterEach(() => {
    for (const line of place.processes()) process.kill(Number(line.split(" ")[0]), "SIGKILL")
    place.remove()
  })

  const nothingLeft = () => {
    assert.deepStrictEqual(place.folders(), [])
    assert.deepStrictEqual(place.processes(), [])
    assert.isFalse(existsSync(join(place.out, "control.sock")))
    const receipt = JSON.parse(readFileSync(join(place.out, "receipt.json"), "utf8"))
    assert.isObject(receipt)
  }

  const start = (...args: ReadonlyArray<string>) =>
    place.start([
      "run",
      "--domain",
      "os",
      "--limit",
      "1",
      "--repeats",
      "3",
      "--concurrency",
      "1",
      "--out",
      place.out,
      ...args
    ])

  it("lets what runs come to its end at a signal, and starts nothing more", { timeout: 300_000 }, async () => {
    const running = start("--drain-seconds", "280")
    await running.printed("started")
    running.process.kill("SIGTERM")
    const { status, stderr, stdout } = await running.ended
    assert.strictEqual(status, 143, stdout + stderr)
    assert.include(stderr, "what runs has 280 seconds to end")
    // The one that ran is scored as if nothing had happened; the others never began.
    assert.deepStrictEqual(
      place.rows("rollouts.jsonl").map((row) => row["reward"]),
      [1]
    )
    assert.deepStrictEqual(place.rows("failures.jsonl"), [])
    assert.include(stdout, "2 not started")
    nothingLeft()
  })

  it("is drained from another process", { timeout: 300_000 }, async () => {
    const running = start()
    await running.printed("started")
    const ctl = async (...words: ReadonlyArray<string>) => {
      const { status, stderr, stdout } = await place.run(["ctl", place.out, ...words, "--json"])
      assert.strictEqual(status, 0, stderr)
      return JSON.parse(stdout)
    }
    const drained = await ctl("drain")
    assert.deepInclude(drained, { draining: true, pid: running.process.pid, waiting: 0 })
    const { status, stderr, stdout } = await running.ended
    // Nobody has stopped it, and it is not complete.
    assert.strictEqual(status, 1, stdout + stderr)
    assert.isBelow(place.rows("rollouts.jsonl").length, 3)
    nothingLeft()
    const gone = await place.run(["ctl", place.out, "status"])
    assert.strictEqual(gone.status, 1)
    assert.include(gone.stderr, `no run goes on in ${place.out}`)
  })

  it("shows a key to the model alone, and to no command line and no desktop", { timeout: 300_000 }, async () => {
    const secret = "sk-0123456789-secret"
    const { asked, port } = await silentModel()
    const config = join(place.folder, "run.yaml")
    writeFileSync(config, `model-url: http://127.0.0.1:${port}/v1\nmodel: m\napi-key-env: MY_MODEL_KEY\nlimit: 1\n`)
    const running = place.start(["run", "examples/tasks", "--domain", "os", "--config", config, "--out", place.out], {
      MY_MODEL_KEY: secret
    })
    const early = running.ended.then(({ stderr, stdout }) => stdout + stderr)
    assert.strictEqual(await Promise.race([asked, early]), `Bearer ${secret}`)
    // Of every process of this machine its arguments; of the desktop's also what they have in their environment.
    const desktop = new Set(place.processes().map((line) => line.split(" ")[0] ?? ""))
    assert.isNotEmpty(desktop)
    for (const pid of readdirSync("/proc").filter((name) => /^\d+$/.test(name))) {
      const read = (file: string) => {
        try {
          return readFileSync(`/proc/${pid}/${file}`, "utf8")
        } catch {
          return ""
        }
      }
      assert.notInclude(read("cmdline"), secret)
      if (desktop.has(pid) && pid !== String(running.process.pid)) {
        assert.notInclude(read("environ"), secret, read("cmdline"))
      }
    }
    running.process.kill("SIGINT")
    assert.strictEqual((await running.ended).status, 130)
    for (const file of ["run.json", "journal.jsonl", "ledger.jsonl"]) {
      assert.notInclude(readFileSync(join(place.out, file), "utf8"), secret, file)
    }
    nothingLeft()
  })

  it("says what is wrong with what is asked of it", { timeout: 60_000 }, async () => {
    for (const [words, told] of [
      [["concurrency"], "wants a whole number from 1"],
      [["concurrency", "many"], "wants a whole number from 1"],
      [["cancel"], "wants a rollout's id"],
      [["pause", "5"], "takes nothing"]
    ] as const) {
      const { status, stderr } = await place.run(["ctl", place.out, ...words])
      assert.strictEqual(status, 2, stderr)
      assert.include(stderr, told)
    }
  })
})
