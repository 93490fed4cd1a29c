import * as http from "node:http"
import * as NodeContext from "@effect/platform-node/NodeContext"
import { assert, describe, it } from "@effect/vitest"
import * as Chunk from "effect/Chunk"
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as FastCheck from "effect/FastCheck"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import * as Schedule from "effect/Schedule"
import * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import { Endpoint } from "../../src/sandbox/Endpoint.js"
import type { ExecEvent } from "../../src/sandbox/ExecOutcome.js"
import * as Forwarder from "../../src/sandbox/Forwarder.js"
import * as Ledger from "../../src/sandbox/Ledger.js"
import * as OpenSandbox from "../../src/sandbox/OpenSandboxProvider.js"
import { SandboxProvider } from "../../src/sandbox/SandboxProvider.js"
import { Mount, SandboxSpec } from "../../src/sandbox/SandboxSpec.js"
import {
  type Behaviour,
  type Fault,
  make as makeDouble,
  type OpenSandboxDouble,
  type Operation
} from "../../src/testing/OpenSandboxDouble.js"

const settle = {
  looks: 2,
  spacing: "50 millis",
  limit: "5 seconds",
  removal: "5 seconds",
  close: "10 seconds"
} as const

const spec = (options: Partial<ConstructorParameters<typeof SandboxSpec>[0]> = {}) =>
  SandboxSpec.make({ image: "debian:12", network: "default", ...options })

interface World {
  readonly double: OpenSandboxDouble
  readonly provider: SandboxProvider["Type"]
  readonly controls: OpenSandbox.OpenSandboxControls["Type"]
  readonly ledger: Ledger.Ledger["Type"]
}

/** A service and a provider of it; afterwards nothing is left of either. */
const world = <A, E>(
  use: (world: World) => Effect.Effect<A, E, Scope.Scope>,
  options: { readonly behaviour?: Partial<Behaviour>; readonly provider?: Partial<OpenSandbox.Options> } = {}
) =>
  Effect.gen(function* () {
    const double = yield* makeDouble(options.behaviour)
    const ledger = yield* Ledger.makeMemory
    const scope = yield* Scope.make()
    const context = yield* Layer.buildWithScope(
      OpenSandbox.layer({
        baseUrl: double.baseUrl,
        apiKey: double.apiKey,
        requestTimeout: "5 seconds",
        settle,
        ...options.provider
      }),
      scope
    ).pipe(Effect.provideService(Ledger.Ledger, ledger))
    const result = yield* Effect.scoped(
      use({
        double,
        ledger,
        provider: Context.get(context, SandboxProvider),
        controls: Context.get(context, OpenSandbox.OpenSandboxControls)
      })
    ).pipe(Effect.onExit((exit) => Scope.close(scope, exit)))
    const left = yield* double.inventory
    assert.deepStrictEqual(left, { sandboxes: [], snapshots: [], processes: 0, folders: 0 })
    const receipt = yield* ledger.receipt("opensandbox")
    assert.deepStrictEqual(receipt.left, [])
    assert.strictEqual(receipt.created, receipt.confirmed)
    const key = Redacted.value(double.apiKey)
    for (const seen of yield* double.requests) {
      if (seen.plane === "sandbox") {
        assert.notInclude(JSON.stringify(seen), key)
      } else if (options.provider?.useServerProxy !== true) {
        assert.notProperty(seen.headers, "x-execd-access-token")
      }
    }
    return result
  }).pipe(Effect.scoped, Effect.provide(NodeContext.layer))

const text = (bytes: Stream.Stream<Uint8Array, unknown>) =>
  Effect.map(Stream.runCollect(bytes), (parts) => Buffer.concat(Chunk.toReadonlyArray(parts)).toString())

