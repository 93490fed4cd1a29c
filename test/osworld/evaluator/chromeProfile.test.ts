/**
 * Getters over the files of profiles: those that a real Chromium wrote, those that somebody damaged, and those that are
 * in other places than upstream knows. The guest is this machine, with a home folder and a /proc of the test's own.
 */
import { execFile } from "node:child_process"
import * as Fs from "node:fs"
import * as Http from "node:http"
import * as Os from "node:os"
import * as Path from "node:path"
import { promisify } from "node:util"
import * as NodeStream from "@effect/platform-node/NodeStream"
import { assert, describe, it, layer } from "@effect/vitest"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as FastCheck from "effect/FastCheck"
import * as Layer from "effect/Layer"
import * as Stream from "effect/Stream"
import { chromium } from "playwright-core"
import type { Guest } from "../../../src/desktop/Guest.js"
import { GuestError, GuestFileMissing } from "../../../src/desktop/GuestError.js"
import * as Settings from "../../../src/osworld/evaluator/internal/chromeSettings.js"
import { getters } from "../../../src/osworld/evaluator/internal/getters/chromeProfile.js"
import * as Sqlite from "../../../src/osworld/evaluator/internal/sqlite.js"
import type { Value } from "../../../src/osworld/evaluator/Metric.js"
import * as ChromeFacts from "../../../src/osworld/internal/chromeFacts.js"
import type { TaskContext } from "../../../src/osworld/Setup.js"
import { contextOf, getWith } from "./chromeSupport.js"
import { fixture, json, text } from "./support.js"

const run = promisify(execFile)

const browser = ["chromium", "google-chrome-stable", "google-chrome"]
  .flatMap((name) => (process.env.PATH ?? "").split(Path.delimiter).map((folder) => Path.join(folder, name)))
  .find((path) => Fs.existsSync(path))

const temporary = Effect.acquireRelease(
  Effect.promise(() => Fs.promises.mkdtemp(Path.join(Os.tmpdir(), "deskhand-profile-"))),
  (path) => Effect.promise(() => Fs.promises.rm(path, { recursive: true, force: true, maxRetries: 5 }))
)

const python = (home: string, code: string) =>
  run("python3", ["-c", code], { env: { ...process.env, HOME: home } }).then(
    ({ stderr, stdout }) => ({ stdout, stderr, exitCode: 0 }),
    (error: unknown) => ({ stdout: "", stderr: String(error), exitCode: 1 })
  )

/** This machine as a guest. It sees the processes that are in the home's own `proc`. */
const guestAt = (home: string): Partial<Guest> => ({
  runPython: (code) => Effect.promise(() => python(home, code.replaceAll("/proc/", `${home}/proc/`))),
  readFile: (path) =>
    Fs.existsSync(path)
      ? Stream.orDie(
          NodeStream.fromReadable<Error>(
            () => Fs.createReadStream(path),
            (error) => new Error(String(error))
          )
        )
      : Stream.fail(new GuestFileMissing({ path })),
  desktopPath: Effect.succeed(`${home}/Desktop`),
  listDirectory: (path) =>
    Effect.succeed({
      type: "directory",
      name: path,
      children: Fs.readdirSync(path).map((name) => ({ type: "file" as const, name }))
    })
})

/** A process of a browser: its program and its command line, with zeros or, as Chrome may have them, with spaces. */
const starts = (home: string, pid: number, command: string) => {
  const place = Path.join(home, "proc", String(pid))
  Fs.mkdirSync(place, { recursive: true })
  Fs.symlinkSync("/usr/lib/chromium/chromium", Path.join(place, "exe"))
  Fs.writeFileSync(Path.join(place, "cmdline"), command)
}

const write = (home: string, files: Record<string, unknown>) => {
  for (const [name, content] of Object.entries(files)) {
    const path = Path.join(home, name)
    Fs.mkdirSync(Path.dirname(path), { recursive: true })
    Fs.writeFileSync(
      path,
      typeof content === "string" || content instanceof Uint8Array ? content : JSON.stringify(content)
    )
  }
}

const at = (home: string, rest: Partial<TaskContext> = {}) => {
  const context = contextOf(guestAt(home), rest)
  return (type: string) => getWith(getters, type, {}, context)
}

const shown = (value: Value | string): string => (typeof value === "string" ? value : JSON.stringify(value))

class Profile extends Context.Tag("test/ChromeProfile")<Profile, { readonly home: string; readonly site: string }>() {}

