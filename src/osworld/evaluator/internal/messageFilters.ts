/**
 * `msgFilterRules.dat` of Thunderbird: lines `key="value"`. A filter begins with its name; each action is followed by its
 * value where it has one; the condition ends it.
 */

export interface Action {
  readonly action: string
  readonly actionValue?: string
}

export interface Filter {
  readonly name: string
  readonly enabled?: string
  readonly type?: string
  readonly actions: ReadonlyArray<Action>
  /** `ALL`, or terms such as `AND (subject,contains,invoice)`. */
  readonly condition: ReadonlyArray<string>
}

const line = /^(\w+)="(.*)"\s*$/

const unescape = (value: string): string => value.replace(/\\(["\\])/g, "$1")

/** A value with parentheses or quotes in it is quoted once more, so no other has any. */
const term = /\b(?:AND|OR) \((?:"(?:[^"\\]|\\.)*"|[^,()"]+),[\w ']+,(?:"(?:[^"\\]|\\.)*"|[^()]*)\)|\bALL\b/g

const conditionOf = (value: string): ReadonlyArray<string> => Array.from(value.match(term) ?? [])

export const parse = (content: string): ReadonlyArray<Filter> => {
  const filters: Array<Filter> = []
  let current: Omit<Filter, "condition"> | undefined
  for (const one of content.split("\n")) {
    const [, key, escaped = ""] = line.exec(one) ?? []
    const value = unescape(escaped)
    if (key === "name") current = { name: value, actions: [] }
    if (current === undefined) continue
    if (key === "enabled" || key === "type") current = { ...current, [key]: value }
    if (key === "action") current = { ...current, actions: [...current.actions, { action: value }] }
    if (key === "actionValue") {
      const last = current.actions.at(-1)
      if (last !== undefined) {
        current = { ...current, actions: [...current.actions.slice(0, -1), { ...last, actionValue: value }] }
      }
    }
    if (key === "condition") {
      filters.push({ ...current, condition: conditionOf(value) })
      current = undefined
    }
  }
  return filters
}
