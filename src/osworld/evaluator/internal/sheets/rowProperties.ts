/** What a row says of itself beside its cells. */
import * as Either from "effect/Either"
import { type Attributes, type Malformed, scan } from "./scan.js"

export interface RowProperties {
  readonly hidden: boolean
  readonly collapsed: boolean
  readonly height: number | null
  readonly outline_level: number
}

export const none: RowProperties = { hidden: false, collapsed: false, height: null, outline_level: 0 }

const isTrue = (text: string | undefined): boolean => text === "1" || text === "true"

/** Rows that say nothing have no entry. */
const parse = (attributes: Attributes): RowProperties | undefined => {
  let says = false
  for (const name of attributes.names()) says ||= name !== "r" && name !== "spans" && !name.includes(":")
  if (!says) return undefined
  const height = Number(attributes.get("ht") ?? Number.NaN)
  return {
    hidden: isTrue(attributes.get("hidden")),
    collapsed: isTrue(attributes.get("collapsed")),
    height: Number.isNaN(height) ? null : height,
    outline_level: Number(attributes.get("outlineLevel") ?? 0)
  }
}

/** So many different texts are remembered. */
const maxRemembered = 1000

export interface Reader {
  /** What the attributes of a row's tag say beside its number. */
  readonly read: (attributes: Attributes) => RowProperties | undefined
  /** The same of attributes as they are written behind the number. */
  readonly readWritten: (written: string) => Either.Either<RowProperties | undefined, Malformed>
}

/** Rows are alike, mostly: one object for each kind, and each text is read once. */
export const reader = (): Reader => {
  const kinds = new Map<string, RowProperties>()
  const texts = new Map<string, Either.Either<RowProperties | undefined, Malformed>>()

  const read = (attributes: Attributes): RowProperties | undefined => {
    const said = parse(attributes)
    if (said === undefined) return undefined
    const key = `${said.hidden}${said.collapsed}${said.height}:${said.outline_level}`
    const found = kinds.get(key)
    if (found !== undefined) return found
    kinds.set(key, said)
    return said
  }

  let last: readonly [written: string, Either.Either<RowProperties | undefined, Malformed>] = [
    "",
    Either.right(undefined)
  ]
  const readWritten = (written: string): Either.Either<RowProperties | undefined, Malformed> => {
    if (written !== last[0]) last = [written, readOnce(written)]
    return last[1]
  }

  const readOnce = (written: string): Either.Either<RowProperties | undefined, Malformed> => {
    const before = texts.get(written)
    if (before !== undefined) return before
    let said: RowProperties | undefined
    const open = (_: string, attributes: Attributes) => {
      said = read(attributes)
    }
    const scanned = scan(`<row r="1"${written}/>`, { open, close: () => {}, text: () => {} })
    const result = Either.map(scanned, () => said)
    if (texts.size < maxRemembered) texts.set(written, result)
    return result
  }

  return { read, readWritten }
}
