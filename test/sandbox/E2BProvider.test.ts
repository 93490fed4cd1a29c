import { assert, describe, it } from "@effect/vitest"
import * as Chunk from "effect/Chunk"
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import { httpClient } from "../../src/sandbox/Endpoint.js"
import { clockSkew } from "../../src/sandbox/internal/e2bPreflight.js"
import { Fault } from "../../src/testing/E2BServer.js"
import { servicePort, spec, withProvider } from "./e2b/fixture.js"

const sh = (script: string, more: object = {}) => ({ command: ["/bin/sh", "-c", script] as const, ...more })

const nothingLeft = ({ folders, ledger, server }: Parameters<Parameters<typeof withProvider>[1]>[0]) =>
  Effect.gen(function* () {
    assert.deepStrictEqual(yield* server.inventory, [])
    assert.strictEqual(folders.size, 0)
    const receipt = yield* ledger.receipt("e2b")
    assert.deepStrictEqual(receipt.left, [])
    assert.strictEqual(receipt.created, receipt.confirmed)
    return receipt
  })

/** Our clock, when it is so many milliseconds off. */
const clockAhead = (ahead: number): Clock.Clock => {
  const right = Clock.make()
  return {
    [Clock.ClockTypeId]: Clock.ClockTypeId,
    unsafeCurrentTimeMillis: () => right.unsafeCurrentTimeMillis() + ahead,
    currentTimeMillis: Effect.map(right.currentTimeMillis, (now) => now + ahead),
    unsafeCurrentTimeNanos: () => right.unsafeCurrentTimeNanos() + BigInt(ahead) * 1_000_000n,
    currentTimeNanos: Effect.map(right.currentTimeNanos, (now) => now + BigInt(ahead) * 1_000_000n),
    sleep: (duration) => right.sleep(duration)
  }
}

