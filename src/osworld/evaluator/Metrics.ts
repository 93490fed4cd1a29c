/**
 * The metrics that we have, by upstream's names.
 *
 * @since 0.1.0
 */
import * as Either from "effect/Either"
import * as Accessibility from "./accessibility.js"
import * as Archives from "./archives.js"
import * as Browser from "./browser.js"
import * as Documents from "./documents.js"
import * as Editors from "./editors.js"
import * as Gimp from "./gimp.js"
import * as ImageStructure from "./imageStructure.js"
import * as Images from "./images.js"
import * as JsonFiles from "./json.js"
import { EvaluationError, type Metric } from "./Metric.js"
import * as Mail from "./mail.js"
import * as Media from "./media.js"
import * as Pdf from "./pdf.js"
import * as PythonPrograms from "./pythonPrograms.js"
import * as Records from "./records.js"
import * as Sheets from "./sheets.js"
import * as Slides from "./slides.js"
import * as System from "./system.js"
import * as Text from "./text.js"
import * as TextFiles from "./textFiles.js"
import * as Vlc from "./vlc.js"

/**
 * All of them. What they read files with is loaded when a file is read, and not with this list.
 *
 * @since 0.1.0
 * @category registry
 */
export const all: ReadonlyArray<Metric> = [
  ...Accessibility.metrics,
  ...Archives.metrics,
  ...Browser.metrics,
  ...Documents.metrics,
  ...Editors.metrics,
  ...Gimp.metrics,
  ...ImageStructure.metrics,
  ...Images.metrics,
  ...JsonFiles.metrics,
  ...Mail.metrics,
  ...Media.metrics,
  ...Pdf.metrics,
  ...PythonPrograms.metrics,
  ...Records.metrics,
  ...Sheets.metrics,
  ...Slides.metrics,
  ...System.metrics,
  ...Text.metrics,
  ...TextFiles.metrics,
  ...Vlc.metrics
]

const byName: ReadonlyMap<string, Metric> = new Map(all.map((metric) => [metric.name, metric]))

/**
 * The names of all metrics, upstream's and ours.
 *
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
