import { readFileSync } from "node:fs"
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as TestClock from "effect/TestClock"
import { zlibSync } from "fflate"
import * as Pdf from "../../../src/osworld/evaluator/internal/pdf.js"
import * as PerceptualHash from "../../../src/osworld/evaluator/internal/perceptualHash.js"
import { type Metric, Value } from "../../../src/osworld/evaluator/Metric.js"
import {
  checkPdfPages,
  comparePdfImages,
  comparePdfs,
  isGoldTextIncludedInPdf,
  metrics
} from "../../../src/osworld/evaluator/pdf.js"
import { indelSimilarity } from "../../../src/osworld/evaluator/Similarity.js"
import { file, fixture, json, judge, missing, text, written } from "./support.js"

/** LibreOffice's PDF of `fixtures/pdf/letter.fodt`, and of variants of it: `fixtures/pdf/make.sh`. */
const pdf = (name: string) => file(fixture(`pdf/${name}`))
const load = (name: string) => ({ name, bytes: readFileSync(fixture(`pdf/${name}`)) })

const bits = (hex: string): ReadonlyArray<boolean> =>
  Array.from(BigInt(`0x${hex}`).toString(2).padStart(64, "0"), (bit) => bit === "1")

const words =
  "Dear Ms Müller,\nthe bicycle that you ordered on 3 May is ready.\nThe second page has the price: 412.50 euros.\nGoodbye."

/** A document from its objects, numbered from 1; the first is the catalogue. */
const build = (...objects: ReadonlyArray<string | Uint8Array>): Uint8Array => {
  const parts: Array<Uint8Array> = []
  const offsets: Array<number> = []
  let length = 0
  const add = (part: string | Uint8Array) => {
    const bytes = typeof part === "string" ? Buffer.from(part, "latin1") : part
    parts.push(bytes)
    length += bytes.length
  }
  add("%PDF-1.4\n")
  for (const [index, object] of objects.entries()) {
    offsets.push(length)
    add(`${index + 1} 0 obj\n`)
    add(object)
    add("\nendobj\n")
  }
  const start = length
  add(`xref\n0 ${objects.length + 1}\n0000000000 65535 f \n`)
  for (const offset of offsets) add(`${String(offset).padStart(10, "0")} 00000 n \n`)
  add(`trailer\n<< /Size ${objects.length + 1} /Root 1 0 R >>\nstartxref\n${start}\n%%EOF\n`)
  return Buffer.concat(parts)
}

describe("PDF", () => {
  it.effect("has the text that was written", () =>
    Effect.map(Pdf.text(load("letter.pdf")), (found) => assert.strictEqual(found.replace(/\s*\n\s*/g, "\n"), words))
  )

  it.effect("has its pages and pictures", () =>
    Effect.gen(function* () {
      assert.strictEqual(yield* Pdf.pageCount(load("letter.pdf")), 3)
      const hashes = yield* Pdf.imageHashes(load("letter.pdf"))
      assert.strictEqual(hashes.length, 2)
      // imagehash says it of the picture that was put in: `fixtures/images/peers.py`.
      const { phash } = JSON.parse(readFileSync(fixture("images/peers.json"), "utf8"))
      assert.deepStrictEqual(hashes[0], bits(phash["scene.png"]))
      // Of a JPEG two decoders need not have the same samples; of black and white they have.
      const [jpeg = []] = yield* Pdf.imageHashes(load("jpeg.pdf"))
      assert.isAtMost(PerceptualHash.distance(jpeg, bits("96966968369169fc")), 2)
      assert.deepStrictEqual(yield* Pdf.imageHashes(load("one-bit.pdf")), [bits("9696696836d1e9e8")])
    })
  )
})

const included = (...texts: ReadonlyArray<string>) => json(Object.fromEntries(texts.entries()))

