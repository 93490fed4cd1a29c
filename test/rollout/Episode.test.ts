import { assert, describe, it } from "@effect/vitest"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as TestClock from "effect/TestClock"
import { ModelError } from "../../src/model/ModelError.js"
import { type Agent, AgentError, CallFailed, Decision, ParseFailure, Reading } from "../../src/rollout/Agent.js"
import { contractId, withMaxSteps } from "../../src/rollout/Contract.js"
import { type Environment, EnvironmentError, EvaluationFailed, StepFacts } from "../../src/rollout/Environment.js"
import { program } from "../../src/rollout/Episode.js"
import { EpisodeLimits } from "../../src/rollout/EpisodeLimits.js"
import { Evaluation } from "../../src/rollout/Evaluation.js"
import { Evidence, EvidenceError, type EvidenceRecord } from "../../src/rollout/Evidence.js"
import { PolicyStop, reason } from "../../src/rollout/Termination.js"
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

const stop = (kind: PolicyStop["kind"], modelCallCompleted = true) =>
  new PolicyStop({ kind, attempts: 2, modelCallCompleted, detail: "no fence" })

const unread = (kind: ParseFailure["kind"]) => Simulator.replied(new ParseFailure({ kind, message: "no" }))

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
        ["Started", "Observed", "Acted", "Acted", "Observed", "Observed", "Ended", "Evaluated"]
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

  it.effect("takes a word that comes at the step cap for what it is", () =>
    Effect.gen(function* () {
      const done = yield* run(Simulator.environment([]), Simulator.agent([], [[act("a"), Decision.Done()]]), {
        limits: { maxSteps: 1 }
      })
      assert.strictEqual(done._tag === "Scored" && reason(done.termination), "agent_done")
      const step = () => Effect.succeed(new StepFacts({ milliseconds: 1, done: true }))
      const over = yield* run(Simulator.environment([], { step }), Simulator.agent([], [[act("a")]]), {
        limits: { maxSteps: 1 }
      })
      assert.strictEqual(over._tag === "Scored" && reason(over.termination), "environment_done")
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
          "model_call_failed"
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
        ["a model that never answers", Simulator.environment([]), never, "model_timeout"],
        ["an observation that hangs", Simulator.environment([], { observe: Effect.never }), never, "timeout"],
        [
          "an agent that asks for ever",
          Simulator.environment([]),
          Simulator.deciding(({ record }, step) =>
            record(Simulator.call(step, 0, unread("unparseable"))).pipe(Effect.delay("10 minutes"), Effect.forever)
          ),
          "timeout"
        ],
        [
          "an agent that cannot go on",
          Simulator.environment([]),
          Simulator.deciding(() => new AgentError({ reason: "no picture" })),
          "rollout_error"
        ],
        [
          "an agent that stops and acts",
          Simulator.environment([]),
          Simulator.deciding(() =>
            Effect.succeed({ decisions: [Decision.Done()], text: "", stop: stop("model_response_empty") })
          ),
          "rollout_error"
        ],
        [
          "a policy that stops without an answer",
          Simulator.environment([]),
          Simulator.deciding(() =>
            Effect.succeed({ decisions: [], text: "", stop: stop("model_context_overflow", false) })
          ),
          "model_call_failed"
        ],
        [
          "an environment that is lost in the evaluation",
          Simulator.environment([], {
            evaluate: () => Effect.never,
            lost: Effect.delay(Effect.fail(infrastructure("gone")), "1 second")
          }),
          Simulator.agent([], [[Decision.Done()]]),
          "environment_lost"
        ],
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
              Effect.succeed({
                append: ({ _tag }) =>
                  _tag === "Started" ? Effect.void : Effect.fail(new EvidenceError({ path: "x", reason: "no space" }))
              })
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

  it.effect("scores a policy that stopped after an answer, and adds no word to it", () =>
    Effect.gen(function* () {
      const trace: Simulator.Trace = []
      const outcome = yield* run(
        Simulator.environment(trace, { evaluate: () => Effect.succeed(new Evaluation({ score: 0, details: [] })) }),
        Simulator.deciding(() =>
          Effect.succeed({ decisions: [], text: "I will think", stop: stop("model_response_unparseable") })
        )
      )
      assert.strictEqual(outcome._tag, "Scored")
      if (outcome._tag !== "Scored") return
      assert.strictEqual(reason(outcome.termination), "model_response_unparseable")
      assert.deepStrictEqual(
        outcome.steps.map(({ actions, text }) => ({ actions, text })),
        [{ actions: [], text: "I will think" }]
      )
      assert.include(trace, "evaluate")
    })
  )

  it.effect("puts each call on record at once, and tells in the step what its calls came to", () =>
    Effect.gen(function* () {
      const records: Array<EvidenceRecord> = []
      const overflow = new CallFailed({
        error: new ModelError({ reason: "context_overflow", url: "http://127.0.0.1:1/v1", detail: "too long" })
      })
      const calls = [
        Simulator.call(0, 0, overflow, { images: 3 }),
        Simulator.call(0, 1, unread("truncated"), { images: 2, limit: 2 }),
        Simulator.call(0, 2, unread("unparseable"), { images: 2, limit: 2 }),
        Simulator.call(0, 3, Simulator.replied(new Reading({ decisions: ["a"], thought: "hm", code: "a" })), {
          images: 2
        })
      ]
      const outcome = yield* run(
        Simulator.environment([]),
        Simulator.deciding(({ record }, step) =>
          step === 0
            ? Effect.as(Effect.forEach(calls, record), { decisions: [act("a")], text: "click" })
            : Effect.succeed({ decisions: [Decision.Done()], text: "DONE" })
        ),
        { evidence: Simulator.evidence(records) }
      )
      assert.deepStrictEqual(
        records.flatMap((record) => (record._tag === "Called" ? [record.call] : [])),
        calls
      )
      assert.deepStrictEqual(records.map(({ _tag }) => _tag).slice(0, 7), [
        "Started",
        "Observed",
        "Called",
        "Called",
        "Called",
        "Called",
        "Acted"
      ])
      assert.strictEqual(outcome._tag, "Scored")
      if (outcome._tag !== "Scored") return
      const [first, second] = outcome.steps
      assert.deepStrictEqual(
        { ...first?.calls },
        {
          count: 4,
          failures: { context_overflow: 1, output_truncated: 1, unparseable: 1 },
          shrinks: [{ parseAttempt: 0, fromImages: 3, toImages: 2 }],
          thought: "hm",
          code: "a"
        }
      )
      assert.isUndefined(second?.calls)
    })
  )

  it.effect("gives every call of a step its time, and no more", () =>
    Effect.gen(function* () {
      const asking = (minutes: ReadonlyArray<number>) =>
        Simulator.deciding(({ record }, step) =>
          Effect.forEach(minutes, (minute, attempt) =>
            Effect.delay(record(Simulator.call(step, attempt, unread("empty"))), Duration.minutes(minute))
          ).pipe(Effect.as({ decisions: [Decision.Done()], text: "DONE" }))
        )
      const limits = { modelTimeout: Duration.minutes(5), episodeTimeout: Duration.minutes(30) }
      const ended = (minutes: ReadonlyArray<number>) =>
        Effect.gen(function* () {
          const fiber = yield* Effect.fork(run(Simulator.environment([]), asking(minutes), { limits }))
          yield* TestClock.adjust(Duration.hours(1))
          const outcome = yield* Fiber.join(fiber)
          return outcome._tag === "Scored" || outcome._tag === "Masked" ? reason(outcome.termination) : outcome._tag
        })
      assert.strictEqual(yield* ended([4, 4, 4]), "agent_done")
      assert.strictEqual(yield* ended([4, 6, 4]), "model_timeout")
      // The attempt's time holds whatever each call takes.
      assert.strictEqual(yield* ended([4, 4, 4, 4, 4, 4, 4, 4]), "timeout")
    })
  )

  it.effect("gives every action its time from its own beginning", () =>
    Effect.gen(function* () {
      // Minutes that actions take, of which one may take 3: whenever the watch looks, the last begins between two looks.
      const ended = (minutes: ReadonlyArray<number>) =>
        Effect.gen(function* () {
          const step = (action: string) =>
            Effect.delay(
              Effect.succeed(new StepFacts({ milliseconds: 1, done: false })),
              Duration.minutes(Number(action))
            )
          const agent = Simulator.agent([], [...minutes.map((minute) => [act(String(minute))]), [Decision.Done()]])
          const fiber = yield* Effect.fork(run(Simulator.environment([], { step }), agent, { limits: { maxSteps: 9 } }))
          yield* TestClock.adjust(Duration.hours(1))
          const outcome = yield* Fiber.join(fiber)
          if (outcome._tag !== "Scored" && outcome._tag !== "Masked") return [outcome._tag]
          return [reason(outcome.termination), outcome.milliseconds / 60_000]
        })
      assert.deepStrictEqual(yield* ended([2.9, 1, 2.9, 2.9, 0.5]), ["agent_done", 10.2])
      assert.deepStrictEqual(yield* ended([2.9, 1, 2, 3.1]), ["action_timeout", 8.9])
    })
  )

  it.effect("counts the opening of the environment as time of the attempt", () =>
    Effect.gen(function* () {
      const environment = Simulator.environment([], { open: Effect.sleep("29 minutes") })
      const agent = Simulator.deciding(() => Effect.never)
      const fiber = yield* Effect.fork(run(environment, agent))
      yield* TestClock.adjust("31 minutes")
      const outcome = yield* Fiber.join(fiber)
      assert.strictEqual(outcome._tag === "Masked" && outcome.reason, "timeout")
      assert.strictEqual(outcome._tag === "Masked" && outcome.milliseconds, 30 * 60_000)
    })
  )

  it.effect("keeps the step that was cut short, with what was tried in it", () =>
    Effect.gen(function* () {
      const step = (action: string) =>
        action === "c"
          ? Effect.fail(infrastructure("no answer"))
          : Effect.succeed(new StepFacts({ milliseconds: 1, done: false }))
      const outcome = yield* run(
        Simulator.environment([], { step }),
        Simulator.agent([], [[act("a")], [act("b"), act("c"), act("d")]])
      )
      assert.strictEqual(outcome._tag, "Masked")
      if (outcome._tag !== "Masked") return
      assert.deepStrictEqual(
        outcome.steps.map(({ actions, facts }) => [actions, facts.length]),
        [
          [["a"], 1],
          [["b", "c"], 1]
        ]
      )
    })
  )

  it.effect("heads the evidence with the agent's contract for as many steps as there may be", () =>
    Effect.gen(function* () {
      const records: Array<EvidenceRecord> = []
      yield* run(Simulator.environment([]), Simulator.agent([], [[Decision.Done()]]), {
        limits: { maxSteps: 7 },
        evidence: Simulator.evidence(records)
      })
      const [head] = records
      assert.strictEqual(head?._tag, "Started")
      if (head?._tag !== "Started") return
      const contract = withMaxSteps(Simulator.contract, 7)
      assert.deepStrictEqual(head.contract, contract)
      assert.strictEqual(head.contractId, contractId(contract))
      assert.strictEqual(head.instruction, Simulator.row().instruction)
    })
  )

  for (const [observation, accessibilityTree] of [
    ["screenshot", false],
    ["a11y_tree", true],
    ["screenshot_a11y_tree", true],
    ["som", true]
  ] as const) {
    it.effect(`opens the environment ${accessibilityTree ? "with" : "without"} a tree for ${observation}`, () =>
      Effect.gen(function* () {
        const told: Array<unknown> = []
        const environment = Simulator.environment([], { needs: (needs) => told.push(needs) })
        yield* run(
          environment,
          Simulator.deciding(() => Effect.succeed({ decisions: [Decision.Done()], text: "" }), observation)
        )
        assert.deepStrictEqual(told, [{ accessibilityTree }])
      })
    )
  }

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
