/** What a collector does with time: in virtual time, so that hours of it are seen. */
import * as FileSystem from "@effect/platform/FileSystem"
import * as NodeContext from "@effect/platform-node/NodeContext"
import { assert, describe, it } from "@effect/vitest"
import * as Chunk from "effect/Chunk"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Logger from "effect/Logger"
import * as Stream from "effect/Stream"
import { RunId } from "../../src/identity/Identity.js"
import { AdmissionOptions, Admissions, RampUp } from "../../src/rollout/Admissions.js"
import { BreakerOptions } from "../../src/rollout/CircuitBreaker.js"
import { DispatchBudget } from "../../src/rollout/DispatchBudget.js"
import type { RolloutProgram } from "../../src/rollout/Episode.js"
import { Evaluation } from "../../src/rollout/Evaluation.js"
import { ClassPolicy, FailurePolicy, once, standard } from "../../src/rollout/FailurePolicy.js"
import { Failed, Scored } from "../../src/rollout/Outcome.js"
import * as RolloutCollector from "../../src/rollout/RolloutCollector.js"
import type { TaskRow } from "../../src/rollout/TaskRow.js"
import { AgentDone } from "../../src/rollout/Termination.js"
import * as VirtualClock from "../../src/testing/VirtualClock.js"
import * as Simulator from "./simulator.js"

type Identity = Parameters<RolloutProgram<never>>[1]

const scored = (identity: Identity) =>
  new Scored({
    identity,
    termination: new AgentDone(),
    steps: [],
    milliseconds: 1,
    evaluation: new Evaluation({ score: 1, details: [] }),
    reward: 1
  })

const noDesktop = (identity: Identity, fault: Failed["fault"] = "infrastructure") =>
  new Failed({ identity, fault, detail: "no desktop", milliseconds: 1 })

/** When each attempt began, in milliseconds of virtual time, by id, in the order in which they did. */
type Starts = Array<readonly [string, number]>

const noted =
  (starts: Starts, program: RolloutProgram<never>): RolloutProgram<never> =>
  (row, identity) =>
    Effect.flatMap(Clock.currentTimeMillis, (now) => {
      starts.push([identity.rolloutId, now])
      return program(row, identity)
    })

const lasting =
  (milliseconds: (row: TaskRow) => number): RolloutProgram<never> =>
  (row, identity) =>
    Effect.as(Effect.sleep(milliseconds(row)), scored(identity))

type Collector = RolloutCollector.RolloutCollector["Type"]

interface Setting {
  readonly rows?: Stream.Stream<TaskRow>
  readonly program: RolloutProgram<never>
  readonly options: Omit<RolloutCollector.CollectOptions, "runId">
  readonly meanwhile?: (collector: Collector) => Effect.Effect<unknown>
}

const rows = (count: number) => Stream.map(Stream.range(0, count - 1), Simulator.row)

const collectIn = (out: string, setting: Setting) =>
  Effect.gen(function* () {
    const collector = yield* RolloutCollector.RolloutCollector
    const { meanwhile = () => Effect.void, options, program } = setting
    const outcomes = collector.collect(setting.rows ?? rows(20), program, {
      runId: Simulator.runId,
      failures: once,
      ...options
    })
    const [collected] = yield* Effect.all([Stream.runCollect(outcomes), meanwhile(collector)], {
      concurrency: "unbounded"
    })
    const summary = yield* collector.summary
    return { outcomes: Chunk.toReadonlyArray(collected), summary, ended: yield* Clock.currentTimeMillis }
  }).pipe(Effect.provide(RolloutCollector.layer({ out, resume: true })))

const inFolder = <A, E>(test: (out: string) => Effect.Effect<A, E, NodeContext.NodeContext>) =>
  Effect.flatMap(FileSystem.FileSystem, (fs) =>
    Effect.flatMap(fs.makeTempDirectoryScoped(), (out) => VirtualClock.run(test(out)))
  ).pipe(Effect.scoped, Effect.provide(NodeContext.layer))

const collect = (setting: Setting) => inFolder((out) => collectIn(out, setting))

const readRows = (file: string) =>
  Effect.map(
    Effect.flatMap(FileSystem.FileSystem, (fs) => fs.readFileString(file)),
    (text): ReadonlyArray<Record<string, unknown>> =>
      text
        .split("\n")
        .filter((line) => line !== "")
        .map((line) => JSON.parse(line))
  )