describe("OpenSandboxProvider", () => {
  it.live("opens, runs commands with exact output, and leaves nothing", () =>
    world(({ double, provider }) =>
      Effect.gen(function* () {
        const sandbox = yield* provider.acquire(spec({ env: { SPEC: "s", BOTH: "spec" }, workdir: "/tmp" }))
        assert.deepStrictEqual((yield* double.inventory).sandboxes, [sandbox.id])
        const run = (...command: [string, ...Array<string>]) => sandbox.exec({ command })
        assert.deepStrictEqual(
          { ...(yield* run("sh", "-c", "echo hi; echo err >&2")) },
          { _tag: "Exited", code: 0, stdout: "hi\n", stderr: "err\n" }
        )
        assert.deepStrictEqual(
          { ...(yield* run("printf", "%s", "no newline")) },
          { _tag: "Exited", code: 0, stdout: "no newline", stderr: "" }
        )
        assert.deepStrictEqual(
          { ...(yield* run("printf", "a\\n\\n\\nb ü€😀\\n\\n")) },
          { _tag: "Exited", code: 0, stdout: "a\n\n\nb ü€😀\n\n", stderr: "" }
        )
        assert.deepStrictEqual(
          { ...(yield* run("echo", "it's", '"quoted"', "$HOME", "a\nb", "")) },
          { _tag: "Exited", code: 0, stdout: 'it\'s "quoted" $HOME a\nb \n', stderr: "" }
        )
        assert.strictEqual((yield* run("pwd")).stdout, "/tmp\n")
        const env = yield* sandbox.exec({ command: ["sh", "-c", "echo $SPEC $BOTH"], env: { BOTH: "command" } })
        assert.strictEqual(env.stdout, "s command\n")
        const stdin = yield* sandbox.exec({ command: ["wc", "-c"], stdin: "x".repeat(200_000) })
        assert.strictEqual(stdin.stdout.trim(), "200000")
        const codes = yield* Effect.forEach([1, 42, 125, 255], (code) => run("sh", "-c", `exit ${code}`))
        assert.deepStrictEqual(
          codes.map((outcome) => (outcome._tag === "Exited" ? outcome.code : outcome._tag)),
          [1, 42, 125, 255]
        )
        const killed = yield* run("sh", "-c", "kill -9 $$")
        assert.strictEqual(killed._tag === "Exited" ? killed.code : killed._tag, 137)
        const missing = yield* run("/no/such/program")
        assert.strictEqual(missing._tag === "Exited" ? missing.code : missing._tag, 127)
        const nowhere = yield* sandbox.exec({ command: ["true"], workdir: "/no/such/folder" })
        assert.strictEqual(nowhere._tag, "SandboxFailed")
        const many = yield* run("sh", "-c", "seq 1 5000")
        assert.strictEqual(many.stdout.length, 23_893)
      })
    )
  )

  it.live("ends what takes too long, and what nobody listens to any more", () =>
    world(({ double, provider }) =>
      Effect.gen(function* () {
        const sandbox = yield* provider.acquire(spec())
        const slow = yield* sandbox.exec({ command: ["sh", "-c", "echo begun; sleep 30"], timeout: "300 millis" })
        assert.deepStrictEqual({ ...slow }, { _tag: "TimedOut", stdout: "begun\n", stderr: "" })
        const first = yield* sandbox
          .execStream({ command: ["sh", "-c", "while :; do echo tick; sleep 0.05; done"] })
          .pipe(Stream.take(3), Stream.runCollect)
        assert.isTrue(Chunk.every(first, (event: ExecEvent) => event._tag === "Stdout"))
        yield* Effect.retry(
          Effect.filterOrFail(double.inventory, ({ processes }) => processes === 0),
          Schedule.intersect(Schedule.recurs(40), Schedule.spaced("50 millis"))
        )
        const fiber = yield* Effect.fork(sandbox.exec({ command: ["sleep", "30"] }))
        yield* Effect.retry(
          Effect.filterOrFail(double.inventory, ({ processes }) => processes === 1),
          Schedule.intersect(Schedule.recurs(40), Schedule.spaced("50 millis"))
        )
        yield* Fiber.interrupt(fiber)
        yield* Effect.retry(
          Effect.filterOrFail(double.inventory, ({ processes }) => processes === 0),
          Schedule.intersect(Schedule.recurs(40), Schedule.spaced("50 millis"))
        )
      })
    )
  )

  it.live("says Unknown where nobody saw the exit, and never a number", () =>
    world(({ double, provider }) =>
      Effect.gen(function* () {
        const sandbox = yield* provider.acquire(spec())
        yield* double.inject("command", { kind: "nullExit" })
        const lost = yield* sandbox.exec({ command: ["true"] })
        assert.strictEqual(lost._tag, "Unknown")
        assert.notProperty(lost, "code")
        // A stream that breaks: execd remembers the exit code.
        yield* double.inject("command", { kind: "cut" })
        const found = yield* sandbox.exec({ command: ["sh", "-c", "sleep 0.3; exit 7"] })
        assert.strictEqual(found._tag === "Exited" ? found.code : found._tag, 7)
        // Neither the stream nor the memory.
        yield* double.inject("command", { kind: "cut" })
        yield* double.inject("status", { kind: "drop" })
        assert.strictEqual((yield* sandbox.exec({ command: ["sh", "-c", "sleep 0.3"] }))._tag, "Unknown")
        yield* double.inject("command", { kind: "drop" })
        assert.strictEqual((yield* sandbox.exec({ command: ["true"] }))._tag, "Unknown")
        yield* double.inject("command", { kind: "status", status: 502 })
        assert.strictEqual((yield* sandbox.exec({ command: ["true"] }))._tag, "Unknown")
        yield* double.inject("command", { kind: "status", status: 400 })
        assert.strictEqual((yield* sandbox.exec({ command: ["true"] }))._tag, "SandboxFailed")
        yield* double.kill(sandbox.id)
        assert.strictEqual((yield* sandbox.exec({ command: ["true"] }))._tag, "SandboxFailed")
      })
    )
  )

  it.live("writes and reads files, streamed", () =>
    world(({ double, provider }) =>
      Effect.gen(function* () {
        const sandbox = yield* provider.acquire(spec({ files: { "/tmp/a/first.txt": "given with the spec" } }))
        assert.strictEqual(yield* text(sandbox.download("/tmp/a/first.txt")), "given with the spec")
        const piece = Buffer.from(Array.from({ length: 65_536 }, (_, index) => (index * 7) % 256))
        yield* sandbox.upload("/tmp/deep/er/big.bin", Stream.repeatValue(piece).pipe(Stream.take(64)))
        const sum = yield* sandbox.exec({ command: ["wc", "-c", "/tmp/deep/er/big.bin"] })
        assert.include(sum.stdout, String(64 * 65_536))
        const size = yield* Stream.runFold(
          sandbox.download("/tmp/deep/er/big.bin"),
          0,
          (sum, { length }) => sum + length
        )
        assert.strictEqual(size, 64 * 65_536)
        yield* sandbox.upload("/tmp/empty", Stream.empty)
        assert.strictEqual(yield* text(sandbox.download("/tmp/empty")), "")

        const missing = yield* Effect.flip(Stream.runDrain(sandbox.download("/tmp/none")))
        assert.isTrue(missing._tag === "SandboxFileError" && missing.missing)
        yield* double.inject("upload", { kind: "status", status: 507 })
        const full = yield* Effect.flip(sandbox.upload("/tmp/x", Stream.make(piece)))
        assert.isTrue(full._tag === "SandboxFileError" && full.operation === "upload" && !full.missing)
        const theirs = yield* Effect.flip(
          sandbox.upload("/tmp/broken", Stream.concat(Stream.make(piece), Stream.fail("mine" as const)))
        )
        assert.strictEqual(theirs, "mine")
        const none = yield* Effect.flip(Stream.runDrain(sandbox.download("/tmp/broken")))
        assert.isTrue(none._tag === "SandboxFileError" && none.missing)
      })
    )
  )

  it.live("reaches ports by a path and headers, and through the forwarder", () =>
    world(({ provider }) =>
      Effect.gen(function* () {
        const server = yield* Effect.acquireRelease(
          Effect.async<http.Server>((resume) => {
            const made = http.createServer((request, response) => response.end(`from ${request.url}`))
            made.listen(0, "127.0.0.1", () => resume(Effect.succeed(made)))
          }),
          (made) => Effect.sync(() => made.close())
        )
        const address = server.address()
        const port = typeof address === "object" && address !== null ? address.port : 0
        const sandbox = yield* provider.acquire(spec({ ports: [port] }))
        const endpoint = yield* sandbox.endpoint(port)
        assert.isTrue(Endpoint.$is("Tcp")(endpoint) && endpoint.url.endsWith(`/proxy/${port}`))
        assert.isTrue(Endpoint.$is("Tcp")(endpoint) && endpoint.headers["X-Route"] === sandbox.id)
        const forwarder = yield* Forwarder.make(endpoint)
        const body = yield* Effect.promise(async () => (await fetch(`${forwarder.url}/x?y=1`)).text())
        assert.strictEqual(body, "from /x?y=1")
        const undeclared = yield* Effect.flip(sandbox.endpoint(port === 1 ? 2 : 1))
        assert.strictEqual(undeclared._tag, "EndpointUnresolvable")
      })
    )
  )

  it.live("takes the service's own address for a wildcard", () =>
    world(
      ({ provider }) =>
        Effect.gen(function* () {
          const sandbox = yield* provider.acquire(spec({ ports: [80] }))
          const endpoint = yield* sandbox.endpoint(80)
          assert.isTrue(Endpoint.$is("Tcp")(endpoint) && endpoint.url.startsWith("http://127.0.0.1:"))
          assert.strictEqual((yield* sandbox.exec({ command: ["true"] }))._tag, "Exited")
        }),
      { behaviour: { host: "0.0.0.0" } }
    )
  )

  it.live("answers a refusal with what is known", () =>
    world(({ double, ledger, provider }) =>
      Effect.gen(function* () {
        const failing = (fault: Parameters<OpenSandboxDouble["inject"]>[1]) =>
          Effect.zipRight(double.inject("create", fault), Effect.flip(provider.acquire(spec())))
        const limited = yield* failing({ kind: "status", status: 429, retryAfter: "7" })
        assert.isTrue(
          limited._tag === "ProviderUnavailable" && limited.kind === "rate_limited" && limited.retryAfter === 7000
        )
        const key = yield* failing({ kind: "status", status: 401 })
        assert.isTrue(key._tag === "ProviderUnavailable" && key.kind === "unauthorised")
        assert.strictEqual((yield* failing({ kind: "status", status: 400 }))._tag, "SandboxCreateRejected")
        assert.strictEqual((yield* failing({ kind: "status", status: 302 }))._tag, "SandboxCreateRejected")
        assert.deepStrictEqual(yield* ledger.open, [])
        assert.strictEqual((yield* failing({ kind: "status", status: 503 }))._tag, "SandboxCreateAmbiguous")
        assert.strictEqual((yield* failing({ kind: "lose" }))._tag, "SandboxCreateAmbiguous")
        assert.strictEqual((yield* failing({ kind: "malformed" }))._tag, "SandboxCreateAmbiguous")
        assert.strictEqual((yield* failing({ kind: "drop" }))._tag, "SandboxCreateAmbiguous")
        const host = yield* Effect.flip(provider.acquire(spec({ network: "host" })))
        assert.strictEqual(host._tag, "SandboxUnsupported")
        const mounts = yield* Effect.flip(
          provider.acquire(spec({ mounts: [Mount.make({ source: "/a", target: "/b" })] }))
        )
        assert.strictEqual(mounts._tag, "SandboxUnsupported")
      })
    )
  )

  it.live("says that a service that is not there is unreachable", () =>
    world(
      ({ provider }) =>
        Effect.gen(function* () {
          const error = yield* Effect.flip(provider.acquire(spec()))
          assert.isTrue(error._tag === "ProviderUnavailable" && error.kind === "unreachable")
          const [check] = yield* provider.preflight
          assert.isTrue(check?.ok === false && check.remedy !== "")
        }),
      { provider: { baseUrl: "http://127.0.0.1:9/v1" } }
    )
  )

  it.live("removes what a caller left while it was created, late as it may come", () =>
    world(({ double, provider }) =>
      Effect.gen(function* () {
        yield* double.inject("create", { kind: "hang", millis: 400 })
        const left = yield* Effect.timeoutOption(Effect.scoped(provider.acquire(spec())), "100 millis")
        assert.strictEqual(left._tag, "None")
      })
    )
  )

  it.live("reports what did not come to run, and removes it", () =>
    world(
      ({ provider }) =>
        Effect.gen(function* () {
          const error = yield* Effect.flip(provider.acquire(spec()))
          assert.include(error.message, "image_pull_failed")
        }),
      { behaviour: { failsToStart: true } }
    )
  )

  it.live("waits for a slow delete, and removes again what a lost answer leaves open", () =>
    world(
      ({ double, provider }) =>
        Effect.gen(function* () {
          yield* Effect.scoped(
            Effect.gen(function* () {
              yield* provider.acquire(spec())
              yield* double.inject("delete", { kind: "lose" })
            })
          )
          assert.deepStrictEqual((yield* double.inventory).sandboxes, [])
          yield* Effect.scoped(
            Effect.gen(function* () {
              yield* provider.acquire(spec())
              yield* double.inject("delete", { kind: "status", status: 503 }, 2)
            })
          )
          assert.deepStrictEqual((yield* double.inventory).sandboxes, [])
        }),
      { behaviour: { deleteDelay: 600 } }
    )
  )

  it.live("lists every page, and believes no filter", () =>
    world(
      ({ double, provider }) =>
        Effect.gen(function* () {
          const foreign = yield* double.plant({ "deskhand.managed": "1", "deskhand.deployment": "other" })
          yield* Effect.forEach(
            ["a", "b", "a", "a", "b"],
            (run) => provider.acquire(spec({ metadata: { run, "odd key": "any value: ü / =&" } })),
            { concurrency: 5 }
          )
          const all = Chunk.toReadonlyArray(yield* Stream.runCollect(provider.list({})))
          assert.strictEqual(all.length, 5)
          assert.isTrue(all.every(({ id }) => id !== foreign))
          const some = Chunk.toReadonlyArray(yield* Stream.runCollect(provider.list({ run: "a" })))
          assert.strictEqual(some.length, 3)
          assert.deepStrictEqual(some[0]?.metadata, { run: "a", "odd key": "any value: ü / =&" })
          assert.strictEqual(some[0]?.state, "running")
          yield* double.inject("list", { kind: "malformed" })
          assert.isTrue(Exit.isFailure(yield* Effect.exit(Stream.runDrain(provider.list({})))))
          yield* double.kill(foreign)
          yield* Effect.promise(() =>
            fetch(`${double.baseUrl}/sandboxes/${foreign}`, {
              method: "DELETE",
              headers: { "open-sandbox-api-key": Redacted.value(double.apiKey) }
            })
          )
          yield* Effect.sleep("100 millis")
        }),
      { behaviour: { pageLimit: 2, ignoresFilter: true } }
    )
  )

  it.live("pauses, resumes, renews, and starts from a snapshot", () =>
    world(({ controls, double, provider }) =>
      Effect.gen(function* () {
        const sandbox = yield* provider.acquire(spec({ ttl: Duration.minutes(2) }))
        yield* sandbox.upload("/tmp/kept", Stream.make(Buffer.from("kept")))
        yield* controls.pause(sandbox)
        const [info] = Chunk.toReadonlyArray(yield* Stream.runCollect(provider.list({})))
        assert.strictEqual(info?.state, "paused")
        yield* controls.resume(sandbox)
        assert.strictEqual((yield* sandbox.exec({ command: ["true"] }))._tag, "Exited")
        const snapshot = yield* controls.snapshot(sandbox, "with a file")
        const copy = yield* provider.acquire(spec({ image: `snapshot:${snapshot}` }))
        assert.strictEqual(yield* text(copy.download("/tmp/kept")), "kept")
        yield* controls.removeSnapshot(snapshot)
        yield* controls.removeSnapshot(snapshot)
        const gone = yield* Effect.flip(controls.pause({ ...sandbox, id: "none" }))
        assert.strictEqual(gone._tag, "SandboxGone")
        const requests = yield* double.requests
        assert.isTrue(requests.some(({ url }) => url.endsWith("/renew-expiration")))
      })
    )
  )

  it.live("tells when a sandbox is gone, and lends one that runs", () =>
    world(({ double, provider }) =>
      Effect.gen(function* () {
        const sandbox = yield* provider.acquire(spec())
        yield* Effect.scoped(
          Effect.gen(function* () {
            const lent = yield* provider.borrow(sandbox.descriptor)
            assert.strictEqual((yield* lent.exec({ command: ["echo", "lent"] })).stdout, "lent\n")
          })
        )
        assert.strictEqual((yield* sandbox.exec({ command: ["true"] }))._tag, "Exited")
        assert.notInclude(JSON.stringify(sandbox.descriptor), Redacted.value(double.apiKey))
        yield* double.kill(sandbox.id)
        const gone = yield* Effect.flip(Effect.timeout(sandbox.gone, "5 seconds"))
        assert.strictEqual(gone._tag, "SandboxGone")
        assert.include(gone.message, "it was killed")
        const none = yield* Effect.flip(provider.borrow(sandbox.descriptor))
        assert.strictEqual(none._tag, "SandboxGone")
      })
    )
  )

  it.live("takes a sandbox of a pool as it is", () =>
    world(
      ({ double, provider }) =>
        Effect.gen(function* () {
          const sandbox = yield* provider.acquire(spec({ env: { OF_EXEC: "yes" } }))
          assert.strictEqual((yield* sandbox.exec({ command: ["sh", "-c", "echo $OF_EXEC"] })).stdout, "yes\n")
          const created = (yield* double.requests).find(({ body, method }) => method === "POST" && body !== undefined)
          assert.deepInclude(created?.body as object, { timeout: 7200, extensions: { poolRef: "desktops" } })
          assert.notProperty(created?.body, "image")
          assert.notProperty(created?.body, "env")
          assert.notProperty(created?.body, "resourceLimits")
        }),
      { provider: { poolRef: "desktops" } }
    )
  )

  it.live("reaches sandboxes through the service, which keeps the key to itself", () =>
    world(
      ({ double, provider }) =>
        Effect.gen(function* () {
          const sandbox = yield* provider.acquire(spec({ ports: [80] }))
          assert.strictEqual((yield* sandbox.exec({ command: ["echo", "hi"] })).stdout, "hi\n")
          const endpoint = yield* sandbox.endpoint(80)
          assert.isTrue(Endpoint.$is("Tcp")(endpoint) && endpoint.url.startsWith(double.baseUrl))
        }),
      { provider: { useServerProxy: true } }
    )
  )

  const schedules = Number(process.env["DESKHAND_SCHEDULES"] ?? 40)
  const plan = FastCheck.record({
    operation: FastCheck.constantFrom<Operation>("create", "create", "delete", "get", "endpoint", "ping", "upload"),
    // No 404: a service that denies what exists is believed.
    fault: FastCheck.oneof(
      FastCheck.constantFrom<Fault>({ kind: "lose" }, { kind: "drop" }, { kind: "malformed" }),
      FastCheck.integer({ min: 1, max: 150 }).map((millis): Fault => ({ kind: "hang", millis })),
      FastCheck.constantFrom(400, 409, 429, 500, 502, 503).map((status): Fault => ({ kind: "status", status }))
    ),
    interruptAt: FastCheck.option(FastCheck.integer({ min: 0, max: 300 }), { nil: undefined })
  })

  it.live(
    `leaves nothing after ${schedules} random schedules of faults and interruptions`,
    () =>
      world(({ double, provider }) =>
        Effect.forEach(
          FastCheck.sample(plan, schedules),
          ({ fault, interruptAt, operation }) =>
            Effect.gen(function* () {
              yield* double.inject(operation, fault)
              const holder = yield* Effect.fork(
                Effect.scoped(provider.acquire(spec({ files: { "/tmp/f": "x" } }))).pipe(Effect.exit)
              )
              yield* interruptAt === undefined
                ? Fiber.await(holder)
                : Effect.delay(Fiber.interrupt(holder), Duration.millis(interruptAt))
            }),
          { concurrency: 8, discard: true }
        ).pipe(Effect.zipRight(double.heal))
      ),
    30_000 + schedules * 500
  )
})
