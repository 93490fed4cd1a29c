import { execFileSync } from "node:child_process"
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import * as NodeContext from "@effect/platform-node/NodeContext"
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Schedule from "effect/Schedule"
import { remove } from "../../../src/sandbox/internal/folders.js"

/** The shell that removes this folder, as soon as it runs. */
const remover = (folder: string) =>
  Effect.try(() => {
    const children = readFileSync(`/proc/${process.pid}/task/${process.pid}/children`, "utf8").trim().split(" ")
    const pid = children.find((each) => readFileSync(`/proc/${each}/cmdline`, "utf8").includes(folder))
    if (pid === undefined) {
      throw new Error("it does not run yet")
    }
    return Number(pid)
  }).pipe(Effect.retry(Schedule.spaced("1 millis")), Effect.timeout("10 seconds"))

describe("removing a sandbox's folder", () => {
  it.live("a shell that stands still holds nobody up, and the next one goes on", () =>
    Effect.gen(function* () {
      const folder = mkdtempSync(`${tmpdir()}/dh-folders-`)
      yield* Effect.addFinalizer(() => Effect.sync(() => rmSync(folder, { recursive: true, force: true })))
      for (let each = 0; each < 50; each++) {
        mkdirSync(`${folder}/${each}`)
        execFileSync("/bin/bash", ["-c", `for i in {1..400}; do : >"$0/$i"; done`, `${folder}/${each}`])
      }
      const removing = yield* Effect.fork(Effect.flip(remove(folder)))
      process.kill(yield* remover(folder), "SIGSTOP")
      const error = yield* Effect.timeout(Fiber.join(removing), "15 seconds")
      assert.match(error.message, /it took longer than 4s/)
      yield* remove(folder)
      assert.isFalse(existsSync(folder))
    }).pipe(Effect.scoped, Effect.provide(NodeContext.layer))
  )
})
