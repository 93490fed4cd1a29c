import { existsSync, readdirSync, readFileSync } from "node:fs"
import * as path from "node:path"
import { fileURLToPath } from "node:url"
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Schema from "effect/Schema"
import { GuestError } from "../../../src/desktop/GuestError.js"
import * as ActiveUrl from "../../../src/osworld/evaluator/internal/activeUrl.js"
import * as ChromeLive from "../../../src/osworld/evaluator/internal/getters/chromeLive.js"
import * as ChromeProfile from "../../../src/osworld/evaluator/internal/getters/chromeProfile.js"
import * as RelativeTime from "../../../src/osworld/evaluator/internal/getters/relativeTime.js"
import type { TaskContext } from "../../../src/osworld/Setup.js"
import { contextOf, getWith } from "./chromeSupport.js"
import { json, rightOf, text } from "./support.js"

/** A window as Chromium 156 tells of it to the accessibility bus, shortened. */
const frame = (address: string, active = false) =>
  `<frame name="Page" ${active ? 'st:active="true"' : ""}><panel><tool-bar>
    <entry name="Address and search bar" st:editable="true" attr:class="OmniboxViewViews">${address}</entry>
  </tool-bar></panel><entry name="Search">not this</entry></frame>`

const tree = (name: string, ...frames: ReadonlyArray<string>) =>
  `<desktop-frame xmlns:st="https://accessibility.ubuntu.example.org/ns/state"
    xmlns:attr="https://accessibility.ubuntu.example.org/ns/attributes">
    <application name="gnome-shell"><entry name="Address and search bar">nor this</entry></application>
    <application name="${name}">${frames.join("")}</application></desktop-frame>`

const strict = { compat: false }
const compat = { compat: true }

describe("the address bar", () => {
  const find = (xml: string, context = strict) => rightOf(ActiveUrl.find(xml, "https://", context))

  it("is Chrome's or Chromium's", () => {
    assert.strictEqual(find(tree("Google Chrome", frame("x.com/a"))), "https://x.com/a")
    assert.strictEqual(find(tree("Chromium", frame(" x.com/a "))), "https://x.com/a")
    assert.strictEqual(find(tree("Firefox", frame("x.com/a"))), undefined)
    assert.strictEqual(find(tree("Chromium")), undefined)
    assert.strictEqual(find(tree("Chromium", frame(""))), undefined)
  })

  it("is that of the window in front; upstream takes the first one", () => {
    const windows = tree("Google Chrome", frame("first.com"), frame("front.com", true), frame(""))
    assert.strictEqual(find(windows), "https://front.com")
    assert.strictEqual(find(windows, compat), undefined)
    assert.strictEqual(
      find(tree("Google Chrome", frame("first.com"), frame("front.com", true)), compat),
      "https://first.com"
    )
    assert.strictEqual(find(tree("Google Chrome", frame(""), frame("second.com"))), "https://second.com")
  })

  it("may show a whole address", () => {
    assert.strictEqual(find(tree("Chromium", frame("chrome://settings/"))), "chrome://settings/")
    assert.strictEqual(find(tree("Chromium", frame("chrome://settings/")), compat), "https://chrome://settings/")
  })

  it("is nowhere in what is no tree", () => {
    assert.isTrue(Either.isLeft(ActiveUrl.find("<desktop-frame>", "https://", strict)))
    assert.isTrue(Either.isLeft(ActiveUrl.find('<!DOCTYPE a [<!ENTITY b "c">]><a>&b;</a>', "https://", strict)))
  })
})

