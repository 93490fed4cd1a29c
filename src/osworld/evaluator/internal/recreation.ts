/** A campground's next free day at recreation.gov: what one task of the benchmark is judged by. */
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as DevTools from "../../internal/devtools.js"

export const Parameters = Schema.Struct({
  selector: Schema.Literal("class"),
  class: Schema.NonEmptyString,
  /** Which of the elements of that class, from 0. */
  order: Schema.optionalWith(Schema.Union(Schema.NonNegativeInt, Schema.NumberFromString.pipe(Schema.int())), {
    default: () => 0,
    nullable: true
  }),
  /** Where the way begins. */
  url: Schema.optionalWith(Schema.String, { default: () => "https://www.recreation.gov/" })
})

/** What upstream answers where it could not find out. */
export const failed = "__EVALUATION_FAILED__"

const limit = "60 seconds"
const millis = 60_000

/** What it searches for, and where it clicks: the site's own names. */
const search = { text: "Diamond", field: "input#hero-search-input", button: "button.nav-search-button" }
const firstResult = ".search-result-highlight--success"
const nextAvailable = "button.next-available"

/** Searches for the campground, opens the first one in its own tab, goes to the next free days, and reads what is there. */
export const read = (
  page: DevTools.Page,
  { class: name, order, url }: typeof Parameters.Type
): Effect.Effect<string, DevTools.DevToolsError> =>
  Effect.gen(function* () {
    yield* DevTools.visit(page, url, limit)
    const campground = yield* DevTools.attempt(
      "search for the campground",
      async () => {
        await page.locator(search.field).fill(search.text, { timeout: millis })
        await page.locator(search.button).first().click({ timeout: millis })
        const popup = page.waitForEvent("popup", { timeout: millis })
        const [opened] = await Promise.all([popup, page.locator(firstResult).first().click({ timeout: millis })])
        return opened
      },
      "150 seconds"
    )
    return yield* Effect.acquireUseRelease(
      Effect.succeed(campground),
      (opened) =>
        Effect.gen(function* () {
          yield* DevTools.rests(opened, limit)
          // Where free days are shown already there is no such button.
          yield* Effect.ignore(
            DevTools.attempt("go on to the next free days", () =>
              opened.locator(nextAvailable).first().click({ timeout: 30_000 })
            )
          )
          return yield* DevTools.attempt(
            `read .${name}`,
            async () => {
              const element = opened.locator(`.${name}`).nth(order)
              return ((await element.textContent({ timeout: 30_000 })) ?? "").trim()
            },
            "40 seconds"
          )
        }),
      (opened) => Effect.ignore(DevTools.attempt("close a page", () => opened.close(), "5 seconds"))
    )
  })
