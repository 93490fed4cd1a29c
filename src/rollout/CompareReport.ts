/**
 * A comparison of two recorded runs for readers: as text, as Markdown, and as a page.
 *
 * @since 0.1.0
 */
import type { Comparison } from "./Compare.js"
import { compareDocument } from "./internal/report/compareDocument.js"
import { toMarkdown as documentMarkdown } from "./internal/report/markdown.js"
import { toPage } from "./internal/report/page.js"
import { toText as documentText } from "./internal/report/plainText.js"
import type { RecordedRun } from "./RecordedRun.js"

/**
 * For a terminal.
 *
 * @since 0.1.0
 * @category rendering
 */
export const toText = (a: RecordedRun, b: RecordedRun, comparison: Comparison): string =>
  documentText(compareDocument(a, b, comparison))

/**
 * GitHub's Markdown, with what rows say escaped.
 *
 * @since 0.1.0
 * @category rendering
 */
export const toMarkdown = (a: RecordedRun, b: RecordedRun, comparison: Comparison): string =>
  documentMarkdown(compareDocument(a, b, comparison))

/**
 * One HTML file with its plots in it, which loads nothing and runs no script.
 *
 * @since 0.1.0
 * @category rendering
 */
export const toHtml = (a: RecordedRun, b: RecordedRun, comparison: Comparison): string =>
  toPage(compareDocument(a, b, comparison))
