/**
 * One session: a fiber that alone opens, uses and closes its environment, and does what it is asked one thing at a time.
 */
import * as FileSystem from "@effect/platform/FileSystem"
import * as Path from "@effect/platform/Path"
import * as Cause from "effect/Cause"
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Deferred from "effect/Deferred"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import type * as Scope from "effect/Scope"
import * as ArtifactStore from "../../../artifact/ArtifactStore.js"
import type { DesktopAction } from "../../../desktop/Action.js"
import type { EnvironmentSession, Observation } from "../../../rollout/Environment.js"
import type { Evaluation } from "../../../rollout/Evaluation.js"
import {
  Conflict,
  EnvironmentFailed,
  NotFound,
  type Rejected,
  SessionClosed,
  type SessionStatus,
  TooManyOperations
} from "../../ResourcesApi.js"
import { type History, noHistory, parse, terminationOf } from "./action.js"
import { Operations } from "./operations.js"
import {
  breaks,
  bug,
  type Failure,
  notEvaluated,
  type Opened,
  type Seeded,
  type Session,
  type SessionOptions,
  type Stepped,
  wireFailure
} from "./sessionModel.js"

/** An environment that is open. */
interface Live {
  readonly seeded: Seeded
  readonly environment: EnvironmentSession<DesktopAction>
  /** Fails when it ends by itself. */
  readonly lost: Effect.Effect<never, EnvironmentFailed>
}

/** How an environment was given up: for another, or for good. */
type Next =
  | { readonly _tag: "Open"; readonly seeded: Seeded; readonly answer: Deferred.Deferred<Opened, Failure> }
  | { readonly _tag: "End"; readonly failure?: Failure }

type Command =
  | (Next & { readonly _tag: "Open" })
  | { readonly _tag: "Work"; readonly run: (live: Live | undefined) => Effect.Effect<void> }

