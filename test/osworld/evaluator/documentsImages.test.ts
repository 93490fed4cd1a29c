import { existsSync, readFileSync } from "node:fs"
import * as CommandExecutor from "@effect/platform/CommandExecutor"
import { SystemError } from "@effect/platform/Error"
import * as NodeContext from "@effect/platform-node/NodeContext"
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Layer from "effect/Layer"
import { gunzipSync } from "fflate"
import sharp from "sharp"
import { checkFileExists, compareDocxImages, compareImageText } from "../../../src/osworld/evaluator/documentImages.js"
import * as WindowDump from "../../../src/osworld/evaluator/internal/windowDump.js"
import { Value } from "../../../src/osworld/evaluator/Metric.js"
import { compare, docx, malformed, paragraph, report } from "./documentSupport.js"
import { file, fixture, json, judge, missing, rightOf, text, written } from "./support.js"

/** Two red pixels and two blue ones. */
const pixels = new Uint8Array([255, 0, 0, 255, 0, 0, 0, 0, 255, 0, 0, 255])
const raw = { raw: { width: 2, height: 2, channels: 3 as const } }

const png = (data = pixels, compressionLevel = 9) =>
  Effect.promise(async () => new Uint8Array(await sharp(data, raw).png({ compressionLevel }).toBuffer()))

describe("compare_docx_images", () => {
  const withPictures = (...pictures: ReadonlyArray<Uint8Array>) =>
    docx(
      paragraph(""),
      Object.fromEntries([
        [
          "word/_rels/document.xml.rels",
          `<Relationships>${pictures.map((_, i) => `<Relationship Id="r${i}" Type="x/image" Target="media/p${i}.png"/>`).join("")}</Relationships>`
        ],
        ...pictures.map((bytes, i) => [`word/media/p${i}.png`, bytes] as const)
      ])
    )

  it.scoped("compares decoded pixels in order", () =>
    Effect.gen(function* () {
      const [one, again, other] = [yield* png(), yield* png(pixels, 0), yield* png(new Uint8Array(12))]
      const tiff = yield* Effect.promise(
        async () => new Uint8Array(await sharp(pixels, raw).tiff({ compression: "none" }).toBuffer())
      )
      const opaque = yield* Effect.promise(
        async () => new Uint8Array(await sharp(pixels, raw).ensureAlpha().png().toBuffer())
      )
      const clear = yield* Effect.promise(
        async () => new Uint8Array(await sharp(pixels, raw).ensureAlpha(0.5).png().toBuffer())
      )
      const broken = one.slice(0, 40)
      const emf = new Uint8Array([1, 0, 0, 0, 9, 9])
      const score = (a: ReadonlyArray<Uint8Array>, b: ReadonlyArray<Uint8Array>) =>
        compare(compareDocxImages, withPictures(...a), withPictures(...b))
      assert.notDeepEqual(one, again)
      assert.strictEqual(yield* score([one, other], [again, other]), 1)
      assert.strictEqual(yield* score([tiff], [one]), 1)
      assert.strictEqual(yield* score([opaque], [one]), 1)
      assert.strictEqual(yield* score([clear], [one]), 0)
      assert.strictEqual(yield* score([one, other], [other, one]), 0)
      assert.strictEqual(yield* score([one], [one, one]), 0)
      assert.strictEqual(yield* score([], []), 1)
      assert.strictEqual(yield* score([broken], [one]), 0)
      // What nobody can decode is the same as its copy.
      assert.strictEqual(yield* score([emf], [emf]), 1)
      assert.strictEqual(yield* score([emf], [one]), 0)
      assert.match(String(yield* score([one], [emf])), /cannot decide: expected value/)
    })
  )

  it.scoped("does not need what is not in the file", () =>
    Effect.gen(function* () {
      const linked = (target: string, mode = ' TargetMode="External"') =>
        docx("", {
          "word/_rels/document.xml.rels": `<Relationships><Relationship Id="a" Type="x/image" Target="${target}"${mode}/></Relationships>`
        })
      const score = (a: Uint8Array, b: Uint8Array) => compare(compareDocxImages, a, b)
      assert.strictEqual(yield* score(linked("https://a/b.png"), linked("https://a/b.png")), 1)
      assert.strictEqual(yield* score(linked("https://a/b.png"), linked("https://a/c.png")), 0)
      const one = withPictures(yield* png())
      assert.strictEqual(yield* score(linked("media/gone.png", ""), one), 0)
      assert.match(String(yield* score(one, linked("media/gone.png", ""))), /not in the file/)
    })
  )

  it.scoped("holds of LibreOffice's document, and of nothing that is none", () =>
    Effect.gen(function* () {
      assert.strictEqual(yield* compare(compareDocxImages, report, report), 1)
      assert.strictEqual(yield* compare(compareDocxImages, docx(""), report), 0)
      assert.strictEqual(yield* judge(compareDocxImages, missing, file(fixture("documents/report.docx"))), 0)
      for (const bytes of malformed) {
        assert.strictEqual(yield* compare(compareDocxImages, bytes, report), 0)
        assert.match(String(yield* compare(compareDocxImages, report, bytes)), /cannot decide/)
      }
    })
  )
})

