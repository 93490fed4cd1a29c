/**
 * Files in and out of a sandbox.
 */
import { assert, describe } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import { bytes, joined, type Suite, withSandbox } from "./suite.js"

/** `unwritable` is a path that cannot be written. */
export const files = (suite: Suite, unwritable: string): void => {
  const test = withSandbox(suite)
  describe("files", () => {
    test("bytes come back as they were, at any path, empty ones too", (sandbox) =>
      Effect.gen(function* () {
        for (const [path, content] of [
          ["/tmp/made/on/the/way", bytes(2_000_000)],
          ["/tmp/a b'c\"d$(e)", bytes(300)],
          ["/tmp/empty", bytes(0)]
        ] as const) {
          yield* sandbox.upload(path, Stream.rechunk(Stream.fromIterable([content, bytes(0)]), 1))
          const back = yield* joined(sandbox.download(path))
          assert.strictEqual(Buffer.compare(back, content), 0, path)
        }
        yield* sandbox.upload("/tmp/empty", Stream.make(bytes(3)))
        assert.strictEqual((yield* joined(sandbox.download("/tmp/empty"))).length, 3)
      }))

    test("one that is not there is missing; one that cannot be written is not", (sandbox) =>
      Effect.gen(function* () {
        const missing = yield* Effect.flip(joined(sandbox.download("/tmp/none")))
        assert.strictEqual(missing._tag === "SandboxFileError" && missing.missing, true, missing.message)
        const refused = yield* Effect.flip(sandbox.upload(unwritable, Stream.make(bytes(100_000))))
        assert.strictEqual(refused._tag === "SandboxFileError" && !refused.missing, true, refused.message)
      }))

    test("an upload whose source fails, fails so", (sandbox) =>
      Effect.gen(function* () {
        const source = Stream.concat(Stream.make(bytes(10)), Stream.fail("the source broke" as const))
        assert.strictEqual(yield* Effect.flip(sandbox.upload("/tmp/broken", source)), "the source broke")
      }))

    test(
      "the spec's files are there",
      (sandbox) =>
        Effect.gen(function* () {
          assert.strictEqual((yield* joined(sandbox.download("/tmp/seed/one"))).toString(), "é 1\n")
        }),
      { files: { "/tmp/seed/one": "é 1\n" } }
    )
  })
}
