/** `deskhand serve`: what it takes, and what carries it out. */
import * as Command from "@effect/cli/Command"
import * as Options from "@effect/cli/Options"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { port, positive, whole } from "../arguments.js"
import { bundledTasks } from "../host.js"
import { later } from "../later.js"
import { deployment, image, provider, withDeployment } from "../providerOptions.js"

export const serve = Command.make(
  "serve",
  {
    provider,
    deployment,
    image,
    host: Options.text("host").pipe(
      Options.withDefault("127.0.0.1"),
      Options.withDescription("Where it listens: 127.0.0.1 unless given; others want a token")
    ),
    port: port("A free port unless given"),
    capacity: positive("capacity").pipe(
      Options.optional,
      Options.withDescription(
        "Sessions, each with a desktop, at a time; as many as this machine has cores unless given"
      )
    ),
    sessionTtl: whole("session-ttl", 60).pipe(
      Options.withDefault(10_800),
      Options.withDescription(
        "Seconds after which a session that nobody asks for anything is closed; 10800 unless given"
      )
    ),
    tokenEnv: Options.text("token-env").pipe(
      Options.optional,
      Options.withDescription("The environment variable that holds what clients have to show; never an argument")
    ),
    tokenFile: Options.text("token-file").pipe(
      Options.optional,
      Options.withDescription("The file that holds what clients have to show")
    ),
    tasks: Options.text("tasks").pipe(
      Options.withDefault(bundledTasks),
      Options.map(Option.some),
      Options.withDescription(
        "The folder of tasks whose files a task may name by task_file; the tasks that come with Deskhand unless given"
      )
    ),
    network: Options.choice("network", ["none", "host"]).pipe(
      Options.withDefault("none" as const),
      Options.withDescription("What a desktop sees: none, the default, or this machine's network by host")
    ),
    out: Options.text("out").pipe(
      Options.optional,
      Options.withDescription("The folder of the ledger and the receipt; runs/serve-<date>-<time> unless given")
    ),
    drainSeconds: whole("drain-seconds", 0).pipe(
      Options.withDefault(0),
      Options.withDescription(
        "Seconds that sessions have to come to their end after the first INT, TERM or HUP; 0, the default, closes them"
      )
    )
  },
  later(
    () => import("../../Serve.js"),
    (Serve, { deployment, ...options }) => Effect.provide(Serve.serve(options), withDeployment(deployment))
  )
).pipe(Command.withDescription("Serve desktops over HTTP: sessions that are seeded, stepped, evaluated and closed"))
