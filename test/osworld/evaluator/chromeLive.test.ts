/**
 * A real Chromium in a real desktop, whose pages come from a server inside it.
 */
import * as Fs from "node:fs"
import * as Net from "node:net"
import * as Os from "node:os"
import * as Path from "node:path"
import * as NodeContext from "@effect/platform-node/NodeContext"
import { assert, layer } from "@effect/vitest"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Schedule from "effect/Schedule"
import { build } from "esbuild"
import * as DesktopSpec from "../../../src/desktop/DesktopSpec.js"
import * as Guest from "../../../src/desktop/Guest.js"
import { getters } from "../../../src/osworld/evaluator/internal/getters/chromeLive.js"
import * as ChromeProfile from "../../../src/osworld/evaluator/internal/getters/chromeProfile.js"
import type { Value } from "../../../src/osworld/evaluator/Metric.js"
import * as ChromeFacts from "../../../src/osworld/internal/chromeFacts.js"
import * as DevTools from "../../../src/osworld/internal/devtools.js"
import type { TaskContext } from "../../../src/osworld/Setup.js"
import { Endpoint } from "../../../src/sandbox/Endpoint.js"
import * as Forwarder from "../../../src/sandbox/Forwarder.js"
import * as LocalProvider from "../../../src/sandbox/LocalProvider.js"
import { SandboxProvider } from "../../../src/sandbox/SandboxProvider.js"
import { contextOf, getWith } from "./chromeSupport.js"
import { fixture, json, text } from "./support.js"

const folder = (prefix: string) =>
  Effect.acquireRelease(
    Effect.promise(() => Fs.promises.mkdtemp(Path.join(Os.tmpdir(), prefix))),
    (path) => Effect.promise(() => Fs.promises.rm(path, { recursive: true, force: true }))
  )

/** The guest server as the sources are now, in a folder that a guest may read. */
const facts = Effect.gen(function* () {
  const place = yield* folder("deskhand-test-")
  const server = Path.join(place, "server.mjs")
  yield* Effect.promise(async () => {
    await Fs.promises.chmod(place, 0o755)
    await build({
      entryPoints: [Path.join(DesktopSpec.hostFacts.guest, "main.ts")],
      bundle: true,
      platform: "node",
      target: "node20",
      format: "esm",
      banner: { js: "import{createRequire}from'node:module';const require=createRequire(import.meta.url);" },
      outfile: server
    })
  })
  return { ...DesktopSpec.hostFacts, server }
})

/** A way to a desktop's port that can be cut: all connections at once, and new ones go through again. */
const severable = (upstream: Endpoint) =>
  Effect.gen(function* () {
    const { port } = yield* Forwarder.make(upstream)
    const sockets = new Set<Net.Socket>()
    const server = yield* Effect.acquireRelease(
      Effect.async<Net.Server>((resume) => {
        const server = Net.createServer((client) => {
          const there = Net.connect(port, "127.0.0.1")
          for (const socket of [client, there]) {
            sockets.add(socket)
            socket.on("error", () => {})
            socket.on("close", () => sockets.delete(socket))
          }
          client.pipe(there).pipe(client)
        })
        server.listen(0, "127.0.0.1", () => resume(Effect.succeed(server)))
      }),
      (server) => Effect.sync(() => server.close())
    )
    const address = server.address()
    const url = `http://127.0.0.1:${typeof address === "object" ? address?.port : ""}`
    return {
      endpoint: Effect.succeed(Endpoint.Tcp({ url, headers: {} })),
      sever: Effect.sync(() => {
        for (const socket of sockets) socket.destroy()
      })
    }
  })

class Desktop extends Context.Tag("test/ChromeDesktop")<Desktop, TaskContext>() {}

const site = "http://127.0.0.1:8000"

const eventually = <A, E, R>(effect: Effect.Effect<A, E, R>) =>
  effect.pipe(Effect.retry(Schedule.spaced("300 millis")), Effect.timeout("40 seconds"))