describe("Admission", () => {
  it.live("opens so many desktops at a time and a second, and runs more than that", () =>
    Effect.gen(function* () {
      let opening = 0
      let mostOpening = 0
      let running = 0
      let mostRunning = 0
      const starts: Starts = []
      const program: RolloutProgram<never> = (_, identity) =>
        Effect.gen(function* () {
          const admissions = yield* Admissions
          mostRunning = Math.max(mostRunning, ++running)
          mostOpening = Math.max(mostOpening, ++opening)
          yield* admissions.opening(
            Effect.ensuring(
              Effect.sleep(1_000),
              Effect.sync(() => opening--)
            )
          )
          yield* Effect.sleep(100_000)
          running--
          return scored(identity)
        })
      const admission = new AdmissionOptions({ creates: 2, createsPerSecond: 1.25 })
      const { outcomes } = yield* collect({ program: noted(starts, program), options: { concurrency: 10, admission } })
      assert.strictEqual(outcomes.length, 20)
      assert.deepStrictEqual([mostOpening, mostRunning], [2, 10])
      const gaps = starts.slice(1).map(([, at], index) => at - (starts[index]?.[1] ?? 0))
      assert.isAtLeast(Math.min(...gaps), 799)
    })
  )

  it.live("is fair over tasks: no task waits for all rollouts of the one before it", () =>
    Effect.gen(function* () {
      const starts: Starts = []
      yield* collect({
        rows: rows(4),
        program: noted(
          starts,
          lasting(() => 1_000)
        ),
        options: { concurrency: 4, groupSize: 16, admission: new AdmissionOptions({ maxResident: 64 }) }
      })
      // Rows are read while the first run, so those are of the first task; of each four that follow, all tasks have one.
      for (let first = 8; first < 48; first += 4) {
        const tasks = starts.slice(first, first + 4).map(([id]) => id.split("-")[0])
        assert.strictEqual(new Set(tasks).size, 4, `${first}: ${tasks}`)
      }
    })
  )

  it.live("holds no more rows than it was told, however many there are, and grows to its full number", () =>
    Effect.gen(function* () {
      let read = 0
      let ended = 0
      let most = 0
      const many = Stream.range(0, 149).pipe(
        Stream.rechunk(1),
        Stream.map((index) => {
          most = Math.max(most, ++read - ended)
          return Simulator.row(index)
        })
      )
      const starts: Starts = []
      const program: RolloutProgram<never> = (_, identity) =>
        Effect.map(Effect.sleep(1_000), () => {
          ended++
          return scored(identity)
        })
      const rampUp = new RampUp({ from: 1, milliseconds: 9_000 })
      const admission = new AdmissionOptions({ maxResident: 12, rampUp })
      const { outcomes } = yield* collect({
        rows: many,
        program: noted(starts, program),
        options: { concurrency: 10, admission }
      })
      assert.strictEqual(outcomes.length, 150)
      // What is between two stages of the stream is a chunk, and what is done waits to be taken.
      assert.isAtMost(most, 12 + 16 + 4)
      const begunBefore = (moment: number) => starts.filter(([, at]) => at < moment).length
      // One place in the first second and one more in each that follows: 1 + 2 + 3 + 4 are begun in the first four.
      assert.strictEqual(begunBefore(990), 1)
      assert.strictEqual(begunBefore(3_990), 10)
    })
  )

  it.live("starts the longest of those that wait first", () =>
    Effect.gen(function* () {
      const starts: Starts = []
      const duration = (row: TaskRow) => ((row.taskIndex * 7) % 20) * 1_000 + 1_000
      yield* collect({
        program: noted(starts, lasting(duration)),
        options: { concurrency: 1, longestFirst: duration, admission: new AdmissionOptions({ maxResident: 20 }) }
      })
      const tail = starts.slice(1).map(([id]) => duration(Simulator.row(Number(id.split("-")[0]))))
      assert.deepStrictEqual(
        tail,
        tail.slice().sort((a, b) => b - a)
      )
    })
  )
})

