import { execFile } from "node:child_process"
import { fileURLToPath } from "node:url"
import { promisify } from "node:util"
import { assert, describe, it } from "@effect/vitest"

const root = fileURLToPath(new URL("../..", import.meta.url))

describe("the Python that runs in desktops", () => {
  // Its own suite, against a real X server: see test/desktop/python.
  it("passes its tests", { timeout: 300_000 }, async () => {
    const ended = await promisify(execFile)(
      "/usr/bin/python3",
      ["-m", "unittest", "discover", "-s", "test/desktop/python"],
      { cwd: root, maxBuffer: 16 * 1024 * 1024 }
    ).catch((error: { readonly stdout: string; readonly stderr: string }) => error)
    const summary = /Ran (\d+) tests[\s\S]*\nOK(.*)\n?$/.exec(ended.stderr)
    assert.isNotNull(summary, ended.stdout + ended.stderr)
    assert.isAbove(Number(summary?.[1]), 30)
    assert.strictEqual(summary?.[2] ?? "", "", "none is skipped")
  })
})
