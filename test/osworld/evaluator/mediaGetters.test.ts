import { execFile } from "node:child_process"
import { existsSync, readdirSync, readFileSync } from "node:fs"
import { createServer } from "node:http"
import * as path from "node:path"
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import { strToU8, zipSync } from "fflate"
import type { CommandResult, Guest } from "../../../src/desktop/Guest.js"
import { GuestError, GuestFileMissing } from "../../../src/desktop/GuestError.js"
import type { Role } from "../../../src/osworld/evaluator/Getter.js"
import * as Getters from "../../../src/osworld/evaluator/Getters.js"
import * as Media from "../../../src/osworld/evaluator/internal/getters/media.js"
import { contextOf, getWith } from "./chromeSupport.js"
import { fixture, written } from "./support.js"

const printed = (stdout: string, exitCode = 0): CommandResult => ({ stdout, stderr: "", exitCode })

/** A guest with these files. */
const files = (content: Record<string, Uint8Array>): Partial<Guest> => ({
  readFile: (path) => {
    const bytes = content[path]
    return bytes === undefined ? Stream.fail(new GuestFileMissing({ path })) : Stream.make(bytes)
  }
})

const refusal = (operation: string, status: number) =>
  Effect.fail(new GuestError({ operation, reason: { _tag: "Refused", status, detail: "no" } }))
const broken = (operation: string) =>
  Effect.fail(new GuestError({ operation, reason: { _tag: "Unreachable", detail: "gone" } }))

/** What a getter brings: the content of a file, a value, `missing`, or why it failed. */
const get = (type: string, parameters: Record<string, unknown>, guest: Partial<Guest>, role: Role = "result") =>
  Effect.gen(function* () {
    const place = yield* written({})
    const context = contextOf(guest, { cache: place(".") })
    const value = yield* getWith(Media.getters, type, parameters, context, role)
    if (typeof value === "string") return `failed: ${value}`
    switch (value._tag) {
      case "File":
        assert.strictEqual(path.dirname(value.path), path.resolve(place("."), role))
        return readFileSync(value.path, "utf8")
      case "Missing":
        assert.deepStrictEqual(existsSync(place(role)) ? readdirSync(place(role)) : [], [])
        return "missing"
      case "Text":
        return value.text
      case "Json":
        return value.json
      case "Files":
        return value.files
    }
  }).pipe(Effect.scoped)

const text = (content: string) => new TextEncoder().encode(content)

it("all of them are registered", () => {
  for (const { name } of Media.getters) assert.isTrue(Getters.supported.has(name), name)
})

describe("gimp_config_file", () => {
  const parameters = { file_name: "gimprc", dest: "gimprc" }
  const listing = (stdout: string): Partial<Guest> => ({ execute: () => Effect.succeed(printed(stdout)) })

  it("puts the newest version first", () =>
    assert.deepStrictEqual(Media.gimpVersions("2.10\n3.0\n2.8\nREADME\n3.2\n"), ["3.2", "3.0", "2.10", "2.8"]))

  it.effect("is the newest GIMP's that has such a file", () =>
    Effect.gen(function* () {
      const both = files({ "~/.config/GIMP/2.10/gimprc": text("old"), "~/.config/GIMP/3.0/gimprc": text("new") })
      assert.strictEqual(yield* get("gimp_config_file", parameters, { ...both, ...listing("2.10\n3.0\n") }), "new")
      const old = files({ "~/.config/GIMP/2.10/gimprc": text("old") })
      assert.strictEqual(yield* get("gimp_config_file", parameters, { ...old, ...listing("2.10\n3.0\n") }), "old")
      assert.strictEqual(yield* get("gimp_config_file", parameters, { ...old, ...listing("") }), "missing")
      assert.strictEqual(yield* get("gimp_config_file", parameters, listing("2.10\n")), "missing")
      assert.include(yield* get("gimp_config_file", parameters, { execute: () => broken("execute") }), "failed:")
      assert.include(yield* get("gimp_config_file", { dest: "gimprc" }, listing("")), "failed:")
    })
  )
})

