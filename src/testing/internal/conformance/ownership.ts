/**
 * Who may do what with a sandbox, and a sandbox that becomes several.
 */
import { assert, describe } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import { SandboxDescriptor } from "../../../sandbox/Sandbox.js"
import { SandboxProvider } from "../../../sandbox/SandboxProvider.js"
import { bytes, joined, type Suite, withSandbox } from "./suite.js"

export const ownership = (suite: Suite): void => {
  const test = withSandbox(suite)
  describe("ownership", () => {
    test("a borrower works in the same sandbox, and leaves it as it is", (sandbox) =>
      Effect.gen(function* () {
        const provider = yield* SandboxProvider
        if (!provider.capabilities.connect) {
          const error = yield* Effect.flip(Effect.scoped(provider.borrow(sandbox.descriptor)))
          assert.strictEqual(error._tag, "SandboxUnsupported")
          return
        }
        yield* Effect.scoped(
          Effect.gen(function* () {
            const borrowed = yield* provider.borrow(sandbox.descriptor)
            assert.deepStrictEqual([borrowed._tag, borrowed.id], ["BorrowedSandbox", sandbox.id])
            yield* borrowed.upload("/tmp/lent", Stream.make(bytes(10)))
          })
        )
        assert.strictEqual((yield* joined(sandbox.download("/tmp/lent"))).length, 10)
        const unknown = SandboxDescriptor.make({ ...sandbox.descriptor, id: "sb-0123456789ab" })
        const error = yield* Effect.flip(Effect.scoped(provider.borrow(unknown)))
        assert.strictEqual(error._tag, "SandboxGone", error.message)
      }))
  })
}

/** `withFiles` says that children are asked for their source's files, too. */
export const fork = (suite: Suite, withFiles: boolean): void => {
  const test = withSandbox(suite)
  describe("fork", () => {
    test("children of one state, one for each owner in order; or a typed refusal", (sandbox) =>
      Effect.gen(function* () {
        const provider = yield* SandboxProvider
        const source = { ...sandbox, _tag: "OwnedSandbox" as const }
        if (!provider.capabilities.fork) {
          const error = yield* Effect.flip(Effect.scoped(provider.fork(source, [0])))
          assert.strictEqual(error._tag, "SandboxUnsupported")
          return
        }
        if (provider.capabilities.files && withFiles) {
          yield* sandbox.upload("/tmp/before", Stream.make(bytes(5)))
        }
        yield* Effect.scoped(
          Effect.gen(function* () {
            const children = yield* provider.fork(source, [0, 2, 5])
            assert.deepStrictEqual(
              children.map(({ child, owner }) => [owner, child._tag]),
              [
                [0, "Forked"],
                [2, "Forked"],
                [5, "Forked"]
              ]
            )
            const born = children.flatMap(({ child }) => (child._tag === "Forked" ? [child.sandbox] : []))
            assert.strictEqual(new Set([sandbox.id, ...born.map(({ id }) => id)]).size, 4)
            if (provider.capabilities.files && withFiles) {
              for (const child of born) {
                assert.strictEqual((yield* joined(child.download("/tmp/before"))).length, 5)
              }
            }
            // One can go before the others; for the rest of them it is the scope's end.
            const [{ child }, ...others] = children
            if (child._tag === "Forked") yield* child.release
            if (provider.capabilities.files && withFiles) {
              for (const { child } of others) {
                if (child._tag !== "Forked") continue
                assert.strictEqual((yield* joined(child.sandbox.download("/tmp/before"))).length, 5)
              }
            }
          })
        )
      }))
  })
}
