/** Folders as crashes, copies and full disks leave them, and what a resumed run makes of them. */
import * as FileSystem from "@effect/platform/FileSystem"
import * as NodeContext from "@effect/platform-node/NodeContext"
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Logger from "effect/Logger"
import * as Stream from "effect/Stream"
import type { RolloutProgram } from "../../src/rollout/Episode.js"
import { Evaluation } from "../../src/rollout/Evaluation.js"
import { once } from "../../src/rollout/FailurePolicy.js"
import { Failed, Scored } from "../../src/rollout/Outcome.js"
import * as RolloutCollector from "../../src/rollout/RolloutCollector.js"
import { AgentDone } from "../../src/rollout/Termination.js"
import * as Simulator from "./simulator.js"

/** What is wrong with a row's content does not matter here; the attempt is told by its reward. */
const program: RolloutProgram<never> = (_, identity) =>
  Effect.succeed(
    new Scored({
      identity,
      termination: new AgentDone(),
      steps: [],
      milliseconds: 1,
      evaluation: new Evaluation({ score: 1, details: [] }),
      reward: identity.attemptIndex
    })
  )

const failing: RolloutProgram<never> = (_, identity) =>
  Effect.succeed(new Failed({ identity, fault: "infrastructure", detail: "no desktop", milliseconds: 1 }))

const tasks = 3

const collect = (out: string, run: RolloutProgram<never> = program) =>
  Effect.gen(function* () {
    const collector = yield* RolloutCollector.RolloutCollector
    const rows = Stream.map(Stream.range(0, tasks - 1), Simulator.row)
    const outcomes = yield* Stream.runCollect(
      collector.collect(rows, run, { runId: Simulator.runId, concurrency: 1, failures: once })
    )
    return Array.from(outcomes, ({ identity }) => identity.rolloutId)
  }).pipe(Effect.provide(RolloutCollector.layer({ out, resume: true })))

const linesOf = (file: string) =>
  Effect.map(
    Effect.flatMap(FileSystem.FileSystem, (fs) => fs.readFileString(file)),
    (text) => text.split("\n").filter((line) => line !== "")
  )

const write = (file: string, lines: ReadonlyArray<string>) =>
  Effect.flatMap(FileSystem.FileSystem, (fs) => fs.writeFileString(file, lines.map((line) => `${line}\n`).join("")))

const ids = (file: string) =>
  Effect.map(linesOf(file), (lines) => lines.map((line): string => JSON.parse(line)._ng_rollout_id).sort())

/** Runs a test with what is logged on the way. */
const inFolder = <A, E>(
  test: (out: string, logged: ReadonlyArray<string>) => Effect.Effect<A, E, NodeContext.NodeContext>
) => {
  const logged: Array<string> = []
  const logger = Logger.make(({ message }) => void logged.push(String(message)))
  return Effect.flatMap(FileSystem.FileSystem, (fs) =>
    Effect.flatMap(fs.makeTempDirectoryScoped(), (out) => test(out, logged))
  ).pipe(Effect.scoped, Effect.provide(Logger.replace(Logger.defaultLogger, logger)), Effect.provide(NodeContext.layer))
}

