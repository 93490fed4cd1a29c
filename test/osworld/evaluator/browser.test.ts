import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as FastCheck from "effect/FastCheck"
import * as Browser from "../../../src/osworld/evaluator/browser.js"
import { canCover } from "../../../src/osworld/evaluator/internal/matching.js"
import type { Metric } from "../../../src/osworld/evaluator/Metric.js"
import { file, json, judge, missing, text, written } from "./support.js"

const compat = { compat: true }

describe("metrics over addresses", () => {
  it.effect("is_expected_url_pattern_match: the rule of task f3b19d1e", () =>
    Effect.gen(function* () {
      const check = (result: Parameters<typeof judge>[1], rules: unknown = { expected: ["Ticket-Delivery-FAQs"] }) =>
        judge(Browser.isExpectedUrlPatternMatch, result, json(rules))
      const url = "https://help.ticketek.com.au/hc/en-us/articles/9-Ticket-Delivery-FAQs"
      assert.strictEqual(yield* check(json({ title: "FAQ", url, content: "" })), 1)
      assert.strictEqual(yield* check(text(url)), 1)
      assert.strictEqual(yield* check(text(url), { expected: ["FAQs$", "^https://help\\."] }), 1)
      assert.strictEqual(yield* check(text(url), { expected: ["FAQs$", "^http://"] }), 0)
      assert.strictEqual(yield* check(text("https://help.ticketek.com.au/")), 0)
      assert.strictEqual(yield* check(text(url), { expected: "Delivery" }), 1)
      assert.strictEqual(yield* check(json({ title: "FAQ" })), 0)
      assert.strictEqual(yield* check(json([])), 0)
      assert.strictEqual(yield* check(missing), 0)
      assert.include(yield* check(text(url), { expected: ["("] }), "is not supported")
      assert.include(yield* check(text(url), {}), "expected: is missing")
    })
  )

  it.effect("is_expected_search_query: a pattern in the address", () =>
    Effect.gen(function* () {
      const rules = json({ expect: { pattern: "[?&]q=drip[+ ]coffee" } })
      const check = (url: unknown) => judge(Browser.isExpectedSearchQuery, json({ url }), rules)
      assert.strictEqual(yield* check("https://shop.example/s?q=drip+coffee"), 1)
      assert.strictEqual(yield* check("https://shop.example/s?p=drip+coffee"), 0)
      assert.strictEqual(yield* check(7), 0)
      assert.include(yield* judge(Browser.isExpectedSearchQuery, json({ url: "a" }), json({ expect: {} })), "pattern")
    })
  )

  it.effect("is_expected_active_tab: the rule of task 59155008", () =>
    Effect.gen(function* () {
      const url = "https://www.babycenter.com/baby-names/details/carl-853"
      const rules = json({ type: "url", url })
      assert.strictEqual(yield* judge(Browser.isExpectedActiveTab, text(url), rules), 1)
      assert.strictEqual(yield* judge(Browser.isExpectedActiveTab, json({ url }), rules), 1)
      assert.strictEqual(yield* judge(Browser.isExpectedActiveTab, text(`${url}?ref=1`), rules), 0)
      assert.strictEqual(yield* judge(Browser.isExpectedActiveTab, text(""), rules), 0)
      assert.strictEqual(yield* judge(Browser.isExpectedActiveTab, missing, rules), 0)
      assert.include(
        yield* judge(Browser.isExpectedActiveTab, text(url), json({ type: "title", title: "Carl" })),
        "cannot decide"
      )
    })
  )

  it.effect("is_expected_active_tab_approximate: queries apart, to the letter", () =>
    Effect.gen(function* () {
      const check = (found: string) =>
        judge(
          Browser.isExpectedActiveTabApproximate,
          text(found),
          json({ type: "url", url: "https://www.delta.com/us/en/fees?x=1" })
        )
      assert.strictEqual(yield* check("https://www.delta.com/us/en/fees?y=2"), 1)
      assert.strictEqual(yield* check("https://www.delta.com/us/en/fees"), 1)
      assert.strictEqual(yield* check("https://delta.com/us/en/fees"), 0)
      assert.strictEqual(yield* check("https://www.delta.com/us/en/fees#a"), 0)
    })
  )

  it.effect("is_expected_tabs: the rule of task 06fe7178", () =>
    Effect.gen(function* () {
      const urls = ["https://www.lonelyplanet.com", "https://www.airbnb.com", "https://www.tripadvisor.com"]
      const tabs = (list: ReadonlyArray<string>) => json(list.map((url) => ({ title: "t", url })))
      const check = (list: ReadonlyArray<string>, expected = urls, context = {}) =>
        judge(Browser.isExpectedTabs, tabs(list), json({ type: "url", urls: expected }), {}, context)
      assert.strictEqual(
        yield* check(["https://www.tripadvisor.co.uk/", "https://airbnb.com/", "https://lonelyplanet.com/"]),
        1
      )
      assert.strictEqual(yield* check(urls.slice(1)), 0)
      assert.strictEqual(yield* check([...urls, "chrome://newtab/"]), 0)
      assert.strictEqual(yield* check([]), 0)
      assert.strictEqual(yield* check([], []), 0)
      // One that is expected twice has to be there twice.
      assert.strictEqual(yield* check(["https://a.com", "https://b.com"], ["https://a.com", "https://a.com"]), 0)
      assert.strictEqual(
        yield* check(["https://a.com", "https://b.com"], ["https://a.com", "https://a.com"], compat),
        1
      )
      assert.strictEqual(yield* judge(Browser.isExpectedTabs, json([{ title: "t" }]), json({ type: "url", urls })), 0)
      assert.strictEqual(yield* judge(Browser.isExpectedTabs, missing, json({ type: "url", urls })), 0)
      assert.include(yield* judge(Browser.isExpectedTabs, tabs(urls), json({ type: "title", urls })), "cannot decide")
    })
  )

  it.effect("is_added_to_steam_cart: all items are on the page", () =>
    Effect.gen(function* () {
      const rules = json({ items: ["The Dota 2 Official Soundtrack"] })
      const check = (page: unknown) => judge(Browser.isAddedToSteamCart, json(page), rules)
      assert.strictEqual(yield* check({ content: "<b>The Dota 2 Official Soundtrack</b>" }), 1)
      assert.strictEqual(yield* check({ content: "<b>Your cart is empty</b>" }), 0)
      assert.strictEqual(yield* check({ url: "x" }), 0)
      assert.include(yield* judge(Browser.isAddedToSteamCart, json({ content: "" }), json({})), "items")
    })
  )
})

