/**
 * Metrics over text that programs have written: lines, numbers, programs' sources, style sheets, and when it was written.
 *
 * @since 0.1.0
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Schema from "effect/Schema"
import * as Difflib from "./internal/difflib.js"
import * as Html from "./internal/html.js"
import { expandTabs, splitLines } from "./internal/lines.js"
import { type Metric, make, makeEffect, type Reader as ReaderType, verdict } from "./Metric.js"
import * as Reader from "./Reader.js"

const none = Schema.Struct({})

const Count = Schema.Union(Schema.NonNegativeInt, Schema.compose(Schema.NumberFromString, Schema.NonNegativeInt))

/** With the second that is put in now and then. */
const timeOfDay = /([01]\d|2[0-3]):[0-5]\d:(?:[0-5]\d|60)/

const expectingCount = Reader.json(Schema.Struct({ expected: Count }))

/**
 * As many lines of the file as expected contain a time, `HH:MM:SS`.
 *
 * @since 0.1.0
 * @category metrics
 */
export const checkLineNumber: Metric = make({
  name: "check_line_number",
  result: Reader.text,
  expected: expectingCount,
  options: none,
  score: (text, { expected }) => verdict(text.split("\n").filter((line) => timeOfDay.test(line)).length === expected)
})

/**
 * How similar two files are, line by line: `ratio()` of Python's `difflib.SequenceMatcher`, a fraction.
 *
 * @since 0.1.0
 * @category metrics
 */
export const diffTextFile: Metric = make({
  name: "diff_text_file",
  result: Reader.text,
  expected: Reader.text,
  options: none,
  score: (result, expected) => Difflib.ratio(splitLines(result), splitLines(expected))
})

/** As Python's `float` reads it, apart from infinities and what is no number. */
const numberOf = (text: string): number | undefined =>
  /^[+-]?(\d[\d_]*\.?\d*|\.\d+)(e[+-]?\d+)?$/i.test(text) ? Number(text.replaceAll("_", "")) : undefined

/** As far as a number goes on, in characters. */
const nearby = 40

