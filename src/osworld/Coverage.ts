/**
 * How many of the tasks at hand can be carried out from their first setup step to their last metric, and what the others
 * lack.
 *
 * @since 0.1.0
 */
import type * as FileSystem from "@effect/platform/FileSystem"
import type * as Path from "@effect/platform/Path"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Order from "effect/Order"
import * as Getters from "./evaluator/Getters.js"
import * as Metrics from "./evaluator/Metrics.js"
import * as TaskFiles from "./internal/taskFiles.js"
import * as Setup from "./Setup.js"
import { type Gap, gaps } from "./Support.js"

/**
 * What one task lacks. A file that is no task lacks itself: its `gaps` say what is wrong in it.
 *
 * @since 0.1.0
 * @category models
 */
export interface TaskCoverage {
  /** The file, and for a row of a JSONL file its line. */
  readonly source: string
  readonly id: string
  readonly domain: string
  readonly supported: boolean
  readonly gaps: ReadonlyArray<Gap | { readonly kind: "task"; readonly at: string; readonly reason: string }>
}

/**
 * @since 0.1.0
 * @category models
 */
export interface DomainTotal {
  readonly domain: string
  readonly tasks: number
  readonly supported: number
}

/**
 * @since 0.1.0
 * @category models
 */
export interface Coverage {
  readonly tasks: ReadonlyArray<TaskCoverage>
  /** By name. */
  readonly domains: ReadonlyArray<DomainTotal>
  readonly total: Omit<DomainTotal, "domain">
}

/**
 * Totals of tasks.
 *
 * @since 0.1.0
 * @category constructors
 */
export const make = (tasks: ReadonlyArray<TaskCoverage>): Coverage => {
  const domains = new Map<string, DomainTotal>()
  for (const { domain, supported } of tasks) {
    const so = domains.get(domain) ?? { domain, tasks: 0, supported: 0 }
    domains.set(domain, { domain, tasks: so.tasks + 1, supported: so.supported + (supported ? 1 : 0) })
  }
  return {
    tasks,
    domains: Array.from(domains.values()).sort(Order.mapInput(Order.string, ({ domain }: DomainTotal) => domain)),
    total: { tasks: tasks.length, supported: tasks.filter(({ supported }) => supported).length }
  }
}

/** Where nobody can say what the task is, its file's name and folder do. */
const nameOf = (source: string): { readonly id: string; readonly domain: string } => {
  const [name = source, folder = "unknown"] = source.split("/").reverse()
  const [prefix, id] = name.replace(/\.json$/i, "").split("__")
  return id === undefined || prefix === undefined ? { id: prefix ?? name, domain: folder } : { id, domain: prefix }
}

/**
 * Looks at all tasks that the patterns of `TaskSource.load` lead to. It never fails: what cannot be read or is no task is
 * one that is not supported.
 *
 * @since 0.1.0
 * @category operations
 */
export const survey = (
  patterns: ReadonlyArray<string>
): Effect.Effect<Coverage, never, FileSystem.FileSystem | Path.Path> =>
  Effect.gen(function* () {
    const { fromPattern } = yield* TaskFiles.make
    const seen = new Set<string>()
    const found = (yield* Effect.forEach(patterns, (pattern) => fromPattern(pattern, seen))).flat()
    const tasks = yield* Effect.forEach(
      found,
      Either.match({
        onLeft: (problems) => {
          const source = problems[0].source
          const wrong = problems.map(({ message, path }) => ({ kind: "task" as const, at: path, reason: message }))
          return Effect.succeed<TaskCoverage>({ source, ...nameOf(source), supported: false, gaps: wrong })
        },
        onRight: ({ domain, source, task }) =>
          Effect.map(
            gaps(task),
            (gaps): TaskCoverage => ({ source, id: task.id, domain, supported: gaps.length === 0, gaps })
          )
      })
    )
    return make(tasks)
  })

/**
 * The names of all that there is, in the order of the alphabet.
 *
 * @since 0.1.0
 * @category queries
 */
export const names = (what: "getters" | "metrics" | "steps"): ReadonlyArray<string> => {
  const registries = { getters: Getters.supported, metrics: Metrics.supported, steps: Setup.supported }
  return Array.from(registries[what]).sort(Order.string)
}
