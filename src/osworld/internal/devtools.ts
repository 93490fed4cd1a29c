/**
 * The desktop's Chrome, driven from here through its DevTools. It is the user's browser: nothing here ever closes it,
 * and what it is told to open for us goes away with the scope.
 */
import * as Data from "effect/Data"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Random from "effect/Random"
import * as Schedule from "effect/Schedule"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import type { Browser, BrowserContext, Page } from "playwright-core"
import * as DesktopSpec from "../../desktop/DesktopSpec.js"
import { Endpoint, httpClient } from "../../sandbox/Endpoint.js"
import * as Forwarder from "../../sandbox/Forwarder.js"
import type { TaskContext } from "../Setup.js"
import * as ChromeFacts from "./chromeFacts.js"

export type { Page }

/** Chrome cannot be reached, or did not do what it was asked for. `reason` holds `net::ERR_...` where a page failed. */
export class DevToolsError extends Data.TaggedError("DevToolsError")<{
  readonly operation: string
  readonly reason: string
}> {
  override get message() {
    return `${this.operation}: ${this.reason}`
  }
}

/** A connection to the desktop's Chrome. */
export interface Chrome {
  /** The pages that are open, in Chrome's order. */
  readonly pages: Effect.Effect<ReadonlyArray<Page>>
  /** A new tab in the user's window. It stays. */
  readonly open: Effect.Effect<Page, DevToolsError>
  /**
   * A page of ours, behind the user's tabs and with the user's cookies; `isolated` has none. It closes with the scope.
   */
  readonly scratch: (options?: { readonly isolated?: boolean }) => Effect.Effect<Page, DevToolsError, Scope.Scope>
  /** Chrome is there still. */
  readonly answers: Effect.Effect<void, DevToolsError>
}

/** The parts of a task's context that it takes to reach Chrome. */
export type Desktop = Pick<TaskContext, "guest" | "endpoint">

/** How long connecting may take, once Chrome answers. */
const connectLimit = Duration.seconds(30)

/** How long a Chrome that was started anew may take until it answers. */
const startLimit = Duration.seconds(40)

/** How long saying good-bye may take before the line is cut. */
const closeLimit = Duration.seconds(5)

