import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as FastCheck from "effect/FastCheck"
import * as PythonLiteral from "../../../src/desktop/PythonLiteral.js"
import * as Glob from "../../../src/osworld/evaluator/internal/glob.js"
import * as PythonList from "../../../src/osworld/evaluator/internal/pythonList.js"
import * as System from "../../../src/osworld/evaluator/system.js"
import { file, json, judge, missing, rightOf, text, written } from "./support.js"

const timedatectl = (zone: string) => `               Local time: Thu 2024-01-25 12:56:06 WET
           Universal time: Thu 2024-01-25 12:56:06 UTC
                 RTC time: Thu 2024-01-25 12:56:05
                Time zone: ${zone}
System clock synchronized: yes
              NTP service: inactive
          RTC in local TZ: no
`

describe("metrics over the desktop's settings", () => {
  it.effect("check_gnome_favorite_apps: a list that is read and never run", () =>
    Effect.gen(function* () {
      const expected = ["thunderbird.desktop", "vim.desktop"]
      const check = (found: string, names: unknown = expected) =>
        judge(System.checkGnomeFavoriteApps, text(found), json({ expected: names }))
      assert.strictEqual(yield* check("['vim.desktop', 'thunderbird.desktop']\n"), 1)
      assert.strictEqual(yield* check("['vim.desktop']"), 0)
      assert.strictEqual(yield* check("['vim.desktop', 'vim.desktop']"), 0)
      assert.strictEqual(yield* check("['vim.desktop', 'thunderbird.desktop', 'vim.desktop']"), 0)
      assert.strictEqual(yield* check("@as []\n"), 0)
      assert.strictEqual(yield* check("@as []", []), 1)
      assert.strictEqual(yield* check("[x for x in expected_apps]"), 0)
      assert.strictEqual(yield* check("No such schema"), 0)
      assert.strictEqual(yield* judge(System.checkGnomeFavoriteApps, missing, json({ expected })), 0)
      assert.include(yield* check("[]", "vim.desktop"), "cannot decide")
    })
  )

  it.effect("is_utc_0: whatever the zone is called", () =>
    Effect.gen(function* () {
      const check = (output: string, compat = false) => judge(System.isUtc0, text(output), undefined, {}, { compat })
      assert.strictEqual(yield* check(timedatectl("Atlantic/Faroe (WET, +0000)")), 1)
      assert.strictEqual(yield* check(timedatectl("Etc/UTC (UTC, +0000)"), true), 1)
      assert.strictEqual(yield* check(timedatectl("Europe/Berlin (CET, +0100)")), 0)
      const warned = `Warning: the clock is odd.\n${timedatectl("Etc/UTC (UTC, +0000)")}`
      assert.strictEqual(yield* check(warned), 1)
      assert.strictEqual(yield* check(warned, true), 0)
      assert.strictEqual(yield* check("System has not been booted with systemd"), 0)
      assert.strictEqual(yield* judge(System.isUtc0, missing), 0)
    })
  )

  it.effect("check_text_enlarged", () =>
    Effect.gen(function* () {
      const check = (factor: string) => judge(System.checkTextEnlarged, text(factor))
      assert.strictEqual(yield* check("1.25\n"), 1)
      assert.strictEqual(yield* check("1.0\n"), 0)
      assert.strictEqual(yield* check("large"), 0)
      assert.strictEqual(yield* check(""), 0)
    })
  )

  it.effect("check_moved_jpgs: names in any order, no others", () =>
    Effect.gen(function* () {
      const tree = (...names: Array<string>) =>
        json({ type: "directory", name: "cpjpg", children: names.map((name) => ({ type: "file", name })) })
      const expected = json({ expected: ["a.jpg", "b.jpg"] })
      assert.strictEqual(yield* judge(System.checkMovedJpgs, tree("b.jpg", "a.jpg"), expected), 1)
      assert.strictEqual(yield* judge(System.checkMovedJpgs, tree("a.jpg"), expected), 0)
      assert.strictEqual(yield* judge(System.checkMovedJpgs, tree("a.jpg", "b.jpg", "c.png"), expected), 0)
      assert.strictEqual(yield* judge(System.checkMovedJpgs, json({ type: "file" }), expected), 0)
      assert.strictEqual(yield* judge(System.checkMovedJpgs, missing, expected), 0)
      assert.include(yield* judge(System.checkMovedJpgs, tree(), json({})), "cannot decide")
    })
  )

  it.effect("is_in_vm_clickboard: the rule comes as the result", () =>
    Effect.gen(function* () {
      const check = (expected: unknown, clipboard: Parameters<typeof judge>[2]) =>
        judge(System.isInVmClickboard, json({ expected }), clipboard)
      assert.strictEqual(yield* check("folder", text("my folder\n")), 1)
      assert.strictEqual(yield* check(["my", "folder"], text("my folder\n")), 1)
      assert.strictEqual(yield* check(["my", "file"], text("my folder\n")), 0)
      assert.strictEqual(yield* check("folder", text("")), 0)
      assert.strictEqual(yield* check("folder", missing), 0)
      assert.include(yield* check(5, text("5")), "cannot decide")
      assert.include(yield* check("folder", undefined), "cannot decide")
    })
  )

  it.effect("check_libre_locale: the locale of formats, else of the interface", () =>
    Effect.gen(function* () {
      const item = (name: string, value: string) =>
        `<item oor:path="/org.openoffice.Setup/L10N"><prop oor:name="${name}" oor:op="fuse"><value>${value}</value></prop></item>`
      const registry = (...items: Array<string>) =>
        `<?xml version="1.0" encoding="UTF-8"?>
<oor:items xmlns:oor="http://openoffice.org/2001/registry">${items.join("\n")}</oor:items>`
      const at = yield* written({
        both: registry(item("ooLocale", "en-US"), item("ooSetupSystemLocale", "is-IS")),
        interface: registry(item("ooLocale", "is-IS")),
        none: registry(),
        broken: "<oor:items"
      })
      const check = (name: string, locale_set: unknown) =>
        judge(System.checkLibreLocale, file(at(name)), json({ locale_set }))
      assert.strictEqual(yield* check("both", ["en-*", "is-*"]), 1)
      assert.strictEqual(yield* check("both", ["en-??"]), 0)
      assert.strictEqual(yield* check("interface", ["is-IS"]), 1)
      assert.strictEqual(yield* check("none", ["*"]), 0)
      assert.strictEqual(yield* check("broken", ["*"]), 0)
      assert.include(yield* check("both", "is-*"), "cannot decide")
    }).pipe(Effect.scoped)
  )
})