/** An X window dump of `pixels`, from the header's description: 25 numbers, the window's name, colours, rows. */
const dump = (bitsPerPixel: number, options: { readonly little?: boolean; readonly colors?: number } = {}) => {
  const { colors = 2, little = true } = options
  const size = bitsPerPixel / 8
  const stride = 2 * size + 2
  const masks = bitsPerPixel === 16 ? [0xf800, 0x07e0, 0x001f] : [0xff0000, 0x00ff00, 0x0000ff]
  const name = "window\0\0"
  const header = [
    100 + name.length,
    7,
    2,
    bitsPerPixel === 16 ? 16 : 24,
    2,
    2,
    0,
    little ? 0 : 1,
    32,
    0,
    32,
    bitsPerPixel,
    stride,
    4,
    ...masks,
    8,
    256,
    colors,
    2,
    2,
    0,
    0,
    0
  ]
  const bytes = new Uint8Array(100 + name.length + colors * 12 + stride * 2)
  const view = new DataView(bytes.buffer)
  header.forEach((value, i) => {
    view.setUint32(i * 4, value)
  })
  bytes.set(new TextEncoder().encode(name), 100)
  const start = 100 + name.length + colors * 12
  const [red, blue] = [masks[0] ?? 0, masks[2] ?? 0]
  for (const [y, color] of [red, blue].entries()) {
    for (const x of [0, 1]) {
      for (let i = 0; i < size; i++) {
        bytes[start + y * stride + x * size + i] = (color >>> (8 * (little ? i : size - 1 - i))) & 255
      }
    }
  }
  return bytes
}

describe("windowDump", () => {
  it("decodes true colour of any width and byte order", () => {
    for (const bytes of [
      dump(32),
      dump(32, { little: false }),
      dump(24),
      dump(24, { little: false }),
      dump(16),
      dump(16, { colors: 0 })
    ]) {
      assert.isTrue(WindowDump.isWindowDump(bytes))
      assert.deepStrictEqual(rightOf(WindowDump.decode(bytes)), { width: 2, height: 2, data: pixels })
    }
  })

  it("refuses what is torn, too large or of another kind", () => {
    const kind = (bytes: Uint8Array) =>
      Either.match(WindowDump.decode(bytes), { onLeft: (each) => each.kind, onRight: () => "decoded" })
    const changed = (field: number, value: number) => {
      const bytes = dump(32)
      new DataView(bytes.buffer).setUint32(field * 4, value)
      return bytes
    }
    assert.strictEqual(kind(dump(32).slice(0, -1)), "Unparsable")
    assert.strictEqual(kind(new Uint8Array(10)), "Unparsable")
    assert.strictEqual(kind(changed(5, 0)), "Unparsable")
    assert.strictEqual(kind(changed(12, 1)), "Unparsable")
    assert.strictEqual(kind(changed(5, 0xffffffff)), "Undecidable")
    assert.strictEqual(kind(changed(11, 8)), "Undecidable")
    assert.strictEqual(kind(changed(2, 1)), "Undecidable")
  })
})

