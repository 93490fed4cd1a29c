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
import { textForms } from "../history/BuiltIn.js"
import { defaultSizes } from "../history/Economics.js"
import { ScriptError } from "../model/Scripted.js"
import * as TaskSource from "../osworld/TaskSource.js"
import { NoRun } from "../rollout/RecordedRun.js"
import * as Ledger from "../sandbox/Ledger.js"
import * as Control from "./Control.js"
import * as Export from "./Export.js"
import { bundledScripts, bundledTasks, isRoot, version } from "./internal/host.js"
import { flags, toOptions } from "./internal/runOptions.js"
import * as Packages from "./Packages.js"
import { names, type ProviderName, providers } from "./Providers.js"
import * as Recipe from "./Recipe.js"
import * as Requirements from "./Requirements.js"
import * as Run from "./Run.js"
import * as RunConfig from "./RunConfig.js"
import * as Sweep from "./Sweep.js"

/** A command whose own modules are loaded when it is the one that runs: a run has no memory for the others. */
const later =
  <Module, Given, A, E, R>(
    load: () => Promise<Module>,
    carryOut: (module: Module, given: Given) => Effect.Effect<A, E, R>
  ) =>
  (given: Given): Effect.Effect<A, E, R> =>
    Effect.flatMap(Effect.promise(load), (module) => carryOut(module, given))

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

const image = Options.text("image").pipe(
  Options.optional,
  Options.withDescription("The image or template of the desktop, for providers that start from one")
)

const setup = Options.boolean("setup").pipe(
  Options.withDescription("Install what the tasks need first (apt-get, as root)")
)

const runOptions = {
  tasks,
  domains,
  settings: flags,
  config: Options.text("config").pipe(
    Options.optional,
    Options.withDescription(
      "A YAML or JSON file of settings, by the names of these options; DESKHAND_<NAME> is over it, and a flag over both"
    )
  ),
  printConfig: Options.boolean("print-config").pipe(
    Options.withDescription("Print every setting and where it comes from, as such a file, and start nothing")
  ),
  printContract: Options.boolean("print-contract").pipe(
    Options.withDescription("Print what the agent is made of as JSON, and start nothing")
  ),
  resume: Options.boolean("resume").pipe(
    Options.withDescription("Go on with the run in --out: what has a score stays, the rest is tried again")
  ),
  forceResume: Options.boolean("force-resume").pipe(
    Options.withDescription(
      "Go on with the run in --out although settings or tasks have changed; run.json records what"
    )
  ),
  record: Options.boolean("record").pipe(
    Options.withDescription("Make a film of each rollout, from the end of its setup on")
  ),
  compat: Options.boolean("compat").pipe(
    Options.withDescription("Grade as OSWorld's own evaluators do, their known defects included")
  ),
  assets: Options.text("assets").pipe(
    Options.optional,
    Options.withDescription("A folder of assets that deskhand prepare has filled; it is only read")
  ),
  offline: Options.boolean("offline").pipe(
    Options.withDescription("Download no assets: a task whose files are not there is not run")
  ),
  dryRun: Options.boolean("dry-run").pipe(Options.withDescription("Say what would run, and start nothing")),
  setup
}

/** An option that nobody knows arrives as a task, because tasks may come before options. */
const rejectUnknownOptions = (patterns: ReadonlyArray<string>) => {
  const unknown = patterns.find((pattern) => /^--?[a-z]/.test(pattern))
  return unknown === undefined
    ? Effect.void
    : Effect.fail(new Run.UsageError({ reason: `there is no option ${unknown}; --help lists the options` }))
}

/** Flags that were given, by the names of their settings. */
const given = (
  tasks: ReadonlyArray<string>,
  domains: ReadonlyArray<string>,
  settings: Readonly<Record<string, Option.Option<string>>>
) =>
  new Map<string, string | ReadonlyArray<string>>([
    ...(tasks.length === 0 ? [] : [["tasks", tasks] as const]),
    ...(domains.length === 0 ? [] : [["domain", domains] as const]),
    ...Object.entries(settings).flatMap(([name, value]) => (Option.isNone(value) ? [] : [[name, value.value] as const]))
  ])

