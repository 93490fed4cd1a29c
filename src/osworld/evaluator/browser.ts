/**
 * Metrics over what a browser shows and keeps: addresses, tabs, bookmarks, history, cookies, settings.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Schema from "effect/Schema"
import * as Urls from "../internal/urls.js"
import { type Item, items } from "./internal/html.js"
import * as Json from "./internal/json.js"
import { canCover } from "./internal/matching.js"
import * as PythonRegex from "./internal/pythonRegex.js"
import { type Metric, make, type Reader as ReaderType, Unusable, verdict } from "./Metric.js"
import * as Reader from "./Reader.js"

const none = Schema.Struct({})

const OneOrMany = Schema.Union(Schema.String, Schema.Array(Schema.String))

const asList = (value: string | ReadonlyArray<string>): ReadonlyArray<string> =>
  typeof value === "string" ? [value] : value

const unparsable = (reason: string) => new Unusable({ kind: "Unparsable", reason })

// -----------------------------------------------------------------------------
// Addresses and tabs
// -----------------------------------------------------------------------------

/** Getters of the active tab answer its address, or an object with it. */
const tabUrl: ReaderType<string> = (value) =>
  Effect.flatMap(Reader.plain(value), (tab) => {
    const url = Json.isObject(tab) ? tab["url"] : tab
    return typeof url === "string" && url !== "" ? Effect.succeed(url) : unparsable("no address of a tab")
  })

const matchesAll = (text: string, patterns: ReadonlyArray<string>) =>
  Either.map(Either.all(patterns.map((pattern) => PythonRegex.compile(pattern))), (compiled) =>
    compiled.every((pattern) => pattern.test(text)) ? 1 : 0
  )

const patternsRule = Reader.json(Schema.Struct({ expected: OneOrMany }))

/**
 * Every expected pattern, a Python regular expression, is found somewhere in the active tab's address.
 *
 * @since 0.1.0
 * @category metrics
 */
export const isExpectedUrlPatternMatch: Metric = make({
  name: "is_expected_url_pattern_match",
  result: tabUrl,
  expected: patternsRule,
  options: none,
  score: (url, { expected }) => matchesAll(url, asList(expected))
})

const queryRule = Reader.json(Schema.Struct({ expect: Schema.Struct({ pattern: Schema.String }) }))

/**
 * The pattern `expect.pattern` is found in the active tab's address.
 *
 * @since 0.1.0
 * @category metrics
 */
export const isExpectedSearchQuery: Metric = make({
  name: "is_expected_search_query",
  result: tabUrl,
  expected: queryRule,
  options: none,
  score: (url, { expect }) => matchesAll(url, [expect.pattern])
})

const urlRule = Reader.json(Schema.Struct({ type: Schema.Literal("url"), url: Schema.String }))

/**
 * The active tab shows `url`: the same scheme, site, path, query and fragment. A site is the same whatever its public
 * suffix (`airbnb.com`, `airbnb.co.uk`) and with or without `www.`.
 *
 * @since 0.1.0
 * @category metrics
 */
export const isExpectedActiveTab: Metric = make({
  name: "is_expected_active_tab",
  result: tabUrl,
  expected: urlRule,
  options: none,
  score: (found, { url }) => verdict(Urls.same(found, url))
})

/**
 * The active tab's address is `url` to the letter, queries apart.
 *
 * @since 0.1.0
 * @category metrics
 */
export const isExpectedActiveTabApproximate: Metric = make({
  name: "is_expected_active_tab_approximate",
  result: tabUrl,
  expected: urlRule,
  options: none,
  score: (found, { url }) => verdict(Urls.withoutQuery(found) === Urls.withoutQuery(url))
})

const openTabs = Reader.json(Schema.Array(Schema.Struct({ url: Schema.String })))

const urlsRule = Reader.json(Schema.Struct({ type: Schema.Literal("url"), urls: Schema.Array(Schema.String) }))

/**
 * The open tabs show the addresses `urls` and no others, in any order; addresses are compared as for the active tab.
 *
 * @since 0.1.0
 * @category metrics
 */