describe("Failures", () => {
  const twice = new FailurePolicy({
    ...standard,
    infrastructure: new ClassPolicy({ inRun: 2, inAll: 3, baseMilliseconds: 5_000 })
  })

  it.live("tries again after a wait, under another attempt, and keeps a row of each", () =>
    inFolder((out) =>
      Effect.gen(function* () {
        const starts: Starts = []
        const program = noted(starts, (_, identity) =>
          Effect.succeed(identity.attemptIndex === 0 ? noDesktop(identity) : scored(identity))
        )
        const { outcomes, summary } = yield* collectIn(out, {
          rows: rows(2),
          program,
          options: { concurrency: 1, failures: twice }
        })
        assert.deepStrictEqual(outcomes.map(({ _tag, identity }) => `${_tag} ${identity.rolloutId}`).sort(), [
          "Scored 0-0-a1",
          "Scored 1-0-a1"
        ])
        assert.deepInclude(summary, { finished: 2, failed: 0, retried: 2 })
        const at = new Map(starts)
        assert.isAtLeast((at.get("0-0-a1") ?? 0) - (at.get("0-0") ?? 0), 5_000)
        const [failure] = yield* readRows(`${out}/failures.jsonl`)
        assert.deepInclude(failure, {
          _ng_rollout_id: "0-0",
          reward: null,
          _ng_failure_class: "infrastructure",
          _ng_failure_kind: "infrastructure",
          _ng_failure_cause: "no desktop",
          _ng_failure_disposition: "retryable",
          _ng_failure_terminal: false
        })
      })
    )
  )

  it.live("counts over runs, gives up for good, and runs the healthy siblings", () =>
    inFolder((out) =>
      Effect.gen(function* () {
        const starts: Starts = []
        const setting: Setting = {
          rows: rows(1),
          program: noted(starts, (_, identity) =>
            Effect.succeed(identity.rolloutIndex === 1 ? noDesktop(identity) : scored(identity))
          ),
          options: { concurrency: 3, groupSize: 3, failures: twice }
        }
        const ids = () => starts.splice(0).map(([id]) => id)
        const first = yield* collectIn(out, setting)
        assert.deepInclude(first.summary, { finished: 2, failed: 1, retried: 1 })
        assert.deepStrictEqual(ids().sort(), ["0-0", "0-1", "0-1-a1", "0-2"])
        const second = yield* collectIn(out, setting)
        assert.deepInclude(second.summary, { finished: 0, failed: 1, earlier: 2 })
        assert.deepStrictEqual(ids(), ["0-1-a2"])
        const third = yield* collectIn(out, setting)
        assert.deepInclude(third.summary, { failed: 0, earlier: 3 })
        assert.deepStrictEqual(ids(), [])
        const failures = yield* readRows(`${out}/failures.jsonl`)
        assert.deepStrictEqual(
          failures.map((row) => row["_ng_failure_disposition"]),
          ["retryable", "retryable", "terminal"]
        )
      })
    )
  )

  it.live("makes one lost rollout of a program that dies, and never tries a wrong task again", () =>
    Effect.gen(function* () {
      const { outcomes, summary } = yield* collect({
        rows: rows(3),
        program: (row, identity) =>
          row.taskIndex === 0
            ? Effect.die(new Error("a bug"))
            : Effect.succeed(row.taskIndex === 1 ? noDesktop(identity, "task") : scored(identity)),
        options: { concurrency: 1, failures: standard }
      })
      assert.deepInclude(summary, { finished: 1, failed: 2, retried: 1 })
      const bug = outcomes.find(({ identity }) => identity.taskIndex === 0)
      assert.isTrue(bug?._tag === "Failed" && bug.fault === "defect" && bug.detail.includes("a bug"))
    })
  )
})

describe("Circuit breaker", () => {
  const breaker = new BreakerOptions({ failures: 4, coolDownMilliseconds: 60_000, probes: 2 })

  it.live("starts nothing while everything fails, and goes on after a probe", () =>
    Effect.gen(function* () {
      const starts: Starts = []
      const broken: RolloutProgram<never> = (_, identity) =>
        Effect.flatMap(Clock.currentTimeMillis, (now) =>
          Effect.as(Effect.sleep(1_000), now < 30_000 ? noDesktop(identity) : scored(identity))
        )
      const { summary } = yield* collect({ program: noted(starts, broken), options: { concurrency: 4, breaker } })
      // Four in a row open it; as each of them ends another may begin, until the last of them has.
      assert.isTrue(summary.failed >= 4 && summary.failed <= 7)
      assert.strictEqual(summary.finished, 20 - summary.failed)
      const moments = starts.map(([, at]) => at)
      assert.deepStrictEqual(
        moments.filter((at) => at > 1_000 && at < 61_000),
        []
      )
      assert.strictEqual(moments.filter((at) => at >= 61_000 && at < 62_000).length, 1, "one probe")
      assert.strictEqual(moments.filter((at) => at >= 62_000 && at < 63_000).length, 4, "then all places")
    })
  )

  it.live("gives up after so many probes, and says what was not started", () =>
    Effect.gen(function* () {
      const { ended, summary } = yield* collect({
        program: (_, identity) => Effect.as(Effect.sleep(1_000), noDesktop(identity)),
        options: { concurrency: 4, breaker }
      })
      // At least 4 and at most 7 as above, a probe after a minute, another after two more.
      assert.strictEqual(summary.finished, 0)
      assert.isTrue(summary.failed >= 6 && summary.failed <= 9)
      assert.deepStrictEqual(Array.from(summary.notStarted), [["circuit_open", 20 - summary.failed]])
      assert.isAtLeast(ended, 180_000)
    })
  )
})

