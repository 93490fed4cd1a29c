/** Elements that come again are the same tree again, and count as often as they come. */
import { assert, describe, it } from "@effect/vitest"
import * as FastCheck from "effect/FastCheck"
import * as Xml from "../../../src/osworld/evaluator/internal/xmlTree.js"
import { rightOf } from "./support.js"

interface Model {
  readonly name: string
  readonly written: string
  readonly children: ReadonlyArray<Model | string>
  /** Written as `<a/>`, where nothing is inside. */
  readonly closed: boolean
}

// Few names and few texts, so that many elements are alike and many nearly so.
const { model } = FastCheck.letrec<{ readonly model: Model }>((tie) => ({
  model: FastCheck.record({
    name: FastCheck.constantFrom("a", "b"),
    written: FastCheck.constantFrom("", ' x="1"', ' x="2"'),
    children: FastCheck.array(FastCheck.oneof({ depthSize: "small" }, FastCheck.constantFrom("t", "u"), tie("model")), {
      maxLength: 4
    }).map((children) =>
      children.filter((child, i) => typeof child !== "string" || typeof children[i - 1] !== "string")
    ),
    closed: FastCheck.boolean()
  })
}))

const isClosed = ({ children, closed }: Model) => closed && children.length === 0

const write = (node: Model): string =>
  isClosed(node)
    ? `<p:${node.name}${node.written}/>`
    : `<p:${node.name}${node.written}>${node.children.map((child) => (typeof child === "string" ? child : write(child))).join("")}</p:${node.name}>`

const tree = ({ children, name, written }: Model): Xml.Tree => ({
  name,
  written,
  children: children.map((child) => (typeof child === "string" ? child : tree(child)))
})

const sum = (numbers: ReadonlyArray<number>): number => numbers.reduce((total, number) => total + number, 0)

/** Tags and texts. */
const tokens = (node: Model): number =>
  (isClosed(node) ? 1 : 2) + sum(node.children.map((child) => (typeof child === "string" ? 1 : tokens(child))))

const depth = (node: Model): number =>
  isClosed(node) ? 0 : 1 + Math.max(0, ...node.children.map((child) => (typeof child === "string" ? 0 : depth(child))))

const isRead = (text: string, allowed: typeof Xml.limits) => Xml.parse(text, allowed)._tag === "Right"

