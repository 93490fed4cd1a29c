import { rmSync } from "node:fs"
import * as NodeContext from "@effect/platform-node/NodeContext"
import * as Layer from "effect/Layer"
import { afterAll } from "vitest"
import * as Ledger from "../../src/sandbox/Ledger.js"
import * as LocalProvider from "../../src/sandbox/LocalProvider.js"
import { providerConformance } from "../../src/testing/ProviderConformance.js"
import { makeStateDir, port, reportSpec, scriptSpec } from "./internal/local.js"

const stateDir = makeStateDir()
afterAll(() => rmSync(stateDir, { recursive: true, force: true }))

const layer = LocalProvider.layer({ stateDir }).pipe(
  Layer.provideMerge(Ledger.layer({ path: `${stateDir}/ledger.jsonl` })),
  Layer.provide(NodeContext.layer)
)

providerConformance("LocalProvider", layer, {
  spec: (fields) => scriptSpec("exec sleep infinity", fields),
  server: { spec: (fields) => reportSpec("printf hello", fields), port, body: "hello" },
  schedules: 500,
  concurrency: 8
})
