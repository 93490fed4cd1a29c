import * as NodeContext from "@effect/platform-node/NodeContext"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { ExecOutcome } from "../../src/sandbox/ExecOutcome.js"
import * as Lifecycle from "../../src/sandbox/internal/lifecycle.js"
import { Ledger, layerMemory } from "../../src/sandbox/Ledger.js"
import { SandboxProvider } from "../../src/sandbox/SandboxProvider.js"
import { SandboxSpec } from "../../src/sandbox/SandboxSpec.js"
import { providerConformance } from "../../src/testing/ProviderConformance.js"
import * as SimulatedService from "../../src/testing/SimulatedService.js"

const layer = Layer.scoped(
  SandboxProvider,
  Effect.gen(function* () {
    const service = SimulatedService.make({
      latency: "3 millis",
      removal: "5 millis",
      faults: { exec: () => ExecOutcome.Exited({ code: 3, stdout: "", stderr: "not yet" }) }
    })
    return yield* Lifecycle.make(service.driver, {
      ledger: yield* Ledger,
      deployment: "here",
      settle: { looks: 3, spacing: "10 millis" }
    })
  })
).pipe(Layer.provideMerge(layerMemory), Layer.provide(NodeContext.layer))

providerConformance("A driver's lifecycle", layer, {
  spec: (fields) => new SandboxSpec(fields),
  parts: ["lifecycle", "ownership", "fork", "interruption"],
  schedules: 500,
  concurrency: 20
})
