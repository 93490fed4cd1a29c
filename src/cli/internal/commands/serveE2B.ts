/** `deskhand serve-e2b`: what it takes, and what carries it out. */
import * as Command from "@effect/cli/Command"
import * as Options from "@effect/cli/Options"
import * as Effect from "effect/Effect"
import { names } from "../../Providers.js"
import { port } from "../arguments.js"
import { later } from "../later.js"
import { image, lookAt } from "../providerOptions.js"

export const serveE2B = Command.make(
  "serve-e2b",
  {
    provider: Options.choice("provider", names).pipe(
      Options.withDefault("docker" as const),
      Options.withDescription("Where the sandboxes come from; docker unless given")
    ),
    image,
    port: port("The port on 127.0.0.1; a free one unless given")
  },
  later(
    () => import("../../ServeE2B.js"),
    (ServeE2B, { provider, ...options }) => Effect.provide(ServeE2B.serve(options), lookAt(provider))
  )
).pipe(Command.withDescription("Let E2B's clients open sandboxes of a provider of ours, on this machine"))
