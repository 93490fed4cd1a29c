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
import { drawn } from "./internal/schedules.js"

/** Faults wait in line for each operation; each is met once. */
const waiting: {
  readonly create: Array<SimulatedService.CreateFault>
  readonly start: Array<boolean>
  readonly list: Array<boolean>
  readonly remove: Array<boolean | "absent">
  readonly exists: Array<boolean | "absent">
} = { create: [], start: [], list: [], remove: [], exists: [] }

const next = <A>(line: Array<A>, fault: A, times = 1) =>
  Effect.sync(() => {
    line.push(...Array.from({ length: times }, () => fault))
  })

const service = SimulatedService.make({
  latency: "3 millis",
  hang: "15 millis",
  removal: "5 millis",
  faults: {
    create: () => waiting.create.shift() ?? "none",
    start: () => waiting.start.shift() ?? false,
    list: () => waiting.list.shift() ?? false,
    remove: () => waiting.remove.shift() ?? false,
    exists: () => waiting.exists.shift() ?? false,
    exec: () => ExecOutcome.Exited({ code: 3, stdout: "", stderr: "not yet" })
  }
})

const layer = Layer.scoped(
  SandboxProvider,
  Effect.gen(function* () {
    return yield* Lifecycle.make(service.driver, {
      ledger: yield* Ledger,
      deployment: "here",
      settle: { looks: 3, spacing: "10 millis" }
    })
  })
).pipe(Layer.provideMerge(layerMemory), Layer.provide(NodeContext.layer))

providerConformance("A driver's lifecycle", layer, {
  spec: (fields) => new SandboxSpec(fields),
  parts: ["lifecycle", "ownership", "fork", "driver", "interruption"],
  driver: Effect.succeed(service.driver),
  settle: { looks: 3, spacing: "10 millis" },
  ...drawn(120),
  concurrency: 40,
  faults: {
    inject: {
      "create: the answer is lost": next(waiting.create, "lost"),
      "create: it comes late": next(waiting.create, "hang"),
      "create: it is given up, and comes": next(waiting.create, "silent"),
      "create: no such image": next(waiting.create, "rejected"),
      "create: too many requests": next(waiting.create, "rate_limited"),
      "create: nobody is there": next(waiting.create, "unavailable"),
      "create: an answer that makes no sense": next(waiting.create, "broken"),
      "start: it fails": next(waiting.start, true),
      "list: it fails": next(waiting.list, true),
      "list: it fails five times": next(waiting.list, true, 5),
      "remove: it fails": next(waiting.remove, true),
      "remove: it fails twice": next(waiting.remove, true, 2),
      "remove: nothing is there, it says": next(waiting.remove, "absent"),
      "remove: nothing is there, it says twice": next(waiting.remove, "absent", 2),
      "look: it fails": next(waiting.exists, true),
      "look: nothing is there, it says": next(waiting.exists, "absent"),
      "look: nothing is there, it says five times": next(waiting.exists, "absent", 5)
    },
    clear: Effect.sync(() => {
      for (const line of Object.values(waiting)) {
        line.length = 0
      }
    })
  },
  leftovers: service.inventory
})
