import { readFileSync } from "node:fs"
import { readdir } from "node:fs/promises"
import { tmpdir } from "node:os"
import { gzipSync } from "node:zlib"
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as FastCheck from "effect/FastCheck"
import { strToU8, zipSync } from "fflate"
import * as Archives from "../../../src/osworld/evaluator/archives.js"
import * as Tar from "../../../src/osworld/evaluator/internal/tar.js"
import { file, fixture, judge, missing, rightOf, written } from "./support.js"

// Info-ZIP, GNU tar and LibreOffice made the fixtures: archives/make.sh.
const archive = (name: string) => file(fixture(`archives/${name}`))
const bytesOf = (name: string) => new Uint8Array(readFileSync(fixture(`archives/${name}`)))
const compare = (found: string, gold: string, options = {}) =>
  judge(Archives.compareArchive, archive(found), archive(gold), options)

describe("tar", () => {
  const names = (name: string) => {
    const unpacked = Tar.isGzip(bytesOf(name)) ? rightOf(Tar.gunzip(bytesOf(name))) : bytesOf(name)
    return Array.from(rightOf(Tar.untar(unpacked)), ([member, bytes]) => [member, bytes.length])
  }

  it("reads what GNU tar writes", () => {
    assert.deepStrictEqual(names("notes.tar").toSorted(), [
      ["a.txt", 8],
      ["inner/b.txt", 6]
    ])
    assert.deepStrictEqual(names("notes.tar.gz").toSorted(), [
      ["a.txt", 8],
      ["inner/b.txt", 6]
    ])
    const long = [[`${"long".repeat(30)}.txt`, 2]]
    assert.deepStrictEqual(names("long-gnu.tar.gz"), long)
    assert.deepStrictEqual(names("long-pax.tar.gz"), long)
  })

  it("stays within its limits, and within the archive", () => {
    const limits = { entries: 1, entryBytes: 100, totalBytes: 1000 }
    const many = Tar.untar(bytesOf("notes.tar"), limits)
    assert.deepInclude(Either.getOrUndefined(Either.flip(many)), { kind: "Undecidable" })
    const bomb = Tar.gunzip(gzipSync(new Uint8Array(1_000_000)), limits)
    assert.deepInclude(Either.getOrUndefined(Either.flip(bomb)), { kind: "Undecidable" })
    const absolute = Tar.untar(rightOf(Tar.gunzip(bytesOf("absolute.tar.gz"))))
    assert.deepInclude(Either.getOrUndefined(Either.flip(absolute)), { kind: "Unparsable" })
    const cut = Tar.untar(bytesOf("notes.tar").subarray(0, 515))
    assert.deepInclude(Either.getOrUndefined(Either.flip(cut)), { kind: "Unparsable" })
  })

  it("survives any bytes", () =>
    FastCheck.assert(
      FastCheck.property(
        FastCheck.array(FastCheck.tuple(FastCheck.nat(10_239), FastCheck.nat(255)), { maxLength: 20 }),
        (changes) => {
          const bytes = bytesOf("notes.tar")
          for (const [at, value] of changes) bytes[at] = value
          Tar.untar(bytes)
        }
      )
    ))
})

