import { spawnSync } from "node:child_process"
import { hostname } from "node:os"
import { fileURLToPath } from "node:url"
import * as Command from "@effect/platform/Command"
import { type PlatformError, SystemError } from "@effect/platform/Error"
import * as FileSystem from "@effect/platform/FileSystem"
import * as Path from "@effect/platform/Path"
import * as NodeContext from "@effect/platform-node/NodeContext"
import { assert, describe, it } from "@effect/vitest"
import * as Chunk from "effect/Chunk"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as FastCheck from "effect/FastCheck"
import * as Fiber from "effect/Fiber"
import * as Logger from "effect/Logger"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import * as TestClock from "effect/TestClock"
import { TokenBundle } from "../../src/model/TokenBundle.js"
import * as TokenCapture from "../../src/model/TokenCapture.js"
import { fromBundle, type TokenEntry } from "../../src/model/TokenEntry.js"

type Store = TokenCapture.TokenCapture["Type"]

const id = "3-0"

const entry = (modelCallId: string, generation: ReadonlyArray<number> = [3, 4], rolloutId = id): TokenEntry =>
  fromBundle({
    rolloutId,
    modelCallId,
    model: "m",
    tokens: new TokenBundle({
      promptTokenIds: [1, 2],
      generationTokenIds: generation,
      generationLogProbs: generation.map(() => -0.5)
    }),
    outputItems: [{ type: "message", content: [{ type: "output_text", text: "line\u2028break" }] }],
    tokenItemIndex: 0,
    createdAt: 1_700_000_000.25
  })

/** A folder, and stores on it as separate processes would have them: none knows what another remembers. */
const withFolder = <A, E>(
  use: (folder: {
    readonly open: Effect.Effect<Store, TokenCapture.TokenCaptureError>
    readonly file: (name: string) => string
    readonly fs: FileSystem.FileSystem
  }) => Effect.Effect<A, E, NodeContext.NodeContext | Scope.Scope>
) =>
  Effect.gen(function* () {
    const fs = yield* FileSystem.FileSystem
    const path = yield* Path.Path
    const directory = path.join(yield* fs.makeTempDirectoryScoped(), "tokens")
    const open = TokenCapture.make({ directory }).pipe(
      Effect.provideService(FileSystem.FileSystem, fs),
      Effect.provideService(Path.Path, path)
    )
    return yield* use({ open, file: (name) => path.join(directory, name), fs })
  }).pipe(Effect.scoped, Effect.provide(NodeContext.layer))

const reasonOf = <A, R>(effect: Effect.Effect<A, TokenCapture.TokenCaptureError, R>) =>
  Effect.map(Effect.flip(effect), ({ reason }) => reason)

/** What the lock of a process says that began at another boot. */
const lockOf = (pid: number, host = hostname()) =>
  JSON.stringify({ pid, host, started: "boot/1", since: "2026-01-01T00:00:00.000Z", token: `${pid}` })

const calls = ({ entries }: TokenCapture.TokenSnapshot) => entries.map(({ modelCallId }) => modelCallId)

