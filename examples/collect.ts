/**
 * Deskhand as a library: the layers that the `deskhand` command wires, wired by hand, and the outcomes as a stream.
 *
 *     npx tsx examples/collect.ts
 */
import * as NodeContext from "@effect/platform-node/NodeContext"
import * as NodeHttpClient from "@effect/platform-node/NodeHttpClient"
import * as NodeRuntime from "@effect/platform-node/NodeRuntime"
import * as Console from "effect/Console"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Stream from "effect/Stream"
// In a project of your own these come from "deskhand".
import {
  ArtifactStore,
  Assets,
  DesktopAgent,
  Episode,
  EpisodeLimits,
  Evidence,
  Identity,
  LocalProvider,
  Noop,
  OSWorld,
  RolloutCollector,
  TaskSource
} from "../src/index.js"

const out = `runs/collect-${Date.now()}`

const program = Effect.gen(function* () {
  const collector = yield* RolloutCollector.RolloutCollector
  const agent = yield* DesktopAgent.DesktopAgent
  const environment = yield* OSWorld.OSWorld
  const tasks = yield* TaskSource.load(["examples/tasks"], { domain: ["os"] })
  const outcomes = collector.collect(
    Stream.fromIterable(tasks).pipe(Stream.map(({ row }) => row)),
    Episode.program({ environment, agent, limits: EpisodeLimits.EpisodeLimits.make({ maxSteps: 15 }) }),
    { runId: Identity.RunId.make("collect"), concurrency: 2, groupSize: 2 }
  )
  yield* Stream.runForEach(outcomes, (outcome) =>
    // Only a scored outcome has a reward; the compiler knows.
    outcome._tag === "Scored"
      ? Console.log(`${outcome.identity.taskId} #${outcome.identity.rolloutIndex}: reward ${outcome.reward}`)
      : Console.log(`${outcome.identity.taskId}: ${outcome._tag}`)
  )
})

/** Another provider, agent or model is another layer here, and nothing else changes. */
const Runtime = Layer.mergeAll(
  RolloutCollector.layer({ out }),
  Evidence.layer({ out }),
  OSWorld.layer(),
  Noop.layer
).pipe(
  Layer.provide(LocalProvider.layerConfig),
  Layer.provide(Assets.layer({ directory: `${out}/assets` })),
  Layer.provide(ArtifactStore.layer({ directory: `${out}/blobs` })),
  Layer.provideMerge(Layer.merge(NodeContext.layer, NodeHttpClient.layer))
)

NodeRuntime.runMain(Effect.provide(program, Runtime))
