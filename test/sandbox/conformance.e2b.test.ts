import { rmSync } from "node:fs"
import * as NodeContext from "@effect/platform-node/NodeContext"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import { afterAll } from "vitest"
import * as E2BProvider from "../../src/sandbox/E2BProvider.js"
import * as Ledger from "../../src/sandbox/Ledger.js"
import * as LocalProvider from "../../src/sandbox/LocalProvider.js"
import { SandboxSpec } from "../../src/sandbox/SandboxSpec.js"
import * as E2BServer from "../../src/testing/E2BServer.js"
import { providerConformance } from "../../src/testing/ProviderConformance.js"
import { makeStateDir, port, reportSpec, scriptSpec } from "./internal/local.js"

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

const layer = Layer.unwrapEffect(
  Effect.map(E2BServer.E2BServer, ({ url }) =>
    E2BProvider.layer({
      apiKey: Redacted.make("e2b_00"),
      apiUrl: url,
      endpointMode: "gateway",
      gatewayUrl: url,
      templates: {},
      fork: false,
      settle: { looks: 3, spacing: "200 millis" }
    })
  )
).pipe(
  Layer.provide(server),
  Layer.provideMerge(Ledger.layer({ path: `${stateDir}/e2b-ledger.jsonl` })),
  Layer.provide(NodeContext.layer)
)

providerConformance("E2BProvider", layer, {
  spec: (fields) => new SandboxSpec({ image: "script", ...fields }),
  server: { spec: (fields) => new SandboxSpec({ image: "report", ports: [port], ...fields }), port, body: "hello" },
  schedules: Number(process.env["DESKHAND_SCHEDULES"] ?? 60),
  concurrency: 4
})
