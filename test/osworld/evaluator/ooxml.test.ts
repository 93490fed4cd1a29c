import { assert, describe, it } from "@effect/vitest"
import { strToU8, zipSync } from "fflate"
import * as Ooxml from "../../../src/osworld/evaluator/internal/ooxml.js"
import * as Xml from "../../../src/osworld/evaluator/internal/xmlTree.js"
import { limits } from "../../../src/osworld/evaluator/internal/zip.js"
import { rightOf } from "./support.js"

const members = {
  "[Content_Types].xml": strToU8(
    '<Types><Default Extension="PNG" ContentType="image/png"/><Override PartName="/ppt/a.xml" ContentType="slide"/></Types>'
  ),
  "_rels/.rels": strToU8(
    '<Relationships><Relationship Id="r" Type="x/officeDocument" Target="/ppt/a.xml"/></Relationships>'
  ),
  "ppt/a.xml": strToU8('<a xmlns:r="x"><b id="1" r:id="r1"/></a>'),
  "ppt/_rels/a.xml.rels": strToU8(
    '<Relationships><Relationship Id="r1" Type="http://x/image" Target="../media/./p.png"/>' +
      '<Relationship Id="r2" Type="http://x/hyperlink" Target="http://a/../b" TargetMode="External"/></Relationships>'
  ),
  "ppt/wide.xml": new Uint8Array([
    0xff,
    0xfe,
    ...new Uint8Array(Uint16Array.from("<w/>", (c) => c.charCodeAt(0)).buffer)
  ]),
  "ppt/broken.xml": strToU8("<a>"),
  "media/p.png": new Uint8Array([1, 2, 3])
}
const archive = rightOf(Ooxml.open(zipSync(members)))

describe("Ooxml", () => {
  it("finds parts by their relationships", () => {
    assert.deepStrictEqual(rightOf(archive.relationships("")), [
      { id: "r", kind: "officeDocument", external: false, target: "ppt/a.xml", written: "/ppt/a.xml" }
    ])
    assert.deepStrictEqual(rightOf(archive.relationships("ppt/a.xml")), [
      { id: "r1", kind: "image", external: false, target: "media/p.png", written: "../media/./p.png" },
      { id: "r2", kind: "hyperlink", external: true, target: "http://a/../b", written: "http://a/../b" }
    ])
    assert.deepStrictEqual(rightOf(archive.relationships("ppt/none.xml")), [])
    // Read once for a part, however its name is written: ECMA-376 part 2, 6.2.2.3.
    assert.strictEqual(archive.relationships("/PPT/a.xml"), archive.relationships("ppt/A.XML"))
    assert.strictEqual(Ooxml.prefixed(Xml.child(rightOf(archive.xml("ppt/a.xml")), "b"), "id"), "r1")
  })

  it("has the targets of parts with the same relationships from where each part is", () => {
    const list = strToU8('<Relationships><Relationship Id="r" Type="x/image" Target="../media/p.png"/></Relationships>')
    const alike = rightOf(
      Ooxml.open(
        zipSync({ "a/_rels/1.xml.rels": list, "a/_rels/2.xml.rels": list, "b/c/_rels/1.xml.rels": list, "d.xml": list })
      )
    )
    // Relative to the part's folder: ECMA-376 part 2, 9.3.
    const targets = ["a/1.xml", "a/2.xml", "b/c/1.xml", "a/3.xml"].map((name) =>
      rightOf(alike.relationships(name)).map(({ target }) => target)
    )
    assert.deepStrictEqual(targets, [["media/p.png"], ["media/p.png"], ["b/media/p.png"], []])
  })

  it("reads parts: XML, of any case and encoding, and bytes", () => {
    assert.strictEqual(rightOf(archive.xml("PPT/A.xml"))?.name, "a")
    assert.strictEqual(rightOf(archive.xml("ppt/wide.xml"))?.name, "w")
    assert.isUndefined(rightOf(archive.xml("ppt/none.xml")))
    assert.strictEqual(archive.xml("ppt/broken.xml")._tag, "Left")
    assert.deepStrictEqual(rightOf(archive.media("media/p.png")), new Uint8Array([1, 2, 3]))
    assert.isUndefined(rightOf(archive.media("media/none.png")))
    assert.isUndefined(archive.text("media/p.png"))
  })

  it("refuses what is no archive, or leaves it", () => {
    assert.strictEqual(Ooxml.open(new Uint8Array([1]))._tag, "Left")
    assert.strictEqual(Ooxml.open(zipSync({ "../a.xml": strToU8("<a/>") }))._tag, "Left")
  })

  it("parses no part beyond some millions of nodes, however much they are alike", () => {
    const full = strToU8(`<a>${"<b/>".repeat(900_000)}</a>`)
    const names = ["1.xml", "2.xml", "3.xml", "4.xml", "5.xml"]
    const large = rightOf(Ooxml.open(zipSync(Object.fromEntries(names.map((name) => [name, full])))))
    const parsed = names.map((name) => large.xml(name))
    assert.deepStrictEqual(
      parsed.map(({ _tag }) => _tag),
      ["Right", "Right", "Right", "Right", "Left"]
    )
    assert.include(JSON.stringify(parsed[4]), "more than 3000000 XML nodes")

    const options = { isWanted: () => true, limits, maxNodes: 2 }
    const small = rightOf(
      Ooxml.open(zipSync({ "a.xml": strToU8("<a/>"), "b.xml": strToU8("<a><b/><b/></a>") }), options)
    )
    assert.strictEqual(small.xml("a.xml")._tag, "Right")
    assert.include(JSON.stringify(small.xml("b.xml")), "more than 2 XML nodes")
  })
})
