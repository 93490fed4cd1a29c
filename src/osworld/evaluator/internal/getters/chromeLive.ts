/** What Chrome shows: the active tab, the open ones, and pages that a task wants looked at. */
import * as FileSystem from "@effect/platform/FileSystem"
import * as Effect from "effect/Effect"
import * as Schedule from "effect/Schedule"
import * as Schema from "effect/Schema"
import * as DevTools from "../../../internal/devtools.js"
import * as Urls from "../../../internal/urls.js"
import type { TaskContext } from "../../../Setup.js"
import * as Getter from "../../Getter.js"
import { Value } from "../../Metric.js"
import * as ActiveUrl from "../activeUrl.js"
import * as AddressParts from "../addressParts.js"
import { schemeOf } from "../chromeSettings.js"
import * as PageParts from "../pageParts.js"
import * as Recreation from "../recreation.js"
import * as Website from "../website.js"
import { colorScheme } from "./chromeProfile.js"
import { placeFor } from "./files.js"

type Failure = { readonly message: string }

/** How long a page may take: one that is opened for the look, and one that is open already. */
const openLimit = "60 seconds"
const tabLimit = "30 seconds"

/** What pages are called that did not come to rest, or that cannot be read. */
const timedOut = "Load timeout"
const unreadable = "Error encountered"

const activeUrl = (context: TaskContext, prefix: string): Effect.Effect<string | undefined, Failure> =>
  Effect.flatMap(context.guest.accessibilityTree, (tree) =>
    Effect.mapError(ActiveUrl.find(tree, prefix, { compat: context.compat }), (message) => ({ message }))
  )

const noAddress = Value.Missing({ reason: "no Chrome window shows an address" })

const info = (page: DevTools.Page, rested: boolean) =>
  DevTools.attempt(`read ${page.url()}`, async () => ({
    title: rested ? await page.title() : timedOut,
    url: page.url(),
    content: await page.content()
  }))

/** The machine's own connection fails, whatever address is asked for. */
const isOffline = (reason: string): boolean =>
  /net::ERR_(?:INTERNET_DISCONNECTED|NETWORK_CHANGED|NETWORK_ACCESS_DENIED|PROXY_|TUNNEL_)/.test(reason)

/** The address is none that can be opened. One that takes too long, or a browser that goes away, says nothing of it. */
const isAddress = (reason: string): boolean => /net::ERR_|invalid URL/i.test(reason) && !isOffline(reason)

/** The open page whose address it is. Where Chrome has left out another prefix than the task says, that is as good. */
const openPage = (
  pages: ReadonlyArray<DevTools.Page>,
  url: string,
  { compat }: { readonly compat: boolean }
): DevTools.Page | undefined =>
  pages.find((page) => Urls.pageKey(page.url()) === Urls.pageKey(url)) ??
  (compat ? undefined : pages.find((page) => Urls.shown(page.url()) === Urls.shown(url)))

/**
 * Opens the active tab's address once more, as upstream does; where that does not work, a tab that shows it will do. An
 * address that cannot be opened at all is what the agent left.
 */
const activeTabInfo = (context: TaskContext, url: string) =>
  DevTools.use(context, (chrome) =>
    Effect.gen(function* () {
      const before = openPage(yield* chrome.pages, url, context)
      const page = yield* chrome.scratch({ isolated: context.compat })
      const again = Effect.flatMap(DevTools.visit(page, url, openLimit), (rested) => info(page, rested))
      const json = yield* Effect.catchAll(again, (error) =>
        before === undefined ? Effect.fail(error) : Effect.orElseFail(info(before, true), () => error)
      )
      return Value.Json({ json })
    })
  ).pipe(
    Effect.catchIf(
      (error) => error.operation === `open ${url}` && isAddress(error.reason),
      (error) => Effect.succeed(Value.Missing({ reason: error.message }))
    )
  )

/** Twice, because a page of the live web may fail once. */
const twice = { schedule: Schedule.intersect(Schedule.spaced("3 seconds"), Schedule.recurs(1)) }

const pageInfo = (context: TaskContext, url: string) =>
  DevTools.use(context, (chrome) =>
    Effect.gen(function* () {
      const once = Effect.scoped(
        Effect.gen(function* () {
          const page = yield* chrome.scratch({ isolated: context.compat })
          return yield* info(page, yield* DevTools.visit(page, url, openLimit))
        })
      )
      return Value.Json({ json: yield* Effect.retry(once, twice) })
    })
  )

