/**
 * Google Drive against a server of the test's own that speaks as version 2 of its API does
 * (https://developers.google.com/workspace/drive/api/reference/rest/v2): what is asked of it, and what its faults bring.
 */
import * as Fs from "node:fs"
import * as Http from "node:http"
import * as Path from "node:path"
import * as NodeHttpClient from "@effect/platform-node/NodeHttpClient"
import { assert, describe, it } from "@effect/vitest"
import * as ConfigProvider from "effect/ConfigProvider"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import * as Stream from "effect/Stream"
import { getters } from "../../src/osworld/evaluator/internal/getters/googleDrive.js"
import * as GoogleDrive from "../../src/osworld/internal/googleDrive.js"
import { contextOf, getWith } from "./evaluator/chromeSupport.js"
import { setup, temporary } from "./setupSupport.js"

interface Stored {
  readonly id: string
  readonly title: string
  readonly mimeType: string
  readonly parent: string
  readonly content: string
  readonly trashed: boolean
}

/** As much of the query language as we write, and as the tasks do. */
const holds = (file: Stored, query: string): boolean =>
  query.split(" and ").every((term) => {
    const test = term.replace(/[()]/g, "").trim()
    const value = /'((?:[^'\\]|\\.)*)'/.exec(test)?.[1]?.replace(/\\(.)/g, "$1") ?? ""
    if (test.startsWith("title =")) return file.title === value
    if (test.startsWith("mimeType !=")) return file.mimeType !== value
    if (test.startsWith("mimeType =")) return file.mimeType === value
    if (test.endsWith("in parents")) return file.parent === value
    if (test === "trashed = false") return !file.trashed
    throw new Error(`the test's Drive does not know ${test}`)
  })

type Fault = number | { readonly status: number; readonly reason: string }

/** A Drive. `fault` may answer first, with a status, and Google's word for why. */
const drive = (fault: (request: string, times: number) => Fault | undefined = () => undefined) =>
  Effect.map(
    Effect.acquireRelease(
      Effect.async<{
        readonly server: Http.Server
        readonly files: Map<string, Stored>
        readonly asked: Array<string>
      }>((resume) => {
        const files = new Map<string, Stored>()
        const asked: Array<string> = []
        const uploads = new Map<
          string,
          { readonly title: string; readonly parents: ReadonlyArray<{ readonly id: string }> }
        >()
        const add = (title: string, mimeType: string, parent: string, content: string) => {
          const file = { id: `id${files.size}`, title, mimeType, parent, content, trashed: false }
          files.set(file.id, file)
          return file
        }
        const server = Http.createServer((request, response) => {
          let body = ""
          request.on("data", (chunk) => {
            body += chunk
          })
          request.on("end", () => {
            const url = new URL(request.url ?? "", `http://${request.headers.host}`)
            const name = `${request.method} ${url.pathname}`
            asked.push(name)
            const fails = fault(name, asked.filter((each) => each === name).length)
            const say = (code: number, json?: unknown, headers = {}) =>
              response
                .writeHead(code, { "content-type": "application/json", ...headers })
                .end(json === undefined ? "" : JSON.stringify(json))
            if (typeof fails === "number") return say(fails, { error: { message: "no such luck" } })
            if (fails !== undefined) {
              const errors = [{ domain: "usageLimits", reason: fails.reason, message: "no such luck" }]
              return say(fails.status, { error: { errors, code: fails.status, message: "no such luck" } })
            }
            if (url.pathname === "/token") {
              const form = new URLSearchParams(body)
              const fits = form.get("refresh_token") === "r3fresh" && form.get("client_secret") === "s3cret"
              return fits
                ? say(200, { access_token: "t0ken", expires_in: 3599, token_type: "Bearer" })
                : say(400, { error: "invalid_grant", error_description: "Token has been expired or revoked." })
            }
            if (request.headers.authorization !== "Bearer t0ken") return say(401, { error: { message: "who" } })
            const id = /^\/drive\/v2\/files\/([^/]+)/.exec(url.pathname)?.[1]
            const file = id === undefined ? undefined : files.get(id)
            if (id !== undefined && file === undefined) return say(404, { error: { message: "File not found" } })
            if (name === "GET /drive/v2/files") {
              const found = [...files.values()].filter((each) => holds(each, url.searchParams.get("q") ?? ""))
              // One a page.
              const at = Number(url.searchParams.get("pageToken") ?? 0)
              return say(200, {
                items: found.slice(at, at + 1),
                ...(at + 1 < found.length ? { nextPageToken: String(at + 1) } : {})
              })
            }
            if (name === "POST /drive/v2/files") {
              const { mimeType, parents, title } = JSON.parse(body)
              return say(200, add(title, mimeType, parents[0].id, ""))
            }
            if (name === "POST /upload/drive/v2/files") {
              const place = `/session/${uploads.size}`
              uploads.set(place, JSON.parse(body))
              return say(200, undefined, { location: new URL(place, url).href })
            }
            const session = uploads.get(url.pathname)
            if (session !== undefined) {
              return say(200, add(session.title, "application/octet-stream", session.parents[0]?.id ?? "", body))
            }
            if (file === undefined) return say(404)
            if (request.method === "DELETE") {
              files.delete(file.id)
              // What is in a folder goes with it.
              for (const each of [...files.values()]) if (each.parent === file.id) files.delete(each.id)
              return response.writeHead(204).end()
            }
            if (url.pathname.endsWith("/trash")) {
              files.set(file.id, { ...file, trashed: true })
              return say(200, file)
            }
            return response.writeHead(200).end(file.content)
          })
        })
        server.listen(0, "127.0.0.1", () => resume(Effect.succeed({ server, files, asked })))
      }),
      ({ server }) =>
        Effect.async<void>((resume) => {
          server.closeAllConnections()
          server.close(() => resume(Effect.void))
        })
    ),
    ({ asked, files, server }) => {
      const address = server.address()
      const url = `http://127.0.0.1:${typeof address === "object" && address !== null ? address.port : 0}`
      const env = {
        DESKHAND_GOOGLE_CLIENT_ID: "client",
        DESKHAND_GOOGLE_CLIENT_SECRET: "s3cret",
        DESKHAND_GOOGLE_REFRESH_TOKEN: "r3fresh",
        DESKHAND_GOOGLE_API_URL: `${url}/`,
        DESKHAND_GOOGLE_TOKEN_URL: `${url}/token`
      }
      return { files, asked, url, env, paths: () => [...files.values()].map((file) => pathOf(files, file)).sort() }
    }
  )

