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
import * as Exit from "effect/Exit"
import * as Scope from "effect/Scope"
import type { RolloutIdentity } from "../identity/Identity.js"
import { spanned } from "../trace/Span.js"
import * as Admission from "./Admission.js"
import { Admissions } from "./Admissions.js"
import type { Agent, AgentContext, AgentSession, AgentTurn, Decision, ModelCall } from "./Agent.js"
import { contractId, needsAccessibilityTree, withMaxSteps } from "./Contract.js"
import {
  type Environment,
  EnvironmentError,
  type EnvironmentSession,
  type Observation,
  type Origin,
  type StepFacts
} from "./Environment.js"
import type { EpisodeLimits } from "./EpisodeLimits.js"
import { type Evaluation, type RewardMode, reward } from "./Evaluation.js"
import { Evidence, type EvidenceError, type EvidenceLog, type EvidenceRecord, Started } from "./Evidence.js"
import { andThen } from "./internal/andThen.js"
import { cutShort, environmentLost, type LoopError, TimedOut } from "./internal/cutShort.js"
import { Ending, firstOf } from "./internal/firstOf.js"
import { stepCalls } from "./internal/stepCalls.js"
import { Failed, Masked, type RolloutOutcome, Scored, Step } from "./Outcome.js"
import * as Progress from "./Progress.js"
import type { TaskRow } from "./TaskRow.js"
import {
  AgentDone,
  AgentFail,
  EnvironmentDone,
  Infrastructure,
  MaxSteps,
  settled,
  type Termination
} from "./Termination.js"

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

/** What a step was so far: it becomes a row whether or not it comes to its end. */
interface StepSoFar {
  readonly step: number
  readonly observation: Observation
  readonly began: number
  /** The calls that it made. */
  readonly calls: Array<ModelCall>
  text: string
  decideMilliseconds: number | undefined
  readonly actions: Array<string>
  readonly facts: Array<StepFacts>
}

/** What is known of an attempt from its beginning. */
interface Attempt {
  readonly identity: RolloutIdentity
  readonly origin: Origin | undefined
  /** Filled while it goes on. */
  readonly steps: Array<Step>
}

/** What an episode waits for no longer than it has been told. */
type Awaited = "model" | "action"

