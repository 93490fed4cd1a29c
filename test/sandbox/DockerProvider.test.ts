import { execFileSync, spawn } from "node:child_process"
import { once } from "node:events"
import * as Fs from "node:fs"
import * as Net from "node:net"
import { tmpdir } from "node:os"
import { join } from "node:path"
import * as Tls from "node:tls"
import { fileURLToPath } from "node:url"
import * as NodeContext from "@effect/platform-node/NodeContext"
import { assert, describe, it } from "@effect/vitest"
import * as Chunk from "effect/Chunk"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Option from "effect/Option"
import * as Schedule from "effect/Schedule"
import * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import * as DesktopSpec from "../../src/desktop/DesktopSpec.js"
import * as Guest from "../../src/desktop/Guest.js"
import * as DockerProvider from "../../src/sandbox/DockerProvider.js"
import { httpClient } from "../../src/sandbox/Endpoint.js"
import { ExecEvent } from "../../src/sandbox/ExecOutcome.js"
import { labels } from "../../src/sandbox/internal/driver.js"
import * as Ledger from "../../src/sandbox/Ledger.js"
import type { OwnedSandbox } from "../../src/sandbox/Sandbox.js"
import { CommandReadiness, HttpReadiness, Mount, Resources, SandboxSpec } from "../../src/sandbox/SandboxSpec.js"
import * as Engine from "./docker/engine.js"
import * as Faults from "./docker/faults.js"

const skipped = Engine.skipReason()
const noDesktop = Engine.skipReason(Engine.desktopImage)

/** Of this run of this file, so that nobody else's containers are counted. */
const deployment = `test-${process.pid}-${Date.now()}`

const settle: NonNullable<DockerProvider.Options["settle"]> = {
  looks: 2,
  spacing: "200 millis",
  limit: "20 seconds",
  removal: "15 seconds",
  close: "30 seconds"
}

const spec = (fields: Omit<NonNullable<ConstructorParameters<typeof SandboxSpec>[0]>, "image"> = {}) =>
  new SandboxSpec({ image: Engine.image, metadata: { run: "r1" }, ...fields })

const opened = (options: DockerProvider.Options = {}) =>
  Effect.gen(function* () {
    const ledger = yield* Ledger.makeMemory
    const provider = yield* Effect.provideService(
      DockerProvider.make({ host: Engine.host, deployment, settle, ...options }),
      Ledger.Ledger,
      ledger
    )
    return { provider, ledger }
  })

/** Ids of all containers of this run, as the docker command sees them. */
const inventory = (...filters: ReadonlyArray<string>) =>
  Engine.docker(
    "ps",
    "-aq",
    "--no-trunc",
    "--filter",
    `label=${labels.deployment}=${deployment}`,
    ...filters.flatMap((filter) => ["--filter", filter])
  )
    .split("\n")
    .filter((id) => id !== "")

const live = (
  name: string,
  test: Effect.Effect<void, unknown, NodeContext.NodeContext | Scope.Scope>,
  skip: string | undefined = skipped
) =>
  skip === undefined
    ? it.scopedLive(name, () => Effect.provide(test, NodeContext.layer))
    : it.skip(`${name} (${skip})`, () => {})

const one = (test: (sandbox: OwnedSandbox) => Effect.Effect<void, unknown, Scope.Scope>, fields = {}, options = {}) =>
  Effect.gen(function* () {
    const { provider } = yield* opened(options)
    yield* Effect.scoped(Effect.flatMap(provider.acquire(spec(fields)), test))
    assert.deepStrictEqual(inventory(), [])
  })

const sh = (script: string) => ["/bin/sh", "-c", script] as const

/** The command lines of all processes in a container. */
const processes = (sandbox: OwnedSandbox) => Engine.docker("top", sandbox.id, "-eo", "pid,args").split("\n").slice(1)

