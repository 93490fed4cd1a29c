import { execFileSync } from "node:child_process"
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { assert, describe, it } from "@effect/vitest"
import * as Duration from "effect/Duration"
import * as Either from "effect/Either"
import * as FC from "effect/FastCheck"
import * as Schema from "effect/Schema"
import * as Address from "../../src/sandbox/internal/dockerAddress.js"
import * as Container from "../../src/sandbox/internal/dockerContainer.js"
import type { Inspected } from "../../src/sandbox/internal/dockerEngine.js"
import { Failure, isBeingRemoved, isNotRunning, kindOf, ofCreate } from "../../src/sandbox/internal/dockerFailure.js"
import * as Frames from "../../src/sandbox/internal/dockerFrames.js"
import * as Tar from "../../src/sandbox/internal/dockerTar.js"
import { Resources, SandboxSpec } from "../../src/sandbox/SandboxSpec.js"

/** Cuts bytes into pieces whose sizes are drawn. */
const pieces = (bytes: Uint8Array, sizes: ReadonlyArray<number>): ReadonlyArray<Uint8Array> => {
  const cut: Array<Uint8Array> = []
  let at = 0
  for (let index = 0; at < bytes.length; index++) {
    const size = sizes[index % sizes.length] ?? 1
    cut.push(bytes.subarray(at, at + size))
    at += size
  }
  return cut
}

const sizes = FC.array(FC.integer({ min: 1, max: 700 }), { minLength: 1, maxLength: 20 })

describe("frames", () => {
  const frame = (stream: 1 | 2, bytes: Uint8Array) => {
    const header = Buffer.alloc(8)
    header[0] = stream
    header.writeUInt32BE(bytes.length, 4)
    return Buffer.concat([header, bytes])
  }

  it.prop(
    "come out the same however they are cut",
    [FC.array(FC.tuple(FC.constantFrom<1 | 2>(1, 2), FC.uint8Array({ maxLength: 2000 })), { maxLength: 20 }), sizes],
    ([frames, sizes]) => {
      const bytes = Buffer.concat(frames.map(([stream, bytes]) => frame(stream, bytes)))
      let state = Frames.initial
      const found: Array<Frames.Frame> = []
      for (const piece of pieces(bytes, sizes)) {
        const [next, more] = Frames.step(state, piece)
        state = next
        found.push(...more)
      }
      for (const [number, name] of [
        [1, "stdout"],
        [2, "stderr"]
      ] as const) {
        assert.deepStrictEqual(
          Buffer.concat(found.filter(({ stream }) => stream === name).map(({ bytes }) => bytes)),
          Buffer.concat(frames.filter(([stream]) => stream === number).map(([, bytes]) => bytes))
        )
      }
      // The order of the two streams is kept, too.
      const order = (names: ReadonlyArray<string>) => names.filter((name, index) => name !== names[index - 1])
      assert.deepStrictEqual(
        order(found.map(({ stream }) => stream)),
        order(frames.filter(([, bytes]) => bytes.length > 0).map(([stream]) => (stream === 1 ? "stdout" : "stderr")))
      )
    }
  )
})