/** An episode whose environment is open. */
interface Running<A> {
  readonly session: EnvironmentSession<A>
  readonly log: EvidenceLog
  readonly identity: RolloutIdentity
  /** Filled as they happen, so that it tells what was done even when the loop is cut short. */
  readonly steps: Array<Step>
  /** The step that is under way. */
  step: StepSoFar | undefined
  /** What is waited for, and since when in milliseconds of the clock: for a model since its newest sign of life. */
  awaited: { readonly what: Awaited; readonly since: number } | undefined
}

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

  const contract = withMaxSteps(agent.contract, limits.maxSteps)
  const needs = { accessibilityTree: needsAccessibilityTree(contract.runner.observation_type) }

  const carryOut = (
    running: Running<A>,
    decision: Decision<A>
  ): Effect.Effect<{ readonly facts?: StepFacts; readonly end?: Termination }, LoopError> => {
    const { session } = running
    const bounded = (step: Effect.Effect<StepFacts, EnvironmentError>) =>
      Effect.flatMap(Clock.currentTimeMillis, (since) => {
        running.awaited = { what: "action", since }
        return Effect.map(step, (facts) => {
          running.awaited = undefined
          return facts.done ? { facts, end: new EnvironmentDone() } : { facts }
        })
      })
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

  const recordCall =
    (running: Running<A>): AgentContext["record"] =>
    (call) =>
      Effect.flatMap(Clock.currentTimeMillis, (now) => {
        running.awaited = { what: "model", since: now }
        running.step?.calls.push(call)
        const usage = call.result._tag === "Replied" ? call.result.reply.usage : undefined
        const spent =
          usage === undefined ? Effect.void : Effect.flatMap(Admissions, (admissions) => admissions.spent(usage))
        return Effect.zipRight(spent, running.log.append({ _tag: "Called", step: call.step, call }))
      })

  const patience = { model: limits.modelTimeout, action: limits.stepTimeout }
  const shortest = Math.min(Duration.toMillis(patience.model), Duration.toMillis(patience.action))

  /**
   * Ends an episode that takes too long, or an action of it, or in which no model call has come to its end for as long as
   * one may take. The client has a limit for calls too; this one holds for all. One for the whole episode, because a fiber
   * for each action is what a thousand episodes notice.
   */
  const timekeeper = (running: Running<A>, deadline: number, late: string): Effect.Effect<Termination> =>
    Effect.flatMap(Clock.currentTimeMillis, (now) => {
      if (now >= deadline) return Effect.succeed(new Infrastructure({ kind: "timeout", detail: late }))
      const { awaited } = running
      const due =
        awaited === undefined ? Number.POSITIVE_INFINITY : awaited.since + Duration.toMillis(patience[awaited.what])
      if (awaited !== undefined && now >= due) {
        return Effect.succeed(cutShort(new TimedOut(awaited.what, patience[awaited.what])))
      }
      // What begins to be waited for while this sleeps is due no sooner than that.
      const next = Math.min(deadline, due, now + shortest)
      return Effect.zipRight(Effect.sleep(next - now), timekeeper(running, deadline, late))
    })

  /** Steps until something ends the episode. */
  const loop = Effect.fnUntraced(function* (running: Running<A>, agentSession: AgentSession<A>) {
    let end: Termination | undefined
    for (let step = 0; end === undefined && step < limits.maxSteps; step++) {
      end = yield* oneStep(running, agentSession, step)
    }
    // What the last action led to, for the reader of the evidence; the evaluator looks for itself.
    const observation = yield* running.session.observe
    yield* running.log.append({ _tag: "Observed", step: running.steps.length, observation })
    return end ?? new MaxSteps()
  })

  /**
   * Makes a step's row of what there is of it. No region does that when a step is cut short: what is on the stack while a
   * model thinks is there once for each episode, so whoever ends the loop asks for it.
   */
  const keep = (running: Running<A>, now: number): void => {
    const { step: soFar } = running
    if (soFar === undefined) return
    running.step = undefined
    const calls = stepCalls(soFar.calls)
    const { observation } = soFar
    running.steps.push(
      new Step(
        {
          step: soFar.step,
          text: soFar.text,
          // A list that grew has room for more, which a row has no use for.
          actions: [...soFar.actions],
          facts: [...soFar.facts],
          screenshot: observation.screenshot.sha256,
          observeMilliseconds: observation.milliseconds,
          decideMilliseconds: soFar.decideMilliseconds ?? now - soFar.began,
          ...(calls === undefined ? {} : { calls })
        },
        // Its parts are valid already: a class checks itself by a schema that it makes anew each time.
        true
      )
    )
  }

  const oneStep = Effect.fnUntraced(function* (running: Running<A>, agentSession: AgentSession<A>, step: number) {
    const { identity, log, session } = running
    const observation = yield* session.observe
    yield* log.append({ _tag: "Observed", step, observation })
    const clock = yield* Effect.clock
    const began = clock.unsafeCurrentTimeMillis()
    running.awaited = { what: "model", since: began }
    const soFar: StepSoFar = {
      step,
      observation,
      began,
      calls: [],
      text: "",
      decideMilliseconds: undefined,
      actions: [],
      facts: []
    }
    running.step = soFar
    const turn = yield* agentSession.decide(observation, step)
    running.awaited = undefined
    soFar.decideMilliseconds = Math.max(0, clock.unsafeCurrentTimeMillis() - began)
    soFar.text = turn.text
    const end = yield* act(running, turn, step, soFar)
    keep(running, clock.unsafeCurrentTimeMillis())
    const { actions } = soFar
    yield* Progress.emit(Progress.ProgressEvent.Stepped({ identity, step, maxSteps: limits.maxSteps, actions }))
    return end
  }, spanned("Episode.step"))

  /** Carries the decisions of a turn out, up to the one that ends the episode. */
  const act = Effect.fnUntraced(function* (
    running: Running<A>,
    { decisions, stop }: AgentTurn<A>,
    step: number,
    soFar: StepSoFar
  ) {
    if (stop !== undefined) {
      if (decisions.length === 0) return settled(stop)
      return new Infrastructure({ kind: "rollout_error", detail: "the agent stopped and acted in the same turn" })
    }
    for (const decision of decisions) {
      const action = showDecision(decision)
      soFar.actions.push(action)
      const { end, facts } = yield* carryOut(running, decision)
      if (facts !== undefined) {
        soFar.facts.push(facts)
        yield* running.log.append({ _tag: "Acted", step, action, facts })
      }
      if (end !== undefined) return end
    }
    return undefined
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
      : session.evaluate(termination).pipe(
          Effect.mapError((error): Admission.NoEvaluation => ({ reason: "evaluator_error", detail: error.message })),
          Effect.raceFirst(
            Effect.mapError(
              session.lost,
              (error): Admission.NoEvaluation => ({ reason: "environment_lost", detail: error.message })
            )
          ),
          Effect.either
        )

  /** The episode proper, in a scope of its own. */
  const episode = Effect.fnUntraced(function* (row: TaskRow, { identity, origin, steps }: Attempt, scope: Scope.Scope) {
    const started = yield* Clock.currentTimeMillis
    const deadline = started + Duration.toMillis(limits.episodeTimeout)
    const remaining = Effect.map(Clock.currentTimeMillis, (now) => Duration.millis(Math.max(0, deadline - now)))
    const late = `the episode took longer than ${Duration.format(limits.episodeTimeout)}`

    const log = yield* Effect.flatMap(Evidence, (evidence) => Scope.extend(evidence.open(identity), scope))
    yield* log.append(
      new Started({
        schemaVersion: 1,
        identity,
        taskId: row.taskId,
        instruction: row.instruction,
        contract,
        contractId: contractId(contract),
        ...(origin === undefined ? {} : { origin }),
        ...(agent.settings === undefined ? {} : { settings: agent.settings })
      })
    )
    const { opening } = yield* Admissions
    const session = yield* Scope.extend(opening(environment.open(row, identity, needs)), scope).pipe(
      Effect.timeoutFail({
        duration: yield* remaining,
        onTimeout: () => new EnvironmentError({ phase: "open", fault: "infrastructure", reason: late })
      })
    )
    yield* Progress.emit(Progress.ProgressEvent.Opened({ identity }))

    const running: Running<A> = { session, log, identity, steps, step: undefined, awaited: undefined }
    const agentScope = yield* Scope.make()
    const acted = Scope.extend(agent.open({ row, identity, record: recordCall(running) }), agentScope).pipe(
      Effect.flatMap((agentSession) => loop(running, agentSession)),
      Effect.catchAll((error) => Effect.succeed(cutShort(error)))
    )
    const lost = Effect.catchAll(session.lost, (error) => Effect.succeed(environmentLost(error)))
    const ends = [acted, lost, timekeeper(running, deadline, late)]
    const ended: Termination = yield* Effect.uninterruptibleMask((restore) =>
      andThen(firstOf(restore, ends, new Ending<Termination>()), (exit) =>
        Effect.zipRight(Scope.close(agentScope, exit), exit)
      )
    ).pipe(
      // A defect in an agent or an environment is a bug of theirs, and costs one rollout, not the run.
      Effect.catchAllDefect((defect) =>
        Effect.succeed(new Infrastructure({ kind: "rollout_error", detail: Cause.pretty(Cause.die(defect)) }))
      )
    )
    keep(running, yield* Clock.currentTimeMillis)
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
  })

  const outcomeOf = (
    { identity, origin, steps }: Attempt,
    facts: Admission.EpisodeFacts,
    milliseconds: number
  ): RolloutOutcome => {
    const { termination } = facts
    const common = { identity, termination, steps, ...(origin === undefined ? {} : { origin }), milliseconds }
    return Admission.Admission.$match(Admission.decide(facts), {
      Admitted: ({ evaluation }) => new Scored({ ...common, evaluation, reward: reward(evaluation, rewardMode) }),
      Refused: ({ detail, evaluationCompleted, reason }) =>
        new Masked({ ...common, reason, detail, evaluationCompleted })
    })
  }

  /** However the episode ended, an outcome; none for one that was interrupted. */
  const concluded = (
    attempt: Attempt,
    exit: Exit.Exit<Admission.EpisodeFacts, EnvironmentError | EvidenceError>,
    milliseconds: number
  ): Effect.Effect<RolloutOutcome> => {
    const { identity } = attempt
    const failed = (fault: Failed["fault"], detail: string) => new Failed({ identity, fault, detail, milliseconds })
    return Effect.map(exit, (facts) => outcomeOf(attempt, facts, milliseconds)).pipe(
      Effect.catchTags({
        EnvironmentError: (error) => Effect.succeed(failed(error.fault, error.message)),
        EvidenceError: (error) => Effect.succeed(failed("infrastructure", error.message))
      }),
      Effect.catchAllDefect((defect) => Effect.succeed(failed("defect", Cause.pretty(Cause.die(defect)))))
    )
  }

  /** One region for all that is due when an episode is over, because it lies on the stack as long as the episode goes on. */
  return (row, identity) =>
    Effect.uninterruptibleMask((restore) =>
      Effect.flatMap(Effect.all([Scope.make(), Clock.currentTimeNanos]), ([scope, began]) => {
        const attempt: Attempt = { identity, origin: environment.origin?.(row, identity), steps: [] }
        return andThen(restore(episode(row, attempt, scope)), (exit) =>
          Effect.flatMap(Effect.exit(Scope.close(scope, exit)), (closed) =>
            Effect.flatMap(Clock.currentTimeNanos, (now) =>
              concluded(attempt, Exit.zipLeft(exit, closed), Duration.toMillis(Duration.nanos(now - began)))
            )
          )
        )
      })
    ).pipe(spanned("Episode.run"))
}
