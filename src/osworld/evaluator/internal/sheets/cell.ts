/** One cell: what it holds and how it looks. */
import type { FormatKind, Style } from "../spreadsheetStyles.js"

/** Date and time without a zone, in milliseconds since 1970. */
export interface DateValue {
  readonly _tag: "Date"
  readonly millis: number
}

/** A time of day. */
export interface TimeValue {
  readonly _tag: "Time"
  readonly millis: number
}

/** An elapsed time, from formats such as `[h]:mm`. */
export interface DurationValue {
  readonly _tag: "Duration"
  readonly millis: number
}

/** `#DIV/0!` and the like. */
export interface ErrorValue {
  readonly _tag: "Error"
  readonly code: string
}

export type Stored = string | number | boolean | null

export type CellValue = Stored | DateValue | TimeValue | DurationValue | ErrorValue

export interface Cell {
  /** As an application shows it: numbers with a date format are dates. */
  readonly value: CellValue
  /** As it is stored: a date is its serial number, an error its code. */
  readonly stored: Stored
  readonly style: Style
  readonly formula: boolean
}

/** What cells of one style share. */
export interface Look {
  readonly style: Style
  readonly kind: FormatKind
  readonly formula: boolean
}