/** A site that gives each visitor a cookie. */
const site = Effect.acquireRelease(
  Effect.async<Http.Server>((resume) => {
    const server = Http.createServer((_, response) => {
      response.setHeader("set-cookie", "taste=sweet; max-age=9999")
      response.setHeader("content-type", "text/html")
      response.end("<title>A visit</title>")
    })
    server.listen(0, "127.0.0.1", () => resume(Effect.succeed(server)))
  }),
  (server) =>
    Effect.async<void>((resume) => {
      server.closeAllConnections()
      server.close(() => resume(Effect.void))
    })
)

/** What a user does, done by Chromium itself: it visits, sets, bookmarks, installs, and closes. */
const used = Effect.gen(function* () {
  const home = yield* temporary
  const address = (yield* site).address()
  const url = `http://127.0.0.1:${typeof address === "object" && address !== null ? address.port : 0}`
  const settings = {
    enable_do_not_track: true,
    "safebrowsing.enabled": true,
    "safebrowsing.enhanced": true,
    "session.restore_on_startup": 5,
    "webkit.webprefs.default_font_size": 20
  }
  yield* Effect.promise(async () => {
    const context = await chromium.launchPersistentContext(Path.join(home, ".config/google-chrome"), {
      executablePath: browser ?? "",
      headless: true,
      args: ["--no-sandbox", "--enable-unsafe-extension-debugging"],
      ignoreDefaultArgs: ["--disable-extensions"]
    })
    const page = await context.newPage()
    await page.goto(`${url}/secret`)
    const session = await context.browser()?.newBrowserCDPSession()
    await session?.send("Extensions.loadUnpacked", { path: fixture("browser/extension") })
    await page.goto("chrome://settings/")
    for (const [name, value] of Object.entries(settings)) {
      await page.evaluate(
        `new Promise((done) => chrome.settingsPrivate.setPref("${name}", ${JSON.stringify(value)}, "", done))`
      )
    }
    await page.goto("chrome://bookmarks/")
    await page.evaluate(`(async () => {
      const folder = await chrome.bookmarks.create({ parentId: "1", title: "Favorites" })
      await chrome.bookmarks.create({ parentId: folder.id, title: "A", url: "https://a.example/" })
    })()`)
    await context.close()
  })
  return { home, site: url }
})

