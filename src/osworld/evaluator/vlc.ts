/**
 * Metrics over VLC: what it plays, how large it is, and what its configuration file (`vlcrc`) says.
 *
 * VLC writes every setting that has its default as a comment. Upstream's search takes comments, and settings whose names
 * end alike, for settings; so do these metrics in compat, and otherwise only a setting counts.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Schema from "effect/Schema"
import * as Xml from "./internal/xml.js"
import { type Metric, make, type Reader as ReaderType, type Score, Unusable, verdict } from "./Metric.js"
import * as Reader from "./Reader.js"

const none = Schema.Struct({})

/** Rules give numbers or their digits. */
const Digits = Schema.Union(Schema.String, Schema.Number, Schema.Boolean)

const digits = (value: typeof Digits.Type): string => (typeof value === "boolean" ? (value ? "1" : "0") : String(value))

/** The last value of a setting; undefined where the file has none. */
const settingOf = (config: string, key: string, compat: boolean): string | undefined => {
  let found: string | undefined
  for (const line of config.split("\n")) {
    const at = line.indexOf("=")
    if (compat && line.includes(`${key}=`)) found = line.slice(line.lastIndexOf("=") + 1).trim()
    else if (!compat && at > 0 && line.slice(0, at).trim() === key) found = line.slice(at + 1).trim()
  }
  return found
}

/** A setting, or its default, is what `expected_<key>` says. */
const setting = (
  name: string,
  key: string,
  byDefault: string,
  options: { readonly as?: (value: string) => string } = {}
): Metric => {
  const field = `expected_${key.replaceAll("-", "_")}`
  const rule = Reader.json(
    Schema.Record({ key: Schema.String, value: Schema.Unknown }).pipe(
      Schema.filter((rules) => Schema.is(Digits)(rules[field]) || `${field} is missing`)
    )
  )
  return make({
    name,
    result: Reader.text,
    expected: rule,
    options: none,
    score: (config, rules, _, { compat }) => {
      const expected = rules[field]
      const value = settingOf(config, key, compat)
      const actual = value === undefined ? byDefault : (options.as ?? ((same) => same))(value)
      return Schema.is(Digits)(expected) ? verdict(actual === digits(expected)) : Either.left(`${field} is missing`)
    }
  })
}

/**
 * The cone in the window (`qt-bgcone`, 1 by default) is as expected.
 *
 * @since 0.1.0
 * @category metrics
 */
export const checkQtBgcone: Metric = setting("check_qt_bgcone", "qt-bgcone", "1")

/**
 * The greatest volume in percent (`qt-max-volume`, 125 by default) is as expected.
 *
 * @since 0.1.0
 * @category metrics
 */
export const checkQtMaxVolume: Metric = setting("check_qt_max_volume", "qt-max-volume", "125")

/**
 * The interface without controls (`qt-minimal-view`, 0 by default) is as expected.
 *
 * @since 0.1.0
 * @category metrics
 */
export const checkQtMinimalView: Metric = setting("check_qt_minimal_view", "qt-minimal-view", "0")

/**
 * Leaving at the end of the list (`play-and-exit`, 0 by default) is as expected.
 *
 * @since 0.1.0
 * @category metrics
 */
export const checkPlayAndExit: Metric = setting("check_play_and_exit", "play-and-exit", "0")

/**
 * One window for all files that are opened (`one-instance-when-started-from-file`, 1 by default) is as expected.
 *
 * @since 0.1.0
 * @category metrics
 */
export const checkOneInstanceWhenStartedFromFile: Metric = setting(
  "check_one_instance_when_started_from_file",
  "one-instance-when-started-from-file",
  "1"
)

/**
 * Whether there is a key to play and pause from other windows (`global-key-play-pause`): 1 where there is one, 0 where
 * there is none, as by default.
 *
 * @since 0.1.0
 * @category metrics
 */
export const checkGlobalKeyPlayPause: Metric = setting("check_global_key_play_pause", "global-key-play-pause", "0", {
  as: (value) => (value === "" ? "0" : "1")
})

const colourRule = Reader.json(
  Schema.Union(
    Schema.Struct({ type: Schema.Literal("match"), expected_qt_slider_colours: Schema.String }),
    Schema.Struct({ type: Schema.Literal("blackish") })
  )
)

const defaultSliderColours = "153;210;153;20;210;20;255;199;15;245;39;29"

/** A channel of a blackish colour is below this. */
const blackish = 100

/**
 * The colours of the volume slider are the expected ones (`match`), or all nearly black (`blackish`: every channel below
 * 100).
 *
 * @since 0.1.0
 * @category metrics
 */
export const checkQtSliderColours: Metric = make({
  name: "check_qt_slider_colours",
  result: Reader.text,
  expected: colourRule,
  options: none,
  score: (config, rule, _, { compat }) => {
    const colours = settingOf(config, "qt-slider-colours", compat) ?? defaultSliderColours
    if (rule.type === "match") return verdict(colours === rule.expected_qt_slider_colours)
    const channels = colours.split(";")
    return verdict(channels.every((channel) => /^\s*\d+\s*$/.test(channel) && Number(channel) < blackish))
  }
})

