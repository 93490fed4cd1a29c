import * as Http from "node:http"
import * as FileSystem from "@effect/platform/FileSystem"
import * as NodeContext from "@effect/platform-node/NodeContext"
import * as NodeHttpClient from "@effect/platform-node/NodeHttpClient"
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Stream from "effect/Stream"
import * as ArtifactStore from "../../src/artifact/ArtifactStore.js"
import { RolloutIdentity, RunId } from "../../src/identity/Identity.js"
import * as Assets from "../../src/osworld/Assets.js"
import * as OSWorld from "../../src/osworld/OSWorld.js"
import { TaskRow } from "../../src/rollout/TaskRow.js"
import { Capabilities } from "../../src/sandbox/Capabilities.js"
import { Endpoint } from "../../src/sandbox/Endpoint.js"
import { SandboxDescriptor } from "../../src/sandbox/Sandbox.js"
import { SandboxUnsupported } from "../../src/sandbox/SandboxError.js"
import { SandboxProvider } from "../../src/sandbox/SandboxProvider.js"

const png = Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a, 1, 2, 3])
const tree = '<desktop-frame><label name="é"/></desktop-frame>'

/** A guest that shows one screen and its tree, and keeps what it was asked for. */
const guest = Effect.gen(function* () {
  const asked: Array<string> = []
  const server = Http.createServer((request, response) => {
    asked.push(request.url ?? "")
    if (request.url === "/screenshot") return response.writeHead(200, { "content-type": "image/png" }).end(png)
    if (request.url === "/accessibility") {
      return response.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify({ AT: tree }))
    }
    return response.writeHead(404).end()
  })
  yield* Effect.acquireRelease(
    Effect.async<void>((resume) => {
      server.listen(0, "127.0.0.1", () => resume(Effect.void))
    }),
    () =>
      Effect.async<void>((resume) => {
        server.closeAllConnections()
        server.close(() => resume(Effect.void))
      })
  )
  const address = server.address()
  const port = typeof address === "object" && address !== null ? address.port : 0
  return { asked, endpoint: Endpoint.Tcp({ url: `http://127.0.0.1:${port}`, headers: {} }) }
})

const no = (capability: "connect" | "fork" | "exec") => new SandboxUnsupported({ provider: "test", capability })

/** Gives out the guest as a desktop that has come up. */
const provider = (endpoint: Endpoint): Layer.Layer<SandboxProvider> =>
  Layer.succeed(SandboxProvider, {
    name: "test",
    capabilities: new Capabilities({
      exec: false,
      files: false,
      endpoint: true,
      hostFiles: false,
      images: true,
      entrypoint: true,
      connect: false,
      fork: false,
      pause: false,
      renew: false,
      snapshot: false,
      ttl: false
    }),
    acquire: () =>
      Effect.succeed({
        _tag: "OwnedSandbox",
        id: "desktop",
        provider: "test",
        exec: () => no("exec"),
        execStream: () => Stream.fail(no("exec")),
        upload: () => no("exec"),
        download: () => Stream.fail(no("exec")),
        endpoint: () => Effect.succeed(endpoint),
        gone: Effect.never,
        descriptor: new SandboxDescriptor({ provider: "test", id: "desktop", ports: [] })
      }),
    borrow: () => no("connect"),
    fork: () => no("fork"),
    list: () => Stream.empty,
    sweep: () => Effect.dieMessage("nothing is swept here"),
    preflight: Effect.succeed([])
  })

const row = new TaskRow({
  taskIndex: 0,
  taskId: "a",
  domain: "os",
  instruction: "Do a",
  task: { id: "a", instruction: "Do a", config: [], evaluator: { func: "infeasible" } }
})

const identity = new RolloutIdentity({
  runId: RunId.make("r"),
  taskId: "a",
  taskIndex: 0,
  rolloutIndex: 0,
  attemptIndex: 0
})

describe("OSWorld.observe", () => {
  for (const accessibilityTree of [true, false]) {
    it.scoped(`stores the screen ${accessibilityTree ? "and its tree, byte for byte" : "and asks for no tree"}`, () =>
      Effect.gen(function* () {
        const { asked, endpoint } = yield* guest
        const fs = yield* FileSystem.FileSystem
        const directory = yield* fs.makeTempDirectoryScoped()
        const services = Layer.mergeAll(
          provider(endpoint),
          ArtifactStore.layer({ directory: `${directory}/blobs` }),
          Assets.layer({ directory: `${directory}/assets` })
        )
        yield* Effect.gen(function* () {
          const store = yield* ArtifactStore.ArtifactStore
          const environment = yield* OSWorld.make()
          const session = yield* environment.open(row, identity, { accessibilityTree })
          const observation = yield* session.observe
          assert.strictEqual(observation.screenshot.mediaType, "image/png")
          assert.deepStrictEqual(Buffer.from(yield* store.get(observation.screenshot)), png)
          assert.strictEqual(observation.accessibilityTree !== undefined, accessibilityTree)
          assert.strictEqual(asked.includes("/accessibility"), accessibilityTree)
          if (observation.accessibilityTree === undefined) return
          assert.strictEqual(observation.accessibilityTree.mediaType, "text/xml")
          assert.strictEqual(Buffer.from(yield* store.get(observation.accessibilityTree)).toString(), tree)
        }).pipe(Effect.provide(services))
      }).pipe(Effect.provide(Layer.merge(NodeContext.layer, NodeHttpClient.layer)))
    )
  }
})
