import { readdirSync, readFileSync, statSync } from "node:fs"
import * as FileSystem from "@effect/platform/FileSystem"
import * as NodeContext from "@effect/platform-node/NodeContext"
import * as NodeHttpClient from "@effect/platform-node/NodeHttpClient"
import { assert, describe, it } from "@effect/vitest"
import * as ConfigProvider from "effect/ConfigProvider"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import * as Schedule from "effect/Schedule"
import type * as Scope from "effect/Scope"
import * as Assets from "../../src/osworld/Assets.js"
import { type AssetServer, type Mishap, make, noise, sha256 } from "./assetServer.js"

const platform = Layer.merge(NodeContext.layer, NodeHttpClient.layer)

const fetch = (url: string, options: Assets.AssetsOptions) =>
  Effect.flatMap(Assets.Assets, (assets) => assets.fetch(url, undefined)).pipe(
    Effect.provide(Assets.layer(options)),
    Effect.provide(platform)
  )

const withServer = (
  name: string,
  test: (server: AssetServer, folder: string) => Effect.Effect<void, unknown, FileSystem.FileSystem | Scope.Scope>
) =>
  it.scopedLive(name, () =>
    Effect.gen(function* () {
      const fs = yield* FileSystem.FileSystem
      const server = yield* make
      yield* test(server, yield* fs.makeTempDirectoryScoped())
    }).pipe(Effect.provide(NodeContext.layer))
  )

const places = (folder: string) => readdirSync(folder).filter((name) => !name.startsWith(".partial-"))
const partials = (folder: string) =>
  readdirSync(folder).filter((name) => name.startsWith(".partial-") && !name.endsWith(".note"))

const content = noise(300_000)
const busy = (more: Record<string, string> = {}): Mishap => ({
  _tag: "Status",
  status: 503,
  headers: { "retry-after": "0", ...more }
})

