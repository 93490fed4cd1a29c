import * as FileSystem from "@effect/platform/FileSystem"
import * as NodeContext from "@effect/platform-node/NodeContext"
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as FC from "effect/FastCheck"
import { textWriter } from "../../src/rollout/internal/evidence/textWriter.js"

/** Below the length of a piece, above it, and of characters that take up to four bytes. */
const text = FC.oneof(
  FC.string({ unit: "grapheme", minLength: 1 }),
  FC.integer({ min: 16_000, max: 17_000 }).map((length) => `${"é".repeat(length >> 1)}x`),
  FC.integer({ min: 16_380, max: 16_390 }).map((length) => "y".repeat(length))
)

describe("textWriter", () => {
  it.effect("writes each text whole, in its file's order, however many are written at once", () =>
    Effect.gen(function* () {
      const fs = yield* FileSystem.FileSystem
      const folder = yield* fs.makeTempDirectoryScoped()
      const write = textWriter()
      let runs = 0
      const property = FC.asyncProperty(FC.array(FC.array(text, { maxLength: 4 }), { maxLength: 80 }), (files) =>
        Effect.gen(function* () {
          const run = runs++
          const written = yield* Effect.forEach(
            files,
            (texts, at) =>
              Effect.gen(function* () {
                const path = `${folder}/${run}-${at}`
                const file = yield* fs.open(path, { flag: "w" })
                for (const one of texts) yield* write(file, one)
                return yield* fs.readFileString(path)
              }).pipe(Effect.scoped),
            { concurrency: "unbounded" }
          )
          assert.deepStrictEqual(
            written,
            files.map((texts) => texts.join(""))
          )
        }).pipe(Effect.runPromise)
      )
      yield* Effect.promise(() => FC.assert(property, { numRuns: 30 }))
    }).pipe(Effect.scoped, Effect.provide(NodeContext.layer))
  )

  it.effect("goes on with the next text after one that could not be written", () =>
    Effect.gen(function* () {
      const fs = yield* FileSystem.FileSystem
      const path = yield* fs.makeTempFileScoped()
      const write = textWriter()
      const closed = yield* fs.open(path, { flag: "r" })
      // Opened for reading: a real refusal of the system's.
      assert.match((yield* Effect.flip(write(closed, "lost"))).message, /EBADF/)
      const file = yield* fs.open(path, { flag: "w" })
      yield* write(file, "kept")
      assert.strictEqual(yield* fs.readFileString(path), "kept")
    }).pipe(Effect.scoped, Effect.provide(NodeContext.layer))
  )
})
