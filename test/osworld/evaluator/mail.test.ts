import { readFileSync } from "node:fs"
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as FastCheck from "effect/FastCheck"
import * as Mbox from "../../../src/osworld/evaluator/internal/mbox.js"
import * as Prefs from "../../../src/osworld/evaluator/internal/thunderbirdPrefs.js"
import { Value } from "../../../src/osworld/evaluator/Metric.js"
import * as Mail from "../../../src/osworld/evaluator/mail.js"
import { file, fixture, json, judge, missing, text } from "./support.js"

// The files are written by hand as Thunderbird writes them.
const prefs = file(fixture("mail/prefs.js"))
const filters = file(fixture("mail/msgFilterRules.dat"))

describe("check_thunderbird_prefs", () => {
  const check = (rules: unknown, result = prefs) => judge(Mail.checkThunderbirdPrefs, result, json(rules))

  it.effect("asks settings by their names", () =>
    Effect.gen(function* () {
      // Task 10a730d5.
      const dark = { expect: { "extensions.activeThemeID": { method: "re", ref: "dark" } } }
      assert.strictEqual(yield* check(dark), 1)
      assert.strictEqual(yield* check({ unexpect: dark.expect }), 0)
      const eq = (name: string, ref: unknown) => ({ expect: { [name]: { method: "eq", ref } } })
      assert.strictEqual(yield* check(eq("mailnews.start_page.enabled", false)), 1)
      assert.strictEqual(yield* check(eq("mailnews.start_page.enabled", true)), 0)
      assert.strictEqual(yield* check(eq("mail.identity.id1.htmlSigText", 'Say "hello",\r\nback\\slash')), 1)
      // The last one counts, as it does to the program.
      assert.strictEqual(yield* check(eq("mail.pane_config.dynamic", 2)), 1)
      assert.strictEqual(yield* check({ unexpect: eq("mail.pane_config.dynamic", 0).expect }), 1)
      // What is not set satisfies no rule.
      assert.strictEqual(yield* check({ expect: { "no.such": { method: "ne", ref: 1 } } }), 0)
      assert.strictEqual(yield* check({ unexpect: { "no.such": { method: "ne", ref: 1 } } }), 1)
      assert.strictEqual(yield* check(eq("mail.code", "fs")), 0)
    })
  )

  it.effect("a file that is none has no settings, and a rule that is none judges nobody", () =>
    Effect.gen(function* () {
      const rules = { expect: { a: { method: "eq", ref: 1 } } }
      assert.strictEqual(yield* check(rules, missing), 0)
      assert.strictEqual(yield* check(rules, text('user_pref("a", 1')), 0)
      assert.strictEqual(yield* check(rules, text('user_pref("a", 1);')), 1)
      assert.include(yield* check({ expect: { a: { method: "near", ref: 1 } } }, text("")), "not supported")
      assert.include(yield* check({ expect: { a: 1 } }), "cannot decide")
    })
  )

  it("reads what Thunderbird would write", () =>
    FastCheck.assert(
      FastCheck.property(FastCheck.string(), FastCheck.string(), (name, value) => {
        const quote = (content: string) =>
          `"${content.replaceAll("\\", "\\\\").replaceAll('"', '\\"').replaceAll("\n", "\\n").replaceAll("\r", "\\r")}"`
        assert.deepStrictEqual(Array.from(Prefs.parse(`user_pref(${quote(name)}, ${quote(value)});`)), [[name, value]])
      })
    ))
})

describe("check_thunderbird_filter", () => {
  const check = (rules: unknown, compat = false, result = filters) =>
    judge(Mail.checkThunderbirdFilter, result, json(rules), {}, { compat })

  it.effect("finds filters by what is said of them", () =>
    Effect.gen(function* () {
      // Task 9b7bc335.
      const forward = {
        expect: [{ enabled: "yes", action: "Forward", actionValue: "anonym-x2024@gmail.com", condition: ["ALL"] }]
      }
      assert.strictEqual(yield* check(forward), 1)
      assert.strictEqual(yield* check(forward, true), 1)
      assert.strictEqual(yield* check({ expect: [{ name: 'Forward "all"' }] }), 1)
      assert.strictEqual(yield* check({ unexpect: [{ action: "Forward" }] }), 0)
      assert.strictEqual(yield* check({ expect: [{ enabled: "no", type: "17", action: "Stop execution" }] }), 1)
      assert.strictEqual(yield* check({ expect: [{ enabled: "no", action: "Forward" }] }), 0)
      assert.strictEqual(yield* check({ expect: [{ action: "Stop execution", actionValue: "" }] }), 0)
    })
  )

  it.effect("any of a filter's actions counts, and its terms in any order", () =>
    Effect.gen(function* () {
      const folder = "mailbox://nobody@Local%20Folders/Promotions"
      const move = { expect: [{ action: "Move to folder", actionValue: folder }] }
      assert.strictEqual(yield* check(move), 1)
      assert.strictEqual(yield* check(move, true), 0)
      const terms = ["AND (subject,contains,discount)", 'AND (from,is,"shop (news)")', `AND ("X-Spam",isn't,ALL)`]
      assert.strictEqual(yield* check({ expect: [{ condition: terms }] }), 1)
      assert.strictEqual(yield* check({ expect: [{ condition: terms.toReversed() }] }), 1)
      assert.strictEqual(yield* check({ expect: [{ condition: terms.toReversed() }] }, true), 0)
      assert.strictEqual(yield* check({ expect: [{ condition: terms.slice(1) }] }), 0)
      assert.strictEqual(yield* check({ expect: [{ condition: ["ALL"], name: "Promotions" }] }), 0)
    })
  )

  it.effect("malformed", () =>
    Effect.gen(function* () {
      const rules = { expect: [{ name: "x" }] }
      assert.strictEqual(yield* check(rules, false, missing), 0)
      assert.strictEqual(yield* check(rules, false, text('name="x"\nenabled="yes')), 0)
      assert.strictEqual(yield* check(rules, false, text('action="y"\nname="x"\ncondition=""')), 1)
      assert.include(yield* check({ expect: ["x"] }), "cannot decide")
    })
  )
})