describe("Docker sandboxes", () => {
  live(
    "run commands: exit codes, both outputs, input, environment and folder",
    one(
      (sandbox) =>
        Effect.gen(function* () {
          const said = yield* sandbox.exec({
            command: sh("echo out; echo err >&2; echo $A $B; pwd; exit 3"),
            env: { B: "2" }
          })
          assert.deepStrictEqual(said, { _tag: "Exited", code: 3, stdout: "out\n1 2\n/srv\n", stderr: "err\n" })
          const read = yield* sandbox.exec({ command: ["cat"], stdin: "ünï\n", workdir: "/tmp" })
          assert.deepStrictEqual(read, { _tag: "Exited", code: 0, stdout: "ünï\n", stderr: "" })
          const large = "0123456789".repeat(100_000)
          const back = yield* sandbox.exec({ command: ["cat"], stdin: large })
          assert.isTrue(back._tag === "Exited" && back.stdout === large)
          const killed = yield* sandbox.exec({ command: sh("kill -9 $$") })
          assert.isTrue(killed._tag === "Exited" && killed.code === 137)
          const none = yield* sandbox.exec({ command: ["no-such-program"] })
          assert.strictEqual(none._tag, "SandboxFailed")
          const plain = yield* sandbox.exec({ command: sh("exit 127") })
          assert.isTrue(plain._tag === "Exited" && plain.code === 127)
        }),
      { env: { A: "1" }, workdir: "/srv" }
    )
  )

  live(
    "keep the first bytes of a long output, whole",
    one((sandbox) =>
      Effect.gen(function* () {
        const outcome = yield* sandbox.exec({ command: sh("head -c 12000000 /dev/zero | tr '\\0' x; echo end >&2") })
        assert.strictEqual(outcome._tag, "Exited")
        assert.strictEqual(outcome.stdout.length, 8 * 1024 * 1024)
        assert.strictEqual(outcome.stderr, "end\n")
      })
    )
  )

  live(
    "end a command whose time is over, and all that it started",
    one((sandbox) =>
      Effect.gen(function* () {
        const [took, outcome] = yield* Effect.timed(
          sandbox.exec({
            command: sh(
              "echo begun; setsid sleep 7001 & (trap '' TERM; sleep 7002 & env -i sleep 7003) & nohup sleep 7004"
            ),
            // The mark that it is found by is not the client's to give.
            env: { DESKHAND_EXEC: "x" },
            timeout: "500 millis"
          })
        )
        assert.deepStrictEqual(outcome, { _tag: "TimedOut", stdout: "begun\n", stderr: "" })
        assert.isBelow(Duration.toMillis(took), 5000)
        assert.deepStrictEqual(
          processes(sandbox).filter((line) => line.includes("sleep 700")),
          []
        )
      })
    )
  )

  live(
    "end a command when its stream is left, and tell what it says while it says it",
    one((sandbox) =>
      Effect.gen(function* () {
        const first = yield* sandbox
          .execStream({ command: sh("echo now; sleep 7100 & sleep 7101") })
          .pipe(Stream.take(1), Stream.runCollect)
        assert.deepStrictEqual(
          Chunk.toReadonlyArray(first).map((event) =>
            event._tag === "Stdout" ? Buffer.from(event.bytes).toString() : ""
          ),
          ["now\n"]
        )
        const fiber = yield* Effect.fork(sandbox.exec({ command: sh("sleep 7102 & sleep 7103") }))
        yield* Effect.sleep("300 millis")
        yield* Fiber.interrupt(fiber)
        assert.deepStrictEqual(
          processes(sandbox).filter((line) => line.includes("sleep 710")),
          []
        )
        const all = yield* Stream.runCollect(sandbox.execStream({ command: sh("echo a; exit 4") }))
        const last = Chunk.unsafeLast(all)
        assert.isTrue(ExecEvent.$is("Ended")(last) && last.outcome._tag === "Exited" && last.outcome.code === 4)
      })
    )
  )

  live(
    "do not wait for what a command leaves behind",
    one((sandbox) =>
      Effect.gen(function* () {
        const [took, outcome] = yield* Effect.timed(sandbox.exec({ command: sh("sleep 7200 & echo left") }))
        assert.deepStrictEqual(outcome, { _tag: "Exited", code: 0, stdout: "left\n", stderr: "" })
        assert.isBelow(Duration.toMillis(took), 8000)
        assert.isTrue(processes(sandbox).some((line) => line.includes("sleep 7200")))
      })
    )
  )

  live(
    "take and give files of any bytes and size",
    one((sandbox) =>
      Effect.gen(function* () {
        for (const size of [0, 1, 512, 70_000, 3_000_000]) {
          const bytes = Buffer.from(Uint8Array.from({ length: size }, (_, index) => (index * 7919) % 256))
          const path = `/root/new folder/ü/${size}.bin`
          yield* sandbox.upload(path, Stream.fromIterable([bytes.subarray(0, size / 3), bytes.subarray(size / 3)]))
          const back = yield* Stream.runCollect(sandbox.download(path))
          assert.isTrue(Buffer.concat([...back]).equals(bytes), `${size}`)
        }
        const long = `/tmp/${"n".repeat(200)}`
        yield* sandbox.upload(long, Stream.make(new TextEncoder().encode("one")))
        yield* sandbox.exec({ command: sh(`chmod 755 ${long}; ln -s ${long} /tmp/link`) })
        yield* sandbox.upload("/tmp/link", Stream.make(new TextEncoder().encode("two")))
        const seen = yield* sandbox.exec({ command: sh(`cat ${long}; test -L /tmp/link; test -x ${long}; echo $?`) })
        assert.strictEqual(seen.stdout, "two0\n")
        const through = yield* Stream.runCollect(sandbox.download("/tmp/link"))
        assert.strictEqual(Buffer.concat([...through]).toString(), "two")
        const missing = yield* Effect.flip(Stream.runDrain(sandbox.download("/no/such")))
        assert.isTrue(missing._tag === "SandboxFileError" && missing.missing)
        const folder = yield* Effect.flip(Stream.runDrain(sandbox.download("/etc")))
        assert.isTrue(folder._tag === "SandboxFileError" && !folder.missing)
        const onto = yield* Effect.flip(sandbox.upload("/etc", Stream.empty))
        assert.strictEqual(onto._tag, "SandboxFileError")
        const relative = yield* Effect.flip(sandbox.upload("x", Stream.empty))
        assert.strictEqual(relative._tag, "SandboxFileError")
        const cut = yield* Effect.flip(sandbox.upload("/tmp/cut", Stream.fail("broken" as const)))
        assert.strictEqual(cut, "broken")
        assert.strictEqual((yield* sandbox.exec({ command: ["test", "-e", "/tmp/cut"] }))._tag, "Exited")
      })
    )
  )

  for (const network of ["none", "default"] as const) {
    live(
      `have endpoints that answer and no wildcard, with the network ${network}`,
      one(
        (sandbox) =>
          Effect.gen(function* () {
            const endpoint = yield* sandbox.endpoint(8000)
            assert.strictEqual(endpoint._tag, "Tcp")
            const { hostname } = new URL(endpoint._tag === "Tcp" ? endpoint.url : "")
            assert.strictEqual(hostname.startsWith(network === "none" ? "172." : "127.0.0.1"), true, hostname)
            const client = yield* httpClient(endpoint)
            const text = yield* Effect.flatMap(client.get("/"), (response) => response.text).pipe(
              Effect.retry({ times: 50, schedule: Schedule.spaced("100 millis") })
            )
            assert.strictEqual(text, "hello")
            const other = yield* Effect.flip(sandbox.endpoint(8001))
            assert.strictEqual(other._tag, "EndpointUnresolvable")
            // The isolated network has no way out.
            const out = yield* sandbox.exec({
              command: ["/bin/bash", "-c", "exec 3<>/dev/tcp/deb.debian.org/80"],
              timeout: "3 seconds"
            })
            assert.isTrue(network === "default" || out._tag !== "Exited" || out.code !== 0, JSON.stringify(out))
          }),
        {
          ports: [8000],
          network,
          entrypoint: [
            "/usr/bin/perl",
            "-MIO::Socket::INET",
            "-e",
            '$s=IO::Socket::INET->new(LocalAddr=>"0.0.0.0",LocalPort=>8000,Listen=>5,ReuseAddr=>1) or die;while($c=$s->accept){while(<$c>){last if /^\\r/}print $c "HTTP/1.1 200 OK\\r\\nContent-Length: 5\\r\\nConnection: close\\r\\n\\r\\nhello";close $c}'
          ]
        }
      )
    )
  }

  live(
    "are what the spec says: labels, limits, mounts, devices",
    one(
      (sandbox) =>
        Effect.gen(function* () {
          const [found] = JSON.parse(Engine.docker("inspect", sandbox.id))
          assert.match(found.Name, /^\/dh-[0-9a-f]{24}$/)
          assert.strictEqual(`/${found.Config.Labels[labels.attempt]}`, found.Name)
          assert.strictEqual(found.Config.Labels[`${labels.metadataPrefix}run`], "r1")
          assert.strictEqual(found.HostConfig.NanoCpus, 500_000_000)
          assert.strictEqual(found.HostConfig.PidsLimit, 50)
          const seen = yield* sandbox.exec({
            command: sh(
              "cat /mnt/engine.ts | head -c 3; echo x >/mnt/engine.ts; test -c /dev/fuse && echo device; cat /sys/fs/cgroup/memory/memory.limit_in_bytes /sys/fs/cgroup/memory.max 2>/dev/null"
            )
          })
          assert.match(seen.stdout, /^\/\*\*device\n67108864\n$/)
          assert.match(seen.stderr, /Read-only file system/)
        }),
      {
        resources: new Resources({ cpu: 0.5, memoryMib: 64 }),
        mounts: [new Mount({ source: fileURLToPath(new URL("docker", import.meta.url)), target: "/mnt" })]
      },
      { pidsLimit: 50, devices: ["/dev/fuse"] }
    )
  )

  live(
    "say when they end by themselves, and with what they printed",
    Effect.gen(function* () {
      const { provider } = yield* opened()
      const sandbox = yield* provider.acquire(spec({ entrypoint: sh("echo last words; sleep 1; exit 9") }))
      const gone = yield* Effect.flip(Effect.timeout(sandbox.gone, "10 seconds"))
      assert.strictEqual(gone._tag, "SandboxGone")
      assert.match(gone.message, /code 9.*last words/s)
      const late = yield* sandbox.exec({ command: ["true"] })
      assert.strictEqual(late._tag, "SandboxFailed")
    })
  )

  live(
    "tell a command that went down with its sandbox",
    Effect.gen(function* () {
      const { provider } = yield* opened()
      const sandbox = yield* provider.acquire(spec())
      const fiber = yield* Effect.fork(sandbox.exec({ command: sh("echo up; sleep 7300") }))
      yield* Effect.sleep("500 millis")
      Engine.docker("kill", sandbox.id)
      const outcome = yield* Fiber.join(fiber)
      assert.deepStrictEqual([outcome._tag, outcome.stdout], ["SandboxFailed", "up\n"])
    })
  )

  live(
    "remove themselves when their time to live is over",
    Effect.gen(function* () {
      const { provider } = yield* opened()
      for (const entrypoint of [undefined, sh("sleep 7400")]) {
        const sandbox = yield* provider.acquire(
          spec({ ttl: Duration.seconds(1), ...(entrypoint === undefined ? {} : { entrypoint }) })
        )
        yield* Effect.flip(Effect.timeout(sandbox.gone, "10 seconds"))
        yield* Effect.suspend(() => (inventory().includes(sandbox.id) ? Effect.fail("there") : Effect.void)).pipe(
          Effect.retry({ times: 50, schedule: Schedule.spaced("100 millis") })
        )
      }
    })
  )

  live(
    "are borrowed and let go, and not borrowed when they do not run",
    Effect.gen(function* () {
      const { provider } = yield* opened()
      const sandbox = yield* provider.acquire(spec())
      yield* Effect.scoped(
        Effect.gen(function* () {
          const borrowed = yield* provider.borrow(sandbox.descriptor)
          assert.strictEqual((yield* borrowed.exec({ command: ["true"] }))._tag, "Exited")
        })
      )
      assert.strictEqual((yield* sandbox.exec({ command: ["true"] }))._tag, "Exited")
      Engine.docker("kill", sandbox.id)
      assert.strictEqual((yield* Effect.flip(provider.borrow(sandbox.descriptor)))._tag, "SandboxGone")
    })
  )
})

