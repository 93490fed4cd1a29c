import { readFileSync } from "node:fs"
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as FastCheck from "effect/FastCheck"
import { parse } from "../../../src/osworld/evaluator/internal/presentation.js"
import { comparePptxFiles } from "../../../src/osworld/evaluator/slides.js"
import { deck, edited, judgeDeck, type Members, plain, variant, zipped } from "./slidesSupport.js"
import { fixture, missing, rightOf } from "./support.js"

const one = "ppt/slides/slide1.xml"
const two = "ppt/slides/slide2.xml"

const compare = (result: Members | Uint8Array, gold: Members, options: Record<string, unknown> = {}, compat = false) =>
  judgeDeck(comparePptxFiles, result, gold, options, { compat })

/** The variant is told from the deck, both ways, and not when the switch is off. */
const told = (name: string, off: Record<string, unknown>) =>
  it.effect(`${name}, unless ${Object.keys(off).join(" and ")}`, () =>
    Effect.gen(function* () {
      const changed = variant(name)
      assert.strictEqual(yield* compare(changed, deck), 0)
      assert.strictEqual(yield* compare(deck, changed), 0)
      assert.strictEqual(yield* compare(changed, deck, off), 1)
      assert.strictEqual(yield* compare(changed, changed), 1)
    })
  )

