import { existsSync } from "node:fs"
import { fileURLToPath } from "node:url"
import * as FileSystem from "@effect/platform/FileSystem"
import * as NodeContext from "@effect/platform-node/NodeContext"
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Logger from "effect/Logger"
import * as LogLevel from "effect/LogLevel"
import * as Coverage from "../../src/osworld/Coverage.js"
import * as Getters from "../../src/osworld/evaluator/Getters.js"
import * as Metrics from "../../src/osworld/evaluator/Metrics.js"
import * as Support from "../../src/osworld/Support.js"
import * as Task from "../../src/osworld/Task.js"

const decoded = (evaluator: unknown): Task.Task =>
  Either.getOrThrow(Task.decode({ id: "a", instruction: "Do a", config: [], evaluator }, "test"))

const rule = { type: "rule", rules: { expected: "x" } }

const quiet = Logger.withMinimumLogLevel(LogLevel.Warning)

describe("the registries", () => {
  const twice = (names: ReadonlyArray<string>) => names.filter((name, i) => names.indexOf(name) !== i)

  it("have each name once", () => {
    assert.deepStrictEqual(twice(Metrics.all.map(({ name }) => name)), [])
    assert.deepStrictEqual(twice(Getters.all.map(({ name }) => name)), [])
  })

  it("are what can be listed", () => {
    assert.deepStrictEqual(Coverage.names("metrics"), Metrics.all.map(({ name }) => name).sort())
    assert.deepStrictEqual(Coverage.names("getters"), Getters.all.map(({ name }) => name).sort())
    assert.includeMembers([...Coverage.names("steps")], ["download", "launch", "open"])
  })
})

describe("Support.gaps", () => {
  it.effect("a task of which all is there has none", () =>
    Effect.gen(function* () {
      assert.deepStrictEqual(yield* Support.gaps(decoded({ func: "infeasible" })), [])
      const task = decoded({ func: "exact_match", result: { type: "vm_command_line", command: "id" }, expected: rule })
      assert.deepStrictEqual(yield* Support.gaps(task), [])
    })
  )

  it.effect("says where a metric or a getter is not there, and where parameters make no sense", () =>
    Effect.gen(function* () {
      const found = yield* Support.gaps(
        decoded({
          func: ["no_such_metric", "exact_match", "exact_match", "compare_text_file"],
          result: [
            { type: "no_such_getter" },
            { type: "vm_command_line", command: 5 },
            { type: "vm_command_line", command: "id" },
            { type: "vm_file", path: "/tmp/a", dest: "a" }
          ],
          expected: [rule, rule, { type: "rule" }, { type: "cloud_file" }],
          options: [{}, {}, {}, { ignore_blanks: "perhaps" }]
        })
      )
      assert.deepStrictEqual(
        found.map(({ at, kind, name }) => [at, kind, name]),
        [
          ["evaluator.func[0]", "metric", "no_such_metric"],
          ["evaluator.result[0]", "getter", "no_such_getter"],
          ["evaluator.result[1]", "getter", "vm_command_line"],
          ["evaluator.func[3]", "metric", "compare_text_file"],
          ["evaluator.expected[3]", "getter", "cloud_file"]
        ]
      )
      const [unknown, , parameters, options] = found
      assert.include(unknown?.reason, "not yet supported")
      assert.include(parameters?.reason, "command")
      assert.include(options?.reason, "ignore_blanks")
    })
  )
})

describe("Coverage.survey", () => {
  it.scoped("counts by domain, and a file that is no task as one that is not supported", () =>
    Effect.gen(function* () {
      const fs = yield* FileSystem.FileSystem
      const root = yield* fs.makeTempDirectoryScoped()
      const task = (id: string, more: object = {}) => ({
        id,
        instruction: `Do ${id}`,
        config: [],
        evaluator: { func: "infeasible" },
        ...more
      })
      const files = {
        "os/a.json": task("a"),
        "os/b.json": task("b", { config: [{ type: "no_such_step", parameters: {} }] }),
        "vlc/c.json": task("c", {
          evaluator: { func: "no_such_metric", result: { type: "vm_command_line", command: "id" }, expected: rule }
        })
      }
      for (const domain of ["os", "vlc"]) yield* fs.makeDirectory(`${root}/${domain}`)
      for (const [name, json] of Object.entries(files))
        yield* fs.writeFileString(`${root}/${name}`, JSON.stringify(json))
      const { domains, tasks, total } = yield* Coverage.survey([root])
      assert.deepStrictEqual(domains, [
        { domain: "os", tasks: 2, supported: 1 },
        { domain: "vlc", tasks: 1, supported: 0 }
      ])
      assert.deepStrictEqual(total, { tasks: 3, supported: 1 })
      assert.deepStrictEqual(
        tasks.map(({ id, supported }) => [id, supported]),
        [
          ["a", true],
          ["b", false],
          ["c", false]
        ]
      )
      assert.strictEqual(tasks[1]?.gaps[0]?.kind, "task")
      assert.include(tasks[1]?.gaps[0]?.at, "config[0].type")
      assert.strictEqual(tasks[2]?.gaps[0]?.kind, "metric")
      const none = yield* Coverage.survey([`${root}/none`])
      assert.deepStrictEqual(none.total, { tasks: 1, supported: 0 })
    }).pipe(Effect.provide(NodeContext.layer))
  )
})

const published = process.env.OSWORLD_TASKS ?? fileURLToPath(new URL("../../../shared/osworld-tasks", import.meta.url))

describe.skipIf(!existsSync(published))(`the published tasks in ${published}`, () => {
  it.effect("are all supported, with their parameters and options", () =>
    Effect.gen(function* () {
      const { tasks, total } = yield* quiet(Coverage.survey([published]))
      const short = tasks.flatMap(({ gaps, id }) => gaps.map(({ at, reason }) => `${id} ${at}: ${reason}`))
      assert.deepStrictEqual(short, [])
      assert.deepStrictEqual(total, { tasks: 40, supported: 40 })
    }).pipe(Effect.provide(NodeContext.layer))
  )
})