describe("Docker creates that fail leave nothing", () => {
  const fails = (name: string, fields: Parameters<typeof spec>[0], tag: string, says: RegExp, options = {}) =>
    live(
      name,
      Effect.gen(function* () {
        const { ledger, provider } = yield* opened(options)
        const error = yield* Effect.flip(
          Effect.scoped(provider.acquire(new SandboxSpec({ ...spec(fields), ...fields })))
        )
        assert.strictEqual(error._tag, tag)
        assert.match(error.message, says)
        assert.deepStrictEqual(inventory(), [])
        assert.deepStrictEqual((yield* ledger.receipt("docker")).left, [])
      })
    )

  live(
    "without the image",
    Effect.gen(function* () {
      const { provider } = yield* opened()
      const error = yield* Effect.flip(provider.acquire(new SandboxSpec({ image: "deskhand-none:0" })))
      assert.strictEqual(error._tag, "SandboxCreateRejected")
      assert.match(error.message, /No such image.*build-image\.sh/)
    })
  )
  fails(
    "without the program",
    {
      entrypoint: ["/no/such"],
      readiness: new CommandReadiness({ command: ["true"], timeout: Duration.seconds(5) })
    },
    "SandboxNotReady",
    /\/no\/such/
  )
  fails(
    "without the mount's source",
    { mounts: [new Mount({ source: "/no/such", target: "/mnt" })] },
    "SandboxCreateRejected",
    /no\/such/
  )
  fails("without the device", {}, "SandboxCreateRejected", /could not be started/, { devices: ["/dev/none"] })
  fails(
    "with an end before they were ready",
    {
      entrypoint: sh("echo because >&2; exit 5"),
      files: { "/tmp/a": "x" },
      ports: [80],
      readiness: new HttpReadiness({ port: 80, path: "/", timeout: Duration.seconds(5) })
    },
    "SandboxNotReady",
    /because/
  )
  fails("with no engine", {}, "ProviderUnavailable", /no connection/, { host: "unix:///no/such.sock" })
})