const openTabs = (context: TaskContext) =>
  DevTools.use(context, (chrome) =>
    Effect.gen(function* () {
      const tabs = yield* Effect.forEach(
        yield* chrome.pages,
        (page) =>
          Effect.gen(function* () {
            const rested = yield* DevTools.rests(page, tabLimit)
            const title = rested
              ? yield* Effect.orElseSucceed(
                  DevTools.attempt("read a title", () => page.title(), "10 seconds"),
                  () => unreadable
                )
              : timedOut
            return page.isClosed() ? [] : [{ title, url: page.url() }]
          }),
        { concurrency: 8 }
      )
      return Value.Json({ json: tabs.flat() })
    })
  )

const htmlParse = (context: TaskContext, url: string, parts: PageParts.Parts) =>
  DevTools.use(context, (chrome) =>
    Effect.gen(function* () {
      const page = openPage(yield* chrome.pages, url, context)
      if (page === undefined) return Value.Missing({ reason: `no open tab shows ${url}` })
      yield* DevTools.rests(page, tabLimit)
      return Value.Json({ json: yield* PageParts.from(page, parts) })
    })
  )

const pdfFromUrl = ({ context, role }: Getter.Input, url: string, dest: string) =>
  DevTools.use(context, (chrome) =>
    Effect.gen(function* () {
      const fs = yield* FileSystem.FileSystem
      const once = Effect.scoped(
        Effect.gen(function* () {
          const page = yield* chrome.scratch({ isolated: context.compat })
          yield* DevTools.visit(page, url, openLimit)
          return yield* DevTools.attempt(`print ${url}`, () => page.pdf(), openLimit)
        })
      )
      const bytes = yield* Effect.retry(once, twice)
      const place = yield* placeFor({ context, role }, dest)
      yield* fs.writeFile(place.path, bytes)
      return Value.File(place)
    })
  )

const searchResults = (context: TaskContext, url: string, selector: string) =>
  DevTools.use(context, (chrome) =>
    Effect.gen(function* () {
      const page = yield* chrome.scratch({ isolated: context.compat })
      yield* DevTools.visit(page, url, openLimit)
      const json = yield* DevTools.attempt(`count ${selector}`, () => page.locator(selector).count())
      return Value.Json({ json })
    })
  )

/** The list of modes on the settings page, whose values are those of the setting. */
const modes = "#colorSchemeModeSelect"

/** A settings page may ask for settings. */
const askSystemTheme =
  'new Promise((answer) => chrome.settingsPrivate.getPref("extensions.theme.system_theme", (pref) => answer(pref?.value)))'

/**
 * The colour scheme that Chrome's settings page shows, or the one that Chrome has written down where it shows none.
 * Upstream takes every Chrome that does not follow GTK's theme for a light one.
 */
const schemeShown = (context: TaskContext): Effect.Effect<Value, Failure> =>
  DevTools.use(
    context,
    (chrome) =>
      Effect.gen(function* () {
        const page = yield* chrome.scratch()
        yield* DevTools.visit(page, "chrome://settings/appearance", tabLimit)
        const shown = schemeOf(
          yield* DevTools.attempt("read the mode", () => page.locator(modes).inputValue({ timeout: 10_000 }))
        )
        const system = context.compat
          ? yield* DevTools.attempt("ask for the theme", () => page.evaluate<unknown>(askSystemTheme))
          : undefined
        return system === 0 ? "light" : shown
      }),
    { revive: false }
  ).pipe(
    Effect.orElseSucceed(() => undefined),
    Effect.flatMap((text) => (text === undefined ? colorScheme(context) : Effect.succeed(Value.Text({ text }))))
  )

/** Where the task says what to take for it, everything that goes wrong with a live site is answered by that. */
const fromWebsite = (context: TaskContext, { backups, infos, url }: typeof Website.Parameters.Type) =>
  DevTools.use(context, (chrome) =>
    Effect.gen(function* () {
      const page = yield* chrome.scratch({ isolated: false })
      return yield* Website.read(page, url, infos)
    })
  ).pipe(
    Effect.catchAll((error) =>
      backups === undefined || backups === null ? Effect.fail(error) : Effect.succeed(backups)
    ),
    Effect.map((json) => Value.Json({ json }))
  )

