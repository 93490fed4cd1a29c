import { rmSync } from "node:fs"
import * as NodeContext from "@effect/platform-node/NodeContext"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import { afterAll } from "vitest"
import * as E2BProvider from "../../src/sandbox/E2BProvider.js"
import * as E2B from "../../src/sandbox/internal/e2b.js"
import * as Ledger from "../../src/sandbox/Ledger.js"
import * as LocalProvider from "../../src/sandbox/LocalProvider.js"
import { CommandReadiness, SandboxSpec } from "../../src/sandbox/SandboxSpec.js"
import * as E2BServer from "../../src/testing/E2BServer.js"
import { providerConformance } from "../../src/testing/ProviderConformance.js"
import { makeStateDir, port, reportSpec, scriptSpec } from "./internal/local.js"
import { drawn } from "./internal/schedules.js"

// The real SDK, against our server, on containers of this machine.
const stateDir = makeStateDir()
afterAll(() => rmSync(stateDir, { recursive: true, force: true }))

const server = E2BServer.layer({
  apiKey: Redacted.make("e2b_00"),
  templates: (name) =>
    name === "script"
      ? scriptSpec("exec sleep infinity", {})
      : name === "report"
        ? reportSpec("printf hello", {})
        : undefined,
  pause: "simulated"
}).pipe(
  Layer.provide(LocalProvider.layer({ stateDir })),
  Layer.provide(Ledger.layerMemory),
  Layer.provide(NodeContext.layer)
)

const options = Effect.map(E2BServer.E2BServer, ({ url }) => ({
  apiKey: Redacted.make("e2b_00"),
  apiUrl: url,
  endpointMode: "gateway" as const,
  gatewayUrl: url,
  templates: {},
  fork: false,
  createTimeout: "2 seconds" as const
}))

// A create whose client has left goes on for up to a second in the server, and nobody sees it.
const settle = { looks: 5, spacing: "300 millis" } as const

const layer = Layer.unwrapEffect(Effect.map(options, (options) => E2BProvider.layer({ ...options, settle }))).pipe(
  Layer.provideMerge(server),
  Layer.provideMerge(Ledger.layer({ path: `${stateDir}/e2b-ledger.jsonl` })),
  Layer.provide(NodeContext.layer)
)

const { Fault } = E2BServer

const next = (operation: E2BServer.Operation, fault: E2BServer.Fault, times = 1) =>
  Effect.flatMap(E2BServer.E2BServer, ({ inject }) => inject(operation, fault, times))

/** What any answer of the control plane may meet. */
const anywhere = (operation: E2BServer.Operation) => ({
  [`${operation}: the answer is lost`]: next(operation, Fault.CommitThenLose()),
  [`${operation}: it comes late`]: next(operation, Fault.HangThenCommit({ delay: "300 millis" })),
  [`${operation}: 429`]: next(operation, Fault.RateLimited({ retryAfter: undefined })),
  [`${operation}: 429 with Retry-After`]: next(operation, Fault.RateLimited({ retryAfter: 1 })),
  [`${operation}: 500`]: next(operation, Fault.Refused({ status: 500 })),
  [`${operation}: 503`]: next(operation, Fault.Busy()),
  [`${operation}: an empty 404`]: next(operation, Fault.EmptyNotFound())
})

providerConformance("E2BProvider", layer, {
  spec: (fields) => new SandboxSpec({ image: "script", ...fields }),
  server: { spec: (fields) => new SandboxSpec({ image: "report", ports: [port], ...fields }), port, body: "hello" },
  driver: Effect.map(options, E2B.make),
  settle,
  ...drawn(30),
  concurrency: 10,
  faults: {
    inject: {
      ...anywhere("create"),
      "create: it is given up, and comes": next("create", Fault.HangThenCommit({ delay: "2200 millis" })),
      "create: a 201 that makes no sense": next("create", Fault.Malformed()),
      "create: 400": next("create", Fault.Refused({ status: 400 })),
      ...anywhere("kill"),
      "kill: an empty 404 three times": next("kill", Fault.EmptyNotFound(), 3),
      ...anywhere("info"),
      "info: an empty 404 three times": next("info", Fault.EmptyNotFound(), 3),
      ...anywhere("list"),
      ...anywhere("health")
    },
    clear: Effect.flatMap(E2BServer.E2BServer, ({ calm }) => calm),
    specs: {
      "there is no such template": { image: "none" },
      "it is never ready": {
        readiness: new CommandReadiness({ command: ["/bin/false"], timeout: Duration.millis(300) })
      }
    }
  },
  leftovers: Effect.flatMap(E2BServer.E2BServer, ({ inventory }) =>
    Effect.map(inventory, (all) => all.map(({ id }) => id))
  )
})
