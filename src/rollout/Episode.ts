/**
 * One episode: an agent in an environment until something ends it, then the evaluator.
 *
 * @since 0.1.0
 */
import * as Cause from "effect/Cause"
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import type { RolloutIdentity } from "../identity/Identity.js"
import type { ModelError } from "../model/ModelError.js"
import * as Admission from "./Admission.js"
import type { Agent, AgentSession, Decision } from "./Agent.js"
import { type Environment, EnvironmentError, type EnvironmentSession, type StepFacts } from "./Environment.js"
import type { EpisodeLimits } from "./EpisodeLimits.js"
import { type Evaluation, type RewardMode, reward } from "./Evaluation.js"
import { Evidence, type EvidenceError, type EvidenceLog, type EvidenceRecord } from "./Evidence.js"
import { Failed, Masked, type RolloutOutcome, Scored, Step } from "./Outcome.js"
import * as Progress from "./Progress.js"
import type { TaskRow } from "./TaskRow.js"
import { AgentDone, AgentFail, EnvironmentDone, Infrastructure, MaxSteps, type Termination } from "./Termination.js"

/**
 * What the collector runs for a row. It closes all that it opened before it answers, and it does not fail: whatever goes
 * wrong is an outcome.
 *
 * @since 0.1.0
 * @category models
 */
export type RolloutProgram<R> = (row: TaskRow, identity: RolloutIdentity) => Effect.Effect<RolloutOutcome, never, R>

/**
 * @since 0.1.0
 * @category models
 */
export interface EpisodeOptions<A> {
  readonly environment: Environment<A>
  readonly agent: Agent<A>
  readonly limits: EpisodeLimits
  /** How the score is read; `binary` unless given. */
  readonly rewardMode?: RewardMode
}

/** What ends a loop that should have gone on. */
type LoopError = EnvironmentError | EvidenceError | ModelError | ActionTimeout

class ActionTimeout {
  readonly _tag = "ActionTimeout"
  constructor(readonly limit: Duration.Duration) {}
}

const cutShort = (error: LoopError): Infrastructure => {
  switch (error._tag) {
    case "EnvironmentError":
      return new Infrastructure({ kind: "environment_failed", detail: error.message })
    case "EvidenceError":
      return new Infrastructure({ kind: "evidence_failed", detail: error.message })
    case "ActionTimeout":
      return new Infrastructure({
        kind: "action_timeout",
        detail: `an action took longer than ${Duration.format(error.limit)}`
      })
    case "ModelError":
      return new Infrastructure({
        kind:
          error.reason === "timeout"
            ? "model_timeout"
            : error.reason === "context_overflow"
              ? "model_context_overflow"
              : "model_call_failed",
        detail: error.message
      })
  }
}

const lostTermination = (error: EnvironmentError) =>
  new Infrastructure({ kind: "environment_lost", detail: error.message })

/**
 * Makes the program that runs one episode for each row.
 *
 * The runner owns limits and terminations: at the step cap nothing is added to what the agent said. The evaluator owns
 * the score. The agent is closed before the evaluation starts, and both are closed before there is an outcome.
 *
 * @since 0.1.0
 * @category constructors
 */