describe("check_thunderbird_folder", () => {
  const folder = (name: string) => file(fixture(`mail/${name}`))
  const ignoring = { ignore_status: true, ignore_keys: true }
  const check = (result: Value, gold: Value, options = {}, compat = false) =>
    judge(Mail.checkThunderbirdFolder, result, gold, options, { compat })

  it("takes folders apart", () => {
    const messages = Mbox.parse(readFileSync(fixture("mail/Bills"), "latin1"))
    assert.deepStrictEqual(
      messages.map((message) => Mbox.field(message, "subject")),
      ["Bills", "Grüße"]
    )
    assert.strictEqual(messages[0]?.body, "Pay.\n\n>From - is how an old line looks.\nFrom - here on it is text.")
    // Newer versions write nothing behind `From `.
    assert.strictEqual(Mbox.parse("From \na: b\n\nc\n\nFrom \nd: e\n\nf\n").length, 2)
    assert.strictEqual(Mbox.parse("no folder").length, 0)
  })

  it.effect("the same messages, whatever their order, marks and time of arrival", () =>
    Effect.gen(function* () {
      assert.strictEqual(yield* check(folder("Bills"), folder("Bills")), 1)
      assert.strictEqual(yield* check(folder("Bills-later"), folder("Bills"), ignoring), 1)
      assert.strictEqual(yield* check(folder("Bills-later"), folder("Bills")), 0)
      assert.strictEqual(yield* check(folder("Bills-later"), folder("Bills"), { ignore_status: true }), 0)
      assert.strictEqual(
        yield* check(folder("Bills-later"), folder("Bills"), { ...ignoring, remove_deleted: false }),
        0
      )
      assert.strictEqual(
        yield* check(folder("Bills-later"), folder("Bills"), { ...ignoring, remove_duplicate: false }),
        0
      )
    })
  )

  it.effect("other messages, which upstream cannot tell apart", () =>
    Effect.gen(function* () {
      assert.strictEqual(yield* check(folder("Bills-half"), folder("Bills"), ignoring), 0)
      assert.strictEqual(yield* check(folder("Bills-half"), folder("Bills"), ignoring, true), 1)
      assert.strictEqual(yield* check(folder("prefs.js"), folder("Bills"), ignoring), 0)
      assert.strictEqual(yield* check(folder("prefs.js"), folder("Bills"), ignoring, true), 1)
      assert.strictEqual(yield* check(folder("Empty"), folder("Bills"), ignoring), 0)
      assert.strictEqual(yield* check(folder("Empty"), folder("Bills"), ignoring, true), 0)
    })
  )

  it.effect("several folders, pair by pair", () =>
    Effect.gen(function* () {
      const folders = (...names: Array<string>) =>
        Value.Files({ files: names.map((name) => ({ name, path: fixture(`mail/${name}`) })) })
      assert.strictEqual(yield* check(folders("Bills", "Empty"), folders("Bills", "Empty")), 1)
      assert.strictEqual(yield* check(folders("Empty", "Bills"), folders("Bills", "Empty")), 0)
      assert.strictEqual(yield* check(folders("Bills"), folders("Bills", "Empty")), 0)
      assert.strictEqual(yield* check(missing, folder("Bills")), 0)
      assert.include(yield* check(folder("Bills"), folder("nowhere")), "cannot decide")
      assert.include(yield* check(folder("Bills"), folder("Bills"), { ignore_keys: "yes" }), "bad options")
    })
  )

  it("has as many messages as were written, and each is what it was", () => {
    const line = FastCheck.stringMatching(/^[ -~]{0,20}$/).filter((content) => !content.startsWith("From "))
    FastCheck.assert(
      FastCheck.property(FastCheck.array(FastCheck.array(line)), (bodies) => {
        const written = bodies.map((body) => `From - Tue Jan 02 10:00:00 2024\nSubject: x\n\n${body.join("\n")}\n\n`)
        assert.deepStrictEqual(
          Mbox.parse(written.join("")).map(({ body }) => body),
          bodies.map((body) => body.join("\n").trim())
        )
      })
    )
  })
})