describe("compare_pptx_files", () => {
  describe("tells what LibreOffice wrote after an edit", () => {
    told("twoSlides", { examine_number_of_slides: false })
    told("text", { examine_text: false })
    told("shape", { examine_shape: false })
    told("picture", { examine_shape: false })
    told("level", { examine_indent: false, examine_bullets: false, examine_font_size: false })
    told("fontName", { examine_font_name: false })
    told("fontSize", { examine_font_size: false })
    told("italic", { examine_font_italic: false })
    told("underline", { examine_font_underline: false })
    told("doubleUnderline", { examine_font_underline: false })
    told("strike", { examine_strike_through: false })
    told("color", { examine_color_rgb: false })
    told("alignment", { examine_alignment: false })
    told("groupedAlignment", { examine_alignment: false })
    told("groupedText", { examine_text: false })
    told("runs", { examine_run_count: false, examine_font_italic: false })
    told("bullets", { examine_bullets: false })
    told("background", { examine_background_color: false })
    told("noBackground", { examine_background_color: false })
    told("note", { examine_note: false })
    told("cellText", { examine_text: false })
    told("cellBold", { examine_font_bold: false })
    told("cellColor", { examine_color_rgb: false })
  })

  it.effect("a table with another number of rows, whatever the switches", () =>
    Effect.gen(function* () {
      const off = { examine_shape: false, examine_text: false, examine_bullets: false }
      assert.strictEqual(yield* compare(variant("row"), deck, off), 0)
      assert.strictEqual(yield* compare(deck, deck, off), 1)
    })
  )

  it.effect("bold differs only where one is bold", () =>
    Effect.gen(function* () {
      const silent = edited(deck, two, / b="0"/g, "")
      assert.strictEqual(yield* compare(silent, deck), 1)
      const bold = edited(deck, two, ' b="0"', ' b="1"')
      assert.strictEqual(yield* compare(bold, deck), 0)
      assert.strictEqual(yield* compare(bold, deck, { examine_font_bold: false }), 1)
    })
  )

  it.effect("a hundredth of a millimetre is no difference, and neither is half a percent", () =>
    Effect.gen(function* () {
      assert.strictEqual(yield* compare(variant("nudged"), deck), 1)
      // 7 200 000 EMU wide: half a percent is 36 000.
      const wider = (by: number) => edited(deck, two, 'cx="7200000"', `cx="${7_200_000 + by}"`)
      assert.strictEqual(yield* compare(wider(36_000), deck), 1)
      assert.strictEqual(yield* compare(wider(37_000), deck), 0)
      assert.strictEqual(yield* compare(wider(72_000), deck, { approximately_tolerance: 0.01 }), 1)
      // From nothing any share is too much, but not one rounding.
      const left = (x: number) => edited(deck, two, 'x="720000"', `x="${x}"`)
      assert.strictEqual(yield* compare(left(360), left(0)), 1)
      assert.strictEqual(yield* compare(left(361), left(0)), 0)
      assert.strictEqual(yield* compare(left(360), left(0), {}, true), 0)
    })
  )

  it.effect("empty text boxes may have any place", () =>
    Effect.gen(function* () {
      const emptied = edited(deck, one, "Product Comparison", " ")
      const moved = edited(emptied, one, 'y="288000"', 'y="900000"')
      assert.strictEqual(yield* compare(moved, emptied), 1)
    })
  )

  it.effect("a picture has its place, which upstream does not look at", () =>
    Effect.gen(function* () {
      assert.strictEqual(yield* compare(variant("picture"), deck, {}, true), 1)
      assert.strictEqual(yield* compare(variant("picture"), deck), 0)
    })
  )

  it.effect("a colour that is left to the theme is what is shown", () =>
    Effect.gen(function* () {
      const fill = /<a:solidFill><a:srgbClr val="ff0000"\/><\/a:solidFill>/
      const silent = edited(deck, two, fill, "")
      const themed = edited(deck, two, fill, '<a:solidFill><a:schemeClr val="accent1"/></a:solidFill>')
      // LibreOffice's theme: text is black, the first accent 4F81BD.
      assert.strictEqual(yield* compare(silent, deck), 0)
      assert.strictEqual(yield* compare(themed, deck), 0)
      const black = edited(deck, two, fill, '<a:solidFill><a:srgbClr val="000000"/></a:solidFill>')
      assert.strictEqual(yield* compare(silent, black), 1)
      const accent = edited(deck, two, fill, '<a:solidFill><a:srgbClr val="4F81BD"/></a:solidFill>')
      assert.strictEqual(yield* compare(themed, accent), 1)
      assert.strictEqual(yield* compare(silent, deck, {}, true), 1)
      assert.strictEqual(yield* compare(themed, deck, {}, true), 1)
    })
  )

  it.effect("upstream takes a missing underline for a double one", () =>
    Effect.gen(function* () {
      const double = edited(deck, two, 'u="sng"', 'u="dbl"')
      const silent = edited(deck, two, ' u="sng"', "")
      assert.strictEqual(yield* compare(double, silent), 0)
      assert.strictEqual(yield* compare(double, silent, {}, true), 1)
      assert.strictEqual(yield* compare(deck, silent, {}, true), 0)
      assert.strictEqual(yield* compare(edited(deck, two, 'u="sng"', 'u="none"'), silent), 1)
    })
  )

  it.effect("upstream's switches do not reach a table's cells", () =>
    Effect.gen(function* () {
      assert.strictEqual(yield* compare(variant("cellBold"), deck, { examine_font_bold: false }, true), 0)
      const off = { examine_bullets: false }
      assert.strictEqual(yield* compare(variant("cellText"), deck, off), 0)
      assert.strictEqual(yield* compare(variant("cellText"), deck, off, true), 1)
    })
  )

  it.effect("numbers are marks too, and an empty text does not hide the others", () =>
    Effect.gen(function* () {
      const bare = variant("noBullets")
      const numbered = edited(
        bare,
        one,
        /<a:bu(Char|None)[^>]*\/>(?=[\s\S]*Bread)/,
        '<a:buAutoNum type="arabicPeriod"/>'
      )
      assert.strictEqual(yield* compare(numbered, numbered), 1)
      const hidden = edited(variant("bullets"), one, "<a:t>Tea</a:t>", "<a:t>Tea</a:t></a:r><a:r><a:t></a:t>")
      assert.strictEqual(yield* compare(hidden, deck, { examine_run_count: false }), 0)
      assert.strictEqual(yield* compare(hidden, deck, { examine_run_count: false }, true), 1)
    })
  )

  describe("positions that a task wants changed: the gold is the deck before", () => {
    const moved = (name: string, option: string, wrong: string) =>
      it.effect(option, () =>
        Effect.gen(function* () {
          const options = { examine_shape: false, [option]: true }
          assert.strictEqual(yield* compare(variant(name), deck, options), 1)
          assert.strictEqual(yield* compare(deck, deck, options), 0)
          assert.strictEqual(yield* compare(variant(wrong), deck, options), 0)
        })
      )
    moved("titleDown", "examine_title_bottom_position", "text")
    moved("tableDown", "examine_table_bottom_position", "picture")
    moved("right", "examine_right_position", "top")
    moved("top", "examine_top_position", "right")

    it.effect("examine_shape_for_shift_size", () =>
      Effect.gen(function* () {
        const options = { examine_shape: false, examine_shape_for_shift_size: true }
        assert.strictEqual(yield* compare(variant("shifted"), deck, options), 1)
        assert.strictEqual(yield* compare(deck, deck, options), 1)
        assert.strictEqual(yield* compare(variant("shape"), deck, options), 0)
      })
    )

    it.effect("examine_image_size", () =>
      Effect.gen(function* () {
        const options = { examine_shape: false, examine_image_size: true }
        assert.strictEqual(yield* compare(variant("pictureMoved"), deck, options), 1)
        assert.strictEqual(yield* compare(variant("pictureSize"), deck, options), 0)
        assert.strictEqual(yield* compare(variant("shape"), deck, options), 0)
      })
    )

    it.effect("examine_modify_height", () =>
      Effect.gen(function* () {
        const options = { examine_shape: false, examine_modify_height: true }
        assert.strictEqual(yield* compare(variant("formMoved"), deck, options), 1)
        assert.strictEqual(yield* compare(variant("formHeight"), deck, options), 0)
        assert.strictEqual(yield* compare(variant("shape"), deck, options), 0)
        // With examine_shape the first difference of any kind decides.
        assert.strictEqual(yield* compare(variant("formHeight"), deck), 1)
        assert.strictEqual(yield* compare(variant("shape"), deck, { examine_modify_height: true }), 0)
      })
    )
  })

  it.effect("scores as upstream does when asked to, with random switches", () =>
    Effect.forEach(
      readFileSync(fixture("slides/compat.jsonl"), "utf8").trim().split("\n"),
      (line) =>
        Effect.gen(function* () {
          const { gold, options, result, score } = JSON.parse(line)
          const named = (name: string) => (name === "deck" ? deck : variant(name))
          assert.strictEqual(yield* compare(named(result), named(gold), options, true), score, line)
        }),
      { discard: true }
    )
  )

  it.effect("every deck is like itself, with any switches that want nothing changed", () => {
    const switches = [
      "examine_number_of_slides",
      "examine_shape",
      "examine_text",
      "examine_indent",
      "examine_font_name",
      "examine_font_bold",
      "examine_color_rgb",
      "examine_alignment",
      "examine_run_count",
      "examine_bullets",
      "examine_background_color",
      "examine_note",
      "examine_shape_for_shift_size",
      "examine_image_size",
      "examine_modify_height"
    ]
    const names = ["text", "level", "row", "noBackground", "portrait", "doubleUnderline"]
    const options = FastCheck.dictionary(FastCheck.constantFrom(...switches), FastCheck.boolean())
    return Effect.promise(() =>
      FastCheck.assert(
        FastCheck.asyncProperty(
          FastCheck.constantFrom(...names),
          FastCheck.constantFrom(...names),
          options,
          FastCheck.boolean(),
          async (a, b, chosen, compat) => {
            const [x, y] = [variant(a), variant(b)]
            assert.strictEqual(await Effect.runPromise(compare(x, x, chosen, compat)), 1)
            const there = await Effect.runPromise(compare(x, y, chosen, compat))
            assert.strictEqual(await Effect.runPromise(compare(y, x, chosen, compat)), there)
          }
        ),
        { numRuns: 20 }
      )
    )
  })

  it.effect("0 for what the agent left broken, and no score for a broken gold", () =>
    Effect.gen(function* () {
      assert.strictEqual(yield* compare(new Uint8Array([1, 2, 3]), deck), 0)
      assert.strictEqual(yield* compare(edited(deck, two, "</p:sld>", ""), deck), 0)
      assert.strictEqual(
        yield* judgeDeck(comparePptxFiles, deck, missing),
        "compare_pptx_files cannot decide: expected value: nobody wrote it"
      )
      const broken = yield* compare(deck, edited(deck, two, "</p:sld>", ""))
      assert.match(
        String(broken),
        /^compare_pptx_files cannot decide: expected value: gold\.pptx: ppt\/slides\/slide2\.xml/
      )
      const entity = edited(deck, two, "<p:sld ", '<!DOCTYPE p:sld [<!ENTITY a "b">]><p:sld ')
      assert.strictEqual(yield* compare(edited(entity, two, "italic</a:t>", "&a;</a:t>"), deck), 0)
      assert.match(String(yield* compare(deck, deck, { examine_text: "no" })), /bad options: examine_text/)
      assert.strictEqual(yield* compare(deck, deck, { examine_shape_lenient_height: true }), 1)
    })
  )

  it.effect("is quick, and bounded on what an agent may make", () =>
    Effect.gen(function* () {
      const bytes = zipped(deck)
      rightOf(parse(bytes))
      const start = performance.now()
      rightOf(parse(bytes))
      rightOf(parse(bytes))
      assert.isBelow(performance.now() - start, 300)
      // Groups in groups, deeper than any stack.
      const deep = edited(
        deck,
        two,
        "</p:spTree>",
        `${"<p:grpSp>".repeat(50_000)}${"</p:grpSp>".repeat(50_000)}</p:spTree>`
      )
      assert.match(String(yield* compare(deep, deck)), /deeper than 256 levels/)
      const bomb = { ...deck, "ppt/slides/slide9.xml": new Uint8Array(64 * 1024 * 1024) }
      assert.match(
        String(yield* compare(bomb, deck)),
        /cannot decide: result: result\.pptx: the archive unpacks to more than/
      )
      // Placeholders by the ten thousand on both sides of the inheritance, and a name of a megabyte.
      const holder = (index: number) =>
        `<p:sp><p:nvSpPr><p:nvPr><p:ph idx="${index}"/></p:nvPr></p:nvSpPr><p:spPr ${"y".repeat(index === 0 ? 1_000_000 : 1)}/></p:sp>`
      const holders = (first: number) =>
        `${Array.from({ length: 30_000 }, (_, i) => holder(first + i)).join("")}</p:spTree>`
      const layouts = edited(deck, "ppt/slideLayouts/slideLayout2.xml", "</p:spTree>", holders(50_000))
      assert.strictEqual(yield* compare(edited(layouts, one, "</p:spTree>", holders(0)), deck), 0)
      const slides = '<p:sldId id="1" r:id="rId4"/>'.repeat(3_000)
      const many = edited(deck, "ppt/presentation.xml", "</p:sldIdLst>", `${slides}</p:sldIdLst>`)
      assert.match(String(yield* compare(many, deck)), /more than 2000 slides/)
    })
  )

  it.effect("a deck of another program", () =>
    Effect.gen(function* () {
      assert.strictEqual(yield* compare(plain, plain), 1)
      assert.strictEqual(yield* compare(edited(plain, one, "Inherited", "Own"), plain), 0)
    })
  )
})
