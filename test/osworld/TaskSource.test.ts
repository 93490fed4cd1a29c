import { existsSync, readFileSync } from "node:fs"
import { fileURLToPath } from "node:url"
import * as FileSystem from "@effect/platform/FileSystem"
import * as Path from "@effect/platform/Path"
import * as NodeContext from "@effect/platform-node/NodeContext"
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Logger from "effect/Logger"
import * as TaskSource from "../../src/osworld/TaskSource.js"

const task = (id: string, more: Readonly<Record<string, unknown>> = {}) => ({
  id,
  instruction: `Do ${id}`,
  config: [],
  evaluator: {
    func: "exact_match",
    result: { type: "vm_command_line", command: "id" },
    expected: { type: "rule", rules: {} }
  },
  ...more
})

const row = (id: string, more: Readonly<Record<string, unknown>> = {}) => ({
  responses_create_params: { input: [] },
  verifier_metadata: { task_id: id, domain: "gimp", osworld_task: task(id) },
  ...more
})

const lines = (...rows: ReadonlyArray<unknown>) =>
  rows.map((row) => (typeof row === "string" ? row : JSON.stringify(row))).join("\n")

/** Writes the files into a folder of their own and gives its path. Text is written as it is, anything else as JSON. */
const folder = (files: Readonly<Record<string, unknown>>) =>
  Effect.gen(function* () {
    const fs = yield* FileSystem.FileSystem
    const path = yield* Path.Path
    const root = yield* fs.makeTempDirectoryScoped()
    for (const [name, content] of Object.entries(files)) {
      yield* fs.makeDirectory(path.dirname(path.join(root, name)), { recursive: true })
      yield* fs.writeFileString(
        path.join(root, name),
        typeof content === "string" ? content : JSON.stringify(content, null, 2)
      )
    }
    return root
  })

const it_ = (
  name: string,
  files: Readonly<Record<string, unknown>>,
  test: (
    root: string
  ) => Effect.Effect<void, TaskSource.TaskSourceError | TaskSource.LoadedTasks, FileSystem.FileSystem | Path.Path>
) => it.scoped(name, () => Effect.flatMap(folder(files), test).pipe(Effect.provide(NodeContext.layer)))

const ids = (tasks: TaskSource.LoadedTasks) => tasks.map(({ row }) => row.taskId)
const indices = (tasks: TaskSource.LoadedTasks) => tasks.map(({ row }) => row.taskIndex)
const domains = (tasks: TaskSource.LoadedTasks) => tasks.map(({ row }) => row.domain)

/** The problems, with the folder's own name taken out. */
const problems = (root: string, patterns: ReadonlyArray<string>, options?: TaskSource.LoadOptions) =>
  Effect.map(Effect.flip(TaskSource.load(patterns, options)), ({ problems }) =>
    problems.map(({ source, path, message }) =>
      [source, path, message].map((text) => text.replaceAll(`${root}/`, "").replaceAll(root, "."))
    )
  )