describe("tar", () => {
  const read = (archive: Uint8Array, sizes: ReadonlyArray<number>) => {
    const reader = Tar.reader()
    const content = pieces(archive, sizes).flatMap((piece) => reader.push(piece))
    return { reader, content: Buffer.concat(content) }
  }
  const fields = (name: string, size: number): Tar.FileFields => ({
    name,
    size,
    mode: 0o640,
    uid: 1000,
    gid: 70_000,
    modified: 1_700_000_000
  })

  it.prop(
    "reads what it writes, however it is cut",
    [
      FC.string({ minLength: 1, maxLength: 300 }).filter((name) => !/[\0]/.test(name)),
      FC.uint8Array({ maxLength: 5000 }),
      sizes
    ],
    ([name, bytes, sizes]) => {
      const file = fields(name, bytes.length)
      const archive = Buffer.concat([Tar.head(file), bytes, Tar.tail(bytes.length)])
      assert.strictEqual(archive.length, Tar.archiveSize(file))
      const { content, reader } = read(archive, sizes)
      assert.deepStrictEqual(reader.entry, {
        type: "file",
        name: Buffer.from(name).toString("utf8"),
        size: bytes.length
      })
      assert.isTrue(reader.done)
      assert.deepStrictEqual(content, Buffer.from(bytes))
    },
    { fastCheck: { numRuns: 200 } }
  )

  it("agrees with GNU tar in both directions", () => {
    const folder = mkdtempSync(join(tmpdir(), "deskhand-tar-"))
    try {
      for (const name of ["short.bin", `${"long-".repeat(40)}.bin`, "ünïcode.txt"]) {
        const bytes = Buffer.from(Array.from({ length: 1500 }, (_, index) => index % 256))
        const file = fields(name, bytes.length)
        writeFileSync(join(folder, "ours.tar"), Buffer.concat([Tar.head(file), bytes, Tar.tail(bytes.length)]))
        execFileSync("tar", ["-xf", "ours.tar"], { cwd: folder })
        assert.deepStrictEqual(readFileSync(join(folder, name)), bytes)
        for (const format of ["gnu", "pax", "ustar"]) {
          if (format === "ustar" && name.length > 100) {
            continue
          }
          const theirs = execFileSync("tar", ["-cf", "-", `--format=${format}`, name], { cwd: folder })
          const { content, reader } = read(theirs, [333])
          assert.deepStrictEqual(reader.entry, { type: "file", name, size: bytes.length }, format)
          assert.deepStrictEqual(content, bytes)
        }
      }
    } finally {
      rmSync(folder, { recursive: true })
    }
  })

  it("says what is wrong with an archive that is empty, damaged or cut short", () => {
    assert.strictEqual(read(new Uint8Array(1024), [512]).reader.problem, "the archive is empty")
    assert.strictEqual(read(new Uint8Array(1024).fill(7), [512]).reader.problem, "the archive is damaged")
    assert.isFalse(read(Buffer.concat([Tar.head(fields("a", 10)), Buffer.alloc(5)]), [512]).reader.done)
  })

  it("writes sizes that eight gigabytes and more have", () => {
    const size = 9 * 1024 ** 3
    const { reader } = read(Tar.head(fields("big", size)), [512])
    assert.deepStrictEqual(reader.entry, { type: "file", name: "big", size })
  })
})

describe("what a refusal means", () => {
  const refused = (status: number, reason = "") => Failure.Refused({ call: "POST /containers/create", status, reason })

  it("of a create, by what can exist afterwards", () => {
    assert.strictEqual(ofCreate(Failure.Unsent({ call: "", reason: "ENOENT", denied: false })), "unavailable")
    assert.strictEqual(ofCreate(Failure.Lost({ call: "", reason: "ECONNRESET" })), "ambiguous")
    assert.strictEqual(ofCreate(refused(404, "No such image: x")), "rejected")
    assert.strictEqual(ofCreate(refused(400)), "rejected")
    assert.strictEqual(ofCreate(refused(409)), "conflict")
    assert.strictEqual(ofCreate(refused(500, 'the container name "x" is already in use')), "conflict")
    assert.strictEqual(ofCreate(refused(429)), "unavailable")
    assert.strictEqual(ofCreate(refused(403)), "unavailable")
  })

  it.prop("never takes a 5xx for a rejection", [FC.integer({ min: 500, max: 599 })], ([status]) => {
    assert.strictEqual(ofCreate(refused(status, "something broke")), "ambiguous")
  })

  it("of a removal that is under way, and of a container that does not run", () => {
    assert.isTrue(isBeingRemoved(refused(409, "removal of container abc is already in progress")))
    assert.isFalse(isBeingRemoved(refused(409, "You cannot remove a running container")))
    assert.isTrue(isNotRunning(refused(404)))
    assert.isTrue(isNotRunning(refused(409, "Container abc is not running")))
    assert.strictEqual(kindOf(Failure.Unsent({ call: "", reason: "EACCES", denied: true })), "unauthorised")
  })
})

const parsed = (host: string, tls = false) => Address.parse({ host, tls, certificates: "/certs" })
const address = (host: string) => Either.getOrThrow(parsed(host))

