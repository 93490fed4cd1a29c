/**
 * Grades a task: what its evaluator says of the desktop that an agent left.
 *
 * @since 0.1.0
 */
import * as Arr from "effect/Array"
import * as Effect from "effect/Effect"
import { Evaluation } from "../../rollout/Evaluation.js"
import type { Termination } from "../../rollout/Termination.js"
import type { Check } from "../EvaluatorSpec.js"
import * as Setup from "../Setup.js"
import type { Task } from "../Task.js"
import { combineEffect } from "./Combine.js"
import type * as Getter from "./Getter.js"
import * as Getters from "./Getters.js"
import * as GuestPython from "./internal/guestPython.js"
import type { EvaluationError } from "./Metric.js"
import * as Metrics from "./Metrics.js"

/** Getters of which some tasks take the gold, although it is the desktop's. */
const onDesktop = new Set(["vm_file", "vm_command_line", "vm_command_error", "vm_wallpaper", "content_from_vm_file"])

/** One check's score, and a line that says how it came about. */
const check = (
  { expected, metric, options, result }: Check,
  context: Setup.TaskContext,
  details: Array<string>
): Effect.Effect<number, EvaluationError | Getter.GetterError, Getter.Requirements> =>
  Effect.gen(function* () {
    const { evaluate } = yield* Metrics.get(metric)
    // Gold first: a task that nobody can judge is an error whatever the agent did.
    const gold = expected === undefined ? undefined : yield* Getters.get(expected, { context, role: "expected" })
    const value = yield* Getters.get(result, { context, role: "result" })
    const score = yield* evaluate({
      result: value,
      expected: gold,
      expectedOnDesktop: expected !== undefined && onDesktop.has(expected.type),
      options,
      context: { compat: context.compat, runPython: GuestPython.make(context.guest) }
    })
    const why = [value, gold].flatMap((each) => (each?._tag === "Missing" ? [` (${each.reason})`] : [])).join("")
    details.push(`${metric} of ${result.type}: ${score}${why}`)
    return score
  })

/**
 * Runs `postconfig`, then the checks. Saying that a task cannot be done scores 1 where that is so and 0 where it is not,
 * and nothing else scores where it is so.
 *
 * @since 0.1.0
 * @category operations
 */
export const evaluate = (
  task: Task,
  context: Setup.TaskContext,
  termination: Termination
): Effect.Effect<Evaluation, EvaluationError | Getter.GetterError | Setup.SetupError, Getter.Requirements> =>
  Effect.gen(function* () {
    const { evaluator } = task
    const gaveUp = termination._tag === "AgentFail"
    if (evaluator._tag === "Infeasible" || gaveUp) {
      const right = evaluator._tag === "Infeasible" && gaveUp
      const can = evaluator._tag === "Infeasible" ? "cannot" : "can"
      const said = gaveUp ? "said that it cannot" : "did not say that it cannot"
      return new Evaluation({ score: right ? 1 : 0, details: [`the task ${can} be done, and the agent ${said}`] })
    }
    yield* Setup.run(context, "postconfig", evaluator.postconfig)
    const details: Array<string> = []
    const score = yield* combineEffect(
      evaluator.conj,
      Arr.map(evaluator.checks, (one) => check(one, context, details))
    )
    return new Evaluation({ score, details })
  })
