/**
 * A recorded run as a page.
 *
 * @since 0.1.0
 */
import { toPage } from "./internal/report/page.js"
import { reportDocument } from "./internal/report/reportDocument.js"
import type { RecordedRun } from "./RecordedRun.js"

/**
 * One HTML file with its plots in it, which loads nothing and runs no script.
 *
 * @since 0.1.0
 * @category rendering
 */
export const render = (run: RecordedRun): string => toPage(reportDocument(run))
