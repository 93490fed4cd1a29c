/**
 * What of a task this version cannot do, so that nobody finds out at the end of an episode.
 *
 * @since 0.1.0
 */
import * as Either from "effect/Either"
import * as Getters from "./evaluator/Getters.js"
import * as Metrics from "./evaluator/Metrics.js"
import * as Setup from "./Setup.js"
import type { Task } from "./Task.js"

/**
 * The parts of a task that are not supported yet, each once: `setup step chrome_open_tabs`, `getter vlc_config`, and
 * metrics with the reason, which may be in their options.
 *
 * @since 0.1.0
 * @category queries
 */
export const unsupported = (task: Task): ReadonlyArray<string> => {
  const { evaluator } = task
  const missing = (kind: string, names: ReadonlyArray<string>, known: ReadonlySet<string>) =>
    names.filter((name) => !known.has(name)).map((name) => `${kind} ${name}`)
  const checks = evaluator._tag === "Checks" ? evaluator.checks : []
  const getters = checks.flatMap(({ expected, result }) => [
    result.type,
    ...(expected === undefined ? [] : [expected.type])
  ])
  return Array.from(
    new Set([
      ...missing(
        "setup step",
        [...task.config, ...evaluator.postconfig].map(({ type }) => type),
        Setup.supported
      ),
      ...missing("getter", getters, Getters.supported),
      ...checks.flatMap(({ metric, options }) =>
        Either.match(
          Either.flatMap(Metrics.get(metric), ({ validate }) => validate(options)),
          { onLeft: ({ reason }) => [`metric ${metric} (${reason})`], onRight: () => [] }
        )
      )
    ])
  )
}
