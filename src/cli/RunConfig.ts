/**
 * What a run is told: flags over the environment over a file, decoded together, and everything that is wrong with them
 * said at once.
 *
 * @since 0.1.0
 */
import * as FileSystem from "@effect/platform/FileSystem"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as ParseResult from "effect/ParseResult"
import * as Schema from "effect/Schema"
import { parseDocument, stringify } from "yaml"
import { redactUrl } from "../model/Redaction.js"
import { distance } from "./internal/nearest.js"
import { check } from "./internal/runChecks.js"
import { aboutOf, fromText, Settings, settingNames, variable } from "./internal/settings.js"
import { type UsageError, usage } from "./internal/usage.js"
import { decode, prefix, settingOf, wrongIn } from "./internal/wrongSettings.js"

export {
  /**
   * The settings of a run, by their names.
   *
   * @since 0.1.0
   * @category schemas
   */
  Settings
} from "./internal/settings.js"

/**
 * Where a value comes from.
 *
 * @since 0.1.0
 * @category models
 */
export type Source =
  | { readonly _tag: "Flag" }
  | { readonly _tag: "Environment" }
  | { readonly _tag: "File"; readonly path: string }
  | { readonly _tag: "Default" }

/**
 * The values of one source, by the name of the setting: not decoded yet.
 *
 * @since 0.1.0
 * @category models
 */
export interface Layer {
  readonly source: Source
  readonly values: ReadonlyMap<string, unknown>
}

/**
 * Something that is wrong or missing.
 *
 * @since 0.1.0
 * @category models
 */
export interface Problem {
  /** Where, as `failures.model.inRun`; its first part is the setting. */
  readonly path: string
  /** Absent for what is missing. */
  readonly source?: Source
  readonly what: string
}

/**
 * Settings, and where each comes from.
 *
 * @since 0.1.0
 * @category models
 */
export interface Resolved {
  readonly settings: Settings
  readonly sources: ReadonlyMap<string, Source>
}

// -----------------------------------------------------------------------------
// Decisions
// -----------------------------------------------------------------------------

/**
 * The settings of all layers, the first of which wins; or all that is wrong with any of them, and all that is missing.
 *
 * @since 0.1.0
 * @category decisions
 */
export const resolve = (
  layers: ReadonlyArray<Layer>,
  context: {
    /** Whether an environment variable is set, for the name of the one that holds the key. */
    readonly isSet: (variable: string) => boolean
    /** Whether the run goes on with an earlier one. */
    readonly resume: boolean
    /** Whether a model is asked for anything. */
    readonly starts: boolean
  }
): Either.Either<Resolved, ReadonlyArray<Problem>> => {
  const problems = layers.flatMap(wrongIn)
  // Of a wrong value nothing more can be said; what else is wrong is said all the same.
  const wrong = new Set(problems.map(settingOf))
  const values: Record<string, unknown> = {}
  const sources = new Map<string, Source>()
  for (const layer of layers) {
    for (const [name, value] of layer.values) {
      if (sources.has(name) || wrong.has(name) || aboutOf(name) === undefined) continue
      values[name] = value
      sources.set(name, layer.source)
    }
  }
  return Either.match(decode(values), {
    onLeft: (error) => Either.left([...problems, { path: "", what: ParseResult.TreeFormatter.formatErrorSync(error) }]),
    onRight: (settings) => {
      const more = check(settings, { ...context, wrong }).map(({ path, what }): Problem => {
        const source = sources.get(path)
        return { path, what, ...(source === undefined ? {} : { source }) }
      })
      const all = [...problems, ...more]
      return all.length > 0 ? Either.left(all) : Either.right({ settings, sources })
    }
  })
}

// -----------------------------------------------------------------------------
// Text
// -----------------------------------------------------------------------------

const yamlLine = (name: string, value: unknown): string =>
  stringify({ [name]: value }, { collectionStyle: "flow", lineWidth: 0 })
    .trim()
    .slice("{ ".length, -" }".length)

const nameIn = ({ path, source }: Problem): string => {
  const name = settingOf({ path })
  const inside = path === name ? "" : `${path} in `
  switch (source?._tag) {
    case "Flag":
      return name === "tasks" ? `${path} among the arguments` : `${inside}--${name}`
    case "Environment":
      return path.startsWith(prefix) ? path : `${inside}${variable(name)}`
    case "File":
      return path === "" ? "" : `${path} in ${source.path}`
    default:
      return path
  }
}

/** How a setting is set in each place. */
const howTo = (name: string): ReadonlyArray<string> => {
  const known = aboutOf(name)
  if (known === undefined) return []
  const { example } = known
  const quoted = /[^\w./:-]/.test(example) ? `'${example}'` : example
  const flag = name === "tasks" ? `deskhand run ${quoted}` : `--${name} ${quoted}`
  return [`    ${flag}    ${variable(name)}=${quoted}    in a file  ${yamlLine(name, fromText(known, example))}`]
}

/**
 * All problems as one message.
 *
 * @since 0.1.0
 * @category text
 */
export const explain = (problems: ReadonlyArray<Problem>): string =>
  [
    problems.length === 1 ? "a setting is wrong or missing:" : `${problems.length} settings are wrong or missing:`,
    ...problems.flatMap((problem) => {
      return [`  ${nameIn(problem)} ${problem.what}`.replace(/^ +/, "  "), ...howTo(settingOf(problem))]
    })
  ].join("\n")