describe("vlc_config", () => {
  it.effect("is VLC's own file", () =>
    Effect.gen(function* () {
      const guest = files({ "~/.config/vlc/vlcrc": text("[qt]") })
      assert.strictEqual(yield* get("vlc_config", { dest: "../../vlcrc" }, guest), "[qt]")
      assert.strictEqual(yield* get("vlc_config", { dest: "vlcrc" }, {}), "missing")
      const gone: Partial<Guest> = { readFile: () => Stream.fromEffect(broken("readFile")) }
      assert.include(yield* get("vlc_config", { dest: "vlcrc" }, gone), "failed:")
      assert.include(yield* get("vlc_config", {}, guest), "failed:")
    })
  )
})

describe("vlc_playing_info", () => {
  const status = readFileSync(fixture("media/status.xml"), "utf8")

  /** The program is run for real, against a server that has VLC's manners. */
  const guestAt = (port: number): Partial<Guest> => ({
    runPython: (code) =>
      Effect.async<CommandResult>((resume) => {
        execFile("python3", ["-c", code.replace("127.0.0.1:8080/", `127.0.0.1:${port}/`)], (error, stdout, stderr) =>
          resume(Effect.succeed({ stdout, stderr, exitCode: error === null ? 0 : 1 }))
        )
      })
  })
  const server = (password: string) =>
    Effect.acquireRelease(
      Effect.async<{ readonly port: number; readonly close: () => void }>((resume) => {
        const http = createServer((request, response) => {
          const authorized = request.headers.authorization === `Basic ${Buffer.from(`:${password}`).toString("base64")}`
          response.statusCode = authorized && request.url === "/requests/status.xml" ? 200 : 401
          response.end(authorized ? status : "no")
        })
        http.listen(0, "127.0.0.1", () => {
          const address = http.address()
          const port = address !== null && typeof address === "object" ? address.port : 0
          resume(Effect.succeed({ port, close: () => http.close() }))
        })
      }),
      ({ close }) => Effect.sync(close)
    )

  it.scopedLive("asks VLC from inside the guest", () =>
    Effect.gen(function* () {
      const { close, port } = yield* server("password")
      assert.strictEqual(yield* get("vlc_playing_info", { dest: "status.xml" }, guestAt(port)), status)
      close()
      // Nobody listens: VLC is not there, and that is the agent's doing.
      assert.strictEqual(yield* get("vlc_playing_info", { dest: "status.xml" }, guestAt(port)), "missing")
      const other = yield* server("secret")
      assert.include(yield* get("vlc_playing_info", { dest: "status.xml" }, guestAt(other.port)), "answered 401")
    })
  )

  it.effect("does not take a guest's trouble for VLC's", () =>
    Effect.gen(function* () {
      const trouble: Partial<Guest> = { runPython: () => Effect.succeed({ ...printed("", 1), stderr: "no python3" }) }
      assert.include(yield* get("vlc_playing_info", { dest: "status.xml" }, trouble), "no python3")
      const gone: Partial<Guest> = { runPython: () => broken("runPython") }
      assert.include(yield* get("vlc_playing_info", { dest: "status.xml" }, gone), "failed:")
      assert.include(yield* get("vlc_playing_info", {}, trouble), "failed:")
    })
  )
})

describe("default_video_player", () => {
  it("is what most types of film have", () => {
    assert.strictEqual(Media.mostCommon(["a", "b", "", "", "", "b"]), "b")
    assert.strictEqual(Media.mostCommon(["a", "b"]), "a")
    assert.strictEqual(Media.mostCommon(["", ""]), undefined)
  })

  it.effect("asks for all types at once", () =>
    Effect.gen(function* () {
      const commands: Array<unknown> = []
      const guest: Partial<Guest> = {
        execute: ({ command }) => {
          commands.push(command)
          return Effect.succeed(printed("totem.desktop\nvlc.desktop\n\nvlc.desktop\n"))
        }
      }
      assert.strictEqual(yield* get("default_video_player", {}, guest), "vlc.desktop\n")
      assert.strictEqual(commands.length, 1)
      assert.match(String(commands[0]), /for type in 3gp .*x-matroska .*xdg-mime query default "video\/\$type"/)
      const silent: Partial<Guest> = { execute: () => Effect.succeed(printed("\n\n")) }
      assert.strictEqual(yield* get("default_video_player", {}, silent), "unknown")
      const without: Partial<Guest> = { execute: () => Effect.succeed({ ...printed("", 127), stderr: "not found" }) }
      assert.include(yield* get("default_video_player", {}, without), "not found")
    })
  )
})