const onPath = (program: string) =>
  (process.env.PATH ?? "").split(":").some((folder) => existsSync(`${folder}/${program}`))
const rule = (content: string) => json({ type: "text", text: content })

describe("compare_image_text", () => {
  it.scoped("says which program is missing", () =>
    Effect.gen(function* () {
      const at = yield* written({ "a.png": yield* png(), "b.png": "no picture", "c.xwd": dump(32) })
      const gone = CommandExecutor.makeExecutor(() =>
        Effect.fail(
          new SystemError({ reason: "NotFound", module: "Command", method: "spawn", pathOrDescriptor: "tesseract" })
        )
      )
      const score = (name: string) =>
        compareImageText.evaluate({ result: file(at(name)), expected: rule("a"), options: {} }).pipe(
          Effect.catchAll(({ message }) => Effect.succeed(message)),
          Effect.provide(Layer.provideMerge(Layer.succeed(CommandExecutor.CommandExecutor, gone), NodeContext.layer))
        )
      assert.match(String(yield* score("a.png")), /install tesseract-ocr/)
      assert.match(String(yield* score("c.xwd")), /install tesseract-ocr/)
      // No program is needed to see that this is no picture.
      assert.strictEqual(yield* score("b.png"), 0)
    })
  )

  it.scoped("judges pictures alone, by a rule that it knows", () =>
    Effect.gen(function* () {
      const at = yield* written({ "a.png": yield* png(), "torn.xwd": dump(32).slice(0, -1) })
      assert.strictEqual(yield* judge(compareImageText, missing, rule("a")), 0)
      assert.strictEqual(yield* judge(compareImageText, file(at("torn.xwd")), rule("a")), 0)
      assert.match(
        String(yield* judge(compareImageText, file(at("a.png")), json({ type: "regex", text: "a" }))),
        /expected value/
      )
    })
  )

  it.scoped.skipIf(!onPath("tesseract"))("reads a terminal, light on dark, as a picture and as a window dump", () =>
    Effect.gen(function* () {
      const at = yield* written({
        "terminal.png": readFileSync(fixture("documents/terminal.png")),
        "terminal.xwd": gunzipSync(readFileSync(fixture("documents/terminal.xwd.gz")))
      })
      const terminal = (name: string) => file(at(name))
      for (const name of ["terminal.png", "terminal.xwd"]) {
        assert.strictEqual(yield* judge(compareImageText, terminal(name), rule("Desktop  Documents")), 1, name)
        assert.strictEqual(yield* judge(compareImageText, terminal(name), rule("ls")), 1, name)
        assert.strictEqual(yield* judge(compareImageText, terminal(name), rule("Videos")), 0, name)
      }
    })
  )
})

describe("check_file_exists", () => {
  it.scoped("looks among files, names and a folder's entries", () =>
    Effect.gen(function* () {
      const tree = json({
        type: "directory",
        name: "d",
        children: [
          { type: "file", name: "a.txt" },
          { type: "directory", name: "b", children: [{ type: "file", name: "c" }] }
        ]
      })
      const fetched = Value.Files({
        files: [
          { path: "/x/1", name: "a.txt" },
          { path: "/x/2", name: "z" }
        ]
      })
      for (const value of [tree, fetched, json(["a.txt"]), Value.File({ path: "/x", name: "a.txt" })]) {
        assert.strictEqual(yield* judge(checkFileExists, value, text("a.txt")), 1)
        assert.strictEqual(yield* judge(checkFileExists, value, text("b")), 0)
        assert.strictEqual(yield* judge(checkFileExists, value, text("c")), 0)
      }
      assert.strictEqual(yield* judge(checkFileExists, missing, text("a.txt")), 0)
      assert.match(String(yield* judge(checkFileExists, text("/etc"), text("passwd"))), /are needed/)
      assert.match(String(yield* judge(checkFileExists, tree)), /expected value/)
    })
  )
})
