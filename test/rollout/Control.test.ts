import { existsSync, lstatSync, mkdtempSync, readlinkSync, statSync, symlinkSync } from "node:fs"
import { createConnection } from "node:net"
import { tmpdir } from "node:os"
import { dirname, join } from "node:path"
import * as FileSystem from "@effect/platform/FileSystem"
import * as NodeContext from "@effect/platform-node/NodeContext"
import { assert, describe, it } from "@effect/vitest"
import * as Chunk from "effect/Chunk"
import * as Context from "effect/Context"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Queue from "effect/Queue"
import * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import { Admissions } from "../../src/rollout/Admissions.js"
import * as Control from "../../src/rollout/Control.js"
import { Failed } from "../../src/rollout/Outcome.js"
import * as RolloutCollector from "../../src/rollout/RolloutCollector.js"
import { row, runId } from "./simulator.js"

/** A run of `rows` tasks whose rollouts end when they are told to; what starts is told by `started`. */
const run = (rows: number, concurrency: number) =>
  Effect.gen(function* () {
    const fs = yield* FileSystem.FileSystem
    const out = yield* fs.makeTempDirectoryScoped()
    const collector = Context.get(
      yield* Layer.build(RolloutCollector.layer({ out })),
      RolloutCollector.RolloutCollector
    )
    const started = yield* Queue.unbounded<string>()
    const mayEnd = yield* Deferred.make<void>()
    const running = yield* collector
      .collect(
        Stream.range(0, rows - 1).pipe(Stream.map(row)),
        (_, identity) =>
          Admissions.pipe(
            Effect.flatMap(({ opening }) => opening(Queue.offer(started, identity.rolloutId))),
            Effect.zipRight(Deferred.await(mayEnd)),
            Effect.as(new Failed({ identity, fault: "task", detail: "it was told to", milliseconds: 1 }))
          ),
        { runId, concurrency }
      )
      .pipe(Stream.runCollect, Effect.map(Chunk.toReadonlyArray), Effect.forkScoped)
    yield* Control.serve({ out, controlled: collector, most: 8 })
    const ask = (request: Control.Request) => Control.ask(out, request)
    return { out, collector, started, running, ask, end: Deferred.succeed(mayEnd, undefined) }
  })

const live = <E>(name: string, body: Effect.Effect<void, E, Scope.Scope | NodeContext.NodeContext>) =>
  it.scopedLive(name, () => Effect.provide(body, NodeContext.layer), 30_000)

/** What comes back on one connection for some text, until the other side closes. */
const raw = (out: string, text: string) =>
  Effect.async<string>((resume) => {
    const socket = createConnection(readlinkSync(join(out, "control.sock")))
    let got = ""
    socket.on("data", (chunk) => {
      got += chunk
    })
    socket.on("error", () => {})
    socket.on("close", () => resume(Effect.succeed(got)))
    socket.end(text)
  })

