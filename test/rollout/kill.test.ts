import { spawnSync } from "node:child_process"
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { assert, it } from "@effect/vitest"
import { build } from "esbuild"
import { draw } from "../../src/testing/Distribution.js"

const kills = 30
const rollouts = 200

interface Row {
  readonly _ng_task_index: number
  readonly _ng_rollout_index: number
  readonly _ng_rollout_id: string
  readonly reward: number
  readonly verifier_metadata: { readonly osworld_steps: ReadonlyArray<unknown> }
}

const rowsOf = (file: string): ReadonlyArray<Row> =>
  readFileSync(file, "utf8")
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => JSON.parse(line))

/** What of a rollout does not hang on how often it was tried. */
const facts = (file: string) =>
  rowsOf(file)
    .map((row) => ({
      rollout: `${row._ng_task_index}-${row._ng_rollout_index}`,
      reward: row.reward,
      steps: row.verifier_metadata.osworld_steps.length
    }))
    .sort((a, b) => (a.rollout < b.rollout ? -1 : 1))

it(`after ${kills} kills at random moments there are ${rollouts} rows, each once, as in a run without`, async () => {
  const bundles = mkdtempSync(join(import.meta.dirname, "../../node_modules/.kill-"))
  const folder = mkdtempSync(join(tmpdir(), "deskhand-kill-"))
  try {
    const driver = join(bundles, "driver.mjs")
    await build({
      entryPoints: [join(import.meta.dirname, "killDriver.ts")],
      bundle: true,
      platform: "node",
      format: "esm",
      packages: "external",
      outfile: driver,
      logLevel: "warning"
    })
    const run = (out: string, killAt: number, seed: string) =>
      spawnSync(process.execPath, [driver, out, String(killAt), seed], { encoding: "utf8" })

    const killed = join(folder, "killed")
    const tails: Array<string> = []
    for (let kill = 0; kill < kills; kill++) {
      const at = 1 + Math.floor(draw("kill at", kill) * 14)
      const { signal, stderr, stdout } = run(killed, at, `seed ${kill}`)
      assert.strictEqual(signal, "SIGKILL", `kill ${kill} at operation ${at}: ${stdout}${stderr}`)
      tails.push(stdout)
    }
    const last = run(killed, 0, "")
    assert.include(last.stdout, "done", last.stderr)
    const calm = join(folder, "calm")
    assert.include(run(calm, 0, "").stdout, "done")

    // Otherwise the kills fell where they could do no harm.
    assert.match(tails.join(""), /was torn by a crash/)
    assert.match(tails.join(""), /were under way when the run was stopped/)
    assert.match(tails.join(""), /is gone; its lock was taken over/)
    const rows = rowsOf(join(killed, "rollouts.jsonl"))
    assert.strictEqual(rows.length, rollouts)
    assert.strictEqual(new Set(rows.map((row) => `${row._ng_task_index}-${row._ng_rollout_index}`)).size, rollouts)
    assert.isAbove(rows.filter(({ _ng_rollout_id }) => /-a\d+$/.test(_ng_rollout_id)).length, 0)
    assert.deepStrictEqual(facts(join(killed, "rollouts.jsonl")), facts(join(calm, "rollouts.jsonl")))
    assert.deepStrictEqual(readdirSync(join(killed, "desktops")), [])
    assert.deepStrictEqual(
      readdirSync(killed).sort(),
      ["desktops", "failures.jsonl", "journal.jsonl", "rollouts.jsonl"],
      "neither a lock nor half a file is left"
    )
  } finally {
    rmSync(bundles, { recursive: true, force: true })
    rmSync(folder, { recursive: true, force: true })
  }
}, 600_000)
