/**
 * The `deskhand` command.
 *
 * @since 0.1.0
 */
import * as Args from "@effect/cli/Args"
import * as Command from "@effect/cli/Command"
import * as Options from "@effect/cli/Options"
import * as ValidationError from "@effect/cli/ValidationError"
import * as NodeContext from "@effect/platform-node/NodeContext"
import * as NodeHttpClient from "@effect/platform-node/NodeHttpClient"
import * as ConfigProvider from "effect/ConfigProvider"
import * as Console from "effect/Console"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import * as Registry from "../agents/Registry.js"
import { textForms } from "../history/BuiltIn.js"
import { defaultSizes } from "../history/Economics.js"
import { Sampling } from "../model/Sampling.js"
import { ScriptError } from "../model/Scripted.js"
import * as TaskSource from "../osworld/TaskSource.js"
import * as Ledger from "../sandbox/Ledger.js"
import * as Export from "./Export.js"
import * as Gateway from "./Gateway.js"
import * as History from "./History.js"
import { bundledScripts, bundledTasks, isRoot, version } from "./internal/host.js"
import * as Packages from "./Packages.js"
import { names, type ProviderName, providers } from "./Providers.js"
import * as Requirements from "./Requirements.js"
import * as Run from "./Run.js"
import * as ServeE2B from "./ServeE2B.js"
import * as Sweep from "./Sweep.js"
import * as Verify from "./Verify.js"

const positive = (name: string) => Options.integer(name).pipe(Options.withSchema(Schema.Int.pipe(Schema.positive())))

const tasks = Args.text({ name: "tasks" }).pipe(
  Args.repeated,
  Args.withDescription(
    "Task files, folders, globs in quotes, or JSONL files of rows; without any, the ten tasks that come with Deskhand"
  )
)

const domains = Options.text("domain").pipe(
  Options.repeated,
  Options.withDescription("Only tasks of this domain; may be given several times")
)

const provider = Options.choice("provider", names).pipe(
  Options.withDefault("local" as const),
  Options.withDescription(
    "Where desktops come from: local, the default, is containers on this machine; the others are configured by the environment"
  )
)

const deployment = Options.text("deployment").pipe(
  Options.optional,
  Options.withDescription("The deployment that sandboxes belong to and that a sweep is scoped to")
)

/** What providers read as `DESKHAND_DEPLOYMENT`. */
const withDeployment = (deployment: Option.Option<string>) =>
  Option.match(deployment, {
    onNone: () => Layer.empty,
    onSome: (name) =>
      Layer.setConfigProvider(
        ConfigProvider.orElse(ConfigProvider.fromMap(new Map([["DESKHAND_DEPLOYMENT", name]])), () =>
          ConfigProvider.fromEnv()
        )
      )
  })

/** A provider for commands that create nothing, and so need nothing kept. */
const lookAt = (name: ProviderName, deployment: Option.Option<string> = Option.none()) =>
  Layer.provide(providers[name], Layer.merge(Ledger.layerMemory, withDeployment(deployment)))

const script = Options.text("script").pipe(
  Options.optional,
  Options.withDescription("A folder of recorded replies, replayed by a model server on 127.0.0.1: <task id>.md each")
)