export const program = <A>(options: EpisodeOptions<A>): RolloutProgram<Evidence> => {
  const { environment, agent, limits } = options
  const rewardMode = options.rewardMode ?? "binary"

  const carryOut = (
    session: EnvironmentSession<A>,
    decision: Decision<A>
  ): Effect.Effect<{ readonly facts?: StepFacts; readonly end?: Termination }, LoopError> => {
    const bounded = (step: Effect.Effect<StepFacts, EnvironmentError>) =>
      step.pipe(
        Effect.timeoutFail({ duration: limits.stepTimeout, onTimeout: () => new ActionTimeout(limits.stepTimeout) }),
        Effect.map((facts) => (facts.done ? { facts, end: new EnvironmentDone() } : { facts }))
      )
    switch (decision._tag) {
      case "Act":
        return bounded(session.step(decision.action))
      case "Wait":
        return bounded(session.wait)
      case "Done":
        return Effect.succeed({ end: new AgentDone() })
      case "Fail":
        return Effect.succeed({ end: new AgentFail() })
    }
  }

  const showDecision = (decision: Decision<A>): string =>
    decision._tag === "Act" ? environment.show(decision.action) : decision._tag.toUpperCase()

  /** Steps until something ends the episode. `steps` is filled as they happen, so that it tells what was done even when the loop is cut short. */
  const loop = (
    session: EnvironmentSession<A>,
    agentSession: AgentSession<A>,
    log: EvidenceLog,
    identity: RolloutIdentity,
    steps: Array<Step>
  ): Effect.Effect<Termination, LoopError> =>
    Effect.gen(function* () {
      let end: Termination | undefined
      for (let step = 0; end === undefined && step < limits.maxSteps; step++) {
        end = yield* oneStep(session, agentSession, log, identity, step, steps)
      }
      // What the last action led to, for the reader of the evidence; the evaluator looks for itself.
      yield* log.append({ _tag: "Observed", step: steps.length, observation: yield* session.observe })
      return end ?? new MaxSteps()
    })

  const oneStep = Effect.fn("Episode.step", { captureStackTrace: false })(function* (
    session: EnvironmentSession<A>,
    agentSession: AgentSession<A>,
    log: EvidenceLog,
    identity: RolloutIdentity,
    step: number,
    steps: Array<Step>
  ) {
    const observation = yield* session.observe
    yield* log.append({ _tag: "Observed", step, observation })
    const [took, turn] = yield* Effect.timed(agentSession.decide(observation, step))
    yield* Effect.forEach(turn.calls, (call) => log.append({ _tag: "Called", step, call }), { discard: true })
    const actions: Array<string> = []
    const facts: Array<StepFacts> = []
    let end: Termination | undefined
    for (const decision of turn.decisions) {
      const action = showDecision(decision)
      actions.push(action)
      const result = yield* carryOut(session, decision)
      if (result.facts !== undefined) {
        facts.push(result.facts)
        yield* log.append({ _tag: "Acted", step, action, facts: result.facts })
      }
      end = result.end
      if (end !== undefined) break
    }
    steps.push(
      new Step({
        step,
        text: turn.text,
        actions,
        facts,
        screenshot: observation.screenshot.sha256,
        observeMilliseconds: observation.milliseconds,
        decideMilliseconds: Duration.toMillis(took)
      })
    )
    yield* Progress.emit(Progress.ProgressEvent.Stepped({ identity, step, maxSteps: limits.maxSteps, actions }))
    return end
  })

  /** The termination, unless it turns out that the evidence of it cannot be written. */
  const recorded = (log: EvidenceLog, record: EvidenceRecord, termination: Termination): Effect.Effect<Termination> =>
    Effect.match(log.append(record), { onSuccess: () => termination, onFailure: cutShort })

  const evaluate = (
    session: EnvironmentSession<A>,
    termination: Termination
  ): Effect.Effect<Either.Either<Evaluation, Admission.NoEvaluation>> =>
    termination._tag === "Infrastructure"
      ? Effect.succeed(Either.left({ reason: "evaluation_incomplete", detail: "the episode was cut short" } as const))
      : Effect.raceFirst(session.evaluate(termination), session.lost).pipe(
          Effect.mapError((error): Admission.NoEvaluation => ({ reason: "evaluator_error", detail: error.message })),
          Effect.either
        )

  /** The episode proper, in a scope of its own. */
  const episode = (row: TaskRow, identity: RolloutIdentity, steps: Array<Step>) =>
    Effect.gen(function* () {
      const started = yield* Clock.currentTimeMillis
      const deadline = started + Duration.toMillis(limits.episodeTimeout)
      const remaining = Effect.map(Clock.currentTimeMillis, (now) => Duration.millis(Math.max(0, deadline - now)))
      const late = `the episode took longer than ${Duration.format(limits.episodeTimeout)}`

      const log = yield* Effect.flatMap(Evidence, (evidence) => evidence.open(identity))
      const session = yield* environment.open(row, identity).pipe(
        Effect.timeoutFail({
          duration: yield* remaining,
          onTimeout: () => new EnvironmentError({ phase: "open", fault: "infrastructure", reason: late })
        })
      )
      yield* Progress.emit(Progress.ProgressEvent.Opened({ identity }))

      const ended: Termination = yield* agent.open(row, identity).pipe(
        Effect.flatMap((agentSession) => loop(session, agentSession, log, identity, steps)),
        Effect.scoped,
        Effect.catchAll((error) => Effect.succeed(cutShort(error))),
        Effect.raceFirst(Effect.catchAll(session.lost, (error) => Effect.succeed(lostTermination(error)))),
        Effect.timeoutTo({
          duration: yield* remaining,
          onSuccess: (termination): Termination => termination,
          onTimeout: () => new Infrastructure({ kind: "timeout", detail: late })
        }),
        // A defect in an agent or an environment is a bug of theirs, and costs one rollout, not the run.
        Effect.catchAllDefect((defect) =>
          Effect.succeed(new Infrastructure({ kind: "rollout_error", detail: Cause.pretty(Cause.die(defect)) }))
        )
      )
      const termination = yield* recorded(log, { _tag: "Ended", termination: ended }, ended)

      yield* Progress.emit(Progress.ProgressEvent.Evaluating({ identity }))
      const evaluation = yield* evaluate(session, termination).pipe(
        Effect.timeoutTo({
          duration: yield* remaining,
          onSuccess: (result) => result,
          onTimeout: () =>
            Either.left<Admission.NoEvaluation>({ reason: "timeout", detail: `${late}, in the evaluation` })
        }),
        Effect.catchAllDefect((defect) =>
          Effect.succeed(
            Either.left<Admission.NoEvaluation>({ reason: "evaluator_error", detail: Cause.pretty(Cause.die(defect)) })
          )
        )
      )
      const record = Either.match(evaluation, {
        onLeft: ({ reason, detail }) => ({ _tag: "NotEvaluated", reason, detail }) as const,
        onRight: (evaluation) => ({ _tag: "Evaluated", evaluation }) as const
      })
      return { termination: yield* recorded(log, record, termination), evaluation }
    }).pipe(Effect.scoped)

  return Effect.fn("Episode.run", { captureStackTrace: false })(function* (row, identity) {
    const steps: Array<Step> = []
    const failed = (fault: Failed["fault"], detail: string) => (milliseconds: number) =>
      new Failed({ identity, fault, detail, milliseconds })
    const [took, conclude] = yield* Effect.timed(
      episode(row, identity, steps).pipe(
        Effect.map(
          (facts) =>
            (milliseconds: number): RolloutOutcome =>
              Admission.Admission.$match(Admission.decide(facts), {
                Admitted: ({ evaluation }) =>
                  new Scored({
                    identity,
                    termination: facts.termination,
                    steps,
                    milliseconds,
                    evaluation,
                    reward: reward(evaluation, rewardMode)
                  }),
                Refused: ({ reason, detail }) =>
                  new Masked({ identity, termination: facts.termination, steps, milliseconds, reason, detail })
              })
        ),
        Effect.catchTags({
          EnvironmentError: (error) => Effect.succeed(failed(error.fault, error.message)),
          EvidenceError: (error) => Effect.succeed(failed("infrastructure", error.message))
        }),
        Effect.catchAllDefect((defect) => Effect.succeed(failed("defect", Cause.pretty(Cause.die(defect)))))
      )
    )
    return conclude(Duration.toMillis(took))
  })
}