describe("compare_archive", () => {
  it.effect("the same files, whatever holds them", () =>
    Effect.gen(function* () {
      for (const found of ["notes.zip", "notes-without-folders.zip", "notes.tar", "notes.tar.gz"]) {
        for (const gold of ["notes.zip", "notes.tar.gz"]) {
          assert.strictEqual(yield* compare(found, gold), 1, `${found} and ${gold}`)
        }
      }
      assert.strictEqual(yield* compare("long-gnu.tar.gz", "long-pax.tar.gz"), 1)
    })
  )

  it.effect("the mean over files, of files of the same names", () =>
    Effect.gen(function* () {
      assert.strictEqual(yield* compare("reworded.zip", "notes.zip"), 0.5)
      assert.strictEqual(yield* compare("reworded.zip", "notes.zip", { file_path: "inner" }), 0)
      assert.strictEqual(yield* compare("renamed.zip", "notes.zip"), 0)
      assert.strictEqual(yield* compare("renamed.zip", "notes.zip", { file_path: "./inner/" }), 1)
      assert.include(yield* compare("notes.zip", "notes.zip", { file_path: "outer" }), "no files there")
    })
  )

  it.effect("each by the metric for its kind, with that metric's options", () =>
    Effect.gen(function* () {
      // 2 * LCS / (117 + 120), where "bicycle" and "motorcycle" share "cycle".
      const similar = yield* compare("papers-changed.zip", "papers.zip", { file_type: "pdf" })
      assert.strictEqual(yield* compare("papers.zip", "papers.zip", { file_type: "pdf" }), 1)
      assert.isTrue(typeof similar === "number" && similar > 0.95 && similar < 1)
      const at = yield* written({
        loud: zipSync({ "a.txt": strToU8("ONE\nTWO\n"), "inner/b.txt": strToU8("three \n") }),
        csv: zipSync({ "a.csv": strToU8("x,y\n1,2\n") }),
        spaced: zipSync({ "a.csv": strToU8(" x,y \n1,2\n") })
      })
      const notes = archive("notes.zip")
      const options = { ignore_case: true, ignore_blanks: true }
      assert.strictEqual(yield* judge(Archives.compareArchive, file(at("loud")), notes), 0)
      assert.strictEqual(yield* judge(Archives.compareArchive, file(at("loud")), notes, options), 1)
      const csv = { file_type: "csv", strict: false }
      assert.strictEqual(yield* judge(Archives.compareArchive, file(at("spaced")), file(at("csv")), csv), 1)
      assert.strictEqual(
        yield* judge(Archives.compareArchive, file(at("spaced")), file(at("csv")), { ...csv, strict: true }),
        0
      )
      const pictures = (picture: string) =>
        zipSync({ "a.png": new Uint8Array(readFileSync(fixture(`images/${picture}`))) })
      const images = yield* written({ one: pictures("scene.png"), other: pictures("other.png") })
      const image = { file_type: "image" }
      assert.strictEqual(yield* judge(Archives.compareArchive, file(images("one")), file(images("one")), image), 1)
      const unlike = yield* judge(Archives.compareArchive, file(images("other")), file(images("one")), image)
      assert.isTrue(typeof unlike === "number" && unlike < 0.9)
    }).pipe(Effect.scoped)
  )

  it.effect("no archive, hostile ones, and those that we don't read", () =>
    Effect.gen(function* () {
      const at = yield* written({
        text: "no archive",
        out: zipSync({ "../a.txt": strToU8("one\ntwo\n") }),
        none: zipSync({}),
        broken: zipSync({ "letter.pdf": strToU8("no PDF") })
      })
      const judged = (name: string, options = {}) =>
        judge(Archives.compareArchive, file(at(name)), archive("notes.zip"), options)
      assert.strictEqual(yield* judged("text"), 0)
      assert.strictEqual(yield* judged("out"), 0)
      assert.strictEqual(yield* judged("none"), 0)
      assert.strictEqual(yield* compare("absolute.tar.gz", "notes.zip"), 0)
      assert.strictEqual(yield* judge(Archives.compareArchive, missing, archive("notes.zip")), 0)
      assert.include(yield* compare("notes.tar.bz2", "notes.zip"), "not supported")
      const pdf = { file_type: "pdf" }
      const papers = archive("papers.zip")
      assert.strictEqual(yield* judge(Archives.compareArchive, file(at("broken")), papers, pdf), 0)
      assert.include(yield* judge(Archives.compareArchive, papers, file(at("broken")), pdf), "cannot decide")
      assert.include(yield* judge(Archives.compareArchive, papers, file(at("text")), pdf), "expected value")
    }).pipe(Effect.scoped)
  )

  it.effect("bad options are known before an episode", () =>
    Effect.gen(function* () {
      assert.include(yield* compare("notes.zip", "notes.zip", { file_type: "constructor" }), "not supported")
      const validate = (options: Record<string, unknown>) => Either.isRight(Archives.compareArchive.validate(options))
      assert.isTrue(validate({}))
      assert.isTrue(validate({ file_type: "csv", strict: false }))
      assert.isFalse(validate({ file_type: "csv", strict: "no" }))
      assert.isFalse(validate({ file_type: "rar" }))
      assert.isFalse(validate({ file_type: 1 }))
    })
  )

  it.effect("leaves nothing on the disk", () =>
    Effect.gen(function* () {
      const folders = Effect.promise(async () =>
        (await readdir(tmpdir())).filter((name) => name.startsWith("deskhand-archive-"))
      )
      const before = yield* folders
      yield* compare("notes.zip", "notes.zip")
      yield* compare("papers.zip", "papers.zip", { file_type: "table" })
      assert.deepStrictEqual(yield* folders, before)
    })
  )
})