describe("TaskSource.load", () => {
  it_("loads a task file", { "a.json": task("a", { extra: 1 }) }, (root) =>
    Effect.gen(function* () {
      const [loaded, ...more] = yield* TaskSource.load([`${root}/a.json`])
      assert.deepStrictEqual(more, [])
      assert.strictEqual(loaded?.source, `${root}/a.json`)
      assert.strictEqual(loaded?.task.id, "a")
      assert.deepInclude(loaded?.row, { taskIndex: 0, taskId: "a", instruction: "Do a" })
      // As its file had it, unknown keys and all.
      assert.deepStrictEqual(loaded?.row.task, task("a", { extra: 1 }))
    })
  )

  it.scoped("loads a folder by path, and says what it passes over", () =>
    Effect.gen(function* () {
      const root = yield* folder({
        "b.json": task("b"),
        "INDEX.json": [{ file: "b.json" }],
        "settings.json": { editor: {} },
        "nested/a.json": task("a"),
        "nested/deeper/c.json": task("c"),
        "notes.txt": "no task"
      })
      const logged: Array<string> = []
      const loaded = yield* TaskSource.load([root]).pipe(
        Effect.provide(
          Logger.replace(
            Logger.defaultLogger,
            Logger.make(({ message }) => void logged.push(String(message)))
          )
        )
      )
      assert.deepStrictEqual(
        loaded.map(({ source }) => source.slice(root.length + 1)),
        ["b.json", "nested/a.json", "nested/deeper/c.json"]
      )
      assert.deepStrictEqual(logged.map((line) => line.slice(root.length + 1)).sort(), [
        "INDEX.json: passed over, it is no task but an array",
        "settings.json: passed over, it is no task but an object without id, instruction and evaluator"
      ])
    }).pipe(Effect.provide(NodeContext.layer))
  )

  it_(
    "loads a glob by path, and the folders that it matches",
    { "os/b.json": task("b"), "os/a.json": task("a"), "vlc/c.json": task("c"), "vlc/d.txt": "" },
    (root) =>
      Effect.gen(function* () {
        assert.deepStrictEqual(ids(yield* TaskSource.load([`${root}/*/*.json`])), ["a", "b", "c"])
        assert.deepStrictEqual(ids(yield* TaskSource.load([`${root}/{os,vlc}`])), ["a", "b", "c"])
        assert.deepStrictEqual(ids(yield* TaskSource.load([`${root}/v*/**`])), ["c"])
      })
  )

  it_(
    "loads rows, with the task in either place, and honours their index",
    {
      "rows.jsonl": lines(
        row("a", { _ng_task_index: 7 }),
        "",
        { osworld_task: task("b"), _ng_task_index: 3 },
        {
          ...row("c"),
          verifier_metadata: null,
          osworld_task: task("c", { snapshot: "chrome" })
        }
      )
    },
    (root) =>
      Effect.gen(function* () {
        const loaded = yield* TaskSource.load([`${root}/rows.jsonl`])
        assert.deepStrictEqual(ids(loaded), ["a", "b", "c"])
        assert.deepStrictEqual(indices(loaded), [7, 3, 2])
        assert.deepStrictEqual(domains(loaded), ["gimp", "unknown", "chrome"])
        assert.strictEqual(loaded[1]?.source, `${root}/rows.jsonl:3`)
      })
  )

  it_(
    "loads an OSWorld index in its own order",
    {
      "test_all.json": { vlc: ["v"], os: ["b", "a"] },
      "examples/os/a.json": task("a"),
      "examples/os/b.json": task("b"),
      "examples/vlc/v.json": task("v"),
      "examples/vlc/w.json": task("w")
    },
    (root) =>
      Effect.gen(function* () {
        const loaded = yield* TaskSource.load([`${root}/test_all.json`])
        assert.deepStrictEqual(ids(loaded), ["v", "b", "a"])
        assert.deepStrictEqual(domains(loaded), ["vlc", "os", "os"])
        // In a folder the index says nothing that the folder does not.
        assert.deepStrictEqual(ids(yield* TaskSource.load([root])), ["a", "b", "v", "w"])
      })
  )

  it_(
    "takes the domain from a prefix, an OSWorld folder, or the snapshot",
    {
      "os/chrome__a.json": task("a", { snapshot: "gimp" }),
      "os/b.json": task("b", { snapshot: "gimp" }),
      "mine/c.json": task("c", { snapshot: "gimp" }),
      "mine/d.json": task("d")
    },
    (root) =>
      Effect.map(TaskSource.load([root]), (loaded) =>
        assert.deepStrictEqual(
          loaded.map(({ row }) => [row.taskId, row.domain]),
          [
            ["c", "gimp"],
            ["d", "unknown"],
            ["b", "os"],
            ["a", "chrome"]
          ]
        )
      )
  )

  it_(
    "does not renumber what it filters",
    { "os/a.json": task("a"), "vlc/b.json": task("b"), "vlc/c.json": task("c"), "vlc/d.json": task("d") },
    (root) =>
      Effect.gen(function* () {
        const loaded = yield* TaskSource.load([root], { domain: ["vlc"], limit: 2 })
        assert.deepStrictEqual(ids(loaded), ["b", "c"])
        assert.deepStrictEqual(indices(loaded), [1, 2])
      })
  )

  it_("loads a file once, however many patterns lead to it", { "b.json": task("b"), "a.json": task("a") }, (root) =>
    Effect.map(TaskSource.load([`${root}/b.json`, root, `${root}/*.json`]), (loaded) =>
      assert.deepStrictEqual(ids(loaded), ["b", "a"])
    )
  )

  it_(
    "tells all that is wrong, and where",
    {
      "broken.json": '{\n  "id": "x",\n  "instruction": oops\n}',
      "half.json": { id: "half", evaluator: task("half").evaluator },
      "check.json": task("check", { evaluator: { func: 3 } }),
      "good.json": task("good"),
      "rows.jsonl": lines(row("r"), "{", { verifier_metadata: {} }, row("s", { _ng_task_index: -1 }), {
        verifier_metadata: { osworld_task: { ...task("t"), instruction: 5 } }
      })
    },
    (root) =>
      Effect.gen(function* () {
        const found = yield* problems(root, [root, `${root}/rows.jsonl`, `${root}/nowhere.json`, `${root}/*.yaml`])
        const places = found.map(([source, path]) => [source, path])
        assert.deepStrictEqual(places, [
          ["broken.json", ""],
          ["check.json", "evaluator.func"],
          ["half.json", "instruction"],
          ["rows.jsonl:2", ""],
          ["rows.jsonl:3", ""],
          ["rows.jsonl:4", "_ng_task_index"],
          ["rows.jsonl:5", "verifier_metadata.osworld_task.instruction"],
          ["nowhere.json", ""],
          ["*.yaml", ""]
        ])
        const messages = found.map(([, , message = ""]) => message)
        assert.match(messages[0] ?? "", /^expected JSON: Unexpected token 'o' at line 3, column 18$/)
        assert.match(messages[1] ?? "", /Expected .* found 3/)
        assert.strictEqual(messages[4], "expected the task in verifier_metadata.osworld_task or in osworld_task")
        assert.match(messages[5] ?? "", /^Expected a non-negative number, found -1$/)
        assert.match(messages[6] ?? "", /Expected string, found 5/)
        assert.match(messages[7] ?? "", /there is no such file or folder/)
      })
  )

  it_(
    "shows 20 problems and counts the others",
    Object.fromEntries(Array.from({ length: 23 }, (_, index) => [`${index}.json`, "{"])),
    (root) =>
      Effect.map(Effect.flip(TaskSource.load([root])), ({ message, problems }) => {
        assert.strictEqual(problems.length, 23)
        assert.match(message, /^The tasks could not be loaded: 23 problems\n/)
        assert.strictEqual(message.split("\n").length, 22)
        assert.match(message, /\n {2}and 3 more$/)
      })
  )

  it_(
    "refuses a task id that two files have",
    { "a.json": task("same"), "b.json": task("other"), "c.json": task("same"), "rows.jsonl": lines(row("other")) },
    (root) =>
      Effect.map(problems(root, [root, `${root}/rows.jsonl`]), (found) =>
        assert.deepStrictEqual(found, [
          ["c.json", "", "the task id same is taken by a.json"],
          ["rows.jsonl:1", "", "the task id other is taken by b.json"]
        ])
      )
  )

  const names = {
    schema_version: 1 as const,
    rollout_id: "r",
    group_id: "g",
    task_id: "a",
    rollout_index: 2,
    attempt_index: 0
  }

  it_(
    "keeps the names and the purpose that rows give",
    {
      "rows.jsonl": lines(
        row("a", { _ng_rollout_id: "step1.s0", trajectory_identity: names, rollout_purpose: "training" }),
        row("b", { responses_create_params: { input: [], metadata: { nemo_rl_rollout_purpose: "evaluation" } } }),
        row("c", { _ng_rollout_id: null, trajectory_identity: null, rollout_purpose: null })
      )
    },
    (root) =>
      Effect.gen(function* () {
        const loaded = yield* TaskSource.load([`${root}/rows.jsonl`])
        assert.deepStrictEqual(
          loaded.map(({ row: { purpose, rolloutId, trajectory } }) => ({ purpose, rolloutId, trajectory })),
          [
            { purpose: "training", rolloutId: "step1.s0", trajectory: names },
            { purpose: "evaluation", rolloutId: undefined, trajectory: undefined },
            { purpose: undefined, rolloutId: undefined, trajectory: undefined }
          ]
        )
      })
  )

  it_(
    "takes several rows of one task, each for a rollout of its own",
    {
      "rows.jsonl": lines(
        row("a", { _ng_task_index: 4, _ng_rollout_index: 0, _ng_rollout_id: "p4.s0" }),
        row("a", { _ng_task_index: 4, _ng_rollout_index: 1, _ng_rollout_id: "p4.s1", _ng_attempt_index: 3 }),
        row("a", { _ng_task_index: 4, trajectory_identity: { ...names, attempt_index: 1 } }),
        row("b", { _ng_task_index: 2 })
      )
    },
    (root) =>
      Effect.gen(function* () {
        const loaded = yield* TaskSource.load([`${root}/rows.jsonl`])
        assert.deepStrictEqual(
          loaded.map(({ row: { attemptIndex, rolloutIndex, taskIndex } }) => [taskIndex, rolloutIndex, attemptIndex]),
          [
            [4, 0, undefined],
            [4, 1, 3],
            [4, 2, 1],
            [2, undefined, undefined]
          ]
        )
      })
  )

  it_(
    "refuses a rollout that two rows are for, and an index of two tasks",
    {
      "same.jsonl": lines(row("a", { _ng_rollout_index: 1 }), row("a", { _ng_rollout_index: 1 })),
      "zero.jsonl": lines(row("a", { _ng_task_index: 0 }), row("a", { _ng_task_index: 0, _ng_rollout_index: 0 })),
      "two.jsonl": lines(
        row("a", { _ng_task_index: 4, _ng_rollout_index: 1 }),
        row("b", { _ng_task_index: 4, _ng_rollout_index: 0 })
      )
    },
    (root) =>
      Effect.gen(function* () {
        assert.deepStrictEqual(yield* problems(root, [`${root}/same.jsonl`]), [
          ["same.jsonl:2", "", "the task id a is taken by same.jsonl:1"]
        ])
        assert.deepStrictEqual(yield* problems(root, [`${root}/zero.jsonl`]), [
          ["zero.jsonl:2", "", "the rollout id 0-0 is the one of zero.jsonl:1"]
        ])
        assert.deepStrictEqual(yield* problems(root, [`${root}/two.jsonl`]), [
          ["two.jsonl:2", "", "the _ng_task_index 4 is taken by two.jsonl:1; give one to every row or to none"]
        ])
      })
  )

  it_(
    "refuses names that cannot be kept and purposes that disagree",
    {
      "rows.jsonl": lines(
        row("a", { _ng_rollout_id: "a/b" }),
        row("b", { trajectory_identity: names }),
        row("c", {
          rollout_purpose: "training",
          responses_create_params: { metadata: { nemo_rl_rollout_purpose: "evaluation" } }
        }),
        row("d", { responses_create_params: { metadata: { nemo_rl_rollout_purpose: "fun" } } })
      )
    },
    (root) =>
      Effect.map(problems(root, [`${root}/rows.jsonl`]), (found) =>
        assert.deepStrictEqual(
          found.map(([source, path]) => [source, path]),
          [
            ["rows.jsonl:1", "_ng_rollout_id"],
            ["rows.jsonl:2", "trajectory_identity.task_id"],
            ["rows.jsonl:3", "rollout_purpose"],
            ["rows.jsonl:4", "responses_create_params.metadata.nemo_rl_rollout_purpose"]
          ]
        )
      )
  )

  it_(
    "refuses a rollout id that another row has, also one that follows from its index",
    {
      "rows.jsonl": lines(
        row("a", { _ng_rollout_id: "x" }),
        row("b", { _ng_rollout_id: "x" }),
        row("c", { _ng_rollout_id: "3-0" }),
        row("d")
      )
    },
    (root) =>
      Effect.map(problems(root, [`${root}/rows.jsonl`]), (found) =>
        assert.deepStrictEqual(found, [
          ["rows.jsonl:2", "", "the rollout id x is the one of rows.jsonl:1"],
          ["rows.jsonl:4", "", "the rollout id 3-0 is the one of rows.jsonl:3"]
        ])
      )
  )

  it_(
    "refuses an index that two rows have",
    { "rows.jsonl": lines(row("a", { _ng_task_index: 1 }), row("b")) },
    (root) =>
      Effect.map(problems(root, [`${root}/rows.jsonl`]), (found) =>
        assert.deepStrictEqual(found, [
          ["rows.jsonl:2", "", "the _ng_task_index 1 is taken by rows.jsonl:1; give one to every row or to none"]
        ])
      )
  )

  it_(
    "names a task that an index has and the folder has not",
    { "test.json": { os: ["a", "gone"] }, "examples/os/a.json": task("a") },
    (root) =>
      Effect.map(problems(root, [`${root}/test.json`]), (found) =>
        assert.deepStrictEqual(found, [["examples/os/gone.json", "", "there is no such file; test.json names it"]])
      )
  )

  it_(
    "says what it looked for when it finds none",
    { "none/readme.txt": "", "other/INDEX.json": [], "empty.jsonl": "\n", "os/a.json": task("a") },
    (root) =>
      Effect.gen(function* () {
        assert.deepStrictEqual(yield* problems(root, [`${root}/none`]), [
          ["none", "", "expected task files (*.json) in this folder or below it, found none"]
        ])
        assert.deepStrictEqual(yield* problems(root, [`${root}/other`]), [
          ["other", "", "expected tasks, found none in 1 JSON file"]
        ])
        assert.deepStrictEqual(yield* problems(root, [`${root}/empty.jsonl`]), [
          ["empty.jsonl", "", "expected a row on each line; the file is empty"]
        ])
        assert.deepStrictEqual(yield* problems(root, [`${root}/os`], { domain: ["vlc", "gimp"] }), [
          ["os", "", "none of 1 tasks is of the domain vlc or gimp; there are: os"]
        ])
        assert.deepStrictEqual(yield* problems(root, []), [
          ["(no pattern)", "", "expected at least one task, found none"]
        ])
        // A file that is named outright is asked for in earnest.
        const [[, , message = ""] = []] = yield* problems(root, [`${root}/other/INDEX.json`])
        assert.match(message, /^expected a task .* found an array$/)
      })
  )

  const published = fileURLToPath(new URL("../../../shared/osworld-tasks", import.meta.url))
  it.effect.skipIf(!existsSync(published))(
    `loads the 40 published tasks${existsSync(published) ? "" : ` (skipped: ${published} is not there)`}`,
    () =>
      Effect.gen(function* () {
        const loaded = yield* TaskSource.load([published])
        const index: ReadonlyArray<{ readonly id: string; readonly domain: string }> = JSON.parse(
          readFileSync(`${published}/INDEX.json`, "utf8")
        )
        assert.strictEqual(loaded.length, 40)
        assert.deepStrictEqual(
          indices(loaded),
          Array.from({ length: 40 }, (_, position) => position)
        )
        assert.deepStrictEqual(
          Object.fromEntries(loaded.map(({ row }) => [row.taskId, row.domain])),
          Object.fromEntries(index.map(({ id, domain }) => [id, domain]))
        )
      }).pipe(Effect.provide(NodeContext.layer))
  )
})
