import * as FileSystem from "@effect/platform/FileSystem"
import * as NodeContext from "@effect/platform-node/NodeContext"
import { assert, describe, it } from "@effect/vitest"
import * as Chunk from "effect/Chunk"
import * as Effect from "effect/Effect"
import * as FastCheck from "effect/FastCheck"
import * as Option from "effect/Option"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import { openJsonLines, readJsonLines, repairTail, withoutLines } from "../../src/rollout/internal/jsonLines.js"

const withFile = <A, E>(
  test: (fs: FileSystem.FileSystem, path: string) => Effect.Effect<A, E, FileSystem.FileSystem | Scope.Scope>
) =>
  Effect.flatMap(FileSystem.FileSystem, (fs) =>
    Effect.flatMap(fs.makeTempDirectoryScoped(), (folder) => test(fs, `${folder}/rows.jsonl`))
  ).pipe(Effect.scoped, Effect.provide(NodeContext.layer))

const values = (fs: FileSystem.FileSystem, path: string) =>
  Effect.map(Stream.runCollect(readJsonLines(fs, path)), (lines) =>
    Chunk.toReadonlyArray(lines).map((line) => Option.getOrElse(line, () => "no JSON"))
  )

/** A file system that counts what is written and synced, and whose disk has room for so many bytes. */
const counting = (fs: FileSystem.FileSystem, room = Number.POSITIVE_INFINITY) => {
  const counts = { writes: 0, syncs: 0, synced: 0, written: 0 }
  const open: FileSystem.FileSystem["open"] = (path, options) =>
    Effect.map(
      fs.open(path, options),
      (file): FileSystem.File => ({
        [FileSystem.FileTypeId]: FileSystem.FileTypeId,
        fd: file.fd,
        stat: file.stat,
        seek: file.seek,
        read: file.read,
        readAlloc: file.readAlloc,
        truncate: file.truncate,
        write: file.write,
        writeAll: (bytes) =>
          Effect.suspend(() => {
            counts.writes += 1
            if (counts.written + bytes.length > room) {
              return Effect.zipRight(file.writeAll(bytes.subarray(0, room - counts.written)), full(path))
            }
            counts.written += bytes.length
            return file.writeAll(bytes)
          }),
        sync: Effect.suspend(() => {
          counts.syncs += 1
          counts.synced = counts.written
          return file.sync
        })
      })
    )
  const full = (path: string) =>
    Effect.flatMap(fs.open("/dev/full", { flag: "a" }), (file) => file.writeAll(Buffer.from(path))).pipe(Effect.scoped)
  return { counts, fs: { ...fs, open } }
}

describe("JSON Lines", () => {
  it.live("makes many rows durable by few syncs, and none returns before it is", () =>
    withFile((real, path) =>
      Effect.gen(function* () {
        const { counts, fs } = counting(real)
        const lines = yield* openJsonLines(fs, path)
        const row = { text: "x".repeat(1_000) }
        yield* Effect.forEach(
          Array.from({ length: 500 }, (_, index) => ({ index, ...row })),
          (each) => Effect.tap(lines.append(each), () => assert.isAbove(counts.synced, 0)),
          { concurrency: "unbounded" }
        )
        assert.strictEqual(counts.synced, counts.written)
        // The first goes alone, all that came meanwhile together.
        assert.isAtMost(counts.syncs, 5)
        assert.strictEqual((yield* values(real, path)).length, 500)
      })
    )
  )

  it.effect.prop(
    "writes each row as its JSON and a newline, in the order in which they came, however many go together",
    { rows: FastCheck.array(FastCheck.unicodeJsonValue(), { maxLength: 30 }) },
    ({ rows }) =>
      withFile((fs, path) =>
        Effect.gen(function* () {
          const lines = yield* openJsonLines(fs, path)
          // Waves, so that a batch is made in the buffer of another, larger or smaller than it.
          for (const wave of [rows, rows.slice(0, 1), [...rows, ...rows]]) {
            yield* Effect.forEach(wave, lines.append, { concurrency: "unbounded", discard: true })
          }
          const expected = [...rows, ...rows.slice(0, 1), ...rows, ...rows].map((row) => `${JSON.stringify(row)}\n`)
          assert.strictEqual(yield* fs.readFileString(path), expected.join(""))
        })
      ),
    { fastCheck: { numRuns: 40 } }
  )

  it.live("writes a row that is larger than a batch may be alone, and what comes behind it after it", () =>
    withFile((real, path) =>
      Effect.gen(function* () {
        const { counts, fs } = counting(real)
        const lines = yield* openJsonLines(fs, path)
        const rows = [
          "first",
          "é".repeat(5 * 1024 * 1024),
          "third",
          "x".repeat(7 * 1024 * 1024),
          "y".repeat(1024 * 1024)
        ]
        yield* Effect.forEach(rows, lines.append, { concurrency: "unbounded", discard: true })
        assert.strictEqual(counts.writes, 4, "the first, the large one, two that fit together, and the rest")
        assert.strictEqual(yield* real.readFileString(path), rows.map((row) => `${JSON.stringify(row)}\n`).join(""))
      })
    )
  )

  it.live("does not append behind a write that failed, and what was cut short is cut off", () =>
    withFile((real, path) =>
      Effect.gen(function* () {
        const { fs } = counting(real, 25)
        const lines = yield* openJsonLines(fs, path)
        const results = yield* Effect.forEach([1, 2, 3, 4], (index) =>
          Effect.either(lines.append({ index, text: "ab" }))
        )
        assert.deepStrictEqual(
          results.map(({ _tag }) => _tag),
          ["Right", "Left", "Left", "Left"]
        )
        assert.isAbove(yield* repairTail(real, path), 0)
        assert.deepStrictEqual(yield* values(real, path), [{ index: 1, text: "ab" }])
      })
    )
  )

  it.effect.prop(
    "reads what was written, line by line, whatever the strings and wherever the file was torn",
    { rows: FastCheck.array(FastCheck.unicodeJsonValue(), { maxLength: 5 }), cut: FastCheck.nat({ max: 200 }) },
    ({ cut, rows }) =>
      withFile((fs, path) =>
        Effect.gen(function* () {
          const whole = rows.map((row) => `${JSON.stringify(row)}\n`)
          const bytes = Buffer.from(whole.join(""))
          const kept = bytes.subarray(0, Math.max(0, bytes.length - cut))
          yield* fs.writeFile(path, kept)
          const before = yield* values(fs, path)
          yield* repairTail(fs, path)
          assert.deepStrictEqual(yield* values(fs, path), before)
          let complete = 0
          for (let length = 0; complete < whole.length; complete++) {
            length += Buffer.byteLength(whole[complete] ?? "")
            if (length > kept.length) break
          }
          assert.deepStrictEqual(
            before,
            rows.slice(0, complete).map((row) => JSON.parse(JSON.stringify(row)))
          )
        })
      ),
    { fastCheck: { numRuns: 40 } }
  )

  it.live("takes lines out of a file and loses none", () =>
    withFile((fs, path) =>
      Effect.gen(function* () {
        yield* fs.writeFileString(path, "1\n2\nnonsense\n4\n")
        yield* withoutLines(fs, path, new Set([2, 4]), `${path}.aside`)
        assert.strictEqual(yield* fs.readFileString(path), "1\nnonsense\n")
        assert.strictEqual(yield* fs.readFileString(`${path}.aside`), "2\n4\n")
      })
    )
  )
})