const reasonOf = (error: unknown): string => {
  const message = error instanceof Error ? error.message : String(error)
  // Playwright adds a log of what it did and colours it.
  return message
    .replace(/\u001b\[[0-9;]*m/g, "")
    .replace(/\nCall log:[\s\S]*$/, "")
    .trim()
}

/** Something that Playwright does, within a time limit. What it promises after that is forgotten. */
export const attempt = <A>(
  operation: string,
  run: () => Promise<A>,
  limit: Duration.DurationInput = connectLimit
): Effect.Effect<A, DevToolsError> =>
  Effect.timeoutFail(
    // Also where nothing may be interrupted, as while a resource is opened or closed, the limit counts.
    Effect.disconnect(
      Effect.interruptible(
        Effect.tryPromise({ try: run, catch: (error) => new DevToolsError({ operation, reason: reasonOf(error) }) })
      )
    ),
    {
      duration: limit,
      onTimeout: () =>
        new DevToolsError({ operation, reason: `it took longer than ${Duration.format(Duration.decode(limit))}` })
    }
  )

/** Waits until a page rests. False where it still does not after the limit, or went away. */
export const rests = (page: Page, limit: Duration.DurationInput): Effect.Effect<boolean> =>
  attempt("wait", () => page.waitForLoadState("networkidle", { timeout: Duration.toMillis(limit) }), limit).pipe(
    Effect.as(true),
    Effect.orElseSucceed(() => false)
  )

/**
 * Sends a page to an address, and waits until it rests. False where the page has come but did not come to rest within
 * the limit; a page that did not come at all is an error.
 */
export const visit = (page: Page, url: string, limit: Duration.DurationInput): Effect.Effect<boolean, DevToolsError> =>
  Effect.gen(function* () {
    const [took] = yield* Effect.timed(
      attempt(`open ${url}`, () => page.goto(url, { waitUntil: "commit", timeout: Duration.toMillis(limit) }), limit)
    )
    const left = Duration.max(Duration.subtract(Duration.decode(limit), took), Duration.seconds(1))
    return yield* rests(page, left)
  })

const Version = Schema.Struct({ webSocketDebuggerUrl: Schema.String })

/** Where the browser's own socket is. Not left to Playwright, which would ask a proxy that the environment names. */
const discover = (url: string): Effect.Effect<string, DevToolsError> =>
  Effect.scoped(
    Effect.gen(function* () {
      const client = yield* httpClient(Endpoint.Tcp({ url, headers: {} }))
      const response = yield* client.get("/json/version")
      if (response.status !== 200) return yield* Effect.fail(`status ${response.status}: ${yield* response.text}`)
      const { webSocketDebuggerUrl } = yield* Schema.decodeUnknown(Version)(yield* response.json)
      return webSocketDebuggerUrl
    }).pipe(Effect.timeoutFail({ duration: "10 seconds", onTimeout: () => "no answer within 10 seconds" }))
  ).pipe(
    Effect.mapError((error) => {
      const reason = typeof error === "string" ? error.trim() : error.message
      return new DevToolsError({ operation: "reach Chrome's DevTools", reason })
    })
  )

/** Chrome saves its session two and a half seconds after a change, and not when it is asked to end. */
const stopScript = (pids: ReadonlyArray<number>) => `
import os, signal, time
pids = ${JSON.stringify(pids)}
time.sleep(4)
for pid in pids:
    try:
        os.kill(pid, signal.SIGTERM)
    except OSError:
        pass
end = time.time() + 15
while time.time() < end and any(os.path.exists("/proc/%d" % pid) for pid in pids):
    time.sleep(0.2)
`

/**
 * Brings DevTools back: starts Chrome where none listens, and the relay where none does. A Chrome that runs without them
 * (somebody closed it and started it by hand) is asked to end once it has saved its session, which the new one takes up.
 */
const revive = ({ guest }: Desktop): Effect.Effect<void, DevToolsError> =>
  Effect.gen(function* () {
    const { devtools, devtoolsRelay } = DesktopSpec.ports
    const facts = yield* ChromeFacts.get(guest)
    // One that was started with them may not have come up yet.
    const comes = facts.processes.some(({ debuggingPort }) => debuggingPort === String(devtools))
    if (!comes && !facts.listening.includes(devtools)) {
      const runs = facts.processes.length > 0
      const folder = ChromeFacts.userDataDir(facts)
      if (runs) yield* guest.runPython(stopScript(facts.processes.map(({ pid }) => pid)))
      yield* guest.launch({
        command: [
          "google-chrome",
          `--remote-debugging-port=${devtools}`,
          ...(folder === undefined ? [] : [`--user-data-dir=${folder}`]),
          ...(runs ? ["--restore-last-session"] : [])
        ]
      })
    }
    if (!facts.listening.includes(devtoolsRelay)) {
      yield* guest.launch({
        command: ["socat", `tcp-listen:${devtoolsRelay},fork,reuseaddr`, `tcp:localhost:${devtools}`]
      })
    }
  }).pipe(Effect.mapError((error) => new DevToolsError({ operation: "start Chrome again", reason: error.message })))

const disconnect = (browser: Browser): Effect.Effect<void> =>
  // Of a browser that was connected to, Playwright closes the connection and nothing else.
  Effect.ignore(attempt("disconnect", () => browser.close(), closeLimit))

const userContext = (browser: Browser): Effect.Effect<BrowserContext, DevToolsError> =>
  Effect.mapError(
    Effect.fromNullable(browser.contexts()[0]),
    () => new DevToolsError({ operation: "open a page", reason: "Chrome has no window of its user's" })
  )

const closing = (page: Page) => Effect.ignore(attempt("close a page", () => page.close(), closeLimit))

/** Playwright's own new page would come to the front, and the user's tab would be the active one no longer. */
const behind = (browser: Browser): Effect.Effect<Page, DevToolsError, Scope.Scope> =>
  Effect.acquireRelease(
    Effect.gen(function* () {
      const context = yield* userContext(browser)
      const url = `about:blank#${yield* Random.nextIntBetween(0, Number.MAX_SAFE_INTEGER)}`
      return yield* attempt("open a page", async () => {
        const isOurs = (page: Page) => page.url() === url
        const session = await browser.newBrowserCDPSession()
        const [page] = await Promise.all([
          context.waitForEvent("page", { predicate: isOurs, timeout: Duration.toMillis(connectLimit) }),
          session.send("Target.createTarget", { url, background: true })
        ])
        await session.detach()
        // A hidden page draws nothing, and what is not drawn cannot be clicked.
        const drawing = await context.newCDPSession(page)
        await drawing.send("Emulation.setFocusEmulationEnabled", { enabled: true })
        return page
      })
    }),
    closing
  )

const isolated = (browser: Browser): Effect.Effect<Page, DevToolsError, Scope.Scope> =>
  Effect.flatMap(
    Effect.acquireRelease(
      attempt("open a page", () => browser.newContext()),
      (context) => Effect.ignore(attempt("close a page", () => context.close(), closeLimit))
    ),
    (context) => attempt("open a page", () => context.newPage())
  )

const overSocket = (socket: string): Effect.Effect<Chrome, DevToolsError, Scope.Scope> =>
  Effect.gen(function* () {
    const browser = yield* Effect.acquireRelease(
      attempt("connect to Chrome", async () => {
        const { chromium } = await import("playwright-core")
        return await chromium.connectOverCDP(socket, { noDefaults: true, timeout: Duration.toMillis(connectLimit) })
      }),
      disconnect
    )
    const session = yield* attempt("connect to Chrome", () => browser.newBrowserCDPSession())
    return {
      pages: Effect.sync(() => browser.contexts().flatMap((context) => context.pages())),
      open: Effect.flatMap(userContext(browser), (context) => attempt("open a tab", () => context.newPage())),
      scratch: (options) => (options?.isolated === true ? isolated(browser) : behind(browser)),
      answers: Effect.asVoid(attempt("look whether Chrome is there", () => session.send("Browser.getVersion")))
    }
  })

/**
 * Connects through the relay that tasks start at `DesktopSpec.ports.devtoolsRelay`. Where nobody answers, Chrome and the
 * relay are started once; `revive: false` leaves the desktop as it is. The connection ends with the scope, and Chrome
 * lives on.
 */
export const connect = (
  desktop: Desktop,
  options: { readonly revive?: boolean } = {}
): Effect.Effect<Chrome, DevToolsError, Scope.Scope> =>
  Effect.gen(function* () {
    const endpoint = yield* desktop.endpoint(DesktopSpec.ports.devtoolsRelay)
    const { url } = yield* Forwarder.make(endpoint)
    const once = Effect.flatMap(discover(url), overSocket)
    if (options.revive === false) return yield* once
    return yield* Effect.catchAll(once, () =>
      Effect.zipRight(
        revive(desktop),
        Effect.flatMap(
          Effect.retry(
            discover(url),
            Schedule.intersect(Schedule.spaced("500 millis"), Schedule.recurUpTo(startLimit))
          ),
          overSocket
        )
      )
    )
  }).pipe(
    Effect.mapError((error) =>
      error._tag === "DevToolsError"
        ? error
        : new DevToolsError({ operation: "reach Chrome's DevTools", reason: error.message })
    )
  )

/**
 * Looks at Chrome, and connects for the time of it. Whatever the look saw counts only where Chrome answers afterwards:
 * Playwright calls pages closed, and navigations failed, that are cut off from us.
 */
export const use = <A, E, R>(
  desktop: Desktop,
  look: (chrome: Chrome) => Effect.Effect<A, E, R>,
  options?: { readonly revive?: boolean }
): Effect.Effect<A, E | DevToolsError, Exclude<R, Scope.Scope>> =>
  Effect.scoped(
    Effect.flatMap(connect(desktop, options), (chrome) =>
      Effect.flatMap(Effect.exit(look(chrome)), (exit) => Effect.zipRight(chrome.answers, exit))
    )
  )
