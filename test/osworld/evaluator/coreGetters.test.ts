/** Getters that most tasks use: files of the guest, of the task and of the rollout's folder; commands; rules. */
import { existsSync, readFileSync } from "node:fs"
import * as NodeContext from "@effect/platform-node/NodeContext"
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Stream from "effect/Stream"
import type { Guest } from "../../../src/desktop/Guest.js"
import { GuestError, GuestFileMissing } from "../../../src/desktop/GuestError.js"
import { AssetError, Assets } from "../../../src/osworld/Assets.js"
import type { Role } from "../../../src/osworld/evaluator/Getter.js"
import * as Getters from "../../../src/osworld/evaluator/Getters.js"
import { contextOf } from "./chromeSupport.js"
import { json, text, written } from "./support.js"

const bytes = (content: string) => new TextEncoder().encode(content)

const gone = new GuestError({ operation: "test", reason: { _tag: "Unreachable", detail: "gone" } })
const refused = (status: number, detail = "no such folder") =>
  new GuestError({ operation: "test", reason: { _tag: "Refused", status, detail } })

/** What a getter brings, or why it failed; files are in `cache`. */
const get = (
  spec: { readonly type: string } & Record<string, unknown>,
  guest: Partial<Guest>,
  cache = "/nowhere",
  role: Role = "result",
  assets: Record<string, string> = {}
) => {
  const { type, ...parameters } = spec
  return Getters.get({ type, parameters }, { context: contextOf(guest, { cache }), role }).pipe(
    Effect.catchAll(({ message }) => Effect.succeed(`failed: ${message}`)),
    Effect.provide(
      Layer.merge(
        NodeContext.layer,
        Layer.succeed(Assets, {
          fetch: (url) => {
            const path = assets[url]
            return path === undefined
              ? new AssetError({ url, missing: true, reason: "the server answered HTTP 404" })
              : Effect.succeed(path)
          }
        })
      )
    )
  )
}

const files = (content: Record<string, string>): Partial<Guest> => ({
  readFile: (path) => {
    const found = content[path]
    return found === undefined ? Stream.fail(new GuestFileMissing({ path })) : Stream.make(bytes(found))
  }
})

describe("vm_file", () => {
  const guest = files({ "/home/user/a.txt": "a", "/home/user/b.txt": "b" })

  it.scoped("brings a file under the name of the task, apart for result and gold", () =>
    Effect.gen(function* () {
      const cache = (yield* written({}))(".")
      const spec = { type: "vm_file", path: "/home/user/a.txt", dest: "x/../a.txt" }
      for (const role of ["result", "expected"] as const) {
        const value = yield* get(spec, guest, cache, role)
        const place = `${cache}/${role}/a.txt`
        assert.deepStrictEqual(value, { _tag: "File", path: place, name: "a.txt" })
        assert.strictEqual(readFileSync(place, "utf8"), "a")
      }
    })
  )

  it.scoped("a file that is not there is Missing; a guest that is gone is a failure", () =>
    Effect.gen(function* () {
      const cache = (yield* written({}))(".")
      const spec = { type: "vm_file", path: "/home/user/c.txt", dest: "c.txt" }
      assert.deepStrictEqual(yield* get(spec, guest, cache), {
        _tag: "Missing",
        reason: "the guest has no file at /home/user/c.txt"
      })
      // What lies in the folder is written down as what was judged.
      assert.isFalse(existsSync(`${cache}/result/c.txt`))
      const down = { readFile: () => Stream.fail(gone) }
      assert.include(
        yield* get(spec, down, cache),
        "failed: the getter vm_file failed: test: the guest cannot be reached"
      )
    })
  )

  it.scoped("with multi it brings all and gives those that it is told", () =>
    Effect.gen(function* () {
      const cache = (yield* written({}))(".")
      const paths = ["/home/user/a.txt", "/home/user/b.txt", "/home/user/none.txt"]
      const spec = { type: "vm_file", multi: true, path: paths, dest: ["a.txt", "b.txt", "c.txt"] }
      const first = yield* get(spec, guest, cache)
      assert.deepStrictEqual(first, { _tag: "File", path: `${cache}/result/a.txt`, name: "a.txt" })
      assert.isTrue(existsSync(`${cache}/result/b.txt`))
      const both = yield* get({ ...spec, gives: [1, 0] }, guest, cache)
      assert.deepStrictEqual(
        typeof both === "object" && both._tag === "Files" ? both.files.map(({ name }) => name) : both,
        ["b.txt", "a.txt"]
      )
      assert.deepInclude(yield* get({ ...spec, gives: [2] }, guest, cache), { _tag: "Missing" })
      assert.include(yield* get({ ...spec, gives: [3] }, guest, cache), "failed: ")
    })
  )

  it.effect("malformed parameters are a failure that is known beforehand", () =>
    Effect.gen(function* () {
      for (const parameters of [{ path: 5, dest: "a" }, { path: "/a" }, { path: [], dest: [] }]) {
        const error = yield* Effect.flip(Getters.validate({ type: "vm_file", parameters }))
        assert.include(error.message, "the getter vm_file failed")
      }
      assert.include(
        yield* get({ type: "vm_file", path: ["/a"], dest: ["a", "b"] }, guest),
        "1 paths and 2 destinations"
      )
    })
  )
})