const run = Command.make("run", runOptions, ({ config, domains, printConfig, settings, tasks, ...options }) =>
  Effect.gen(function* () {
    yield* rejectUnknownOptions(tasks)
    const resolved = yield* RunConfig.load({
      flags: RunConfig.fromFlags(given(tasks, domains, settings)),
      env: process.env,
      file: Option.getOrElse(config, () => process.env["DESKHAND_CONFIG"] || undefined),
      resume: options.resume || options.forceResume,
      starts: !options.printContract
    })
    if (printConfig) return yield* Console.log(RunConfig.print(resolved))
    const asked = toOptions(resolved.settings)
    const bundled = asked.tasks.length === 0
    const scripted = bundled && Option.isNone(asked.modelUrl) && Option.isNone(asked.script)
    yield* Effect.provide(
      Run.run({
        ...asked,
        ...options,
        tasks: bundled ? [bundledTasks] : asked.tasks,
        script: scripted ? Option.some(bundledScripts) : asked.script
      }),
      withDeployment(Option.fromNullable(resolved.settings.deployment))
    )
  })
).pipe(Command.withDescription("Run tasks, grade them, and report"))

const doctor = Command.make("doctor", { tasks, domains, provider, setup }, ({ domains, provider, setup, tasks }) =>
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
    image,
    port: Options.integer("port").pipe(
      Options.optional,
      Options.withDescription("The port on 127.0.0.1; a free one unless given")
    )
  },
  later(
    () => import("./ServeE2B.js"),
    (ServeE2B, { provider, ...options }) => Effect.provide(ServeE2B.serve(options), lookAt(provider))
  )
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
  later(
    () => import("./History.js"),
    (History, { policies, svg, turns, ...sizes }) => History.history({ policies, turns, sizes, svg })
  )
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
  later(
    () => import("./Gateway.js"),
    (Gateway, options) => Gateway.serve(options)
  )
).pipe(Command.withDescription("Stand between harnesses and a model: speak their dialects, keep what was said"))

