import { assert, describe, it } from "@effect/vitest"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as TestClock from "effect/TestClock"
import { ModelError } from "../../src/model/ModelError.js"
import { type Agent, Decision } from "../../src/rollout/Agent.js"
import { type Environment, EnvironmentError, EvaluationFailed, StepFacts } from "../../src/rollout/Environment.js"
import { program } from "../../src/rollout/Episode.js"
import { EpisodeLimits } from "../../src/rollout/EpisodeLimits.js"
import { Evaluation } from "../../src/rollout/Evaluation.js"
import { Evidence, EvidenceError, type EvidenceRecord } from "../../src/rollout/Evidence.js"
import { reason } from "../../src/rollout/Termination.js"
import * as Simulator from "./simulator.js"

const act = (action: string) => Decision.Act({ action })

const run = (
  environment: Environment<string>,
  agent: Agent<string>,
  options: { readonly limits?: Partial<EpisodeLimits>; readonly evidence?: Layer.Layer<Evidence> } = {}
) =>
  program({ environment, agent, limits: EpisodeLimits.make({ maxSteps: 3, ...options.limits }) })(
    Simulator.row(),
    Simulator.identity()
  ).pipe(Effect.provide(options.evidence ?? Simulator.evidence()))

const infrastructure = (message: string) =>
  new EnvironmentError({ phase: "step", fault: "infrastructure", reason: message })

