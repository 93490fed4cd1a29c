/** A file of 2 GB in the place of what an agent was to make: refused by its size, at once, and never a score. */
import * as Fs from "node:fs"
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Metrics from "../../../src/osworld/evaluator/Metrics.js"
import { file, fixture, judge, rightOf, written } from "./support.js"

const bytes = 2 ** 31

const cases: ReadonlyArray<readonly [metric: string, name: string, gold: string, options?: Record<string, unknown>]> = [
  ["compare_table", "huge.xlsx", "book.xlsx", { rules: [{ type: "sheet_name" }] }],
  ["compare_pptx_files", "huge.pptx", "slides/deck.pptx"],
  ["compare_docx_files", "huge.docx", "documents/report.docx"],
  ["compare_images", "huge.png", "images/scene.png"],
  ["compare_pdfs", "huge.pdf", "pdf/changed.pdf"],
  ["compare_archive", "huge.zip", "archives/notes.zip", { file_type: "text" }],
  ["compare_epub", "huge.epub", "archives/book.epub"],
  ["compare_text_file", "huge.txt", "mail/prefs.js"]
]

describe("a file of 2 GB", () => {
  for (const [name, result, gold, options] of cases) {
    it.scopedLive(`${name} does not read it`, () =>
      Effect.gen(function* () {
        const place = yield* written({ [result]: "" })
        // Sparse: it takes no room on the disk.
        Fs.truncateSync(place(result), bytes)
        const before = process.memoryUsage.rss()
        const said = yield* judge(rightOf(Metrics.get(name)), file(place(result)), file(fixture(gold)), options)
        assert.isString(said, name)
        assert.match(String(said), /2147483648/)
        assert.isBelow(process.memoryUsage.rss() - before, 200e6)
      })
    )
  }
})