describe("A folder that is resumed", () => {
  it.live("takes a row whose line is missing from the journal", () =>
    inFolder((out) =>
      Effect.gen(function* () {
        yield* collect(out)
        const journal = yield* linesOf(`${out}/journal.jsonl`)
        // Killed between the row and the line; and a journal that is not there at all.
        for (const kept of [journal.slice(0, -1), []]) {
          yield* write(`${out}/journal.jsonl`, kept)
          assert.deepStrictEqual(yield* collect(out), [])
          assert.deepStrictEqual(yield* ids(`${out}/rollouts.jsonl`), ["0-0", "1-0", "2-0"])
        }
      })
    )
  )

  it.live("runs a rollout again whose row is missing, and says so", () =>
    inFolder((out, logged) =>
      Effect.gen(function* () {
        yield* collect(out)
        const rows = yield* linesOf(`${out}/rollouts.jsonl`)
        yield* write(`${out}/rollouts.jsonl`, rows.slice(1))
        assert.deepStrictEqual(yield* collect(out), ["0-0-a1"])
        assert.deepStrictEqual(yield* ids(`${out}/rollouts.jsonl`), ["0-0-a1", "1-0", "2-0"])
        assert.isTrue(
          logged.some((line) => line.includes("the row of rollout 0-0, attempt 0, is missing; it runs again"))
        )
        assert.deepStrictEqual(yield* collect(out), [])
      })
    )
  )

  it.live("keeps one row of each rollout: the newest attempt's, and the first of two of one", () =>
    inFolder((out, logged) =>
      Effect.gen(function* () {
        yield* collect(out)
        const rows = yield* linesOf(`${out}/rollouts.jsonl`)
        yield* write(`${out}/rollouts.jsonl`, rows.slice(1))
        yield* collect(out)
        // The row of the old attempt comes back, late; and the file is copied onto its own end.
        const now = yield* linesOf(`${out}/rollouts.jsonl`)
        yield* write(`${out}/rollouts.jsonl`, [...rows.slice(0, 1), ...now, ...now])
        assert.deepStrictEqual(yield* collect(out), [])
        assert.deepStrictEqual(yield* ids(`${out}/rollouts.jsonl`), ["0-0-a1", "1-0", "2-0"])
        assert.deepStrictEqual(yield* ids(`${out}/rollouts.superseded.jsonl`), ["0-0", "0-0-a1", "1-0", "2-0"])
        assert.isTrue(logged.some((line) => line.includes("rollouts.jsonl:1: another row of rollout 0-0")))
      })
    )
  )

  it.live("says which lines it cannot read, and leaves them where they are", () =>
    inFolder((out, logged) =>
      Effect.gen(function* () {
        const fs = yield* FileSystem.FileSystem
        yield* collect(out)
        const rows = yield* linesOf(`${out}/rollouts.jsonl`)
        yield* write(`${out}/rollouts.jsonl`, [...rows.slice(0, 2), '{"not": "a row"}', "\u2028", ...rows.slice(2)])
        yield* fs.writeFileString(`${out}/rollouts.jsonl`, '{"torn', { flag: "a" })
        assert.deepStrictEqual(yield* collect(out), [])
        assert.isTrue(logged.some((line) => line.includes("rollouts.jsonl:3: a line that is no scored row")))
        assert.isTrue(logged.some((line) => line.includes("the last line was torn by a crash; 6 bytes were cut off")))
        assert.strictEqual((yield* linesOf(`${out}/rollouts.jsonl`)).length, 5)
      })
    )
  )

  it.live("counts a failure whose line is missing from the journal, and each failure once", () =>
    inFolder((out) =>
      Effect.gen(function* () {
        yield* collect(out, failing)
        const journal = yield* linesOf(`${out}/journal.jsonl`)
        yield* write(`${out}/journal.jsonl`, journal.slice(0, -1))
        const failures = yield* linesOf(`${out}/failures.jsonl`)
        yield* write(`${out}/failures.jsonl`, [...failures, ...failures])
        const { finished } = yield* Effect.provide(
          RolloutCollector.RolloutCollector,
          RolloutCollector.layer({ out, resume: true })
        )
        assert.deepStrictEqual(
          Array.from(finished.failed.values(), ({ failures }) => failures),
          [{ infrastructure: 1 }, { infrastructure: 1 }, { infrastructure: 1 }]
        )
        assert.strictEqual((yield* linesOf(`${out}/failures.jsonl`)).length, 3)
        assert.deepStrictEqual((yield* collect(out)).sort(), ["0-0-a1", "1-0-a1", "2-0-a1"])
      })
    )
  )

  it.live("belongs to one run at a time", () =>
    inFolder((out) =>
      Effect.gen(function* () {
        const error = yield* Effect.flip(
          Effect.provide(
            Effect.scoped(Effect.zipRight(RolloutCollector.RolloutCollector, collect(out))),
            RolloutCollector.layer({ out })
          )
        )
        assert.include(error.message, `${out}/lock: process ${process.pid} on`)
      })
    )
  )

  it.live("keeps a row of 50 MB", () =>
    inFolder((out) =>
      Effect.gen(function* () {
        const long: RolloutProgram<never> = (row, identity) =>
          Effect.map(program(row, identity), (outcome) =>
            outcome._tag === "Scored" && row.taskIndex === 0
              ? new Scored({ ...outcome, evaluation: new Evaluation({ score: 1, details: ["x".repeat(50_000_000)] }) })
              : outcome
          )
        yield* collect(out, long)
        assert.deepStrictEqual(yield* collect(out), [])
        assert.deepStrictEqual(
          (yield* linesOf(`${out}/rollouts.jsonl`)).map((line) => line.length > 50_000_000),
          [true, false, false]
        )
      })
    )
  )
})
