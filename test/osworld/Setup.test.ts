/** What setup does when a guest fails it, and what it reads before it begins. A real desktop is in SetupDesktop.test.ts. */
import * as Fs from "node:fs"
import * as Path from "node:path"
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import type * as Guest from "../../src/desktop/Guest.js"
import { GuestError, type GuestErrorReason } from "../../src/desktop/GuestError.js"
import { launchCommand } from "../../src/osworld/internal/setup/commands.js"
import type { TaskContext } from "../../src/osworld/Setup.js"
import * as Setup from "../../src/osworld/Setup.js"
import * as Task from "../../src/osworld/Task.js"
import { contextOf } from "./evaluator/chromeSupport.js"
import { answers, ended, failure, hurried, setup, steps, temporary } from "./setupSupport.js"

const lost = (operation: string) =>
  new GuestError({ operation, reason: { _tag: "Unreachable", detail: "other side closed" } })

const refused = (operation: string, detail: string) =>
  new GuestError({ operation, reason: { _tag: "Refused", status: 500, detail } satisfies GuestErrorReason })

describe("Setup.supported", () => {
  it("is all that upstream carries out; the three names behind which nothing is are read and refused", () => {
    const nothing = ["tidy_desktop", "act", "replay"]
    for (const type of nothing) {
      assert.isFalse(Setup.supported.has(type))
      assert.deepEqual(steps([{ type, parameters: { anything: 1 } }, { type }])[0]?.parameters, { anything: 1 })
    }
    assert.strictEqual(Setup.supported.size, 17)
  })

  it.effect("says that upstream has nothing there either", () =>
    Effect.gen(function* () {
      const failed = yield* failure(setup(contextOf({}), [{ type: "act", parameters: {} }]))
      assert.deepStrictEqual([failed.fault, failed.type], ["task", "act"])
      assert.match(failed.reason, /not implemented upstream either/)
    })
  )
})

describe("setup and a guest that fails", () => {
  it.scoped("uploads again when the guest was lost, and runs no command twice", () =>
    Effect.gen(function* () {
      const folder = yield* temporary
      const local = Path.join(folder, "a.txt")
      Fs.writeFileSync(local, "four")
      const writes = answers(Effect.fail(lost("writeFile")), Effect.fail(lost("writeFile")), Effect.void)
      const context = contextOf({
        writeFile: () => Effect.orDie(writes.next),
        execute: () => Effect.succeed(ended("4\n"))
      })
      const flaky: TaskContext = {
        ...context,
        guest: { ...context.guest, writeFile: () => writes.next }
      }
      const bring = [{ type: "download", parameters: { files: [{ url: "u", path: "/tmp/a" }] } }]
      yield* hurried(setup(flaky, bring, { files: { u: local } }))
      assert.strictEqual(writes.asked.times, 3)

      const runs = answers(Effect.fail(lost("execute")), Effect.succeed(ended()))
      const failed = yield* hurried(
        failure(setup(contextOf({ execute: () => runs.next }), [{ type: "execute", parameters: { command: "a" } }]))
      )
      assert.deepStrictEqual([failed.fault, runs.asked.times], ["infrastructure", 1])
      const starts = answers(Effect.fail(lost("launch")), Effect.void)
      yield* hurried(
        failure(setup(contextOf({ launch: () => starts.next }), [{ type: "launch", parameters: { command: "a" } }]))
      )
      assert.strictEqual(starts.asked.times, 1)
      const opens = answers(Effect.fail(lost("openFile")), Effect.void)
      yield* hurried(
        failure(setup(contextOf({ openFile: () => opens.next }), [{ type: "open", parameters: { path: "a" } }]))
      )
      assert.strictEqual(opens.asked.times, 1)
    })
  )

  it.scoped("does not take a file that was cut off on its way", () =>
    Effect.gen(function* () {
      const folder = yield* temporary
      const local = Path.join(folder, "a.txt")
      Fs.writeFileSync(local, "whole")
      const context = contextOf({ writeFile: () => Effect.void, execute: () => Effect.succeed(ended("3\n")) })
      const bring = [{ type: "upload_file", parameters: { files: [{ local_path: "u", path: "/tmp/a" }] } }]
      const failed = yield* failure(setup(context, bring, { files: { u: local } }))
      assert.strictEqual(failed.fault, "infrastructure")
      assert.match(failed.reason, /5 bytes, and there is 3 bytes/)
    })
  )

  it.effect("runs what waits for something again, also after lost answers, but not for ever", () =>
    Effect.gen(function* () {
      const wait = [{ type: "execute", parameters: { command: "a", until: { returncode: 0 } } }]
      const comes = answers(
        Effect.succeed(ended("", 1)),
        Effect.fail(lost("execute")),
        Effect.fail(lost("execute")),
        Effect.succeed(ended("", 1)),
        Effect.succeed(ended("", 0))
      )
      yield* hurried(setup(contextOf({ execute: () => comes.next }), wait))
      assert.strictEqual(comes.asked.times, 5)
      const dead = answers<Guest.CommandResult>(Effect.fail(lost("execute")))
      yield* hurried(failure(setup(contextOf({ execute: () => dead.next }), wait)))
      assert.strictEqual(dead.asked.times, 5)
      const never = contextOf({ execute: () => Effect.succeed(ended("", 1)) })
      assert.match((yield* hurried(failure(setup(never, wait)))).reason, /did not come within 5 minutes/)
    })
  )

  it.effect("stops at the first step that fails and says which", () =>
    Effect.gen(function* () {
      const ran: Array<unknown> = []
      const context = contextOf({
        execute: ({ command }) =>
          Effect.suspend(() => {
            ran.push(command)
            return command === "b"
              ? Effect.fail(refused("execute", "timed out after 120 seconds"))
              : Effect.succeed(ended())
          })
      })
      const failed = yield* failure(
        setup(
          context,
          ["a", "b", "c"].map((command) => ({ type: "command", parameters: { command } }))
        )
      )
      assert.deepStrictEqual(ran, ["a", "b"])
      assert.strictEqual(
        failed.message,
        "setup step config[1] (command) failed: execute: the guest answered 500: timed out after 120 seconds"
      )
    })
  )
})

