import { assert, describe, it } from "@effect/vitest"
import * as Either from "effect/Either"
import * as FastCheck from "effect/FastCheck"
import * as AccessibilityTree from "../../src/agents/AccessibilityTree.js"

/** As the desktop's own server writes it, and the official image's, whose namespaces are the same. */
const ns = "https://accessibility.ubuntu.example.org/ns/"
const desktop = (inside: string) =>
  `<desktop-frame xmlns:st="${ns}state" xmlns:attr="${ns}attributes" xmlns:cp="${ns}component" xmlns:val="${ns}value" name="main">${inside}</desktop-frame>`

const alive = `st:showing="true" st:visible="true" st:enabled="true" cp:screencoord="(10, 20)" cp:size="(30, 40)"`

const parsed = (inside: string) => Either.getOrThrow(AccessibilityTree.parse(desktop(inside)))

describe("AccessibilityTree", () => {
  it("is a table of what is on the screen, in the tree's order", () => {
    const nodes = parsed(`
      <application name="Files" ${alive}>
        <push-button name="Back" ${alive} attr:class="Back.Class" attr:description="Go back"/>
        <panel ${alive}><entry name="" ${alive}>say "x"
and	y</entry></panel>
        <label name="Zoom" ${alive}/>
        <icon name="" ${alive}/>
      </application>`)
    assert.deepStrictEqual(AccessibilityTree.table(nodes).split("\n"), [
      "tag\tname\ttext\tclass\tdescription\tposition (top-left x&y)\tsize (w&h)",
      `push-button\tBack\t""\tBack.Class\tGo back\t(10, 20)\t(30, 40)`,
      `entry\t\t"say ""x"" and y"\t\t\t(10, 20)\t(30, 40)`,
      `label\tZoom\t""\t\t\t(10, 20)\t(30, 40)`
    ])
    assert.deepStrictEqual(AccessibilityTree.numberedTable(nodes).split("\n").slice(0, 2), [
      "index\ttag\tname\ttext",
      `1\tpush-button\tBack\t""`
    ])
  })

  // The filter of osworld-upstream.md 6.2.
  for (const [why, element, kept] of [
    ["an item", `<menu-item name="a" ${alive}/>`, true],
    ["a document", `<document-web name="a" ${alive}/>`, true],
    ["a role that says nothing", `<filler name="a" ${alive}/>`, false],
    ["what is not showing", `<label name="a" ${alive.replace("st:showing", "st:sensitive")}/>`, false],
    ["what is not visible", `<label name="a" ${alive.replace("st:visible", "st:sensitive")}/>`, false],
    [
      "what can be expanded, though not enabled",
      `<label name="a" ${alive.replace("st:enabled", "st:expandable")}/>`,
      true
    ],
    ["what nothing can be done with", `<label name="a" ${alive.replace("st:enabled", "st:focusable")}/>`, false],
    ["what lies left of the screen", `<label name="a" ${alive.replace("(10,", "(-1,")}/>`, false],
    ["what has no size", `<label name="a" ${alive.replace("(30,", "(0,")}/>`, false],
    ["what has no place", `<label name="a" st:showing="true" st:visible="true" st:enabled="true"/>`, false]
  ] as const) {
    it(`${kept ? "shows" : "leaves out"} ${why}`, () => assert.lengthOf(parsed(element), kept ? 1 : 0))
  }

  it("is cut between two lines, and says so", () => {
    const nodes = parsed(`<label name="abcdefgh" ${alive}/>`.repeat(100))
    const whole = AccessibilityTree.table(nodes).split("\n")
    const cut = AccessibilityTree.table(nodes, 500).split("\n")
    assert.strictEqual(cut.at(-1), "[...]")
    assert.deepStrictEqual(cut.slice(0, -1), whole.slice(0, cut.length - 1))
    assert.isAtMost(cut.slice(0, -1).join("\n").length, 500)
    assert.strictEqual(AccessibilityTree.table(nodes), whole.join("\n"))
  })

  it("takes a tree that is deeper than a stack", () => {
    const depth = 3000
    assert.lengthOf(parsed(`${"<panel>".repeat(depth)}<label name="a" ${alive}/>${"</panel>".repeat(depth)}`), 1)
  })

  it("says of what is no XML that it is none, and throws never", () => {
    assert.match(
      Either.match(AccessibilityTree.parse("<a"), { onLeft: ({ message }) => message, onRight: () => "" }),
      /no well-formed XML/
    )
    FastCheck.assert(
      FastCheck.property(
        FastCheck.array(
          FastCheck.constantFrom("<a", ">", "</a>", "&", "<![CDATA[", "]]>", "\u0000", "x", '"', " b=", "<?xml", "<!--")
        ),
        (parts) => {
          AccessibilityTree.parse(parts.join(""))
        }
      ),
      { numRuns: 2000 }
    )
  })
})
