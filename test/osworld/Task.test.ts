import { existsSync, readdirSync, readFileSync } from "node:fs"
import { fileURLToPath } from "node:url"
import { assert, describe, it } from "@effect/vitest"
import * as Either from "effect/Either"
import * as Schema from "effect/Schema"
import { requiredCommands } from "../../src/osworld/RequiredCommands.js"
import * as Task from "../../src/osworld/Task.js"

const base = {
  id: "00000000-0000-4000-8000-000000000000",
  snapshot: "chrome",
  instruction: "Do it",
  config: [{ type: "sleep", parameters: { seconds: 0.5 } }],
  related_apps: ["chrome"],
  evaluator: { func: "exact_match", result: { type: "vm_command_line", command: ["ls"], shell: "true" } },
  proxy: false
}

const decode = (json: unknown) => Either.getOrThrowWith(Task.decode(json, "task.json"), (error) => error)

const checksOf = (evaluator: unknown) => {
  const decoded = decode({ ...base, evaluator }).evaluator
  return decoded._tag === "Checks" ? decoded : assert.fail("not Checks")
}

const complaint = (change: object) =>
  Either.getOrThrow(Either.flip(Task.decode({ ...base, ...change }, "task.json"))).message

describe("Task", () => {
  it("decodes, with defaults, and keeps the JSON", () => {
    const json = { ...base, hint: "kept" }
    const task = decode(json)
    assert.instanceOf(task, Task.Task)
    assert.isFalse(task.fixedIp)
    assert.deepStrictEqual(task.relatedApps, ["chrome"])
    assert.strictEqual(task.raw, json)
    assert.strictEqual(Schema.encodeSync(Task.TaskFromJson)(task), json)
  })

  it("reads every step's parameters", () => {
    const parameters = (type: string, json: unknown) =>
      decode({ ...base, config: [{ type, parameters: json }] }).config[0]?.parameters
    assert.deepStrictEqual(parameters("execute", { command: "ls" }), { command: "ls", shell: false })
    for (const [json, shell] of [
      ["true", true],
      ["false", false],
      [true, true],
      [null, false]
    ] as const) {
      assert.deepStrictEqual(parameters("launch", { command: ["a", "b"], shell: json }), { command: ["a", "b"], shell })
    }
    const until = { returncode: 0, stdout: "ok" }
    assert.deepStrictEqual(parameters("command", { command: "x", stdout: "out.txt", until }), {
      command: "x",
      shell: false,
      stdout: "out.txt",
      until
    })
    assert.deepStrictEqual(parameters("activate_window", { window_name: "w", strict: true }), {
      windowName: "w",
      strict: true,
      byClass: false
    })
    assert.deepStrictEqual(parameters("close_window", { window_name: "w", by_class: true }), {
      windowName: "w",
      strict: false,
      byClass: true
    })
    assert.deepStrictEqual(
      parameters("execute_with_verification", { command: "x", verification: { window_exists: "w" } }),
      {
        command: "x",
        shell: false,
        verification: { windowExists: "w" },
        maxWaitTime: 10,
        checkInterval: 1
      }
    )
    assert.deepStrictEqual(parameters("chrome_open_tabs", { urls_to_open: ["u"] }), { urlsToOpen: ["u"] })
    assert.deepStrictEqual(parameters("chrome_close_tabs", { urls_to_close: ["u"] }), { urlsToClose: ["u"] })
    assert.deepStrictEqual(parameters("upload_file", { files: [{ local_path: "a", path: "b" }] }), {
      files: [{ localPath: "a", path: "b" }]
    })
    const visit = { url: "u", title: "t", visit_time_from_now_in_seconds: 60 }
    assert.deepStrictEqual(parameters("update_browse_history", { history: [visit] }), {
      history: [{ url: "u", title: "t", visitTimeFromNow: 60 }]
    })
    assert.deepStrictEqual(parameters("googledrive", { settings_file: "s", operation: ["delete"], args: [{}] }), {
      settingsFile: "s",
      operation: ["delete"],
      args: [{}]
    })
    assert.deepStrictEqual(parameters("login", { settings_file: "s", platform: "googledrive" }), {
      settingsFile: "s",
      platform: "googledrive"
    })
    assert.deepStrictEqual(parameters("change_wallpaper", { path: "p" }), { path: "p" })
    assert.deepStrictEqual(parameters("proxy", {}), {})
  })

  it("makes one check of a single metric, and one of each in lists", () => {
    const single = checksOf(base.evaluator)
    assert.strictEqual(single.conj, "and")
    assert.deepStrictEqual(single.checks, [
      {
        metric: "exact_match",
        result: { type: "vm_command_line", parameters: { command: ["ls"], shell: "true" } },
        expected: undefined,
        options: {}
      }
    ])
    const [a, b] = [
      { type: "vm_file", path: "a" },
      { type: "rule", rules: {} }
    ]
    const listed = checksOf({
      func: ["m", "n"],
      conj: "or",
      result: [a, a],
      expected: [b, null],
      options: [null, { strict: false }]
    })
    assert.strictEqual(listed.conj, "or")
    assert.deepStrictEqual(
      listed.checks.map(({ expected, metric, options }) => [metric, expected?.type, options]),
      [
        ["m", "rule", {}],
        ["n", undefined, { strict: false }]
      ]
    )
  })

  it("infeasible is a case of its own", () => {
    const { evaluator } = decode({ ...base, evaluator: { func: "infeasible" } })
    assert.deepStrictEqual(evaluator, { _tag: "Infeasible", postconfig: [] })
  })

  it("says where a file is wrong, what was expected and what was found", () => {
    const getter = { type: "vm_file" }
    const evaluator = (change: object) => ({ evaluator: { ...base.evaluator, ...change } })
    const listed = { func: ["m", "n"], result: [getter, getter] }

    assert.strictEqual(
      complaint({ instruction: undefined }),
      "task.json: instruction: Expected string, found undefined"
    )
    assert.strictEqual(
      complaint(evaluator({ ...listed, result: [getter, { type: 5 }] })),
      "task.json: evaluator.result[1].type: Expected string, found 5"
    )
    assert.strictEqual(complaint(evaluator({ result: {} })), "task.json: evaluator.result.type: is missing")
    assert.strictEqual(
      complaint(evaluator({ ...listed, result: [getter] })),
      "task.json: evaluator.result: Expected a list of 2, because func is a list of 2, found a list of 1"
    )
    assert.strictEqual(
      complaint(evaluator({ ...listed, expected: [getter, getter, getter] })),
      "task.json: evaluator.expected: Expected a list of 2, because func is a list of 2, found a list of 3"
    )
    assert.strictEqual(
      complaint(evaluator({ ...listed, options: { strict: true } })),
      "task.json: evaluator.options: Expected a list of 2, because func is a list of 2, found no list"
    )
    assert.strictEqual(
      complaint(evaluator({ conj: "xor" })),
      'task.json: evaluator.conj: Expected "and" or "or", found "xor"'
    )
    assert.include(complaint(evaluator({ func: ["infeasible", "m"] })), "evaluator.func: ")
    assert.strictEqual(
      complaint({ config: [base.config[0], { type: "launch", parameters: { command: 7 } }] }),
      "task.json: config[1].parameters.command: Expected string or a non-empty list of strings, found 7"
    )
    assert.strictEqual(
      complaint(evaluator({ postconfig: [{ type: "sleep", parameters: { seconds: -1 } }] })),
      "task.json: evaluator.postconfig[0].parameters.seconds: Expected a non-negative number, found -1"
    )
    const unknown = complaint({ config: [{ type: "launhc", parameters: {} }] })
    assert.match(unknown, /^task\.json: config\[0\]\.type: Expected "execute" \| .*"launch" \| .*, found "launhc"$/)
    // Several mistakes, several places.
    assert.strictEqual(
      complaint({ id: 1, ...evaluator({ conj: 1 }) }),
      'task.json: id: Expected string, found 1; evaluator.conj: Expected "and" or "or", found 1'
    )
    assert.match(
      Either.getOrThrow(Either.flip(Task.decode([], "list.json"))).message,
      /^list\.json: \(top level\): Expected /
    )
  })

  it("lists the programs that steps start", () => {
    const commands = (...config: ReadonlyArray<unknown>) =>
      Array.from(requiredCommands(decode({ ...base, config })).commands)
    const launch = (command: unknown, shell?: unknown) => ({
      type: "launch",
      parameters: { command, shell: shell ?? false }
    })
    assert.deepStrictEqual(commands(launch(["google-chrome", "--x"]), launch(["socat", "a"]), launch(["socat", "b"])), [
      "google-chrome",
      "socat"
    ])
    assert.deepStrictEqual(commands(launch("nautilus /home/user; ls")), ["nautilus"])
    assert.deepStrictEqual(commands(launch("A=1 vlc --x '/a b; c' && cd /tmp && ls -l | grep \"x y\" > out", "true")), [
      "vlc",
      "ls",
      "grep"
    ])
    assert.deepStrictEqual(commands(launch(["if true; then code .; fi", "ignored"], true)), ["code"])
    const { commands: after, relatedApps } = requiredCommands(
      decode({ ...base, evaluator: { func: "infeasible", postconfig: [launch(["pkill", "chrome"])] } })
    )
    assert.deepStrictEqual([...after, ...relatedApps], ["pkill", "chrome"])
  })
})

