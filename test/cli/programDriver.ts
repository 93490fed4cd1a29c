/**
 * A program for tests of how a process ends: holds one thing, a file, and tells on standard output what becomes of it.
 *
 *     tsx test/cli/programDriver.ts HELD [drain SECONDS | drains SECONDS | stuck | busy]
 */
import { rmSync, writeFileSync } from "node:fs"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import { drainOnSignal, runMain } from "../../src/cli/Program.js"

const [held = "", mode = "plain", seconds = "0"] = process.argv.slice(2)

const tell = (text: string) => Effect.sync(() => process.stderr.write(`${text}\n`))

const hold = Effect.acquireRelease(
  Effect.sync(() => writeFileSync(held, "held")),
  () =>
    // What never closes is what the second signal is for.
    mode === "stuck"
      ? Effect.zipRight(tell("closing"), Effect.never)
      : Effect.sync(() => rmSync(held)).pipe(Effect.zipRight(tell("given back")))
)

runMain(
  Effect.gen(function* () {
    yield* hold
    const drained = yield* Deferred.make<number>()
    if (mode === "drain" || mode === "drains") {
      // `drain` comes to its end when it is told to; `drains` has more to do than there is time for.
      yield* drainOnSignal(
        Effect.zipRight(tell("draining"), mode === "drain" ? Deferred.succeed(drained, 1) : Effect.void),
        Number(seconds)
      )
    }
    // Nothing is heard within 200 ms: the loop that hears belongs to the work.
    if (mode === "busy") {
      yield* Effect.forkScoped(
        Effect.forever(
          Effect.zipRight(
            Effect.sleep("1 millis"),
            Effect.sync(() => Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 200))
          )
        )
      )
    }
    yield* tell("ready")
    return yield* Deferred.await(drained)
  }).pipe(Effect.scoped)
)
