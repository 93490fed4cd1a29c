/** Functions of single values: numbers, text and dates. */
import * as V from "./values.js"

type ScalarFunction = (...values: ReadonlyArray<V.Scalar>) => V.Scalar

/** All inputs as numbers, or the first error among them. */
const onNumbers =
  (f: (...numbers: ReadonlyArray<number>) => number | V.FormulaError): ScalarFunction =>
  (...values) => {
    const numbers: Array<number> = []
    for (const value of values) {
      const number = V.toNumber(value)
      if (V.isError(number)) return number
      numbers.push(number)
    }
    const result = f(...numbers)
    return typeof result === "number" ? V.finite(result) : result
  }

/** The first input as text, the others as they are. */
const onText =
  (f: (text: string, ...rest: ReadonlyArray<V.Scalar>) => V.Scalar): ScalarFunction =>
  (value = null, ...rest) => {
    const text = V.toText(value)
    const failed = rest.find(V.isError)
    return typeof text === "string" ? (failed ?? f(text, ...rest)) : text
  }

const length = (value: V.Scalar | undefined, otherwise: number): number | V.FormulaError => {
  const number = value === undefined ? otherwise : V.toNumber(value)
  return typeof number === "number" && number < 0 ? V.error("#VALUE!") : number
}

const rounded = (toward: (value: number) => number) =>
  onNumbers((value = 0, digits = 0) => {
    const factor = 10 ** Math.trunc(digits)
    // Decimal fractions are a little off in binary: 1.005 * 100 is 100.49999999999999.
    const scaled = Number((Math.abs(value) * factor).toPrecision(15))
    return (Math.sign(value) * toward(scaled)) / factor
  })

const multiple = (toward: (value: number) => number) =>
  onNumbers((value = 0, step = 1) => (step === 0 ? 0 : toward(value / step) * step))

const find = (fold: (text: string) => string, wild: boolean): ScalarFunction => {
  return (wanted = null, within = null, from) => {
    const needle = V.toText(wanted)
    const text = V.toText(within)
    const start = length(from, 1)
    if (typeof needle !== "string") return needle
    if (typeof text !== "string") return text
    if (V.isError(start)) return start
    const first = Math.trunc(start) - 1
    if (first < 0 || first > text.length) return V.error("#VALUE!")
    if (wild && /[*?~]/.test(needle)) {
      // Each start is one linear comparison; texts this long in a cell are none that a person looks at.
      if (text.length > 1000) return V.error("#VALUE!")
      for (let i = first; i <= text.length; i++) if (V.like(text.slice(i), `${needle}*`)) return i + 1
      return V.error("#VALUE!")
    }
    const place = fold(text).indexOf(fold(needle), first)
    return place < 0 ? V.error("#VALUE!") : place + 1
  }
}

const substitute: ScalarFunction = onText((text, before = null, after = null, which) => {
  const [old, next] = [V.toText(before), V.toText(after)]
  if (typeof old !== "string" || typeof next !== "string" || old === "") return text
  const parts = text.split(old)
  if (which === undefined) return V.joined(parts.flatMap((part, i) => (i === 0 ? [part] : [next, part])))
  const nth = V.toNumber(which)
  if (V.isError(nth)) return nth
  return V.joined(parts.flatMap((part, i) => (i === 0 ? [part] : [i === Math.trunc(nth) ? next : old, part])))
})

