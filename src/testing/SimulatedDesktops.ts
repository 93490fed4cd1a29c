/**
 * Desktops that exist only in name: they take their time, fail as often as they are told to, and show pictures that
 * nobody painted.
 *
 * @since 0.1.0
 */
import { createHash } from "node:crypto"
import * as Effect from "effect/Effect"
import * as ExecutionStrategy from "effect/ExecutionStrategy"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import * as Scope from "effect/Scope"
import { BlobRef } from "../artifact/ArtifactStore.js"
import type { DesktopAction } from "../desktop/Action.js"
import type { RolloutIdentity } from "../identity/Identity.js"
import { OSWorld } from "../osworld/OSWorld.js"
import {
  type Environment,
  EnvironmentError,
  type EnvironmentSession,
  EvaluationFailed,
  Observation,
  StepFacts
} from "../rollout/Environment.js"
import { Evaluation } from "../rollout/Evaluation.js"
import { Distribution, draw, sample } from "./Distribution.js"

/**
 * How likely each is, from 0 to 1; 0 unless given. `open` and `evaluate` are for an attempt, `step` and `observe` for one
 * of its steps.
 *
 * @since 0.1.0
 * @category models
 */
export interface DesktopFaults {
  readonly open?: number
  readonly observe?: number
  readonly step?: number
  readonly evaluate?: number
  /** That there is no copy for an owner of a group; the group then fails. */
  readonly copy?: number
}

/**
 * @since 0.1.0
 * @category models
 */
export interface DesktopOptions {
  /** Another one gives other spans, faults and scores. */
  readonly seed: string
  /** Each is nothing unless given. */
  readonly latency?: {
    readonly open?: Distribution
    readonly observe?: Distribution
    readonly step?: Distribution
    readonly evaluate?: Distribution
    readonly close?: Distribution
    /** Of a group's copies, all at once. */
    readonly copy?: Distribution
  }
  readonly faults?: DesktopFaults
  /** How likely a rollout is to be worth 1 and not 0, whatever the attempt; a half unless given. */
  readonly pass?: number
  /** Takes and stores a screenshot; a name without bytes unless given. */
  readonly screenshot?: (identity: RolloutIdentity, step: number) => Effect.Effect<BlobRef, EnvironmentError>
  /** Whether a desktop that is open can be copied for the owners of a group; it cannot unless given. */
  readonly copies?: boolean
  /** Done when a desktop opens, undone when it is closed. */
  readonly hold?: (identity: RolloutIdentity) => Effect.Effect<void, EnvironmentError, Scope.Scope>
}

/** Checking what is known to be right would be most of what a simulated step costs. */
const unchecked = true

const instant = Distribution.Fixed({ milliseconds: 0 })

const named = ({ taskIndex, rolloutIndex }: RolloutIdentity, step: number) =>
  Effect.sync(
    () =>
      new BlobRef(
        {
          sha256: createHash("sha256").update(`${taskIndex}-${rolloutIndex} ${step}`).digest("hex"),
          bytes: 300_000,
          mediaType: "image/png"
        },
        unchecked
      )
  )

/**
 * All that happens to an attempt is drawn from the seed and its id, so a run comes out the same in whatever order its
 * rollouts take place.
 *
 * @since 0.1.0
 * @category constructors
 */
export const make = (options: DesktopOptions): Environment<DesktopAction> => {
  const { faults = {}, hold = () => Effect.void, latency = {}, pass = 0.5, screenshot = named, seed } = options

  const fails = (what: keyof DesktopFaults, ...name: ReadonlyArray<string | number>) =>
    draw(seed, "fault", what, ...name) < (faults[what] ?? 0)

  const takes = (what: keyof NonNullable<DesktopOptions["latency"]>, ...name: ReadonlyArray<string | number>) => {
    const milliseconds = sample(latency[what] ?? instant, seed, what, ...name)
    return milliseconds > 0 ? Effect.as(Effect.sleep(milliseconds), milliseconds) : Effect.succeed(0)
  }

  const failed = (phase: EnvironmentError["phase"]) =>
    new EnvironmentError({ phase, fault: "infrastructure", reason: `the simulated desktop failed: ${phase}` })

  /** A desktop that is there until the scope closes. */
  const desktop = (identity: RolloutIdentity) =>
    Effect.zipRight(
      hold(identity),
      Effect.addFinalizer(() => takes("close", identity.rolloutId))
    )

  /** The state of a task: what is prepared once for a group that has copies. */
  const prepare = ({ rolloutId }: RolloutIdentity) =>
    Effect.zipRight(
      takes("open", rolloutId),
      Effect.suspend(() => (fails("open", rolloutId) ? failed("open") : Effect.void))
    )

  const session = (identity: RolloutIdentity): EnvironmentSession<DesktopAction> => {
    const { rolloutId, rolloutKey } = identity
    let seen = 0
    let done = 0
    return {
      observe: Effect.suspend(() => {
        const step = seen++
        return takes("observe", rolloutId, step).pipe(
          Effect.zipWith(
            fails("observe", rolloutId, step) ? Effect.fail(failed("observe")) : screenshot(identity, step),
            (milliseconds, screenshot) => new Observation({ screenshot, milliseconds }, unchecked)
          )
        )
      }),
      step: () =>
        Effect.suspend(() => {
          const step = done++
          return Effect.flatMap(takes("step", rolloutId, step), (milliseconds) =>
            fails("step", rolloutId, step)
              ? Effect.fail(failed("step"))
              : Effect.succeed(new StepFacts({ exitCode: 0, milliseconds, done: false }, unchecked))
          )
        }),
      wait: Effect.map(
        takes("step", rolloutId, "wait"),
        (milliseconds) => new StepFacts({ milliseconds, done: false })
      ),
      evaluate: () =>
        Effect.flatMap(takes("evaluate", rolloutId), () =>
          fails("evaluate", rolloutId)
            ? Effect.fail(new EvaluationFailed({ reason: "the simulated evaluator failed" }))
            : // The attempt is not in it: however often a rollout is tried, it is worth the same.
              Effect.succeed(new Evaluation({ score: draw(seed, "score", rolloutKey) < pass ? 1 : 0, details: [] }))
        ),
      lost: Effect.never
    }
  }

  /** Each in a scope of its own, so that it can go before the others. */
  const member = (identity: RolloutIdentity) =>
    Effect.gen(function* () {
      const own = yield* Scope.fork(yield* Effect.scope, ExecutionStrategy.sequential)
      yield* Scope.extend(desktop(identity), own)
      return { identity, session: session(identity), release: Scope.close(own, Exit.void) }
    })

  const openGroup: NonNullable<Environment<DesktopAction>["openGroup"]> = (_, [first, ...others]) =>
    Effect.gen(function* () {
      const parent = yield* member(first)
      yield* prepare(first)
      if (others.length > 0) yield* takes("copy", first.rolloutId)
      const children = yield* Effect.forEach(others, (identity) =>
        fails("copy", identity.rolloutId) ? failed("open") : member(identity)
      )
      return [parent, ...children]
    })

  return {
    show: (action) => action.code,
    open: (_, identity) => Effect.as(Effect.zipRight(desktop(identity), prepare(identity)), session(identity)),
    ...(options.copies === true ? { openGroup } : {})
  }
}

/**
 * Simulated desktops where a program asks for OSWorld's.
 *
 * @since 0.1.0
 * @category layers
 */
export const layer = (options: DesktopOptions): Layer.Layer<OSWorld> => Layer.succeed(OSWorld, make(options))
