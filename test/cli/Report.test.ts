import { mkdirSync, readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { afterAll, assert, describe, it } from "@effect/vitest"
import { Workplace } from "./harness.js"

const place = new Workplace()
afterAll(() => place.remove())

/** A run of rows as the field names them, with a full score for the tasks that `wins` names. */
const folderOf = (name: string, wins: ReadonlyArray<number>): string => {
  const folder = join(place.folder, name)
  mkdirSync(folder, { recursive: true })
  const rows = Array.from({ length: 6 }, (_, task) => ({
    _ng_task_index: task,
    _ng_rollout_index: 0,
    outcome: "scored",
    reward: wins.includes(task) ? 1 : 0,
    verifier_metadata: { task_id: `task-${task}`, domain: "os", osworld_score: wins.includes(task) ? 1 : 0 }
  }))
  writeFileSync(join(folder, "rollouts.jsonl"), rows.map((row) => `${JSON.stringify(row)}\n`).join(""))
  return folder
}

describe("deskhand report and compare", () => {
  const [a, b] = [folderOf("a", [0, 1, 2]), folderOf("b", [0])]

  it("reports as text, as Markdown, as JSON and as a page", async () => {
    const page = join(place.folder, "page.html")
    const [text, markdown, json] = await Promise.all([
      place.run(["report", a]),
      place.run(["report", a, "--markdown"]),
      place.run(["report", "--json", "--html", page, a])
    ])
    assert.deepStrictEqual([text.status, markdown.status, json.status], [0, 0, 0], text.stderr + json.stderr)
    assert.include(text.stdout, "3 of 6 scored in full (50.0 %)")
    assert.include(markdown.stdout, "- Full score: **50.0 %** (3 of 6 scored rollouts)")
    assert.strictEqual(JSON.parse(json.stdout).metrics["osworld/binary_success_rate"], 50)
    assert.include(readFileSync(page, "utf8"), "3 of 6 scored rollouts")
  })

  it("compares", async () => {
    const [text, json] = await Promise.all([
      place.run(["compare", a, b]),
      place.run(["compare", a, b, "--json", "--seed", "3"])
    ])
    assert.strictEqual(text.status, 0, text.stderr)
    // McNemar over 2 against 0: 2 times 1/4.
    assert.include(text.stdout, "The difference is within repeat noise: full scores 50.0 % (A) and 16.7 % (B)")
    assert.include(text.stdout, "exact McNemar p = 0.50")
    const parsed = JSON.parse(json.stdout)
    assert.deepInclude(parsed.mcnemar, { only_a: 2, only_b: 0, p: 0.5 })
    assert.deepInclude(parsed.bootstrap, { draws: 10_000, seed: 3 })
  })

  it("refuses a folder that is no run, and two forms at once", async () => {
    const [missing, both] = await Promise.all([
      place.run(["compare", a, join(place.folder, "nowhere")]),
      place.run(["report", a, "--json", "--markdown"])
    ])
    assert.deepStrictEqual([missing.status, both.status], [2, 2])
    assert.include(missing.stderr, "nowhere is no run: there is no such folder")
    assert.include(both.stderr, "give one of --json and --markdown")
  })
})