describe("compare_epub", () => {
  const epub = (found: string, gold: string, compat = false) =>
    judge(Archives.compareEpub, archive(found), archive(gold), {}, { compat })

  it.effect("a book and a later conversion of the same text are equal", () =>
    Effect.gen(function* () {
      assert.strictEqual(yield* epub("book.epub", "book.epub"), 1)
      const again = yield* judge(Archives.compareEpub, archive("again.epub"), archive("book.epub"))
      assert.strictEqual(again, 1)
    })
  )

  it.effect("the mean of its parts", () =>
    Effect.gen(function* () {
      // Five parts, of which one page differs in one of its seven lines: head, meta, link, body and three paragraphs, with
      // html before them. So 7 of 8 lines match, and the ratio of that page is 14/16.
      assert.closeTo(Number(yield* epub("reworded.epub", "book.epub")), (4 + 14 / 16) / 5, 1e-12)
    })
  )

  /** The layout of Calibre's books, which upstream expects. */
  const calibre = (parts: Record<string, string>, made = "2024-01-01") =>
    zipSync({
      mimetype: strToU8("application/epub+zip"),
      "toc.ncx": strToU8(
        `<?xml version='1.0' encoding='utf-8'?>
<ncx xmlns="http://www.daisy.org/z3986/2005/ncx/" version="2005-1">
  <head>
    <meta name="dtb:uid" content="uid-${made}"/>
    <meta name="dtb:depth" content="2"/>
  </head>
  <docTitle>
    <text>Book</text>
  </docTitle>
  <navMap>
    <navPoint id="n${made}" playOrder="1">
      <navLabel>
        <text>One</text>
      </navLabel>
    </navPoint>
  </navMap>
</ncx>
`
      ),
      "content.opf": strToU8(
        `<package xmlns="http://www.idpf.org/2007/opf" xmlns:dc="http://purl.org/dc/elements/1.1/" version="2.0">
  <metadata>
    <dc:title>Book</dc:title>
    <dc:identifier id="uuid_id">id-${made}</dc:identifier>
    <meta name="calibre:timestamp" content="${made}T00:00:00+00:00"/>
  </metadata>
</package>
`
      ),
      ...Object.fromEntries(Object.entries(parts).map(([name, html]) => [name, strToU8(html)]))
    })
  const page = (content: string) => `<html><head><title>Book</title></head><body><p>${content}</p></body></html>`

  it.effect("upstream's parts, by order and with what each conversion makes anew", () =>
    Effect.gen(function* () {
      const at = yield* written({
        gold: calibre({ "a_000.html": page("One"), "a_001.html": page("Two") }),
        later: calibre({ "a_000.html": page("One"), "a_001.html": page("Two") }, "2024-06-01"),
        half: calibre({ "a_000.html": page("One") }),
        renamed: calibre({ "b_000.html": page("One"), "b_001.html": page("Two") }),
        none: zipSync({ mimetype: strToU8("application/epub+zip") }),
        text: "no book"
      })
      const judged = (found: string, compat = false) =>
        judge(Archives.compareEpub, file(at(found)), file(at("gold")), {}, { compat })
      assert.strictEqual(yield* judged("gold"), 1)
      assert.strictEqual(yield* judged("gold", true), 1)
      assert.strictEqual(yield* judged("later"), 1)
      // By hand: without navigation points the contents have 15 lines, one of which differs; the package without the
      // identifier 6, one of which differs; both pages are equal.
      assert.closeTo(Number(yield* judged("later", true)), (14 / 15 + 5 / 6 + 2) / 4, 1e-12)
      // A page is missing: 3 of 4 parts. Upstream counts those that are there.
      assert.strictEqual(yield* judged("half"), 3 / 4)
      // It pairs a_000.html, content.opf, toc.ncx with a_000.html, a_001.html, content.opf.
      assert.strictEqual(yield* judged("half", true), 1 / 3)
      assert.strictEqual(yield* judged("renamed"), 2 / 6)
      assert.strictEqual(yield* judged("renamed", true), 1)
      assert.strictEqual(yield* judged("none"), 0)
      assert.strictEqual(yield* judged("none", true), 0)
      assert.strictEqual(yield* judged("text"), 0)
      assert.strictEqual(yield* judge(Archives.compareEpub, missing, file(at("gold"))), 0)
      assert.include(yield* judge(Archives.compareEpub, file(at("gold")), file(at("none"))), "no parts")
      assert.include(yield* judge(Archives.compareEpub, file(at("gold")), file(at("text"))), "expected value")
    }).pipe(Effect.scoped)
  )

  it.effect("a package that is no XML is compared line by line", () =>
    Effect.gen(function* () {
      const at = yield* written({
        one: zipSync({ "content.opf": strToU8("<package>\n<dc:identifier>1\n<a>\n") }),
        other: zipSync({ "content.opf": strToU8("<package>\n<dc:identifier>2\n<b>\n") })
      })
      assert.strictEqual(yield* judge(Archives.compareEpub, file(at("one")), file(at("one"))), 1)
      assert.strictEqual(yield* judge(Archives.compareEpub, file(at("other")), file(at("one"))), 0.5)
    }).pipe(Effect.scoped)
  )
})
