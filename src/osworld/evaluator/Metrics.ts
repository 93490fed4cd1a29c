/**
 * The metrics that we have, by upstream's names.
 *
 * @since 0.1.0
 */
import * as Either from "effect/Either"
import { checkAccessibilityTree } from "./accessibility.js"
import { checkDirectJsonObject, checkJsonSettings } from "./json.js"
import { EvaluationError, type Metric } from "./Metric.js"
import { compareTable } from "./sheets.js"
import {
  checkIncludeExclude,
  checkList,
  compareCsv,
  compareTextFile,
  exactMatch,
  fileContains,
  fuzzyMatch,
  isInList,
  literalMatch,
  matchInList
} from "./text.js"

const byName: ReadonlyMap<string, Metric> = new Map(
  [
    checkAccessibilityTree,
    checkDirectJsonObject,
    checkIncludeExclude,
    checkJsonSettings,
    checkList,
    compareCsv,
    compareTable,
    compareTextFile,
    exactMatch,
    fileContains,
    fuzzyMatch,
    isInList,
    literalMatch,
    matchInList
  ].map((metric) => [metric.name, metric])
)

/**
 * @since 0.1.0
 * @category registry
 */
export const supported: ReadonlySet<string> = new Set(byName.keys())

/**
 * The metric of that name. One that we don't have is an error and no score; ask before the rollout, not after it.
 *
 * @since 0.1.0
 * @category registry
 */
export const get = (name: string): Either.Either<Metric, EvaluationError> =>
  Either.fromNullable(
    byName.get(name),
    () => new EvaluationError({ metric: name, reason: `not yet supported: the metric ${name}` })
  )