describe("metrics over a profile", () => {
  const folder = (name: string, ...urls: ReadonlyArray<string>) => ({
    type: "folder",
    name,
    children: urls.map((url) => ({ type: "url", name: "n", url }))
  })
  const bar = (...children: ReadonlyArray<unknown>) => json({ bookmark_bar: { children }, other: { children: [] } })

  it.effect("is_expected_bookmarks: folders and pages of the bar", () =>
    Effect.gen(function* () {
      const check = (result: Parameters<typeof judge>[1], rules: unknown) =>
        judge(Browser.isExpectedBookmarks, result, json(rules))
      const names = { type: "bookmark_bar_folders_names", names: ["Favorites"] }
      const page = { type: "url", name: "n", url: "https://jalammar.github.io/" }
      assert.strictEqual(yield* check(bar(folder("Favorites"), page), names), 1)
      assert.strictEqual(yield* check(bar(folder("Favorites"), folder("More")), names), 0)
      assert.strictEqual(yield* check(bar(page), names), 0)
      const urls = { type: "bookmark_bar_websites_urls", urls: ["https://jalammar.github.io/"] }
      assert.strictEqual(yield* check(bar(page, folder("Favorites")), urls), 1)
      assert.strictEqual(yield* check(bar(folder("Favorites", page.url)), urls), 0)
      assert.strictEqual(yield* check(json({}), urls), 0)
      assert.strictEqual(yield* check(missing, urls), 0)
      assert.include(yield* check(bar(page), { type: "all" }), "cannot decide")
    })
  )

  it.effect("is_expected_bookmarks: liked authors, some with a choice", () =>
    Effect.gen(function* () {
      const rules = { type: "liked_authors_websites_urls", urls: ["https://a.x/", ["https://b.x/", "https://bb.x/"]] }
      const check = (...urls: ReadonlyArray<string>) =>
        judge(Browser.isExpectedBookmarks, bar(folder("Liked Authors", ...urls)), json(rules))
      assert.strictEqual(yield* check("https://bb.x/", "https://a.x/"), 1)
      assert.strictEqual(yield* check("https://a.x/", "https://b.x/", "https://bb.x/"), 0)
      assert.strictEqual(yield* check("https://a.x/"), 0)
      assert.strictEqual(yield* check("https://b.x/", "https://bb.x/"), 0)
      assert.strictEqual(yield* check(), 0)
      assert.strictEqual(yield* judge(Browser.isExpectedBookmarks, bar(folder("Others")), json(rules)), 0)
    })
  )

  it("covering agrees with trying every choice", () => {
    const letters = FastCheck.constantFrom("a", "b", "c", "d")
    const product = (lists: ReadonlyArray<ReadonlyArray<string>>): ReadonlyArray<ReadonlyArray<string>> =>
      lists.reduce<ReadonlyArray<ReadonlyArray<string>>>(
        (all, list) => all.flatMap((chosen) => list.map((each) => [...chosen, each])),
        [[]]
      )
    FastCheck.assert(
      FastCheck.property(
        FastCheck.array(FastCheck.array(letters, { minLength: 1, maxLength: 3 }), { maxLength: 4 }),
        FastCheck.array(letters, { maxLength: 4 }),
        (choices, found) => {
          const wanted = [...new Set(found)].sort().join()
          const tried = product(choices).some((chosen) => [...new Set(chosen)].sort().join() === wanted)
          return canCover(choices, found) === tried
        }
      )
    )
  })

  it.effect("is_cookie_deleted: the rule of task 7b6c7e24", () =>
    Effect.gen(function* () {
      const rules = json({ type: "domains", domains: [".amazon.com"] })
      const check = (...hosts: ReadonlyArray<unknown>) =>
        judge(Browser.isCookieDeleted, json(hosts.map((host, index) => [index, host, "", "name"])), rules)
      assert.strictEqual(yield* check(), 1)
      assert.strictEqual(yield* check(".google.com", "aws.amazon.com", null), 1)
      assert.strictEqual(yield* check(".google.com", ".amazon.com"), 0)
      assert.strictEqual(yield* check("www.amazon.com"), 0)
      assert.strictEqual(yield* check(".amazon.co.uk"), 0)
      assert.strictEqual(yield* judge(Browser.isCookieDeleted, missing, rules), 0)
      assert.strictEqual(yield* judge(Browser.isCookieDeleted, json({ rows: [] }), rules), 0)
      assert.include(yield* judge(Browser.isCookieDeleted, json([]), json({ type: "names", names: [] })), "decide")
    })
  )

  it.effect("check_history_deleted: the rule of task 44ee5668", () =>
    Effect.gen(function* () {
      const rules = json({ type: "keywords", keywords: ["youtube"] })
      const check = (...urls: ReadonlyArray<string>) =>
        judge(Browser.checkHistoryDeleted, json(urls.map((url) => [url, "title youtube", 1])), rules)
      assert.strictEqual(yield* check("https://www.nytimes.com/", "https://www.bbc.co.uk/"), 1)
      assert.strictEqual(yield* check("https://www.nytimes.com/", "https://www.youtube.com/watch?v=1"), 0)
      assert.strictEqual(yield* check(), 1)
      assert.strictEqual(yield* judge(Browser.checkHistoryDeleted, json([1]), rules), 0)
      assert.strictEqual(yield* judge(Browser.checkHistoryDeleted, missing, rules), 0)
      assert.include(yield* judge(Browser.checkHistoryDeleted, json([]), json({ type: "keywords" })), "keywords")
    })
  )

  it.effect("check_font_size: a value or an open range", () =>
    Effect.gen(function* () {
      const check = (size: unknown, rules: unknown) =>
        judge(Browser.checkFontSize, json({ default_font_size: size }), json(rules))
      assert.strictEqual(yield* check(20, { type: "value", value: 20 }), 1)
      assert.strictEqual(yield* check(16, { type: "value", value: 20 }), 0)
      const range = { type: "range", min: 16, max: 99999 }
      assert.strictEqual(yield* check(20, range), 1)
      assert.strictEqual(yield* check(16, range), 0)
      assert.strictEqual(yield* check("20", range), 0)
      assert.include(yield* check(20, { type: "about", value: 20 }), "cannot decide")
    })
  )

  it.effect("is_expected_installed_extensions: a subset, by names old or new", () =>
    Effect.gen(function* () {
      const check = (installed: unknown, expected: ReadonlyArray<string>) =>
        judge(Browser.isExpectedInstalledExtensions, json(installed), json({ expected }))
      assert.strictEqual(yield* check(["A", "B"], ["A"]), 1)
      assert.strictEqual(yield* check(["B"], ["A"]), 0)
      assert.strictEqual(yield* check([], []), 0)
      assert.strictEqual(yield* check("A", ["A"]), 0)
      assert.strictEqual(yield* check(["Speechify — Voice AI Assistant"], ["Speechify — Text to Speech"]), 1)
      assert.strictEqual(yield* check(["Speechify — Text to Speech"], ["Speechify — Voice AI Assistant"]), 1)
      assert.include(
        yield* judge(Browser.isExpectedInstalledExtensions, json(["A"]), json({ expected: "A" })),
        "cannot decide"
      )
    })
  )

  it.effect("check_enabled_experiments: names, whatever their order and values", () =>
    Effect.gen(function* () {
      const check = (found: unknown, context = {}) =>
        judge(
          Browser.checkEnabledExperiments,
          json(found),
          json({ type: "names", names: ["dark-mode", "smooth"] }),
          {},
          context
        )
      assert.strictEqual(yield* check(["dark-mode@1", "smooth@2"]), 1)
      assert.strictEqual(yield* check(["smooth@2", "dark-mode@1"]), 1)
      assert.strictEqual(yield* check(["smooth@2", "dark-mode@1"], compat), 0)
      assert.strictEqual(yield* check(["smooth@2"]), 0)
      assert.strictEqual(yield* check({}), 0)
      assert.include(yield* judge(Browser.checkEnabledExperiments, json([]), json({ names: [] })), "type")
    })
  )
})