export const isExpectedTabs: Metric = make({
  name: "is_expected_tabs",
  result: openTabs,
  expected: urlsRule,
  options: none,
  score: (tabs, { urls }, _, { compat }) =>
    verdict(
      tabs.length > 0 &&
        Urls.sameLists(
          urls,
          tabs.map(({ url }) => url),
          { anyPartner: compat }
        )
    )
})

const pageContent = Reader.json(Schema.Struct({ content: Schema.String }))

const itemsRule = Reader.json(Schema.Struct({ items: Schema.Array(Schema.String) }))

/**
 * All of `items` are in the page's content.
 *
 * @since 0.1.0
 * @category metrics
 */
export const isAddedToSteamCart: Metric = make({
  name: "is_added_to_steam_cart",
  result: pageContent,
  expected: itemsRule,
  options: none,
  score: ({ content }, { items }) => verdict(items.every((item) => content.includes(item)))
})

// -----------------------------------------------------------------------------
// What a profile keeps
// -----------------------------------------------------------------------------

const Bookmark = Schema.Struct({
  type: Schema.optional(Schema.String),
  name: Schema.optional(Schema.String),
  url: Schema.optional(Schema.String),
  children: Schema.optional(Schema.Array(Schema.Unknown))
})

const bookmarkBar = Reader.json(Schema.Struct({ bookmark_bar: Schema.Struct({ children: Schema.Array(Bookmark) }) }))

const isBookmark = Schema.is(Bookmark)

const urlsOf = (bookmarks: ReadonlyArray<unknown>): ReadonlyArray<string> =>
  bookmarks.flatMap((bookmark) =>
    isBookmark(bookmark) && bookmark.type === "url" && bookmark.url !== undefined ? [bookmark.url] : []
  )

const sameSets = (a: ReadonlyArray<string>, b: ReadonlyArray<string>): boolean =>
  a.every((each) => b.includes(each)) && b.every((each) => a.includes(each))

const bookmarksRule = Reader.json(
  Schema.Union(
    Schema.Struct({ type: Schema.Literal("bookmark_bar_folders_names"), names: Schema.Array(Schema.String) }),
    Schema.Struct({ type: Schema.Literal("bookmark_bar_websites_urls"), urls: Schema.Array(Schema.String) }),
    Schema.Struct({ type: Schema.Literal("liked_authors_websites_urls"), urls: Schema.Array(OneOrMany) })
  )
)

/**
 * What is on the bookmark bar: its folders have the names `names`; its pages have the addresses `urls`; or the folder
 * "Liked Authors" has exactly one page (or several) for each of `urls`, which may each be a list to choose from.
 *
 * @since 0.1.0
 * @category metrics
 */
export const isExpectedBookmarks: Metric = make({
  name: "is_expected_bookmarks",
  result: bookmarkBar,
  expected: bookmarksRule,
  options: none,
  score: ({ bookmark_bar: { children } }, rule) => {
    const folders = children.filter(({ type }) => type === "folder")
    switch (rule.type) {
      case "bookmark_bar_folders_names":
        return verdict(
          sameSets(
            folders.map(({ name }) => name ?? ""),
            rule.names
          )
        )
      case "bookmark_bar_websites_urls":
        return verdict(sameSets(urlsOf(children), rule.urls))
      case "liked_authors_websites_urls": {
        const folder = folders.find(({ name }) => name === "Liked Authors")
        return verdict(folder !== undefined && canCover(rule.urls.map(asList), urlsOf(folder.children ?? [])))
      }
    }
  }
})

const rows = Reader.json(Schema.Array(Schema.Array(Schema.Unknown)))

const textsOf = (column: number, table: ReadonlyArray<ReadonlyArray<unknown>>): ReadonlyArray<string> =>
  table.flatMap((row) => {
    const cell = row[column]
    return typeof cell === "string" ? [cell] : []
  })

const domainsRule = Reader.json(
  Schema.Struct({ type: Schema.Literal("domains"), domains: Schema.Array(Schema.String) })
)

/**
 * No cookie is left of any of `domains`. A domain is what it is with `www.` or a dot before it or without, and whatever
 * its public suffix.
 *
 * @since 0.1.0
 * @category metrics
 */