describe("Docker faults", () => {
  const faulty = (
    name: string,
    test: (parts: {
      readonly faults: Faults.Faulty
      readonly provider: Effect.Effect.Success<ReturnType<typeof opened>>["provider"]
      readonly ledger: Ledger.Ledger["Type"]
    }) => Effect.Effect<void, unknown, Scope.Scope>
  ) =>
    live(
      name,
      Effect.gen(function* () {
        const faults = yield* Faults.make(Engine.host)
        const scope = yield* Scope.make()
        const { ledger, provider } = yield* Scope.extend(opened({ host: faults.host }), scope)
        yield* test({ faults, provider, ledger })
        yield* Scope.close(scope, Exit.void)
        assert.deepStrictEqual(inventory(), [])
        assert.deepStrictEqual((yield* ledger.receipt("docker")).left, [])
      })
    )

  const creating = /^POST \/containers\/create/

  faulty("a create whose answer is lost is removed", ({ faults, provider }) =>
    Effect.gen(function* () {
      faults.next(creating, { _tag: "Lose" })
      const error = yield* Effect.flip(provider.acquire(spec()))
      assert.strictEqual(error._tag, "SandboxCreateAmbiguous")
    })
  )

  faulty("a create that commits after it was given up is removed", ({ faults, provider }) =>
    Effect.gen(function* () {
      faults.next(creating, { _tag: "Delay", millis: 2000 })
      const outcome = yield* provider.acquire(spec()).pipe(Effect.timeout("300 millis"), Effect.either)
      assert.isTrue(Either.isLeft(outcome))
    })
  )

  faulty("a start that fails leaves no created container", ({ faults, provider }) =>
    Effect.gen(function* () {
      faults.next(/\/start/, {
        _tag: "Answer",
        status: 500,
        message: "driver failed programming external connectivity"
      })
      const error = yield* Effect.flip(provider.acquire(spec()))
      assert.strictEqual(error._tag, "SandboxCreateRejected")
    })
  )

  faulty(
    "a removal that is refused and one that is under way are asked for until nothing is there",
    ({ faults, provider }) =>
      Effect.gen(function* () {
        faults.next(/^DELETE/, { _tag: "Answer", status: 500, message: "device or resource busy" })
        faults.next(/^DELETE/, {
          _tag: "Answer",
          status: 409,
          message: "removal of container x is already in progress"
        })
        yield* Effect.scoped(provider.acquire(spec()))
      })
  )

  faulty("a name that an earlier send of the same create has is that create's", ({ faults, provider }) =>
    Effect.gen(function* () {
      const message = "Conflict. The container name is already in use"
      faults.next(creating, { _tag: "Answer", status: 409, message, acts: true })
      yield* Effect.scoped(
        Effect.gen(function* () {
          const sandbox = yield* provider.acquire(spec())
          assert.deepStrictEqual(inventory(), [sandbox.id])
          assert.strictEqual((yield* sandbox.exec({ command: ["true"] }))._tag, "Exited")
        })
      )
    })
  )

  faulty("a name that is taken, and by nothing that is there, is an unclear create", ({ faults, provider }) =>
    Effect.gen(function* () {
      faults.next(creating, { _tag: "Answer", status: 409, message: "Conflict. The container name is already in use" })
      const error = yield* Effect.flip(provider.acquire(spec()))
      assert.strictEqual(error._tag, "SandboxCreateAmbiguous")
      assert.isFalse(faults.calls.some((call) => call.startsWith("DELETE")))
    })
  )

  faulty("what a first look does not see of a name that is taken is found by the next ones", ({ faults, provider }) =>
    Effect.gen(function* () {
      const message = "Conflict. The container name is already in use"
      faults.next(creating, { _tag: "Answer", status: 409, message, acts: true })
      faults.next(/^GET \/containers\/[^/]+\/json/, { _tag: "Answer", status: 404, message: "No such container: x" })
      const error = yield* Effect.flip(provider.acquire(spec()))
      assert.strictEqual(error._tag, "SandboxCreateAmbiguous")
      const left = yield* Effect.sync(inventory).pipe(
        Effect.repeat({ until: (ids) => ids.length === 0, schedule: Schedule.spaced("100 millis") }),
        Effect.timeoutOption("20 seconds")
      )
      assert.isTrue(Option.isSome(left), "the container that the engine made is still there")
      assert.isTrue(faults.calls.some((call) => call.startsWith("DELETE")))
    })
  )
})

