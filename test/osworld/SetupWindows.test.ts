/** Which window is meant, who needs it, and what becomes of a setup that does not get it. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type * as Guest from "../../src/desktop/Guest.js"
import { GuestError } from "../../src/desktop/GuestError.js"
import { isNeeded } from "../../src/osworld/internal/setup/windows.js"
import * as WindowFocus from "../../src/osworld/internal/windowFocus.js"
import { contextOf } from "./evaluator/chromeSupport.js"
import { answers, ended, failure, hurried, setup, steps } from "./setupSupport.js"

const lost = (operation: string) =>
  new GuestError({ operation, reason: { _tag: "Unreachable", detail: "other side closed" } })

const windowsAnswer = (active: number | null, windows: ReadonlyArray<readonly [number, string, string?, number?]>) =>
  ended(
    JSON.stringify({
      active,
      windows: windows.map(([id, title, className = "a.A", transientFor = null]) => ({
        id,
        title,
        className,
        transientFor
      }))
    })
  )

const activate = (window_name: string) => ({ type: "activate_window", parameters: { window_name } })
const save = {
  type: "execute",
  parameters: { command: ["python", "-c", "import pyautogui; pyautogui.hotkey('ctrl', 's')"] }
}

describe("windows", () => {
  const state = (answer: Guest.CommandResult, name: string, rest = {}) =>
    WindowFocus.stateOf(Schema.decodeUnknownSync(Schema.parseJson(WindowFocus.Windows))(answer.stdout), {
      name,
      ...rest
    })

  it("takes names as wmctrl does", () => {
    const seen = windowsAnswer(1, [
      [1, "Report.docx - Writer", "soffice.Soffice"],
      [2, "Report", "Mail.thunderbird"]
    ])
    assert.strictEqual(state(seen, "report.DOCX"), "focused")
    assert.strictEqual(state(seen, "Report", { strict: true }), "behind")
    assert.strictEqual(state(seen, "report", { strict: true }), "absent")
    assert.strictEqual(state(seen, "SOFFICE", { byClass: true }), "focused")
    assert.strictEqual(state(seen, "Mail.thunderbird", { byClass: true, strict: true }), "behind")
    assert.strictEqual(state(windowsAnswer(null, []), "a"), "absent")
  })

  it("takes a dialogue for its window, and ends where windows are each other's dialogues", () => {
    const seen = [
      [1, "Main"],
      [2, "Keep format?", "a.A", 1],
      [3, "Really?", "a.A", 2]
    ] as const
    assert.strictEqual(state(windowsAnswer(3, seen), "Main"), "focused")
    assert.strictEqual(state(windowsAnswer(1, seen), "Really?"), "behind")
    const circle = [
      [1, "x", "a.A", 2],
      [2, "y", "a.A", 1],
      [3, "z"]
    ] as const
    assert.strictEqual(state(windowsAnswer(1, circle), "z"), "behind")
  })

  it("needs the window in postconfig, and in config where something is typed before the next one is raised", () => {
    const needed = (list: "config" | "postconfig", rest: ReadonlyArray<unknown>) =>
      isNeeded({ list, steps: steps([activate("a"), ...rest]), index: 0 })
    assert.isTrue(needed("postconfig", []))
    assert.isFalse(needed("config", []))
    assert.isTrue(needed("config", [{ type: "sleep", parameters: { seconds: 1 } }, save]))
    assert.isFalse(needed("config", [activate("b"), save]))
    assert.isFalse(needed("config", [{ type: "execute", parameters: { command: ["mkdir", "x"] } }]))
  })

  it.effect(
    "masks a postconfig whose window stays behind, and grades the disk where it is gone; compat looks away",
    () =>
      Effect.gen(function* () {
        const sent: Array<string> = []
        const context = (answer: Guest.CommandResult) =>
          contextOf({
            runPython: () => Effect.succeed(answer),
            activateWindow: ({ name }) => Effect.sync(() => sent.push(name)),
            execute: () => Effect.sync(() => ended(String(sent.push("typed"))))
          })
        const none = context(windowsAnswer(2, [[2, "Other"]]))
        const post = { list: "postconfig" } as const
        const behind = context(
          windowsAnswer(2, [
            [1, "Doc"],
            [2, "Other"]
          ])
        )
        const failed = yield* hurried(failure(setup(behind, [activate("Doc"), save], post)))
        assert.deepStrictEqual([failed.list, failed.index, failed.fault], ["postconfig", 0, "infrastructure"])
        assert.match(failed.reason, /did not get the keyboard/)
        yield* hurried(setup(none, [activate("Doc")]))
        assert.match(
          (yield* hurried(failure(setup(none, [activate("Doc"), save])))).reason,
          /no window matched "Doc" within 10 seconds/
        )
        assert.notInclude(sent, "typed")
        yield* hurried(setup(none, [activate("Doc"), save], post))
        yield* hurried(setup({ ...none, compat: true }, [activate("Doc"), save], post))
        assert.include(sent, "typed")
      })
  )

  it.effect("does not hold for raised what a guest cannot tell of", () =>
    Effect.gen(function* () {
      const dumb = contextOf({ runPython: () => Effect.succeed(ended("", 1, "Xlib.error.DisplayConnectionError")) })
      const failed = yield* failure(setup(dumb, [activate("Doc")], { list: "postconfig" }))
      assert.match(failed.reason, /it is not known whether "Doc" is in front.*DisplayConnectionError/)
      yield* setup(dumb, [activate("Doc")])
    })
  )

  it.effect("closes a window once, whatever becomes of the answer", () =>
    Effect.gen(function* () {
      const closes = answers(Effect.fail(lost("closeWindow")), Effect.void)
      const close = [{ type: "close_window", parameters: { window_name: "a" } }]
      yield* hurried(failure(setup(contextOf({ closeWindow: () => closes.next }), close)))
      assert.strictEqual(closes.asked.times, 1)
    })
  )
})