const pathOf = (files: ReadonlyMap<string, Stored>, file: Stored): string => {
  const parent = files.get(file.parent)
  return `${parent === undefined ? "" : pathOf(files, parent)}/${file.title}`
}

const step = (operation: ReadonlyArray<string>, args: ReadonlyArray<unknown>) => [
  { type: "googledrive", parameters: { settings_file: "s.yml", operation, args } }
]

const context = contextOf({})

describe("googledrive", () => {
  it.scopedLive("makes folders once, uploads, trashes and deletes", () =>
    Effect.gen(function* () {
      const { asked, env, files, paths } = yield* drive()
      const local = Path.join(yield* temporary, "a.txt")
      Fs.writeFileSync(local, "a".repeat(70_000))
      const options = { env, files: { "https://files.test/a.txt": local } }
      const url = "https://files.test/a.txt"
      yield* setup(
        context,
        step(
          ["mkdirs", "mkdirs", "upload", "upload"],
          [
            { path: ["o'neill", "docs"] },
            { path: ["o'neill", "pictures"] },
            { url, path: ["o'neill", "docs", "a.txt"] },
            { url, dest: "b.txt" }
          ]
        ),
        options
      )
      assert.deepStrictEqual(paths(), [
        "/b.txt",
        "/o'neill",
        "/o'neill/docs",
        "/o'neill/docs/a.txt",
        "/o'neill/pictures"
      ])
      assert.deepStrictEqual(
        [...files.values()].flatMap(({ content }) => (content === "" ? [] : [content.length])),
        [70_000, 70_000]
      )
      assert.strictEqual(asked.filter((each) => each === "POST /token").length, 1)

      yield* setup(context, step(["delete"], [{ query: "title = 'b.txt'", trash: true }]), options)
      assert.deepStrictEqual(
        [...files.values()].filter(({ trashed }) => trashed).map(({ title }) => title),
        ["b.txt"]
      )
      // Files before their folders, and folders in folders, which go with them.
      yield* setup(context, step(["delete"], [{}]), options)
      assert.deepStrictEqual(paths(), [])
    })
  )

  it.scopedLive("tries again what may happen twice, and what Google says it has not done", () =>
    Effect.gen(function* () {
      const passing = yield* drive((request, times) =>
        times === 1 && (request === "GET /drive/v2/files" || request === "POST /drive/v2/files") ? 503 : undefined
      )
      yield* setup(context, step(["mkdirs"], [{ path: ["x"] }]), { env: passing.env })
      assert.deepStrictEqual(passing.paths(), ["/x"])

      // Whether the folder was made is not known.
      const unknown = yield* drive((request) => (request === "POST /drive/v2/files" ? 500 : undefined))
      const failed = yield* Effect.flip(setup(context, step(["mkdirs"], [{ path: ["x"] }]), { env: unknown.env }))
      assert.strictEqual(unknown.asked.filter((each) => each === "POST /drive/v2/files").length, 1)
      assert.strictEqual(failed.fault, "infrastructure")
      assert.match(failed.reason, /make the folder x: status 500: no such luck/)
    })
  )

  it.scopedLive("says what Google said, and no secret", () =>
    Effect.gen(function* () {
      const { env } = yield* drive()
      const wrong = { ...env, DESKHAND_GOOGLE_REFRESH_TOKEN: "h0sh" }
      const failed = yield* Effect.flip(setup(context, step(["delete"], [{}]), { env: wrong }))
      assert.match(failed.reason, /log in: status 400: invalid_grant: Token has been expired or revoked/)
      assert.notMatch(failed.message, /h0sh|s3cret/)
      const missing = step(["upload"], [{ url: "https://files.test/none", path: "x" }])
      assert.strictEqual((yield* Effect.flip(setup(context, missing, { env }))).fault, "task")
    })
  )

  it.scopedLive("finds files and reads them", () =>
    Effect.gen(function* () {
      const { url } = yield* drive()
      const found = yield* GoogleDrive.make({
        clientId: "client",
        clientSecret: Redacted.make("s3cret"),
        refreshToken: Redacted.make("r3fresh"),
        apiUrl: url,
        tokenUrl: `${url}/token`
      }).pipe(
        Effect.flatMap((drive) =>
          Effect.gen(function* () {
            yield* drive.upload({ bytes: Stream.make(Buffer.from("words")), size: 5 }, ["a \\ b"], "c.txt")
            const folder = yield* drive.makeFolders(["a \\ b"])
            const [file] = yield* drive.list(GoogleDrive.inFolder(folder, "c.txt"))
            return yield* Stream.mkString(Stream.decodeText(drive.content(file?.id ?? "")))
          })
        ),
        Effect.provide(NodeHttpClient.layer)
      )
      assert.strictEqual(found, "words")
    })
  )
})

