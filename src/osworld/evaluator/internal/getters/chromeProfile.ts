/** What Chrome has written down: settings, bookmarks, history, cookies, extensions. And the shortcuts on the desktop. */
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Schedule from "effect/Schedule"
import * as Schema from "effect/Schema"
import type { Guest } from "../../../../desktop/Guest.js"
import * as ChromeFacts from "../../../internal/chromeFacts.js"
import type { TaskContext } from "../../../Setup.js"
import * as Getter from "../../Getter.js"
import { Value } from "../../Metric.js"
import * as Settings from "../chromeSettings.js"
import * as GuestFile from "../guestFile.js"
import * as Json from "../json.js"
import * as Sqlite from "../sqlite.js"

type Failure = { readonly message: string }

const limits = { json: 64 * 1024 * 1024, database: 256 * 1024 * 1024, shortcut: 1024 * 1024 }

/** More of them than this are no longer read one by one. */
const maxFiles = 500

const none = Schema.Struct({})

class Absent {
  readonly _tag = "Absent"
  constructor(readonly reason: string) {}
}

/** What is not there, or is not what it should be, is the agent's doing and no failure. */
const orMissing = <E extends Failure, R>(value: Effect.Effect<Value, E | Absent, R>) =>
  Effect.catchAll(value, (error) =>
    error instanceof Absent ? Effect.succeed(Value.Missing({ reason: error.reason })) : Effect.fail(error)
  )

interface Place {
  readonly root: string
  readonly folder: string
  /** Whether a Chrome runs, which may not have written everything yet. */
  readonly runs: boolean
}

const place = (guest: Guest): Effect.Effect<Place, Failure | Absent> =>
  Effect.flatMap(ChromeFacts.get(guest), (facts) => {
    const profile = ChromeFacts.profile(facts)
    return profile === undefined
      ? Effect.fail(new Absent(`${facts.home} has no Chrome profile`))
      : Effect.succeed({
          root: profile.folder,
          folder: `${profile.folder}/${profile.name}`,
          runs: facts.processes.length > 0
        })
  })

const optionalJson = (guest: Guest, path: string): Effect.Effect<unknown, Failure> =>
  Effect.map(GuestFile.readText(guest, path, limits.json), (text) =>
    text === undefined ? undefined : Either.getOrUndefined(Json.parse(text))
  )

const json = (guest: Guest, path: string): Effect.Effect<unknown, Failure | Absent> =>
  Effect.flatMap(optionalJson(guest, path), (content) =>
    content === undefined ? Effect.fail(new Absent(`there is no JSON file at ${path}`)) : Effect.succeed(content)
  )

/** A Chrome that was just started writes its settings within ten seconds. */
const firstWrite = Schedule.intersect(Schedule.spaced("1 second"), Schedule.recurs(12))

const settings = (guest: Guest, pathIn: (place: Place) => string): Effect.Effect<unknown, Failure | Absent> =>
  Effect.flatMap(place(guest), (found) =>
    Effect.retry(json(guest, pathIn(found)), {
      schedule: firstWrite,
      while: (error) => found.runs && error instanceof Absent
    })
  )

const preferences = (guest: Guest) => settings(guest, ({ folder }) => `${folder}/Preferences`)

const localState = (guest: Guest) => settings(guest, ({ root }) => `${root}/Local State`)

const asValue = (content: unknown): Value =>
  typeof content === "string" ? Value.Text({ text: content }) : Value.Json({ json: content })

/** A getter of one thing that a settings file says. */
const setting = (
  name: string,
  file: (guest: Guest) => Effect.Effect<unknown, Failure | Absent>,
  read: (content: unknown, context: TaskContext) => unknown
): Getter.Getter =>
  Getter.make(name, none, (_, { context }) =>
    orMissing(Effect.map(file(context.guest), (content) => asValue(read(content, context))))
  )

const bookmarks = (content: unknown): unknown => Settings.at(content, "roots") ?? {}

/**
 * The rows of a table of the first of these databases that is there. A browser may be writing, so what cannot be read is
 * read again.
 */
const rows = (
  guest: Guest,
  files: ReadonlyArray<string>,
  table: string,
  columns: ReadonlyArray<string> | "*"
): Effect.Effect<Value, Failure | Absent> =>
  Effect.gen(function* () {
    const { folder } = yield* place(guest)
    for (const file of files) {
      const path = `${folder}/${file}`
      const once = Effect.gen(function* () {
        const database = yield* GuestFile.read(guest, path, limits.database)
        if (database === undefined) return undefined
        const log = yield* GuestFile.read(guest, `${path}-wal`, limits.database)
        return yield* Effect.mapError(Sqlite.table(database, log, table, columns), ({ kind, reason }) => {
          const message = `${path} cannot be read: ${reason}`
          return kind === "Unparsable" ? new Absent(message) : { message }
        })
      })
      const found = yield* Effect.retry(once, {
        schedule: Schedule.intersect(Schedule.spaced("1 second"), Schedule.recurs(2)),
        while: (error) => error instanceof Absent
      })
      if (found !== undefined) return Value.Json({ json: found })
    }
    return yield* Effect.fail(new Absent(`there is no ${files.join(" or ")} in ${folder}`))
  })

