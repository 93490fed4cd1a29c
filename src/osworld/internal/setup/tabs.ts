/** Steps that open and close tabs of the desktop's Chrome. */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Schedule from "effect/Schedule"
import type * as Scope from "effect/Scope"
import * as Placeholders from "../../Placeholders.js"
import type { TaskContext } from "../../Setup.js"
import * as DevTools from "../devtools.js"
import * as Urls from "../urls.js"
import { broken, type Perform, StepFailed } from "./step.js"

/** OSWorld tries fifteen times, five seconds apart: a Chrome that was just launched takes its time. */
const connectLimit = Duration.seconds(75)

const pageLimit = Duration.seconds(60)

/** How long a tab that is to be closed may take until it has its address. */
const findLimit = Duration.seconds(10)

const connect = (context: TaskContext): Effect.Effect<DevTools.Chrome, StepFailed, Scope.Scope> =>
  Effect.mapError(
    Effect.retry(
      // A Chrome that is on its way up is not to be started a second time.
      DevTools.connect(context, { revive: false }),
      Schedule.intersect(Schedule.spaced("1 second"), Schedule.recurUpTo(connectLimit))
    ),
    broken
  )

/** As somebody would type it. */
const withScheme = (url: string): string => (/^[a-z][a-z0-9+.-]*:/i.test(url) ? url : `http://${url}`)

const isBlank = (url: string): boolean =>
  url === "" || /^(?:about:blank|chrome:\/\/(?:newtab|new-tab-page(?:-third-party)?|welcome)\/?)$/.test(url)

/** A page that has come but goes on loading is there; one that did not come is not what the task says. */
const load = (page: DevTools.Page, url: string): Effect.Effect<void, DevTools.DevToolsError> => {
  const milliseconds = Duration.toMillis(pageLimit)
  return Effect.zipRight(
    DevTools.attempt(`open ${url}`, () => page.goto(url, { waitUntil: "commit", timeout: milliseconds }), pageLimit),
    Effect.ignore(DevTools.attempt("wait", () => page.waitForLoadState("load", { timeout: milliseconds }), pageLimit))
  )
}

/** Names and networks fail for a moment; asking for a page again does no harm. */
const loadSchedule = Schedule.intersect(Schedule.spaced("2 seconds"), Schedule.recurs(2))

export const open: Perform<"chrome_open_tabs"> = ({ urlsToOpen }, context) =>
  Effect.scoped(
    Effect.gen(function* () {
      const chrome = yield* connect(context)
      for (const [index, each] of urlsToOpen.entries()) {
        const url = withScheme(Placeholders.fill(each, context.placeholders))
        const page = yield* Effect.mapError(chrome.open, broken)
        yield* load(page, url).pipe(
          Effect.retry({ schedule: loadSchedule, while: ({ reason }) => reason.includes("net::ERR_") }),
          Effect.catchAll((error) =>
            context.compat
              ? Effect.logWarning(`chrome_open_tabs: ${error.message}`)
              : Effect.fail(new StepFailed("infrastructure", error.message))
          )
        )
        if (index > 0) continue
        // Only the blank tab that Chrome starts with; OSWorld closes whatever comes first.
        const [first] = yield* chrome.pages
        if (first === undefined || first === page || !(context.compat || isBlank(first.url()))) continue
        yield* Effect.ignoreLogged(DevTools.attempt("close a tab", () => first.close(), "10 seconds"))
      }
    })
  )

export const close: Perform<"chrome_close_tabs"> = ({ urlsToClose }, context) =>
  Effect.scoped(
    Effect.gen(function* () {
      const chrome = yield* connect(context)
      for (const each of urlsToClose) {
        const url = Placeholders.fill(each, context.placeholders)
        const find = Effect.flatMap(chrome.pages, (pages) => {
          const page = pages.find((page) => Urls.same(page.url(), url))
          const open = pages.map((page) => page.url()).join(", ")
          return page === undefined
            ? Effect.fail(new StepFailed("infrastructure", `no tab is at ${url}, which was to be closed: ${open}`))
            : Effect.succeed(page)
        })
        yield* find.pipe(
          Effect.retry(Schedule.intersect(Schedule.spaced("500 millis"), Schedule.recurUpTo(findLimit))),
          Effect.flatMap((page) =>
            Effect.mapError(
              DevTools.attempt("close a tab", () => page.close(), "10 seconds"),
              broken
            )
          ),
          Effect.catchAll((error) =>
            context.compat ? Effect.logWarning(`chrome_close_tabs: ${error.reason}`) : Effect.fail(error)
          )
        )
      }
    })
  )