describe("Docker engines elsewhere", () => {
  /** A server whose connections go to the real engine. */
  const relayed = (server: Net.Server, event: string) =>
    Effect.acquireRelease(
      Effect.async<number>((resume) => {
        server.on(event, (socket: Net.Socket) => {
          const to = Net.connect({ path: Engine.host.replace("unix://", ""), allowHalfOpen: true })
          socket.pipe(to).pipe(socket)
          socket.on("error", () => to.destroy())
          to.on("error", () => socket.destroy())
        })
        server.listen(0, "127.0.0.1", () => {
          const bound = server.address()
          resume(Effect.succeed(typeof bound === "object" && bound !== null ? bound.port : 0))
        })
      }),
      () => Effect.sync(() => server.close())
    )

  const used = (options: DockerProvider.Options) =>
    Effect.gen(function* () {
      const { provider } = yield* opened(options)
      assert.isFalse(provider.capabilities.hostFiles)
      yield* Effect.scoped(
        Effect.gen(function* () {
          const sandbox = yield* provider.acquire(spec())
          const outcome = yield* sandbox.exec({ command: ["cat"], stdin: "in and out" })
          assert.deepStrictEqual(outcome, { _tag: "Exited", code: 0, stdout: "in and out", stderr: "" })
          yield* sandbox.upload("/tmp/x", Stream.make(new Uint8Array(2_000_000)))
          const back = yield* Stream.runFold(sandbox.download("/tmp/x"), 0, (size, part) => size + part.length)
          assert.strictEqual(back, 2_000_000)
        })
      )
      assert.deepStrictEqual(inventory(), [])
    })

  const folder = Effect.acquireRelease(
    Effect.sync(() => Fs.mkdtempSync(join(tmpdir(), "deskhand-docker-"))),
    (path) => Effect.sync(() => Fs.rmSync(path, { recursive: true }))
  )

  live(
    "are used over TCP",
    Effect.flatMap(relayed(Net.createServer({ allowHalfOpen: true }), "connection"), (port) =>
      used({ host: `tcp://127.0.0.1:${port}` })
    )
  )

  live(
    "are used over TLS with certificates of both sides, and not with another authority's",
    Effect.gen(function* () {
      const path = yield* folder
      const openssl = (...words: ReadonlyArray<string>) =>
        execFileSync("openssl", words, { cwd: path, stdio: "ignore" })
      const name = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
      const made = (key: string, cert: string) =>
        openssl("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-keyout", key, "-out", cert, ...name)
      made("key.pem", "cert.pem")
      Fs.copyFileSync(join(path, "cert.pem"), join(path, "ca.pem"))
      const read = (file: string) => Fs.readFileSync(join(path, file))
      const server = Tls.createServer({
        key: read("key.pem"),
        cert: read("cert.pem"),
        ca: read("ca.pem"),
        allowHalfOpen: true,
        requestCert: true,
        rejectUnauthorized: true
      })
      server.on("tlsClientError", () => {})
      const port = yield* relayed(server, "secureConnection")
      yield* used({ host: `tcp://127.0.0.1:${port}`, certificates: path })
      made("other.pem", "ca.pem")
      const { provider } = yield* opened({ host: `tcp://127.0.0.1:${port}`, certificates: path })
      const error = yield* Effect.flip(provider.acquire(spec()))
      assert.strictEqual(error._tag, "ProviderUnavailable")
    })
  )

  live(
    "are used over ssh, by what ssh runs there",
    Effect.gen(function* () {
      const path = yield* folder
      // Stands in for ssh: runs here what ssh would run there, and keeps what it was called with.
      Fs.writeFileSync(
        join(path, "ssh"),
        `#!/bin/bash\necho "$*" >>${path}/calls\nwhile [ "$1" != -- ]; do shift; done; shift 2\nexport DOCKER_HOST=${Engine.host}\nexec "$@"\n`,
        { mode: 0o755 }
      )
      const before = process.env["PATH"]
      process.env["PATH"] = `${path}:${before}`
      yield* Effect.addFinalizer(() =>
        Effect.sync(() => {
          process.env["PATH"] = before
        })
      )
      yield* used({ host: "ssh://me@big-box:2222" })
      assert.match(Fs.readFileSync(join(path, "calls"), "utf8"), /-l me -p 2222 -- big-box docker system dial-stdio\n/)
    })
  )

  live(
    "say what ssh says when it cannot connect",
    Effect.gen(function* () {
      const path = yield* folder
      Fs.writeFileSync(join(path, "ssh"), "#!/bin/sh\necho 'Host key verification failed.' >&2\nexit 255\n", {
        mode: 0o755
      })
      const before = process.env["PATH"]
      process.env["PATH"] = `${path}:${before}`
      yield* Effect.addFinalizer(() =>
        Effect.sync(() => {
          process.env["PATH"] = before
        })
      )
      const { provider } = yield* opened({ host: "ssh://me@big-box" })
      const [check] = yield* provider.preflight
      assert.match(check?.found ?? "", /Host key verification failed/)
    })
  )
})

