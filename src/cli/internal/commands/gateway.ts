/** `deskhand gateway`: what it takes, and what carries it out. */
import * as Command from "@effect/cli/Command"
import * as Options from "@effect/cli/Options"
import { port, positive } from "../arguments.js"
import { later } from "../later.js"

export const gateway = Command.make(
  "gateway",
  {
    upstreams: Options.text("upstream").pipe(
      Options.repeated,
      Options.withDescription(
        "Base address of the model's API, such as http://127.0.0.1:8000/v1; several are one model's"
      )
    ),
    dialects: Options.choice("dialect", ["chat", "responses", "messages"]).pipe(
      Options.repeated,
      Options.withDescription("What the upstream speaks, once for each; chat unless given, and the others become chat")
    ),
    model: Options.text("model").pipe(
      Options.optional,
      Options.withDescription("The model's name on the upstream, whatever clients say; theirs unless given")
    ),
    apiKeyEnv: Options.text("api-key-env").pipe(
      Options.optional,
      Options.withDescription("The environment variable that holds the upstream's key; a key is never an argument")
    ),
    tokenEnv: Options.text("token-env").pipe(
      Options.optional,
      Options.withDescription("The environment variable that holds what clients have to show")
    ),
    host: Options.text("host").pipe(
      Options.withDefault("127.0.0.1"),
      Options.withDescription("Where it listens: 127.0.0.1 unless given; others want --token-env")
    ),
    port: port("A free port unless given"),
    capture: Options.text("capture").pipe(
      Options.optional,
      Options.withDescription("The folder in which calls, and tokens where they are asked for, are kept")
    ),
    tokens: Options.choice("tokens", ["ids", "logprobs"]).pipe(
      Options.withDefault("ids" as const),
      Options.withDescription("How the upstream is asked for tokens: ids beside the reply, or in its log-probabilities")
    ),
    samplingOverrides: Options.text("sampling-overrides").pipe(
      Options.optional,
      Options.withDescription("A JSON object of fields that win over what clients send")
    ),
    extraBody: Options.text("extra-body").pipe(
      Options.optional,
      Options.withDescription("A JSON object of fields that are sent where clients send none")
    ),
    silenceSeconds: positive("silence-seconds").pipe(
      Options.withDefault(900),
      Options.withDescription("How long the upstream may say nothing; 900 unless given")
    ),
    maxRequestMib: positive("max-request-mib").pipe(
      Options.withDefault(128),
      Options.withDescription("How large a request may be; 128 MiB unless given")
    ),
    maxReplyMib: positive("max-reply-mib").pipe(
      Options.withDefault(64),
      Options.withDescription("How large a reply may be that is translated or kept; 64 MiB unless given")
    )
  },
  later(
    () => import("../../Gateway.js"),
    (Gateway, options) => Gateway.serve(options)
  )
).pipe(Command.withDescription("Stand between harnesses and a model: speak their dialects, keep what was said"))
