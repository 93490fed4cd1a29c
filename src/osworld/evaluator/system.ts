/**
 * Metrics over what the desktop and its programs are set to: favourites, clock, text size, folders, clipboard, locale.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as Glob from "./internal/glob.js"
import * as PythonList from "./internal/pythonList.js"
import * as Registry from "./internal/registry.js"
import { type Metric, make, type Reader as ReaderType, Unusable, verdict } from "./Metric.js"
import * as Reader from "./Reader.js"

const none = Schema.Struct({})

const expectingNames = Reader.json(Schema.Struct({ expected: Schema.Array(Schema.String) }))

/** The same names and as many of them, in any order. */
const sameNames = (found: ReadonlyArray<string>, expected: ReadonlyArray<string>): boolean => {
  const [some, others] = [new Set(found), new Set(expected)]
  return found.length === expected.length && some.size === others.size && found.every((name) => others.has(name))
}

const names: ReaderType<ReadonlyArray<string>> = (value) =>
  Effect.flatMap(Reader.text(value), (text) =>
    Effect.mapError(PythonList.parse(text), (reason) => new Unusable({ kind: "Unparsable", reason }))
  )

/**
 * The favourite applications, a list as `gsettings` prints it, are the expected ones in any order.
 *
 * Upstream evaluates what the guest prints; here it is read.
 *
 * @since 0.1.0
 * @category metrics
 */
export const checkGnomeFavoriteApps: Metric = make({
  name: "check_gnome_favorite_apps",
  result: names,
  expected: expectingNames,
  options: none,
  score: (apps, { expected }) => verdict(sameNames(apps, expected))
})

/** What a metric does not look at. */
const nothing: ReaderType<undefined> = () => Effect.succeed(undefined)

/**
 * The desktop's time zone is 0 hours from UTC now, by what `timedatectl` prints. Upstream looks at the fourth line,
 * whatever it is.
 *
 * @since 0.1.0
 * @category metrics
 */
export const isUtc0: Metric = make({
  name: "is_utc_0",
  result: Reader.text,
  expected: nothing,
  options: none,
  score: (text, _, __, { compat }) => {
    const lines = text.split("\n")
    const zone = compat ? undefined : lines.find((line) => /^\s*Time zone:/.test(line))
    return verdict((zone ?? lines[3])?.endsWith("+0000)") === true)
  }
})

/**
 * The factor of text scaling is above 1.
 *
 * @since 0.1.0
 * @category metrics
 */
export const checkTextEnlarged: Metric = make({
  name: "check_text_enlarged",
  result: Reader.text,
  expected: nothing,
  options: none,
  score: (text) => verdict(Number(text) > 1)
})

const folder = Reader.json(Schema.Struct({ children: Schema.Array(Schema.Struct({ name: Schema.String })) }))

/**
 * A folder holds the expected names and no others.
 *
 * @since 0.1.0
 * @category metrics
 */
export const checkMovedJpgs: Metric = make({
  name: "check_moved_jpgs",
  result: folder,
  expected: expectingNames,
  options: none,
  score: ({ children }, { expected }) =>
    verdict(
      sameNames(
        children.map(({ name }) => name),
        expected
      )
    )
})

const Texts = Schema.Union(Schema.String, Schema.Array(Schema.String))

/** The task's rules although they stand in the result's place: nobody is judged by bad ones. */
const rulesAsResult = <A, I>(schema: Schema.Schema<A, I>): ReaderType<A> => {
  const reader = Reader.json(schema)
  return (value) =>
    Effect.mapError(
      reader(value),
      ({ reason }) => new Unusable({ kind: "Undecidable", reason: `the rules: ${reason}` })
    )
}

/** The clipboard although it stands in the place of gold: an empty one is the agent's doing. */
const clipboard: ReaderType<string | undefined> = (value) =>
  value?._tag === "Missing" ? Effect.succeed(undefined) : Reader.text(value)

const clipboardRule = rulesAsResult(Schema.Struct({ expected: Texts }))

/**
 * What is expected occurs in the clipboard, or all that is. In tasks the two have changed places: the result is the rule,
 * and the expected value is what a command says of the clipboard.
 *
 * @since 0.1.0
 * @category metrics
 */
export const isInVmClickboard: Metric = make({
  name: "is_in_vm_clickboard",
  result: clipboardRule,
  expected: clipboard,
  options: none,
  score: ({ expected }, text) =>
    verdict(
      text !== undefined && (typeof expected === "string" ? [expected] : expected).every((part) => text.includes(part))
    )
})

const localeRule = Reader.json(Schema.Struct({ locale_set: Schema.Array(Schema.String) }))

const registryFile = Reader.file(Registry.parse)

/**
 * LibreOffice's locale, by its `registrymodifications.xcu`, fits one of the patterns of `locale_set` (`*`, `?`, `[abc]`).
 * The locale of formats goes before that of the user interface.
 *
 * @since 0.1.0
 * @category metrics
 */
export const checkLibreLocale: Metric = make({
  name: "check_libre_locale",
  result: registryFile,
  expected: localeRule,
  options: none,
  score: (registry, { locale_set }) => {
    const setting = (name: string) => registry.get("/org.openoffice.Setup/L10N", name)
    const locale = setting("ooSetupSystemLocale") ?? setting("ooLocale")
    return verdict(locale !== undefined && locale_set.some((pattern) => Glob.compile(pattern).test(locale)))
  }
})

/**
 * The metrics of this module, for the registry.
 *
 * @since 0.1.0
 * @category registry
 */
export const metrics: ReadonlyArray<Metric> = [
  checkGnomeFavoriteApps,
  isUtc0,
  checkTextEnlarged,
  checkMovedJpgs,
  isInVmClickboard,
  checkLibreLocale
]
