/** What a run can be told, by the one name that a setting has as a flag, in a file and, in capitals, in the environment. */
import * as Schema from "effect/Schema"
import * as Registry from "../../agents/Registry.js"
import { textForms } from "../../history/BuiltIn.js"
import { ClassPolicy } from "../../rollout/FailurePolicy.js"
import { names as providerNames } from "../Providers.js"

const saying = <A, I>(schema: Schema.Schema<A, I>, message: string): Schema.Schema<A, I> =>
  schema.annotations({ message: () => ({ message, override: true }) })

const Text = saying(Schema.NonEmptyString, "must be text; in a file, quote what looks like a number")
const Count = saying(Schema.Int.pipe(Schema.positive()), "must be a whole number from 1")
const Whole = saying(Schema.Int.pipe(Schema.nonNegative()), "must be a whole number from 0")
const Positive = saying(Schema.Finite.pipe(Schema.positive()), "must be a number above 0")
const NonNegative = saying(Schema.Finite.pipe(Schema.nonNegative()), "must be a number from 0")
const oneOf = <const L extends readonly [string, ...ReadonlyArray<string>]>(...words: L) =>
  saying(Schema.Literal(...words), `must be one of ${words.join(", ")}`)

const Texts = saying(Schema.Array(Schema.NonEmptyString), "must be a list of texts")

const unset = <A, I>(schema: Schema.Schema<A, I>) => Schema.optionalWith(schema, { exact: true })
const or = <A, I>(schema: Schema.Schema<A, I>, value: A) =>
  Schema.optionalWith(schema, { exact: true, default: () => value })

/** An environment variable's name; whoever gives a key here by mistake does not see it printed. */
const VariableName = saying(
  Schema.String.pipe(Schema.pattern(/^[A-Za-z_][A-Za-z0-9_]*$/)),
  "must be the name of an environment variable that holds the key, and never the key itself"
)

const address = (url: string) => URL.canParse(url) && /^https?:$/.test(new URL(url).protocol)

const Failures = Schema.Struct({
  infrastructure: unset(ClassPolicy),
  model: unset(ClassPolicy),
  environment: unset(ClassPolicy),
  evaluator: unset(ClassPolicy),
  task: unset(ClassPolicy),
  defect: unset(ClassPolicy),
  cancelled: unset(ClassPolicy),
  unresolved: unset(ClassPolicy)
})

export const Settings = Schema.Struct({
  tasks: or(Texts, []),
  domain: or(Texts, []),
  limit: unset(Count),
  repeats: or(Count, 1),
  agent: or(Text, "prompt"),
  history: unset(Text),
  "wire-contract": unset(Text),
  contract: unset(Text),
  "contract-mode": or(oneOf("strict", "declared"), "strict"),
  "model-url": unset(saying(Schema.String.pipe(Schema.filter(address)), "is no http or https address")),
  model: unset(Text),
  "api-key-env": unset(VariableName),
  script: unset(Text),
  temperature: unset(saying(Schema.Finite.pipe(Schema.between(0, 2)), "must be a number from 0 to 2")),
  "top-p": unset(
    saying(
      Schema.Finite.pipe(Schema.greaterThan(0), Schema.lessThanOrEqualTo(1)),
      "must be a number above 0 and up to 1"
    )
  ),
  "max-tokens": unset(Count),
  "max-steps": or(Count, 15),
  "episode-timeout": or(Count, 1800),
  "model-timeout": or(Count, 900),
  "action-timeout": or(Count, 180),
  provider: or(oneOf(...providerNames), "local"),
  deployment: unset(Text),
  "environment-url": unset(saying(Schema.String.pipe(Schema.filter(address)), "is no http or https address")),
  "environment-token-env": unset(VariableName),
  image: unset(Text),
  vm: unset(Text),
  network: or(oneOf("none", "host"), "none"),
  pause: or(NonNegative, 0.5),
  out: unset(Text),
  concurrency: unset(Count),
  creates: unset(Count),
  "creates-per-second": unset(Positive),
  "ramp-up-seconds": unset(Positive),
  "max-resident": unset(Count),
  "budget-seconds": unset(Positive),
  "budget-drain-seconds": unset(NonNegative),
  "budget-tokens": unset(Count),
  "budget-cost": unset(NonNegative),
  "price-prompt": unset(NonNegative),
  "price-completion": unset(NonNegative),
  "breaker-failures": or(Whole, 10),
  failures: unset(Failures),
  "drain-seconds": or(NonNegative, 0)
})

export type Settings = typeof Settings.Type

export type Name = keyof Settings

export interface About {
  /** How its text is read, on a command line and in the environment. */
  readonly kind: "text" | "number" | "list" | "data"
  readonly about: string
  /** A value, as text, that somebody may copy. */
  readonly example: string
}

const text = (about: string, example: string): About => ({ kind: "text", about, example })
const number = (about: string, example: number): About => ({ kind: "number", about, example: String(example) })

