/** Runs the command in this process: what it prints is caught, and nothing is started anew. */
import * as Console from "effect/Console"
import * as Effect from "effect/Effect"
import { main } from "../../src/cli/Cli.js"
import type { Ended } from "./harness.js"

export const inProcess = async (args: ReadonlyArray<string>): Promise<Ended> => {
  const printed = { stdout: "", stderr: "" }
  const print =
    (stream: keyof typeof printed) =>
    (...texts: ReadonlyArray<unknown>) =>
      Effect.sync(() => {
        printed[stream] += `${texts.map(String).join(" ")}\n`
      })
  const console = Effect.runSync(Console.consoleWith(Effect.succeed))
  const status = await Effect.runPromise(
    Effect.withConsole(main(["node", "deskhand", ...args]), {
      ...console,
      log: print("stdout"),
      error: print("stderr")
    })
  )
  return { status, ...printed }
}