describe("launchCommand", () => {
  const proxy = "http://127.0.0.1:18888"

  it("cuts a text at its blanks, as upstream does, and leaves quotes to the guest", () => {
    assert.deepStrictEqual(launchCommand("vlc  --no-audio a.mp4", false, undefined), ["vlc", "--no-audio", "a.mp4"])
    assert.deepStrictEqual(launchCommand("gimp", false, undefined), ["gimp"])
    assert.strictEqual(launchCommand("vlc 'a b.mp4'", false, undefined), "vlc 'a b.mp4'")
    assert.strictEqual(launchCommand("A=1 vlc x", true, undefined), "A=1 vlc x")
    assert.deepStrictEqual(launchCommand(["a b", "c d"], false, undefined), ["a b", "c d"])
  })

  it("sends Chrome, and nothing else, through the proxy", () => {
    const flag = `--proxy-server=${proxy}`
    assert.deepStrictEqual(launchCommand(["google-chrome", "--x"], false, proxy), ["google-chrome", flag, "--x"])
    assert.deepStrictEqual(launchCommand("google-chrome --x", false, proxy), ["google-chrome", flag, "--x"])
    assert.strictEqual(launchCommand("google-chrome --x", true, proxy), `google-chrome ${flag} --x`)
    assert.deepStrictEqual(launchCommand(["socat", "google-chrome"], false, proxy), ["socat", "google-chrome"])
    assert.strictEqual(launchCommand("google-chrome-stable 'x'", false, proxy), "google-chrome-stable 'x'")
  })
})

describe("steps that need a Google account", () => {
  const step = (operation: ReadonlyArray<string>, args: ReadonlyArray<unknown>) => ({
    type: "googledrive",
    parameters: { settings_file: "s.yml", operation, args }
  })

  it("are read before an episode", () => {
    const decode = (config: ReadonlyArray<unknown>) =>
      Task.decode({ id: "t", instruction: "i", config, evaluator: { func: "infeasible" } }, "t.json")
    assert.isTrue(Either.isRight(decode([step(["delete", "upload"], [{}, { url: "u", dest: "a.txt" }])])))
    for (const wrong of [
      step(["delete"], []),
      step(["mkdirs"], [{}]),
      step(["upload"], [{ url: "u" }]),
      step(["share"], [{}]),
      { type: "login", parameters: { settings_file: "s", platform: "elsewhere" } }
    ]) {
      assert.isTrue(Either.isLeft(decode([wrong])), JSON.stringify(wrong))
    }
  })

  it.effect("say what to set where there is none", () =>
    Effect.gen(function* () {
      const failed = yield* failure(setup(contextOf({}), [step(["delete"], [{}])]))
      assert.strictEqual(failed.fault, "task")
      assert.include(
        failed.reason,
        "the task needs a Google account: set DESKHAND_GOOGLE_CLIENT_ID, DESKHAND_GOOGLE_CLIENT_SECRET, DESKHAND_GOOGLE_REFRESH_TOKEN"
      )
    })
  )
})