describe("getters of the active tab's address", () => {
  const get = (
    address: string,
    type: string,
    parameters: Record<string, unknown> = {},
    rest: Partial<TaskContext> = {}
  ) =>
    getWith(
      ChromeLive.getters,
      type,
      parameters,
      contextOf({ accessibilityTree: Effect.succeed(tree("Google Chrome", frame(address, true))) }, rest)
    )

  it.effect("active_url_from_accessTree", () =>
    Effect.gen(function* () {
      const type = "active_url_from_accessTree"
      assert.deepStrictEqual(yield* get("x.com", type), text("https://x.com"))
      assert.deepStrictEqual(yield* get("x.com", type, { goto_prefix: "https://www." }), text("https://www.x.com"))
      assert.deepInclude(yield* get("", type), { _tag: "Missing" })
      assert.include(String(yield* get("x.com", type, { goto_prefix: 1 })), `${type} failed`)
      const broken = contextOf({ accessibilityTree: Effect.succeed("<a>") })
      assert.include(String(yield* getWith(ChromeLive.getters, type, {}, broken)), "not well-formed")
      const down = contextOf({
        accessibilityTree: Effect.fail(
          new GuestError({ operation: "accessibilityTree", reason: { _tag: "Unreachable", detail: "gone" } })
        )
      })
      assert.include(String(yield* getWith(ChromeLive.getters, type, {}, down)), "gone")
    })
  )

  it.effect("active_tab_url_parse: the parameters of task f5d96daf", () =>
    Effect.gen(function* () {
      const type = "active_tab_url_parse"
      const address = "apple.com/iphone/compare/?modelList=iphone-15-pro-max,iphone-14-pro-max&amp;a=1+2&amp;a=3"
      assert.deepStrictEqual(
        yield* get(address, type, { goto_prefix: "https://www.", parse_keys: ["modelList"], split_list: true }),
        json({ modelList: ["iphone-15-pro-max", "iphone-14-pro-max"] })
      )
      assert.deepStrictEqual(
        yield* get(address, type, { parse_keys: ["a", "b"], replace: { a: "first" } }),
        json({ first: "1 2", b: "" })
      )
      assert.deepStrictEqual(yield* get("x.com", type, { parse_keys: ["a"], split_list: true }), json({ a: [""] }))
      assert.deepInclude(yield* get("", type, { parse_keys: [] }), { _tag: "Missing" })
      assert.include(String(yield* get(address, type)), `${type} failed`)
    })
  )

  it.effect("url_dashPart: a part between slashes", () =>
    Effect.gen(function* () {
      const type = "url_dashPart"
      const address = "accuweather.com/en/gb/manchester/m15-6/january-weather/329260?year=2027"
      const part = (parameters: Record<string, unknown>) => get(address, type, parameters)
      assert.deepStrictEqual(
        yield* part({ partIndex: -2, returnType: "json", key: "time" }),
        json({ time: "january-weather" })
      )
      assert.deepStrictEqual(yield* part({ partIndex: "2", returnType: "string" }), text("accuweather.com"))
      assert.deepStrictEqual(yield* part({ partIndex: -1, returnType: "string", needDeleteId: true }), text("329260"))
      assert.deepStrictEqual(yield* part({ partIndex: -1, returnType: "string" }), text("329260?year=2027"))
      assert.deepInclude(yield* part({ partIndex: 40, returnType: "string" }), { _tag: "Missing" })
      assert.include(String(yield* part({ partIndex: "two", returnType: "string" })), `${type} failed`)
      assert.include(String(yield* part({ partIndex: 1, returnType: "xml" })), `${type} failed`)
    })
  )

  it.effect("url_path_parse: the filters of a list", () =>
    Effect.gen(function* () {
      const keys = { parse_keys: ["Men_regular_size_t", "Price_discount_range", "Other"] }
      const filtered =
        "macys.com/shop/mens-clothing/mens-shirts/Men_regular_size_t,Price_discount_range,Sleeve_length/L,50_PERCENT_%20off%20%26%20more,short-sleeve?id=20626"
      const expected = {
        mens_clothing: true,
        shirts: true,
        short_sleeve: true,
        Men_regular_size_t: "L",
        Price_discount_range: "50_PERCENT_ off & more"
      }
      for (const type of ["url_path_parse", "macys_product_url_parse"]) {
        assert.deepStrictEqual(yield* get(filtered, type, keys), json(expected))
      }
      assert.deepStrictEqual(
        yield* get(
          filtered.replace("50_", "30_PERCENT_ off & more|50_").replaceAll("&", "&amp;"),
          "url_path_parse",
          keys
        ),
        json({ ...expected, Price_discount_range: "not_50_PERCENT_ off & more" })
      )
      assert.deepStrictEqual(
        yield* get("macys.com/", "url_path_parse", keys),
        json({
          mens_clothing: null,
          shirts: null,
          short_sleeve: null,
          Men_regular_size_t: null,
          Price_discount_range: "not_50_PERCENT_ off & more"
        })
      )
      assert.deepInclude(yield* get("", "url_path_parse", keys), { _tag: "Missing" })
      assert.include(String(yield* get("macys.com/", "url_path_parse")), "url_path_parse failed")
    })
  )

  it.effect("without a window there is no tab to look at", () =>
    Effect.gen(function* () {
      const parameters = { category: "xpath", xpathObject: { "//h1": "title" } }
      assert.deepInclude(yield* get("", "active_tab_html_parse", parameters), { _tag: "Missing" })
      assert.deepInclude(yield* get("", "active_tab_info"), { _tag: "Missing" })
      assert.include(String(yield* get("x.com", "active_tab_info")), "none here")
    })
  )
})

const folder = process.env.OSWORLD_TASKS ?? fileURLToPath(new URL("../../../../shared/osworld-tasks", import.meta.url))

describe.skipIf(!existsSync(folder))("tasks' own parameters", () => {
  const Evaluator = Schema.Struct({
    evaluator: Schema.Struct({ result: Schema.optional(Schema.Unknown), expected: Schema.optional(Schema.Unknown) })
  })
  const isSpec = Schema.is(Schema.Struct({ type: Schema.String }))

  it.effect("are understood", () =>
    Effect.gen(function* () {
      const byName = new Map(
        [...ChromeLive.getters, ...ChromeProfile.getters, ...RelativeTime.getters].map((getter) => [
          getter.name,
          getter
        ])
      )
      const seen = new Set<string>()
      for (const name of readdirSync(folder)) {
        const content: unknown = JSON.parse(
          name.endsWith(".json") ? readFileSync(path.join(folder, name), "utf8") : "0"
        )
        if (!Schema.is(Evaluator)(content)) continue
        for (const spec of [content.evaluator.result, content.evaluator.expected].flat()) {
          const getter = isSpec(spec) ? byName.get(spec.type) : undefined
          if (getter === undefined || !isSpec(spec)) continue
          const { type, ...parameters } = spec
          yield* getter.validate({ type, parameters })
          seen.add(type)
        }
      }
      assert.includeMembers([...seen], ["open_tabs_info", "cookie_data", "history", "info_from_website"])
    })
  )
})