export const textFunctions: Record<string, ScalarFunction> = {
  LEN: onText((text) => text.length),
  UPPER: onText((text) => text.toUpperCase()),
  LOWER: onText((text) => text.toLowerCase()),
  PROPER: onText((text) =>
    text.toLowerCase().replace(/\p{L}+/gu, (word) => word.charAt(0).toUpperCase() + word.slice(1))
  ),
  TRIM: onText((text) => text.replace(/ +/g, " ").replace(/^ | $/g, "")),
  LEFT: onText((text, count) => {
    const wanted = length(count, 1)
    return V.isError(wanted) ? wanted : text.slice(0, Math.trunc(wanted))
  }),
  RIGHT: onText((text, count) => {
    const wanted = length(count, 1)
    return V.isError(wanted) ? wanted : text.slice(Math.max(0, text.length - Math.trunc(wanted)))
  }),
  MID: onText((text, from, count) => {
    const start = length(from, 1)
    const wanted = length(count, 0)
    if (V.isError(start)) return start
    if (V.isError(wanted)) return wanted
    return start < 1
      ? V.error("#VALUE!")
      : text.slice(Math.trunc(start) - 1, Math.trunc(start) - 1 + Math.trunc(wanted))
  }),
  EXACT: onText((text, other = null) => text === V.toText(other)),
  SEARCH: find((text) => text.toLowerCase(), true),
  FIND: find((text) => text, false),
  SUBSTITUTE: substitute,
  CONCATENATE: (...values) => V.joined(values.map(V.toText)),
  CONCAT: (...values) => V.joined(values.map(V.toText)),
  VALUE: onNumbers((value = 0) => value),
  N: (value = null) => (V.isError(value) || typeof value === "number" ? value : value === true ? 1 : 0),
  T: (value = null) => (V.isError(value) || typeof value === "string" ? value : ""),
  ABS: onNumbers((value = 0) => Math.abs(value)),
  SIGN: onNumbers((value = 0) => Math.sign(value)),
  INT: onNumbers((value = 0) => Math.floor(value)),
  SQRT: onNumbers((value = 0) => Math.sqrt(value)),
  POWER: onNumbers((value = 0, exponent = 0) => value ** exponent),
  MOD: onNumbers((value = 0, by = 0) => (by === 0 ? V.error("#DIV/0!") : value - by * Math.floor(value / by))),
  ROUND: rounded(Math.round),
  ROUNDUP: rounded(Math.ceil),
  ROUNDDOWN: rounded(Math.floor),
  TRUNC: rounded(Math.floor),
  FLOOR: multiple(Math.floor),
  CEILING: multiple(Math.ceil),
  "FLOOR.MATH": multiple(Math.floor),
  "CEILING.MATH": multiple(Math.ceil),
  ISEVEN: (value = null) => parity(value, 0),
  ISODD: (value = null) => parity(value, 1)
}

const parity = (value: V.Scalar, rest: number): V.Scalar => {
  const number = V.toNumber(value)
  return V.isError(number) ? number : Math.abs(Math.trunc(number) % 2) === rest
}

const dayMillis = 86_400_000
const epoch = Date.UTC(1899, 11, 30)

const dateOf = (serial: number): Date => new Date(epoch + Math.floor(serial) * dayMillis)

const serialOf = (year: number, month: number, day: number): number =>
  (Date.UTC(year < 1900 ? year + 1900 : year, month - 1, day) - epoch) / dayMillis

/** Kinds of weeks by the number that WEEKDAY takes: the day, 0 is Sunday, that has number 1. */
const weekStart = (kind: number): number | undefined => {
  if (kind === 1 || kind === 17) return 0
  if (kind === 2 || kind === 11) return 1
  return kind >= 12 && kind <= 16 ? kind - 10 : undefined
}

export const dateFunctions: Record<string, ScalarFunction> = {
  DATE: onNumbers((year = 0, month = 0, day = 0) => serialOf(Math.trunc(year), Math.trunc(month), Math.trunc(day))),
  YEAR: onNumbers((serial = 0) => dateOf(serial).getUTCFullYear()),
  MONTH: onNumbers((serial = 0) => dateOf(serial).getUTCMonth() + 1),
  DAY: onNumbers((serial = 0) => dateOf(serial).getUTCDate()),
  HOUR: onNumbers((serial = 0) => Math.floor(Math.round((serial % 1) * 86_400) / 3600) % 24),
  WEEKDAY: onNumbers((serial = 0, kind = 1) => {
    const day = dateOf(serial).getUTCDay()
    if (kind === 3) return (day + 6) % 7
    const start = weekStart(kind)
    return start === undefined ? V.error("#NUM!") : ((day - start + 7) % 7) + 1
  }),
  EOMONTH: onNumbers((serial = 0, months = 0) => {
    const date = dateOf(serial)
    return serialOf(date.getUTCFullYear(), date.getUTCMonth() + 2 + Math.trunc(months), 0)
  })
}
