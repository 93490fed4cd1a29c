import { assert, describe, it } from "@effect/vitest"
import { AuthenticationError, NotFoundError, Sandbox, SandboxNotFoundError } from "e2b"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Schedule from "effect/Schedule"
import { metadataFilter } from "../../src/testing/internal/e2bControl.js"
import { key, servicePort, spec, withProvider } from "./e2b/fixture.js"

const connection = (url: string) => ({ apiKey: key, apiUrl: url, sandboxUrl: url, debug: false })

describe("E2BServer, by the real SDK alone", () => {
  it.live("lifecycle, files and processes", () =>
    withProvider({}, ({ folders, server }) =>
      Effect.gen(function* () {
        const options = connection(server.url)
        yield* Effect.promise(async () => {
          const sandbox = await Sandbox.create("desk", {
            ...options,
            metadata: { run: "a b&c=%d", x: "ä" },
            timeoutMs: 60_000
          })
          assert.isTrue(await sandbox.isRunning())
          const page = await Sandbox.list({ ...options, query: { metadata: { run: "a b&c=%d", x: "ä" } } }).nextItems()
          assert.deepStrictEqual(
            page.map(({ sandboxId }) => sandboxId),
            [sandbox.sandboxId]
          )
          const none = await Sandbox.list({ ...options, query: { metadata: { run: "a b" } } }).nextItems()
          assert.deepStrictEqual(none, [])
          const paused = await Sandbox.list({ ...options, query: { state: ["paused"] } }).nextItems()
          assert.deepStrictEqual(paused, [])
          const { stdout } = await sandbox.commands.run("printf '%s' \"$HOME\"")
          assert.isTrue(folders.has(stdout))
          assert.isTrue(await sandbox.files.makeDir(`${stdout}/d/e`))
          assert.isFalse(await sandbox.files.makeDir(`${stdout}/d/e`))
          await sandbox.files.write("/d/a", "hello")
          assert.strictEqual(await sandbox.files.read("/d/a"), "hello")
          const renamed = await sandbox.files.rename(`${stdout}/d/a`, `${stdout}/d/b`)
          assert.deepStrictEqual([renamed.name, renamed.type, renamed.size], ["b", "file", 5])
          const entries = await sandbox.files.list(`${stdout}/d`)
          assert.deepStrictEqual(entries.map(({ name, type }) => [name, type]).sort(), [
            ["b", "file"],
            ["e", "dir"]
          ])
          assert.isTrue(await sandbox.files.exists(`${stdout}/d/b`))
          await sandbox.files.remove(`${stdout}/d`)
          assert.isFalse(await sandbox.files.exists(`${stdout}/d/b`))
          const signed = await (
            await fetch(await sandbox.uploadUrl("/s"), {
              method: "POST",
              headers: {
                "e2b-sandbox-id": sandbox.sandboxId,
                "e2b-sandbox-port": "49983",
                "content-type": "application/octet-stream"
              },
              body: "by link"
            })
          ).json()
          assert.deepStrictEqual(signed, [{ path: "/s", name: "s", type: "file" }])
          const stolen = await fetch((await sandbox.downloadUrl("/s")).replace("%2Fs", "%2Ft"), {
            headers: {
              "e2b-sandbox-id": sandbox.sandboxId,
              "e2b-sandbox-port": "49983"
            }
          })
          assert.strictEqual(stolen.status, 401)

          const slow = await sandbox.commands.run("sleep 1000", { background: true, timeoutMs: 0 })
          assert.deepStrictEqual(
            (await sandbox.commands.list()).map(({ pid }) => pid),
            [slow.pid]
          )
          assert.isTrue(await sandbox.commands.kill(slow.pid))
          assert.isFalse(await sandbox.commands.kill(slow.pid))
          const failed = await slow.wait().catch((error) => error)
          assert.deepStrictEqual(
            [failed.name, failed.exitCode, failed.error],
            ["CommandExitError", -1, "signal: killed"]
          )
          const late = await sandbox.commands.run("sleep 5", { timeoutMs: 300 }).catch((error) => error)
          assert.strictEqual(late.name, "TimeoutError")
          assert.strictEqual((await sandbox.commands.connect(1).catch((error) => error)) instanceof NotFoundError, true)

          assert.isTrue(await sandbox.pause())
          assert.isFalse(await sandbox.pause())
          const again = await Sandbox.connect(sandbox.sandboxId, options)
          assert.strictEqual((await again.commands.run("echo on")).stdout, "on\n")
          assert.isTrue(await sandbox.kill())
          assert.isFalse(await sandbox.kill())
          const gone = await Sandbox.getInfo(sandbox.sandboxId, options).catch((error) => error)
          assert.instanceOf(gone, SandboxNotFoundError)
          const stranger = await Sandbox.create("desk", { ...options, apiKey: "e2b_00" }).catch((error) => error)
          assert.instanceOf(stranger, AuthenticationError)
        })
        assert.deepStrictEqual(yield* server.inventory, [])
        assert.strictEqual(folders.size, 0)
      })
    )
  )

  it.live("time to live: the end, and a pause instead of it", () =>
    withProvider({}, ({ folders, server }) =>
      Effect.gen(function* () {
        const options = connection(server.url)
        yield* Effect.promise(async () => {
          const short = await Sandbox.create("desk", { ...options, timeoutMs: 1000 })
          const kept = await Sandbox.create("desk", { ...options, timeoutMs: 1000, lifecycle: { onTimeout: "pause" } })
          const longer = await Sandbox.create("desk", { ...options, timeoutMs: 1000 })
          await longer.setTimeout(60_000)
          const died = await short.commands.run("sleep 100", { timeoutMs: 0 }).catch((error) => error)
          assert.instanceOf(died, Error)
          await new Promise((done) => setTimeout(done, 300))
          assert.strictEqual((await kept.getInfo()).state, "paused")
          assert.strictEqual((await longer.getInfo()).state, "running")
          const gone = await short.getInfo().catch((error) => error)
          assert.instanceOf(gone, SandboxNotFoundError)
        })
        assert.strictEqual(folders.size, 2)
      })
    )
  )

  it.live("a WebSocket through the gateway", () =>
    withProvider({}, ({ provider, server }) =>
      Effect.gen(function* () {
        const sandbox = yield* provider.acquire(spec({ ports: [servicePort], ttl: Duration.minutes(1) }))
        // A server that takes the upgrade and says back what it hears.
        const script = `require("http").createServer().on("upgrade",(q,s)=>{s.write("HTTP/1.1 101 Switching Protocols\\r\\nconnection: upgrade\\r\\nupgrade: echo\\r\\n\\r\\n");s.pipe(s)}).listen(${servicePort},"127.0.0.1")`
        yield* Effect.forkScoped(sandbox.exec({ command: ["node", "-e", script], timeout: "20 seconds" }))
        const said = yield* Effect.tryPromise(async () => {
          const http = await import("node:http")
          return await new Promise<string>((done, fail) => {
            const request = http.request(server.url, {
              headers: {
                connection: "upgrade",
                upgrade: "echo",
                "e2b-sandbox-id": sandbox.id,
                "e2b-sandbox-port": String(servicePort)
              }
            })
            request.on("upgrade", (_, socket) => {
              socket.on("data", (bytes) => {
                done(String(bytes))
                socket.destroy()
              })
              socket.write("ping")
            })
            request.on("error", fail)
            request.on("response", (answer) => fail(new Error(String(answer.statusCode))))
            request.end()
          })
        }).pipe(Effect.retry(Schedule.intersect(Schedule.spaced("100 millis"), Schedule.recurs(100))))
        assert.strictEqual(said, "ping")
      })
    )
  )

  it("the metadata filter is decoded as the vendor's service does", () => {
    // As the SDK sends `{ run: "a b&c" }`, after the query was decoded once.
    assert.deepStrictEqual(metadataFilter("run=a%2520b%2526c"), [["run", "a b&c"]])
    assert.isUndefined(metadataFilter("a=b=c"))
    assert.deepStrictEqual(metadataFilter(""), [])
  })
})
