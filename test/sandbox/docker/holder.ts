/**
 * Opens containers, says so, and holds them until it is killed.
 */
import * as NodeContext from "@effect/platform-node/NodeContext"
import * as NodeRuntime from "@effect/platform-node/NodeRuntime"
import * as Console from "effect/Console"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as DockerProvider from "../../../src/sandbox/DockerProvider.js"
import * as Ledger from "../../../src/sandbox/Ledger.js"
import { SandboxProvider } from "../../../src/sandbox/SandboxProvider.js"
import { SandboxSpec } from "../../../src/sandbox/SandboxSpec.js"

const [host = "", deployment = "", image = "", count = "1"] = process.argv.slice(2)

const program = Effect.gen(function* () {
  const provider = yield* SandboxProvider
  yield* Effect.replicateEffect(provider.acquire(new SandboxSpec({ image, metadata: { run: "r1" } })), Number(count), {
    concurrency: 4
  })
  yield* Console.log("opened")
  return yield* Effect.never
})

NodeRuntime.runMain(
  program.pipe(
    Effect.scoped,
    Effect.provide(
      DockerProvider.layer({ host, deployment }).pipe(
        Layer.provide(Layer.mergeAll(Ledger.layerMemory, NodeContext.layer))
      )
    )
  )
)