describe("DOCKER_HOST", () => {
  it("is read in all its forms", () => {
    assert.deepStrictEqual(address("unix:///run/docker.sock"), { _tag: "Unix", path: "/run/docker.sock" })
    assert.deepStrictEqual(address("tcp://10.0.0.7:2375"), {
      _tag: "Tcp",
      host: "10.0.0.7",
      port: 2375,
      certificates: undefined
    })
    assert.deepStrictEqual(Either.getOrThrow(parsed("tcp://[2001:db8::1]", true)), {
      _tag: "Tcp",
      host: "2001:db8::1",
      port: 2376,
      certificates: "/certs"
    })
    assert.deepStrictEqual(address("ssh://me@big-box:2222"), { _tag: "Ssh", host: "big-box", port: "2222", user: "me" })
    for (const wrong of ["", "docker", "unix://relative", "ftp://x", "ssh://-oProxyCommand=x", "tcp://"]) {
      assert.isTrue(Either.isLeft(parsed(wrong)), wrong)
    }
  })
})

const inspected = (options: {
  readonly ports?: (typeof Inspected.Type)["NetworkSettings"]["Ports"]
  readonly mode?: string
  readonly ip?: string
  readonly running?: boolean
}): typeof Inspected.Type => ({
  Id: "abc",
  Name: "/dh-1",
  Created: "2026-01-01T00:00:00Z",
  State: { Status: options.running === false ? "exited" : "running", Running: options.running !== false },
  Config: {},
  HostConfig: { NetworkMode: options.mode ?? "bridge" },
  NetworkSettings: {
    ...(options.ports === undefined ? {} : { Ports: options.ports }),
    Networks: { bridge: { IPAddress: options.ip ?? "" } }
  }
})

describe("endpoints", () => {
  const at = (host: string, found: typeof Inspected.Type) => Container.endpointOf(found, 5000, address(host))
  const bound = (...ips: ReadonlyArray<string>) =>
    inspected({ ports: { "5000/tcp": ips.map((HostIp, index) => ({ HostIp, HostPort: String(32768 + index) })) } })
  const local = "unix:///run/docker.sock"

  it("prefer the loopback, put a host in a wildcard's place, and bracket IPv6", () => {
    assert.deepStrictEqual(at(local, bound("::", "127.0.0.1")), Either.right("http://127.0.0.1:32769"))
    assert.deepStrictEqual(at(local, bound("0.0.0.0")), Either.right("http://127.0.0.1:32768"))
    assert.deepStrictEqual(at("tcp://10.0.0.7:2375", bound("0.0.0.0")), Either.right("http://10.0.0.7:32768"))
    assert.deepStrictEqual(at("tcp://[2001:db8::1]:2375", bound("::")), Either.right("http://[2001:db8::1]:32768"))
    assert.deepStrictEqual(at(local, bound("::1")), Either.right("http://[::1]:32768"))
    assert.deepStrictEqual(at("ssh://me@big", bound("0.0.0.0")), Either.right("http://big:32768"))
  })

  it("are the container's own where nothing is published and the engine is here", () => {
    assert.deepStrictEqual(
      at(local, inspected({ ports: {}, ip: "172.18.0.2" })),
      Either.right("http://172.18.0.2:5000")
    )
    assert.isTrue(Either.isLeft(at("tcp://10.0.0.7:2375", inspected({ ports: {}, ip: "172.18.0.2" }))))
    assert.isTrue(Either.isLeft(at(local, inspected({ ports: { "5000/tcp": null } }))))
    assert.isTrue(Either.isLeft(at(local, inspected({ running: false, ip: "172.18.0.2" }))))
    assert.deepStrictEqual(at(local, inspected({ mode: "host" })), Either.right("http://127.0.0.1:5000"))
  })

  it.prop(
    "are absolute and never a wildcard",
    [
      FC.array(FC.oneof(FC.ipV4(), FC.ipV6(), FC.constantFrom("", "0.0.0.0", "::", "0:0:0:0:0:0:0:0")), {
        minLength: 1
      }),
      FC.constantFrom("unix:///s", "tcp://10.0.0.7:1", "tcp://0.0.0.0:1", "tcp://[::]:1", "ssh://me@big")
    ],
    ([ips, host]) => {
      const found = Either.getOrThrow(at(host, bound(...ips)))
      const { hostname, protocol } = new URL(found)
      assert.strictEqual(protocol, "http:")
      assert.isFalse(Address.isWildcard(hostname.replace(/^\[|\]$/g, "")), found)
    }
  )
})

