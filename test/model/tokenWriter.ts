/**
 * A process of its own that keeps tokens of one call after another, and says which are safe: `tokenWriter.ts <folder>
 * <rollout id> <prefix of its call ids> <number of calls>`.
 */
import * as NodeContext from "@effect/platform-node/NodeContext"
import * as NodeRuntime from "@effect/platform-node/NodeRuntime"
import * as Console from "effect/Console"
import * as Effect from "effect/Effect"
import * as TokenCapture from "../../src/model/TokenCapture.js"
import { TokenEntry } from "../../src/model/TokenEntry.js"

const [directory = "", rolloutId = "", prefix = "", count = "0"] = process.argv.slice(2)

const program = Effect.gen(function* () {
  const store = yield* TokenCapture.make({ directory })
  for (let at = 0; at < Number(count); at++) {
    const modelCallId = `${prefix}${at}`
    yield* store.begin(rolloutId, modelCallId)
    yield* store.put(
      new TokenEntry({
        rolloutId,
        modelCallId,
        model: "m",
        promptTokenIds: Array.from({ length: 5000 }, (_, token) => token),
        generationTokenIds: [at],
        generationLogProbs: [-1],
        outputItems: [],
        createdAt: at
      })
    )
    yield* Console.log(modelCallId)
  }
})

NodeRuntime.runMain(Effect.provide(program, NodeContext.layer))