describe("Budgets", () => {
  it.live("starts nothing past the time, ends what was started, and counts the rest", () =>
    Effect.gen(function* () {
      const starts: Starts = []
      const { ended, outcomes, summary } = yield* collect({
        program: noted(
          starts,
          lasting(() => 10_000)
        ),
        options: {
          concurrency: 2,
          budget: new DispatchBudget({ milliseconds: 60_000, drainMilliseconds: 15_000 })
        }
      })
      assert.isBelow(Math.max(...starts.map(([, at]) => at)), 45_000)
      assert.strictEqual(outcomes.length, 10)
      assert.deepStrictEqual(Array.from(summary.notStarted), [["time_budget", 10]])
      assert.isAtMost(ended, 60_000)
      assert.strictEqual(summary.latency.median, 10_000)
    })
  )

  it.live("stops at a ceiling of tokens", () =>
    Effect.gen(function* () {
      const program: RolloutProgram<never> = (_, identity) =>
        Effect.gen(function* () {
          const { spent } = yield* Admissions
          yield* spent({ promptTokens: 900, completionTokens: 100 })
          return scored(identity)
        })
      const { summary } = yield* collect({
        program,
        options: {
          concurrency: 1,
          budget: new DispatchBudget({ tokens: 5_000, prices: { promptMillion: 2, completionMillion: 10 } })
        }
      })
      assert.deepInclude(summary, { finished: 5, promptTokens: 4_500, completionTokens: 500 })
      assert.closeTo(summary.cost, 0.014, 1e-12)
      assert.deepStrictEqual(Array.from(summary.notStarted), [["token_budget", 15]])
    })
  )
})

/** What collections log, by level, each line as it is. */
const logging = (lines: Array<string>) =>
  Logger.replace(
    Logger.defaultLogger,
    Logger.make(({ logLevel, message }) => lines.push(`${logLevel.label} ${[message].flat().join(" ")}`))
  )

