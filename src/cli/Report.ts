/**
 * `deskhand report`: what a run on disk came to.
 *
 * @since 0.1.0
 */
import * as FileSystem from "@effect/platform/FileSystem"
import type * as Path from "@effect/platform/Path"
import * as Console from "effect/Console"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as RecordedRun from "../rollout/RecordedRun.js"
import * as ReportHtml from "../rollout/ReportHtml.js"
import * as ReportJson from "../rollout/ReportJson.js"
import * as ReportMarkdown from "../rollout/ReportMarkdown.js"
import * as ReportText from "../rollout/ReportText.js"
import { UsageError } from "./Run.js"

/**
 * How a report is shown: as text unless asked otherwise.
 *
 * @since 0.1.0
 * @category models
 */
export interface ShownAs {
  readonly json: boolean
  readonly markdown: boolean
  /** The file that a page goes to. */
  readonly html: Option.Option<string>
}

/**
 * Shows what was asked for: at most one of JSON and Markdown on standard output, and a page in its file.
 *
 * @since 0.1.0
 * @category operations
 */
export const show = (
  { html, json, markdown }: ShownAs,
  make: {
    readonly json: () => unknown
    readonly markdown: () => string
    readonly html: () => string
    readonly text: () => string
  }
): Effect.Effect<void, UsageError, FileSystem.FileSystem> =>
  Effect.gen(function* () {
    if (json && markdown) return yield* new UsageError({ reason: "give one of --json and --markdown" })
    if (Option.isSome(html)) {
      const file = html.value
      yield* Effect.flatMap(FileSystem.FileSystem, (fs) => fs.writeFileString(file, make.html())).pipe(
        Effect.mapError((error) => new UsageError({ reason: `${file} cannot be written: ${error.message}` }))
      )
    }
    if (json) yield* Console.log(JSON.stringify(make.json(), null, 2))
    else if (markdown) yield* Console.log(make.markdown().trimEnd())
    else if (Option.isNone(html)) yield* Console.log(make.text())
    else yield* Console.log(`The page is in ${html.value}`)
  })

/**
 * Reports on the run in `folder`; changes nothing in it.
 *
 * @since 0.1.0
 * @category programs
 */
export const report = (
  options: ShownAs & { readonly folder: string }
): Effect.Effect<void, RecordedRun.NoRun | UsageError, FileSystem.FileSystem | Path.Path> =>
  Effect.gen(function* () {
    const run = yield* RecordedRun.read(options.folder)
    yield* show(options, {
      json: () => ReportJson.report(run),
      markdown: () => ReportMarkdown.render(run),
      html: () => ReportHtml.render(run),
      text: () => {
        const color = process.stdout.isTTY === true && (process.env["NO_COLOR"] ?? "") === ""
        const text = ReportText.render(run.report, { width: process.stdout.columns ?? 120, color })
        return [...run.notes.map((note) => `note: ${RecordedRun.showNote(note)}`), text].join("\n")
      }
    })
  })