const folderRule = Reader.json(Schema.Struct({ recording_file_path: Schema.String }))

/**
 * Recordings are kept in the folder that is expected (`input-record-path`).
 *
 * @since 0.1.0
 * @category metrics
 */
export const isVlcRecordingsFolder: Metric = make({
  name: "is_vlc_recordings_folder",
  result: Reader.text,
  expected: folderRule,
  options: none,
  // Upstream leaves comments out here, so there is nothing to be compatible with.
  score: (config, { recording_file_path }) =>
    verdict(settingOf(config, "input-record-path", false) === recording_file_path)
})

const Size = Schema.Struct({ width: Schema.Number, height: Schema.Number })
const size = Reader.json(Size)

/** Tasks give the window as the expected value: that there is none is the agent's doing. */
const sizeOrNone: ReaderType<typeof Size.Type | undefined> = (value) =>
  value?._tag === "Missing" ? Effect.succeed(undefined) : size(value)

/**
 * The window is as large as the screen.
 *
 * @since 0.1.0
 * @category metrics
 */
export const isVlcFullscreen: Metric = make({
  name: "is_vlc_fullscreen",
  result: size,
  expected: sizeOrNone,
  options: none,
  score: (one, other) => verdict(other !== undefined && one.width === other.width && one.height === other.height)
})

interface Status {
  readonly state: string
  /** What VLC says of what it plays, by name, of the category `meta`. */
  readonly meta: ReadonlyMap<string, string>
}

const status: ReaderType<Status> = (value) =>
  Effect.flatMap(Reader.text(value), (content) =>
    Either.match(Xml.parse(content), {
      onLeft: (reason) => new Unusable({ kind: "Unparsable", reason }),
      onRight: (root) => {
        const categories = Xml.elements(root, "information").flatMap((found) => Xml.elements(found, "category"))
        const infos = categories
          .filter((category) => Xml.attribute(category, "name") === "meta")
          .flatMap((category) => Xml.elements(category, "info"))
        const meta = infos.map((info) => [Xml.attribute(info, "name") ?? "", Xml.text(info)] as const)
        return Effect.succeed({
          state: Xml.text(Xml.element(root, "state")).trim(),
          meta: new Map(meta.filter(([, content]) => content !== ""))
        })
      }
    })
  )

const playing = Reader.json(
  Schema.Union(
    Schema.Struct({ type: Schema.Literal("file_name"), file_name: Schema.String }),
    Schema.Struct({ type: Schema.Literal("url"), url: Schema.String })
  )
)

const baseName = (path: string): string => path.slice(path.lastIndexOf("/") + 1)

const decoded = (text: string): string =>
  Either.getOrElse(
    Either.try(() => decodeURIComponent(text)),
    () => text
  )

const isFile = (said: string, expected: string, compat: boolean): boolean =>
  compat ? said.endsWith(expected) : [baseName(said), baseName(decoded(said))].includes(expected)

const parseUrl = (text: string): URL | undefined => Either.getOrUndefined(Either.try(() => new URL(text)))

/** Of a stream VLC often says only the last part of its address. */
const isStream = (said: string, expected: string): boolean => {
  if (said.includes(expected)) return true
  const url = parseUrl(expected)
  if (url === undefined) return false
  const name = baseName(url.pathname)
  if (name !== "" && said === name) return true
  const other = said.includes("://") ? parseUrl(said) : undefined
  return other !== undefined && other.host === url.host && other.pathname.includes(url.pathname)
}

const present = (meta: Status["meta"], names: ReadonlyArray<string>): ReadonlyArray<string> =>
  names.flatMap((name) => meta.get(name) ?? [])

/**
 * VLC is playing a file of that name (`type: "file_name"`), or what is at that address (`type: "url"`).
 *
 * Of a file the first that VLC says of name, title and place counts. In compat the name may be only the end of another.
 *
 * @since 0.1.0
 * @category metrics
 */
export const isVlcPlaying: Metric = make({
  name: "is_vlc_playing",
  result: status,
  expected: playing,
  options: none,
  score: ({ meta, state }, rule, _, { compat }): Score => {
    if (state !== "playing") return verdict(false)
    if (rule.type === "file_name") {
      const [said] = present(meta, ["filename", "title", "uri", "location", "name"])
      return verdict(said !== undefined && isFile(said, rule.file_name, compat))
    }
    const said = present(meta, ["url", "URI", "location", "title", "filename"])
    // A stream has a title of its own: upstream looks no further, and misses the address that follows it.
    return verdict((compat ? said.slice(0, 1) : said).some((each) => isStream(each, rule.url)))
  }
})

/**
 * The metrics of this module, for the registry.
 *
 * @since 0.1.0
 * @category metrics
 */
export const metrics: ReadonlyArray<Metric> = [
  isVlcPlaying,
  isVlcRecordingsFolder,
  isVlcFullscreen,
  checkQtBgcone,
  checkQtMaxVolume,
  checkQtMinimalView,
  checkQtSliderColours,
  checkGlobalKeyPlayPause,
  checkPlayAndExit,
  checkOneInstanceWhenStartedFromFile
]