describe("Assets", () => {
  withServer("downloads once, read-only, under the hash of its address and its own name", (server, folder) =>
    Effect.gen(function* () {
      server.files.set("/a b.bin", content)
      const url = `${server.url}/a%20b.bin`
      server.files.set("/a%20b.bin", content)
      const path = yield* fetch(url, { directory: folder })
      assert.strictEqual(path, `${folder}/${sha256(url).slice(0, 32)}_a_b.bin`)
      assert.deepStrictEqual(readFileSync(path), content)
      assert.strictEqual(statSync(path).mode & 0o777, 0o444)
      assert.strictEqual(yield* fetch(url, { directory: folder }), path)
      assert.strictEqual(server.asked.length, 1)
      assert.deepStrictEqual(readdirSync(folder).length, 1)
    })
  )

  withServer("tries again when the server is busy, and not when there is no such file", (server, folder) =>
    Effect.gen(function* () {
      server.files.set("/a", content)
      server.mishaps.set("/a", [busy(), busy()])
      assert.deepStrictEqual(readFileSync(yield* fetch(`${server.url}/a`, { directory: folder })), content)
      assert.strictEqual(server.asked.length, 3)

      const error = yield* Effect.flip(fetch(`${server.url}/none?signature=secret`, { directory: folder }))
      assert.isTrue(error._tag === "AssetError" && error.missing)
      assert.strictEqual(error.message, `could not get ${server.url}/none: the server answered HTTP 404`)
      assert.strictEqual(server.asked.length, 4)
    })
  )

  withServer("gives up after five tries, and says what the server said", (server, folder) =>
    Effect.gen(function* () {
      server.mishaps.set("/a", [busy(), busy(), busy(), busy(), busy()])
      const error = yield* Effect.flip(fetch(`${server.url}/a`, { directory: folder }))
      assert.isTrue(error._tag === "AssetError" && !error.missing)
      assert.include(error.message, "HTTP 503")
      assert.strictEqual(server.asked.length, 5)
      assert.deepStrictEqual(places(folder), [])
    })
  )

  withServer("goes on where an answer broke off", (server, folder) =>
    Effect.gen(function* () {
      server.files.set("/a", content)
      server.mishaps.set("/a", [{ _tag: "Cut", bytes: 100_000 }])
      assert.deepStrictEqual(readFileSync(yield* fetch(`${server.url}/a`, { directory: folder })), content)
      const from = Number(/^bytes=(\d+)-$/.exec(server.asked[1]?.range ?? "")?.[1])
      assert.isAbove(from, 0)
      assert.isAtMost(from, 100_000)
      assert.deepStrictEqual(partials(folder), [])
    })
  )

  withServer("begins anew where the file has changed meanwhile", (server, folder) =>
    Effect.gen(function* () {
      server.files.set("/a", content)
      server.mishaps.set("/a", [{ _tag: "Stall", bytes: 100_000 }])
      const first = yield* Effect.fork(fetch(`${server.url}/a`, { directory: folder }))
      yield* Effect.repeat(
        Effect.sync(() => partials(folder)),
        {
          until: (names) => names.some((name) => statSync(`${folder}/${name}`).size >= 50_000),
          schedule: Schedule.spaced("10 millis")
        }
      )
      yield* Fiber.interrupt(first)
      assert.deepStrictEqual(places(folder), [])
      assert.strictEqual(partials(folder).length, 1)

      const other = noise(200_000, "other")
      server.files.set("/a", other)
      assert.deepStrictEqual(readFileSync(yield* fetch(`${server.url}/a`, { directory: folder })), other)
      assert.isDefined(server.asked[1]?.range)
      assert.deepStrictEqual(partials(folder), [])
    })
  )

  withServer("refuses what is not what Hugging Face says that it is", (server, folder) =>
    Effect.gen(function* () {
      server.files.set("/a", content)
      server.headers.set("/a", { "x-linked-etag": `"${sha256("other")}"` })
      const error = yield* Effect.flip(fetch(`${server.url}/a`, { directory: folder }))
      assert.include(error.message, `its SHA-256 is ${sha256(content)}, and should be ${sha256("other")}`)
      assert.deepStrictEqual(readdirSync(folder), [])
    })
  )

  withServer("follows where it is led, and shows the token to nobody else", (server, folder) =>
    Effect.gen(function* () {
      const other = yield* make
      other.files.set("/there", content)
      server.mishaps.set("/hub/a", [{ _tag: "Status", status: 302, headers: { location: "/hub/b" } }])
      server.mishaps.set("/hub/b", [
        { _tag: "Status", status: 302, headers: { location: `${other.url}/there?signature=secret` } }
      ])
      const path = yield* fetch("https://huggingface.co/a", {
        directory: folder,
        endpoint: `${server.url}/hub`,
        token: Redacted.make("hf_secret")
      })
      assert.deepStrictEqual(readFileSync(path), content)
      assert.deepStrictEqual(
        server.asked.map(({ authorization }) => authorization),
        ["Bearer hf_secret", "Bearer hf_secret"]
      )
      assert.deepStrictEqual(
        other.asked.map(({ authorization }) => authorization),
        [undefined]
      )
    })
  )

  withServer("asks mirrors first, and the address itself where they fail", (server, folder) =>
    Effect.gen(function* () {
      const mirror = yield* make
      server.files.set("/x/a", content)
      mirror.files.set("/y/b", noise(10))
      const mirrors = [{ from: `${server.url}/x`, to: `${mirror.url}/y/` }]
      const token = Redacted.make("hf_secret")
      assert.deepStrictEqual(
        readFileSync(yield* fetch(`${server.url}/x/a`, { directory: folder, mirrors, token })),
        content
      )
      assert.deepStrictEqual(
        readFileSync(yield* fetch(`${server.url}/x/b`, { directory: folder, mirrors, token })),
        noise(10)
      )
      assert.deepStrictEqual(
        mirror.asked.map(({ authorization, url }) => [url, authorization]),
        [
          ["/y/a", undefined],
          ["/y/b", undefined]
        ]
      )
    })
  )

  withServer("reads a shared cache and never writes to it; offline it says what is not there", (server, folder) =>
    Effect.gen(function* () {
      const fs = yield* FileSystem.FileSystem
      const [shared, own] = [`${folder}/shared`, `${folder}/own`]
      server.files.set("/a", content)
      const path = yield* fetch(`${server.url}/a`, { directory: shared })
      const options = { directory: own, shared: [shared], offline: true }
      assert.strictEqual(yield* fetch(`${server.url}/a`, options), path)
      const error = yield* Effect.flip(fetch(`${server.url}/b?token=secret`, options))
      assert.isTrue(error._tag === "AssetError" && error.missing)
      assert.include(error.message, `could not get ${server.url}/b: it is not in ${shared} or ${own}`)
      assert.include(error.message, "deskhand prepare")
      assert.include(error.message, "--offline")
      assert.notInclude(error.message, "secret")
      assert.isFalse(yield* fs.exists(own))
      assert.strictEqual(server.asked.length, 1)
    })
  )

  withServer("downloads a file once for all that want it at a time", (server, folder) =>
    Effect.gen(function* () {
      server.files.set("/a", content)
      yield* Effect.gen(function* () {
        const assets = yield* Assets.Assets
        yield* Effect.all(
          Array.from({ length: 8 }, () => assets.fetch(`${server.url}/a`, undefined)),
          { concurrency: "unbounded" }
        )
      }).pipe(Effect.provide(Assets.layer({ directory: folder })), Effect.provide(platform))
      assert.strictEqual(server.asked.length, 1)
    })
  )

  it.effect("takes tokens and mirrors from the environment, and says what is wrong there", () =>
    Effect.gen(function* () {
      const read = (env: Record<string, string>) =>
        Effect.withConfigProvider(Assets.sources, ConfigProvider.fromMap(new Map(Object.entries(env))))
      const { mirrors, token } = yield* read({
        HF_TOKEN: "hf_secret",
        DESKHAND_ASSET_MIRRORS: "https://a.b/c=https://d.e, https://f.g=http://h.i"
      })
      assert.deepStrictEqual(mirrors, [
        { from: "https://a.b/c", to: "https://d.e" },
        { from: "https://f.g", to: "http://h.i" }
      ])
      assert.strictEqual(
        Option.getOrUndefined(Option.fromNullable(token).pipe(Option.map(Redacted.value))),
        "hf_secret"
      )
      assert.include(String(yield* Effect.flip(read({ DESKHAND_ASSET_MIRRORS: "a.b" }))), "DESKHAND_ASSET_MIRRORS")
    })
  )
})