describe("Collections of one collector", () => {
  const spending: RolloutProgram<never> = (_, identity) =>
    Effect.flatMap(Admissions, ({ spent }) =>
      Effect.as(
        Effect.zipRight(Effect.sleep(10), spent({ promptTokens: 900, completionTokens: 100 })),
        scored(identity)
      )
    )

  const taskRows = (from: number, count: number) => Stream.map(Stream.range(from, from + count - 1), Simulator.row)

  const run = (name: string) => ({ runId: RunId.make(name), concurrency: 1, failures: once })

  it.live("have each its own budget, and count in one summary", () =>
    inFolder((out) =>
      Effect.gen(function* () {
        const lines: Array<string> = []
        yield* Effect.gen(function* () {
          const collector = yield* RolloutCollector.RolloutCollector
          const budget = new DispatchBudget({ tokens: 2_000, prices: { promptMillion: 2, completionMillion: 10 } })
          const step = (from: number, options: object) =>
            Effect.map(
              Stream.runCollect(collector.collect(taskRows(from, 3), spending, { ...run("r"), ...options })),
              Chunk.size
            )
          assert.strictEqual(yield* step(0, { budget }), 2)
          assert.deepStrictEqual(lines.splice(0), ["WARN not started: 1 (token_budget); go on with --resume"])
          assert.strictEqual(yield* step(10, {}), 3)
          assert.deepStrictEqual(lines.splice(0), [])
          assert.strictEqual(yield* step(20, { budget }), 2)
          assert.deepStrictEqual(lines, ["WARN not started: 1 (token_budget); go on with --resume"])
          const { cost, latency, notStarted, ...counts } = yield* collector.summary
          assert.deepStrictEqual(counts, {
            finished: 7,
            failed: 0,
            unresolved: 0,
            retried: 0,
            earlier: 0,
            duplicates: 0,
            promptTokens: 6_300,
            completionTokens: 700
          })
          assert.deepStrictEqual(Array.from(notStarted), [["token_budget", 2]])
          assert.strictEqual(latency.count, 7)
          assert.closeTo(cost, 0.0196, 1e-12)
        }).pipe(Effect.provide(RolloutCollector.layer({ out })), Effect.provide(logging(lines)))
      })
    )
  )

  it.live("say in one line what they pass over, whose it is and what to do", () =>
    inFolder((out) =>
      Effect.gen(function* () {
        const lines: Array<string> = []
        const step = (name: string, program = lasting(() => 1)) =>
          Effect.flatMap(RolloutCollector.RolloutCollector, (collector) =>
            Stream.runCollect(collector.collect(taskRows(0, 2), program, { ...run(name), groupSize: 2 }))
          ).pipe(Effect.map(Chunk.size))
        yield* Effect.gen(function* () {
          assert.strictEqual(yield* step("step-1"), 4)
          assert.deepStrictEqual(lines, [])
          assert.strictEqual(yield* step("step-2"), 0)
          assert.lengthOf(lines, 1)
          const said =
            "WARN rollouts passed over: 4 that this collector finished earlier for run step-1. A rollout is known"
          assert.include(lines[0], said)
          assert.include(lines[0], "examples/trainer.ts")
        }).pipe(Effect.provide(RolloutCollector.layer({ out })), Effect.provide(logging(lines)))
        lines.length = 0
        const resumed = Effect.fnUntraced(
          function* (name: string) {
            assert.strictEqual(yield* step(name), 0)
            return lines.splice(0)
          },
          Effect.provide(RolloutCollector.layer({ out, resume: true })),
          Effect.provide(logging(lines))
        )
        assert.deepStrictEqual(yield* resumed("step-1"), [
          "INFO rollouts passed over: 4 that were over before this run was resumed"
        ])
        const [line, ...others] = yield* resumed("step-3")
        assert.include(line, "WARN rollouts passed over: 4 that run step-1 finished earlier. A rollout is known")
        assert.deepStrictEqual(others, [])
      })
    )
  )
})

describe("Control", () => {
  it.live("pauses, goes on, changes how many run, cancels one and drains", () =>
    inFolder((out) =>
      Effect.gen(function* () {
        const starts: Starts = []
        const at = (milliseconds: number) =>
          Effect.flatMap(Clock.currentTimeMillis, (now) => Effect.sleep(milliseconds - now))
        const { outcomes, summary } = yield* collectIn(out, {
          program: noted(
            starts,
            lasting(() => 10_000)
          ),
          options: { concurrency: 2, admission: new AdmissionOptions({ maxResident: 20 }) },
          meanwhile: ({ control }) =>
            Effect.gen(function* () {
              yield* at(5_000)
              yield* control.pause
              assert.isTrue(yield* control.cancel("1-0"))
              assert.isFalse(yield* control.cancel("1-0-a9"))
              yield* at(30_000)
              const status = yield* control.status
              assert.deepInclude(status, { running: 0, waiting: 18, paused: true, draining: false })
              yield* control.concurrency(5)
              yield* control.resume
              yield* at(35_000)
              assert.strictEqual((yield* control.status).rollouts.length, 5)
              yield* control.drain
            })
        })
        assert.strictEqual(starts.length, 7)
        assert.deepInclude(summary, { finished: 6, failed: 1, retried: 0, unresolved: 0 })
        assert.deepStrictEqual(Array.from(summary.notStarted), [["drained", 13]])
        const cancelled = outcomes.find(({ identity }) => identity.rolloutId === "1-0")
        assert.deepInclude(cancelled, { _tag: "Failed", fault: "cancelled", milliseconds: 5_000 })
        const [row] = yield* readRows(`${out}/failures.jsonl`)
        assert.deepInclude(row, {
          _ng_rollout_id: "1-0",
          outcome: "failed",
          reward: null,
          mask_sample: true,
          evaluation_completed: false,
          runtime_admission_reason: "cancelled",
          _ng_failure_class: "cancelled",
          _ng_failure_kind: "cancelled",
          _ng_failure_disposition: "terminal",
          _ng_failure_terminal: true
        })
        assert.deepInclude(row?.["verifier_metadata"], { osworld_termination_reason: "cancelled", osworld_score: null })
        const again = yield* collectIn(out, { program: lasting(() => 1), options: { concurrency: 4 } })
        assert.deepInclude(again.summary, { finished: 13, earlier: 7 })
        assert.isFalse(again.outcomes.some(({ identity }) => identity.taskIndex === 1))
        const asked = new FailurePolicy({ ...once, cancelled: new ClassPolicy({ inRun: 1, inAll: 2 }) })
        const options = { concurrency: 4, failures: asked }
        const wanted = yield* collectIn(out, { program: lasting(() => 1), options })
        assert.deepInclude(wanted.summary, { finished: 1, earlier: 19 })
        assert.deepStrictEqual(
          wanted.outcomes.map(({ identity }) => identity.rolloutId),
          ["1-0-a1"]
        )
      })
    )
  )
})

