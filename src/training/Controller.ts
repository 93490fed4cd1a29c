/**
 * Holds rollouts and model calls back while the engines get new weights, so that no call is answered by weights that are
 * only half there.
 *
 * A weight version is the number of optimizer steps that made the weights. Work comes in two sizes: a *dispatch* (a
 * rollout, or a group of them) and a *call* (one request to an engine). An update of the weights
 *
 * 1. lets no new dispatch begin,
 * 2. waits for those under way to end (`drain`) or lets them go on (`continue`),
 * 3. lets no new call begin and waits for those under way, which are short,
 * 4. loads the weights into all engines,
 * 5. sets the version, and lets calls and dispatches go on.
 *
 * With `continue` an episode spans versions, and each of its calls is told which one answers it.
 *
 * @since 0.1.0
 */
import type * as Arr from "effect/Array"
import * as Cause from "effect/Cause"
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import { makeDoor } from "./internal/door.js"

/**
 * A server that generates, or a group of them that gets its weights as one.
 *
 * @since 0.1.0
 * @category models
 */
export interface Engine<E = never> {
  /** Unique among a controller's engines. */
  readonly name: string
  /**
   * Loads the weights of a version. When it fails, is interrupted or takes too long, nobody can say what the engine holds,
   * and it answers nothing until it has loaded a version whole.
   */
  readonly load: (version: number) => Effect.Effect<void, E>
}

/**
 * @since 0.1.0
 * @category models
 */
export interface ControllerOptions<E> {
  readonly engines: Arr.NonEmptyReadonlyArray<Engine<E>>
  /** What the engines hold at the beginning; 0 unless given. */
  readonly version?: number
  /** What becomes of dispatches that are under way when the weights change; `drain` unless given. */
  readonly inFlight?: "drain" | "continue"
  /** How long an engine may take to load; without a limit unless given. It has to be far above what a healthy one takes. */
  readonly loadTimeout?: Duration.DurationInput
  /** How often an engine that did not load is tried once more, in the same update; 1 unless given. */
  readonly retries?: number
  /** Engines that must have loaded for the run to go on; 1 unless given. */
  readonly minEngines?: number
}

/**
 * What one update of the weights came to.
 *
 * @since 0.1.0
 * @category models
 */
export interface RefitReceipt {
  readonly version: number
  /** Engines that hold it, by name, in the order of the options. */
  readonly serving: ReadonlyArray<string>
  /** Engines that do not, and why; they answer nothing until an update reaches them. */
  readonly lost: ReadonlyArray<{ readonly engine: string; readonly why: string }>
  /** From the pause to the last dispatch or call that had to end first. */
  readonly waitedMillis: number
  /** From there until the weights were there. */
  readonly loadedMillis: number
}

/**
 * Too few engines have the new weights. The trainer's version is kept back: nothing is dispatched or called until an update
 * succeeds.
 *
 * @since 0.1.0
 * @category errors
 */
export class RefitFailed extends Schema.TaggedError<RefitFailed>("deskhand/RefitFailed")("RefitFailed", {
  version: Schema.Number,
  lost: Schema.Array(Schema.Struct({ engine: Schema.String, why: Schema.String })),
  needed: Schema.Number
}) {
  override get message() {
    const why = this.lost.map(({ engine, why }) => `${engine}: ${why}`).join("; ")
    return `weights ${this.version} reached too few engines (${this.needed} needed): ${why}. Mend the engines, then update again`
  }
}

/**
 * A version that does not follow: weights only ever get newer.
 *
 * @since 0.1.0
 * @category errors
 */
export class VersionBackwards extends Schema.TaggedError<VersionBackwards>("deskhand/VersionBackwards")(
  "VersionBackwards",
  { version: Schema.Number, current: Schema.Number }
) {
  override get message() {
    return `the engines are at weights ${this.current}, so weights ${this.version} cannot be published: a version is a whole number and never falls`
  }
}

/**
 * No engine holds weights that are known to be whole: an update failed or was stopped half-way.
 *
 * @since 0.1.0
 * @category errors
 */
export class NoEngineServes extends Schema.TaggedError<NoEngineServes>("deskhand/NoEngineServes")("NoEngineServes", {
  version: Schema.Number
}) {
  override get message() {
    return `no engine holds the whole of weights ${this.version}: an update of the weights did not come to its end. Update again before anything is dispatched`
  }
}

/**
 * Which engine answers a call, and with which weights.
 *
 * @since 0.1.0
 * @category models
 */
export interface Serving {
  readonly engine: string
  readonly version: number
}

/**
 * How it stands now.
 *
 * @since 0.1.0
 * @category models
 */
export interface ControllerStatus {
  readonly version: number
  readonly serving: ReadonlyArray<string>
  readonly dispatches: number
  readonly calls: number
  readonly paused: boolean
}

/**
 * Brings weights to the engines, as a service.
 *
 * @since 0.1.0
 * @category context
 */
export class Controller extends Context.Tag("deskhand/training/Controller")<
  Controller,
  {
    /** Runs work that an update waits for, or lets go on. It begins when no update is under way. */
    readonly dispatch: <A, E, R>(
      work: (version: number) => Effect.Effect<A, E, R>
    ) => Effect.Effect<A, E | NoEngineServes, R>
    /**
     * Runs one request to an engine, the one of those that serve with the fewest calls under way. Every update waits for
     * it, so weights never change while it runs.
     */
    readonly call: <A, E, R>(
      request: (serving: Serving) => Effect.Effect<A, E, R>
    ) => Effect.Effect<A, E | NoEngineServes, R>
    /**
     * Gives the engines new weights. Updates take place one after the other. A failed one may be asked for again, and so may
     * the version that is there, for engines that an update did not reach. Not to be asked for by what is dispatched, which
     * it may have to wait for.
     */
    readonly refit: (version: number) => Effect.Effect<RefitReceipt, RefitFailed | VersionBackwards>
    readonly status: Effect.Effect<ControllerStatus>
  }