describe("Control", () => {
  live(
    "says what goes on, pauses, gives more places, and drains",
    Effect.gen(function* () {
      const { ask, end, running, started } = yield* run(6, 2)
      yield* Queue.takeN(started, 2)
      const before = yield* ask({ ask: "status" })
      assert.deepInclude(before, { running: 2, concurrency: 2, paused: false, pid: process.pid })
      assert.sameMembers([...before.rollouts], ["0-0", "1-0"])

      assert.isTrue((yield* ask({ ask: "pause" })).paused)
      // A place more is of no use to anybody while the run pauses.
      assert.deepInclude(yield* ask({ ask: "concurrency", places: 3 }), { running: 2, concurrency: 3 })
      assert.isFalse((yield* ask({ ask: "resume" })).paused)
      assert.strictEqual(yield* Queue.take(started), "2-0")

      const draining = yield* ask({ ask: "drain" })
      assert.deepInclude(draining, { draining: true, running: 3, waiting: 0 })
      yield* end
      const outcomes = yield* Fiber.join(running)
      assert.deepStrictEqual(outcomes.map(({ identity }) => identity.taskIndex).sort(), [0, 1, 2])
      const after = yield* ask({ ask: "status" })
      assert.deepInclude(after, { running: 0, failed: 3, finished: 0, unresolved: 0 })
    })
  )

  live(
    "calls off one rollout: its row says cancelled, and the others go on",
    Effect.gen(function* () {
      const { ask, collector, end, running, started } = yield* run(3, 3)
      yield* Queue.takeN(started, 3)
      const unknown = yield* Effect.flip(ask({ ask: "cancel", rollout: "7-0" }))
      assert.deepInclude(unknown, { kind: "refused" })
      assert.include(unknown.message, "no rollout 7-0 is under way")
      yield* ask({ ask: "cancel", rollout: "1-0" })
      yield* end
      const outcomes = yield* Fiber.join(running)
      const faults = outcomes.map((each) => [each.identity.rolloutId, each._tag === "Failed" ? each.fault : each._tag])
      assert.deepStrictEqual(Object.fromEntries(faults), { "0-0": "task", "1-0": "cancelled", "2-0": "task" })
      assert.deepInclude(yield* collector.summary, { failed: 3, unresolved: 0, retried: 0 })
    })
  )

  live(
    "refuses what is no request, and more places than there can be, and goes on answering",
    Effect.gen(function* () {
      const { ask, out, started } = yield* run(1, 1)
      yield* Queue.take(started)
      const many = yield* Effect.flip(ask({ ask: "concurrency", places: 9 }))
      assert.include(many.message, "at most 8 can run at a time")
      // Two requests on a connection that says nothing more afterwards, as `nc -U` makes it.
      const replies = (yield* raw(out, '{"ask":"concurrency","places":0}\n{"ask":"status"}\n')).trim().split("\n")
      assert.deepStrictEqual(
        replies.map((line) => JSON.parse(line).ok),
        [false, true]
      )
      for (const nonsense of ["GET / HTTP/1.1\r\n\r\n", '{"ask":"stop"}\n', "{\n"]) {
        assert.include(yield* raw(out, nonsense), "that is no request", nonsense)
      }
      // Nobody can fill the memory of a run with a line that has no end.
      assert.strictEqual(yield* raw(out, "x".repeat(1 << 20)), "")
      assert.strictEqual((yield* ask({ ask: "status" })).concurrency, 1)
    })
  )

  live(
    "is its owner's alone, however long the folder's path is, and leaves nothing behind",
    Effect.gen(function* () {
      const fs = yield* FileSystem.FileSystem
      // Longer than the path of a socket may be (unix(7): 108 bytes).
      const out = join(yield* fs.makeTempDirectoryScoped(), "d".repeat(120))
      yield* fs.makeDirectory(out)
      const { collector } = yield* run(1, 1)
      const scope = yield* Scope.make()
      yield* Scope.extend(Control.serve({ out, controlled: collector, most: 1 }), scope)
      const socket = readlinkSync(join(out, "control.sock"))
      assert.strictEqual(statSync(socket).mode & 0o777, 0o600)
      assert.strictEqual(statSync(dirname(socket)).mode & 0o777, 0o700)
      assert.strictEqual((yield* Control.ask(out, { ask: "status" })).pid, process.pid)
      yield* Scope.close(scope, Exit.void)
      assert.deepStrictEqual(yield* fs.readDirectory(out), [])
      assert.isFalse(existsSync(dirname(socket)))
      const gone = yield* Effect.flip(Control.ask(out, { ask: "status" }))
      assert.deepInclude(gone, { kind: "unreachable" })
      assert.include(gone.message, out)
    })
  )

  live(
    "takes the place of a run that was killed, and removes nothing that no run has made",
    Effect.gen(function* () {
      const fs = yield* FileSystem.FileSystem
      const { collector } = yield* run(1, 1)
      const left = mkdtempSync(join(tmpdir(), "deskhand-control-"))
      const foreign = yield* fs.makeTempDirectoryScoped()
      for (const folder of [left, foreign]) {
        const out = yield* fs.makeTempDirectoryScoped()
        const file = join(folder, "socket")
        yield* fs.writeFileString(file, "")
        symlinkSync(file, join(out, "control.sock"))
        const dead = yield* Effect.flip(Control.ask(out, { ask: "status" }))
        assert.include(dead.message, "killed")
        yield* Effect.scoped(
          Effect.gen(function* () {
            yield* Control.serve({ out, controlled: collector, most: 1 })
            assert.isTrue(lstatSync(join(out, "control.sock")).isSymbolicLink())
            yield* Control.ask(out, { ask: "status" })
          })
        )
      }
      assert.isFalse(existsSync(left))
      assert.isTrue(existsSync(join(foreign, "socket")))
    })
  )
})