const desktop = Effect.gen(function* () {
  const provider = yield* SandboxProvider
  const sandbox = yield* provider.acquire(
    DesktopSpec.make({ width: 1280, height: 800, metadata: { run: "test" } }, yield* facts)
  )
  const guest = yield* Guest.make(yield* sandbox.endpoint(DesktopSpec.ports.guest))
  for (const name of yield* Effect.promise(() => Fs.promises.readdir(fixture("browser/site")))) {
    yield* guest.writeFile(`/home/user/site/${name}`, fixture(`browser/site/${name}`))
  }
  yield* guest.launch({ command: ["python3", "-m", "http.server", "8000", "--directory", "/home/user/site"] })
  yield* guest.launch({ command: ["google-chrome", "--remote-debugging-port=1337", `${site}/index.html`] })
  yield* guest.launch({ command: ["socat", "tcp-listen:9222,fork", "tcp:localhost:1337"] })
  return contextOf(guest, { cache: yield* folder("deskhand-cache-"), endpoint: sandbox.endpoint })
})

const Provider = Layer.unwrapScoped(
  Effect.map(folder("deskhand-test-"), (stateDir) => LocalProvider.layer({ stateDir }))
).pipe(Layer.provide(NodeContext.layer))

const get = (type: string, parameters: Record<string, unknown> = {}, rest: Partial<TaskContext> = {}) =>
  Effect.flatMap(Desktop, (context) =>
    getWith([...getters, ...ChromeProfile.getters], type, parameters, { ...context, ...rest })
  )

const jsonOf = (value: Value | string): object =>
  typeof value !== "string" && value._tag === "Json" && typeof value.json === "object" && value.json !== null
    ? value.json
    : { value }

const jsonText = (value: Value | string): string =>
  typeof value !== "string" && value._tag === "Text" ? value.text : JSON.stringify(value)

const isText = (value: Value | string): boolean => typeof value !== "string" && value._tag === "Text"