const serve = Command.make(
  "serve",
  {
    provider,
    deployment,
    image,
    host: Options.text("host").pipe(
      Options.withDefault("127.0.0.1"),
      Options.withDescription("Where it listens: 127.0.0.1 unless given; others want a token")
    ),
    port: Options.integer("port").pipe(Options.optional, Options.withDescription("A free port unless given")),
    capacity: positive("capacity").pipe(
      Options.optional,
      Options.withDescription(
        "Sessions, each with a desktop, at a time; as many as this machine has cores unless given"
      )
    ),
    sessionTtl: Options.integer("session-ttl").pipe(
      Options.withSchema(Schema.Int.pipe(Schema.greaterThanOrEqualTo(60))),
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
    drainSeconds: Options.integer("drain-seconds").pipe(
      Options.withSchema(Schema.Int.pipe(Schema.nonNegative())),
      Options.withDefault(0),
      Options.withDescription(
        "Seconds that sessions have to come to their end after the first INT, TERM or HUP; 0, the default, closes them"
      )
    )
  },
  later(
    () => import("./Serve.js"),
    (Serve, { deployment, ...options }) => Effect.provide(Serve.serve(options), withDeployment(deployment))
  )
).pipe(Command.withDescription("Serve desktops over HTTP: sessions that are seeded, stepped, evaluated and closed"))

const runFolder = Args.text({ name: "run" }).pipe(Args.withDescription("The folder that deskhand run wrote"))

const verify = Command.make(
  "verify",
  { folder: runFolder },
  later(
    () => import("./Verify.js"),
    (Verify, { folder }) => Verify.verify(folder)
  )
).pipe(Command.withDescription("Check a run's evidence: every byte and blob, and every prompt made again"))

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

const shownAs = {
  json: Options.boolean("json").pipe(Options.withDescription("JSON on standard output, with all numbers")),
  markdown: Options.boolean("markdown").pipe(Options.withDescription("Markdown on standard output")),
  html: Options.text("html").pipe(
    Options.optional,
    Options.withDescription("Write a page with plots into this file; it needs nothing beside itself")
  )
}

const recorded = (name: string) => Args.text({ name }).pipe(Args.withDescription("The folder of a run (its --out)"))

const report = Command.make(
  "report",
  { folder: recorded("run"), ...shownAs },
  later(
    () => import("./Report.js"),
    (Report, options) => Report.report(options)
  )
).pipe(Command.withDescription("Say what a run came to: scores, coverage, terminations, repeats"))

const compare = Command.make(
  "compare",
  {
    a: recorded("a"),
    b: recorded("b"),
    ...shownAs,
    seed: Options.integer("seed").pipe(
      Options.withDefault(0),
      Options.withDescription("Of the bootstrap: the same seed gives the same interval; 0 unless given")
    )
  },
  later(
    () => import("./Compare.js"),
    (Compare, options) => Compare.compare(options)
  )
).pipe(
  Command.withDescription("Compare two runs over the same tasks, and say whether they differ more than repeats do")
)

const verbs = Control.verbs.map((verb): [string, (typeof Control.verbs)[number]] => [verb, verb])

const ctl = Command.make(
  "ctl",
  {
    run: runFolder,
    verb: Args.choice([...verbs], { name: "verb" }).pipe(Args.withDescription(Control.verbs.join(", "))),
    value: Args.text({ name: "value" }).pipe(
      Args.optional,
      Args.withDescription("How many for concurrency, which rollout for cancel")
    ),
    json: Options.boolean("json").pipe(Options.withDescription("Print the status as JSON"))
  },
  Control.control
).pipe(Command.withDescription("Watch over a run while it goes on: look, pause, change, call off, drain"))

const prepare = Command.make(
  "prepare",
  {
    source: Args.text({ name: "source" }).pipe(
      Args.withDescription("A checkout of OSWorld, a folder of its task files, or an archive (zip, tar, tar.gz)")
    ),
    out: Options.text("out").pipe(
      Options.withDefault("benchmark"),
      Options.withDescription("The folder that is written; benchmark unless given")
    ),
    assets: Options.text("assets").pipe(
      Options.optional,
      Options.withDescription("Where assets are kept; the cache that runs use unless given")
    ),
    skipAssets: Options.boolean("skip-assets").pipe(Options.withDescription("Fetch no assets")),
    offline: Options.boolean("offline").pipe(
      Options.withDescription("Download nothing: say whether all that tasks need is in the cache")
    ),
    concurrency: positive("concurrency").pipe(
      Options.withDefault(4),
      Options.withDescription("Downloads at a time; 4 unless given")
    ),
    shards: positive("shards").pipe(
      Options.optional,
      Options.withDescription("Also write so many shares of each part, row by row in turn")
    ),
    agent: Options.text("agent-ref").pipe(
      Options.optional,
      Options.withDescription("The name of the agent that rows carry as agent_ref; they have none unless given")
    ),
    vm: Options.text("vm").pipe(
      Options.optional,
      Options.withDescription("OSWorld's disk image (qcow2), to be identified by its content")
    ),
    expectedVmSha256: Options.text("expected-vm-sha256").pipe(
      Options.optional,
      Options.withDescription("What the disk image has to be")
    ),
    force: Options.boolean("force").pipe(
      Options.withDescription("Write over what --out holds although tasks or assets have changed")
    )
  },
  (options) =>
    Effect.flatMap(
      Effect.promise(() => import("./Prepare.js")),
      ({ prepare }) => prepare(options)
    )
).pipe(Command.withDescription("Pin OSWorld's tasks by content, write them as rows, and fetch what they need"))

const tasksCommand = Command.make(
  "tasks",
  {
    tasks,
    coverage: Options.boolean("coverage").pipe(
      Options.withDescription("Say of each task whether all of its parts are supported, and why not")
    ),
    list: Options.choice("list", ["getters", "metrics", "steps"]).pipe(
      Options.optional,
      Options.withDescription("The names of what there is")
    ),
    format: Options.choice("format", ["text", "json"]).pipe(
      Options.withDefault("text" as const),
      Options.withDescription("text, the default, or json with all of it")
    )
  },
  (options) =>
    Effect.gen(function* () {
      yield* rejectUnknownOptions(options.tasks)
      const { tasks } = yield* Effect.promise(() => import("./Tasks.js"))
      yield* tasks(options)
    })
).pipe(Command.withDescription("Say which tasks can be carried out and graded, and what there is for it"))

const recipe = Command.make(
  "recipe",
  {
    name: Args.text({ name: "name" }).pipe(Args.optional, Args.withDescription("Which one; all in short unless given")),
    format: Options.choice("format", Recipe.formats).pipe(
      Options.withDefault("table" as const),
      Options.withDescription("table, json or yaml; table unless given")
    )
  },
  Recipe.recipe
).pipe(Command.withDescription("Show what training recipes are made of"))

const command = Command.make("deskhand").pipe(
  Command.withDescription("Computer-use rollouts: sandboxed desktops, agents that act in them, honest grades"),
  Command.withSubcommands([
    run,
    report,
    compare,
    doctor,
    sweep,
    history,
    verify,
    exported,
    serve,
    serveE2B,
    gateway,
    ctl,
    prepare,
    tasksCommand,
    recipe
  ])
)

const exitCodeOf = (error: unknown): number =>
  error instanceof Run.UsageError ||
  error instanceof TaskSource.TaskSourceError ||
  error instanceof ScriptError ||
  error instanceof NoRun ||
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