>() {}

interface Held<E> extends Engine<E> {
  /** What it holds as a whole; `undefined` while it loads, and after a load that did not end well. */
  version: number | undefined
  calls: number
}

const describe = (cause: Cause.Cause<unknown>): string => {
  const error = Cause.squash(cause)
  return error instanceof Error ? error.message : String(error)
}

/**
 * A controller that has published nothing yet.
 *
 * @since 0.1.0
 * @category constructors
 */
export const make = <E>(options: ControllerOptions<E>): Effect.Effect<Controller["Type"]> =>
  Effect.gen(function* () {
    const { inFlight = "drain", loadTimeout, minEngines = 1, retries = 1 } = options
    let version = options.version ?? 0
    const engines: ReadonlyArray<Held<E>> = options.engines.map((engine) => ({ ...engine, version, calls: 0 }))
    const dispatches = makeDoor()
    const calls = makeDoor()
    const turn = yield* Effect.makeSemaphore(1)

    const serves = (engine: Held<E>): boolean => engine.version === version
    const noEngine = Effect.suspend(() => new NoEngineServes({ version }))

    const leastBusy = (): Held<E> | undefined =>
      engines
        .filter(serves)
        .reduce<Held<E> | undefined>(
          (best, engine) => (best !== undefined && best.calls <= engine.calls ? best : engine),
          undefined
        )

    const load = (engine: Held<E>, next: number): Effect.Effect<Either.Either<void, string>> => {
      const loading = engine.load(next)
      const bounded =
        loadTimeout === undefined
          ? loading
          : loading.pipe(
              Effect.timeoutFail({
                duration: loadTimeout,
                onTimeout: () => `it did not load within ${Duration.format(Duration.decode(loadTimeout))}`
              })
            )
      return Effect.sync(() => (engine.version = undefined)).pipe(
        Effect.zipRight(bounded),
        Effect.sandbox,
        Effect.zipRight(
          Effect.sync(() => {
            engine.version = next
          })
        ),
        Effect.mapError(describe),
        Effect.either
      )
    }

    const loadAll = (next: number) =>
      Effect.gen(function* () {
        let left = engines.map((engine) => ({ engine, why: "" }))
        for (let round = 0; round <= retries && left.length > 0; round++) {
          const loaded = yield* Effect.forEach(
            left,
            ({ engine }) => Effect.map(load(engine, next), (result) => ({ engine, result })),
            { concurrency: "unbounded" }
          )
          left = loaded.flatMap(({ engine, result }) => (Either.isLeft(result) ? [{ engine, why: result.left }] : []))
        }
        return left.map(({ engine, why }) => ({ engine: engine.name, why }))
      })

    const refit = (next: number): Effect.Effect<RefitReceipt, RefitFailed | VersionBackwards> =>
      Effect.gen(function* () {
        // The same version again mends engines that an earlier update did not reach.
        if (!Number.isInteger(next) || next < version)
          return yield* new VersionBackwards({ version: next, current: version })
        const began = yield* Clock.currentTimeMillis
        if (inFlight === "drain") yield* dispatches.idle
        yield* calls.close
        yield* calls.idle
        const idle = yield* Clock.currentTimeMillis
        const lost = yield* loadAll(next)
        const serving = engines.filter((engine) => engine.version === next).map(({ name }) => name)
        if (serving.length < minEngines) {
          // Those that did load must not answer for the old version, nor the run go on with too few.
          version = next
          for (const engine of engines) engine.version = undefined
          return yield* new RefitFailed({ version: next, lost, needed: minEngines })
        }
        version = next
        const ended = yield* Clock.currentTimeMillis
        return { version, serving, lost, waitedMillis: idle - began, loadedMillis: ended - idle }
      }).pipe(
        (refitting) => Effect.zipRight(dispatches.close, refitting),
        // Whatever happened, waiting work gets its answer: an engine, or that there is none.
        Effect.ensuring(Effect.zipRight(calls.open, dispatches.open)),
        turn.withPermits(1),
        Effect.withSpan("Controller.refit", { captureStackTrace: false })
      )

    return Controller.of({
      dispatch: <A, E2, R>(work: (version: number) => Effect.Effect<A, E2, R>) =>
        dispatches.through(
          Effect.suspend(
            (): Effect.Effect<A, E2 | NoEngineServes, R> => (engines.some(serves) ? work(version) : noEngine)
          )
        ),
      call: <A, E2, R>(request: (serving: Serving) => Effect.Effect<A, E2, R>) =>
        calls.through(
          Effect.suspend((): Effect.Effect<A, E2 | NoEngineServes, R> => {
            const engine = leastBusy()
            if (engine === undefined) return noEngine
            engine.calls += 1
            return Effect.ensuring(
              Effect.suspend(() => request({ engine: engine.name, version })),
              Effect.sync(() => {
                engine.calls -= 1
              })
            )
          })
        ),
      refit,
      status: Effect.sync(() => ({
        version,
        serving: engines.filter(serves).map(({ name }) => name),
        dispatches: dispatches.inside(),
        calls: calls.inside(),
        paused: dispatches.isClosed()
      }))
    })
  })

/**
 * A controller as a service.
 *
 * @since 0.1.0
 * @category layers
 */
export const layer = <E>(options: ControllerOptions<E>): Layer.Layer<Controller> =>
  Layer.effect(Controller, make(options))
