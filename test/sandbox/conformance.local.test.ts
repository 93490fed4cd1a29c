import { rmSync } from "node:fs"
import * as NodeContext from "@effect/platform-node/NodeContext"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { afterAll } from "vitest"
import * as Ledger from "../../src/sandbox/Ledger.js"
import * as LocalProvider from "../../src/sandbox/LocalProvider.js"
import { providerConformance } from "../../src/testing/ProviderConformance.js"
import { leftovers, makeStateDir, port, reportSpec, scriptSpec } from "./internal/local.js"
import { faults } from "./internal/localFaults.js"
import { drawn } from "./internal/schedules.js"

const stateDir = makeStateDir()
afterAll(() => rmSync(stateDir, { recursive: true, force: true }))

const layer = LocalProvider.layer({ stateDir }).pipe(
  Layer.provideMerge(Ledger.layer({ path: `${stateDir}/ledger.jsonl` })),
  Layer.provide(NodeContext.layer)
)

providerConformance("LocalProvider", layer, {
  spec: (fields) => scriptSpec("exec sleep infinity", fields),
  server: { spec: (fields) => reportSpec("printf hello", fields), port, body: "hello" },
  ...drawn(60),
  concurrency: 12,
  faults: faults(stateDir),
  leftovers: leftovers(stateDir).pipe(
    Effect.map(({ folders, processes }) => [...folders.filter((name) => name !== "ledger.jsonl"), ...processes]),
    Effect.orDie,
    Effect.provide(NodeContext.layer)
  )
})
