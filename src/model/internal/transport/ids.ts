import type { JsonObject } from "../../Convert.js"
import type { CallIds } from "../../TransportLog.js"

const texts = [
  "runId",
  "taskId",
  "domain",
  "adapter",
  "rolloutId",
  "groupId",
  "sourceGroupId",
  "samplingEventId",
  "modelCallId"
] as const satisfies ReadonlyArray<keyof CallIds>

const indices = [
  "rolloutIndex",
  "attemptIndex",
  "taskAttempt",
  "step",
  "parseAttempt"
] as const satisfies ReadonlyArray<keyof CallIds>

const spelled = (name: string, between: string): string =>
  name.replace(/[A-Z]/g, (letter) => `${between}${letter.toLowerCase()}`)

/** Those of the field, and those that our own client sends to any server. */
const prefixes = ["x-nemo-gym-log-", "x-nemo-gym-", "x-deskhand-"]

const longest = 1024

const percentEncoded = (character: string): string =>
  Array.from(Buffer.from(character), (byte) => `%${byte.toString(16).toUpperCase().padStart(2, "0")}`).join("")

/** What may stand in a header: printable ASCII, the rest percent-encoded. */
const headerValue = (value: string | number): string =>
  Array.from(String(value).replace(/[\r\n]/g, ""), (character) =>
    /^[ -~]$/.test(character) ? character : percentEncoded(character)
  )
    .join("")
    .slice(0, longest)

export const toHeaders = (ids: CallIds): Readonly<Record<string, string>> =>
  Object.fromEntries(
    [...texts, ...indices].flatMap((name) => {
      const value = ids[name]
      return value === undefined || value === "" ? [] : [[`x-nemo-gym-log-${spelled(name, "-")}`, headerValue(value)]]
    })
  )

export const fromHeaders = (headers: Readonly<Record<string, string | undefined>>): CallIds => {
  const told = (name: string, shape: RegExp): ReadonlyArray<string> =>
    prefixes
      .flatMap((prefix) => headers[`${prefix}${spelled(name, "-")}`]?.trim().slice(0, longest) ?? [])
      .filter((value) => shape.test(value))
      .slice(0, 1)
  return {
    ...Object.fromEntries(texts.flatMap((name) => told(name, /./).map((value) => [name, value]))),
    ...Object.fromEntries(indices.flatMap((name) => told(name, /^\d{1,15}$/).map((value) => [name, Number(value)])))
  }
}

/** As keys of a line. */
export const toFields = (ids: CallIds): JsonObject =>
  Object.fromEntries(
    [...texts, ...indices].flatMap((name) => {
      const value = ids[name]
      return value === undefined ? [] : [[spelled(name, "_"), value]]
    })
  )
