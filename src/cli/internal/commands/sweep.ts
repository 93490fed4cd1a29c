/** `deskhand sweep`: what it takes, and what carries it out. */
import * as Command from "@effect/cli/Command"
import * as Options from "@effect/cli/Options"
import * as Effect from "effect/Effect"
import * as Sweep from "../../Sweep.js"
import { deployment, lookAt, provider } from "../providerOptions.js"

export const sweep = Command.make(
  "sweep",
  {
    provider,
    deployment,
    run: Options.text("run").pipe(Options.optional, Options.withDescription("Only what this run left"))
  },
  ({ deployment, provider, run }) => Effect.provide(Sweep.sweep(run), lookAt(provider, deployment))
).pipe(Command.withDescription("Remove what runs that were killed left behind"))