const runOptions = {
  tasks,
  domains,
  provider,
  deployment,
  script,
  image: Options.text("image").pipe(
    Options.optional,
    Options.withDescription("The image or template of the desktop, for providers that start from one")
  ),
  vm: Options.text("vm").pipe(
    Options.optional,
    Options.withDescription("OSWorld's disk image (qcow2): its own virtual machine in the official image, on Docker")
  ),
  limit: positive("limit").pipe(Options.optional, Options.withDescription("The first so many tasks only")),
  agent: Options.text("agent").pipe(
    Options.withDefault("prompt"),
    Options.withDescription(
      `${Registry.names.join(", ")}, with options as NAME:KEY=VALUE,KEY=VALUE; or noop, the control, which does nothing`
    )
  ),
  history: Options.text("history").pipe(
    Options.optional,
    Options.withDescription(`Which screenshots the model still sees; the agent's own policy unless given. ${textForms}`)
  ),
  wireContract: Options.text("wire-contract").pipe(
    Options.optional,
    Options.withDescription("A JSON file with the texts of the agent's prompts, for agents whose texts are data")
  ),
  contract: Options.text("contract").pipe(
    Options.optional,
    Options.withDescription("The contract that the agent was trained under, as --print-contract writes it")
  ),
  contractMode: Options.choice("contract-mode", ["strict", "declared"]).pipe(
    Options.withDefault("strict" as const),
    Options.withDescription("Where this is another agent: strict does not start, declared writes the differences down")
  ),
  printContract: Options.boolean("print-contract").pipe(
    Options.withDescription("Print what the agent is made of as JSON, and start nothing")
  ),
  modelUrl: Options.text("model-url").pipe(
    Options.optional,
    Options.withDescription("Base address of an OpenAI-compatible API, such as http://127.0.0.1:8000/v1")
  ),
  model: Options.text("model").pipe(Options.optional, Options.withDescription("The model's name on that server")),
  apiKeyEnv: Options.text("api-key-env").pipe(
    Options.optional,
    Options.withDescription("The environment variable that holds the key; a key is never an argument")
  ),
  maxSteps: positive("max-steps").pipe(
    Options.withDefault(15),
    Options.withDescription("Steps, that is model turns, of an episode; 15 unless given")
  ),
  episodeTimeout: positive("episode-timeout").pipe(
    Options.withDefault(1800),
    Options.withDescription("Seconds of a whole attempt, setup and evaluation in it; 1800 unless given")
  ),
  modelTimeout: positive("model-timeout").pipe(
    Options.withDefault(900),
    Options.withDescription("Seconds of a model call; 900 unless given")
  ),
  actionTimeout: positive("action-timeout").pipe(
    Options.withDefault(180),
    Options.withDescription("Seconds of an action in the desktop; 180 unless given")
  ),
  concurrency: positive("concurrency").pipe(
    Options.optional,
    Options.withDescription("Desktops at a time; as many as this machine has cores unless given")
  ),
  repeats: positive("repeats").pipe(
    Options.withDefault(1),
    Options.withDescription("Rollouts of each task; 1 unless given")
  ),
  temperature: Options.float("temperature").pipe(Options.optional),
  topP: Options.float("top-p").pipe(Options.optional),
  maxTokens: positive("max-tokens").pipe(Options.optional, Options.withDescription("Tokens of one reply")),
  network: Options.choice("network", ["none", "host"]).pipe(
    Options.withDefault("none" as const),
    Options.withDescription("What a desktop sees: none, the default, or this machine's network")
  ),
  pause: Options.float("pause").pipe(
    Options.withDefault(0.5),
    Options.withDescription("Seconds that a desktop is left alone after each action; 0.5 unless given")
  ),
  out: Options.text("out").pipe(
    Options.optional,
    Options.withDescription("The run's folder; runs/<date>-<time> unless given")
  ),
  resume: Options.boolean("resume").pipe(
    Options.withDescription("Go on with the run in --out: what has a score stays, the rest is tried again")
  ),
  dryRun: Options.boolean("dry-run").pipe(Options.withDescription("Say what would run, and start nothing")),
  setup: Options.boolean("setup").pipe(Options.withDescription("Install what the tasks need first (apt-get, as root)"))
}

const decodeSampling = Schema.decodeUnknown(Sampling)

/** An option that nobody knows arrives as a task, because tasks may come before options. */
const rejectUnknownOptions = (patterns: ReadonlyArray<string>) => {
  const unknown = patterns.find((pattern) => /^--?[a-z]/.test(pattern))
  return unknown === undefined
    ? Effect.void
    : Effect.fail(new Run.UsageError({ reason: `there is no option ${unknown}; --help lists the options` }))
}

const run = Command.make("run", runOptions, ({ deployment, maxTokens, temperature, topP, ...options }) =>
  Effect.gen(function* () {
    yield* rejectUnknownOptions(options.tasks)
    const sampling = yield* Effect.mapError(
      decodeSampling({
        ...Option.match(temperature, { onNone: () => ({}), onSome: (temperature) => ({ temperature }) }),
        ...Option.match(topP, { onNone: () => ({}), onSome: (topP) => ({ topP }) }),
        ...Option.match(maxTokens, { onNone: () => ({}), onSome: (maxTokens) => ({ maxTokens }) })
      }),
      (error) => new Run.UsageError({ reason: error.message })
    )
    const bundled = options.tasks.length === 0
    const scripted = bundled && Option.isNone(options.modelUrl) && Option.isNone(options.script)
    yield* Effect.provide(
      Run.run({
        ...options,
        sampling,
        tasks: bundled ? [bundledTasks] : options.tasks,
        script: scripted ? Option.some(bundledScripts) : options.script
      }),
      withDeployment(deployment)
    )
  })
).pipe(Command.withDescription("Run tasks, grade them, and report"))

const doctor = Command.make(
  "doctor",
  { tasks, domains, provider, setup: runOptions.setup },
  ({ domains, provider, setup, tasks }) =>
    Effect.gen(function* () {
      yield* rejectUnknownOptions(tasks)
      const patterns = tasks.length === 0 ? [bundledTasks] : tasks
      const loaded = yield* TaskSource.load(patterns, domains.length === 0 ? {} : { domain: domains })
      const check = Requirements.check(loaded.map(({ task }) => task))
      const before = yield* check
      const missing = Requirements.packagesFor(before)
      if (setup && missing.length > 0) yield* Packages.install(missing, isRoot)
      const checks = setup && missing.length > 0 ? yield* check : before
      yield* Console.log(Requirements.render(checks, isRoot))
      if (checks.some(({ ok }) => !ok)) return yield* new Run.UsageError({ reason: "something is missing" })
    }).pipe(Effect.provide(lookAt(provider)))
).pipe(Command.withDescription("Say what tasks need of this machine, what is missing, and how to mend it"))

