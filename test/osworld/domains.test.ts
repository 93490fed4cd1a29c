/** The rest of OSWorld's domains: what solves a task on a real desktop scores 1, and what nearly does scores 0. */
import { existsSync, readdirSync } from "node:fs"
import { join } from "node:path"
import { afterEach, assert, beforeEach, describe, it } from "@effect/vitest"
import { domains } from "../../src/osworld/Task.js"
import { root, Workplace } from "../cli/harness.js"

const own = "test/osworld/tasks"

/** The tasks of a folder's domains, as a user would name them: `<folder>/<domain>/<id>.json`. */
const tasksOf = (folder: string) =>
  readdirSync(join(root, folder), { withFileTypes: true }).flatMap((entry) =>
    entry.isDirectory()
      ? readdirSync(join(root, folder, entry.name))
          .filter((name) => name.endsWith(".json"))
          .map((name) => ({
            domain: entry.name,
            id: name.slice(0, -".json".length),
            path: `${folder}/${entry.name}/${name}`
          }))
      : []
  )

const tasks = tasksOf(own)

it("every domain of OSWorld whose applications Debian has is run from end to end, here or with the bundled tasks", () => {
  const run = new Set([...tasks, ...tasksOf("examples/tasks")].map(({ domain }) => domain))
  assert.deepStrictEqual(
    domains.filter((domain) => !run.has(domain)),
    ["vs_code"]
  )
})

for (const { domain, id, path } of tasks) {
  describe(`${domain}/${id}`, () => {
    let place: Workplace
    beforeEach(() => {
      place = new Workplace()
    })
    afterEach(() => {
      // A process that outlives its test is the failure of that test, not of the next.
      for (const line of place.processes()) process.kill(Number(line.split(" ")[0]), "SIGKILL")
      place.remove()
    })

    for (const [replies, reward] of [
      ["solutions", 1],
      ["near-misses", 0]
    ] as const) {
      it(`scores ${reward} with its replies of ${replies}`, { timeout: 300_000 }, async () => {
        const script = `${own}/${replies}`
        assert.isTrue(existsSync(join(root, script, `${id}.md`)), `${script}/${id}.md is missing`)
        const args = ["run", path, "--script", script, "--out", place.out, "--concurrency", "1"]
        const { status, stderr, stdout } = await place.run(args)
        const told = stdout + stderr
        assert.strictEqual(status, 0, told)
        assert.include(stdout, "over 1 scored of 1 expected; 0 masked, 0 failed, 0 unresolved, 0 not started", told)
        const [row, ...more] = place.rows("rollouts.jsonl")
        assert.deepStrictEqual(more, [])
        assert.deepInclude(row, { outcome: "scored", reward, mask_sample: false }, told)
        assert.deepInclude(row?.["verifier_metadata"], { task_id: id, domain })
        assert.deepStrictEqual(place.rows("failures.jsonl"), [])
        assert.deepStrictEqual(place.folders(), [])
        assert.deepStrictEqual(place.processes(), [])
      })
    }
  })
}