describe("Docker sweeps", () => {
  live(
    "after kill -9, and leaves what lives",
    Effect.gen(function* () {
      const folder = Fs.mkdtempSync(join(tmpdir(), "deskhand-docker-"))
      yield* Effect.addFinalizer(() => Effect.sync(() => Fs.rmSync(folder, { recursive: true })))
      const script = fileURLToPath(new URL("docker/holder.ts", import.meta.url))
      const child = spawn(process.execPath, ["--import", "tsx", script, Engine.host, deployment, Engine.image, "4"], {
        stdio: ["ignore", "pipe", "inherit"]
      })
      yield* Effect.promise(() => once(child.stdout, "data"))
      assert.strictEqual(inventory().length, 4)
      const { provider } = yield* opened()
      const own = yield* provider.acquire(spec())
      const before = yield* provider.sweep({})
      assert.deepStrictEqual([before.removed, before.left, before.inUse.length], [[], [], 5])
      child.kill("SIGKILL")
      yield* Effect.promise(() => once(child, "exit"))
      Engine.docker("pause", inventory().find((id) => id !== own.id) ?? "")
      const all = yield* Stream.runCollect(provider.list({ run: "r1" }))
      assert.strictEqual(all.length, 5)
      const receipt = yield* provider.sweep({})
      assert.deepStrictEqual([receipt.removed.length, receipt.left, receipt.inUse], [4, [], [own.id]])
      assert.deepStrictEqual(inventory(), [own.id])
    })
  )

  live(
    "fail when the engine does not answer",
    Effect.gen(function* () {
      const { provider } = yield* opened({ host: "unix:///no/such.sock" })
      const error = yield* Effect.flip(provider.sweep({}))
      assert.strictEqual(error._tag, "SandboxStateError")
      const [check] = yield* provider.preflight
      assert.isFalse(check?.ok)
    })
  )

  live(
    "list more containers than a page of other services has",
    Effect.gen(function* () {
      const { provider } = yield* opened()
      yield* Effect.forEach(
        Array.from({ length: 30 }, (_, index) => index),
        (index) =>
          Effect.sync(() =>
            Engine.docker(
              "create",
              "--label",
              `${labels.deployment}=${deployment}`,
              "--label",
              `${labels.managed}=1`,
              "--label",
              `${labels.attempt}=dh-${index}`,
              "--label",
              `${labels.metadataPrefix}run=many`,
              Engine.image,
              "true"
            )
          )
      )
      const all = yield* Stream.runCollect(provider.list({ run: "many" }))
      assert.strictEqual(all.length, 30)
      // Labels with a common beginning are other labels.
      assert.strictEqual((yield* Stream.runCollect(provider.list({ run: "man" }))).length, 0)
      for (const id of inventory(`label=${labels.metadataPrefix}run=many`)) {
        Engine.docker("rm", "-f", id)
      }
    })
  )
})

