import * as FileSystem from "@effect/platform/FileSystem"
import * as NodeContext from "@effect/platform-node/NodeContext"
import { assert, describe, it } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Ref from "effect/Ref"
import * as Stream from "effect/Stream"
import type { RolloutProgram } from "../../src/rollout/Episode.js"
import { Evaluation } from "../../src/rollout/Evaluation.js"
import * as FailurePolicy from "../../src/rollout/FailurePolicy.js"
import { Failed, Scored, Step } from "../../src/rollout/Outcome.js"
import * as RolloutCollector from "../../src/rollout/RolloutCollector.js"
import { TaskRow } from "../../src/rollout/TaskRow.js"
import { AgentDone, MaxSteps } from "../../src/rollout/Termination.js"
import * as Simulator from "./simulator.js"

const scored: RolloutProgram<never> = (_, identity) =>
  Effect.succeed(
    new Scored({
      identity,
      termination: new AgentDone(),
      steps: [],
      milliseconds: 1,
      evaluation: new Evaluation({ score: 0.5, details: [] }),
      reward: 0
    })
  )

const failing: RolloutProgram<never> = (_, identity) =>
  Effect.succeed(new Failed({ identity, fault: "infrastructure", detail: "no desktop", milliseconds: 1 }))

const rows = (count: number) => Stream.range(0, count - 1).pipe(Stream.map(Simulator.row))

const collect = <R>(
  out: string,
  program: RolloutProgram<R>,
  options: {
    readonly count: number
    readonly groupSize?: number
    readonly resume?: boolean
    readonly concurrency?: number
    readonly more?: Partial<RolloutCollector.CollectOptions>
  }
) =>
  Effect.gen(function* () {
    const collector = yield* RolloutCollector.RolloutCollector
    const { count, groupSize = 1, concurrency = 2 } = options
    return yield* Stream.runCollect(
      collector.collect(rows(count), program, {
        runId: Simulator.runId,
        concurrency,
        groupSize,
        model: "test-model",
        failures: FailurePolicy.once,
        ...options.more
      })
    )
  }).pipe(Effect.provide(RolloutCollector.layer({ out, resume: options.resume ?? false })))

const readRows = (path: string) =>
  Effect.map(
    Effect.flatMap(FileSystem.FileSystem, (fs) => fs.readFileString(path)),
    (content) =>
      content
        .split("\n")
        .filter((line) => line !== "")
        .map((line) => JSON.parse(line))
  )

const withFolder = <A, E>(
  test: (out: string) => Effect.Effect<A, E, FileSystem.FileSystem | NodeContext.NodeContext>
) =>
  Effect.gen(function* () {
    const fs = yield* FileSystem.FileSystem
    return yield* test(yield* fs.makeTempDirectoryScoped())
  }).pipe(Effect.scoped, Effect.provide(NodeContext.layer))