/** Whether a text names a number: not a part of another one, but perhaps with further decimals. */
const names = (text: string, number: string): boolean => {
  for (let at = text.indexOf(number); at >= 0; at = text.indexOf(number, at + 1)) {
    const before = text.slice(Math.max(0, at - nearby), at)
    const after = text.slice(at + number.length, at + number.length + nearby)
    const goesOn = /\d\.?$/.test(before) || (/\d,$/.test(before) && /^\d{3}(?!\d)/.test(number))
    const starts = !goesOn && !/(^|[\s=:(])[-.]$/.test(before)
    const ends = number.includes(".") || !/^(\d|\.\d*[1-9]|,\d{3}(?!\d))/.test(after)
    if (starts && ends) return true
  }
  return false
}

const closeness = 1e-4

/**
 * Two files say the same, apart from white space at their ends. Where the expected content is a number, it is enough to be
 * as close as 0.0001, or to name that number among other words.
 *
 * Upstream takes a number for named that is a part of another one: 5 in 15.
 *
 * @since 0.1.0
 * @category metrics
 */
export const compareResultFiles: Metric = make({
  name: "compare_result_files",
  result: Reader.text,
  expected: Reader.text,
  options: none,
  score: (result, expected, _, { compat }) => {
    const found = result.trim()
    const wanted = expected.trim()
    const number = numberOf(wanted)
    if (number === undefined) return verdict(found === wanted)
    if (compat ? found.includes(wanted) : names(found, wanted)) return verdict(true)
    const other = numberOf(found)
    return verdict(other !== undefined && Math.abs(other - number) < closeness)
  }
})

const isPreamble = (line: string): boolean => /^\s*(#!|# -\*- coding:|# coding[:=])/.test(line)

/** What a Python source says, whatever its blank lines, its tabs (of four columns), its `#!` and its coding. */
const pythonLines = (source: string): string => {
  const lines = splitLines(source)
  const start = lines.slice(0, 3).findIndex((line) => !isPreamble(line))
  return lines
    .slice(start < 0 ? Math.min(3, lines.length) : start)
    .filter((line) => line.trim() !== "")
    .map((line) => expandTabs(line, 4).trimEnd())
    .join("\n")
}

/**
 * Two Python sources are the same text. `#!` and coding lines at the top, blank lines and white space at the ends of lines
 * don't count, and a tab is as good as the blanks up to a multiple of four. Nothing is run.
 *
 * @since 0.1.0
 * @category metrics
 */
export const comparePythonPureText: Metric = make({
  name: "compare_python_pure_text",
  result: Reader.text,
  expected: Reader.text,
  options: none,
  score: (result, expected) => verdict(pythonLines(result) === pythonLines(expected))
})

/** What the desktop itself says although it stands in the place of gold: that it is not there is the agent's doing. */
const ofDesktop: ReaderType<string | undefined> = (value) =>
  value?._tag === "Missing" ? Effect.succeed(undefined) : Reader.text(value)

/**
 * A file holds what the terminal shows, and that is something.
 *
 * @since 0.1.0
 * @category metrics
 */
export const compareTerminalAndTxt: Metric = make({
  name: "compare_terminal_and_txt",
  result: Reader.text,
  expected: ofDesktop,
  options: none,
  score: (text, terminal) => verdict(terminal !== undefined && terminal !== "" && text === terminal)
})

const expectingText = Reader.json(Schema.Struct({ expected: Schema.String }))

/**
 * The text is the expected one, and not empty.
 *
 * @since 0.1.0
 * @category metrics
 */
export const compareAnswer: Metric = make({
  name: "compare_answer",
  result: Reader.text,
  expected: expectingText,
  options: none,
  score: (text, { expected }) => verdict(text !== "" && text === expected)
})

const escapeRegex = (text: string): string => text.replace(/[\\^$.*+?()[\]{}|/-]/g, "\\$&")

const backgroundRule = Reader.json(Schema.Struct({ value: Schema.String }))

/**
 * A style sheet in the page sets the expected `value` as a background image. Quotes and blanks are as CSS allows them;
 * upstream knows single quotes only.
 *
 * @since 0.1.0
 * @category metrics
 */
export const checkHtmlBackgroundImage: Metric = make({
  name: "check_html_background_image",
  result: Reader.text,
  expected: backgroundRule,
  options: none,
  score: (html, { value }, _, { compat }) =>
    Either.mapBoth(Html.items(html), {
      onLeft: ({ reason }) => reason,
      onRight: (items) => {
        const pattern = new RegExp(`background(-image)?\\s*:[^:;{}]*url\\(\\s*(["']?)${escapeRegex(value)}\\2\\s*\\)`)
        const sets = (sheet: string) =>
          compat ? sheet.includes(`background-image: url('${value}')`) : pattern.test(sheet)
        let inStyle = false
        for (const item of items) {
          if (item.kind === "element") inStyle = item.name === "style"
          else if (inStyle && item.kind === "text" && sets(item.text)) return 1
        }
        return 0
      }
    })
})

const minutesOf = (time: string): number | undefined => {
  const [, hours, minutes] = /^(\d{1,2}):(\d{2})$/.exec(time.trim()) ?? []
  return hours === undefined || minutes === undefined ? undefined : Number(hours) * 60 + Number(minutes)
}

const dayMinutes = 24 * 60

const minutes = Reader.json(Count)

/**
 * The second line of a speed test's CSV ends its second field with a time, `HH:MM`, that is less than the expected number
 * of minutes from now, by this machine's clock and zone. Upstream takes 23:59 and 00:00 for a day apart.
 *
 * @since 0.1.0
 * @category metrics
 */
export const compareTimeInSpeedtestResults: Metric = makeEffect({
  name: "compare_time_in_speedtest_results",
  result: Reader.text,
  expected: minutes,
  options: none,
  score: (text, limit, _, { compat }) =>
    Effect.map(Clock.currentTimeMillis, (millis) => {
      const written = minutesOf((text.split("\n")[1]?.split(",")[1] ?? "").slice(-5))
      if (written === undefined) return 0
      const now = new Date(millis)
      const apart = Math.abs(now.getHours() * 60 + now.getMinutes() - written)
      return (compat ? apart : Math.min(apart, dayMinutes - apart)) < limit ? 1 : 0
    })
})

/**
 * The metrics of this module, for the registry.
 *
 * @since 0.1.0
 * @category registry
 */
export const metrics: ReadonlyArray<Metric> = [
  checkLineNumber,
  diffTextFile,
  compareResultFiles,
  comparePythonPureText,
  compareTerminalAndTxt,
  compareAnswer,
  checkHtmlBackgroundImage,
  compareTimeInSpeedtestResults
]
