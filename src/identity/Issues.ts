/**
 * What is wrong with a value, in short lines: a place and what is expected there. The tree that a schema's own error prints
 * names types that whoever wrote the value has never heard of.
 *
 * @since 0.1.0
 */
import * as Arr from "effect/Array"
import * as ParseResult from "effect/ParseResult"

/**
 * @since 0.1.0
 * @category models
 */
export interface Issue {
  /** A JSON path such as `evaluator.result[1].type`. */
  readonly path: string
  readonly message: string
}

const showPath = (path: ReadonlyArray<PropertyKey>): string =>
  path.length === 0
    ? "(top level)"
    : path.map((key, i) => (typeof key === "number" ? `[${key}]` : `${i === 0 ? "" : "."}${String(key)}`)).join("")

const clip = (text: string) => (text.length > 120 ? `${text.slice(0, 117)}...` : text)

/** A structure's type is as long as the structure. */
const kindOf = (type: string): string =>
  /^\(?\{/.test(type) || /^\(.*\bside\)/.test(type) ? "an object" : type.length > 200 ? clip(type) : type

const parted = (message: string) => {
  const [, expected, found] = /^Expected ([\s\S]*), actual ([\s\S]*)$/.exec(message) ?? []
  return expected === undefined || found === undefined ? undefined : { expected: kindOf(expected), found: clip(found) }
}

const unknownKey = (message: string): string => {
  const [, known] = /^is unexpected, expected: ([\s\S]*)$/.exec(message) ?? []
  return known === undefined ? message : `is unknown; there are ${known.replaceAll('"', "").replaceAll(" | ", ", ")}`
}

/**
 * A schema's message about one place, as people are told it.
 *
 * @since 0.1.0
 * @category text
 */
export const inWords = (message: string): string => {
  const parts = parted(message)
  return parts === undefined ? unknownKey(message) : `Expected ${parts.expected}, found ${parts.found}`
}

/**
 * One line for each place. Alternatives of a union become one "Expected A or B"; that a field may also be left out is not
 * worth a word, and neither is a parent when something inside it is wrong.
 *
 * @since 0.1.0
 * @category queries
 */
export const issuesOf = (error: ParseResult.ParseError): Arr.NonEmptyReadonlyArray<Issue> => {
  const places = new Map<string, { found: string; readonly expected: Set<string>; readonly other: Set<string> }>()
  for (const issue of ParseResult.ArrayFormatter.formatErrorSync(error)) {
    const path = showPath(issue.path)
    const place = places.get(path) ?? { found: "", expected: new Set(), other: new Set() }
    places.set(path, place)
    const parts = parted(issue.message)
    if (parts === undefined) place.other.add(unknownKey(issue.message))
    else {
      if (parts.expected !== "null" && parts.expected !== "undefined") place.expected.add(parts.expected)
      place.found = parts.found
    }
  }
  const paths = Array.from(places.keys())
  const isParent = (path: string) => paths.some((other) => other.startsWith(`${path}.`) || other.startsWith(`${path}[`))
  const issues = Array.from(places, ([path, { expected, found, other }]) => ({
    path,
    message: [
      ...(expected.size > 0 ? [`Expected ${Array.from(expected).join(" or ")}, found ${found}`] : []),
      ...other
    ].join("; ")
  })).filter(({ message, path }) => message !== "" && !isParent(path))
  return Arr.isNonEmptyArray(issues) ? issues : [{ path: "(top level)", message: clip(error.message) }]
}

/**
 * All of it in one line.
 *
 * @since 0.1.0
 * @category text
 */
export const showIssues = (error: ParseResult.ParseError): string =>
  issuesOf(error)
    .map(({ message, path }) => `${path}: ${message}`)
    .join("; ")
