import * as Either from "effect/Either"
import { isObject, isSet, type JsonObject, type Reading, refuse, typeName } from "./json.js"

/** Fields of a request that only its own dialect has: what becomes of each. */
export type Fate =
  /** It says nothing that a chat server would do otherwise. */
  | { readonly drop: true }
  /** It is refused, unless its value asks for nothing. */
  | { readonly refuse: string; readonly unless?: (value: unknown) => boolean }

export const dropped: Fate = { drop: true }

/**
 * The fields that pass by the same name: all that `fates` does not name and `taken` does not translate. What neither
 * dialect knows passes too, for the upstream to judge.
 */
export const passing = (
  body: JsonObject,
  taken: ReadonlySet<string>,
  fates: Readonly<Record<string, Fate>>
): Reading<JsonObject> => {
  const passed: Array<readonly [string, unknown]> = []
  for (const [key, value] of Object.entries(body)) {
    if (taken.has(key)) continue
    const fate = Object.hasOwn(fates, key) ? fates[key] : undefined
    if (fate === undefined) passed.push([key, value])
    else if ("refuse" in fate && isSet(value) && fate.unless?.(value) !== true) return refuse(key, fate.refuse)
  }
  return Either.right(Object.fromEntries(passed))
}

/** An empty list or object asks for nothing. */
export const isEmpty = (value: unknown): boolean =>
  (Array.isArray(value) && value.length === 0) || (isObject(value) && Object.keys(value).length === 0)

/**
 * Tools and how they are chosen. Without tools nothing is chosen: a choice that demands one is refused, others are left
 * out.
 */
export const toolFields = (
  tools: ReadonlyArray<JsonObject>,
  choice: string | JsonObject | undefined,
  parallel: unknown,
  path: string
): Reading<JsonObject> => {
  if (tools.length === 0) {
    return choice === undefined || choice === "auto" || choice === "none"
      ? Either.right({})
      : refuse(path, `the tool choice ${typeName(typeof choice === "string" ? choice : "function")} without tools`)
  }
  return Either.right({
    tools,
    ...(choice === undefined ? {} : { tool_choice: choice }),
    ...(parallel === undefined ? {} : { parallel_tool_calls: parallel })
  })
}

/** A stream tells its tokens only when it is asked to. */
export const streamFields = (stream: unknown): JsonObject =>
  stream === true ? { stream_options: { include_usage: true } } : {}