const database = (
  name: string,
  files: ReadonlyArray<string>,
  table: string,
  columns: ReadonlyArray<string> | "*"
): Getter.Getter => Getter.make(name, none, (_, { context }) => orMissing(rows(context.guest, files, table, columns)))

const installed = (guest: Guest) =>
  Effect.gen(function* () {
    const { folder } = yield* place(guest)
    const main = yield* preferences(guest)
    const secure = yield* optionalJson(guest, `${folder}/Secure Preferences`)
    return { folder, list: Settings.extensions(secure, main) }
  })

const extensionPaths = (guest: Guest): Effect.Effect<Value, Failure | Absent> =>
  Effect.map(installed(guest), ({ list }) =>
    Value.Json({ json: list.flatMap(({ path }) => (path === undefined ? [] : [path])) })
  )

/** Of an extension that was loaded from a folder, Chrome writes down the folder alone; its name is in the folder. */
const nameIn = (guest: Guest, folder: string): Effect.Effect<string | undefined, Failure> =>
  Effect.gen(function* () {
    const manifest = yield* optionalJson(guest, `${folder}/manifest.json`)
    const name = Settings.at(manifest, "name")
    if (typeof name !== "string") return undefined
    const key = Settings.messageKey(name)
    const locale = Settings.at(manifest, "default_locale")
    if (key === undefined || typeof locale !== "string" || !/^[\w-]+$/.test(locale)) return name
    return Settings.message(yield* optionalJson(guest, `${folder}/_locales/${locale}/messages.json`), key) ?? name
  })

const extensionNames = (guest: Guest): Effect.Effect<Value, Failure | Absent> =>
  Effect.gen(function* () {
    const { folder, list } = yield* installed(guest)
    const names = yield* Effect.forEach(list.slice(0, maxFiles), ({ name, path }) => {
      if (name !== undefined && Settings.messageKey(name) === undefined) return Effect.succeed(name)
      if (path === undefined) return Effect.succeed(name)
      return Effect.map(
        nameIn(guest, path.startsWith("/") ? path : `${folder}/Extensions/${path}`),
        (found) => found ?? name
      )
    })
    return Value.Json({ json: names.filter((name) => name !== undefined) })
  })

/** How long Chrome may take until it has written down what somebody chose. */
const flushes = Schedule.intersect(Schedule.spaced("1 second"), Schedule.recurs(4))

/** The colour scheme that Chrome has written down: light as soon as it says so, else what it says after a while. */
export const colorScheme = ({ compat, guest }: TaskContext): Effect.Effect<Value, Failure> =>
  orMissing(
    Effect.repeat(
      Effect.map(preferences(guest), (content) => Settings.colorScheme(content, { compat })),
      Schedule.passthrough<readonly [number, number], string, never>(flushes).pipe(
        Schedule.untilInput((scheme: string) => scheme === "light")
      )
    ).pipe(Effect.map((text) => Value.Text({ text })))
  )

const shortcuts = (guest: Guest): Effect.Effect<Value, Failure> =>
  Effect.gen(function* () {
    const folder = yield* guest.desktopPath
    const tree = yield* guest.listDirectory(folder)
    const names =
      "type" in tree && tree.type === "directory"
        ? tree.children.flatMap((entry) =>
            "type" in entry && entry.type === "file" && entry.name.endsWith(".desktop") && !entry.name.includes("/")
              ? [entry.name]
              : []
          )
        : []
    const found: Array<readonly [string, string]> = []
    for (const name of names.slice(0, maxFiles)) {
      const text = yield* GuestFile.readText(guest, `${folder.replace(/\/$/, "")}/${name}`, limits.shortcut)
      if (text !== undefined) found.push([name, text])
    }
    return Value.Json({ json: Object.fromEntries(found) })
  })

export const getters: ReadonlyArray<Getter.Getter> = [
  setting("default_search_engine", preferences, Settings.searchEngine),
  setting("profile_name", preferences, Settings.profileName),
  setting("chrome_font_size", preferences, Settings.fontSizes),
  setting("chrome_language", localState, Settings.language),
  setting("enabled_experiments", localState, Settings.experiments),
  setting("enable_do_not_track", preferences, Settings.doNotTrack),
  setting("enable_safe_browsing", preferences, Settings.safeBrowsing),
  setting("enable_enhanced_safety_browsing", preferences, Settings.enhancedSafeBrowsing),
  setting("new_startup_page", preferences, Settings.startsWithNewTab),
  setting("data_delete_automacally", preferences, Settings.deletesData),
  setting(
    "bookmarks",
    (guest) => Effect.flatMap(place(guest), ({ folder }) => json(guest, `${folder}/Bookmarks`)),
    bookmarks
  ),
  database("history", ["History"], "urls", ["url", "title", "last_visit_time"]),
  database("cookie_data", ["Network/Cookies", "Cookies"], "cookies", "*"),
  Getter.make("find_unpacked_extension_path", none, (_, { context }) => orMissing(extensionPaths(context.guest))),
  Getter.make("find_installed_extension_name", none, (_, { context }) => orMissing(extensionNames(context.guest))),
  Getter.make("chrome_color_scheme", none, (_, { context }) => colorScheme(context)),
  Getter.make("shortcuts_on_desktop", none, (_, { context }) => shortcuts(context.guest))
]
