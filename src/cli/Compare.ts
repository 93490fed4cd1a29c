/**
 * `deskhand compare`: two runs on disk, side by side.
 *
 * @since 0.1.0
 */
import type * as FileSystem from "@effect/platform/FileSystem"
import type * as Path from "@effect/platform/Path"
import * as Effect from "effect/Effect"
import * as Compare from "../rollout/Compare.js"
import * as CompareReport from "../rollout/CompareReport.js"
import * as RecordedRun from "../rollout/RecordedRun.js"
import * as Report from "../rollout/Report.js"
import * as ReportJson from "../rollout/ReportJson.js"
import { type ShownAs, show } from "./Report.js"
import type { UsageError } from "./Run.js"

/**
 * Compares the runs in two folders; changes nothing in them.
 *
 * @since 0.1.0
 * @category programs
 */
export const compare = (
  options: ShownAs & { readonly a: string; readonly b: string; readonly seed: number }
): Effect.Effect<void, RecordedRun.NoRun | UsageError, FileSystem.FileSystem | Path.Path> =>
  Effect.gen(function* () {
    const [a, b] = [yield* RecordedRun.read(options.a), yield* RecordedRun.read(options.b)]
    const compared = Compare.compare(Report.entries(a.report), Report.entries(b.report), { seed: options.seed })
    yield* show(options, {
      json: () => ReportJson.comparison(a, b, compared),
      markdown: () => CompareReport.toMarkdown(a, b, compared),
      html: () => CompareReport.toHtml(a, b, compared),
      text: () => CompareReport.toText(a, b, compared)
    })
  })