/** Upstream answers a marker that no result equals, and so scores 0 what nobody can judge. */
const recreation = (context: TaskContext, parameters: typeof Recreation.Parameters.Type) =>
  DevTools.use(context, (chrome) =>
    Effect.gen(function* () {
      const page = yield* chrome.scratch({ isolated: context.compat })
      return yield* Recreation.read(page, parameters)
    })
  ).pipe(
    Effect.retry({ times: 1 }),
    Effect.catchAll((error) => (context.compat ? Effect.succeed(Recreation.failed) : Effect.fail(error))),
    Effect.map((text) => Value.Json({ json: { expected: { [parameters.class]: text } } }))
  )

const WithPrefix = Schema.Struct({ goto_prefix: AddressParts.Prefix })
const Query = Schema.extend(WithPrefix, AddressParts.QueryParameters)
const Part = Schema.extend(WithPrefix, AddressParts.PartParameters)
const Shop = Schema.extend(WithPrefix, AddressParts.ShopParameters)
const Html = Schema.extend(WithPrefix, PageParts.Parts)

/** Carries on with the active tab's address, where there is one. */
const withUrl = <R>(
  context: TaskContext,
  prefix: string,
  read: (url: string) => Effect.Effect<Value, Failure, R>
): Effect.Effect<Value, Failure, R> =>
  Effect.flatMap(
    activeUrl(context, prefix),
    (url): Effect.Effect<Value, Failure, R> => (url === undefined ? Effect.succeed(noAddress) : read(url))
  )

const shopGetter = (name: string) =>
  Getter.make(name, Shop, (parameters, { context }) =>
    withUrl(context, parameters.goto_prefix, (url) =>
      Effect.succeed(Value.Json({ json: AddressParts.shop(url, parameters) }))
    )
  )

export const getters: ReadonlyArray<Getter.Getter> = [
  Getter.make("active_url_from_accessTree", WithPrefix, ({ goto_prefix }, { context }) =>
    withUrl(context, goto_prefix, (text) => Effect.succeed(Value.Text({ text })))
  ),
  Getter.make("active_tab_info", WithPrefix, ({ goto_prefix }, { context }) =>
    withUrl(context, goto_prefix, (url) => activeTabInfo(context, url))
  ),
  Getter.make("page_info", Schema.Struct({ url: Schema.String }), ({ url }, { context }) => pageInfo(context, url)),
  Getter.make("open_tabs_info", Schema.Struct({}), (_, { context }) => openTabs(context)),
  Getter.make("active_tab_html_parse", Html, (parameters, { context }) =>
    withUrl(context, parameters.goto_prefix, (url) => htmlParse(context, url, parameters))
  ),
  Getter.make("active_tab_url_parse", Query, (parameters, { context }) =>
    withUrl(context, parameters.goto_prefix, (url) =>
      Effect.succeed(Value.Json({ json: AddressParts.query(url, parameters) }))
    )
  ),
  Getter.make("url_dashPart", Part, (parameters, { context }) =>
    withUrl(context, parameters.goto_prefix, (url) => {
      const text = AddressParts.part(url, parameters)
      return Effect.succeed(
        text === undefined
          ? Value.Missing({ reason: `${url} has no part ${parameters.partIndex}` })
          : parameters.returnType === "string"
            ? Value.Text({ text })
            : Value.Json({ json: { [parameters.key]: text } })
      )
    })
  ),
  shopGetter("url_path_parse"),
  shopGetter("macys_product_url_parse"),
  Getter.make("pdf_from_url", Schema.Struct({ path: Schema.String, dest: Schema.String }), ({ dest, path }, input) =>
    pdfFromUrl(input, path, dest)
  ),
  Getter.make("info_from_website", Website.Parameters, (parameters, { context }) => fromWebsite(context, parameters)),
  Getter.make("gotoRecreationPage_and_get_html_content", Recreation.Parameters, (parameters, { context }) =>
    recreation(context, parameters)
  ),
  Getter.make(
    "number_of_search_results",
    Schema.Struct({
      url: Schema.optionalWith(Schema.String, { default: () => "https://google.com/search?q=query" }),
      selector: Schema.optionalWith(Schema.String, { default: () => ".search-result" })
    }),
    ({ selector, url }, { context }) => searchResults(context, url, selector)
  ),
  Getter.make("chrome_appearance_mode_ui", Schema.Struct({}), (_, { context }) => schemeShown(context))
]