layer(Layer.scoped(Profile, used), { timeout: "90 seconds", excludeTestServices: true })(
  "a profile that Chromium wrote",
  (it) => {
    const get = (type: string) => Effect.flatMap(Profile, ({ home }) => at(home)(type))

    it.effect("settings", () =>
      Effect.gen(function* () {
        assert.deepStrictEqual(yield* get("enable_do_not_track"), text("true"))
        assert.deepStrictEqual(yield* get("enable_safe_browsing"), text("true"))
        assert.deepStrictEqual(yield* get("enable_enhanced_safety_browsing"), text("true"))
        assert.deepStrictEqual(yield* get("new_startup_page"), text("true"))
        assert.deepStrictEqual(
          yield* get("chrome_font_size"),
          json({ default_fixed_font_size: 13, default_font_size: 20 })
        )
        // Nobody changed these.
        assert.deepStrictEqual(yield* get("default_search_engine"), text("Google"))
        assert.deepStrictEqual(yield* get("chrome_language"), text("en-US"))
        assert.deepStrictEqual(yield* get("enabled_experiments"), json([]))
        assert.deepStrictEqual(yield* get("data_delete_automacally"), text("false"))
        assert.match(shown(yield* get("profile_name")), /"text":".*(?:Chromium|Chrome|Person|User).*"/)
      })
    )

    it.effect("bookmarks, history and cookies", () =>
      Effect.gen(function* () {
        const { site } = yield* Profile
        const bookmarks = shown(yield* get("bookmarks"))
        assert.include(bookmarks, '"bookmark_bar"')
        assert.include(bookmarks, "https://a.example/")
        const history = shown(yield* get("history"))
        assert.include(history, `["${site}/secret","A visit",`)
        // The second column is the host; what is encrypted is left out.
        assert.match(shown(yield* get("cookie_data")), /\[\d+,"127\.0\.0\.1","","taste","",null,/)
      })
    )

    it.effect("extensions: where they lie, and their names in their own language", () =>
      Effect.gen(function* () {
        assert.include(shown(yield* get("find_unpacked_extension_path")), fixture("browser/extension"))
        assert.include(shown(yield* get("find_installed_extension_name")), "Hello Extension")
      })
    )
  }
)

describe("profiles", () => {
  it.effect("are found where the running Chrome was told to have them, else where they were written last", () =>
    Effect.gen(function* () {
      const home = yield* temporary
      const get = at(home)
      const named = (name: string) => ({ profile: { name } })
      assert.include(shown(yield* get("profile_name")), "has no Chrome profile")
      write(home, { ".config/google-chrome/Default/Preferences": named("chrome") })
      assert.deepStrictEqual(yield* get("profile_name"), text("chrome"))
      write(home, { "snap/chromium/common/chromium/Default/Preferences": named("snap") })
      Fs.utimesSync(Path.join(home, ".config/google-chrome/Default/Preferences"), 1, 1)
      assert.deepStrictEqual(yield* get("profile_name"), text("snap"))
      write(home, {
        "own folder/Default/Preferences": named("own"),
        "own folder/Profile 1/Preferences": named("first")
      })
      starts(home, 70, `/usr/lib/chromium/chromium\0--type=renderer\0--user-data-dir=${home}/nowhere\0`)
      assert.deepStrictEqual(yield* get("profile_name"), text("snap"))
      starts(home, 71, `/usr/lib/chromium/chromium\0--user-data-dir=${home}/own folder\0about:blank\0`)
      assert.deepStrictEqual(yield* get("profile_name"), text("own"))
      Fs.rmSync(Path.join(home, "proc/71"), { recursive: true })
      starts(
        home,
        72,
        `/usr/lib/chromium/chromium --profile-directory=Profile 1 --user-data-dir=${home}/own folder --x`
      )
      assert.deepStrictEqual(yield* get("profile_name"), text("first"))
      Fs.rmSync(Path.join(home, "proc/72"), { recursive: true })
      starts(home, 73, `/usr/lib/chromium/chromium --user-data-dir=${home}/.config/google-chrome http://x.example/`)
      assert.deepStrictEqual(yield* get("profile_name"), text("chrome"))
    }).pipe(Effect.scoped)
  )

  it("are never outside their folder", () => {
    const facts = {
      home: "/home/user",
      processes: [{ pid: 1, userDataDir: "/p", profileDirectory: "../../etc", debuggingPort: null }],
      listening: [],
      folders: [{ path: "/p", written: 0 }]
    }
    assert.deepStrictEqual(ChromeFacts.profile(facts), { folder: "/p", name: "Default" })
  })

  it.effect("what is missing or broken is Missing; a guest that cannot be asked is a failure", () =>
    Effect.gen(function* () {
      const home = yield* temporary
      const get = at(home)
      write(home, { ".config/google-chrome/Local State": "{", ".config/google-chrome/Default/Bookmarks": "[1, 2]" })
      for (const { name } of getters) {
        if (name === "shortcuts_on_desktop" || name === "bookmarks") continue
        assert.include(shown(yield* get(name)), '"_tag":"Missing"', name)
      }
      assert.deepStrictEqual(yield* get("bookmarks"), json({}))
      const down = {
        runPython: () =>
          Effect.fail(new GuestError({ operation: "runPython", reason: { _tag: "Unreachable", detail: "gone" } })),
        desktopPath: Effect.fail(
          new GuestError({ operation: "desktopPath", reason: { _tag: "Unreachable", detail: "gone" } })
        )
      }
      for (const { name } of getters) {
        const value = yield* getWith(getters, name, {}, contextOf(down))
        assert.include(shown(value), `the getter ${name} failed`)
      }
      const silent = { runPython: () => Effect.succeed({ stdout: "", stderr: "no python here", exitCode: 127 }) }
      assert.include(shown(yield* getWith(getters, "history", {}, contextOf(silent))), "no python here")
    }).pipe(Effect.scoped)
  )

  it.effect("keep cookies in one of two places, and the new one counts", () =>
    Effect.gen(function* () {
      const home = yield* temporary
      const get = at(home)
      const cookies = async (place: string, host: string) => {
        write(home, { [`.config/google-chrome/Default/${place}`]: "" })
        const path = JSON.stringify(Path.join(home, ".config/google-chrome/Default", place))
        const done = await python(
          home,
          `import sqlite3
with sqlite3.connect(${path}) as db:
    db.execute("create table cookies (creation_utc integer, host_key text, encrypted_value blob)")
    db.execute("insert into cookies values (1, ?, x'00')", (${JSON.stringify(host)},))`
        )
        assert.strictEqual(done.stderr, "")
      }
      yield* Effect.promise(() => cookies("Cookies", "old.example"))
      assert.deepStrictEqual(yield* get("cookie_data"), json([[1, "old.example", null]]))
      yield* Effect.promise(() => cookies("Network/Cookies", "new.example"))
      assert.deepStrictEqual(yield* get("cookie_data"), json([[1, "new.example", null]]))
    }).pipe(Effect.scoped)
  )

  it.effect("chrome_color_scheme: light at once, the others after a while", () =>
    Effect.gen(function* () {
      const home = yield* temporary
      const get = at(home)
      write(home, { ".config/google-chrome/Default/Preferences": { browser: { theme: { color_scheme2: 1 } } } })
      assert.deepStrictEqual(yield* get("chrome_color_scheme"), text("light"))
    }).pipe(Effect.scoped)
  )

  it.effect("shortcuts_on_desktop: the entries of the desktop, and nothing else", () =>
    Effect.gen(function* () {
      const home = yield* temporary
      write(home, { "Desktop/a.desktop": "[Desktop Entry]\nName=Ä\n", "Desktop/b.txt": "Name=B" })
      assert.deepStrictEqual(
        yield* at(home)("shortcuts_on_desktop"),
        json({ "a.desktop": "[Desktop Entry]\nName=Ä\n" })
      )
      write(home, { "Desktop/large.desktop": new Uint8Array(1024 * 1024 + 1) })
      assert.include(shown(yield* at(home)("shortcuts_on_desktop")), "more than 1048576 bytes")
    }).pipe(Effect.scoped)
  )
})

describe("settings", () => {
  const strict = { compat: false }

  it("that are there, and that are not", () => {
    const engine = { default_search_provider_data: { template_url_data: { short_name: "Microsoft Bing" } } }
    assert.strictEqual(Settings.searchEngine(engine), "Microsoft Bing")
    assert.strictEqual(Settings.searchEngine({}), "Google")
    assert.strictEqual(Settings.language({ intl: { app_locale: "xh" } }), "xh")
    assert.deepStrictEqual(Settings.experiments({ browser: { enabled_labs_experiments: ["a@1"] } }), ["a@1"])
    assert.strictEqual(Settings.profileName({}), null)
    assert.strictEqual(Settings.doNotTrack({ enable_do_not_track: false }), "false")
    assert.strictEqual(Settings.safeBrowsing({ safebrowsing: { enabled: true, enhanced: false } }), "true")
    assert.strictEqual(Settings.safeBrowsing({ safebrowsing: { enabled: false } }), "false")
    assert.strictEqual(Settings.enhancedSafeBrowsing({ safebrowsing: { enabled: true } }), "false")
    assert.strictEqual(Settings.startsWithNewTab({}), "true")
    assert.strictEqual(Settings.startsWithNewTab({ session: { restore_on_startup: 1 } }), "false")
    assert.strictEqual(Settings.startsWithNewTab({ session: {} }), "false")
    for (const broken of [null, "x", [], { profile: 1, session: 2, extensions: { settings: [] } }]) {
      assert.strictEqual(Settings.searchEngine(broken), "Google")
      assert.deepStrictEqual(Settings.extensions(broken), [])
      assert.strictEqual(Settings.colorScheme(broken, strict), "system")
    }
  })

  it("data that goes when Chrome closes: 4 is for this session", () => {
    const values = (chosen: unknown) => ({ profile: { default_content_setting_values: chosen } })
    assert.strictEqual(Settings.deletesData(values({ cookies: 4 }), strict), "true")
    assert.strictEqual(Settings.deletesData(values({ cookies: 1 }), strict), "false")
    // What Chromium 156 writes into every new profile.
    const untouched = values({ has_migrated_local_network_access: true })
    assert.strictEqual(Settings.deletesData(untouched, strict), "false")
    assert.strictEqual(Settings.deletesData(untouched, { compat: true }), "true")
    assert.strictEqual(Settings.deletesData({ profile: {} }, { compat: true }), "false")
  })

  it("colour schemes: the newer key, numbers or names, and the classic theme", () => {
    const scheme = (theme: unknown, system?: unknown, compat = false) =>
      Settings.colorScheme(
        { browser: { theme }, ...(system === undefined ? {} : { extensions: { theme: { system_theme: system } } }) },
        { compat }
      )
    assert.strictEqual(scheme({ color_scheme2: 2 }), "dark")
    assert.strictEqual(scheme({ color_scheme: 2, color_scheme2: 0 }), "system")
    assert.strictEqual(scheme({ color_scheme: "light" }), "light")
    assert.strictEqual(scheme({}), "system")
    assert.strictEqual(scheme({}, 0), "light")
    assert.strictEqual(scheme({ color_scheme2: 2 }, 0), "dark")
    assert.strictEqual(scheme({ color_scheme2: 2 }, 0, true), "light")
    assert.strictEqual(scheme({ color_scheme2: 9 }), "system")
  })

  it("extensions: in one file or the other, with and without a name", () => {
    const settings = (entries: unknown) => ({ extensions: { settings: entries } })
    assert.deepStrictEqual(
      Settings.extensions(
        settings({ a: { path: "/home/user/ext" }, b: { path: "b/1_0", manifest: { name: "B" } } }),
        settings({ a: { manifest: { name: "A" } }, c: 7 })
      ),
      [
        { path: "/home/user/ext", name: "A" },
        { path: "b/1_0", name: "B" },
        { path: undefined, name: undefined }
      ]
    )
    assert.strictEqual(Settings.messageKey("__MSG_appName__"), "appName")
    assert.strictEqual(Settings.messageKey("appName"), undefined)
    assert.strictEqual(Settings.message({ APPNAME: { message: "x" } }, "appName"), "x")
    assert.strictEqual(Settings.message([], "appName"), undefined)
  })
})

describe("tables of SQLite", () => {
  const rows = (database: Uint8Array, log?: Uint8Array, table = "urls") =>
    Effect.merge(
      Effect.mapError(Sqlite.table(database, log, table, ["url"]), ({ kind, reason }) => `${kind}: ${reason}`)
    )

  /** Python's own SQLite writes 20 rows, one transaction each, after the first into the log. */
  const withLog = Effect.gen(function* () {
    const folder = yield* temporary
    yield* Effect.promise(() =>
      python(
        folder,
        `import os, shutil, sqlite3
os.chdir(${JSON.stringify(folder)})
db = sqlite3.connect("live", isolation_level=None)
db.execute("pragma journal_mode=wal")
db.execute("pragma wal_autocheckpoint=0")
db.execute("create table urls (url text, filler text)")
db.execute("create view seen as select * from urls")
db.execute("create table tricks (url text, slow text generated always as (hex(url)) virtual)")
db.execute("pragma wal_checkpoint(truncate)")
for i in range(20):
    db.execute("insert into urls values (?, ?)", (str(i), "x" * 1500))
shutil.copy("live", "History")
shutil.copy("live-wal", "History-wal")`
      )
    )
    const read = (name: string) => Effect.promise(() => Fs.promises.readFile(Path.join(folder, name)))
    return { database: yield* read("History"), log: yield* read("History-wal") }
  })

  it.effect("what is in the log counts, whole transactions of it", () =>
    Effect.gen(function* () {
      const { database, log } = yield* withLog
      const upTo = (count: number) => Array.from({ length: count }, (_, index) => [String(index)])
      assert.deepStrictEqual(yield* rows(database), [])
      assert.deepStrictEqual(yield* rows(database, log), upTo(20))
      // A log that breaks off anywhere tells of some first transactions, and of more the longer it is.
      let most = 0
      for (let length = 0; length <= log.length; length += 1000) {
        const found = yield* rows(database, log.subarray(0, length))
        assert.deepStrictEqual(found, upTo(found.length))
        assert.isAtLeast(found.length, most)
        most = found.length
      }
      assert.isAtLeast(most, 19)
      const broken = Uint8Array.from(log)
      broken[100] = (broken[100] ?? 0) ^ 1
      assert.deepStrictEqual(yield* rows(database, broken), [])
      assert.deepStrictEqual(yield* rows(database, new Uint8Array(40)), [])
    }).pipe(Effect.scoped)
  )

  it.effect("views and computed columns are refused, and so is what is no database", () =>
    Effect.gen(function* () {
      const { database, log } = yield* withLog
      assert.include(String(yield* rows(database, log, "seen")), "Unparsable: seen is no plain table")
      assert.include(String(yield* rows(database, log, "tricks")), "no plain table")
      assert.include(String(yield* rows(database, log, "nothing")), "no table nothing")
      const column = yield* Effect.flip(Sqlite.table(database, log, "urls", ["nothing"]))
      assert.strictEqual(column.kind, "Unparsable")
      assert.include(column.reason, "no such column")
      assert.include(String(yield* rows(new Uint8Array([1, 2, 3]))), "not a database")
      assert.include(String(yield* rows(new Uint8Array(0))), "no table urls")
    }).pipe(Effect.scoped)
  )

  it.effect("damaged files end in rows or in a reason", () =>
    Effect.gen(function* () {
      const { database, log } = yield* withLog
      const places = FastCheck.sample(FastCheck.tuple(FastCheck.nat(database.length - 1), FastCheck.nat(255)), 60)
      for (const [place, value] of places) {
        const damaged = Uint8Array.from(database)
        damaged[place] = value
        const found = yield* rows(damaged, log)
        assert.isTrue(typeof found === "string" || Array.isArray(found))
      }
    }).pipe(Effect.scoped)
  )
})
