/**
 * The windows on the screen, through `wmctrl`.
 *
 * @since 0.1.0
 */
import * as Path from "node:path"
import * as Data from "effect/Data"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schedule from "effect/Schedule"
import type { Words } from "./CommandLine.js"
import * as Process from "./Process.js"

/**
 * `wmctrl` could not be run or said no.
 *
 * @since 0.1.0
 * @category errors
 */
export class WindowsFailed extends Data.TaggedError("WindowsFailed")<{ readonly message: string }> {}

/**
 * @since 0.1.0
 * @category models
 */
export interface Window {
  readonly id: string
  readonly width: number
  readonly height: number
  readonly host: string
  readonly title: string
}

/**
 * Reads what `wmctrl -lG` prints. Lines of another form are left out.
 *
 * @since 0.1.0
 * @category parsing
 */
export const parse = (listing: string): ReadonlyArray<Window> =>
  listing.split("\n").flatMap((line) => {
    const match = /^(0x[0-9a-f]+)\s+-?\d+\s+-?\d+\s+-?\d+\s+(\d+)\s+(\d+)\s+(\S+)(?: (.*))?$/.exec(line)
    if (match === null) return []
    const [, id = "", width, height, host = "", title = ""] = match
    return [{ id, width: Number(width), height: Number(height), host, title }]
  })

/**
 * The class of a window, `instance.Class`, from what `wmctrl -lx` prints. Classes and titles may have blanks in them:
 * the class is what is left of the line without the host and the title.
 *
 * @since 0.1.0
 * @category parsing
 */
export const classOf = (window: Window, listing: string): string => {
  const line = listing.split("\n").find((line) => line.startsWith(`${window.id} `)) ?? ""
  const rest = line.replace(/^\S+\s+-?\d+ /, "")
  const tail = `${window.host} ${window.title}`
  return (rest.endsWith(tail) ? rest.slice(0, -tail.length) : rest).trim()
}

/**
 * Whether a class is the one of this name: its instance, its class, or both joined by a dot, in any case. Chromium adds
 * the folder of its profile to its instance.
 *
 * @since 0.1.0
 * @category predicates
 */
export const isOfClass = (className: string, name: string): boolean => {
  const whole = className.toLowerCase()
  const wanted = name.toLowerCase()
  return whole === wanted || [".", " ("].some((end) => whole.startsWith(wanted + end)) || whole.endsWith(`.${wanted}`)
}

/** A window that goes away while `wmctrl` looks at all of them ends it before it has done anything. */
class WindowVanished extends Data.TaggedError("WindowVanished")<{ readonly ended: Process.Ended }> {}

/** Such moments are short: an application's splash screen, a menu. */
const vanishedSchedule = Schedule.intersect(Schedule.spaced("50 millis"), Schedule.recurs(20))

/**
 * What a program of the X server's says when a window is gone that it had just been told of.
 *
 * @since 0.1.0
 * @category predicates
 */
export const hasVanished = ({ exitCode, stderr }: Pick<Process.Ended, "exitCode" | "stderr">): boolean =>
  exitCode !== 0 && /\bBad(?:Window|Drawable)\b/.test(stderr)

const wmctrl = (words: ReadonlyArray<string>): Effect.Effect<Process.Ended, WindowsFailed> =>
  Process.run(["wmctrl", ...words] satisfies Words, { limit: Duration.seconds(5) }).pipe(
    Effect.mapError((error) => new WindowsFailed({ message: error.message })),
    Effect.filterOrFail(
      (ended) => !hasVanished(ended),
      (ended) => new WindowVanished({ ended })
    ),
    Effect.retry({ schedule: vanishedSchedule, while: ({ _tag }) => _tag === "WindowVanished" }),
    Effect.catchTag("WindowVanished", ({ ended }) => Effect.succeed(ended))
  )

/**
 * @since 0.1.0
 * @category queries
 */
export const list: Effect.Effect<ReadonlyArray<Window>, WindowsFailed> = Effect.flatMap(
  wmctrl(["-lG"]),
  ({ exitCode, stderr, stdout }) =>
    exitCode === 0
      ? Effect.succeed(parse(stdout))
      : Effect.fail(new WindowsFailed({ message: `wmctrl could not list the windows: ${stderr.trim()}` }))
)

/**
 * The first window of a class.
 *
 * @since 0.1.0
 * @category queries
 */
export const findByClass = (name: string): Effect.Effect<Option.Option<Window>, WindowsFailed> =>
  Effect.zipWith(list, wmctrl(["-lx"]), (windows, { stdout }) =>
    Option.fromNullable(windows.find((window) => isOfClass(classOf(window, stdout), name)))
  )

interface Match {
  readonly name: string
  readonly strict: boolean
  readonly byClass: boolean
}

const flags = ({ byClass, strict }: Match) => [...(byClass ? ["-x"] : []), ...(strict ? ["-F"] : [])]

/**
 * Raises the first window that matches and says whether there was one.
 *
 * @since 0.1.0
 * @category actions
 */
export const activate = (match: Match): Effect.Effect<boolean, WindowsFailed> =>
  Effect.map(wmctrl([...flags(match), "-a", match.name]), ({ exitCode }) => exitCode === 0)

/**
 * Asks the first window that matches to close and says whether there was one.
 *
 * @since 0.1.0
 * @category actions
 */
export const close = (match: Match): Effect.Effect<boolean, WindowsFailed> =>
  Effect.map(wmctrl([...flags(match), "-c", match.name]), ({ exitCode }) => exitCode === 0)

/**
 * Whether a title is that of a window which shows this file: its name is in it, in any case, or its name without the
 * extension, as words of their own.
 *
 * @since 0.1.0
 * @category predicates
 */
export const shows = (title: string, name: string): boolean => {
  const text = title.toLowerCase()
  const wanted = name.toLowerCase()
  if (text.includes(wanted)) return true
  const stem = Path.parse(wanted).name
  for (let at = text.indexOf(stem); at >= 0; at = text.indexOf(stem, at + 1)) {
    if (!isWordCharacter(text[at - 1]) && !isWordCharacter(text[at + stem.length])) return true
  }
  return false
}

const isWordCharacter = (character: string | undefined) => character !== undefined && /[\p{L}\p{N}]/u.test(character)

/**
 * Waits for a window that shows this file, or this program, and raises it.
 *
 * @since 0.1.0
 * @category actions
 */
export const awaitShowing = (
  name: string,
  limit: Duration.DurationInput
): Effect.Effect<Option.Option<Window>, WindowsFailed> => {
  const find = Effect.map(list, (windows) => Option.fromNullable(windows.find(({ title }) => shows(title, name))))
  return find.pipe(
    Effect.repeat(
      Schedule.zipRight(
        Schedule.spaced("200 millis"),
        Schedule.recurUntil((found: Option.Option<Window>) => Option.isSome(found))
      )
    ),
    Effect.timeoutTo({ duration: limit, onSuccess: (found) => found, onTimeout: () => Option.none<Window>() }),
    Effect.tap((found) => (Option.isSome(found) ? wmctrl(["-i", "-a", found.value.id]) : Effect.void))
  )
}
