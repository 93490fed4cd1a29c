import { readFileSync } from "node:fs"
import * as path from "node:path"
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Stream from "effect/Stream"
import * as TestClock from "effect/TestClock"
import type { CommandResult, Guest } from "../../../src/desktop/Guest.js"
import { GuestError, GuestFileMissing } from "../../../src/desktop/GuestError.js"
import * as Getters from "../../../src/osworld/evaluator/Getters.js"
import * as Editors from "../../../src/osworld/evaluator/internal/getters/editors.js"
import { contextOf, getWith } from "./chromeSupport.js"
import { written } from "./support.js"

const printed = (stdout: string, exitCode = 0): CommandResult => ({ stdout, stderr: "", exitCode })
const target = "/home/user/OpenProject.txt"
const parameters = { vscode_extension_command: "it's OpenProject", path: target, dest: "OpenProject.txt" }

/** VS Code with an extension that has written its file when it is looked for the third time. */
const desktop = (options: { readonly window?: boolean; readonly writes?: string; readonly noted?: string }) => {
  const did: Array<string> = []
  let looks = 0
  const guest: Partial<Guest> = {
    execute: ({ command }) => {
      const script = String(command[2])
      did.push(script.startsWith("rm") ? `rm ${String(command[4])}` : "cat")
      return Effect.succeed(printed(script.startsWith("rm") ? "" : (options.noted ?? "")))
    },
    activateWindow: ({ name }) => {
      did.push(`activate ${name}`)
      return options.window === false
        ? Effect.fail(
            new GuestError({ operation: "activateWindow", reason: { _tag: "Refused", status: 404, detail: "no" } })
          )
        : Effect.void
    },
    runAction: ({ code }) => {
      did.push(code)
      return Effect.succeed(printed(""))
    },
    readFile: (path) =>
      Stream.suspend(() =>
        path === target && options.writes !== undefined && ++looks === 3
          ? Stream.make(new TextEncoder().encode(options.writes))
          : Stream.fail(new GuestFileMissing({ path }))
      )
  }
  return { did, guest }
}

const get = (guest: Partial<Guest>, spec: Record<string, unknown> = parameters) =>
  Effect.gen(function* () {
    const at = yield* written({})
    const context = contextOf(guest, { cache: at(".") })
    const fiber = yield* Effect.fork(getWith(Editors.getters, "vscode_config", spec, context, "result"))
    // Waits are as long as the fake extension makes them.
    yield* Effect.forkScoped(Effect.forever(Effect.zipRight(TestClock.adjust("1 second"), Effect.yieldNow())))
    const value = yield* Fiber.join(fiber)
    if (typeof value === "string") return `failed: ${value}`
    if (value._tag !== "File") return value._tag
    assert.strictEqual(path.basename(value.path), "OpenProject.txt")
    return readFileSync(value.path, "utf8")
  }).pipe(Effect.scoped)

describe("vscode_config", () => {
  it("is registered", () => assert.isTrue(Getters.supported.has("vscode_config")))

  it.effect("asks VS Code's command palette, and waits for what it writes anew", () =>
    Effect.gen(function* () {
      const { did, guest } = desktop({ writes: "project" })
      assert.strictEqual(yield* get(guest), "project")
      assert.deepStrictEqual(did.slice(0, 2), [`rm ${target}`, "activate Visual Studio Code"])
      assert.strictEqual(
        did[2],
        "pyautogui.hotkey('ctrl', 'shift', 'p'); time.sleep(1); " +
          "pyautogui.write('it\\'s OpenProject', interval=0.02); time.sleep(0.5); pyautogui.press('enter')"
      )
    })
  )

  it.effect("else what VS Code has noted of its folders", () =>
    Effect.gen(function* () {
      const noted = '{"folder": "file:///home/user/project"}'
      assert.strictEqual(yield* get(desktop({ noted }).guest), noted)
      const closed = desktop({ window: false, noted })
      assert.strictEqual(yield* get(closed.guest), noted)
      // No keys into a window that is another's.
      assert.deepStrictEqual(closed.did, [`rm ${target}`, "activate Visual Studio Code", "cat"])
      assert.strictEqual(yield* get(desktop({}).guest), "Missing")
      assert.strictEqual(yield* get(desktop({ window: false }).guest), "Missing")
    })
  )

  it.effect("a desktop that is gone is no answer", () =>
    Effect.gen(function* () {
      const { guest } = desktop({ writes: "project" })
      const failed = { ...guest, runAction: () => Effect.succeed(printed("", 1)) }
      assert.include(yield* get(failed), "failed:")
      const gone = new GuestError({ operation: "x", reason: { _tag: "Unreachable", detail: "gone" } })
      assert.include(yield* get({ ...guest, activateWindow: () => Effect.fail(gone) }), "failed:")
      assert.include(yield* get({ ...guest, readFile: () => Stream.fail(gone) }), "failed:")
      assert.include(yield* get(guest, { path: target }), "failed:")
    })
  )
})