describe("the create's body", () => {
  const body = (
    fields: ConstructorParameters<typeof SandboxSpec>[0],
    settings: Container.Settings = {},
    host = "unix:///s"
  ) =>
    Container.createBody(new SandboxSpec({ image: "docker://img:1", ...fields }), { a: "b" }, settings, address(host))
  const Body = Schema.Struct({
    Image: Schema.String,
    Entrypoint: Schema.Array(Schema.String),
    Cmd: Schema.Array(Schema.String),
    HostConfig: Schema.Struct({
      NetworkMode: Schema.String,
      AutoRemove: Schema.Boolean,
      NanoCpus: Schema.optional(Schema.Number),
      Memory: Schema.optional(Schema.Number),
      MemorySwap: Schema.optional(Schema.Number),
      PortBindings: Schema.optional(Schema.Unknown)
    })
  })
  const right = (...words: Parameters<typeof body>) => Schema.decodeUnknownSync(Body)(Either.getOrThrow(body(...words)))

  it("publishes on the loopback, on ports that the engine chooses", () => {
    const made = right({ ports: [5000], network: "default" })
    assert.strictEqual(made.Image, "img:1")
    assert.deepStrictEqual(made.HostConfig.PortBindings, { "5000/tcp": [{ HostIp: "127.0.0.1", HostPort: "" }] })
    assert.strictEqual(made.HostConfig.NetworkMode, "bridge")
    assert.isFalse(made.HostConfig.AutoRemove)
  })

  it("isolates: none without ports, the internal bridge with ports, refused where that cannot be reached", () => {
    assert.strictEqual(right({}).HostConfig.NetworkMode, "none")
    const made = right({ ports: [5000] })
    assert.strictEqual(made.HostConfig.NetworkMode, Container.isolatedNetwork)
    assert.isUndefined(made.HostConfig.PortBindings)
    assert.isTrue(Either.isLeft(body({ ports: [5000] }, {}, "tcp://10.0.0.7:2375")))
  })

  it("publishes at the remote engine's address, and asks for one when only a name is known", () => {
    const ports = { ports: [5000], network: "default" } as const
    const ip = (made: { readonly HostConfig: { readonly PortBindings?: unknown } }) => made.HostConfig.PortBindings
    assert.deepStrictEqual(ip(right(ports, {}, "tcp://10.0.0.7:2375")), {
      "5000/tcp": [{ HostIp: "10.0.0.7", HostPort: "" }]
    })
    assert.isTrue(Either.isLeft(body(ports, {}, "ssh://me@big")))
    assert.deepStrictEqual(ip(right(ports, { publishHost: "10.1.1.1" }, "ssh://me@big")), {
      "5000/tcp": [{ HostIp: "10.1.1.1", HostPort: "" }]
    })
  })

  it("limits, and ends by itself when it has a time to live", () => {
    const made = right({
      entrypoint: ["/run/entry.sh"],
      ttl: Duration.millis(1500),
      resources: new Resources({ cpu: 0.5, memoryMib: 256 })
    })
    assert.deepStrictEqual([made.Entrypoint, made.Cmd], [["timeout"], ["-s", "KILL", "2", "/run/entry.sh"]])
    assert.isTrue(made.HostConfig.AutoRemove)
    assert.strictEqual(made.HostConfig.NanoCpus, 500_000_000)
    assert.strictEqual(made.HostConfig.Memory, 268_435_456)
    assert.strictEqual(made.HostConfig.MemorySwap, 268_435_456)
  })

  it("needs an image", () => {
    assert.isTrue(Either.isLeft(Container.createBody(new SandboxSpec({}), {}, {}, address("unix:///s"))))
  })
})