describe("the desktop", () => {
  it.effect("vm_wallpaper is the picture", () =>
    Effect.gen(function* () {
      const parameters = { dest: "wallpaper.png" }
      assert.strictEqual(yield* get("vm_wallpaper", parameters, { wallpaper: Effect.succeed(text("PNG")) }), "PNG")
      assert.strictEqual(yield* get("vm_wallpaper", parameters, { wallpaper: refusal("wallpaper", 404) }), "missing")
      assert.include(yield* get("vm_wallpaper", parameters, { wallpaper: refusal("wallpaper", 500) }), "failed:")
      assert.include(yield* get("vm_wallpaper", parameters, { wallpaper: broken("wallpaper") }), "failed:")
      assert.include(yield* get("vm_wallpaper", {}, { wallpaper: Effect.succeed(text("PNG")) }), "failed:")
    })
  )

  it.effect("vm_screen_size and vm_window_size are sizes", () =>
    Effect.gen(function* () {
      const size = { width: 1920, height: 1080 }
      assert.deepStrictEqual(yield* get("vm_screen_size", {}, { screenSize: Effect.succeed(size) }), size)
      assert.include(yield* get("vm_screen_size", {}, { screenSize: broken("screenSize") }), "failed:")
      const window = (windowSize: Guest["windowSize"]) =>
        get("vm_window_size", { app_class_name: "vlc" }, { windowSize }, "expected")
      assert.deepStrictEqual(yield* window((name) => Effect.succeed({ width: name.length, height: 2 })), {
        width: 3,
        height: 2
      })
      // Official guests answer 500 where there is no such window.
      assert.strictEqual(yield* window(() => refusal("windowSize", 500)), "missing")
      assert.include(yield* window(() => broken("windowSize")), "failed:")
      assert.include(yield* get("vm_window_size", {}, {}), "failed:")
    })
  )

  it.effect("vm_terminal_output is the text of the terminal", () =>
    Effect.gen(function* () {
      assert.strictEqual(yield* get("vm_terminal_output", {}, { terminal: Effect.succeed("user$ ls") }), "user$ ls")
      assert.strictEqual(yield* get("vm_terminal_output", {}, { terminal: Effect.succeed(null) }), "missing")
      assert.include(yield* get("vm_terminal_output", {}, { terminal: broken("terminal") }), "failed:")
    })
  )
})

