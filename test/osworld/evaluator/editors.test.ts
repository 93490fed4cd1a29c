import { readFileSync } from "node:fs"
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as FastCheck from "effect/FastCheck"
import { zipSync } from "fflate"
import * as Editors from "../../../src/osworld/evaluator/editors.js"
import { file, fixture, json, judge, missing, text, written } from "./support.js"

describe("check_json_keybindings", () => {
  // Task 930fdb3b.
  const binding = { key: "ctrl+j", command: "workbench.action.focusActiveEditorGroup", when: "terminalFocus" }
  const check = (content: string, compat = false) =>
    judge(Editors.checkJsonKeybindings, text(content), json({ expected: binding }), {}, { compat })

  it.effect("has the binding, comments or not", () =>
    Effect.gen(function* () {
      const list = JSON.stringify([{ key: "ctrl+k", command: "x" }, binding], null, 2)
      const commented = `// Place your key bindings in this file to override the defaults\n${list}`
      assert.strictEqual(yield* check(list), 1)
      assert.strictEqual(yield* check(commented), 1)
      assert.strictEqual(yield* check(commented, true), 1)
      // VS Code reads this, upstream does not.
      const trailing = `[\n  // mine\n  ${JSON.stringify(binding)},\n]`
      assert.strictEqual(yield* check(trailing), 1)
      assert.strictEqual(yield* check(trailing, true), 0)
    })
  )

  it.effect("another binding, another shape, no JSON", () =>
    Effect.gen(function* () {
      assert.strictEqual(yield* check(JSON.stringify([{ ...binding, when: "editorFocus" }])), 0)
      assert.strictEqual(yield* check(JSON.stringify([{ ...binding, args: 1 }])), 0)
      assert.strictEqual(yield* check(JSON.stringify(binding)), 0)
      assert.strictEqual(yield* check("[{"), 0)
      assert.strictEqual(yield* check(""), 0)
      assert.strictEqual(yield* judge(Editors.checkJsonKeybindings, missing, json({ expected: binding })), 0)
      assert.include(yield* judge(Editors.checkJsonKeybindings, text("[]"), json({ expected: "x" })), "cannot decide")
    })
  )
})

describe("compare_config", () => {
  const check = (found: string, expected: unknown, options = {}) =>
    judge(Editors.compareConfig, text(found), json({ expected }), options)
  const strict = { containment_ok: false }

  it.effect("says at least what is expected", () =>
    Effect.gen(function* () {
      const wanted = '{"folders": [{"path": "project"}], "settings": {}}'
      assert.strictEqual(yield* check('{"folders":[{"path":"project"}],"settings":{"a":1},"b":2}', wanted), 1)
      assert.strictEqual(yield* check('{"folders":[{"path":"project"},{"path":"more"}],"settings":{}}', wanted), 0)
      assert.strictEqual(yield* check('{"folders":[{"path":"project"}]}', wanted), 0)
      assert.strictEqual(yield* check("Visual Studio Dark\n", "Visual Studio Dark"), 1)
      assert.strictEqual(yield* check("Monokai", "Visual Studio Dark"), 0)
      assert.strictEqual(yield* check('{"folders":', wanted), 0)
    })
  )

  it.effect("strictly", () =>
    Effect.gen(function* () {
      assert.strictEqual(yield* check("a\n", "a\n", strict), 1)
      assert.strictEqual(yield* check("a\nb\n", "a\n", strict), 0)
      assert.strictEqual(yield* check('{"a": 1}', '{ "a": 1 }', strict), 1)
      assert.strictEqual(yield* check('{"a": 1, "b": 2}', '{"a": 1}', strict), 0)
      assert.include(yield* check("a", "", strict), "cannot decide")
      assert.strictEqual(yield* judge(Editors.compareConfig, missing, json({ expected: "a" })), 0)
    })
  )

  it.effect("is reflexive", () =>
    Effect.promise(() =>
      FastCheck.assert(
        FastCheck.asyncProperty(FastCheck.json(), (content) =>
          Effect.runPromise(
            Effect.gen(function* () {
              assert.strictEqual(yield* check(content, content), 1)
              assert.strictEqual(yield* check(content, content, strict), 1)
            })
          )
        ),
        { numRuns: 30 }
      )
    )
  )
})

it.effect("is_extension_installed: the rules of task eabc805a", () =>
  Effect.gen(function* () {
    const check = (found: string, type: string) =>
      judge(Editors.isExtensionInstalled, text(found), json({ type, expected: "ms-python.python" }))
    assert.strictEqual(yield* check("ms-python.python\nms-vscode.cpptools\n", "contain"), 1)
    assert.strictEqual(yield* check("", "contain"), 0)
    assert.strictEqual(yield* check("", "not_contain"), 1)
    assert.strictEqual(yield* check("ms-python.python\n", "not_contain"), 0)
    assert.strictEqual(yield* judge(Editors.isExtensionInstalled, missing, json({ type: "contain", expected: "a" })), 0)
    assert.include(yield* check("", "has"), "cannot decide")
  })
)

describe("compare_zip_files", () => {
  // Info-ZIP made them: archives/make.sh.
  const zip = (name: string) => file(fixture(`archives/${name}.zip`))
  const compare = (found: string, gold: string, compat = false) =>
    judge(Editors.compareZipFiles, zip(found), zip(gold), {}, { compat })

  it.effect("the same names and contents", () =>
    Effect.gen(function* () {
      assert.strictEqual(yield* compare("notes", "notes"), 1)
      assert.strictEqual(yield* compare("reworded", "notes"), 0)
      assert.strictEqual(yield* compare("renamed", "notes"), 0)
      // Whether a folder is named on its own is the program's affair.
      assert.strictEqual(yield* compare("notes-without-folders", "notes"), 1)
      assert.strictEqual(yield* compare("notes", "notes-without-folders"), 1)
      assert.strictEqual(yield* compare("notes-without-folders", "notes", true), 0)
    })
  )

  it.effect("PDFs by their texts", () =>
    Effect.gen(function* () {
      assert.strictEqual(yield* compare("papers", "papers"), 1)
      // One word of 117 characters is another: Python's difflib says 0.9705 of the two texts.
      assert.strictEqual(yield* compare("papers-changed", "papers"), 1)
      assert.strictEqual(yield* compare("papers", "papers-changed"), 1)
      const at = yield* written({
        broken: zipSync({ "letter.pdf": new TextEncoder().encode("no PDF") }),
        wordless: zipSync({ "letter.pdf": new Uint8Array(readFileSync(fixture("pdf/jpeg.pdf"))) }),
        none: "PK, but no archive"
      })
      assert.strictEqual(yield* judge(Editors.compareZipFiles, file(at("broken")), zip("papers")), 0)
      assert.strictEqual(yield* judge(Editors.compareZipFiles, file(at("wordless")), zip("papers")), 0)
      assert.strictEqual(yield* judge(Editors.compareZipFiles, file(at("none")), zip("papers")), 0)
      assert.strictEqual(yield* judge(Editors.compareZipFiles, missing, zip("papers")), 0)
      assert.include(yield* judge(Editors.compareZipFiles, zip("papers"), file(at("broken"))), "expected value")
      assert.include(yield* judge(Editors.compareZipFiles, zip("papers"), file(at("none"))), "expected value")
    }).pipe(Effect.scoped)
  )
})
