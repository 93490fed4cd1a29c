import * as http from "node:http"
import * as NodeContext from "@effect/platform-node/NodeContext"
import { afterAll } from "@effect/vitest"
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as OpenSandbox from "../../src/sandbox/internal/openSandbox.js"
import { layerMemory } from "../../src/sandbox/Ledger.js"
import * as OpenSandboxProvider from "../../src/sandbox/OpenSandboxProvider.js"
import { CommandReadiness, SandboxSpec } from "../../src/sandbox/SandboxSpec.js"
import * as OpenSandboxDouble from "../../src/testing/OpenSandboxDouble.js"
import { type Fields, providerConformance } from "../../src/testing/ProviderConformance.js"
import { drawn } from "./internal/schedules.js"

class Double extends Context.Tag("test/Double")<Double, OpenSandboxDouble.OpenSandboxDouble>() {}

const options = Effect.map(Double, ({ apiKey, baseUrl }) => ({ baseUrl, apiKey, createTimeout: "5 seconds" as const }))
const settle = { looks: 4, spacing: "200 millis" } as const

const layer = Layer.unwrapEffect(
  Effect.map(options, (options) => OpenSandboxProvider.layer({ ...options, settle }))
).pipe(
  Layer.provideMerge(Layer.scoped(Double, OpenSandboxDouble.make({ startDelay: 5, deleteDelay: 5, pageLimit: 5 }))),
  Layer.provideMerge(layerMemory),
  Layer.provide(NodeContext.layer)
)

const next = (operation: OpenSandboxDouble.Operation, fault: OpenSandboxDouble.Fault, times = 1) =>
  Effect.flatMap(Double, ({ inject }) => inject(operation, fault, times))

const status = (status: number, retryAfter?: string): OpenSandboxDouble.Fault => ({
  kind: "status",
  status,
  ...(retryAfter === undefined ? {} : { retryAfter })
})

/** What any answer may meet. */
const anywhere = (operation: OpenSandboxDouble.Operation) => ({
  [`${operation}: the answer is lost`]: next(operation, { kind: "lose" }),
  [`${operation}: it never arrives`]: next(operation, { kind: "drop" }),
  [`${operation}: it comes late`]: next(operation, { kind: "hang", millis: 200 }),
  [`${operation}: half an answer`]: next(operation, { kind: "malformed" }),
  [`${operation}: 404`]: next(operation, status(404)),
  [`${operation}: 404 three times`]: next(operation, status(404), 3),
  [`${operation}: 429`]: next(operation, status(429)),
  [`${operation}: 429 with Retry-After`]: next(operation, status(429, "1")),
  [`${operation}: 500`]: next(operation, status(500)),
  [`${operation}: 503`]: next(operation, status(503))
})

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
  driver: Effect.map(Effect.flatMap(options, OpenSandbox.make), ({ driver }) => driver),
  settle,
  ...drawn(36),
  concurrency: 12,
  faults: {
    inject: {
      ...anywhere("create"),
      "create: it is given up, and comes": next("create", { kind: "hang", millis: 5300 }),
      ...anywhere("delete"),
      "delete: 409": next("delete", status(409)),
      ...anywhere("get"),
      ...anywhere("list"),
      ...anywhere("endpoint"),
      ...anywhere("ping")
    },
    clear: Effect.flatMap(Double, ({ heal }) => heal),
    specs: {
      "its entrypoint ends at once": { entrypoint: ["/bin/false"] },
      "it is never ready": {
        readiness: new CommandReadiness({ command: ["/bin/false"], timeout: Duration.millis(200) })
      }
    }
  },
  leftovers: Effect.flatMap(Double, ({ inventory }) => Effect.map(inventory, ({ sandboxes }) => sandboxes))
})
