import * as Fs from "node:fs"
import * as Os from "node:os"
import * as Path from "node:path"
import { afterEach, assert, beforeEach, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Windows from "../../src/desktop/guest/Windows.js"

// A real window manager shows this only when a window goes away within the same millisecond.
describe("Windows", () => {
  const { PATH } = process.env
  let folder = ""

  /** A `wmctrl` that fails so often as the real one does when a window goes away under it. */
  const standIn = (failures: number, then: string) => {
    Fs.writeFileSync(
      Path.join(folder, "wmctrl"),
      `#!/bin/bash
echo "$@" >>${folder}/calls
if [ "$(wc -l <${folder}/calls)" -le ${failures} ]; then
  echo "X Error of failed request:  BadWindow (invalid Window parameter)" >&2
  exit 1
fi
${then}
`,
      { mode: 0o755 }
    )
  }
  const calls = () => Fs.readFileSync(Path.join(folder, "calls"), "utf8").trim().split("\n")

  beforeEach(() => {
    folder = Fs.mkdtempSync(Path.join(Os.tmpdir(), "deskhand-wmctrl-"))
    process.env.PATH = `${folder}:${PATH}`
  })
  afterEach(() => {
    process.env.PATH = PATH
    Fs.rmSync(folder, { recursive: true })
  })

  it.live("looks again when a window goes away while it looks", () =>
    Effect.gen(function* () {
      standIn(2, 'echo "0x00600001  0 10 20 300 200 desk Notes - Mousepad"')
      assert.deepStrictEqual(yield* Windows.list, [
        { id: "0x00600001", width: 300, height: 200, host: "desk", title: "Notes - Mousepad" }
      ])
      assert.strictEqual(calls().length, 3)
    })
  )

  it.live("does not look again for another reason", () =>
    Effect.gen(function* () {
      standIn(0, 'echo "Cannot open display." >&2; exit 1')
      const error = yield* Effect.flip(Windows.list)
      assert.include(error.message, "Cannot open display.")
      assert.strictEqual(calls().length, 1)
    })
  )
})
