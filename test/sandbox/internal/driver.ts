/** A program that opens a sandbox, says which, and is killed. */
import * as Console from "effect/Console"
import * as Effect from "effect/Effect"
import { SandboxProvider } from "../../../src/sandbox/SandboxProvider.js"
import { provided, scriptSpec } from "./local.js"

const stateDir = process.argv[2] ?? ""

Effect.gen(function* () {
  const provider = yield* SandboxProvider
  const sandbox = yield* provider.acquire(scriptSpec("sleep 1000 & sleep 1000", { metadata: { run: "killed" } }))
  yield* Console.log(sandbox.id)
  return yield* Effect.never
}).pipe(Effect.scoped, Effect.provide(provided(stateDir)), Effect.runPromise)