export const isCookieDeleted: Metric = make({
  name: "is_cookie_deleted",
  result: rows,
  expected: domainsRule,
  options: none,
  score: (cookies, { domains }) => {
    const bare = (host: string) => host.replace(/^\.+/, "")
    return verdict(textsOf(1, cookies).every((host) => domains.every((domain) => !Urls.same(bare(host), bare(domain)))))
  }
})

const keywordsRule = Reader.json(
  Schema.Struct({ type: Schema.Literal("keywords"), keywords: Schema.Array(Schema.String) })
)

/**
 * No address in the history has any of `keywords` in it.
 *
 * @since 0.1.0
 * @category metrics
 */
export const checkHistoryDeleted: Metric = make({
  name: "check_history_deleted",
  result: rows,
  expected: keywordsRule,
  options: none,
  score: (history, { keywords }) =>
    verdict(textsOf(0, history).every((url) => keywords.every((keyword) => !url.includes(keyword))))
})

const fontSizes = Reader.json(Schema.Struct({ default_font_size: Schema.Number }))

const sizeRule = Reader.json(
  Schema.Union(
    Schema.Struct({ type: Schema.Literal("value"), value: Schema.Number }),
    Schema.Struct({ type: Schema.Literal("range"), min: Schema.Number, max: Schema.Number })
  )
)

/**
 * The default font size is `value`, or lies between `min` and `max` and is neither.
 *
 * @since 0.1.0
 * @category metrics
 */
export const checkFontSize: Metric = make({
  name: "check_font_size",
  result: fontSizes,
  expected: sizeRule,
  options: none,
  score: ({ default_font_size: size }, rule) =>
    verdict(rule.type === "value" ? size === rule.value : rule.min < size && size < rule.max)
})

/** Extensions that their makers renamed: old and new count as one. */
const renamed: ReadonlyMap<string, string> = new Map([["Speechify — Text to Speech", "Speechify — Voice AI Assistant"]])

const names = Reader.json(Schema.Array(Schema.String))

const extensionsRule = Reader.json(Schema.Struct({ expected: Schema.Array(Schema.String) }))

/**
 * The expected extensions are installed; others don't matter.
 *
 * @since 0.1.0
 * @category metrics
 */
export const isExpectedInstalledExtensions: Metric = make({
  name: "is_expected_installed_extensions",
  result: names,
  expected: extensionsRule,
  options: none,
  score: (installed, { expected }) => {
    const now = (name: string) => renamed.get(name) ?? name
    const have = new Set(installed.map(now))
    return verdict(have.size > 0 && expected.every((name) => have.has(now(name))))
  }
})

const experimentsRule = Reader.json(
  Schema.Struct({ type: Schema.Literal("names"), names: Schema.Array(Schema.String) })
)

/**
 * The experiments of `chrome://flags` that are switched on are `names`, whatever their order and values. Upstream wants
 * the browser's order.
 *
 * @since 0.1.0
 * @category metrics
 */
export const checkEnabledExperiments: Metric = make({
  name: "check_enabled_experiments",
  result: names,
  expected: experimentsRule,
  options: none,
  score: (experiments, rule, _, { compat }) => {
    const found = experiments.map((experiment) => experiment.split("@")[0] ?? "")
    return verdict(compat ? Json.equals(found, rule.names) : Json.equalsUnordered(found, rule.names))
  }
})

// -----------------------------------------------------------------------------
// Files
// -----------------------------------------------------------------------------

const entry = (key: string, file: string): ReadonlyArray<string> =>
  file
    .split(/\r?\n/)
    .filter((line) => line.startsWith(`${key}=`))
    .map((line) => line.slice(key.length + 1))

const shortcutFiles = Reader.json(Schema.Record({ key: Schema.String, value: Schema.String }))

const shortcutRule = Reader.json(
  Schema.Union(
    Schema.Struct({ type: Schema.Literal("name"), name: Schema.String }),
    Schema.Struct({ type: Schema.Literal("exec"), exec: Schema.String })
  )
)

/**
 * A shortcut on the desktop has the name, or the command line, that is expected, or one of the two holds the other (for
 * names in any case). Upstream takes an empty entry for a part of every other.
 *
 * @since 0.1.0
 * @category metrics
 */
