/** The proxy of tasks that ask for one. A real one is in SetupChrome.test.ts. */
import * as Fs from "node:fs"
import * as Path from "node:path"
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Redacted from "effect/Redacted"
import * as TaskProxy from "../../src/osworld/internal/taskProxy.js"
import { contextOf } from "./evaluator/chromeSupport.js"
import { answers, ended, failure, setup, temporary } from "./setupSupport.js"

describe("the task's proxy", () => {
  const good = { host: "proxy.test", port: 8080, protocol: "http", username: "me", password: "p:w" }

  it("is one of a list that is what it should be, and is not repeated where it is not", () => {
    assert.isTrue(Either.isRight(TaskProxy.parse(JSON.stringify([good, { host: "[::1]", port: 1 }]))))
    const wrong: ReadonlyArray<unknown> = [
      [],
      good,
      [{ ...good, host: "a b" }],
      [{ ...good, port: 0 }],
      [{ ...good, port: 65_536 }],
      [{ ...good, port: "80" }],
      [{ ...good, protocol: "socks5" }],
      [{ ...good, password: null }],
      [{ host: "a", port: 1, username: "hush" }],
      [{ ...good, password: "hush\nUpstream none" }],
      [{ ...good, password: "hush@x" }],
      [{ ...good, username: "hush:x" }]
    ]
    for (const each of wrong) {
      const parsed = TaskProxy.parse(JSON.stringify(each))
      assert.isTrue(Either.isLeft(parsed), JSON.stringify(each))
      if (Either.isLeft(parsed)) assert.notInclude(parsed.left.message, "hush")
    }
    assert.isTrue(Either.isLeft(TaskProxy.parse("{")))
  })

  it("is written for tinyproxy", () => {
    const [upstream] = Either.getOrThrow(TaskProxy.parse(JSON.stringify([good])))
    const config = TaskProxy.tinyproxyConfig(upstream)
    assert.notInclude(String(config), "p:w")
    assert.include(Redacted.value(config), "Upstream http me:p:w@proxy.test:8080\n")
    assert.include(Redacted.value(config), "Port 18888\nListen 127.0.0.1\n")
  })

  // The table of osworld-gym.md section 6.7.
  it.effect("runs, goes out directly, or is refused", () =>
    Effect.gen(function* () {
      const context = contextOf({
        launch: () => Effect.void,
        runPython: () => Effect.succeed(ended("", 1, "no Python"))
      })
      const wants = { ...context, wantsProxy: true }
      yield* setup(context, [], { env: { DESKHAND_TASK_PROXY_FILE: "/nowhere" } })
      yield* setup(wants, [])
      yield* setup(wants, [], { list: "postconfig", env: { DESKHAND_TASK_PROXY_FILE: "/nowhere" } })
      const disabled = yield* failure(setup(wants, [], { env: { DESKHAND_DIRECT_PROXY_TASKS: "false" } }))
      assert.match(disabled.message, /^the task's proxy failed: proxy_required_but_disabled: /)
      const wrong = yield* failure(setup(wants, [], { env: { DESKHAND_TASK_PROXY_FILE: "/nowhere" } }))
      assert.match(wrong.message, /proxy_configuration_error: .*\/nowhere/)
      assert.strictEqual(wrong.fault, "infrastructure")
    })
  )

  it.scoped("says that tinyproxy is missing where nobody can install it", () =>
    Effect.gen(function* () {
      const folder = yield* temporary
      const file = Path.join(folder, "proxies.json")
      Fs.writeFileSync(file, JSON.stringify([good]))
      const context = contextOf({
        execute: () => Effect.succeed(ended()),
        runPython: () => Effect.succeed(ended(JSON.stringify({ tinyproxy: null, sudo: false, taken: false })))
      })
      const failed = yield* failure(
        setup({ ...context, wantsProxy: true }, [], { env: { DESKHAND_TASK_PROXY_FILE: file } })
      )
      assert.match(failed.reason, /missing application tinyproxy/)
    })
  )

  it.scoped("installs tinyproxy where the desktop's user may, with secrets in files alone", () =>
    Effect.gen(function* () {
      const folder = yield* temporary
      const file = Path.join(folder, "proxies.json")
      Fs.writeFileSync(file, JSON.stringify([good]))
      const commands: Array<string> = []
      const written: Array<string> = []
      const python = answers(
        Effect.succeed(ended(JSON.stringify({ tinyproxy: null, sudo: true, taken: false }))),
        Effect.succeed(ended())
      )
      const context = contextOf({
        execute: ({ command }) =>
          Effect.sync(() => {
            commands.push(JSON.stringify(command))
            return ended("0\n")
          }),
        launch: ({ command }) => Effect.sync(() => commands.push(JSON.stringify(command))),
        writeFile: (path) => Effect.sync(() => written.push(path.replace(/.*\//, ""))),
        runPython: () => python.next
      })
      yield* setup({ ...context, wantsProxy: true }, [], { env: { DESKHAND_TASK_PROXY_FILE: file } })
      assert.deepStrictEqual(written, ["password", "install.sh", "tinyproxy.conf"])
      assert.isFalse(commands.some((line) => line.includes("p:w") || line.includes('"password"')))
      assert.match(commands.at(-1) ?? "", /"rm","-rf"/)
    })
  )
})