describe("a desktop from an image", () => {
  live(
    "shows its screen",
    Effect.gen(function* () {
      const { provider } = yield* opened()
      const sandbox = yield* provider.acquire(
        DesktopSpec.forImage({ image: Engine.desktopImage, width: 1280, height: 720, vncPort: 8006 })
      )
      const guest = yield* Guest.make(yield* sandbox.endpoint(DesktopSpec.ports.guest))
      const png = yield* guest.screenshot
      assert.deepStrictEqual([...png.subarray(1, 4)], [...Buffer.from("PNG")])
      // Width and height are the first fields of a PNG's header.
      const view = new DataView(png.buffer, png.byteOffset)
      assert.deepStrictEqual([view.getUint32(16), view.getUint32(20)], [1280, 720])
      // What listens on the desktop's loopback, as DevTools do, is reached all the same.
      yield* sandbox.exec({ command: sh("cd /tmp; python3 -m http.server 1337 --bind 127.0.0.1 >/dev/null 2>&1 &") })
      const devtools = yield* httpClient(yield* sandbox.endpoint(DesktopSpec.ports.devtools))
      const answer = yield* Effect.retry(devtools.get("/"), { times: 50, schedule: Schedule.spaced("100 millis") })
      assert.strictEqual(answer.status, 200)
      // People look on through a page.
      const page = yield* httpClient(yield* sandbox.endpoint(8006))
      const looking = yield* Effect.retry(
        Effect.flatMap(page.get("/vnc.html"), (response) => response.text),
        { times: 50, schedule: Schedule.spaced("100 millis") }
      )
      assert.include(looking, "noVNC")
    }),
    noDesktop
  )
})
