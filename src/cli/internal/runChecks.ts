/** What settings, each right by itself, must be together. */
import type { Settings } from "./settings.js"

export interface Found {
  /** The setting that has to change. */
  readonly path: string
  readonly what: string
}

export interface Context {
  readonly isSet: (variable: string) => boolean
  readonly resume: boolean
  readonly starts: boolean
  /** Settings that are wrong: they are given, whatever they should be. */
  readonly wrong: ReadonlySet<string>
}

/** Settings that nothing but a model has a use for. */
const ofModel = ["model", "api-key-env", "temperature", "top-p", "max-tokens"] as const

const model = (settings: Settings, { isSet, starts, wrong }: Context): ReadonlyArray<Found> => {
  const { "api-key-env": key, "model-url": url } = settings
  const found: Array<Found> = []
  const has = (name: keyof Settings) => settings[name] !== undefined || wrong.has(name)
  if (has("model-url") && !has("model")) {
    found.push({ path: "model", what: "is missing: --model-url wants --model, the name that the server knows" })
  }
  if (url !== undefined && key !== undefined && !isSet(key)) {
    found.push({ path: "api-key-env", what: `names ${key}, which is not set` })
  }
  const bundled = settings.tasks.length === 0 && !wrong.has("tasks")
  if (starts && settings.agent !== "noop" && !wrong.has("agent") && !has("model-url") && !has("script")) {
    // Whoever names a model must not be told that recorded solutions, which stand in for none, do well.
    const asked = ofModel.filter((name) => settings[name] !== undefined).map((name) => `--${name}`)
    if (!bundled) {
      found.push({
        path: "model-url",
        what: "is missing, so there is no model: give --model-url and --model, or --script with a folder of recorded replies, or --agent noop"
      })
    } else if (asked.length > 0) {
      found.push({
        path: "model-url",
        what: `is missing: ${asked.join(", ")} ${asked.length === 1 ? "is" : "are"} for a model, and --model-url says where it is. Without any of them recorded solutions are replayed, which no model has a part in`
      })
    }
  }
  return found
}

const desktops = (settings: Settings, { wrong }: Context): ReadonlyArray<Found> => [
  ...(settings.vm !== undefined && settings.provider !== "docker" && !wrong.has("provider")
    ? [{ path: "provider", what: "must be docker: --vm is for --provider docker" }]
    : []),
  ...(settings.network === "host" && (settings.concurrency ?? 1) > 1
    ? [
        {
          path: "concurrency",
          what: "must be 1 or left out: with --network host only one desktop runs at a time, because desktops share its ports"
        }
      ]
    : [])
]

const budget = (settings: Settings, { wrong }: Context): ReadonlyArray<Found> => {
  const priced = (["price-prompt", "price-completion"] as const).filter(
    (name) => settings[name] === undefined && !wrong.has(name)
  )
  return settings["budget-cost"] === undefined
    ? []
    : priced.map((path) => ({ path, what: "is missing: --budget-cost wants to know what tokens cost" }))
}

/** All that does not go together, and all that is missing. */
export const check = (settings: Settings, context: Context): ReadonlyArray<Found> => [
  ...model(settings, context),
  ...desktops(settings, context),
  ...budget(settings, context),
  ...(context.resume && settings.out === undefined && !context.wrong.has("out")
    ? [{ path: "out", what: "is missing: --resume wants --out, the folder of the run to go on with" }]
    : [])
]