export const isShortcutOnDesktop: Metric = make({
  name: "is_shortcut_on_desktop",
  result: shortcutFiles,
  expected: shortcutRule,
  options: none,
  score: (shortcuts, rule, _, { compat }) => {
    const fold = (text: string) => (rule.type === "name" ? text.toLowerCase() : text)
    const [key, wanted] = rule.type === "name" ? ["Name", fold(rule.name)] : ["Exec", fold(rule.exec)]
    return verdict(
      Object.values(shortcuts).some((file) =>
        entry(key, file)
          .map(fold)
          .some(
            (found) =>
              found === wanted || ((compat || found !== "") && (found.includes(wanted) || wanted.includes(found)))
          )
      )
    )
  }
})

const page: ReaderType<ReadonlyArray<Item>> = (value) =>
  Effect.flatMap(Reader.text(value), (text) => Either.mapLeft(items(text), (refusal) => new Unusable(refusal)))

const without = (attributes: ReadonlyMap<string, string>, name: string | undefined) =>
  Object.fromEntries([...attributes].filter(([key]) => key !== name))

const sameItem = (a: Item, b: Item, ignored: string | undefined): boolean => {
  if (a.kind !== "element" || b.kind !== "element") {
    return a.kind !== "element" && b.kind !== "element" && a.kind === b.kind && a.text === b.text
  }
  return a.name === b.name && Json.equals(without(a.attributes, ignored), without(b.attributes, ignored))
}

const allText = (page: ReadonlyArray<Item>): string =>
  page
    .flatMap((item) => (item.kind === "text" ? [item.text] : []))
    .join("")
    .trim()

/**
 * Two HTML files hold the same, item by item: elements with their attributes, and texts to the letter. `ignore_sdnum`
 * leaves out the attribute in which LibreOffice keeps a cell's number. Upstream looks no further than the shorter of the
 * two goes, and so lets an end pass that has no text in it.
 *
 * @since 0.1.0
 * @category metrics
 */
export const compareHtmls: Metric = make({
  name: "compare_htmls",
  result: page,
  expected: page,
  options: Schema.Struct({
    ignore_sdnum: Schema.optionalWith(Schema.Boolean, { default: () => false, nullable: true })
  }),
  score: (result, expected, { ignore_sdnum }, { compat }) => {
    const ignored = ignore_sdnum ? "sdnum" : undefined
    const ends = compat ? allText(result) === allText(expected) : result.length === expected.length
    const both = Math.min(result.length, expected.length)
    return verdict(
      ends &&
        expected.slice(0, both).every((item, index) => {
          const other = result[index]
          return other !== undefined && sameItem(other, item, ignored)
        })
    )
  }
})

const object: ReaderType<Record<string, unknown>> = (value) => {
  if (value?._tag === "Json" && Json.isObject(value.json)) return Effect.succeed(value.json)
  return Effect.flatMap(Reader.text(value), (text) => {
    const json = Json.parse(text)
    return Either.isRight(json) && Json.isObject(json.right) ? Effect.succeed(json.right) : unparsable("no JSON object")
  })
}

/**
 * All that the expected JSON object says is in the result too. Upstream takes the two for each other and asks whether
 * what the result says is expected.
 *
 * @since 0.1.0
 * @category metrics
 */
export const isIncludedAllJsonObjects: Metric = make({
  name: "is_included_all_json_objects",
  result: object,
  expected: object,
  options: none,
  score: (result, expected, _, { compat }) => {
    const [part, whole] = compat ? [result, expected] : [expected, result]
    return verdict(
      Object.entries(part).every(([key, value]) => Object.hasOwn(whole, key) && Json.equals(whole[key], value))
    )
  }
})

/**
 * The metrics of this module.
 *
 * @since 0.1.0
 * @category registry
 */
export const metrics: ReadonlyArray<Metric> = [
  isExpectedUrlPatternMatch,
  isExpectedSearchQuery,
  isExpectedActiveTab,
  isExpectedActiveTabApproximate,
  isExpectedTabs,
  isAddedToSteamCart,
  isExpectedBookmarks,
  isCookieDeleted,
  checkHistoryDeleted,
  checkFontSize,
  isExpectedInstalledExtensions,
  checkEnabledExperiments,
  isShortcutOnDesktop,
  compareHtmls,
  isIncludedAllJsonObjects
]