describe("inside documents", () => {
  it.effect("content_from_vm_file is a workbook's last row", () =>
    Effect.gen(function* () {
      const parameters = { path: "/home/user/a.xlsx", file_type: "xlsx", file_content: "last_row" }
      const guest = files({ "/home/user/a.xlsx": readFileSync(fixture("book.xlsx")) })
      // The first sheet of book.fods: Bread, 3, a date, 3 November 2025, #DIV/0!, false.
      const row = yield* get("content_from_vm_file", parameters, guest)
      assert.deepStrictEqual(Array.isArray(row) ? row.slice(0, 2) : row, ["Bread", "3.0"])
      assert.strictEqual(yield* get("content_from_vm_file", parameters, {}), "missing")
      const other = files({ "/home/user/a.xlsx": text("no workbook") })
      assert.strictEqual(yield* get("content_from_vm_file", parameters, other), "missing")
      assert.include(yield* get("content_from_vm_file", { ...parameters, file_type: "csv" }, guest), "failed:")
    })
  )

  const relation = (id: string, kind: string, target: string, mode = "") =>
    `<Relationship Id="${id}" Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/${kind}" Target="${target}"${mode}/>`
  const relations = (...all: ReadonlyArray<string>) =>
    strToU8(
      `<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">${all.join("")}</Relationships>`
    )
  const namespaces =
    'xmlns:p="http://schemas.openxmlformats.org/presentationml/2006/main" xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main" xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/relationships"'
  const external = ' TargetMode="External"'

  /** A deck of two slides: the second has neither sound nor background. */
  const deck = (...slideRelations: ReadonlyArray<string>): Uint8Array =>
    zipSync({
      "_rels/.rels": relations(relation("r", "officeDocument", "ppt/presentation.xml")),
      "ppt/presentation.xml": strToU8(
        `<p:presentation ${namespaces}><p:sldIdLst><p:sldId id="256" r:id="s1"/><p:sldId id="257" r:id="s2"/></p:sldIdLst><p:sldSz cx="9144000" cy="6858000"/></p:presentation>`
      ),
      "ppt/_rels/presentation.xml.rels": relations(
        relation("s1", "slide", "slides/slide1.xml"),
        relation("s2", "slide", "slides/slide2.xml")
      ),
      "ppt/slides/slide1.xml": strToU8(
        `<p:sld ${namespaces}><p:cSld><p:bg><p:bgPr><a:blipFill><a:blip r:embed="i"/></a:blipFill></p:bgPr></p:bg><p:spTree/></p:cSld></p:sld>`
      ),
      "ppt/slides/slide2.xml": strToU8(`<p:sld ${namespaces}><p:cSld><p:spTree/></p:cSld></p:sld>`),
      "ppt/slides/_rels/slide1.xml.rels": relations(...slideRelations),
      "ppt/media/tune.mp3": strToU8("a tune"),
      "ppt/media/back.png": strToU8("a picture")
    })
  const parameters = { ppt_file_path: "/home/user/deck.pptx", slide_index: 0, dest: "media" }
  const guestWith = (bytes: Uint8Array) =>
    files({ "/home/user/deck.pptx": bytes, "/home/user/My tune.mp3": text("another tune") })

  it.effect("audio_in_slide is the sound in the deck, or the one that it names", () =>
    Effect.gen(function* () {
      const sound = (type: string, bytes: Uint8Array, more: Record<string, unknown> = {}) =>
        get(type, { ...parameters, ...more }, guestWith(bytes))
      const inside = deck(relation("a", "audio", "../media/tune.mp3"), relation("i", "image", "../media/back.png"))
      assert.strictEqual(yield* sound("audio_in_slide", inside), "a tune")
      assert.strictEqual(yield* sound("audio_in_slide", inside, { slide_index: "0" }), "a tune")
      assert.strictEqual(yield* sound("background_image_in_slide", inside), "a picture")
      const outside = deck(relation("a", "audio", "file:///home/user/My%20tune.mp3", external))
      assert.strictEqual(yield* sound("audio_in_slide", outside), "another tune")
      const lost = deck(relation("a", "audio", "file:///home/user/gone.mp3", external))
      assert.strictEqual(yield* sound("audio_in_slide", lost), "missing")
      const elsewhere = deck(relation("a", "audio", "https://example.org/tune.mp3", external))
      assert.strictEqual(yield* sound("audio_in_slide", elsewhere), "missing")
      for (const type of ["audio_in_slide", "background_image_in_slide"]) {
        assert.strictEqual(yield* sound(type, deck()), "missing")
        assert.strictEqual(yield* sound(type, inside, { slide_index: 1 }), "missing")
        assert.strictEqual(yield* sound(type, inside, { slide_index: 7 }), "missing")
        assert.strictEqual(yield* sound(type, text("no deck")), "missing")
        assert.strictEqual(yield* get(type, parameters, {}), "missing")
        assert.include(yield* sound(type, inside, { slide_index: -1 }), "failed:")
      }
    })
  )
})
