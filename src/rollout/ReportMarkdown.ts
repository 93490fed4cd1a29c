/**
 * A recorded run as Markdown.
 *
 * @since 0.1.0
 */
import { toMarkdown } from "./internal/report/markdown.js"
import { reportDocument } from "./internal/report/reportDocument.js"
import type { RecordedRun } from "./RecordedRun.js"

/**
 * GitHub's Markdown, with what rows say escaped.
 *
 * @since 0.1.0
 * @category rendering
 */
export const render = (run: RecordedRun): string => toMarkdown(reportDocument(run))
