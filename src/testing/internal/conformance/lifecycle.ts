/**
 * A sandbox is there while its scope is open.
 */
import { assert, describe } from "@effect/vitest"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Scope from "effect/Scope"
import { Ledger } from "../../../sandbox/Ledger.js"
import { SandboxProvider } from "../../../sandbox/SandboxProvider.js"
import { CommandReadiness } from "../../../sandbox/SandboxSpec.js"
import { freshRun, listed, nothing, remains, type Suite, settle } from "./suite.js"

export const lifecycle = ({ check, settled, spec }: Suite): void => {
  describe("lifecycle", () => {
    check(
      "it is listed with its metadata while its scope is open, and is gone afterwards, and the receipt says so",
      Effect.gen(function* () {
        const provider = yield* SandboxProvider
        const ledger = yield* Ledger
        const run = yield* freshRun
        const before = yield* ledger.receipt(provider.name)
        yield* Effect.scoped(
          Effect.gen(function* () {
            const sandbox = yield* provider.acquire(spec({ metadata: { run, task: "a b" } }))
            const found = yield* listed(run)
            assert.deepStrictEqual(
              found.map(({ id, metadata, provider, state }) => ({ id, metadata, provider, state })),
              [{ id: sandbox.id, metadata: { run, task: "a b" }, provider: provider.name, state: "running" }]
            )
            assert.deepStrictEqual(yield* listed(`${run}-other`), [])
            const swept = yield* provider.sweep({ run })
            assert.deepStrictEqual(swept, {
              provider: provider.name,
              removed: [],
              left: [],
              inUse: [sandbox.id]
            })
          })
        )
        assert.deepStrictEqual(yield* remains(run), nothing)
        const after = yield* ledger.receipt(provider.name)
        assert.isAbove(after.created, before.created)
        assert.isAbove(after.confirmed, before.confirmed)
      })
    )

    check(
      "a sandbox that does not become ready is an error with a reason, and nothing of it is left",
      Effect.gen(function* () {
        const provider = yield* SandboxProvider
        const run = yield* freshRun
        const readiness = new CommandReadiness({
          command: ["/bin/sh", "-c", "echo not yet >&2; exit 3"],
          timeout: Duration.seconds(2)
        })
        const error = yield* Effect.flip(Effect.scoped(provider.acquire(spec({ readiness, metadata: { run } }))))
        assert.strictEqual(error._tag, "SandboxNotReady", error.message)
        assert.deepStrictEqual(yield* settle(run, settled), nothing)
      })
    )

    check(
      "closing it twice at once, and sweeping meanwhile, is closing it",
      Effect.gen(function* () {
        const provider = yield* SandboxProvider
        const run = yield* freshRun
        const scope = yield* Scope.make()
        yield* Scope.extend(provider.acquire(spec({ metadata: { run } })), scope)
        yield* Effect.all([Scope.close(scope, Exit.void), Scope.close(scope, Exit.void), provider.sweep({ run })], {
          concurrency: "unbounded"
        })
        assert.deepStrictEqual(yield* settle(run, settled), nothing)
      })
    )
  })
}
