/** What is wrong with the settings of one source. */
import * as Either from "effect/Either"
import * as ParseResult from "effect/ParseResult"
import * as Schema from "effect/Schema"
import { inWords } from "../../identity/Issues.js"
import { redactUrl } from "../../model/Redaction.js"
import type { Layer, Problem } from "../RunConfig.js"
import { nearest } from "./nearest.js"
import { aboutOf, Settings, settingNames, variable } from "./settings.js"

export const decode = Schema.decodeUnknownEither(Settings, { errors: "all", onExcessProperty: "error" })

const isSecret = (name: string) => /key|token$|secret|passw|credential/i.test(name)

/** What variables of this program begin with. */
export const prefix = "DESKHAND_"

const unknownName = (name: string): string => {
  if (name.startsWith(prefix)) {
    const meant = nearest(name.slice(prefix.length), settingNames)
    return `is no setting's variable${meant === undefined ? "" : `; did you mean ${variable(meant)}?`}`
  }
  if (isSecret(name)) {
    return "is no setting, and no secret is ever one: put the key into an environment variable and give its name as api-key-env"
  }
  const meant = nearest(name, settingNames)
  return `is no setting${meant === undefined ? "" : `; did you mean ${meant}?`}`
}

const pathOf = (path: ReadonlyArray<PropertyKey>): string =>
  path.reduce<string>(
    (text, part) => (typeof part === "number" ? `${text}[${part}]` : `${text}${text === "" ? "" : "."}${String(part)}`),
    ""
  )

const at = (value: unknown, path: ReadonlyArray<PropertyKey>): unknown =>
  path.reduce<unknown>(
    (inside, part) =>
      typeof inside === "object" && inside !== null ? Object.getOwnPropertyDescriptor(inside, part)?.value : undefined,
    value
  )

/** A value as it may be shown. */
const shown = (name: string, value: unknown): string => {
  const text = name === "model-url" ? redactUrl(String(value)) : JSON.stringify(value)
  return text.length > 80 ? `${text.slice(0, 80)}…` : text
}

/** What has to be an object; outside of a file it comes as JSON, and is text where it could not be read. */
const noObject = ({ source }: Layer, shown: string, value: unknown): string =>
  typeof value === "string" && source._tag !== "File"
    ? `is no JSON: ${value.slice(0, 80)}`
    : `must be an object, and is ${shown}`

/** All that is wrong with one source. */
export const wrongIn = (layer: Layer): ReadonlyArray<Problem> => {
  const known = Object.fromEntries(Array.from(layer.values).filter(([name]) => aboutOf(name) !== undefined))
  const strangers = Array.from(layer.values.keys()).filter((name) => aboutOf(name) === undefined)
  const issues = Either.match(decode(known), {
    onLeft: (error) => ParseResult.ArrayFormatter.formatErrorSync(error),
    onRight: () => []
  })
  return [
    ...strangers.map((path) => ({ path, source: layer.source, what: unknownName(path) })),
    ...issues.map(({ message, path }): Problem => {
      const name = String(path[0])
      const value = at(known, path)
      const told = name === "api-key-env" || value === undefined || !message.startsWith("must")
      const found = told ? "" : `, and is ${shown(name, value)}`
      // An address is named by what it is.
      const what =
        name === "model-url"
          ? `${shown(name, value)} ${message}`
          : aboutOf(name)?.kind === "data" && path.length === 1
            ? noObject(layer, shown(name, value), value)
            : `${inWords(message)}${found}`
      return { path: pathOf(path), source: layer.source, what }
    })
  ]
}

/** The setting that a problem is with. */
export const settingOf = ({ path }: Pick<Problem, "path">): string => /^[^.[]*/.exec(path)?.[0] ?? path