describe("cloud_file", () => {
  it.scoped("copies what was fetched into the rollout's folder, and gold that cannot be had is a failure", () =>
    Effect.gen(function* () {
      const at = yield* written({ gold: "gold" })
      const cache = at(".")
      const spec = { type: "cloud_file", path: "https://example.test/gold", dest: "gold.txt" }
      const assets = { "https://example.test/gold": at("gold") }
      const value = yield* get(spec, {}, cache, "expected", assets)
      assert.deepStrictEqual(value, { _tag: "File", path: `${cache}/expected/gold.txt`, name: "gold.txt" })
      assert.strictEqual(readFileSync(`${cache}/expected/gold.txt`, "utf8"), "gold")
      assert.include(yield* get(spec, {}, cache, "expected"), "failed: the getter cloud_file failed: could not get")
      assert.include(yield* get({ type: "cloud_file" }, {}, cache), "failed: ")
    })
  )
})

describe("cache_file", () => {
  it.scoped("is what setup wrote, by its last name alone, and Missing where it wrote nothing", () =>
    Effect.gen(function* () {
      const at = yield* written({ "out.txt": "out" })
      const cache = at(".")
      for (const path of ["out.txt", "../../etc/out.txt"]) {
        assert.deepStrictEqual(yield* get({ type: "cache_file", path }, {}, cache), {
          ...{ _tag: "File", path: at("out.txt"), name: path }
        })
      }
      assert.deepInclude(yield* get({ type: "cache_file", path: "none.txt" }, {}, cache), { _tag: "Missing" })
      assert.include(yield* get({ type: "cache_file", path: 5 }, {}, cache), "failed: ")
    })
  )
})

describe("commands", () => {
  const asked: Array<unknown> = []
  const guest: Partial<Guest> = {
    execute: (request) => {
      asked.push(request)
      return Effect.succeed({ stdout: "out", stderr: "err", exitCode: 1 })
    }
  }

  it.effect("vm_command_line and vm_command_error: what a command printed, however it ended", () =>
    Effect.gen(function* () {
      asked.length = 0
      const spec = { command: ["echo", "{CLIENT_PASSWORD}"] }
      assert.deepStrictEqual(yield* get({ type: "vm_command_line", ...spec }, guest), text("out"))
      assert.deepStrictEqual(yield* get({ type: "vm_command_error", command: "id", shell: "true" }, guest), text("err"))
      assert.deepStrictEqual(asked, [
        { command: ["echo", "password"], shell: false },
        { command: "id", shell: true }
      ])
      for (const type of ["vm_command_line", "vm_command_error"]) {
        assert.include(yield* get({ type, command: "id" }, { execute: () => Effect.fail(gone) }), "failed: ")
        assert.include(yield* get({ type, command: [] }, guest), "failed: ")
        // What the agent left: a program without an end, or none where the task looks for one. In the words of the
        // official server (Python's), and of ours.
        for (const said of [
          "Command '['python3', '/home/user/main.py']' timed out after 120 seconds",
          "python3 did not end within 2m and was stopped with all its children",
          "[Errno 2] No such file or directory: '/home/user/run.sh'",
          "[Errno 13] Permission denied: './run.sh'",
          "/home/user/run.sh could not be started: there is no such file"
        ]) {
          const value = yield* get({ type, command: "id" }, { execute: () => Effect.fail(refused(500, said)) })
          assert.deepInclude(value, { _tag: "Missing" }, said)
        }
        // A desktop without the program is nobody's answer.
        for (const said of [
          "[Errno 2] No such file or directory: 'gsettings'",
          "[Errno 2] No such file or directory: '/usr/bin/gsettings'",
          "gsettings could not be started: no program of that name is on the PATH",
          "out of memory"
        ]) {
          const value = yield* get({ type, command: "id" }, { execute: () => Effect.fail(refused(500, said)) })
          assert.include(value, "failed: ", said)
        }
        // What it prints nothing to is nothing, and not missing.
        const silent = { execute: () => Effect.succeed({ stdout: "", stderr: "", exitCode: 0 }) }
        assert.deepStrictEqual(yield* get({ type, command: "id" }, silent), text(""))
      }
    })
  )
})

describe("what the guest says of itself", () => {
  it.effect("list_directory: the tree, Missing where there is no such folder, a failure where nobody answers", () =>
    Effect.gen(function* () {
      const tree = { type: "directory" as const, name: "/a", children: [] }
      const spec = { type: "list_directory", path: "/a" }
      assert.deepStrictEqual(yield* get(spec, { listDirectory: () => Effect.succeed(tree) }), json(tree))
      for (const status of [400, 404]) {
        const value = yield* get(spec, { listDirectory: () => Effect.fail(refused(status)) })
        assert.deepInclude(value, { _tag: "Missing" })
      }
      for (const error of [refused(500), gone]) {
        assert.include(yield* get(spec, { listDirectory: () => Effect.fail(error) }), "failed: ")
      }
      assert.include(yield* get({ type: "list_directory" }, {}), "failed: ")
    })
  )

  it.effect("accessibility_tree: the text as it came; none is a failure and not missing", () =>
    Effect.gen(function* () {
      const spec = { type: "accessibility_tree" }
      const xml = "<desktop-frame/>"
      assert.deepStrictEqual(yield* get(spec, { accessibilityTree: Effect.succeed(xml) }), text(xml))
      assert.include(yield* get(spec, { accessibilityTree: Effect.fail(gone) }), "failed: ")
    })
  )
})

describe("rule", () => {
  it.effect("is what the task says, untouched; without rules there is nothing, and no such getter is a failure", () =>
    Effect.gen(function* () {
      const rules = { expected: ["a", { b: null }], _note: "why" }
      assert.deepStrictEqual(yield* get({ type: "rule", rules }, {}), json(rules))
      assert.deepStrictEqual(yield* get({ type: "rule", rules: null }, {}), json(null))
      assert.include(
        yield* get({ type: "no_rule", rules }, {}),
        "failed: the getter no_rule failed: it is not yet supported"
      )
      assert.isTrue(Getters.supported.has("rule"))
    })
  )
})