describe("xmlTree", () => {
  it("reads what was written, however often it comes", () => {
    const repeated = new Xml.Repeated()
    FastCheck.assert(
      FastCheck.property(FastCheck.array(model, { maxLength: 5 }), (children) => {
        const root: Model = { name: "a", written: "", children, closed: false }
        assert.deepStrictEqual(rightOf(Xml.parse(write(root))), tree(root))
        assert.deepStrictEqual(rightOf(Xml.parse(write(root), Xml.limits, repeated)), tree(root))
      })
    )
  })

  it("counts what comes again", () => {
    FastCheck.assert(
      FastCheck.property(FastCheck.array(model, { minLength: 1, maxLength: 5 }), (children) => {
        const root: Model = { name: "a", written: "", children, closed: false }
        const [text, nodes, levels] = [write(root), tokens(root), depth(root)]
        assert.isTrue(isRead(text, { nodes: nodes - 1, depth: levels }))
        assert.isFalse(isRead(text, { nodes: nodes - 2, depth: levels }))
        assert.isFalse(isRead(text, { nodes, depth: levels - 1 }))
      })
    )
  })

  it("shares the tree of an element that is written alike", () => {
    const [first, second, third] = Xml.children(
      rightOf(Xml.parse('<r><a x="1"><b>t</b></a><a x="1"><b>t</b></a><a x="1"><b>u</b></a></r>'))
    )
    assert.strictEqual(first, second)
    assert.strictEqual(Xml.text(Xml.child(third, "b")), "u")
  })

  it("costs no more where long elements are nearly alike at every level", () => {
    const nested = (last: string) => `${"<a>".repeat(200)}${"t".repeat(20_000)}${last}${"</a>".repeat(200)}`
    const text = `<r>${Array.from({ length: 100 }, (_, i) => nested(String(i))).join("")}</r>`
    const before = process.cpuUsage()
    assert.strictEqual(Xml.children(rightOf(Xml.parse(text))).length, 100)
    assert.isBelow(process.cpuUsage(before).user / 1000, 2000)
  })

  it("reads a tag of as many attributes as a part may hold, and refuses one that does not end", () => {
    const many = `<r><a${' b="c"'.repeat(2_600_000)} val="1"`
    const [child] = Xml.children(rightOf(Xml.parse(`${many}/></r>`)))
    assert.strictEqual(Xml.attribute(child, "val"), "1")
    assert.strictEqual(Xml.parse(many)._tag, "Left")
  })

  it("finds attributes whatever stands around them", () => {
    const of = (written: string, name = "val") => Xml.attribute({ name: "a", written, children: [] }, name)
    assert.strictEqual(of(' val="1"'), "1")
    assert.strictEqual(of(' w:val="1"'), "1")
    assert.strictEqual(of(' a="0" w:val="1" val="2"'), "1")
    assert.strictEqual(of(' xval="0" val="1" '), "1")
    assert.strictEqual(of(' valx="0" '), undefined)
    assert.strictEqual(of(' xmlns:val="0" w:val="1"'), "1")
    // Inside another one's value it is none.
    assert.strictEqual(of(' a="x val=" val="1"'), "1")
    assert.strictEqual(of(' a="val" '), undefined)
    assert.strictEqual(of(` a='val="0"' val="1"`), "1")
    assert.strictEqual(of(' val = "1"'), "1")
    assert.strictEqual(of("\n\tval='1'"), "1")
    assert.strictEqual(of(' val="a &amp; b"'), "a & b")
    assert.strictEqual(of(' val=""'), "")
  })

  it("finds the first attribute of that name, whatever the others hold", () => {
    const inside = [
      "",
      "1",
      " val=",
      " w:val=",
      "w:val=",
      "x w:val=",
      ":val=",
      "val",
      "=",
      ":",
      " ",
      "x val='2'",
      "/",
      ">"
    ]
    const value = FastCheck.constantFrom(...inside, "a &amp; b", "a\rb")
    const attribute = FastCheck.record({
      prefix: FastCheck.constantFrom("", "", "w:", "val:", "xmlns:"),
      name: FastCheck.constantFrom("a", "val", "xval", "valx"),
      value,
      quote: FastCheck.constantFrom('"', '"', "'"),
      space: FastCheck.constantFrom(" ", " ", "\n  ")
    }).filter(({ quote, value }) => !value.includes(quote))
    FastCheck.assert(
      FastCheck.property(FastCheck.array(attribute, { maxLength: 5 }), (attributes) => {
        const tags = attributes.map(
          ({ name, prefix, quote, space, value }) => `${space}${prefix}${name}=${quote}${value}${quote}`
        )
        const first = attributes.find(({ name, prefix }) => name === "val" && prefix !== "xmlns:")
        const [child] = Xml.children(rightOf(Xml.parse(`<r><c${tags.join("")}/></r>`)))
        // Line ends become one kind, and entities what they stand for: XML 1.0, 2.11 and 4.6.
        const expected = first?.value.replace("&amp;", "&").replace("\r", "\n")
        assert.strictEqual(Xml.attribute(child, "val"), expected)
      }),
      { numRuns: 5_000 }
    )
  })

  it("has elements inside by name, but not inside each other or inside those apart", () => {
    const root = rightOf(Xml.parse('<r><a n="1"><a n="2"/></a><x><a n="3"/></x><b><a n="4"/></b></r>'))
    const found = (apart?: string) => Xml.descendants(root, "a", apart).map((each) => Xml.attribute(each, "n"))
    assert.deepStrictEqual(found(), ["1", "3", "4"])
    assert.deepStrictEqual(found("x"), ["1", "4"])
  })

  it("refuses what is not well-formed", () => {
    const reasonOf = (text: string) => {
      const read = Xml.parse(text)
      return read._tag === "Left" ? read.left.reason : undefined
    }
    const cases = {
      "": "it is empty",
      "<a>": "no end of a",
      "<a/><b/>": "two roots",
      "<a></a><a></a>": "two roots",
      "<a></b>": "closes nothing",
      "x<a/>": "text outside the root",
      "<a>&no;</a>": "an entity",
      "<a": "a tag without an end",
      "<a>< b/></a>": "a tag without a name",
      '<a b="></a>': "a tag without an end",
      '<a"></a>': "a tag without an end",
      "<!DOCTYPE a><a/>": "document type",
      "<a><!-- </a>": "no -->",
      "<a><![CDATA[</a>": "a CDATA section",
      "<?xml <a/>": "no ?>"
    }
    for (const [text, reason] of Object.entries(cases)) assert.include(reasonOf(text), reason, text)
    assert.isUndefined(reasonOf("\uFEFF<?xml version='1.0'?><!-- c --><a b = 'x>y' ><![CDATA[&]]></a >"))
  })
})