const cases: ReadonlyArray<readonly [Metric, string, Value, number]> = [
  [comparePdfs, "letter.pdf", pdf("letter.pdf"), 1],
  [comparePdfs, "letter.pdf", pdf("pictured.pdf"), 1],
  [comparePdfImages, "letter.pdf", pdf("letter.pdf"), 1],
  [comparePdfImages, "letter.pdf", pdf("changed.pdf"), 1],
  // One of two pictures is another.
  [comparePdfImages, "letter.pdf", pdf("pictured.pdf"), 0.5],
  [comparePdfImages, "letter.pdf", pdf("plain.pdf"), 0],
  [comparePdfImages, "plain.pdf", pdf("plain.pdf"), 1],
  [checkPdfPages, "letter.pdf", json({ relation: "eq", ref_value: 3 }), 1],
  [checkPdfPages, "letter.pdf", json({ relation: "lt", ref_value: 3 }), 0],
  [checkPdfPages, "letter.pdf", json({ relation: "ge", ref_value: 3 }), 1],
  [checkPdfPages, "letter.pdf", json({ relation: "ne", ref_value: 3 }), 0],
  [isGoldTextIncludedInPdf, "letter.pdf", included("412.50 euros", "ordered  on 3 May"), 1],
  [isGoldTextIncludedInPdf, "letter.pdf", included("412.50 euros", "a motorcycle"), 0]
]

describe("PDF metrics", () => {
  for (const [metric, result, expected, score] of cases) {
    it.effect(`${metric.name} of ${result} by ${JSON.stringify(expected).slice(-60)} is ${score}`, () =>
      Effect.map(judge(metric, pdf(result), expected), (actual) => assert.strictEqual(actual, score))
    )
  }

  it.effect("score a result that is missing or no PDF 0, and say so of a gold one", () =>
    Effect.gen(function* () {
      const place = yield* written({ "text.pdf": "no PDF at all", "empty.pdf": "" })
      const bad = [missing, file(place("text.pdf")), file(place("empty.pdf"))]
      for (const metric of metrics) {
        const [, , gold] = cases.find(([one]) => one === metric) ?? []
        for (const value of bad) {
          assert.strictEqual(yield* judge(metric, value, gold), 0, metric.name)
          assert.include(String(yield* judge(metric, pdf("letter.pdf"), value)), "cannot decide", metric.name)
        }
      }
      // What pdf.js repairs is read: the cut document has lost its text, and is no reason to stop.
      assert.isBelow(Number(yield* judge(comparePdfs, pdf("cut.pdf"), pdf("letter.pdf"))), 1)
    }).pipe(Effect.scoped)
  )

  it.effect("compare_pdfs is the mean of the similarities, and a broken result counts 0 in it", () =>
    Effect.gen(function* () {
      const changed = words.replaceAll("bicycle", "motorcycle")
      const one = yield* judge(comparePdfs, pdf("changed.pdf"), pdf("letter.pdf"))
      // White space between paragraphs is the same in both, and counts.
      assert.approximately(Number(one), indelSimilarity(words, changed), 5e-3)
      const list = (...names: ReadonlyArray<string>) =>
        Value.Files({ files: names.map((name) => ({ name, path: fixture(`pdf/${name}`) })) })
      const judged = (result: Value) => judge(comparePdfs, result, list("letter.pdf", "changed.pdf"))
      assert.strictEqual(yield* judged(list("letter.pdf", "make.sh")), 0.5)
      assert.strictEqual(yield* judged(list("letter.pdf")), 0.5)
      assert.approximately(Number(yield* judged(list("changed.pdf", "changed.pdf"))), (Number(one) + 1) / 2, 1e-9)
      assert.strictEqual(
        yield* judge(comparePdfs, pdf("letter.pdf"), pdf("changed.pdf")),
        yield* judge(comparePdfs, pdf("changed.pdf"), pdf("letter.pdf"))
      )
    })
  )

  it.effect("is_gold_text_included_in_pdf takes a file of JSON too", () =>
    Effect.gen(function* () {
      const place = yield* written({ "gold.json": '{"price": "412.50 euros"}', "bad.json": "[1]" })
      assert.strictEqual(yield* judge(isGoldTextIncludedInPdf, pdf("letter.pdf"), file(place("gold.json"))), 1)
      assert.include(
        String(yield* judge(isGoldTextIncludedInPdf, pdf("letter.pdf"), file(place("bad.json")))),
        "cannot decide"
      )
      assert.include(
        String(yield* judge(checkPdfPages, pdf("letter.pdf"), json({ relation: "is", ref_value: 1 }))),
        "cannot"
      )
      assert.include(String(yield* judge(comparePdfs, text("letter"), pdf("letter.pdf"))), "a file is needed")
    }).pipe(Effect.scoped)
  )
})

