/**
 * `deskhand ctl`: speaks to a run that goes on.
 *
 * @since 0.1.0
 */
import type * as Path from "@effect/platform/Path"
import * as Console from "effect/Console"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Control from "../rollout/Control.js"
import { type UsageError, usage } from "./internal/usage.js"

/**
 * What may be said to a run.
 *
 * @since 0.1.0
 * @category constants
 */
export const verbs = ["status", "pause", "resume", "concurrency", "cancel", "drain"] as const

/**
 * @since 0.1.0
 * @category models
 */
export interface ControlOptions {
  /** The run's folder. */
  readonly run: string
  readonly verb: (typeof verbs)[number]
  /** The number of `concurrency`, the rollout of `cancel`. */
  readonly value: Option.Option<string>
  readonly json: boolean
}

/** The request that the words of a command line are; else what is wrong with them. */
const requestOf = ({ run, value, verb }: ControlOptions): Effect.Effect<Control.Request, UsageError> => {
  const example = (words: string) => usage(`${verb} wants ${words}`)
  switch (verb) {
    case "concurrency": {
      const places = Option.getOrElse(value, () => "")
      return /^[1-9]\d{0,6}$/.test(places)
        ? Effect.succeed({ ask: "concurrency", places: Number(places) })
        : Effect.fail(example(`a whole number from 1: deskhand ctl ${run} concurrency 8`))
    }
    case "cancel":
      return Option.match(value, {
        onNone: () => Effect.fail(example(`a rollout's id, as status lists them: deskhand ctl ${run} cancel 0-0`)),
        onSome: (rollout) => Effect.succeed({ ask: "cancel", rollout })
      })
    default:
      return Option.isSome(value)
        ? Effect.fail(usage(`${verb} takes nothing, and ${value.value} was given`))
        : Effect.succeed({ ask: verb })
  }
}

const duration = (milliseconds: number): string => `${(milliseconds / 1000).toFixed(1)} s`

/** A run's status, for a reader. */
const render = (status: Control.Status): string => {
  const { completionTokens, promptTokens, rollouts } = status
  const state = status.draining ? "draining" : status.paused ? "paused" : "running"
  return [
    `process ${status.pid}: ${state}`,
    `${status.running} run of at most ${status.concurrency}, ${status.waiting} wait`,
    `${status.finished} scored, ${status.failed} failed, ${status.unresolved} unresolved, ${status.retried} tries again; ${status.earlier} from before`,
    `an attempt takes ${duration(status.medianMilliseconds)} at the median, ${duration(status.p90Milliseconds)} at the 90th percentile`,
    ...(promptTokens + completionTokens === 0 ? [] : [`${promptTokens} prompt tokens, ${completionTokens} of replies`]),
    ...(rollouts.length === 0 ? [] : [`under way: ${rollouts.join(" ")}`])
  ].join("\n")
}

/**
 * Asks the run, and prints how it is then. Fails with `ControlError` when none answers or it refuses.
 *
 * @since 0.1.0
 * @category operations
 */
export const control = (options: ControlOptions): Effect.Effect<void, UsageError | Control.ControlError, Path.Path> =>
  Effect.gen(function* () {
    const status = yield* Control.ask(options.run, yield* requestOf(options))
    yield* Console.log(options.json ? JSON.stringify(status) : render(status))
  })