describe("googledrive_file", () => {
  it.scopedLive("brings files by their names or by queries, and says which is not there", () =>
    Effect.gen(function* () {
      const { env } = yield* drive()
      const cache = yield* temporary
      const local = Path.join(cache, "local.txt")
      Fs.writeFileSync(local, "words")
      const url = "https://files.test/a.txt"
      const place = (path: string | ReadonlyArray<string>) => ({ url, path })
      yield* setup(context, step(["upload", "upload"], [place(["it's here", "a.txt"]), place("b.txt")]), {
        env,
        files: { [url]: local }
      })
      const get = (parameters: Record<string, unknown>, from: Record<string, string> = env) =>
        Effect.withConfigProvider(
          getWith(getters, "googledrive_file", parameters, contextOf({}, { cache })),
          ConfigProvider.fromMap(new Map(Object.entries(from)))
        )
      const content = (path: string) => Fs.readFileSync(path, "utf8")
      const one = yield* get({ settings_file: "s.yml", path: ["it's here", "a.txt"], dest: "x.txt" })
      assert.isObject(one)
      if (typeof one === "string" || one._tag !== "File") return assert.fail(JSON.stringify(one))
      assert.deepStrictEqual([one.name, content(one.path)], ["x.txt", "words"])
      const both = yield* get({
        query_list: [["title = 'b.txt'"], ["title = 'it\\'s here'", "title = 'a.txt' and trashed = false"]],
        dest: ["1.txt", "../../2.txt"]
      })
      if (typeof both === "string" || both._tag !== "Files") return assert.fail(JSON.stringify(both))
      assert.deepStrictEqual(
        both.files.map(({ path }) => path),
        ["1.txt", "2.txt"].map((name) => Path.join(cache, "result", name))
      )
      const none = yield* get({ path: ["it's here", "c.txt"], dest: "x.txt" })
      assert.isTrue(typeof none !== "string" && none._tag === "Missing")
      const some = yield* get({ path_list: [["b.txt"], ["c.txt"]], dest: ["1", "2"] })
      assert.isTrue(typeof some !== "string" && some._tag === "Missing")
      assert.match(String(yield* get({ path_list: [["b.txt"]], dest: ["1", "2"] })), /different lengths/)
      assert.match(String(yield* get({ dest: "x" })), /googledrive_file failed/)
      assert.match(String(yield* get({ path: ["b.txt"], dest: "x" }, {})), /needs a Google account/)
    })
  )

  // The words are those of Drive's guide "Resolve errors"; each is a 403.
  for (const [reason, expected, asked] of [
    ["userRateLimitExceeded", "File", 2],
    ["rateLimitExceeded", "File", 2],
    ["dailyLimitExceeded", "failed", 1],
    ["insufficientFilePermissions", "failed", 1],
    ["fileNotDownloadable", "Missing", 1]
  ] as const) {
    it.scopedLive(`${reason}: ${expected}, asked for ${asked} times`, () =>
      Effect.gen(function* () {
        const isContent = (request: string) => /^GET .*\/files\/id/.test(request)
        const { asked: all, env } = yield* drive((request, times) =>
          isContent(request) && times === 1 ? { status: 403, reason } : undefined
        )
        const cache = yield* temporary
        const local = Path.join(cache, "local.txt")
        Fs.writeFileSync(local, "words")
        const url = "https://files.test/a.txt"
        yield* setup(context, step(["upload"], [{ url, path: ["a.txt"] }]), { env, files: { [url]: local } })
        const value = yield* Effect.withConfigProvider(
          getWith(getters, "googledrive_file", { path: ["a.txt"], dest: "x.txt" }, contextOf({}, { cache })),
          ConfigProvider.fromMap(new Map(Object.entries(env)))
        )
        assert.include(typeof value === "string" ? value : value._tag, expected)
        assert.lengthOf(all.filter(isContent), asked)
      })
    )
  }
})
