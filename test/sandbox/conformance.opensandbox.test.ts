import * as http from "node:http"
import * as NodeContext from "@effect/platform-node/NodeContext"
import { afterAll } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { layerMemory } from "../../src/sandbox/Ledger.js"
import * as OpenSandboxProvider from "../../src/sandbox/OpenSandboxProvider.js"
import { SandboxSpec } from "../../src/sandbox/SandboxSpec.js"
import * as OpenSandboxDouble from "../../src/testing/OpenSandboxDouble.js"
import { type Fields, providerConformance } from "../../src/testing/ProviderConformance.js"

const layer = Layer.unwrapScoped(
  Effect.map(OpenSandboxDouble.make({ startDelay: 5, deleteDelay: 5, pageLimit: 5 }), (double) =>
    OpenSandboxProvider.layer({
      baseUrl: double.baseUrl,
      apiKey: double.apiKey,
      settle: { looks: 3, spacing: "100 millis" }
    })
  )
).pipe(Layer.provideMerge(layerMemory), Layer.provide(NodeContext.layer))

// The double's sandboxes are on this host's network.
const server = http.createServer((_, response) => response.end("hello from the port"))
const port = await new Promise<number>((resolve) =>
  server.listen(0, "127.0.0.1", () => {
    const address = server.address()
    resolve(typeof address === "object" && address !== null ? address.port : 0)
  })
)
afterAll(() => {
  server.close()
})

const spec = (fields: Fields) => new SandboxSpec({ image: "debian:12", network: "default", ...fields })

providerConformance("OpenSandbox", layer, {
  spec,
  server: { spec: (fields) => spec({ ports: [port], ...fields }), port, body: "hello from the port" },
  // A folder: the double writes from outside, where /proc is one like any other.
  unwritable: "/tmp",
  timeout: 60_000,
  schedules: Number(process.env["DESKHAND_SCHEDULES"] ?? 20),
  concurrency: 8
})
