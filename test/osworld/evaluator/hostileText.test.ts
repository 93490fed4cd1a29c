import { assert, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { splitLines } from "../../../src/osworld/evaluator/internal/lines.js"
import * as Mbox from "../../../src/osworld/evaluator/internal/mbox.js"
import * as Filters from "../../../src/osworld/evaluator/internal/messageFilters.js"
import * as PythonList from "../../../src/osworld/evaluator/internal/pythonList.js"
import * as Prefs from "../../../src/osworld/evaluator/internal/thunderbirdPrefs.js"
import * as TextFiles from "../../../src/osworld/evaluator/textFiles.js"
import { json, judge, text } from "./support.js"

/** Text that an agent may have left, of a size at which anything quadratic takes minutes. */
const much = (part: string, length = 2_000_000) => part.repeat(Math.ceil(length / part.length))

it.effect("text takes time in proportion to its length", () =>
  Effect.gen(function* () {
    const start = performance.now()
    for (const part of ["AND (", "AND (a,b,", 'AND (a,b,\\"', "AND (a,b,\\\\\\", 'AND (\\"a,']) {
      Filters.parse(`name="x"\ncondition="${much(part)}"\n`)
      Filters.parse(`name="x"\ncondition="${much(part)})"\n`)
    }
    for (const part of ['user_pref("', '\\"', 'user_pref("a", "']) Prefs.parse(much(part))
    for (const part of ["From ", "From - 1:", "12:3"]) Mbox.parse(`From ${much(part)}`)
    Mbox.parse(much("From - x\n\n"))
    Mbox.parse(`From - x\nA: b${much("\n c")}`)
    for (const part of ["['a', ", "[", "'\\", "['a',"]) PythonList.parse(much(part))
    splitLines(much("\r\n"))
    const found = much("15")
    assert.strictEqual(yield* judge(TextFiles.compareResultFiles, text(found), text("5")), 0)
    assert.strictEqual(yield* judge(TextFiles.compareResultFiles, text(much("-5 ")), text("5")), 0)
    const tabs = `\t${much("\t", 200_000)}x`
    assert.strictEqual(yield* judge(TextFiles.comparePythonPureText, text(tabs), text("x")), 0)
    for (const part of ["background:", "background ", "background: url(", "background:url('"]) {
      const page = text(`<style>${much(part)}</style>`)
      assert.strictEqual(yield* judge(TextFiles.checkHtmlBackgroundImage, page, json({ value: "a.png" })), 0)
    }
    assert.isBelow(performance.now() - start, 20_000)
  })
)
