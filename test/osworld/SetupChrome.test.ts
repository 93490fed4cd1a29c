/** Steps about Chrome, in a real desktop with a real Chromium. */
import * as Fs from "node:fs"
import * as Path from "node:path"
import { assert, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { getters } from "../../src/osworld/evaluator/internal/getters/chromeProfile.js"
import type { TaskContext } from "../../src/osworld/Setup.js"
import { getWith } from "./evaluator/chromeSupport.js"
import { activeTitle, Desktop, DesktopLayer, eventually, shell, sorted, urls } from "./setupDesktop.js"
import { setup } from "./setupSupport.js"

/** A site in the desktop, which has no network. Each page has its path as its title. */
const site = `
import http.server
class Site(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = ("<title>page %s</title>" % self.path).encode()
        self.send_response(200)
        self.send_header("content-type", "text/html")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
http.server.ThreadingHTTPServer(("127.0.0.1", 8000), Site).serve_forever()
`

/** Pages that ask who is there, one thing at a time, as Google's do. */
const door = `
import http.server, urllib.parse
field = '<form><input type="%s" name="%s"><input type="hidden" name="email" value="%s"></form>'
class Door(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        place = urllib.parse.urlparse(self.path)
        said = urllib.parse.parse_qs(place.query)
        known = "in=yes" in (self.headers.get("cookie") or "")
        status, headers, body = 200, [], "<title>my drive</title>"
        if place.path == "/drive" and not known:
            status, headers = 302, [("location", "/signin")]
        elif place.path == "/signin" and said.get("password") == ["open sesame"] and said.get("email") == ["me@x.test"]:
            status, headers = 302, [("location", "/drive"), ("set-cookie", "in=yes")]
        elif place.path == "/signin":
            body = field % ("password", "password", said["email"][0]) if "email" in said else '<form><input type="email" name="email"></form>'
        self.send_response(status)
        for name, value in headers + [("content-type", "text/html"), ("content-length", str(len(body)))]:
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body.encode())
http.server.ThreadingHTTPServer(("127.0.0.1", 8001), Door).serve_forever()
`

/** Somebody's proxy, which wants a password and has every page itself. */
const upstream = `
import base64, http.server
wanted = "Basic " + base64.b64encode(b"agent:pa55:word").decode()
class Proxy(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        known = self.headers.get("proxy-authorization") == wanted
        body = ("<title>%s</title>" % ("through the proxy to " + self.path if known else "who are you")).encode()
        self.send_response(200 if known else 407)
        self.send_header("content-type", "text/html")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
http.server.ThreadingHTTPServer(("127.0.0.1", 3128), Proxy).serve_forever()
`

const launchChrome = [
  { type: "launch", parameters: { command: ["google-chrome", "--remote-debugging-port=1337"] } },
  { type: "launch", parameters: { command: "socat tcp-listen:9222,fork,reuseaddr tcp:localhost:1337" } }
]

const stopChrome = (context: TaskContext) =>
  Effect.zipRight(
    shell(context, "pkill chrome; true"),
    eventually(
      Effect.filterOrFail(
        shell(context, "pgrep -c chromium || true"),
        (count) => count === "0",
        (count) => `${count} still run`
      )
    )
  )

layer(DesktopLayer, { timeout: "90 seconds", excludeTestServices: true })("setup of a desktop's Chrome", (it) => {
  it.effect(
    "gives Chrome a past, opens tabs, closes one, and the history getter reads the past back",
    () =>
      Effect.gen(function* () {
        const context = yield* Desktop
        yield* shell(context, `cat >/tmp/site.py <<'END'\n${site}\nEND`)
        const before = Date.now()
        const page = "http://127.0.0.1:8000"
        const history = [
          { url: "https://films.test/a", title: "Film — A", visit_time_from_now_in_seconds: 3600 },
          { url: "https://films.test/b", title: "Film B", visit_time_from_now_in_seconds: 60.5 },
          { url: "https://films.test/a", title: "Film A, again", visit_time_from_now_in_seconds: 30 }
        ]
        yield* setup(context, [
          { type: "update_browse_history", parameters: { history } },
          { type: "launch", parameters: { command: ["python3", "/tmp/site.py"] } },
          ...launchChrome,
          {
            type: "chrome_open_tabs",
            parameters: { urls_to_open: [`${page}/one`, "127.0.0.1:8000/two", `${page}/three#x`] }
          },
          { type: "activate_window", parameters: { window_name: "page /three - Google Chrome", strict: true } }
        ])
        assert.deepStrictEqual(sorted(yield* urls(context)), [`${page}/one`, `${page}/three#x`, `${page}/two`])
        // Chromium stands in for Chrome, and its titles say so.
        assert.match(yield* activeTitle(context), /^page \/three - (Chromium|Google Chrome)$/)

        yield* setup(context, [
          { type: "chrome_close_tabs", parameters: { urls_to_close: ["http://127.0.0.1:8000/two"] } }
        ])
        assert.deepStrictEqual(sorted(yield* urls(context)), [`${page}/one`, `${page}/three#x`])
        const unclosed = yield* Effect.flip(
          setup(context, [{ type: "chrome_close_tabs", parameters: { urls_to_close: ["http://other.test/"] } }])
        )
        assert.match(unclosed.reason, /no tab is at http:\/\/other.test\//)
        const dead = { type: "chrome_open_tabs", parameters: { urls_to_open: ["http://127.0.0.1:9/"] } }
        assert.match((yield* Effect.flip(setup(context, [dead]))).reason, /net::ERR_/)

        const late = yield* Effect.flip(setup(context, [{ type: "update_browse_history", parameters: { history } }]))
        assert.strictEqual(late.fault, "task")
        yield* stopChrome(context)

        const value = yield* getWith(getters, "history", {}, context)
        assert.isObject(value)
        if (typeof value === "string" || value._tag !== "Json" || !Array.isArray(value.json))
          return assert.fail(String(value))
        const rows = value.json.filter((row: unknown): row is [string, string, number] => Array.isArray(row))
        // Chrome's times are microseconds since 1601-01-01, 11644473600 s before 1970.
        const at = (url: string) => {
          const row = rows.find(([each]) => each === url)
          return row === undefined ? undefined : [row[1], Math.round(row[2] / 1e6 - 11_644_473_600 - before / 1000)]
        }
        const near = (found: ReturnType<typeof at>, title: string, seconds: number) => {
          assert.strictEqual(found?.[0], title)
          assert.approximately(Number(found?.[1]), seconds, 5)
        }
        near(at("https://films.test/a"), "Film A, again", -30)
        near(at("https://films.test/b"), "Film B", -60.5)
        assert.isDefined(at(`${page}/one`))
      }),
    { timeout: 180_000 }
  )

  it.effect(
    "logs Chrome in, and says when the account is not let in",
    () =>
      Effect.gen(function* () {
        const context = yield* Desktop
        yield* shell(context, `cat >/tmp/door.py <<'END'\n${door}\nEND`)
        yield* setup(context, [
          { type: "launch", parameters: { command: ["python3", "/tmp/door.py"] } },
          ...launchChrome
        ])
        const login = [{ type: "login", parameters: { settings_file: "settings.json", platform: "googledrive" } }]
        const env = {
          DESKHAND_GOOGLE_EMAIL: "me@x.test",
          DESKHAND_GOOGLE_PASSWORD: "open sesame",
          DESKHAND_GOOGLE_DRIVE_URL: "http://127.0.0.1:8001/drive"
        }
        const anybody = yield* Effect.flip(setup(context, login))
        assert.strictEqual(anybody.fault, "task")
        assert.include(
          anybody.reason,
          "the task needs a Google account: set DESKHAND_GOOGLE_EMAIL, DESKHAND_GOOGLE_PASSWORD"
        )
        const wrong = yield* Effect.flip(
          setup(context, login, { env: { ...env, DESKHAND_GOOGLE_PASSWORD: "open barley" } })
        )
        assert.match(wrong.reason, /did not let the account in/)
        assert.notInclude(wrong.message, "barley")
        yield* setup(context, login, { env })
        assert.include(yield* urls(context), env.DESKHAND_GOOGLE_DRIVE_URL)
        // Somebody who is in is not asked again.
        yield* setup(context, login, { env: { ...env, DESKHAND_GOOGLE_PASSWORD: "open barley" } })
        yield* stopChrome(context)
      }),
    { timeout: 180_000 }
  )

  it.effect(
    "lets Chrome out through a proxy whose password no process and no file shows",
    () =>
      Effect.gen(function* () {
        const context = { ...(yield* Desktop), wantsProxy: true }
        yield* shell(context, `cat >/tmp/upstream.py <<'END'\n${upstream}\nEND`)
        yield* context.guest.launch({ command: ["python3", "/tmp/upstream.py"] })
        const file = Path.join(context.cache, "proxies.json")
        Fs.writeFileSync(
          file,
          JSON.stringify([
            { host: "127.0.0.1", port: 3128, username: "agent", password: "pa55:word", protocol: "http" }
          ])
        )
        const env = { DESKHAND_TASK_PROXY_FILE: file }
        yield* eventually(
          Effect.filterOrFail(
            shell(context, "curl -s -o /dev/null -w '%{http_code}' http://127.0.0.1:3128/"),
            (status) => status === "407",
            (status) => status
          )
        )
        yield* setup(
          context,
          [...launchChrome, { type: "chrome_open_tabs", parameters: { urls_to_open: ["http://shop.test/cart"] } }],
          { env }
        )
        assert.match(yield* activeTitle(context), /^through the proxy to http:\/\/shop\.test(:80)?\/cart/)
        assert.strictEqual(yield* shell(context, "grep -l -a 'pa55:wor[d]' /proc/[0-9]*/cmdline || true"), "")
        assert.strictEqual(
          yield* shell(
            context,
            "grep -r -l -s 'pa55:wor[d]' /tmp /home/user --include='*.conf' || true; ls -d /tmp/deskhand-proxy-* 2>/dev/null || true"
          ),
          ""
        )
        yield* stopChrome(context)
        const taken = yield* Effect.flip(setup(context, [], { env }))
        assert.deepStrictEqual([taken.index, taken.type], [-1, "proxy"])
        assert.match(taken.reason, /port 18888 .* is taken/)
        yield* shell(context, "pkill tinyproxy; true")
        Fs.writeFileSync(file, JSON.stringify([{ host: "127.0.0.1", port: 3129 }]))
        assert.match(
          (yield* Effect.flip(setup(context, [], { env }))).reason,
          /does not reach the proxy 127.0.0.1:3129/
        )
      }),
    { timeout: 180_000 }
  )
})