layer(Layer.provide(Layer.scoped(Desktop, desktop), Provider), { timeout: "120 seconds", excludeTestServices: true })(
  "Chrome in a desktop",
  (it) => {
    it.effect("says of itself what runs, who listens, and where its profile is", () =>
      Effect.gen(function* () {
        const context = yield* Desktop
        // Chrome has just been started: it is waited for, and not started again.
        yield* Effect.scoped(DevTools.connect(context))
        const facts = yield* ChromeFacts.get(context.guest)
        assert.strictEqual(facts.home, "/home/user")
        assert.deepStrictEqual(facts.listening, [1337, 9222])
        assert.deepStrictEqual(
          facts.processes.map(({ debuggingPort, userDataDir }) => ({ debuggingPort, userDataDir })),
          [{ debuggingPort: "1337", userDataDir: "/home/user/.config/google-chrome" }]
        )
        assert.deepStrictEqual(ChromeFacts.profile(facts), {
          folder: "/home/user/.config/google-chrome",
          name: "Default"
        })
        // A Chromium of Debian, whose own folder is another one, which is there too and is not the one.
        assert.include(
          facts.folders.map(({ path }) => path),
          "/home/user/.config/chromium"
        )
      })
    )

    it.effect("active_url_from_accessTree: what the address bar shows, with what it hides", () =>
      Effect.gen(function* () {
        const shown = eventually(
          Effect.filterOrFail(get("active_url_from_accessTree", { goto_prefix: "http://" }), (value) => isText(value))
        )
        assert.deepStrictEqual(yield* shown, text(`${site}/index.html`))
        assert.deepStrictEqual(yield* get("active_url_from_accessTree"), text("https://127.0.0.1:8000/index.html"))
        assert.deepStrictEqual(
          yield* get("url_dashPart", { goto_prefix: "http://", partIndex: -1, returnType: "json", key: "time" }),
          json({ time: "index.html" })
        )
      })
    )

    it.effect("active_tab_info opens the address once more, and the user's tab stays in front", () =>
      Effect.gen(function* () {
        const opened = yield* get("active_tab_info", { goto_prefix: "http://" })
        assert.deepInclude(jsonOf(opened), { title: "Flights", url: `${site}/index.html` })
        assert.include(String(JSON.stringify(opened)), "Flights to  Seattle")
        // No such server: the address was opened as https. A tab that shows it will do.
        assert.deepInclude(jsonOf(yield* get("active_tab_info")), { title: "Flights", url: `${site}/index.html` })
        const compat = yield* get("active_tab_info", {}, { compat: true })
        assert.include(JSON.stringify(compat), "net::ERR_")
        assert.deepStrictEqual(
          yield* get("active_url_from_accessTree", { goto_prefix: "http://" }),
          text(`${site}/index.html`)
        )
      })
    )

    it.effect("page_info and number_of_search_results read an address of the task's", () =>
      Effect.gen(function* () {
        const page = jsonOf(yield* get("page_info", { url: `${site}/more.html` }))
        assert.deepInclude(page, { title: "More", url: `${site}/more.html` })
        assert.deepStrictEqual(
          yield* get("number_of_search_results", { url: `${site}/more.html`, selector: ".search-result" }),
          json(2)
        )
        // Whose site is down is nobody's failure but ours: no score.
        assert.include(String(yield* get("page_info", { url: "http://127.0.0.1:9/" })), "page_info failed")
        assert.include(String(yield* get("page_info", {})), "page_info failed")
      })
    )

    it.effect("open_tabs_info: all tabs, those of ours no longer", () =>
      Effect.gen(function* () {
        const first = { title: "Flights", url: `${site}/index.html` }
        assert.deepStrictEqual(yield* get("open_tabs_info"), json([first]))
        yield* Effect.scoped(
          Effect.gen(function* () {
            const chrome = yield* DevTools.connect(yield* Desktop)
            const page = yield* chrome.open
            assert.isTrue(yield* DevTools.visit(page, `${site}/more.html`, "10 seconds"))
          })
        )
        // Chrome tells its tabs in the order of their use, not of their places.
        const both = jsonOf(yield* get("open_tabs_info"))
        assert.sameDeepMembers(Array.isArray(both) ? both : [both], [
          first,
          { title: "More", url: `${site}/more.html` }
        ])
        yield* Effect.scoped(
          Effect.gen(function* () {
            const chrome = yield* DevTools.connect(yield* Desktop)
            const more = (yield* chrome.pages).find((page) => page.url().endsWith("/more.html"))
            yield* DevTools.attempt("close", async () => await more?.close())
          })
        )
        assert.deepStrictEqual(yield* get("open_tabs_info"), json([first]))
      })
    )

    const parse = (parameters: Record<string, unknown>, rest: Partial<TaskContext> = {}) =>
      get("active_tab_html_parse", { goto_prefix: "http://", ...parameters }, rest)

    it.effect("active_tab_html_parse by class", () =>
      Effect.gen(function* () {
        const found = yield* parse({
          category: "class",
          class_singleObject: { title: "title", nowhere: "nothing" },
          class_multiObject: { "day-time-info": { "0": "from", "1": "to", "2": "never" } },
          class_multiObject_child: { route: { "0": "start", "1": "end" } },
          class_multiObject_only_child: { card: { "0": "a", "1": "b" } },
          class_multiObject_search_exist: { chip: ["Women", "Nike", "is_other_exist"] }
        })
        assert.deepStrictEqual(
          found,
          json({
            from: "Mon, Dec 7, 10:00 am",
            to: "Fri, Dec 11, 4:00 pm",
            never: "",
            start: "SEA",
            end: "NYC",
            a: "First",
            b: "Third",
            Women: true,
            Nike: false,
            is_other_exist: true,
            title: "Flights to  Seattle",
            nothing: ""
          })
        )
      })
    )

    it.effect("active_tab_html_parse by label, XPath, input, and class with address", () =>
      Effect.gen(function* () {
        assert.deepStrictEqual(
          yield* parse({ category: "label", labelObject: { "Search fl": "button", Hotels: "none" } }),
          json({ button: "Search flights", none: "" })
        )
        assert.deepStrictEqual(
          yield* parse({ category: "xpath", xpathObject: { "/html/body/div[2]/h3[2]": "second", "//table": "none" } }),
          json({ second: "Second", none: "" })
        )
        assert.deepStrictEqual(
          yield* parse({
            category: "input",
            inputObject: { "//input": "from", "//textarea": "note", "//h1": "heading", "//table": "none" }
          }),
          json({ from: "Zürich", note: "two\nlines", heading: "", none: "" })
        )
        assert.deepStrictEqual(
          yield* parse({
            category: "class&url",
            class_multiObject: { chip: ["over $60", "women", "jerseys"] },
            url_include_expected: ["women", "Index", "jerseys"],
            url_include_expected_multichoice: { "127.0.0.1": "here", elsewhere: "there" }
          }),
          json({
            "over $60": true,
            women: true,
            is_other_exist: true,
            index: true,
            jerseys: false,
            here: true,
            there: false
          })
        )
        assert.deepStrictEqual(
          yield* parse({ category: "class&url", class_multiObject_li: { filters: ["Nike", "women"] } }),
          json({ nike: true, women: true, is_other_exist: false })
        )
      })
    )

    it.effect("active_tab_html_parse: no such page, and parameters that make no sense", () =>
      Effect.gen(function* () {
        const xpath = { category: "xpath", xpathObject: { "//h1": "title" } }
        // Chrome hides the scheme: where the task names another one the page is still the one that is shown.
        assert.deepStrictEqual(
          yield* parse({ ...xpath, goto_prefix: "https://www." }),
          json({ title: "Flights to  Seattle" })
        )
        assert.include(
          JSON.stringify(yield* parse({ ...xpath, goto_prefix: "https://www." }, { compat: true })),
          "no open tab shows https://www.127.0.0.1:8000/index.html"
        )
        assert.include(String(yield* parse({ category: "colour" })), "active_tab_html_parse failed")
        assert.include(
          String(yield* parse({ category: "xpath", xpathObject: { "//h1[": "title" } })),
          "active_tab_html_parse failed"
        )
      })
    )

    it.effect("info_from_website: texts, attributes, clicks, and the backups", () =>
      Effect.gen(function* () {
        const infos = [
          { action: "inner_text", selector: "h1" },
          { action: "attribute", selector: "#more", attribute: "title" },
          { action: "click_and_inner_text", selector: ["#more", "p >> nth=1"] },
          { action: "click_and_attribute", selector: ["#more", "#paper"], attribute: "href" }
        ]
        const url = `${site}/index.html`
        assert.deepStrictEqual(
          yield* get("info_from_website", { url, infos }),
          json(["Flights to Seattle", "more of it", "2", "https://example.org/paper.pdf"])
        )
        const down = { url: "http://127.0.0.1:9/", infos }
        assert.deepStrictEqual(yield* get("info_from_website", { ...down, backups: ["a"] }), json(["a"]))
        assert.include(String(yield* get("info_from_website", down)), "ERR_")
        assert.include(String(yield* get("info_from_website", { url, infos: [{ action: "dance" }] })), "failed")
      })
    )

    it.effect("gotoRecreationPage_and_get_html_content: through a search, a tab of its own and a button", () =>
      Effect.gen(function* () {
        const parameters = { selector: "class", class: "camp-date", order: "1", url: `${site}/campground.html` }
        const type = "gotoRecreationPage_and_get_html_content"
        assert.deepStrictEqual(yield* get(type, parameters), json({ expected: { "camp-date": "June 9" } }))
        const down = { ...parameters, url: "http://127.0.0.1:9/" }
        assert.include(String(yield* get(type, down)), `${type} failed`)
        assert.deepStrictEqual(
          yield* get(type, down, { compat: true }),
          json({ expected: { "camp-date": "__EVALUATION_FAILED__" } })
        )
        assert.include(String(yield* get(type, { selector: "id" })), `${type} failed`)
      })
    )

    it.effect("pdf_from_url: a page as a file", () =>
      Effect.gen(function* () {
        const value = yield* get("pdf_from_url", { path: `${site}/more.html`, dest: "../more.pdf" })
        if (typeof value === "string" || value._tag !== "File") return assert.fail(JSON.stringify(value))
        const { cache } = yield* Desktop
        assert.strictEqual(value.path, Path.join(cache, "result", "more.pdf"))
        const bytes = yield* Effect.promise(() => Fs.promises.readFile(value.path))
        assert.strictEqual(bytes.subarray(0, 5).toString(), "%PDF-")
        assert.include(String(yield* get("pdf_from_url", { path: "http://127.0.0.1:9/", dest: "a.pdf" })), "ERR_")
      })
    )

    it.effect("chrome_appearance_mode_ui shows what is chosen, and chrome_color_scheme what is written down", () =>
      Effect.gen(function* () {
        assert.deepStrictEqual(yield* get("chrome_appearance_mode_ui"), text("system"))
        assert.deepStrictEqual(yield* get("chrome_appearance_mode_ui", {}, { compat: true }), text("light"))
        yield* Effect.scoped(
          Effect.gen(function* () {
            const chrome = yield* DevTools.connect(yield* Desktop)
            const page = yield* chrome.scratch()
            yield* DevTools.visit(page, "chrome://settings/appearance", "20 seconds")
            yield* DevTools.attempt("choose", () => page.locator("#colorSchemeModeSelect").selectOption("Dark"))
          })
        )
        assert.deepStrictEqual(yield* get("chrome_appearance_mode_ui"), text("dark"))
        yield* eventually(
          Effect.filterOrFail(get("chrome_color_scheme"), (value) => isText(value) && jsonText(value) === "dark")
        )
      })
    )

    it.effect("what a running Chrome keeps: history, and no bookmarks yet", () =>
      Effect.gen(function* () {
        const history = yield* eventually(
          Effect.filterOrFail(get("history"), (value) => JSON.stringify(value).includes(`${site}/index.html`))
        )
        assert.include(JSON.stringify(history), "Flights")
        assert.include(JSON.stringify(yield* get("bookmarks")), "there is no JSON file")
      })
    )

    it.effect("a Chrome without DevTools is started again, once, with its tabs", () =>
      Effect.gen(function* () {
        const context = yield* Desktop
        const { guest } = context
        yield* guest.execute({
          command: "pkill socat -f 'tcp-listen:9222,fork'; pkill -f chromium/chromium",
          shell: true
        })
        const gone = Effect.filterOrFail(ChromeFacts.get(guest), ({ processes }) => processes.length === 0)
        yield* eventually(gone)
        // As an agent starts it, from the dock.
        yield* guest.launch({ command: ["google-chrome", `${site}/more.html`] })
        const runs = Effect.filterOrFail(ChromeFacts.get(guest), ({ processes }) => processes.length === 1)
        yield* eventually(runs)
        yield* eventually(
          Effect.filterOrFail(
            get("active_url_from_accessTree", { goto_prefix: "http://" }),
            (value) => JSON.stringify(value) === JSON.stringify(text(`${site}/more.html`))
          )
        )
        const dead = yield* Effect.either(Effect.scoped(DevTools.connect(context, { revive: false })))
        assert.strictEqual(dead._tag, "Left")
        assert.deepInclude(JSON.stringify(yield* get("open_tabs_info")), `${site}/more.html`)
        assert.deepStrictEqual((yield* ChromeFacts.get(guest)).listening, [1337, 9222])
      })
    )

    it.effect("what is cut off from us while we look is nobody's doing, and no score", () =>
      Effect.gen(function* () {
        const context = yield* Desktop
        const { guest } = context
        // A page that never comes, and one that never rests.
        const silent =
          "import socket, time; s = socket.socket(); s.bind(('127.0.0.1', 8001)); s.listen(); time.sleep(120)"
        yield* guest.launch({ command: ["python3", "-c", silent] })
        const entry = '<entry name="Address and search bar">http://127.0.0.1:8001/</entry>'
        const tree = `<desktop-frame><application name="Chromium">${entry}</application></desktop-frame>`
        yield* Effect.scoped(
          Effect.gen(function* () {
            const chrome = yield* DevTools.connect(context)
            const [page] = yield* chrome.pages
            yield* DevTools.attempt("keep busy", async () =>
              page?.evaluate('setInterval(() => fetch("/index.html?" + Math.random()), 100); 1')
            )
          })
        )
        const { endpoint, sever } = yield* severable(yield* context.endpoint(DesktopSpec.ports.devtoolsRelay))
        const cut = { guest: { ...guest, accessibilityTree: Effect.succeed(tree) }, endpoint: () => endpoint }
        for (const name of ["open_tabs_info", "active_tab_info"]) {
          const found = yield* Effect.fork(get(name, { goto_prefix: "http://" }, cut))
          yield* Effect.sleep("4 seconds")
          yield* sever
          assert.include(String(yield* Fiber.join(found)), `${name} failed`)
        }
      }).pipe(Effect.scoped)
    )

    it.effect("where there is no way to Chrome, that is no score", () =>
      Effect.gen(function* () {
        const endpoint = contextOf({}).endpoint
        assert.include(String(yield* get("open_tabs_info", {}, { endpoint })), "none here")
        assert.include(String(yield* get("page_info", { url: site }, { endpoint })), "page_info failed")
      })
    )
  }
)