const sourceText = (source: Source, name: string): string => {
  switch (source._tag) {
    case "Flag":
      return name === "tasks" ? "argument" : `--${name}`
    case "Environment":
      return variable(name)
    case "File":
      return source.path
    case "Default":
      return "default"
  }
}

/**
 * Every setting, its value and where that comes from, as a file that `--config` reads. What is not set is a comment.
 *
 * @since 0.1.0
 * @category text
 */
export const print = ({ settings, sources }: Resolved): string => {
  const values = new Map<string, unknown>(Object.entries(Schema.encodeSync(Settings)(settings)))
  const lines = settingNames.map((name): readonly [string, string] => {
    const value = values.get(name)
    if (value === undefined) return [`# ${name}:`, "not set"]
    const plain = name === "model-url" ? redactUrl(String(value)) : value
    const line = yamlLine(name, plain)
    return [line, sourceText(sources.get(name) ?? { _tag: "Default" }, name)]
  })
  const width = Math.min(48, Math.max(...lines.map(([line]) => line.length)))
  return lines.map(([line, from]) => `${line.padEnd(width)}  # ${from}`).join("\n")
}

// -----------------------------------------------------------------------------
// Layers
// -----------------------------------------------------------------------------

/**
 * Flags as they were given: text.
 *
 * @since 0.1.0
 * @category layers
 */
export const fromFlags = (given: ReadonlyMap<string, string | ReadonlyArray<string>>): Layer => ({
  source: { _tag: "Flag" },
  values: new Map(
    Array.from(given, ([name, value]) => {
      const known = aboutOf(name)
      return [name, typeof value === "string" && known !== undefined ? fromText(known, value) : value] as const
    })
  )
})

/** A variable that is a letter away from a setting's. Others of this program's, such as `DESKHAND_STATE_DIR`, are not. */
const misspelt = (name: string): boolean => {
  const suffix = name.slice(prefix.length)
  return (
    name.startsWith(prefix) &&
    settingNames.every((setting) => variable(setting) !== name) &&
    settingNames.some(
      (setting) => setting.length >= 5 && distance(suffix, variable(setting).slice(prefix.length)) === 1
    )
  )
}

/**
 * Variables that hold settings. One that is empty is not set.
 *
 * @since 0.1.0
 * @category layers
 */
export const fromEnvironment = (env: Readonly<Record<string, string | undefined>>): Layer => ({
  source: { _tag: "Environment" },
  values: new Map<string, unknown>([
    ...settingNames.flatMap((name) => {
      const value = env[variable(name)]
      const known = aboutOf(name)
      return value === undefined || value === "" || known === undefined ? [] : [[name, fromText(known, value)] as const]
    }),
    ...Object.keys(env).flatMap((name) => (misspelt(name) ? [[name, undefined] as const] : []))
  ])
})

const asList = (name: string, value: unknown): unknown =>
  aboutOf(name)?.kind === "list" && typeof value === "string" ? [value] : value

/**
 * The settings of a file's text, YAML or the JSON that is part of it. Fails with what keeps it from being read.
 *
 * @since 0.1.0
 * @category layers
 */
export const fromFile = (path: string, text: string): Either.Either<Layer, ReadonlyArray<Problem>> => {
  const source: Source = { _tag: "File", path }
  const unreadable = (what: string) => Either.left([{ path: "", source, what: `${path} ${what}` }])
  const document = parseDocument(text)
  const broken = document.errors.map(({ message }) => message.split("\n")[0] ?? "")
  if (broken.length > 0) return unreadable(`is neither YAML nor JSON: ${broken.join("; ")}`)
  let value: unknown
  try {
    value = document.toJS({ maxAliasCount: 100 }) ?? {}
  } catch (cause) {
    return unreadable(`cannot be read: ${cause instanceof Error ? cause.message : String(cause)}`)
  }
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    return unreadable("must hold settings by their names, such as max-steps: 30")
  }
  // What stands there without a value is as if it did not.
  const given = Object.entries(value).flatMap(([name, value]) =>
    value === null && aboutOf(name) !== undefined ? [] : [[name, asList(name, value)] as const]
  )
  return Either.right({ source, values: new Map(given) })
}

/**
 * Reads the file, if there is one, and resolves all that is given. Fails with one message.
 *
 * @since 0.1.0
 * @category operations
 */
export const load = (options: {
  readonly flags: Layer
  readonly env: Readonly<Record<string, string | undefined>>
  readonly file: string | undefined
  readonly resume: boolean
  readonly starts: boolean
}): Effect.Effect<Resolved, UsageError, FileSystem.FileSystem> =>
  Effect.gen(function* () {
    const { env, file, flags, ...context } = options
    const fs = yield* FileSystem.FileSystem
    const layers = [flags, fromEnvironment(env)]
    if (file !== undefined) {
      const text = yield* Effect.mapError(fs.readFileString(file), (error) =>
        usage(`--config names ${file}, which could not be read: ${error.message}`)
      )
      const read = fromFile(file, text)
      if (Either.isLeft(read)) return yield* usage(explain(read.left))
      layers.push(read.right)
    }
    const isSet = (name: string) => (env[name] ?? "") !== ""
    return yield* Either.mapLeft(resolve(layers, { ...context, isSet }), (problems) => usage(explain(problems)))
  })
