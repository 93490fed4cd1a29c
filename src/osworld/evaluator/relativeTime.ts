/**
 * Rules that speak of days as people do, "tomorrow" or "10th next month", made into rules that name them.
 *
 * @since 0.1.0
 */
import * as Either from "effect/Either"
import * as Schema from "effect/Schema"

/**
 * A day of the calendar. Months count from 1.
 *
 * @since 0.1.0
 * @category models
 */
export interface Day {
  readonly year: number
  readonly month: number
  readonly day: number
}

/**
 * The days that rules can name.
 *
 * @since 0.1.0
 * @category models
 */
export const Phrase = Schema.Literal(
  "tomorrow",
  "this month",
  "5th next month",
  "10th next month",
  "11th next month",
  "this Saturday",
  "this Sunday",
  "next Monday",
  "next Monday split",
  "next Friday",
  "next Friday split",
  "next Saturday",
  "next Sunday",
  "next week Friday",
  "next week Saturday",
  "next week Sunday",
  "first monday four months later",
  "first monday eight months later"
)

/**
 * @since 0.1.0
 * @category models
 */
export type Phrase = typeof Phrase.Type

/**
 * What a task gives: which days are meant, and what is expected, with placeholders in it. With `from` alone they stand
 * in `expected.time`; with `to` in `expected.from` and `expected.to`. A phrase that ends in "split" fills
 * `puDay`, `puMonth` and `puYear` (as `from`) or `doDay`, `doMonth` and `doYear` (as `to`) in their place.
 *
 * @since 0.1.0
 * @category models
 */
export const Rules = Schema.Struct(
  {
    relativeTime: Schema.Struct({
      from: Phrase,
      to: Schema.optionalWith(Phrase, { exact: true })
    }),
    expected: Schema.Record({ key: Schema.String, value: Schema.Unknown }),
    /** An IANA name such as `Europe/Zurich`: where it is today. */
    timezone: Schema.optionalWith(Schema.String, { exact: true })
  },
  { key: Schema.String, value: Schema.Unknown }
)

/**
 * @since 0.1.0
 * @category models
 */
export type Rules = typeof Rules.Type

const millisPerDay = 24 * 60 * 60 * 1000

const utc = ({ day, month, year }: Day): Date => new Date(Date.UTC(year, month - 1, day))

const ofUtc = (date: Date): Day => ({
  year: date.getUTCFullYear(),
  month: date.getUTCMonth() + 1,
  day: date.getUTCDate()
})

const addDays = (from: Day, days: number): Day => ofUtc(new Date(utc(from).getTime() + days * millisPerDay))

/** The same day of a later month, for days that every month has. */
const dayOfMonth = (from: Day, months: number, day: number): Day =>
  ofUtc(new Date(Date.UTC(from.year, from.month - 1 + months, day)))

/** 0 is Monday. */
const weekday = (day: Day): number => (utc(day).getUTCDay() + 6) % 7

/** The first such weekday after today. */
const upcoming = (now: Day, wanted: number): Day => addDays(now, ((wanted - weekday(now) + 6) % 7) + 1)

/** That weekday of the week that `day` is in; weeks begin on Monday. */
const ofWeek = (day: Day, wanted: number): Day => addDays(day, wanted - weekday(day))

const nextMonday = (now: Day): Day => upcoming(now, 0)

const firstMonday = (now: Day, months: number): Day => {
  const first = dayOfMonth(now, months, 1)
  return addDays(first, (7 - weekday(first)) % 7)
}

const friday = 4
const saturday = 5
const sunday = 6

/** `from` is the phrase that this one is the end of: "next Friday" after "next Monday" is the Friday of that week. */
const dayOf = (phrase: Phrase, now: Day, from: { readonly phrase: Phrase; readonly day: Day } | undefined): Day => {
  switch (phrase) {
    case "tomorrow":
      return addDays(now, 1)
    case "this month":
      return now
    case "5th next month":
      return dayOfMonth(now, 1, 5)
    case "10th next month":
      return dayOfMonth(now, 1, 10)
    case "11th next month":
      return dayOfMonth(now, 1, 11)
    case "this Saturday":
      return ofWeek(now, saturday)
    case "this Sunday":
      return ofWeek(now, sunday)
    case "next Monday":
    case "next Monday split":
      return nextMonday(now)
    case "next Friday":
    case "next Friday split":
      return from?.phrase === "next Monday" || from?.phrase === "next Monday split"
        ? addDays(from.day, friday)
        : upcoming(now, friday)
    case "next Saturday":
      return upcoming(now, saturday)
    case "next Sunday":
      return from?.phrase === "next Friday" || from?.phrase === "next Saturday"
        ? ofWeek(from.day, sunday)
        : upcoming(now, sunday)
    case "next week Friday":
      return addDays(nextMonday(now), friday)
    case "next week Saturday":
      return addDays(nextMonday(now), saturday)
    case "next week Sunday":
      return addDays(nextMonday(now), sunday)
    case "first monday four months later":
      return firstMonday(now, 4)
    case "first monday eight months later":
      return firstMonday(now, 8)
  }
}

