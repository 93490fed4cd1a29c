/** A run over simulated desktops and a simulated model in virtual time, as a whole. */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Stream from "effect/Stream"
import { DesktopAgent } from "../../src/agents/DesktopAgent.js"
import { OSWorld } from "../../src/osworld/OSWorld.js"
import * as Episode from "../../src/rollout/Episode.js"
import { EpisodeLimits } from "../../src/rollout/EpisodeLimits.js"
import * as RolloutCollector from "../../src/rollout/RolloutCollector.js"
import { Distribution } from "../../src/testing/Distribution.js"
import * as SimulatedDesktops from "../../src/testing/SimulatedDesktops.js"
import * as SimulatedModel from "../../src/testing/SimulatedModel.js"
import * as Simulator from "./simulator.js"

export const seed = "2026"

const { LogNormal, Uniform } = Distribution

/** Steps of 10 s, as a model that thinks takes them; 0.5 % of desktops don't open and 0.01 % of calls come to nothing. */
export const simulated = Layer.mergeAll(
  SimulatedDesktops.layer({
    seed,
    latency: {
      open: LogNormal({ median: 40_000, sigma: 0.5 }),
      observe: Uniform({ from: 200, to: 600 }),
      step: Uniform({ from: 1_000, to: 3_000 }),
      evaluate: LogNormal({ median: 5_000, sigma: 0.8 })
    },
    faults: { open: 0.005, evaluate: 0.002 }
  }),
  SimulatedModel.layerAgent.pipe(
    Layer.provide(
      SimulatedModel.layer({
        seed,
        latency: LogNormal({ median: 8_000, sigma: 0.4 }),
        faults: { unavailable: 0.0001 }
      })
    )
  ),
  Simulator.evidence()
)

export const collect = (
  out: string,
  tasks: number,
  maxSteps: number,
  options: Omit<RolloutCollector.CollectOptions, "runId">,
  resume = false
) =>
  Effect.gen(function* () {
    const collector = yield* RolloutCollector.RolloutCollector
    const program = Episode.program({
      environment: yield* OSWorld,
      agent: yield* DesktopAgent,
      limits: EpisodeLimits.make({ maxSteps, episodeTimeout: Duration.hours(6) })
    })
    const rows = Stream.map(Stream.range(0, tasks - 1), Simulator.row)
    yield* Stream.runDrain(collector.collect(rows, program, { runId: Simulator.runId, ...options }))
    return yield* collector.summary
  }).pipe(
    Effect.provide(RolloutCollector.layer({ out, resume })),
    Effect.provide(simulated),
    // Nobody looks at the spans of 36,100 steps.
    Effect.withTracerEnabled(false)
  )