describe("what guests print", () => {
  it("is read as Python wrote it", () =>
    FastCheck.assert(
      FastCheck.property(FastCheck.array(FastCheck.string({ unit: "binary" })), (items) => {
        // Characters beyond the first plane are written with \U, which no list of names has.
        const plain = items.map((item) => item.replace(/[\u{10000}-\u{10ffff}]/gu, ""))
        assert.deepStrictEqual(rightOf(PythonList.parse(PythonLiteral.fromStrings(plain))), plain)
      })
    ))

  it("is refused when it is no list of strings", () => {
    for (const source of ["", "[", "['a'", "['a' 'b']", "[1]", "['a'] + ['b']", "['a']]", "exit()", "['a\\"]) {
      assert.isTrue(Either.isLeft(PythonList.parse(source)), source)
    }
    assert.deepStrictEqual(rightOf(PythonList.parse("[ 'a', \"b's\", ]")), ["a", "b's"])
  })

  it("fits patterns as fnmatch has them", () => {
    // fnmatch.fnmatchcase of Python 3.11 says the same.
    for (const [pattern, name, fits] of [
      ["is-*", "is-IS", true],
      ["is-?", "is-IS", false],
      ["[a-c]x", "bx", true],
      ["[!a-c]x", "bx", false],
      ["[]]", "]", true],
      ["a.b", "axb", false],
      ["[", "[", true],
      ["IS*", "is-IS", false]
    ] as const) {
      assert.strictEqual(Glob.compile(pattern).test(name), fits, pattern)
    }
  })
})
