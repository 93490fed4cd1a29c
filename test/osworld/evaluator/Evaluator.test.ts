/** A whole evaluation, of a guest that has the files that a test says. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import { GuestFileMissing } from "../../../src/desktop/GuestError.js"
import { evaluate } from "../../../src/osworld/evaluator/Evaluator.js"
import * as Task from "../../../src/osworld/Task.js"
import { AgentDone } from "../../../src/rollout/Termination.js"
import { contextOf, requirements } from "./chromeSupport.js"
import { written } from "./support.js"

const evaluated = (files: Record<string, string>, expected: Record<string, unknown>) =>
  Effect.gen(function* () {
    const at = yield* written({})
    const task = yield* Task.decode(
      {
        id: "t",
        snapshot: "os",
        instruction: "do",
        source: "",
        config: [],
        related_apps: [],
        evaluator: {
          func: "compare_text_file",
          result: { type: "vm_file", path: "/r", dest: "r.txt" },
          expected: { dest: "e.txt", ...expected }
        }
      },
      "t.json"
    )
    const readFile = (path: string) =>
      files[path] === undefined
        ? Stream.fail(new GuestFileMissing({ path }))
        : Stream.make(new TextEncoder().encode(files[path]))
    return yield* evaluate(task, contextOf({ readFile }, { cache: at(".") }), new AgentDone()).pipe(
      Effect.merge,
      Effect.provide(requirements)
    )
  }).pipe(Effect.scoped)

describe("evaluate", () => {
  it.effect(
    "gold on the desktop that the agent took away is a 0; a task's own gold that is not there is no score",
    () =>
      Effect.gen(function* () {
        const onDesktop = { type: "vm_file", path: "/e" }
        assert.deepInclude(yield* evaluated({ "/r": "a", "/e": "a" }, onDesktop), { score: 1 })
        const spoilt = yield* evaluated({ "/r": "a" }, onDesktop)
        assert.deepInclude(spoilt, {
          score: 0,
          details: ["compare_text_file of vm_file: 0 (the guest has no file at /e)"]
        })
        assert.deepInclude(yield* evaluated({}, onDesktop), { score: 0 })
        const missing = yield* evaluated({ "/r": "a" }, { type: "cache_file", path: "none.txt" })
        assert.deepInclude(missing, { _tag: "EvaluationError" })
      })
  )
})
