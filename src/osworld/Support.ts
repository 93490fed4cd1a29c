/**
 * What of a task this version cannot do, so that nobody finds out at the end of an episode.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Getters from "./evaluator/Getters.js"
import * as Metrics from "./evaluator/Metrics.js"
import * as Setup from "./Setup.js"
import type { Task } from "./Task.js"

/**
 * A part of a task that cannot be carried out.
 *
 * @since 0.1.0
 * @category models
 */
export interface Gap {
  readonly kind: "setup step" | "getter" | "metric"
  /** Its name in the task: `chrome_open_tabs`, `vlc_config`, `compare_table`. */
  readonly name: string
  /** Where it stands, such as `config[2]` or `evaluator.result`; of a list, `evaluator.result[1]`. */
  readonly at: string
  readonly reason: string
}

/**
 * All parts of a task that cannot be carried out, in their order: setup steps that are not there, getters and metrics
 * that are not there or that refuse their parameters and options. What the parameters of setup steps have to be is
 * checked where a task is decoded.
 *
 * @since 0.1.0
 * @category queries
 */
export const gaps = (task: Task): Effect.Effect<ReadonlyArray<Gap>> =>
  Effect.gen(function* () {
    const { config, evaluator } = task
    const found: Array<Gap> = []
    const steps = [
      ...config.map((step, index) => ({ step, at: `config[${index}]` })),
      ...evaluator.postconfig.map((step, index) => ({ step, at: `evaluator.postconfig[${index}]` }))
    ]
    for (const { at, step } of steps) {
      if (Setup.supported.has(step.type)) continue
      found.push({ kind: "setup step", name: step.type, at, reason: "it is not yet supported" })
    }
    const checks = evaluator._tag === "Checks" ? evaluator.checks : []
    for (const [index, { expected, metric, options, result }] of checks.entries()) {
      const suffix = checks.length === 1 ? "" : `[${index}]`
      const known = Either.flatMap(Metrics.get(metric), ({ validate }) => validate(options))
      if (Either.isLeft(known)) {
        found.push({ kind: "metric", name: metric, at: `evaluator.func${suffix}`, reason: known.left.reason })
      }
      for (const [role, spec] of [["result", result] as const, ["expected", expected] as const]) {
        if (spec === undefined) continue
        const valid = yield* Effect.either(Getters.validate(spec))
        if (Either.isRight(valid)) continue
        found.push({ kind: "getter", name: spec.type, at: `evaluator.${role}${suffix}`, reason: valid.left.reason })
      }
    }
    return found
  })

/**
 * `gaps`, each once and as a few words: `setup step login (it is not yet supported)`.
 *
 * @since 0.1.0
 * @category queries
 */
export const unsupported = (task: Task): Effect.Effect<ReadonlyArray<string>> =>
  Effect.map(gaps(task), (found) =>
    Array.from(new Set(found.map(({ kind, name, reason }) => `${kind} ${name} (${reason})`)))
  )
