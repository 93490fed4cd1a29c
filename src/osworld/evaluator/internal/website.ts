/** Facts of a live site, read one after the other. */
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as DevTools from "../../internal/devtools.js"

const Info = Schema.Union(
  Schema.Struct({ action: Schema.Literal("inner_text"), selector: Schema.String }),
  Schema.Struct({ action: Schema.Literal("attribute"), selector: Schema.String, attribute: Schema.String }),
  /** All but the last of the selectors are clicked. */
  Schema.Struct({ action: Schema.Literal("click_and_inner_text"), selector: Schema.NonEmptyArray(Schema.String) }),
  Schema.Struct({
    action: Schema.Literal("click_and_attribute"),
    selector: Schema.NonEmptyArray(Schema.String),
    attribute: Schema.String
  })
)

export const Parameters = Schema.Struct({
  url: Schema.String,
  infos: Schema.Array(Info),
  /** What is taken where the site does not say. */
  backups: Schema.optional(Schema.Unknown)
})

const pageLimit = "60 seconds"
const elementMillis = 10_000

const load = (page: DevTools.Page) =>
  DevTools.attempt(`load ${page.url()}`, () => page.waitForLoadState("load", { timeout: 30_000 }))

const one = (page: DevTools.Page, url: string, info: typeof Info.Type) =>
  Effect.gen(function* () {
    if (page.url() !== url) {
      yield* DevTools.visit(page, url, pageLimit)
      yield* load(page)
    }
    const selectors = typeof info.selector === "string" ? [info.selector] : info.selector
    for (const selector of selectors.slice(0, -1)) {
      yield* DevTools.attempt(`click ${selector}`, () =>
        page.locator(selector).first().click({ timeout: elementMillis })
      )
      yield* load(page)
    }
    const selector = selectors.at(-1) ?? ""
    return yield* DevTools.attempt(`read ${selector}`, async () => {
      const element = page.locator(selector).first()
      await element.waitFor({ state: "attached", timeout: elementMillis })
      if ("attribute" in info) return await element.getAttribute(info.attribute, { timeout: elementMillis })
      return (await element.allInnerTexts())[0] ?? ""
    })
  })

/** Each fact starts at the address anew. */
export const read = (
  page: DevTools.Page,
  url: string,
  infos: ReadonlyArray<typeof Info.Type>
): Effect.Effect<ReadonlyArray<string | null>, DevTools.DevToolsError> =>
  Effect.forEach(infos, (info) => one(page, url, info))
