import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { checkAccessibilityTree } from "../../../src/osworld/evaluator/accessibility.js"
import * as Selector from "../../../src/osworld/evaluator/internal/selector.js"
import * as Xml from "../../../src/osworld/evaluator/internal/xml.js"
import { json, judge, missing, rightOf, text } from "./support.js"

const tree = `<?xml version="1.0"?>
<desktop-frame name="main" xmlns:st="https://accessibility.ubuntu.example.org/ns/state"
  xmlns:attr="https://accessibility.ubuntu.example.org/ns/attributes">
  <application name="Thunderbird">
    <frame name="Home">
      <page-tab-list attr:id="tabmail-tabs" attr:class="tabs main">
        <page-tab name="Inbox" st:selected="true">one\u0001</page-tab>
        <separator/>
        <page-tab name="About Profiles" st:enabled="true">two <label name="x">inner</label></page-tab>
      </page-tab-list>
      <panel id="p1"><page-tab name="Other"/></panel>
    </frame>
  </application>
</desktop-frame>`

const names = (selector: string) =>
  Selector.select(rightOf(Xml.parse(tree)), [rightOf(Selector.parse(selector))]).map((found) =>
    found.getAttribute("name")
  )

describe("selectors", () => {
  it("select by name, attribute, prefix and place", () => {
    assert.deepStrictEqual(names("page-tab"), ["Inbox", "About Profiles", "Other"])
    assert.deepStrictEqual(names("page-tab-list > page-tab"), ["Inbox", "About Profiles"])
    assert.deepStrictEqual(names("frame > page-tab"), [])
    assert.deepStrictEqual(names("[st|selected=true]"), ["Inbox"])
    assert.deepStrictEqual(names("[selected=true]"), [])
    assert.deepStrictEqual(names("[*|selected]"), ["Inbox"])
    assert.deepStrictEqual(names('page-tab[name*="Prof"]'), ["About Profiles"])
    assert.deepStrictEqual(names("[attr|class~='main'] > [name^=In]"), ["Inbox"])
    assert.deepStrictEqual(names("page-tab ~ page-tab"), ["About Profiles"])
    assert.deepStrictEqual(names("page-tab + page-tab"), [])
    assert.deepStrictEqual(names("separator + page-tab"), ["About Profiles"])
    assert.deepStrictEqual(names("#p1 page-tab, label"), ["x", "Other"])
    assert.deepStrictEqual(names("desktop-frame"), ["main"])
    assert.deepStrictEqual(names('application[name="Thunder\\62 ird"] frame'), ["Home"])
  })

  it("refuse what they don't know", () => {
    for (const selector of ["", "a >", "a:first-child", "a[b", "a[b!=c]", "a,,b"]) {
      assert.strictEqual(Selector.parse(selector)._tag, "Left", selector)
    }
  })
})

describe("check_accessibility_tree", () => {
  const check = (rules: unknown, result = text(tree)) => judge(checkAccessibilityTree, result, json(rules))

  it.effect("the rule of task 7b1e1ff9", () =>
    Effect.gen(function* () {
      const selectors = [
        'application[name=Thunderbird] page-tab-list[attr|id="tabmail-tabs"]>page-tab[name="About Profiles"]'
      ]
      assert.strictEqual(yield* check([{ selectors }]), 1)
      assert.strictEqual(yield* check([{ selectors }, { selectors: ["nothing", "page-tab"] }]), 1)
      assert.strictEqual(yield* check([{ selectors }, { selectors: ["nothing"] }]), 0)
      assert.strictEqual(yield* check([{ selectors }], missing), 0)
    })
  )

  it.effect("text: exact by default, otherwise the best likeness, multiplied", () =>
    Effect.gen(function* () {
      assert.strictEqual(yield* check([{ selectors: ["page-tab"], text: "two " }]), 1)
      assert.strictEqual(yield* check([{ selectors: ["page-tab"], text: "two" }]), 0)
      // "two" in "two ": 2*3/7; "one" against "on": 2*2/5.
      const fuzzy = { selectors: ["page-tab"], text: "two", exact: false }
      assert.strictEqual(yield* check([fuzzy]), 6 / 7)
      assert.strictEqual(yield* check([fuzzy, { selectors: ["page-tab"], text: "on", exact: false }]), (6 / 7) * 0.8)
      // Characters that XML forbids are dropped, as the guest's own are.
      assert.strictEqual(yield* check([{ selectors: ["page-tab"], text: "one" }]), 1)
    })
  )

  it.effect("by XPath: prefixes are the document's own, and a rule with selectors too goes by them", () =>
    Effect.gen(function* () {
      const found = (xpath: string) => check([{ xpath }])
      assert.strictEqual(yield* found("//page-tab-list[@attr:id='tabmail-tabs']/page-tab[@name='About Profiles']"), 1)
      assert.strictEqual(yield* found("/desktop-frame/application/frame/panel/page-tab"), 1)
      assert.strictEqual(yield* found("//frame/page-tab"), 0)
      assert.strictEqual(yield* found("//*[@st:selected='true' and contains(@name, 'box')]"), 1)
      // Elements alone are looked at, as selectors find nothing else.
      assert.strictEqual(yield* found("//page-tab/@name"), 0)
      assert.strictEqual(yield* check([{ xpath: "//page-tab", text: "two " }]), 1)
      assert.strictEqual(yield* check([{ xpath: "//page-tab", text: "two", exact: false }]), 6 / 7)
      assert.strictEqual(yield* check([{ xpath: "//page-tab" }, { xpath: "//nothing" }]), 0)
      assert.strictEqual(yield* check([{ xpath: "//nothing", selectors: ["page-tab"] }]), 1)
      assert.strictEqual(yield* check([{ xpath: "//page-tab" }], missing), 0)
    })
  )

  it.effect("what cannot be judged", () =>
    Effect.gen(function* () {
      assert.include(yield* check([{ xpath: "//a[" }], missing), "//a[ is no XPath")
      assert.include(yield* check([{ xpath: "//page-tab", selectors: ["a:hover"] }]), "is not supported at")
      assert.include(yield* check([{ xpath: "//none:a" }]), "the XPath //none:a cannot be followed")
      assert.include(yield* check([{ xpath: "count(//page-tab)" }]), "the XPath count(//page-tab) cannot be followed")
      assert.include(yield* check([{ text: "a" }]), "cannot decide")
      assert.include(yield* check([{ selectors: ["a:hover"] }], missing), "is not supported at")
      assert.include(yield* check([]), "cannot decide")
      assert.include(yield* check([{ selectors: ["a"] }], text("<a><b></a>")), "not well-formed XML")
      assert.include(yield* check([{ selectors: ["a"] }], text("")), "cannot decide")
    })
  )
})