describe("hostile PDFs", () => {
  const judged = (bytes: Uint8Array, metric: Metric = comparePdfs, gold: Value = pdf("letter.pdf")) =>
    Effect.gen(function* () {
      const place = yield* written({ "hostile.pdf": bytes })
      return yield* judge(metric, file(place("hostile.pdf")), gold)
    }).pipe(Effect.scoped)

  it.effect("a page tree that contains itself has no pages", () =>
    Effect.gen(function* () {
      const loop = build("<< /Type /Catalog /Pages 2 0 R >>", "<< /Type /Pages /Kids [2 0 R] /Count 3 >>")
      assert.strictEqual(yield* judged(loop), 0)
      assert.strictEqual(yield* judged(loop, checkPdfPages, json({ relation: "ge", ref_value: 1 })), 0)
    })
  )

  it.effect("a number of pages that is not there is not believed, and one that is too large is refused", () =>
    Effect.gen(function* () {
      const page = "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 100 100] >>"
      const liar = build(
        "<< /Type /Catalog /Pages 2 0 R >>",
        "<< /Type /Pages /Kids [3 0 R] /Count 2000000000 >>",
        page
      )
      const rule = json({ relation: "gt", ref_value: 1 })
      assert.match(String(yield* judged(liar, checkPdfPages, rule)), /^0$|cannot decide/)
      // The same page five thousand times and one more.
      const kids = Array.from({ length: Pdf.limits.pages + 1 }, () => "3 0 R").join(" ")
      const many = build(
        "<< /Type /Catalog /Pages 2 0 R >>",
        `<< /Type /Pages /Kids [${kids}] /Count ${Pdf.limits.pages + 1} >>`,
        page
      )
      assert.include(String(yield* judged(many, checkPdfPages, rule)), "cannot decide")
      assert.include(String(yield* judged(many)), "cannot decide")
    })
  )

  it.effect("a cross-reference table that follows itself ends", () =>
    Effect.gen(function* () {
      const plain = Buffer.from(
        build("<< /Type /Catalog /Pages 2 0 R >>", "<< /Type /Pages /Kids [] /Count 0 >>")
      ).toString("latin1")
      const start = plain.indexOf("xref\n")
      const looped = plain.replace("/Root 1 0 R", `/Root 1 0 R /Prev ${start}`)
      assert.match(String(yield* judged(Buffer.from(looped, "latin1"))), /^0(\.\d+)?$|cannot decide/)
    })
  )

  it.effect("a document that takes for ever is given up, and its thread stopped", () =>
    Effect.gen(function* () {
      const fiber = yield* Effect.fork(Effect.flip(Pdf.text(load("letter.pdf"))))
      // The thread needs some tenths of a second to start; the clock of the test passes the limit before.
      yield* TestClock.adjust(Pdf.limits.millis)
      const error = yield* Fiber.join(fiber)
      assert.strictEqual(error.kind, "Undecidable")
      assert.include(error.reason, "could not be read within 60 s")
    })
  )

  it.effect("a stream that unpacks without end is refused", () =>
    Effect.gen(function* () {
      // 300 MB of spaces in 300 KB.
      const packed = zlibSync(new Uint8Array(300 * 1024 * 1024).fill(32), { level: 9 })
      const stream = Buffer.concat([
        Buffer.from(`<< /Length ${packed.length} /Filter /FlateDecode >>\nstream\n`),
        packed,
        Buffer.from("\nendstream")
      ])
      const bomb = build(
        "<< /Type /Catalog /Pages 2 0 R >>",
        "<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 100 100] /Contents 4 0 R >>",
        stream
      )
      assert.include(String(yield* judged(bomb)), "unpacks to more than")
    })
  )
})
