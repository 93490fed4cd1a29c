/**
 * Commands in a sandbox.
 */
import { assert, describe } from "@effect/vitest"
import * as Chunk from "effect/Chunk"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Schedule from "effect/Schedule"
import * as Stream from "effect/Stream"
import { outputLimit } from "../../../sandbox/ExecOutcome.js"
import type { SandboxOperations } from "../../../sandbox/Sandbox.js"
import { exits, type Suite, sh, withSandbox } from "./suite.js"

/** How many processes run whose command line has this text. The pattern does not match the command that looks. */
const running = (sandbox: SandboxOperations, text: string) =>
  Effect.map(
    sh(
      sandbox,
      `for p in /proc/[0-9]*; do tr '\\0' ' ' <"$p/cmdline" 2>/dev/null && echo; done | grep -c '[${text.slice(0, 1)}]${text.slice(1)}'; true`
    ),
    (outcome) => Number(exits(outcome).trim())
  )

export const exec = (suite: Suite): void => {
  const test = withSandbox(suite)
  describe("exec", () => {
    test("exit codes and signals are told as they are", (sandbox) =>
      Effect.gen(function* () {
        exits(yield* sh(sandbox, "true"))
        exits(yield* sh(sandbox, "exit 7"), 7)
        exits(yield* sh(sandbox, "exit 125"), 125)
        exits(yield* sh(sandbox, "kill -KILL $$"), 137)
        exits(yield* sh(sandbox, "kill -TERM $$"), 143)
        const missing = yield* sandbox.exec({ command: ["no-such-command-at-all"] })
        assert.isTrue(
          (missing._tag === "Exited" && [126, 127].includes(missing.code)) || missing._tag === "SandboxFailed",
          JSON.stringify(missing)
        )
      }))

    test("the two outputs are apart, and can be opened by name", (sandbox) =>
      Effect.gen(function* () {
        const outcome = yield* sh(sandbox, "echo out; echo err >&2; echo more >/dev/stderr")
        assert.strictEqual(exits(outcome), "out\n")
        assert.strictEqual(outcome.stderr, "err\nmore\n")
      }))

    test(
      "the call's environment goes over the spec's, and the workdir over the spec's",
      (sandbox) =>
        Effect.gen(function* () {
          const script = 'echo "$ONE $TWO"; pwd'
          assert.strictEqual(exits(yield* sh(sandbox, script)), "a b\n/tmp\n")
          const over = { env: { TWO: 'it\'s "c"\n' }, workdir: "/" }
          assert.strictEqual(exits(yield* sh(sandbox, script, over)), 'a it\'s "c"\n\n/\n')
        }),
      { env: { ONE: "a", TWO: "b", PATH: "/usr/local/bin:/usr/bin:/bin" }, workdir: "/tmp" }
    )

    test("it reads what it is given, and nothing otherwise", (sandbox) =>
      Effect.gen(function* () {
        const stdin = `${"x".repeat(300_000)}é\n`
        assert.strictEqual(exits(yield* sh(sandbox, "cat", { stdin })), stdin)
        assert.strictEqual(exits(yield* sh(sandbox, "cat; echo end")), "end\n")
        exits(yield* sh(sandbox, "exit 0", { stdin }))
      }))

    test("when its time is over, it and all that it started are ended", (sandbox) =>
      Effect.gen(function* () {
        const outcome = yield* sh(sandbox, "echo begun; (sleep 31415; true) & sleep 31415; true", {
          timeout: "1500 millis"
        })
        assert.strictEqual(outcome._tag, "TimedOut", JSON.stringify(outcome))
        assert.strictEqual(outcome.stdout, "begun\n")
        assert.strictEqual(yield* running(sandbox, "sleep 31415"), 0)
      }))

    test("what a command leaves running lives on, and does not hold it up", (sandbox) =>
      Effect.gen(function* () {
        const [took, outcome] = yield* Effect.timed(sh(sandbox, "sleep 27182 & echo done", { timeout: "1 minute" }))
        assert.strictEqual(exits(outcome), "done\n")
        assert.isBelow(Duration.toSeconds(took), 30)
        assert.strictEqual(yield* running(sandbox, "sleep 27182"), 1)
      }))

    test("of much output the first part is kept, and the command is not held up", (sandbox) =>
      Effect.gen(function* () {
        const size = outputLimit + 1_000_000
        const outcome = yield* sh(sandbox, `head -c ${size} /dev/zero | tr '\\0' x; echo end >&2`)
        assert.strictEqual(exits(outcome).length, outputLimit)
        assert.strictEqual(outcome.stderr, "end\n")
      }))

    test("it is told while it runs; leaving ends it", (sandbox) =>
      Effect.gen(function* () {
        const command = ["/bin/sh", "-c", "echo first; sleep 16180; true"] as const
        const [first] = yield* sandbox.execStream({ command }).pipe(Stream.take(1), Stream.runCollect)
        assert.strictEqual(first?._tag === "Stdout" ? Buffer.from(first.bytes).toString() : first?._tag, "first\n")
        const gone = yield* running(sandbox, "sleep 16180").pipe(
          Effect.repeat({ until: (count) => count === 0, schedule: Schedule.spaced("100 millis") }),
          Effect.timeoutOption("10 seconds")
        )
        assert.strictEqual(gone._tag, "Some")
        const events = Chunk.toReadonlyArray(
          yield* Stream.runCollect(sandbox.execStream({ command: ["/bin/sh", "-c", "exit 3"] }))
        )
        const last = events.at(-1)
        assert.strictEqual(last?._tag === "Ended" && last.outcome._tag === "Exited" && last.outcome.code, 3)
      }))

    test("many at a time", (sandbox) =>
      Effect.gen(function* () {
        const numbers = Array.from({ length: 8 }, (_, index) => index)
        const outcomes = yield* Effect.forEach(numbers, (each) => sh(sandbox, `echo ${each}; exit ${each}`), {
          concurrency: "unbounded"
        })
        outcomes.forEach((outcome, each) => {
          assert.strictEqual(exits(outcome, each), `${each}\n`)
        })
      }))
  })
}