describe("metrics over files", () => {
  it.effect("is_shortcut_on_desktop: names and commands, one in the other", () =>
    Effect.gen(function* () {
      const entry = (name: string) => `[Desktop Entry]\nType=Application\nName=${name}\nExec=/usr/bin/chrome --app=x\n`
      const check = (files: unknown, rules: unknown, context = {}) =>
        judge(Browser.isShortcutOnDesktop, json(files), json(rules), {}, context)
      const rules = { type: "name", name: "Play Puzzle Game 2048" }
      assert.strictEqual(yield* check({ "a.desktop": entry("Play Puzzle Game 2048") }, rules), 1)
      assert.strictEqual(yield* check({ "a.desktop": entry("play puzzle game 2048 online") }, rules), 1)
      assert.strictEqual(yield* check({ "a.desktop": entry("Files") }, rules), 0)
      assert.strictEqual(yield* check({}, rules), 0)
      // An entry without a name says nothing.
      assert.strictEqual(yield* check({ "a.desktop": entry("") }, rules), 0)
      assert.strictEqual(yield* check({ "a.desktop": entry("") }, rules, compat), 1)
      assert.strictEqual(yield* check({ "a.desktop": entry("x") }, { type: "exec", exec: "--app=x" }), 1)
      assert.strictEqual(yield* check({ "a.desktop": entry("x") }, { type: "exec", exec: "--APP=x" }), 0)
      assert.strictEqual(yield* check({ "a.desktop": 1 }, rules), 0)
      assert.include(yield* check({}, { type: "url", url: "x" }), "cannot decide")
    })
  )

  it.effect("compare_htmls: item by item", () =>
    Effect.gen(function* () {
      // As LibreOffice Calc exports a cell: sdnum is locale and format of the number.
      const table = (sdnum: string, value = "1") =>
        `<!DOCTYPE html><html><head><title></title></head><body><table class="a  b"><tr><td sdval="1" sdnum="${sdnum}">${value}</td></tr></table></body></html>`
      const at = yield* written({
        gold: table("1033;"),
        same: table("1033;").replace('class="a  b"', 'class="a b"').replace("<tr>", "<tbody><tr>"),
        other: table("2057;"),
        value: table("1033;", "2"),
        more: table("1033;").replace("</body>", "<hr></body>"),
        text: table("1033;").replace("</body>", "x</body>")
      })
      const check = (name: string, options = {}, context = {}) =>
        judge(Browser.compareHtmls, file(at(name)), file(at("gold")), options, context)
      assert.strictEqual(yield* check("gold"), 1)
      assert.strictEqual(yield* check("same"), 1)
      assert.strictEqual(yield* check("other"), 0)
      assert.strictEqual(yield* check("other", { ignore_sdnum: true }), 1)
      assert.strictEqual(yield* check("value", { ignore_sdnum: true }), 0)
      assert.strictEqual(yield* check("more"), 0)
      assert.strictEqual(yield* check("more", {}, compat), 1)
      assert.strictEqual(yield* check("text", {}, compat), 0)
      assert.strictEqual(yield* judge(Browser.compareHtmls, missing, file(at("gold"))), 0)
      assert.include(yield* judge(Browser.compareHtmls, file(at("gold")), missing), "expected value")
      assert.include(yield* check("gold", { ignore_sdnum: "yes" }), "bad options")
    }).pipe(Effect.scoped)
  )

  it.effect("compare_htmls: deep nesting and large files are borne", () =>
    Effect.gen(function* () {
      const at = yield* written({ deep: "<div>".repeat(50_000), large: "x".repeat(33 * 1024 * 1024) })
      assert.strictEqual(yield* judge(Browser.compareHtmls, file(at("deep")), file(at("deep"))), 1)
      assert.include(yield* judge(Browser.compareHtmls, file(at("large")), file(at("deep"))), "33554432 characters")
    }).pipe(Effect.scoped)
  )

  it.effect("is_included_all_json_objects: what is expected is in the result", () =>
    Effect.gen(function* () {
      const at = yield* written({ gold: '{"a": 1}', more: '{"a": 1, "b": [2]}', broken: '{"a": 1' })
      const check = (name: string, context = {}) =>
        judge(Browser.isIncludedAllJsonObjects, file(at(name)), file(at("gold")), {}, context)
      assert.strictEqual(yield* check("gold"), 1)
      assert.strictEqual(yield* check("more"), 1)
      assert.strictEqual(yield* check("more", compat), 0)
      assert.strictEqual(yield* judge(Browser.isIncludedAllJsonObjects, json({ a: 2 }), file(at("gold"))), 0)
      assert.strictEqual(yield* check("broken"), 0)
      assert.strictEqual(yield* judge(Browser.isIncludedAllJsonObjects, missing, file(at("gold"))), 0)
      assert.include(
        yield* judge(Browser.isIncludedAllJsonObjects, file(at("gold")), file(at("broken"))),
        "no JSON object"
      )
    }).pipe(Effect.scoped)
  )

  it("has each metric once", () => {
    const names = Browser.metrics.map(({ name }: Metric) => name)
    assert.strictEqual(new Set(names).size, 15)
    assert.strictEqual(names.length, 15)
  })
})