describe("RolloutCollector", () => {
  it.effect("writes scored rollouts and failures apart, and only the first have a reward", () =>
    withFolder((out) =>
      Effect.gen(function* () {
        const mixed: RolloutProgram<never> = (row, identity) =>
          row.taskIndex % 2 === 0 ? scored(row, identity) : failing(row, identity)
        const outcomes = yield* collect(out, mixed, { count: 5, groupSize: 2 })
        assert.strictEqual(outcomes.length, 10)
        const rollouts = yield* readRows(`${out}/rollouts.jsonl`)
        const failures = yield* readRows(`${out}/failures.jsonl`)
        assert.strictEqual(rollouts.length, 6)
        assert.strictEqual(failures.length, 4)
        for (const row of rollouts) {
          assert.deepInclude(row, { reward: 0, mask_sample: false, outcome: "scored" })
          assert.strictEqual(row.verifier_metadata.osworld_score, 0.5)
          assert.strictEqual(row.response.model, "test-model")
        }
        for (const row of failures) {
          assert.deepInclude(row, {
            reward: null,
            mask_sample: true,
            outcome: "failed",
            _ng_failure_class: "infrastructure"
          })
        }
        assert.deepStrictEqual(rollouts.map((row) => row._ng_rollout_id).sort(), [
          "0-0",
          "0-1",
          "2-0",
          "2-1",
          "4-0",
          "4-1"
        ])
      })
    )
  )

  it.live("never runs more at a time than it was told, and reads no further than it runs", () =>
    withFolder((out) =>
      Effect.gen(function* () {
        const running = yield* Ref.make(0)
        const most = yield* Ref.make(0)
        const program: RolloutProgram<never> = (row, identity) =>
          Effect.acquireUseRelease(
            Ref.updateAndGet(running, (n) => n + 1).pipe(Effect.tap((n) => Ref.update(most, (m) => Math.max(m, n)))),
            () => Effect.delay(scored(row, identity), "5 millis"),
            () => Ref.update(running, (n) => n - 1)
          )
        yield* collect(out, program, { count: 40, concurrency: 3 })
        assert.strictEqual(yield* Ref.get(most), 3)
      })
    )
  )

  it.effect("refuses a folder that holds a run, unless it resumes it", () =>
    withFolder((out) =>
      Effect.gen(function* () {
        yield* collect(out, scored, { count: 1 })
        const error = yield* Effect.flip(collect(out, scored, { count: 1 }))
        assert.include(error.message, "--resume")
      })
    )
  )

  it.effect("resumes: keeps what is scored, tries the rest again under a new attempt, mends a torn line", () =>
    withFolder((out) =>
      Effect.gen(function* () {
        const fs = yield* FileSystem.FileSystem
        yield* collect(out, (row, identity) => (row.taskIndex === 1 ? failing : scored)(row, identity), { count: 3 })
        yield* fs.writeFileString(`${out}/rollouts.jsonl`, '{"_ng_task_index": 3, "_ng_ro', { flag: "a" })
        const outcomes = Array.from(yield* collect(out, scored, { count: 4, resume: true }))
        assert.deepStrictEqual(outcomes.map(({ identity }) => identity.rolloutId).sort(), ["1-0-a1", "3-0"])
        const rollouts = yield* readRows(`${out}/rollouts.jsonl`)
        assert.deepStrictEqual(rollouts.map((row) => row._ng_task_index).sort(), [0, 1, 2, 3])
        const again = yield* collect(out, scored, { count: 4, resume: true })
        assert.strictEqual(again.length, 0)
      })
    )
  )

  it.effect("gives a rollout the id that its row has, an attempt behind it, and refuses two of one id", () =>
    withFolder((out) =>
      Effect.gen(function* () {
        const named = new TaskRow({ ...Simulator.row(), rolloutId: "step1.prompt2" })
        const options = {
          runId: Simulator.runId,
          concurrency: 1,
          contract: Simulator.contract,
          failures: FailurePolicy.once
        }
        const run = (program: RolloutProgram<never>, groupSize: number) =>
          Effect.gen(function* () {
            const collector = yield* RolloutCollector.RolloutCollector
            const outcomes = collector.collect(Stream.make(named), program, { ...options, groupSize })
            return Array.from(yield* Stream.runCollect(outcomes))
          }).pipe(Effect.provide(RolloutCollector.layer({ out, resume: true })))
        yield* run(failing, 1)
        const [outcome] = yield* run(scored, 1)
        assert.strictEqual(outcome?.identity.rolloutId, "step1.prompt2-a1")
        const [failure] = yield* readRows(`${out}/failures.jsonl`)
        assert.strictEqual(failure._ng_rollout_id, "step1.prompt2")
        const [row] = yield* readRows(`${out}/rollouts.jsonl`)
        assert.deepStrictEqual(row.response.agent_contract, Simulator.contract)
        const error = yield* Effect.flip(run(scored, 2))
        assert.include(error.message, "the row of task-0 names its rollout, so it cannot have 2 of them")
      })
    )
  )

  it.effect("runs several rows of one task as the rollouts that they say", () =>
    withFolder((out) =>
      Effect.gen(function* () {
        const named = [0, 1, 2].map(
          (rolloutIndex) => new TaskRow({ ...Simulator.row(), rolloutIndex, attemptIndex: 2 })
        )
        const run = (program: RolloutProgram<never>) =>
          Effect.gen(function* () {
            const collector = yield* RolloutCollector.RolloutCollector
            const options = { runId: Simulator.runId, concurrency: 1, failures: FailurePolicy.once }
            const outcomes = collector.collect(Stream.fromIterable(named), program, options)
            return Array.from(yield* Stream.runCollect(outcomes), ({ identity }) => identity.rolloutId)
          }).pipe(Effect.provide(RolloutCollector.layer({ out, resume: true })))
        const some: RolloutProgram<never> = (row, identity) =>
          (row.rolloutIndex === 1 ? failing : scored)(row, identity)
        assert.deepStrictEqual(yield* run(some), ["0-0-a2", "0-1-a2", "0-2-a2"])
        assert.deepStrictEqual(yield* run(scored), ["0-1-a3"])
        const { finished } = yield* Effect.provide(
          RolloutCollector.RolloutCollector,
          RolloutCollector.layer({ out, resume: true })
        )
        assert.deepStrictEqual(Array.from(finished.scored.keys()).sort(), ["0-0", "0-1", "0-2"])
      })
    )
  )

  it.effect("keeps of a scored row what a report needs, and of a failure how often it was tried", () =>
    withFolder((out) =>
      Effect.gen(function* () {
        const step = new Step({
          step: 0,
          text: "a text that is not kept",
          actions: [],
          facts: [],
          screenshot: "0",
          observeMilliseconds: 1,
          decideMilliseconds: 1
        })
        const program: RolloutProgram<never> = (row, identity) =>
          row.taskIndex === 1
            ? failing(row, identity)
            : Effect.succeed(
                new Scored({
                  identity,
                  termination: new MaxSteps(),
                  steps: [step, step],
                  milliseconds: 1234,
                  evaluation: new Evaluation({ score: 0.25, details: [] }),
                  reward: 0
                })
              )
        yield* collect(out, program, { count: 2 })
        const { finished } = yield* Effect.provide(
          RolloutCollector.RolloutCollector,
          RolloutCollector.layer({ out, resume: true })
        )
        const kept = { reward: 0, score: 0.25, steps: 2, termination: "max_steps", milliseconds: 1234 }
        const failure = { class: "infrastructure", kind: "infrastructure", cause: "no desktop", attempt: 0 } as const
        assert.deepStrictEqual(finished, {
          scored: new Map([["0-0", kept]]),
          attempts: new Map([["1-0", 1]]),
          failed: new Map([["1-0", { ...failure, failures: { infrastructure: 1 } }]])
        })
      })
    )
  )

  it.effect("mends a torn line that is longer than one read, and a file that is one torn line", () =>
    withFolder((out) =>
      Effect.gen(function* () {
        const fs = yield* FileSystem.FileSystem
        yield* collect(out, scored, { count: 1 })
        yield* fs.writeFileString(`${out}/rollouts.jsonl`, `{"torn": "${"x".repeat(200_000)}`, { flag: "a" })
        yield* fs.writeFileString(`${out}/failures.jsonl`, '{"torn')
        yield* collect(out, scored, { count: 2, resume: true })
        assert.strictEqual((yield* readRows(`${out}/rollouts.jsonl`)).length, 2)
        assert.strictEqual((yield* readRows(`${out}/failures.jsonl`)).length, 0)
      })
    )
  )

  it.effect("has every finished outcome on disk when it is interrupted", () =>
    withFolder((out) =>
      Effect.gen(function* () {
        const reached = yield* Deferred.make<void>()
        const program: RolloutProgram<never> = (row, identity) =>
          row.taskIndex < 3
            ? scored(row, identity)
            : Effect.zipRight(Deferred.succeed(reached, undefined), Effect.never)
        const fiber = yield* Effect.fork(collect(out, program, { count: 6, concurrency: 1 }))
        yield* Deferred.await(reached)
        yield* Fiber.interrupt(fiber)
        assert.strictEqual((yield* readRows(`${out}/rollouts.jsonl`)).length, 3)
      })
    )
  )

  it.effect("stops with the file's name when the disk is full", () =>
    withFolder((out) =>
      Effect.gen(function* () {
        const fs = yield* FileSystem.FileSystem
        // /dev/full is a disk that is always full.
        yield* fs.symlink("/dev/full", `${out}/rollouts.jsonl`)
        const error = yield* Effect.flip(collect(out, scored, { count: 3 }))
        assert.include(error.message, `${out}/rollouts.jsonl`)
        assert.match(error.message, /no space left/i)
      })
    )
  )
})
