import { type ChildProcess, spawn } from "node:child_process"
import { readdirSync, readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import * as NodeContext from "@effect/platform-node/NodeContext"
import * as NodeHttpClient from "@effect/platform-node/NodeHttpClient"
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import { UsageError } from "../../src/cli/Run.js"
import * as Serve from "../../src/cli/Serve.js"
import { root, Workplace } from "./harness.js"

const workplace = Effect.acquireRelease(
  Effect.sync(() => new Workplace()),
  (place) => Effect.sync(() => place.remove())
)

const secret = "secret-of-the-desktops"

/** The address that the server prints. */
const address = (server: ChildProcess) =>
  Effect.async<string>((resume) => {
    let text = ""
    server.stdout?.on("data", (chunk: Buffer) => {
      text += chunk
      const [, found] = /Desktops are at (http\S+):/.exec(text) ?? []
      if (found !== undefined) resume(Effect.succeed(found))
    })
  })

/** The script's exit status and what it printed. */
const session = (url: string, task: string, solution: string) =>
  Effect.promise(
    () =>
      new Promise<{ readonly status: number | null; readonly stdout: string; readonly stderr: string }>((resolve) => {
        const script = spawn("test/osworld/serve-session.sh", [url, task, solution], {
          cwd: root,
          env: { ...process.env, DESKHAND_SERVE_TOKEN: secret },
          stdio: ["ignore", "pipe", "pipe"]
        })
        let stdout = ""
        let stderr = ""
        script.stdout.on("data", (chunk: Buffer) => {
          stdout += chunk
        })
        script.stderr.on("data", (chunk: Buffer) => {
          stderr += chunk
        })
        script.on("close", (status) => resolve({ status, stdout, stderr }))
      })
  )

const receiptOf = (place: Workplace) => JSON.parse(readFileSync(join(place.out, "receipt.json"), "utf8"))

describe("deskhand serve", () => {
  it.scopedLive(
    "is driven by curl from seed to close, gives the recorded solution its score, and leaves nothing",
    () =>
      Effect.gen(function* () {
        const place = yield* workplace
        const running = place.start(["serve", "--capacity", "2", "--token-env", "MY_TOKEN", "--out", place.out], {
          MY_TOKEN: secret
        })
        const url = yield* address(running.process)
        const solved = yield* session(url, "os/os-script-executable.json", "examples/solutions/os-script-executable.md")
        assert.strictEqual(solved.status, 0, solved.stderr)
        assert.strictEqual(Number(solved.stdout), 1)
        // The same task, and nothing done for it.
        writeFileSync(join(place.folder, "nothing.md"), "```python\nDONE\n```\n")
        const idle = yield* session(url, "os/os-script-executable.json", join(place.folder, "nothing.md"))
        assert.strictEqual(idle.status, 0, idle.stderr)
        assert.strictEqual(Number(idle.stdout), 0)
        // And a run whose desktops are the server's.
        const elsewhere = yield* workplace
        const run = yield* Effect.promise(() =>
          elsewhere.run(
            [
              "run",
              "examples/tasks/os",
              "--script",
              "examples/solutions",
              "--environment-url",
              url,
              "--environment-token-env",
              "MY_TOKEN",
              "--out",
              join(place.folder, "run")
            ],
            { MY_TOKEN: secret }
          )
        )
        assert.strictEqual(run.status, 0, run.stdout + run.stderr)
        assert.include(run.stdout, "2 scored of 2 expected")
        const rows = readFileSync(join(place.folder, "run", "rollouts.jsonl"), "utf8")
          .trim()
          .split("\n")
        assert.deepStrictEqual(
          rows.map((row) => JSON.parse(row).reward),
          [1, 1]
        )
        // One more is open when the server is told to stop.
        const seeded = yield* Effect.promise(() =>
          fetch(`${url}/seed_session`, {
            method: "POST",
            headers: { authorization: `Bearer ${secret}`, "content-type": "application/json" },
            body: JSON.stringify({
              task_config: JSON.parse(readFileSync(join(root, "examples/tasks/os/os-bluetooth-speaker.json"), "utf8"))
            })
          })
        )
        assert.strictEqual(seeded.status, 200)
        running.process.kill("SIGTERM")
        const { status, stderr, stdout } = yield* Effect.promise(() => running.ended)
        assert.strictEqual(status, 143, stderr)
        assert.notInclude(stdout + stderr, secret)
        assert.deepInclude(receiptOf(place), { provider: "local", created: 5, removed: 5, confirmed: 5, left: [] })
        assert.deepStrictEqual(place.folders(), [])
        assert.deepStrictEqual(place.processes(), [])
        assert.deepStrictEqual(readdirSync(join(place.out, "blobs")), [])
      }),
    300_000
  )

  it.scopedLive(
    "does not let a task read this machine's files",
    () =>
      Effect.gen(function* () {
        const place = yield* workplace
        writeFileSync(join(place.folder, "token"), `${secret}\n`)
        const running = place.start(["serve", "--token-file", join(place.folder, "token"), "--out", place.out])
        const url = yield* address(running.process)
        for (const path of ["/etc/passwd", "../../../package.json", "file:///etc/passwd"]) {
          const answer = yield* Effect.promise(async () => {
            const response = await fetch(`${url}/seed_session`, {
              method: "POST",
              headers: { authorization: `Bearer ${secret}`, "content-type": "application/json" },
              body: JSON.stringify({
                task_file: "os/a.json",
                task_config: {
                  id: "a",
                  instruction: "Show it",
                  config: [{ type: "download", parameters: { files: [{ url: path, path: "/home/user/a" }] } }],
                  evaluator: { func: "infeasible" }
                }
              })
            })
            return { status: response.status, text: await response.text() }
          })
          assert.strictEqual(answer.status, 422, answer.text)
          assert.include(answer.text, "folder of tasks")
        }
        running.process.kill("SIGTERM")
        yield* Effect.promise(() => running.ended)
        assert.deepStrictEqual(receiptOf(place).left, [])
      }),
    120_000
  )

  it.scopedLive(
    "removes what a killed server of its deployment left, and nothing of another's",
    () =>
      Effect.gen(function* () {
        const place = yield* workplace
        const start = (deployment: string) =>
          Effect.gen(function* () {
            const args = ["serve", "--deployment", deployment, "--out", place.out]
            const running = place.start(args)
            return { running, url: yield* address(running.process) }
          })
        const killed = yield* start("mine")
        const seeded = yield* Effect.promise(() =>
          fetch(`${killed.url}/seed_session`, {
            method: "POST",
            headers: { "content-type": "application/json" },
            body: JSON.stringify({
              task_config: JSON.parse(readFileSync(join(root, "examples/tasks/os/os-bluetooth-speaker.json"), "utf8"))
            })
          })
        )
        assert.strictEqual(seeded.status, 200)
        killed.running.process.kill("SIGKILL")
        yield* Effect.promise(() => killed.running.ended)
        assert.strictEqual(place.folders().length, 1)
        for (const [deployment, left] of [
          ["another", 1],
          ["mine", 0]
        ] as const) {
          const { running } = yield* start(deployment)
          assert.strictEqual(place.folders().length, left, deployment)
          running.process.kill("SIGTERM")
          yield* Effect.promise(() => running.ended)
        }
      }),
    120_000
  )

  it.effect("says what makes no sense", () =>
    Effect.gen(function* () {
      const place = yield* workplace
      const options: Serve.ServeOptions = {
        provider: "local",
        host: "127.0.0.1",
        port: Option.none(),
        capacity: Option.none(),
        sessionTtl: 10_800,
        tokenEnv: Option.none(),
        tokenFile: Option.none(),
        tasks: Option.none(),
        image: Option.none(),
        network: "none",
        out: Option.some(place.out),
        drainSeconds: 0
      }
      for (const [wrong, said] of [
        [{ host: "0.0.0.0" }, "Give a token"],
        [{ tokenEnv: Option.some("NOT_SET_ANYWHERE") }, "NOT_SET_ANYWHERE"],
        [{ tokenFile: Option.some("/nowhere") }, "/nowhere"],
        [{ tokenEnv: Option.some("PATH"), tokenFile: Option.some("/nowhere") }, "not both"],
        [{ network: "host", capacity: Option.some(2) }, "--capacity"]
      ] as const) {
        const error = yield* Effect.flip(Serve.serve({ ...options, ...wrong }))
        assert.instanceOf(error, UsageError)
        assert.include(error.message, said)
      }
    }).pipe(Effect.scoped, Effect.provide(Layer.merge(NodeContext.layer, NodeHttpClient.layer)))
  )
})