describe("E2BProvider", () => {
  it.live("opens, labels and removes", () =>
    withProvider(
      {},
      ({ provider, server }) =>
        Effect.gen(function* () {
          const sandbox = yield* provider.acquire(spec({ ttl: Duration.minutes(10) }))
          const [entry, ...more] = yield* server.inventory
          assert.strictEqual(more.length, 0)
          assert.strictEqual(entry?.id, sandbox.id)
          assert.strictEqual(entry?.template, "desk")
          assert.isFalse(entry?.internet)
          assert.strictEqual(entry?.metadata["deskhand.meta.run"], "r1")
          const listed = Chunk.toReadonlyArray(yield* Stream.runCollect(provider.list({ run: "r1" })))
          assert.deepStrictEqual(
            listed.map(({ id, metadata, state }) => ({ id, metadata, state })),
            [{ id: sandbox.id, metadata: { run: "r1" }, state: "running" as const }]
          )
          assert.strictEqual(yield* Stream.runCount(provider.list({ run: "r2" })), 0)
          const [created] = (yield* server.seen).filter(({ method }) => method === "POST")
          assert.strictEqual(created?.path, "/v2/sandboxes")
          const body = JSON.parse(created?.body ?? "{}")
          assert.strictEqual(body.autoPause, false)
          assert.strictEqual(body.allow_internet_access, false)
        }),
      (fixture) => Effect.asVoid(nothingLeft(fixture))
    )
  )

  it.live("commands: exit codes, outputs, environment, folder, input", () =>
    withProvider({}, ({ provider }) =>
      Effect.gen(function* () {
        const sandbox = yield* provider.acquire(spec({ env: { A: "a b" } }))
        const first = yield* sandbox.exec(
          sh('printf \'%s|%s\' "$A" "$B"; echo oops >&2; exit 7', { env: { B: "it's" } })
        )
        assert.deepStrictEqual({ ...first }, { _tag: "Exited", code: 7, stdout: "a b|it's", stderr: "oops\n" })
        const fed = yield* sandbox.exec({ command: ["cat"], stdin: "ä".repeat(100_000), workdir: "/" })
        assert.strictEqual(fed._tag === "Exited" ? fed.stdout.length : fed._tag, 100_000)
        const where = yield* sandbox.exec({ command: ["pwd"], workdir: "/usr" })
        assert.strictEqual(where.stdout, "/usr\n")
        const killed = yield* sandbox.exec(sh("kill -TERM $$"))
        assert.deepStrictEqual({ ...killed }, { _tag: "Exited", code: 143, stdout: "", stderr: "" })
        const large = yield* sandbox.exec(sh("head -c 3000000 /dev/zero | tr '\\0' x"))
        assert.strictEqual(large._tag === "Exited" ? large.stdout.length : large._tag, 3_000_000)
        const argument = yield* sandbox.exec({ command: ["printf", "%s,", "", "$HOME", "a\nb", "*"] })
        assert.strictEqual(argument.stdout, ",$HOME,a\nb,*,")
      })
    )
  )

  it.live("a command's deadline ends it with all that it started", () =>
    withProvider({}, ({ provider, server }) =>
      Effect.gen(function* () {
        const sandbox = yield* provider.acquire(spec())
        const mark = `4${process.pid}1`
        const outcome = yield* sandbox.exec(
          // The mark that it is found by is not the client's to give.
          sh(`echo begun; setsid sleep ${mark} & sleep ${mark}`, {
            env: { DESKHAND_E2B_EXEC: "x" },
            timeout: "1 second"
          })
        )
        assert.deepStrictEqual({ ...outcome }, { _tag: "TimedOut", stdout: "begun\n", stderr: "" })
        const left = yield* sandbox.exec(sh(`pgrep -fx 'sleep ${mark}'`))
        assert.strictEqual(left.stdout, "")
        assert.deepStrictEqual(
          (yield* server.inventory).map(({ processes }) => processes),
          [0]
        )
      })
    )
  )

  it.live("leaving a command's events ends it", () =>
    withProvider({}, ({ provider, server }) =>
      Effect.gen(function* () {
        const sandbox = yield* provider.acquire(spec())
        const seen = yield* Stream.runCollect(Stream.take(sandbox.execStream(sh("echo one; sleep 1000")), 1))
        assert.strictEqual(Chunk.unsafeHead(seen)._tag, "Stdout")
        assert.deepStrictEqual(
          (yield* server.inventory).map(({ processes }) => processes),
          [0]
        )
      })
    )
  )

  it.live("a stream that is cut is attached to again, and a command of a sandbox that is removed fails", () =>
    withProvider({}, ({ provider, server }) =>
      Effect.gen(function* () {
        const sandbox = yield* provider.acquire(spec())
        yield* server.inject("exec", Fault.CutAfterStart())
        const again = yield* sandbox.exec(sh("sleep 1.5; echo late; exit 3"))
        assert.deepStrictEqual({ ...again }, { _tag: "Exited", code: 3, stdout: "late\n", stderr: "" })
        // A sandbox that does not listen yet is asked again.
        yield* server.inject("exec", Fault.Refused({ status: 502 }), 2)
        assert.strictEqual((yield* sandbox.exec(sh("exit 4")))._tag, "Exited")
        const fiber = yield* Effect.fork(sandbox.exec(sh("sleep 1000")))
        yield* Effect.sleep("500 millis")
        yield* Effect.promise(() =>
          fetch(`${server.url}/sandboxes/${sandbox.id}`, {
            method: "DELETE",
            headers: { "x-api-key": "e2b_0123456789abcdef" }
          })
        )
        assert.strictEqual((yield* Fiber.join(fiber))._tag, "SandboxFailed")
        const gone = yield* Effect.flip(sandbox.gone)
        assert.strictEqual(gone._tag, "SandboxGone")
      })
    )
  )

  it.live("files are exact, and streamed", () =>
    withProvider({}, ({ provider }) =>
      Effect.gen(function* () {
        const sandbox = yield* provider.acquire(spec({ files: { "/etc/x.txt": "hello" } }))
        const text = yield* Stream.mkString(Stream.decodeText(sandbox.download("/etc/x.txt")))
        assert.strictEqual(text, "hello")
        const part = Uint8Array.from({ length: 65_536 }, (_, at) => at % 256)
        yield* sandbox.upload("/deep/er/data.bin", Stream.repeatEffect(Effect.succeed(part)).pipe(Stream.take(160)))
        let size = 0
        let wrong = 0
        yield* Stream.runForEach(sandbox.download("/deep/er/data.bin"), (bytes) =>
          Effect.sync(() => {
            for (const byte of bytes) if (byte !== size++ % 256) wrong++
          })
        )
        assert.deepStrictEqual([size, wrong], [160 * 65_536, 0])
        yield* sandbox.upload("/empty", Stream.empty)
        assert.strictEqual(yield* Stream.runCount(sandbox.download("/empty")), 0)
        const missing = yield* Effect.flip(Stream.runDrain(sandbox.download("/none")))
        assert.isTrue(missing._tag === "SandboxFileError" && missing.missing)
        const failed = yield* Effect.flip(
          sandbox.upload("/half", Stream.concat(Stream.make(part), Stream.fail("the source")))
        )
        assert.strictEqual(failed, "the source")
      })
    )
  )

  it.live("files come as forms to an older envd", () =>
    withProvider({ server: { envdVersion: "0.5.2" } }, ({ provider }) =>
      Effect.gen(function* () {
        const sandbox = yield* provider.acquire(spec())
        yield* sandbox.upload("/a/b", Stream.make(new TextEncoder().encode("form")))
        assert.strictEqual(yield* Stream.mkString(Stream.decodeText(sandbox.download("/a/b"))), "form")
      })
    )
  )

  it.live("a port is reached through the gateway, and only a declared one", () =>
    withProvider({}, ({ provider, server }) =>
      Effect.gen(function* () {
        const sandbox = yield* provider.acquire(spec({ ports: [servicePort] }))
        const script = `require("http").createServer((q,s)=>{s.setHeader("x-seen",Object.keys(q.headers).filter(h=>h.startsWith("e2b")||h==="x-access-token").join());s.end(q.method+" "+q.url)}).listen(${servicePort},"127.0.0.1",()=>console.log("up"))`
        const up = yield* Effect.makeLatch()
        yield* Effect.forkScoped(
          Stream.runForEach(sandbox.execStream({ command: ["node", "-e", script], timeout: "1 minute" }), () => up.open)
        )
        yield* up.await
        const endpoint = yield* sandbox.endpoint(servicePort)
        assert.isTrue(endpoint._tag === "Tcp" && endpoint.url === server.url)
        const client = yield* httpClient(endpoint)
        const answer = yield* client.get("/a/b?c=d")
        assert.strictEqual(yield* answer.text, "GET /a/b?c=d")
        assert.strictEqual(answer.headers["x-seen"], "")
        assert.strictEqual((yield* Effect.flip(sandbox.endpoint(1)))._tag, "EndpointUnresolvable")
      })
    )
  )

  it.live("every page, paused ones among them, whatever the service's filter does", () =>
    withProvider(
      { server: { pageLimit: 2, lax: true } },
      ({ controls, provider, server }) =>
        Effect.gen(function* () {
          const other = yield* provider.acquire(spec({ metadata: { run: "other" } }))
          const mine = yield* Effect.all(
            Array.from({ length: 5 }, () => provider.acquire(spec())),
            { concurrency: 3 }
          )
          const [first] = mine
          if (first === undefined) return
          yield* controls.pause(first)
          yield* controls.pause(first)
          const rows = Chunk.toReadonlyArray(yield* Stream.runCollect(provider.list({ run: "r1" })))
          assert.deepStrictEqual(new Set(rows.map(({ id }) => id)), new Set(mine.map(({ id }) => id)))
          assert.strictEqual(rows.find(({ id }) => id === first.id)?.state, "paused")
          assert.isFalse(rows.some(({ id }) => id === other.id))
          const pages = (yield* server.seen).filter(({ path }) => path.startsWith("/v2/sandboxes?"))
          assert.isAtLeast(pages.length, 3)
          yield* controls.resume(first)
          assert.strictEqual((yield* first.exec(sh("exit 5")))._tag, "Exited")
          yield* controls.pause(first)
        }),
      (fixture) => Effect.asVoid(nothingLeft(fixture))
    )
  )

  it.live("its time to live is extended while it is owned, and it ends after it", () =>
    withProvider({}, ({ provider, server }) =>
      Effect.gen(function* () {
        const sandbox = yield* provider.acquire(spec({ ttl: Duration.seconds(2) }))
        yield* Effect.sleep("3500 millis")
        assert.strictEqual((yield* server.inventory).length, 1)
        assert.isAtLeast((yield* server.seen).filter(({ path }) => path.endsWith("/timeout")).length, 2)
        // Another client makes it short.
        yield* server.inject("timeout", Fault.Refused({ status: 500 }), 99)
        const gone = yield* Effect.flip(sandbox.gone)
        assert.strictEqual(gone._tag, "SandboxGone")
        assert.deepStrictEqual(yield* server.inventory, [])
      })
    )
  )

  it.live("a service with the first version of the routes", () =>
    withProvider(
      { server: { routes: "v1" } },
      ({ controls, provider, server }) =>
        Effect.gen(function* () {
          const sandbox = yield* provider.acquire(spec())
          assert.strictEqual((yield* sandbox.exec(sh("exit 6")))._tag, "Exited")
          yield* controls.pause(sandbox)
          yield* controls.resume(sandbox)
          const borrowed = yield* provider.borrow(sandbox.descriptor)
          assert.strictEqual((yield* borrowed.exec(sh("echo hi"))).stdout, "hi\n")
          assert.strictEqual((yield* server.inventory).length, 1)
        }),
      (fixture) => Effect.asVoid(nothingLeft(fixture))
    )
  )

  it.live("a borrowed sandbox lives on", () =>
    withProvider({}, ({ provider, server }) =>
      Effect.gen(function* () {
        const sandbox = yield* provider.acquire(spec())
        const [before] = yield* server.inventory
        yield* Effect.scoped(
          Effect.flatMap(provider.borrow(sandbox.descriptor), (borrowed) =>
            Effect.map(borrowed.exec(sh("echo $HOME")), ({ stdout }) => assert.notStrictEqual(stdout, ""))
          )
        )
        const [after] = yield* server.inventory
        assert.strictEqual(after?.id, sandbox.id)
        assert.isAtMost(Math.abs((after?.endAt ?? 0) - (before?.endAt ?? 0)), 2000)
        const scope = yield* Scope.make()
        const other = yield* Scope.extend(provider.acquire(spec()), scope)
        yield* Scope.close(scope, Exit.void)
        assert.strictEqual((yield* Effect.flip(provider.borrow(other.descriptor)))._tag, "SandboxGone")
      })
    )
  )

  it.live("what E2B does not have is refused before anything is sent", () =>
    withProvider({}, ({ provider, server }) =>
      Effect.gen(function* () {
        const tags = yield* Effect.forEach(
          [spec({ entrypoint: ["x"] }), spec({ network: "host" }), spec({ image: "repo/none:1" })],
          (wanted) => Effect.map(Effect.flip(provider.acquire(wanted)), ({ _tag }) => _tag)
        )
        assert.deepStrictEqual(tags, ["SandboxUnsupported", "SandboxUnsupported", "SandboxCreateRejected"])
        assert.deepStrictEqual(yield* server.seen, [])
      })
    )
  )

  it.live("preflight finds the routes, the template and the fork, and changes nothing", () =>
    withProvider({}, ({ provider, server }) =>
      Effect.gen(function* () {
        const checks = yield* provider.preflight
        assert.deepStrictEqual(
          checks.filter(({ ok }) => !ok),
          []
        )
        assert.deepStrictEqual(
          checks.map(({ subject }) => subject),
          ["control plane", "clock", "create route", "template desk", "gateway", "fork"]
        )
        assert.deepStrictEqual(yield* server.inventory, [])
      })
    )
  )

  it.live("preflight compares our clock with the service's", () =>
    withProvider({}, ({ provider }) =>
      Effect.gen(function* () {
        const at = (ahead: number) =>
          Effect.map(Effect.withClock(provider.preflight, clockAhead(ahead)), (checks) =>
            checks.filter(({ subject }) => subject === "clock")
          )
        // The limit is a minute; the header's seconds are whole ones, so both sides of it are tried well off it.
        const [near] = yield* at(55_000)
        assert.isTrue(near?.ok)
        const [ahead, ...more] = yield* at(-300_000)
        assert.deepStrictEqual(more, [])
        assert.isFalse(ahead?.ok)
        assert.match(ahead?.found ?? "", /^the service's is (299|300) s ahead$/)
        assert.include(ahead?.remedy ?? "", "clock")
        const [behind] = yield* at(300_000)
        assert.isFalse(behind?.ok)
        assert.match(behind?.found ?? "", /^the service's is (299|300) s behind$/)
      })
    )
  )

  it("a clock is as far off as it is for certain", () => {
    const date = "Thu, 01 Jan 1970 00:02:00 GMT"
    // Between 120 and 121 s, by the header (RFC 9110, 5.6.7: whole seconds).
    assert.strictEqual(clockSkew(date, 119_000, 121_500), 0)
    assert.strictEqual(clockSkew(date, 120_999, 121_500), 0)
    assert.strictEqual(clockSkew(date, 100_000, 110_000), 10_000)
    assert.strictEqual(clockSkew(date, 125_000, 126_000), -4_000)
    assert.isUndefined(clockSkew(null, 0, 1))
    assert.isUndefined(clockSkew("yesterday", 0, 1))
  })

  it.live("preflight says what is missing", () =>
    withProvider(
      {
        server: { routes: "v1", fork: "none" },
        provider: { fork: true, templates: { a: "absent" }, caFile: { path: "/etc/hostname", sha256: "00" } }
      },
      ({ provider }) =>
        Effect.gen(function* () {
          const checks = yield* provider.preflight
          const failed = checks.filter(({ ok }) => !ok)
          assert.deepStrictEqual(
            failed.map(({ subject }) => subject),
            ["certificate authority", "template absent", "fork"]
          )
          assert.isTrue(failed.every(({ remedy }) => remedy !== ""))
          assert.match(checks.find(({ subject }) => subject === "create route")?.found ?? "", /v1 only/)
        })
    )
  )
})