describe("Episode.program", () => {
  it.effect("observes, acts, closes the agent, evaluates, closes the environment", () =>
    Effect.gen(function* () {
      const trace: Simulator.Trace = []
      const records: Array<EvidenceRecord> = []
      const outcome = yield* run(
        Simulator.environment(trace),
        Simulator.agent(trace, [[act("a"), act("b")], [Decision.Done()]]),
        { evidence: Simulator.evidence(records) }
      )
      assert.deepStrictEqual(trace, [
        "open",
        "agent open",
        "observe",
        "step a",
        "step b",
        "observe",
        "observe",
        "agent close",
        "evaluate",
        "close"
      ])
      assert.strictEqual(outcome._tag, "Scored")
      if (outcome._tag === "Scored") {
        assert.strictEqual(reason(outcome.termination), "agent_done")
        assert.strictEqual(outcome.reward, 1)
        assert.deepStrictEqual(
          outcome.steps.map(({ actions }) => actions),
          [["a", "b"], ["DONE"]]
        )
      }
      assert.deepStrictEqual(
        records.map(({ _tag }) => _tag),
        ["Observed", "Acted", "Acted", "Observed", "Observed", "Ended", "Evaluated"]
      )
    })
  )

  it.effect("adds nothing at the step cap, and evaluates", () =>
    Effect.gen(function* () {
      const trace: Simulator.Trace = []
      const outcome = yield* run(
        Simulator.environment(trace),
        Simulator.agent(trace, [[act("a")], [act("b")], [act("c")]])
      )
      assert.strictEqual(outcome._tag, "Scored")
      if (outcome._tag === "Scored") {
        assert.strictEqual(reason(outcome.termination), "max_steps")
        assert.deepStrictEqual(
          outcome.steps.flatMap(({ actions }) => actions),
          ["a", "b", "c"]
        )
      }
    })
  )

  it.effect("spends a step on an empty reply, and looks again", () =>
    Effect.gen(function* () {
      const trace: Simulator.Trace = []
      const outcome = yield* run(
        Simulator.environment(trace),
        Simulator.agent(trace, [[], [Decision.Wait()], [Decision.Fail()]])
      )
      assert.deepStrictEqual(
        trace.filter((event) => event === "observe" || event === "wait"),
        ["observe", "observe", "wait", "observe", "observe"]
      )
      assert.strictEqual(outcome._tag === "Scored" && reason(outcome.termination), "agent_fail")
    })
  )

  it.effect("carries out nothing after a word that ends the episode", () =>
    Effect.gen(function* () {
      const trace: Simulator.Trace = []
      yield* run(Simulator.environment(trace), Simulator.agent(trace, [[act("a"), Decision.Done(), act("b")]]))
      assert.include(trace, "step a")
      assert.notInclude(trace, "step b")
    })
  )

  it.effect("takes the environment's word that the episode is over", () =>
    Effect.gen(function* () {
      const step = () => Effect.succeed(new StepFacts({ milliseconds: 1, done: true }))
      const outcome = yield* run(Simulator.environment([], { step }), Simulator.agent([], [[act("a")]]))
      assert.strictEqual(outcome._tag === "Scored" && reason(outcome.termination), "environment_done")
    })
  )

  describe("makes no reward from a failure", () => {
    const model = (reason: ModelError["reason"]) =>
      Effect.fail(new ModelError({ reason, url: "http://127.0.0.1:1/v1", detail: "no" }))
    const never = Simulator.agent([], [])
    const acting = Simulator.agent([], [[act("a")]])
    const cases: ReadonlyArray<readonly [string, Environment<string>, Agent<string>, string, Layer.Layer<Evidence>?]> =
      [
        [
          "a model that cannot be reached",
          Simulator.environment([]),
          Simulator.agent([], [], model("transport")),
          "model_call_failed"
        ],
        [
          "a model that takes too long",
          Simulator.environment([]),
          Simulator.agent([], [], model("timeout")),
          "model_timeout"
        ],
        [
          "a prompt that is too long",
          Simulator.environment([]),
          Simulator.agent([], [], model("context_overflow")),
          "model_context_overflow"
        ],
        [
          "an observation that fails",
          Simulator.environment([], { observe: Effect.fail(infrastructure("no screen")) }),
          never,
          "environment_failed"
        ],
        [
          "a step that fails",
          Simulator.environment([], { step: () => Effect.fail(infrastructure("no answer")) }),
          acting,
          "environment_failed"
        ],
        ["a step that hangs", Simulator.environment([], { step: () => Effect.never }), acting, "action_timeout"],
        [
          "an environment that is lost",
          Simulator.environment([], { lost: Effect.delay(Effect.fail(infrastructure("gone")), "1 second") }),
          never,
          "environment_lost"
        ],
        ["an episode that does not end", Simulator.environment([]), never, "timeout"],
        [
          "an evaluator that cannot decide",
          Simulator.environment([], { evaluate: () => Effect.fail(new EvaluationFailed({ reason: "no gold" })) }),
          Simulator.agent([], [[Decision.Done()]]),
          "evaluator_error"
        ],
        [
          "an evaluator that hangs",
          Simulator.environment([], { evaluate: () => Effect.never }),
          Simulator.agent([], [[Decision.Done()]]),
          "timeout"
        ],
        [
          "an evaluator with a bug",
          Simulator.environment([], { evaluate: () => Effect.dieMessage("bug") }),
          Simulator.agent([], [[Decision.Done()]]),
          "evaluator_error"
        ],
        [
          "an environment with a bug",
          Simulator.environment([], { step: () => Effect.dieMessage("bug") }),
          acting,
          "rollout_error"
        ],
        [
          "evidence that cannot be written",
          Simulator.environment([]),
          acting,
          "evidence_failed",
          Layer.succeed(Evidence, {
            open: () =>
              Effect.succeed({ append: () => Effect.fail(new EvidenceError({ path: "x", reason: "no space" })) })
          })
        ]
      ]
    for (const [name, environment, agent, expected, evidence] of cases) {
      it.effect(name, () =>
        Effect.gen(function* () {
          const fiber = yield* Effect.fork(run(environment, agent, evidence === undefined ? {} : { evidence }))
          yield* TestClock.adjust(Duration.hours(1))
          const outcome = yield* Fiber.join(fiber)
          assert.strictEqual(outcome._tag, "Masked")
          if (outcome._tag === "Masked") assert.strictEqual(outcome.reason, expected)
        })
      )
    }

    it.effect("an environment that does not open", () =>
      Effect.gen(function* () {
        const trace: Simulator.Trace = []
        const open = Effect.fail(new EnvironmentError({ phase: "open", fault: "task", reason: "no such file" }))
        const outcome = yield* run(Simulator.environment(trace, { open }), never)
        assert.deepInclude({ ...outcome }, { _tag: "Failed", fault: "task", detail: "no such file" })
        assert.deepStrictEqual(trace, ["open", "close"])
      })
    )

    it.effect("an environment that never opens", () =>
      Effect.gen(function* () {
        const trace: Simulator.Trace = []
        const fiber = yield* Effect.fork(run(Simulator.environment(trace, { open: Effect.never }), never))
        yield* TestClock.adjust(Duration.hours(1))
        const outcome = yield* Fiber.join(fiber)
        assert.strictEqual(outcome._tag, "Failed")
        assert.deepStrictEqual(trace, ["open", "close"])
      })
    )
  })

  it.effect("closes all that it opened wherever it is interrupted", () =>
    Effect.gen(function* () {
      // Every operation takes a second of test time, so interrupting after n half seconds visits every place in turn.
      const slow = Effect.sleep("1 second")
      for (let halves = 0; halves < 24; halves++) {
        const trace: Simulator.Trace = []
        const environment = Simulator.environment(trace, {
          open: slow,
          observe: Effect.as(slow, Simulator.observation),
          step: () => Effect.as(slow, new StepFacts({ milliseconds: 1, done: false })),
          evaluate: () => Effect.as(slow, new Evaluation({ score: 1, details: [] }))
        })
        const fiber = yield* Effect.fork(
          run(environment, Simulator.agent(trace, [[act("a")], [act("b")], [Decision.Done()]]))
        )
        yield* TestClock.adjust(Duration.millis(500 * halves))
        const exit = yield* Fiber.interrupt(fiber)
        const count = (event: string) => trace.filter((other) => other === event).length
        assert.strictEqual(count("open"), count("close"), `after ${halves} half seconds: ${trace}`)
        assert.strictEqual(count("agent open"), count("agent close"), `after ${halves} half seconds: ${trace}`)
        if (Exit.isSuccess(exit)) assert.strictEqual(exit.value._tag, "Scored")
      }
    })
  )
})