/** Upstream counts months modulo 12, finds that December is month 0, and has no day there. */
const hasMonthZero = (phrase: Phrase, now: Day): boolean =>
  (phrase === "first monday four months later" && now.month === 8) ||
  (phrase === "first monday eight months later" && now.month === 4)

const months = [
  "January",
  "February",
  "March",
  "April",
  "May",
  "June",
  "July",
  "August",
  "September",
  "October",
  "November",
  "December"
]
const weekdays = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"]

const twoDigits = (number: number): string => String(number).padStart(2, "0")

/**
 * A template with the day in it: `{DoW}` Mon, `{Month}` Jan, `{MonthFull}` January, `{month}` january, `{MonthD}` 1,
 * `{Month0D}` 01, `{DayD}` 1, `{Day0D}` 01, `{Year}`. Each is filled in where it first stands.
 *
 * @since 0.1.0
 * @category formatting
 */
export const fill = (template: string, day: Day): string => {
  const name = months[day.month - 1] ?? ""
  return Object.entries({
    DoW: weekdays[weekday(day)] ?? "",
    Month: name.slice(0, 3),
    MonthFull: name,
    month: name.toLowerCase(),
    MonthD: String(day.month),
    Month0D: twoDigits(day.month),
    DayD: String(day.day),
    Day0D: twoDigits(day.day),
    Year: String(day.year)
  }).reduce((text, [placeholder, value]) => text.replace(`{${placeholder}}`, () => value), template)
}

/**
 * The day that it is at an instant (milliseconds since 1970) in a time zone. A zone that nobody knows is `Left`; `compat`
 * takes UTC for it, as upstream does.
 *
 * @since 0.1.0
 * @category conversions
 */
export const dayAt = (
  instant: number,
  timezone: string,
  { compat }: { readonly compat: boolean }
): Either.Either<Day, string> =>
  Either.orElse(
    Either.try({
      try: () => {
        const parts = new Intl.DateTimeFormat("en-US", {
          timeZone: timezone,
          calendar: "gregory",
          numberingSystem: "latn",
          year: "numeric",
          month: "numeric",
          day: "numeric"
        }).formatToParts(instant)
        const number = (type: string) => Number(parts.find((part) => part.type === type)?.value)
        return { year: number("year"), month: number("month"), day: number("day") }
      },
      catch: () => `nobody knows the time zone ${JSON.stringify(timezone)}`
    }),
    (reason) => (compat ? Either.right(ofUtc(new Date(instant))) : Either.left(reason))
  )

const fillValue = (value: unknown, day: Day): Either.Either<unknown, string> => {
  if (typeof value === "string") return Either.right(fill(value, day))
  if (Array.isArray(value)) return Either.all(value.map((each: unknown) => fillValue(each, day)))
  return Either.left(`a template is text or a list of texts, not ${JSON.stringify(value)}`)
}

/**
 * The rules with days in place of placeholders; what was given stays as it is. `Left` says why the rules make no sense.
 *
 * `compat` fails where upstream does: for the first Monday of a December.
 *
 * @since 0.1.0
 * @category conversions
 */
export const resolve = (
  rules: Rules,
  now: Day,
  { compat }: { readonly compat: boolean }
): Either.Either<Rules, string> =>
  Either.gen(function* () {
    const { from, to } = rules.relativeTime
    for (const phrase of [from, to]) {
      if (compat && phrase !== undefined && hasMonthZero(phrase, now)) {
        return yield* Either.left(`there is no month 0, which "${phrase}" is from month ${now.month}`)
      }
    }
    const keysOf = (phrase: Phrase, prefix: string, whole: string): ReadonlyArray<string> =>
      phrase.endsWith(" split") ? [`${prefix}Day`, `${prefix}Month`, `${prefix}Year`] : [whole]
    const first = dayOf(from, now, undefined)
    const targets: Array<readonly [ReadonlyArray<string>, Day]> = [
      [keysOf(from, "pu", to === undefined ? "time" : "from"), first]
    ]
    if (to !== undefined) targets.push([keysOf(to, "do", "to"), dayOf(to, now, { phrase: from, day: first })])

    const expected: Record<string, unknown> = { ...rules.expected }
    for (const [keys, day] of targets) {
      for (const key of keys) {
        if (!Object.hasOwn(expected, key)) return yield* Either.left(`expected.${key} is missing`)
        expected[key] = yield* Either.mapLeft(fillValue(expected[key], day), (reason) => `expected.${key}: ${reason}`)
      }
    }
    return { ...rules, expected }
  })