/** In the order in which they are told. */
export const about: Readonly<Record<Name, About>> = {
  tasks: {
    kind: "list",
    about:
      "Task files, folders, globs in quotes, or JSONL files of rows; without any, the ten tasks that come with Deskhand",
    example: "tasks/*.json"
  },
  domain: { kind: "list", about: "Only tasks of this domain; may be given several times", example: "os" },
  limit: number("The first so many tasks only", 10),
  repeats: number("Rollouts of each task; 1 unless given", 4),
  agent: text(
    `${Registry.names.join(", ")}, with options as NAME:KEY=VALUE,KEY=VALUE; or noop, the control, which does nothing; prompt unless given`,
    "prompt"
  ),
  history: text(`Which screenshots the model still sees; the agent's own policy unless given. ${textForms}`, "fixed:3"),
  "wire-contract": text(
    "A JSON file with the texts of the agent's prompts, for agents whose texts are data",
    "wire.json"
  ),
  contract: text(
    "The contract that the agent was trained under, as --print-contract writes it; another agent is not started",
    "contract.json"
  ),
  "contract-mode": text(
    "Where this is another agent: strict, the default, does not start, declared writes the differences down",
    "declared"
  ),
  "model-url": text("Base address of the model's API, such as http://127.0.0.1:8000/v1", "http://127.0.0.1:8000/v1"),
  model: text("The model's name on that server", "qwen2.5-vl-72b"),
  "api-key-env": text("The environment variable that holds the key; a key is never an argument", "OPENAI_API_KEY"),
  script: text(
    "A folder of recorded replies, replayed by a model server on 127.0.0.1: <task id>.md each",
    "examples/solutions"
  ),
  temperature: number("From 0 to 2; what the server has unless given", 0.6),
  "top-p": number("Above 0, up to 1; what the server has unless given", 0.95),
  "max-tokens": number("Tokens of one reply", 4096),
  "max-steps": number("Steps, that is model turns, of an episode; 15 unless given", 30),
  "episode-timeout": number("Seconds of a whole attempt, setup and evaluation in it; 1800 unless given", 3600),
  "model-timeout": number("Seconds of a model call; 900 unless given", 300),
  "action-timeout": number("Seconds of an action in the desktop; 180 unless given", 120),
  provider: text(
    `Where desktops come from: ${providerNames.join(", ")}; local, the default, is containers on this machine, and the others are configured by the environment`,
    "docker"
  ),
  deployment: text("The deployment that sandboxes belong to and that a sweep is scoped to", "team-a"),
  "environment-url": text(
    "Where a deskhand serve is, whose desktops are then used in the place of a provider's",
    "http://desktops.example:8600"
  ),
  "environment-token-env": text(
    "The environment variable that holds what that server wants to be shown",
    "DESKHAND_SERVE_TOKEN"
  ),
  image: text("The image or template of the desktop, for providers that start from one", "deskhand-desktop:latest"),
  vm: text("OSWorld's disk image (qcow2): its own virtual machine in the official image, on Docker", "Ubuntu.qcow2"),
  network: text("What a desktop sees: none, the default, or this machine's network by host", "none"),
  pause: number("Seconds that a desktop is left alone after each action; 0.5 unless given", 2),
  out: text("The run's folder; runs/<date>-<time> unless given", "runs/today"),
  concurrency: number("Desktops at a time; as many as this machine has cores unless given", 8),
  creates: number("Desktops that may be opening at a time; as many as may run unless given", 4),
  "creates-per-second": number("Desktops that may begin to open in a second; no limit unless given", 2),
  "ramp-up-seconds": number(
    "In so many seconds, evenly, from one desktop at a time to all of them; at once unless given",
    120
  ),
  "max-resident": number("Rollouts in memory, those that run and those that wait", 256),
  "budget-seconds": number("Rollouts start for so long, less the drain margin; no limit unless given", 36000),
  "budget-drain-seconds": number(
    "How long before that nothing starts any more; what three of four rollouts take unless given",
    900
  ),
  "budget-tokens": number("Tokens after which nothing starts any more; no limit unless given", 50_000_000),
  "budget-cost": number("Cost after which nothing starts any more; wants both prices", 200),
  "price-prompt": number("What a million prompt tokens cost", 2.5),
  "price-completion": number("What a million tokens of replies cost", 10),
  "breaker-failures": number(
    "Failures of one kind in a row after which a run waits and probes; 10 unless given, 0 never",
    20
  ),
  failures: {
    kind: "data",
    about:
      "How often what fails is tried, by the class of the failure, as JSON: inRun and inAll, and how long it waits; a resumed run tries what was called off again where cancelled.inAll says so, and what has no known end unresolved.inAll times (3 unless given)",
    example: '{"model":{"inRun":3}}'
  },
  "drain-seconds": number(
    "Seconds that rollouts have to come to their end after the first INT, TERM or HUP; 0, the default, interrupts them",
    600
  )
}

const listed: Readonly<Record<string, About>> = about

export const aboutOf = (name: string): About | undefined => (Object.hasOwn(listed, name) ? listed[name] : undefined)

export const settingNames: ReadonlyArray<string> = Object.keys(about)

/** The variable that holds a setting. */
export const variable = (name: string): string => `DESKHAND_${name.replaceAll("-", "_").toUpperCase()}`

/** A value from text; what cannot be read stays text, and the schema says what is wrong with it. */
export const fromText = ({ kind }: Pick<About, "kind">, value: string): unknown => {
  switch (kind) {
    case "text":
      return value
    case "number":
      return /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i.test(value.trim()) ? Number(value) : value
    case "list":
      // A glob may hold commas: then it comes as JSON.
      if (!value.trim().startsWith("["))
        return value.split(",").flatMap((part) => (part.trim() === "" ? [] : [part.trim()]))
      return parsed(value)
    case "data":
      return parsed(value)
  }
}

const parsed = (value: string): unknown => {
  try {
    return JSON.parse(value)
  } catch {
    return value
  }
}