// Upstream's own files; they are not part of this repository.
const folder = process.env.OSWORLD_TASKS ?? fileURLToPath(new URL("../../../shared/osworld-tasks", import.meta.url))
const title = "published task files"

describe.skipIf(!existsSync(`${folder}/INDEX.json`))(
  existsSync(`${folder}/INDEX.json`) ? title : `${title} (skipped: no ${folder}/INDEX.json; set OSWORLD_TASKS)`,
  () => {
    interface Entry {
      readonly file: string
      readonly id: string
      readonly func: string | ReadonlyArray<string>
      readonly conj: string | null
      readonly result: ReadonlyArray<string>
      readonly expected: ReadonlyArray<string>
      readonly config: ReadonlyArray<string>
      readonly postconfig: ReadonlyArray<string>
      readonly proxy: boolean
    }
    const read = (name: string): unknown => JSON.parse(readFileSync(`${folder}/${name}`, "utf8"))

    it("all decode to what INDEX.json says of them", () => {
      const index = read("INDEX.json") as ReadonlyArray<Entry>
      const files = readdirSync(folder).filter((name) => name.endsWith(".json") && name !== "INDEX.json")
      assert.strictEqual(index.length, 40)
      assert.sameMembers(
        index.map(({ file }) => file),
        files
      )
      for (const entry of index) {
        const task = Either.getOrThrowWith(Task.decode(read(entry.file), entry.file), (error) => error)
        const { evaluator } = task
        const checks = evaluator._tag === "Checks" ? evaluator.checks : []
        const found = {
          id: task.id,
          func: checks.length === 0 ? ["infeasible"] : checks.map(({ metric }) => metric),
          conj: evaluator._tag === "Checks" ? evaluator.conj : "and",
          result: checks.map(({ result }) => result.type),
          expected: checks.flatMap(({ expected }) => expected?.type ?? []),
          config: task.config.map(({ type }) => type),
          postconfig: evaluator.postconfig.map(({ type }) => type),
          proxy: task.proxy
        }
        assert.deepStrictEqual(
          found,
          {
            id: entry.id,
            func: typeof entry.func === "string" ? [entry.func] : [...entry.func],
            conj: entry.conj === "or" ? "or" : "and",
            result: [...entry.result],
            expected: [...entry.expected],
            config: [...entry.config],
            postconfig: [...entry.postconfig],
            proxy: entry.proxy
          },
          entry.file
        )
      }
    })
  }
)
