/** `deskhand run`: what it takes, and what carries it out. */
import * as Command from "@effect/cli/Command"
import * as Options from "@effect/cli/Options"
import * as Console from "effect/Console"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Run from "../../Run.js"
import * as RunConfig from "../../RunConfig.js"
import { domains, rejectUnknownOptions, setup, tasks } from "../arguments.js"
import { bundledScripts, bundledTasks } from "../host.js"
import { withDeployment } from "../providerOptions.js"
import { flags, toOptions } from "../runOptions.js"

const own = {
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

const known = [domains, ...Object.values(flags), ...Object.values(own)]

type Text = readonly [name: string, value: string]

const textOf = (name: string, value: Option.Option<string>): ReadonlyArray<Text> =>
  Option.isNone(value) ? [] : [[name, value.value]]

const textsOf = (settings: Readonly<Record<string, Option.Option<string>>>): ReadonlyArray<Text> =>
  Object.entries(settings).flatMap(([name, value]) => textOf(name, value))

/** Flags that were given, by the names of their settings. */
const given = (
  tasks: ReadonlyArray<string>,
  domains: ReadonlyArray<string>,
  settings: Readonly<Record<string, Option.Option<string>>>
) =>
  new Map<string, string | ReadonlyArray<string>>([
    ...(tasks.length === 0 ? [] : [["tasks", tasks] as const]),
    ...(domains.length === 0 ? [] : [["domain", domains] as const]),
    ...textsOf(settings)
  ])

export const run = Command.make(
  "run",
  { tasks, domains, settings: flags, ...own },
  ({ config, domains, printConfig, settings, tasks, ...options }) =>
    Effect.gen(function* () {
      yield* rejectUnknownOptions(tasks, known, [
        ...domains.map((domain): Text => ["domain", domain]),
        ...textsOf(settings),
        ...textOf("config", config),
        ...textOf("assets", options.assets)
      ])
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
      if (scripted && asked.agent !== "noop" && !options.printContract) {
        yield* Console.error(
          "No model was given: the recorded solutions of the tasks are replayed, and the scores are theirs. For a model, give --model-url and --model"
        )
      }
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