/** Begins a session, which goes on until it is closed, by whomever. `ended` is called when all has been given back. */
export const start = (
  options: SessionOptions,
  first: Seeded,
  ended: () => void
): Effect.Effect<Session, never, Scope.Scope | FileSystem.FileSystem | Path.Path> =>
  Effect.gen(function* () {
    const fs = yield* FileSystem.FileSystem
    const path = yield* Path.Path
    const scope = yield* Effect.scope
    const opened = yield* Deferred.make<Opened, Failure>()
    const closing = yield* Deferred.make<void>()
    const gone = yield* Deferred.make<void>()
    const mailbox: Array<Command> = []
    const arrived = yield* Effect.makeLatch()
    const steps = new Operations<Stepped, Failure>(options.remembered)
    const evaluations = new Operations<Evaluation, Failure>(options.remembered)
    const abandoned = new Set<(failure: Failure) => void>()
    const shown = new Map<string, ArtifactStore.BlobRef>()
    const createdAt = yield* Clock.currentTimeMillis
    const ttlMillis = Duration.toMillis(options.ttl)

    let lastAccess = createdAt
    let status: SessionStatus = "creating"
    let seeded = first
    let current = opened
    let failure: EnvironmentFailed | Rejected | undefined
    let history: History = noHistory

    const touch = Effect.map(Clock.currentTimeMillis, (now) => {
      lastAccess = now
    })
    const closed = (detail: string) => new SessionClosed({ detail: `session ${options.id}: ${detail}` })
    const isClosing = Effect.map(Deferred.isDone(closing), (done) => done || status === "closing")

    /** Settled by the fiber, or, where that ends first, by its end. */
    const tracked = <A>(answer: Deferred.Deferred<A, Failure>) => {
      const abandon = (why: Failure) => Deferred.unsafeDone(answer, Effect.fail(why))
      abandoned.add(abandon)
      return () => abandoned.delete(abandon)
    }

    const guarded = <A, R>(work: Effect.Effect<A, Failure, R>, phase: "open" | "step"): Effect.Effect<A, Failure, R> =>
      work.pipe(
        Effect.timeoutFail({
          duration: options.operationTimeout,
          onTimeout: () =>
            new EnvironmentFailed({
              detail: `it took longer than ${Duration.format(options.operationTimeout)}`,
              phase,
              lost: false,
              bug: false
            })
        }),
        Effect.catchAllDefect((defect) => Effect.fail(bug(Cause.pretty(Cause.die(defect)), phase)))
      )

    const observeNow = (environment: EnvironmentSession<DesktopAction>): Effect.Effect<Observation, Failure> =>
      Effect.mapBoth(environment.observe, {
        onFailure: (error) => wireFailure(error),
        onSuccess: (observation) => {
          for (const ref of [observation.screenshot, observation.accessibilityTree]) {
            if (ref !== undefined) shown.set(ref.sha256, ref)
          }
          return observation
        }
      })

    // -------------------------------------------------------------------------
    // The fiber
    // -------------------------------------------------------------------------

    /**
     * The next thing to do; none when the session is to be closed. What runs is never counted as idle. Nothing is lost
     * between a command that comes and a time that is up, because only this fiber takes from the mailbox.
     */
    const take: Effect.Effect<Option.Option<Command>> = Effect.gen(function* () {
      for (;;) {
        if (yield* Deferred.isDone(closing)) return Option.none()
        const command = mailbox.shift()
        if (command !== undefined) return Option.some(command)
        const idle = (yield* Clock.currentTimeMillis) - lastAccess
        if (idle >= ttlMillis) {
          yield* Effect.logInfo(
            `session ${options.id} was idle for ${Duration.format(Duration.millis(idle))}: closing it`
          )
          return Option.none()
        }
        yield* arrived.close
        yield* arrived.await.pipe(
          Effect.raceFirst(Deferred.await(closing)),
          Effect.raceFirst(Effect.sleep(Duration.millis(ttlMillis - idle)))
        )
      }
    })

    const attend = (live: Live | undefined): Effect.Effect<Next> =>
      Effect.gen(function* () {
        for (;;) {
          const command = yield* take
          if (Option.isNone(command)) return { _tag: "End" } as const
          if (command.value._tag === "Open") {
            if (status !== "closing") status = "resetting"
            return command.value
          }
          yield* command.value.run(live)
        }
      })

    const fail = (why: EnvironmentFailed | Rejected) => {
      failure ??= why
      if (status !== "closing") status = "error"
    }

    /** From one open to the next, or to the end of the session. */
    const life = (
      request: Next & { readonly _tag: "Open" },
      store: ArtifactStore.ArtifactStore["Type"]
    ): Effect.Effect<Next> =>
      Effect.gen(function* () {
        seeded = request.seeded
        current = request.answer
        failure = undefined
        history = noHistory
        steps.forgetFinished()
        evaluations.forgetFinished()
        const { accessibilityTree, identity, row } = request.seeded
        const opening = Effect.gen(function* () {
          const environment = yield* options.environment(request.seeded, store)
          const session = yield* Effect.mapError(environment.open(row, identity, { accessibilityTree }), (error) =>
            wireFailure(error)
          )
          const observation = request.seeded.observe ? yield* observeNow(session) : undefined
          return { session, observation }
        })
        const { observation, session } = yield* Effect.ensuring(guarded(opening, "open"), touch)
        // The first to be undone: whoever asks while the rest goes is told.
        yield* Effect.addFinalizer(() =>
          Effect.sync(() => {
            if (status !== "resetting") status = "closing"
          })
        )
        const lost = yield* Deferred.make<never, EnvironmentFailed>()
        yield* session.lost.pipe(
          Effect.catchAll((error) => {
            const why = new EnvironmentFailed({ detail: error.reason, phase: error.phase, lost: true, bug: false })
            fail(why)
            return Deferred.fail(lost, why)
          }),
          Effect.forkScoped
        )
        if (status !== "closing") status = failure === undefined ? "ready" : "error"
        yield* Deferred.succeed(request.answer, { seeded: request.seeded, observation })
        return yield* attend({ seeded: request.seeded, environment: session, lost: Deferred.await(lost) })
      }).pipe(
        Effect.scoped,
        // By now whatever was half open is closed.
        Effect.catchAll((why) =>
          Effect.gen(function* () {
            // Of a first open that failed nothing stays. After a reset the session is there, in error.
            if (request.answer === opened) return { _tag: "End", failure: why } as const
            if (breaks(why)) fail(why)
            yield* Deferred.fail(request.answer, why)
            return yield* attend(undefined)
          })
        )
      )

    const run = Effect.gen(function* () {
      yield* Effect.addFinalizer(() => Effect.ignoreLogged(fs.remove(options.blobs, { recursive: true, force: true })))
      const built = yield* Layer.build(ArtifactStore.layer({ directory: options.blobs }))
      let next: Next = { _tag: "Open", seeded: first, answer: opened }
      while (next._tag === "Open") next = yield* life(next, Context.get(built, ArtifactStore.ArtifactStore))
      return next.failure
    }).pipe(
      Effect.catchTag("ArtifactError", (error) =>
        Effect.succeed(new EnvironmentFailed({ detail: error.message, phase: "open", lost: false, bug: false }))
      ),
      Effect.scoped
    )

    tracked(opened)
    const fiber = yield* run.pipe(
      Effect.tapErrorCause((cause) => Effect.logError(`session ${options.id} failed`, cause)),
      Effect.interruptible,
      Effect.forkIn(scope)
    )
    fiber.addObserver((exit) => {
      status = "closing"
      const why = Exit.isSuccess(exit) && exit.value !== undefined ? exit.value : closed("it was closed")
      for (const abandon of abandoned) abandon(why)
      abandoned.clear()
      ended()
      Deferred.unsafeDone(gone, Effect.void)
    })

    // -------------------------------------------------------------------------
    // What it can be asked
    // -------------------------------------------------------------------------

    const send = <A>(command: Command, answer: Deferred.Deferred<A, Failure>): Effect.Effect<boolean> =>
      Effect.gen(function* () {
        if (yield* isClosing) {
          yield* Deferred.fail(answer, closed("it is being closed"))
          return false
        }
        if (mailbox.length < options.waiting) {
          mailbox.push(command)
          yield* arrived.open
          return true
        }
        const detail = `session ${options.id}: ${options.waiting} operations are waiting already`
        yield* Deferred.fail(answer, new TooManyOperations({ detail }))
        return false
      })

    /** Hands work to the fiber. `over` says whether the work was begun. */
    const submit = <A>(
      doing: SessionStatus,
      answer: Deferred.Deferred<A, Failure>,
      work: (live: Live) => Effect.Effect<A, Failure>,
      over: (begun: boolean) => void
    ): Effect.Effect<void> =>
      Effect.suspend(() => {
        const settled = tracked(answer)
        const run = (live: Live | undefined) =>
          Effect.gen(function* () {
            const broken = failure
            if (live === undefined || broken !== undefined) {
              over(false)
              settled()
              const nothing = new EnvironmentFailed({
                detail: "no environment is open",
                phase: "open",
                lost: false,
                bug: false
              })
              yield* Deferred.fail(answer, broken ?? nothing)
              return
            }
            if (status !== "closing") status = doing
            yield* touch
            const exit = yield* Effect.exit(guarded(Effect.raceFirst(work(live), live.lost), "step"))
            yield* touch
            const answered = Exit.mapErrorCause(exit, (cause) =>
              Option.match(Cause.failureOption(cause), {
                onNone: () => Cause.fail(bug(Cause.pretty(cause), "step")),
                onSome: Cause.fail<Failure>
              })
            )
            const error = Exit.isFailure(answered) ? Cause.failureOption(answered.cause) : Option.none<Failure>()
            if (Option.isSome(error) && breaks(error.value)) fail(error.value)
            if (status === doing) status = failure === undefined ? "ready" : "error"
            over(true)
            settled()
            yield* Deferred.done(answer, answered)
          })
        return Effect.map(send({ _tag: "Work", run }, answer), (accepted) => {
          if (accepted) return
          over(false)
          settled()
        })
      }).pipe(Effect.zipLeft(touch), Effect.uninterruptible)

    const claimed = <A>(
      table: Operations<A, Failure>,
      id: string,
      request: string,
      doing: SessionStatus,
      work: (live: Live) => Effect.Effect<A, Failure>
    ): Effect.Effect<A, Failure | Conflict> =>
      table.claim(id, request).pipe(
        Effect.tap((claim) =>
          claim._tag === "New"
            ? submit(doing, claim.answer, work, (begun) => (begun ? table.settle(id) : table.forget(id)))
            : touch
        ),
        Effect.uninterruptible,
        Effect.flatMap(
          (claim): Effect.Effect<A, Failure | Conflict> =>
            claim._tag === "Other"
              ? Effect.fail(new Conflict({ detail: `the operation id ${id} stands for another request` }))
              : Deferred.await(claim.answer)
        )
      )

    const observe = Effect.gen(function* () {
      const answer = yield* Deferred.make<Observation, Failure>()
      yield* submit(
        "observing",
        answer,
        ({ environment }) => observeNow(environment),
        () => {}
      )
      return yield* Deferred.await(answer)
    })

    const carryOut = (
      { environment }: Live,
      request: Parameters<Session["step"]>[0]
    ): Effect.Effect<Stepped, Failure> =>
      Effect.gen(function* () {
        const action = parse(request.action)
        history = { ...history, last: action._tag }
        const facts = yield* Effect.mapError(
          action._tag === "Act" ? environment.step(action.action) : environment.wait,
          (error) => wireFailure(error)
        )
        history = { ...history, environmentDone: history.environmentDone || facts.done }
        yield* Effect.sleep(Duration.seconds(request.pause))
        const observation = request.observe ? yield* observeNow(environment) : undefined
        return { facts, done: facts.done || action._tag === "Done" || action._tag === "Fail", observation }
      })

    return {
      id: options.id,
      view: () => ({
        status,
        taskId: seeded.row.taskId,
        createdAt,
        lastAccess,
        failure,
        images: seeded.images,
        instruction: seeded.row.instruction,
        digest: seeded.digest
      }),
      touch,
      opened: Effect.flatMap(touch, () => Deferred.await(current)),
      reset: (again) =>
        Effect.gen(function* () {
          const answer = yield* Deferred.make<Opened, Failure>()
          const settled = tracked(answer)
          yield* touch
          if (!(yield* send({ _tag: "Open", seeded: again, answer }, answer))) settled()
          return yield* Effect.ensuring(Deferred.await(answer), Effect.sync(settled))
        }),
      observe,
      step: (request) =>
        claimed(
          steps,
          request.id,
          JSON.stringify([request.action, request.pause, request.observe]),
          "stepping",
          (live) => carryOut(live, request)
        ),
      evaluate: ({ id, termination }) => {
        const work = ({ environment }: Live) =>
          environment
            .evaluate(termination ?? terminationOf(history))
            .pipe(
              Effect.mapError((error) => (error._tag === "EvaluationFailed" ? notEvaluated(error) : wireFailure(error)))
            )
        if (id !== undefined) return claimed(evaluations, id, JSON.stringify(termination ?? null), "evaluating", work)
        return Effect.gen(function* () {
          const answer = yield* Deferred.make<Evaluation, Failure>()
          yield* submit("evaluating", answer, work, () => {})
          return yield* Deferred.await(answer)
        })
      },
      close: (force) =>
        Effect.gen(function* () {
          status = "closing"
          yield* Deferred.succeed(closing, undefined)
          yield* force
            ? Fiber.interruptFork(fiber)
            : Effect.forkIn(
                Effect.sleep(options.closeGrace).pipe(
                  Effect.zipRight(Fiber.interruptFork(fiber)),
                  Effect.raceFirst(Deferred.await(gone)),
                  Effect.interruptible
                ),
                scope
              )
          yield* Effect.interruptible(Deferred.await(gone))
        }).pipe(Effect.uninterruptible),
      blob: (sha256) => {
        const ref = shown.get(sha256)
        return ref === undefined
          ? Effect.fail(new NotFound({ detail: `session ${options.id} has shown no blob ${sha256}` }))
          : Effect.succeed({ ref, path: path.join(options.blobs, sha256) })
      }
    }
  })
