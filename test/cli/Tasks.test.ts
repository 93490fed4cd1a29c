import { mkdirSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { afterAll, assert, beforeAll, describe, it } from "@effect/vitest"
import * as Getters from "../../src/osworld/evaluator/Getters.js"
import * as Metrics from "../../src/osworld/evaluator/Metrics.js"
import { root, Workplace } from "./harness.js"
import { inProcess } from "./inProcess.js"

const bundled = join(root, "examples/tasks")

describe("deskhand tasks", () => {
  let place: Workplace
  beforeAll(() => {
    place = new Workplace()
  })
  afterAll(() => place.remove())

  it("covers all of the tasks that come with it", async () => {
    const { status, stderr, stdout } = await place.run(["tasks", "--coverage", bundled])
    assert.strictEqual(status, 0, stdout + stderr)
    assert.match(stdout, /^domain +tasks +supported +share$/m)
    assert.match(stdout, /^all +(\d+) +\1 +100\.0 %$/m)
    assert.include(stdout, "Every part of every task is supported.")
  })

  it("ends with 1 where a part is not there, says which and why, and as JSON too", async () => {
    const folder = join(place.folder, "os")
    mkdirSync(folder)
    const result = { type: "vm_command_line", command: 5 }
    const evaluator = { func: "no_such_metric", result, expected: { type: "rule", rules: {} } }
    const task = { id: "a", instruction: "Do a", config: [], evaluator }
    writeFileSync(join(folder, "a.json"), JSON.stringify(task))
    writeFileSync(join(folder, "b.json"), JSON.stringify({ ...task, id: "b", evaluator: { func: "infeasible" } }))
    writeFileSync(join(folder, "notes.json"), "[]")
    const text = await inProcess(["tasks", "--coverage", folder])
    assert.strictEqual(text.status, 1)
    assert.match(text.stdout, /^os +2 +1 +50\.0 %$/m)
    assert.include(text.stdout, "evaluator.func: metric no_such_metric: not yet supported")
    assert.include(text.stdout, "evaluator.result: getter vm_command_line: ")
    assert.include(text.stderr, "1 of 2 tasks are not supported")
    const json = await inProcess(["tasks", "--coverage", "--format", "json", folder])
    assert.strictEqual(json.status, 1)
    const report = JSON.parse(json.stdout)
    assert.deepStrictEqual(report.total, { tasks: 2, supported: 1 })
    assert.deepStrictEqual(
      report.tasks[0].gaps.map(({ kind, name }: { kind: string; name: string }) => [kind, name]),
      [
        ["metric", "no_such_metric"],
        ["getter", "vm_command_line"]
      ]
    )
  })

  it("lists what there is", async () => {
    const list = async (what: string) => (await inProcess(["tasks", "--list", what])).stdout.trim().split("\n")
    assert.deepStrictEqual(await list("metrics"), Metrics.all.map(({ name }) => name).sort())
    assert.deepStrictEqual(await list("getters"), Getters.all.map(({ name }) => name).sort())
    assert.include(await list("steps"), "download")
    const json = await inProcess(["tasks", "--list", "steps", "--format", "json"])
    assert.include(JSON.parse(json.stdout), "launch")
  })

  it("says what was asked in a wrong way", async () => {
    const wrong = async (args: ReadonlyArray<string>, text: string) => {
      const ended = await inProcess(["tasks", ...args])
      assert.strictEqual(ended.status, 2, ended.stderr)
      assert.include(ended.stderr, text)
    }
    await wrong([], "--coverage")
    await wrong(["--coverage"], "wants task files")
    await wrong(["--coverage", "--list", "steps", bundled], "two questions")
    await wrong(["--coverge", bundled], "there is no option --coverge")
  })
})