describe("TokenCapture", () => {
  it.effect("gives back what was put, readable by others as soon as put returns", () =>
    withFolder(({ open }) =>
      Effect.gen(function* () {
        const [writer, reader] = [yield* open, yield* open]
        const put = entry("a")
        yield* writer.begin(id, "a")
        yield* writer.put(put)
        const { entries, incomplete, rolloutId } = yield* reader.snapshot(id)
        assert.deepStrictEqual(entries, [put])
        assert.deepStrictEqual([incomplete, rolloutId], [false, id])
      })
    )
  )

  it.effect("writes the field's file: one line per call, arrays once, keys as published", () =>
    withFolder(({ file, fs, open }) =>
      Effect.gen(function* () {
        const store = yield* open
        yield* store.put(entry("a"))
        yield* store.put(entry("b", [5]))
        const text = yield* fs.readFileString(file(`${id}.tokens.jsonl`))
        const lines = text.split("\n")
        assert.strictEqual(lines.length, 3)
        assert.deepStrictEqual(JSON.parse(lines[0] ?? ""), {
          schema_version: 1,
          rollout_id: id,
          model_call_id: "a",
          model: "m",
          prompt_token_ids: [1, 2],
          generation_token_ids: [3, 4],
          generation_log_probs: [-0.5, -0.5],
          output_items: [{ type: "message", content: [{ type: "output_text", text: "line\u2028break" }] }],
          token_item_index: 0,
          created_at: 1_700_000_000.25
        })
      })
    )
  )

  it.effect("takes the same entry twice as once, and refuses other tokens for the same call", () =>
    withFolder(({ open }) =>
      Effect.gen(function* () {
        const [store, other] = [yield* open, yield* open]
        yield* store.put(entry("a"))
        yield* store.put(entry("a"))
        yield* other.put(entry("a"))
        assert.isFalse((yield* store.snapshot(id)).incomplete)
        assert.strictEqual(yield* reasonOf(other.put(entry("a", [9]))), "conflict")
        const after = yield* store.snapshot(id)
        assert.deepStrictEqual(after.entries, [entry("a")])
        assert.deepStrictEqual(after.gaps, ["call a has other tokens already"])
      })
    )
  )

  it.effect("has a gap for a call that was begun and never ended, and none for one that gave nothing", () =>
    withFolder(({ open }) =>
      Effect.gen(function* () {
        const store = yield* open
        for (const call of ["a", "b", "c"]) yield* store.begin(id, call)
        yield* store.begin(id, "c")
        yield* store.put(entry("a"))
        yield* store.abandon(id, "b", "HTTP 429")
        assert.isFalse((yield* store.snapshot(id)).incomplete)
        const frozen = yield* store.freeze(id)
        assert.deepStrictEqual(frozen.gaps, ["call c was begun, and what it gave is not known"])
        // Another process finds the same.
        assert.deepStrictEqual(yield* (yield* open).freeze(id), frozen)
      })
    )
  )

  it.effect("has a gap where a call that was said to have given nothing has tokens, whichever was said first", () =>
    withFolder(({ open }) =>
      Effect.gen(function* () {
        const store = yield* open
        yield* store.begin("r1", "a")
        yield* store.abandon("r1", "a", "timeout")
        assert.strictEqual(yield* reasonOf(store.put(entry("a", [3], "r1"))), "conflict")
        assert.isTrue((yield* store.freeze("r1")).incomplete)
        yield* store.put(entry("a", [3], "r2"))
        assert.strictEqual(yield* reasonOf(store.abandon("r2", "a", "timeout")), "conflict")
        assert.isTrue((yield* store.freeze("r2")).incomplete)
        assert.strictEqual(yield* reasonOf(store.begin("r2", "b")), "frozen")
      })
    )
  )

  it.effect("stays incomplete once it was said to be", () =>
    withFolder(({ open }) =>
      Effect.gen(function* () {
        yield* (yield* open).markIncomplete(id, "a reply had no tokens")
        const store = yield* open
        yield* store.put(entry("a"))
        yield* store.markIncomplete(id, "a reply had no tokens")
        assert.deepStrictEqual((yield* store.freeze(id)).gaps, ["a reply had no tokens"])
        assert.deepStrictEqual((yield* (yield* open).freeze(id)).gaps, ["a reply had no tokens"])
      })
    )
  )

  describe("freeze", () => {
    it.effect("ends it: the same comes out ever after, and what comes late is a gap", () =>
      withFolder(({ open }) =>
        Effect.gen(function* () {
          const store = yield* open
          yield* store.put(entry("a"))
          const frozen = yield* store.freeze(id)
          assert.deepStrictEqual(yield* store.freeze(id), frozen)
          assert.strictEqual(yield* reasonOf(store.begin(id, "b")), "frozen")
          assert.deepStrictEqual(yield* store.freeze(id), frozen)
          assert.strictEqual(yield* reasonOf((yield* open).put(entry("b"))), "frozen")
          const again = yield* store.freeze(id)
          assert.strictEqual(again.snapshotId, frozen.snapshotId)
          assert.isAbove(again.version, frozen.version)
          assert.deepStrictEqual(again.entries, frozen.entries)
          assert.deepStrictEqual(again.gaps, ["call b ended after the freeze"])
        })
      )
    )

    it.effect("of a rollout without calls is empty", () =>
      withFolder(({ open }) =>
        Effect.gen(function* () {
          const store = yield* open
          const frozen = yield* store.freeze(id)
          assert.deepStrictEqual([frozen.entries, frozen.gaps], [[], []])
          assert.strictEqual(yield* reasonOf(store.put(entry("a"))), "frozen")
        })
      )
    )
  })

  describe("drop", () => {
    it.effect("forgets what was read, and late writers still fail", () =>
      withFolder(({ file, fs, open }) =>
        Effect.gen(function* () {
          const store = yield* open
          yield* store.begin(id, "a")
          yield* store.put(entry("a"))
          const frozen = yield* store.freeze(id)
          assert.isTrue(yield* store.drop(frozen))
          assert.isTrue(yield* store.drop(frozen))
          for (const late of [yield* open, store]) {
            assert.strictEqual(yield* reasonOf(late.begin(id, "b")), "retired")
            assert.strictEqual(yield* reasonOf(late.put(entry("a"))), "retired")
            assert.strictEqual(yield* reasonOf(late.freeze(id)), "retired")
            assert.strictEqual(yield* reasonOf(late.snapshot(id)), "retired")
            assert.strictEqual(yield* reasonOf(late.markIncomplete(id, "late")), "retired")
          }
          assert.deepStrictEqual(yield* fs.readDirectory(file(".")), [`${id}.tokens.state.json`])
        })
      )
    )

    it.effect("does nothing where something changed, or nothing was frozen", () =>
      withFolder(({ open }) =>
        Effect.gen(function* () {
          const store = yield* open
          yield* store.put(entry("a"))
          assert.isFalse(yield* store.drop({ rolloutId: id, snapshotId: "none", version: 1 }))
          const frozen = yield* store.freeze(id)
          assert.isFalse(yield* store.drop({ ...frozen, snapshotId: "another" }))
          assert.isFalse(yield* store.drop({ ...frozen, version: frozen.version + 1 }))
          yield* (yield* open).markIncomplete(id, "came to light later")
          assert.isFalse(yield* store.drop(frozen))
          const again = yield* store.freeze(id)
          assert.deepStrictEqual(again.gaps, ["came to light later"])
          assert.isTrue(yield* store.drop(again))
        })
      )
    )

    it.effect("leaves a mark that is swept when it is old, and nothing else is", () =>
      withFolder(({ file, fs, open }) =>
        Effect.gen(function* () {
          const store = yield* open
          for (const rollout of ["kept", "frozen", "old", "young"]) yield* store.put(entry("a", [3], rollout))
          yield* store.freeze("frozen")
          yield* store.drop(yield* store.freeze("old"))
          yield* TestClock.adjust("1 hour")
          yield* store.drop(yield* store.freeze("young"))
          // A file of somebody else's, with a name that no rollout has.
          yield* fs.writeFileString(file(".x.tokens.state.json"), "{}")
          assert.strictEqual(yield* store.sweepRetired("30 minutes"), 1)
          const left = yield* fs.readDirectory(file("."))
          assert.deepStrictEqual(left.sort(), [
            ".x.tokens.state.json",
            "frozen.tokens.jsonl",
            "frozen.tokens.state.json",
            "kept.tokens.jsonl",
            "young.tokens.state.json"
          ])
          // The id is free again.
          yield* store.put(entry("b", [3], "old"))
          assert.deepStrictEqual(calls(yield* store.snapshot("old")), ["b"])
        })
      )
    )
  })

  it.effect("begins anew after a removal, also for those who knew what was there", () =>
    withFolder(({ open }) =>
      Effect.gen(function* () {
        const [store, other] = [yield* open, yield* open]
        yield* store.put(entry("a"))
        yield* other.snapshot(id)
        yield* store.freeze(id)
        yield* store.remove(id)
        yield* store.put(entry("a", [7, 7]))
        assert.deepStrictEqual((yield* other.snapshot(id)).entries, [entry("a", [7, 7])])
        yield* other.put(entry("a", [7, 7]))
        assert.deepStrictEqual((yield* other.freeze(id)).gaps, [])
      })
    )
  )

  describe("after a crash", () => {
    it.effect("cuts off an entry that was not written whole, tells it, and goes on", () =>
      withFolder(({ file, fs, open }) =>
        Effect.gen(function* () {
          yield* (yield* open).put(entry("a"))
          const whole = yield* fs.readFileString(file(`${id}.tokens.jsonl`))
          yield* fs.writeFileString(file(`${id}.tokens.jsonl`), `${whole}{"schema_version":1,"prom`)
          const store = yield* open
          yield* store.put(entry("b"))
          const { entries, gaps } = yield* store.freeze(id)
          assert.deepStrictEqual(entries, [entry("a"), entry("b")])
          assert.strictEqual(gaps.length, 1)
          // `{"schema_version":1,"prom` has 25 bytes.
          assert.include(gaps[0], "25 bytes")
        })
      )
    )

    it.effect("finds what was written but not heard of", () =>
      withFolder(({ open }) =>
        Effect.gen(function* () {
          yield* (yield* open).begin(id, "a")
          yield* (yield* open).put(entry("a"))
          const store = yield* open
          // The writer died before it heard that its entry was safe, and says it again.
          yield* store.put(entry("a"))
          assert.deepStrictEqual((yield* store.freeze(id)).entries, [entry("a")])
          assert.deepStrictEqual((yield* store.freeze(id)).gaps, [])
        })
      )
    )

    it.effect("takes an intent that was not written whole for none", () =>
      withFolder(({ file, fs, open }) =>
        Effect.gen(function* () {
          yield* (yield* open).put(entry("a"))
          yield* fs.writeFileString(file(`${id}.tokens.intents`), `{"begun":"b"`)
          assert.deepStrictEqual((yield* (yield* open).freeze(id)).gaps, [])
        })
      )
    )

    // The wait for the lock goes by the real clock.
    it.live("takes the lock of a process that is dead", () =>
      withFolder(({ file, fs, open }) =>
        Effect.gen(function* () {
          const { pid } = spawnSync(process.execPath, ["-e", ""])
          const store = yield* open
          yield* fs.symlink(lockOf(pid), file(`${id}.tokens.lock`))
          // In a container the next process often has the number of the one that died.
          yield* fs.symlink(lockOf(process.pid), file("r2.tokens.lock"))
          // Another process has the number by now.
          yield* fs.symlink(lockOf(process.ppid), file("r3.tokens.lock"))
          yield* store.put(entry("a"))
          yield* store.put(entry("a", [3], "r2"))
          yield* store.put(entry("a", [3], "r3"))
          assert.deepStrictEqual((yield* fs.readDirectory(file("."))).sort(), [
            `${id}.tokens.jsonl`,
            "r2.tokens.jsonl",
            "r3.tokens.jsonl"
          ])
        })
      )
    )

    it.effect("does not take the lock of a process elsewhere, and gives up after a while", () =>
      withFolder(({ file, fs, open }) =>
        Effect.gen(function* () {
          const store = yield* open
          const theirs = lockOf(1, "another-machine")
          yield* fs.symlink(theirs, file(`${id}.tokens.lock`))
          const waiting = yield* Effect.fork(Effect.flip(store.put(entry("a"))))
          const error = yield* TestClock.adjust("1 second").pipe(
            Effect.zipRight(Effect.yieldNow()),
            Effect.zipRight(Effect.promise(() => new Promise((resolve) => setImmediate(resolve)))),
            Effect.forever,
            Effect.raceFirst(Fiber.join(waiting))
          )
          assert.strictEqual(error.reason, "locked")
          assert.include(error.message, `${file(`${id}.tokens.lock`)} stayed with process 1 on another-machine`)
          assert.strictEqual(yield* fs.readLink(file(`${id}.tokens.lock`)), theirs)
        })
      )
    )
  })

  describe("its lock", () => {
    const openWith = (directory: string, fs: FileSystem.FileSystem) =>
      Effect.provideService(TokenCapture.make({ directory }), FileSystem.FileSystem, fs)

    // The waits for the lock go by the real clock.
    it.live("has one holder, also where one saw it dead, another took it, and a third comes", () =>
      withFolder(({ file, fs }) =>
        Effect.gen(function* () {
          yield* fs.makeDirectory(file("."))
          const lock = file(`${id}.tokens.lock`)
          yield* fs.symlink(lockOf(process.ppid), lock)
          const [inside, goOn, thirdTried] = [
            yield* Deferred.make<void>(),
            yield* Deferred.make<void>(),
            yield* Deferred.make<void>()
          ]
          const order: Array<string> = []
          const entries = (path: string) => path === file(`${id}.tokens.jsonl`)

          const first = yield* openWith(file("."), {
            ...fs,
            stat: (path) =>
              entries(path)
                ? Deferred.succeed(inside, undefined).pipe(
                    Effect.zipRight(Deferred.await(goOn)),
                    Effect.tap(() => order.push("first has written")),
                    Effect.zipRight(fs.stat(path))
                  )
                : fs.stat(path)
          })
          const third = yield* openWith(file("."), {
            ...fs,
            symlink: (target, path) =>
              Effect.tapError(fs.symlink(target, path), () => Deferred.succeed(thirdTried, undefined)),
            stat: (path) =>
              Effect.suspend(() => {
                if (entries(path)) order.push("third is in")
                return Effect.zipRight(Deferred.succeed(thirdTried, undefined), fs.stat(path))
              })
          })
          // The second reads of a dead owner; before it does something about it, the first has the lock.
          let seen = false
          let done = false
          const scope = yield* Effect.scope
          const begun = (change: Effect.Effect<void, PlatformError>) =>
            Effect.tap(change, () => {
              if (!seen || done) return Effect.void
              done = true
              return Effect.zipRight(Effect.forkIn(third.put(entry("c")), scope), Deferred.await(thirdTried))
            })
          const second = yield* openWith(file("."), {
            ...fs,
            readLink: (path) =>
              Effect.tap(fs.readLink(path), () => {
                if (path !== lock || seen) return Effect.void
                seen = true
                return Effect.zipRight(Effect.forkIn(first.put(entry("a")), scope), Deferred.await(inside))
              }),
            rename: (from, to) => begun(fs.rename(from, to)),
            symlink: (target, path) => (path === lock ? fs.symlink(target, path) : begun(fs.symlink(target, path)))
          })
          const waiting = yield* Effect.fork(second.put(entry("b")))
          yield* Deferred.await(thirdTried)
          yield* Deferred.succeed(goOn, undefined)
          yield* Fiber.join(waiting)
          assert.deepStrictEqual(order.slice(0, 1), ["first has written"])
        })
      )
    )

    it.live("is left alone at the end when it is another's by then", () =>
      withFolder(({ file, fs }) =>
        Effect.gen(function* () {
          const lock = file(`${id}.tokens.lock`)
          let taken = false
          const store = yield* openWith(file("."), {
            ...fs,
            // Somebody removes the lock by hand, and another process takes it.
            stat: (path) =>
              Effect.suspend(() => {
                if (taken) return fs.stat(path)
                taken = true
                return fs.remove(lock).pipe(Effect.zipRight(fs.symlink("theirs", lock)), Effect.zipRight(fs.stat(path)))
              })
          })
          yield* store.put(entry("a"))
          assert.strictEqual(yield* fs.readLink(lock), "theirs")
        })
      )
    )

    it.live("costs no call that is safe when it cannot be removed, and does not stay in the way", () =>
      withFolder(({ file, fs }) =>
        Effect.gen(function* () {
          const lock = file(`${id}.tokens.lock`)
          const told: Array<string> = []
          const logger = Logger.make(({ message }) => void told.push(String(message)))
          let broken = true
          const store = yield* openWith(file("."), {
            ...fs,
            remove: (path, options) =>
              broken && path === lock
                ? new SystemError({ module: "FileSystem", method: "remove", reason: "PermissionDenied" })
                : fs.remove(path, options)
          })
          yield* Effect.provide(store.put(entry("a")), Logger.replace(Logger.defaultLogger, logger))
          assert.strictEqual(told.length, 1)
          assert.include(told[0], `${lock}: the lock could not be removed`)
          broken = false
          yield* store.put(entry("b"))
          assert.deepStrictEqual(calls(yield* store.freeze(id)), ["a", "b"])
          assert.isFalse((yield* fs.readDirectory(file("."))).includes(`${id}.tokens.lock`))
        })
      )
    )
  })

  describe("what cannot be read", () => {
    const withLine = (line: unknown) =>
      withFolder(({ file, fs, open }) =>
        Effect.gen(function* () {
          const store = yield* open
          const text = typeof line === "string" ? line : JSON.stringify(line)
          yield* fs.writeFileString(file(`${id}.tokens.jsonl`), `${text}\n`)
          return yield* Effect.either(store.snapshot(id))
        })
      )
    const written = {
      rollout_id: id,
      model_call_id: "a",
      model: "m",
      prompt_token_ids: [1, 2],
      generation_token_ids: [3],
      generation_log_probs: [-1],
      output_items: [],
      created_at: 1
    }

    for (const [name, line, reason] of [
      ["a newer form", { ...written, schema_version: 2 }, "newer"],
      ["no JSON", "{", "unreadable"],
      ["too few log-probabilities", { ...written, generation_log_probs: [] }, "unreadable"],
      ["a log-probability that was NaN", { ...written, generation_log_probs: [null] }, "unreadable"],
      ["a token that is none", { ...written, prompt_token_ids: [1, -2] }, "unreadable"],
      ["tokens on an item that is not there", { ...written, token_item_index: 0 }, "unreadable"]
    ] as const) {
      it.effect(`is refused, not passed over: ${name}`, () =>
        Effect.map(withLine(line), (read) => assert.strictEqual(read._tag === "Left" && read.left.reason, reason))
      )
    }

    for (const [name, line] of [
      ["an older form", { ...written, schema_version: 0, token_item_index: null }],
      ["a form that names no version", written]
    ] as const) {
      it.effect(`is not ${name}`, () =>
        Effect.map(withLine(line), (read) => assert.deepStrictEqual(read._tag === "Right" && calls(read.right), ["a"]))
      )
    }
  })

  for (const unsafe of ["", "../3-0", "a/b", ".hidden", "-a", "a b", "ä", "a".repeat(201)]) {
    it.effect(`refuses the id ${JSON.stringify(unsafe).slice(0, 20)}`, () =>
      withFolder(({ file, fs, open }) =>
        Effect.gen(function* () {
          const store = yield* open
          assert.strictEqual(yield* reasonOf(store.begin(unsafe, "a")), "unsafe_id")
          assert.strictEqual(yield* reasonOf(store.put(entry("a", [3], unsafe))), "unsafe_id")
          assert.strictEqual(yield* reasonOf(store.remove(unsafe)), "unsafe_id")
          assert.deepStrictEqual(yield* fs.readDirectory(file(".")), [])
        })
      )
    )
  }

  it.live("keeps every one of many calls that end at once, in two stores", () =>
    withFolder(({ open }) =>
      Effect.gen(function* () {
        const stores = [yield* open, yield* open]
        const names = Array.from({ length: 40 }, (_, at) => `call-${at}`)
        yield* Effect.forEach(
          names,
          (name, at) => {
            const store = stores[at % 2] ?? stores[0]
            return store === undefined
              ? Effect.void
              : Effect.zipRight(store.begin(id, name), store.put(entry(name, [at])))
          },
          { concurrency: "unbounded" }
        )
        const { entries, gaps } = yield* (yield* open).freeze(id)
        assert.deepStrictEqual(entries.map(({ modelCallId }) => modelCallId).sort(), [...names].sort())
        assert.deepStrictEqual(gaps, [])
      })
    )
  )

  describe("with processes of their own", () => {
    const writer = (directory: string, prefix: string, count: number) =>
      Command.make(
        process.execPath,
        "--import",
        "tsx",
        fileURLToPath(new URL("./tokenWriter.ts", import.meta.url)),
        directory,
        id,
        prefix,
        String(count)
      )

    // They are processes: only they know when they are done.
    it.live("keeps every call of several that write to one rollout", () =>
      withFolder(({ file, open }) =>
        Effect.gen(function* () {
          const said = yield* Effect.forEach(["x", "y"], (prefix) => Command.lines(writer(file("."), prefix, 10)), {
            concurrency: "unbounded"
          })
          assert.strictEqual(said.flat().length, 20)
          const { entries, gaps } = yield* (yield* open).freeze(id)
          assert.deepStrictEqual(entries.map(({ modelCallId }) => modelCallId).sort(), said.flat().sort())
          assert.deepStrictEqual(gaps, [])
        })
      )
    )

    it.live("has what one that was killed had said to be safe, and can be written on", () =>
      withFolder(({ file, open }) =>
        Effect.gen(function* () {
          const child = yield* Command.start(writer(file("."), "x", 100_000))
          const safe = yield* child.stdout.pipe(
            Stream.decodeText(),
            Stream.splitLines,
            Stream.take(5),
            Stream.runCollect,
            Effect.map(Chunk.toReadonlyArray),
            Effect.ensuring(Effect.orDie(child.kill("SIGKILL")))
          )
          const store = yield* open
          yield* store.put(entry("after"))
          const { entries, gaps } = yield* store.freeze(id)
          const kept = entries.map(({ modelCallId }) => modelCallId)
          assert.deepStrictEqual(kept.slice(0, 5), safe)
          assert.strictEqual(kept.at(-1), "after")
          // It died at one call, wherever it was: at most its intent and half its entry are left of that.
          assert.isAtMost(gaps.length, 2)
        })
      )
    )
  })

  describe("on a full disk", () => {
    const full = (path: string) =>
      new SystemError({
        module: "FileSystem",
        method: "write",
        reason: "Unknown",
        pathOrDescriptor: path,
        description: "ENOSPC: no space left on device"
      })

    it.effect("fails, takes half a line back, and remembers that something is missing", () =>
      withFolder(({ file, fs, open }) =>
        Effect.gen(function* () {
          const other = yield* open
          let broken = false
          const failing: FileSystem.FileSystem = {
            ...fs,
            open: (path, options) =>
              Effect.map(fs.open(path, options), (inner) => ({
                [FileSystem.FileTypeId]: inner[FileSystem.FileTypeId],
                fd: inner.fd,
                stat: inner.stat,
                sync: inner.sync,
                seek: (offset, from) => inner.seek(offset, from),
                read: (buffer) => inner.read(buffer),
                readAlloc: (size) => inner.readAlloc(size),
                truncate: (length) => inner.truncate(length),
                write: (buffer) => inner.write(buffer),
                // Half of what was to be written fits.
                writeAll: (bytes) =>
                  broken
                    ? Effect.zipRight(inner.writeAll(bytes.subarray(0, bytes.length >> 1)), Effect.fail(full(path)))
                    : inner.writeAll(bytes)
              }))
          }
          const store = yield* TokenCapture.make({ directory: file(".") }).pipe(
            Effect.provideService(FileSystem.FileSystem, failing)
          )
          yield* store.put(entry("a"))
          const before = yield* fs.readFileString(file(`${id}.tokens.jsonl`))
          broken = true
          assert.strictEqual(yield* reasonOf(store.put(entry("b"))), "disk")
          assert.strictEqual(yield* fs.readFileString(file(`${id}.tokens.jsonl`)), before)
          assert.strictEqual(yield* reasonOf(store.markIncomplete(id, "call b could not be kept")), "disk")
          const { snapshotId } = yield* other.freeze(id)
          // What was read from the disk lacks what could not be written to it.
          assert.isFalse(yield* store.drop({ rolloutId: id, snapshotId, version: 1 }))
          broken = false
          // The gap could not be written down when it was said, and is now.
          assert.deepStrictEqual((yield* store.freeze(id)).gaps, ["call b could not be kept"])
        })
      )
    )
  })

  it.effect.prop(
    "freezes what was put, with a gap for each call that was begun and left",
    {
      said: FastCheck.array(
        FastCheck.record({
          call: FastCheck.nat({ max: 4 }),
          what: FastCheck.constantFrom("begin" as const, "put" as const, "abandon" as const, "restart" as const)
        }),
        { maxLength: 14 }
      )
    },
    ({ said }) =>
      withFolder(({ open }) =>
        Effect.gen(function* () {
          let store = yield* open
          const begun = new Set<string>()
          const put = new Set<string>()
          const abandoned = new Set<string>()
          let contradicted = false
          for (const { call, what } of said) {
            const name = `call-${call}`
            if (what === "restart") store = yield* open
            else if (what === "begin") {
              const done = put.has(name) || abandoned.has(name)
              assert.strictEqual((yield* Effect.either(store.begin(id, name)))._tag, done ? "Left" : "Right")
              if (!done) begun.add(name)
            } else {
              const [mine, other] = what === "put" ? [put, abandoned] : [abandoned, put]
              const done = what === "put" ? store.put(entry(name)) : store.abandon(id, name, "the server refused it")
              assert.strictEqual((yield* Effect.either(done))._tag, other.has(name) ? "Left" : "Right")
              if (other.has(name)) contradicted = true
              else mine.add(name)
            }
          }
          const frozen = yield* store.freeze(id)
          const dangling = [...begun].filter((name) => !put.has(name) && !abandoned.has(name))
          assert.deepStrictEqual(calls(frozen), [...put])
          assert.strictEqual(frozen.incomplete, dangling.length > 0 || contradicted)
          for (const name of dangling) assert.include(frozen.gaps.join("\n"), `${name} was begun`)
        })
      ),
    // Each writes to a disk and waits until it is there.
    { fastCheck: { numRuns: 50 } }
  )
})