describe("Attempts without a known end", () => {
  /** What a program that was killed in the middle of attempt `attempt` of the only rollout has left, once it is mended. */
  const killed = (out: string, attempt: number) =>
    Effect.flatMap(FileSystem.FileSystem, (fs) =>
      fs.writeFileString(
        `${out}/journal.jsonl`,
        ["dispatched", "unresolved"]
          .map((state) =>
            JSON.stringify({ v: 1, at: 0, rollout: "0-0", attempt, state, task: "task-0", cause: "it was killed" })
          )
          .join("\n")
          .concat("\n"),
        { flag: "a" }
      )
    )

  it.live("are tried again so often, then given up with a row, and tried again when somebody asks", () =>
    inFolder((out) =>
      Effect.gen(function* () {
        const stopped: Setting = { rows: rows(1), program: () => Effect.never, options: { concurrency: 1 } }
        // Whoever stops a run says nothing of its rollouts, however often.
        for (let time = 0; time < 5; time++) yield* Effect.timeoutOption(collectIn(out, stopped), 1_000)
        for (const attempt of [5, 6]) yield* killed(out, attempt)
        const starts: Starts = []
        const setting: Setting = {
          ...stopped,
          program: noted(starts, (_, identity) => Effect.succeed(noDesktop(identity)))
        }
        // The second one that was killed leaves one try.
        const tried = yield* collectIn(out, setting)
        assert.deepInclude(tried.summary, { failed: 1, earlier: 0 })
        assert.deepStrictEqual(
          starts.splice(0).map(([id]) => id),
          ["0-0-a7"]
        )
        yield* killed(out, 8)
        const given = yield* collectIn(out, setting)
        assert.deepInclude(given.summary, { failed: 0, unresolved: 0, earlier: 1 })
        assert.deepStrictEqual([given.outcomes.length, starts.length], [0, 0])
        const row = (yield* readRows(`${out}/failures.jsonl`)).at(-1)
        assert.deepInclude(row, {
          _ng_rollout_id: "0-0-a8",
          _ng_attempt_index: 8,
          outcome: "unresolved",
          reward: null,
          mask_sample: true,
          _ng_failure_class: "unresolved",
          _ng_failure_cause: "it was begun 3 times, and each time the program was gone before it ended",
          _ng_failure_disposition: "terminal",
          _ng_failure_terminal: true
        })
        // Once: a run that goes on after that finds it over, and writes nothing more.
        assert.deepInclude((yield* collectIn(out, setting)).summary, { failed: 0, earlier: 1 })
        assert.strictEqual((yield* readRows(`${out}/failures.jsonl`)).length, 2)
        const more = new FailurePolicy({ ...once, unresolved: new ClassPolicy({ inRun: 1, inAll: 4 }) })
        const asked = yield* collectIn(out, {
          ...setting,
          program: noted(
            starts,
            lasting(() => 1)
          ),
          options: { concurrency: 1, failures: more }
        })
        assert.deepInclude(asked.summary, { finished: 1, earlier: 0 })
        assert.deepStrictEqual(
          starts.map(([id]) => id),
          ["0-0-a9"]
        )
      })
    )
  )
})

describe("Rows", () => {
  it.live("are each for one rollout: a second one is passed over and counted, a negative repeat refused", () =>
    Effect.gen(function* () {
      const same = Stream.make(Simulator.row(0), Simulator.row(1), Simulator.row(0))
      const { outcomes, summary } = yield* collect({
        rows: same,
        program: lasting(() => 1),
        options: { concurrency: 2 }
      })
      assert.strictEqual(outcomes.length, 2)
      assert.strictEqual(summary.duplicates, 1)
      const refused = collect({ program: lasting(() => 1), options: { concurrency: 1, groupSize: -1 } })
      assert.include((yield* Effect.flip(refused)).message, "the number of rollouts of each task is -1")
    })
  )
})