const sweep = Command.make(
  "sweep",
  {
    provider,
    deployment,
    run: Options.text("run").pipe(Options.optional, Options.withDescription("Only what this run left"))
  },
  ({ deployment, provider, run }) => Effect.provide(Sweep.sweep(run), lookAt(provider, deployment))
).pipe(Command.withDescription("Remove what runs that were killed left behind"))

const serveE2B = Command.make(
  "serve-e2b",
  {
    provider: Options.choice("provider", names).pipe(
      Options.withDefault("docker" as const),
      Options.withDescription("Where the sandboxes come from; docker unless given")
    ),
    image: runOptions.image,
    port: Options.integer("port").pipe(
      Options.optional,
      Options.withDescription("The port on 127.0.0.1; a free one unless given")
    )
  },
  ({ provider, ...options }) => Effect.provide(ServeE2B.serve(options), lookAt(provider))
).pipe(Command.withDescription("Let E2B's clients open sandboxes of a provider of ours, on this machine"))

const tokens = (name: string, unlessGiven: number, what: string) =>
  positive(name).pipe(
    Options.withDefault(unlessGiven),
    Options.withDescription(`Tokens of ${what}; ${unlessGiven} unless given`)
  )

const history = Command.make(
  "history",
  {
    policies: Options.text("policy").pipe(
      Options.atLeast(1),
      Options.withDescription(`A history policy; give it several times to compare. ${textForms}`)
    ),
    turns: positive("turns").pipe(
      Options.withDefault(100),
      Options.withDescription("Turns of the episode; 100 unless given")
    ),
    image: tokens("image-tokens", defaultSizes.image, "a screenshot"),
    text: tokens("text-tokens", defaultSizes.text, "the text of a turn"),
    system: tokens("system-tokens", defaultSizes.system, "what comes before the first turn"),
    summary: tokens("summary-tokens", defaultSizes.summary, "a summary"),
    svg: Options.text("svg").pipe(Options.optional, Options.withDescription("Also draw it, into this file"))
  },
  ({ policies, svg, turns, ...sizes }) => History.history({ policies, turns, sizes, svg })
).pipe(
  Command.withDescription("Compare what history policies cost: images, tokens, and what a prefix cache has of them")
)

const gateway = Command.make(
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
    port: Options.integer("port").pipe(Options.optional, Options.withDescription("A free port unless given")),
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
  Gateway.serve
).pipe(Command.withDescription("Stand between harnesses and a model: speak their dialects, keep what was said"))

const runFolder = Args.text({ name: "run" }).pipe(Args.withDescription("The folder that deskhand run wrote"))

const verify = Command.make("verify", { folder: runFolder }, ({ folder }) => Verify.verify(folder)).pipe(
  Command.withDescription("Check a run's evidence: every byte and blob, and every prompt made again")
)

const exported = Command.make(
  "export",
  {
    run: runFolder,
    format: Options.choice("format", Export.formats).pipe(
      Options.withDescription("ng-trajectory, exact-trace (schema 2) or atif (ATIF-v1.6)")
    ),
    out: Options.text("out").pipe(Options.withDescription("The file that is written: a line for each rollout"))
  },
  Export.exportRun
).pipe(Command.withDescription("Write a run's rollouts in a format of others"))

const command = Command.make("deskhand").pipe(
  Command.withDescription("Computer-use rollouts: sandboxed desktops, agents that act in them, honest grades"),
  Command.withSubcommands([run, doctor, sweep, history, verify, exported, serveE2B, gateway])
)

const exitCodeOf = (error: unknown): number =>
  error instanceof Run.UsageError ||
  error instanceof TaskSource.TaskSourceError ||
  error instanceof ScriptError ||
  ValidationError.isValidationError(error)
    ? 2
    : 1

const explain = (error: unknown) =>
  // @effect/cli has shown its own errors already.
  ValidationError.isValidationError(error)
    ? Effect.void
    : Console.error(`deskhand: ${error instanceof Error ? error.message : String(error)}`)

/**
 * The command: reads `argv` (Node's own, two entries before the first argument) and answers with the exit status. 0 is
 * well, 1 is what went wrong or is not complete, 2 is what was asked in a wrong way.
 *
 * @since 0.1.0
 * @category programs
 */
export const main = (argv: ReadonlyArray<string>): Effect.Effect<number> =>
  Command.run(command, { name: "deskhand", version })(argv).pipe(
    Effect.provide(Layer.merge(NodeContext.layer, NodeHttpClient.layer)),
    Effect.as(0),
    Effect.catchAll((error) => Effect.as(explain(error), exitCodeOf(error)))
  )
