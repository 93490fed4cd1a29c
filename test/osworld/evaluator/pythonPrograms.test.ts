import { execFile } from "node:child_process"
import { cp, mkdir, readdir, rm } from "node:fs/promises"
import * as path from "node:path"
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import type { CommandResult, Guest } from "../../../src/desktop/Guest.js"
import { GuestError } from "../../../src/desktop/GuestError.js"
import * as GuestPython from "../../../src/osworld/evaluator/internal/guestPython.js"
import * as PythonJudge from "../../../src/osworld/evaluator/internal/pythonJudge.js"
import { Value } from "../../../src/osworld/evaluator/Metric.js"
import * as Programs from "../../../src/osworld/evaluator/pythonPrograms.js"
import { guestOf } from "./chromeSupport.js"
import { file, judge, missing, written } from "./support.js"

/** A guest that is this machine: what runs in it here is ours. */
const machine = (seen: { folder?: string } = {}): Guest =>
  guestOf({
    writeFile: (place, source) =>
      Effect.promise(async () => {
        assert.isString(source)
        seen.folder = path.dirname(place)
        await mkdir(seen.folder, { recursive: true })
        await cp(String(source), place)
      }),
    execute: ({ command }) =>
      Effect.promise(async () => {
        assert.deepStrictEqual(command.slice(0, 3), ["rm", "-rf", "--"])
        const folder = String(command[3])
        assert.match(folder, /^\/tmp\/deskhand-judge-[0-9a-f]{16}$/)
        await rm(folder, { recursive: true, force: true })
        return { stdout: "", stderr: "", exitCode: 0 }
      }),
    runPython: (code) =>
      Effect.async<CommandResult>((resume) => {
        execFile("python3", ["-c", code], (error, stdout, stderr) =>
          resume(Effect.succeed({ stdout, stderr, exitCode: error === null ? 0 : 1 }))
        )
      })
  })

const runPython = GuestPython.make(machine())

const suite = "import block\n\ndef test():\n    return block.rotate([1, 2]) == [2, 1]\n"
const right = "def rotate(cells):\n    return cells[::-1]\n"

const run = (
  files: Record<string, string>,
  gold = suite,
  options: Record<string, unknown> = {},
  run: typeof runPython | undefined = runPython
) =>
  Effect.gen(function* () {
    const agent = yield* written(files)
    const task = yield* written({ "test_suite.py": gold })
    const [first = ""] = Object.keys(files)
    return yield* judge(Programs.checkPythonFileByTestSuite, file(agent(first)), file(task("test_suite.py")), options, {
      runPython: run
    })
  }).pipe(Effect.scoped)

describe("check_python_file_by_test_suite", () => {
  it.effect("what the function gives is the score", () =>
    Effect.gen(function* () {
      assert.strictEqual(yield* run({ "block.py": right }), 1)
      assert.strictEqual(yield* run({ "block.py": "def rotate(cells):\n    return cells\n" }), 0)
      // The metric is given one file of several, and the others lie beside it.
      assert.strictEqual(yield* run({ "main.py": "", "block.py": right }), 1)
      const grade = "def grade():\n    return 0.25\n\ndef much():\n    return 7\n\ndef some():\n    return 'yes'\n"
      assert.strictEqual(yield* run({ "block.py": right }, grade, { test_function_name: "grade" }), 0.25)
      assert.strictEqual(yield* run({ "block.py": right }, grade, { test_function_name: "much" }), 1)
      assert.strictEqual(yield* run({ "block.py": right }, grade, { test_function_name: "some" }), 1)
    })
  )

  it.effect("whatever an agent's program does, it judges nothing", () =>
    Effect.gen(function* () {
      for (const source of [
        "def rotate(:",
        "raise SystemExit(0)",
        "import os\nos._exit(0)",
        "import os\nos.kill(os.getppid(), 0)\nos.abort()",
        "print('{\"score\": 1.0}', flush=True)\nraise ValueError",
        "import os\nfor fd in range(3, 10):\n    try:\n        os.write(fd, b'x' * 100)\n    except OSError:\n        pass\n",
        "while True:\n    raise KeyboardInterrupt",
        "with open('test_suite.py', 'w') as file:\n    file.write('')\nraise ValueError"
      ]) {
        assert.strictEqual(yield* run({ "block.py": source }), 0, source)
      }
      // A file called as a module of Python's does not become a part of the judgement.
      const shadow = "raise SystemExit(3)"
      assert.strictEqual(
        yield* run({
          "block.py": right,
          "json.py": shadow,
          "ast.py": shadow,
          "subprocess.py": shadow,
          "os.py": shadow
        }),
        1
      )
      assert.strictEqual(yield* run({ "test_suite.py": "def test():\n    return True\n", "block.py": "" }), 0)
    })
  )

  it.effect("a program that does not end is stopped, and what it started with it", () =>
    Effect.gen(function* () {
      const endless = "import subprocess, time\nsubprocess.Popen(['sleep', '8642'])\ntime.sleep(8642)\n"
      const at = yield* written({ "block.py": endless, "test_suite.py": suite })
      const files = ["block.py", "test_suite.py"].map((name) => ({ name, path: at(name) }))
      const { stdout } = yield* runPython({ files, code: PythonJudge.testSuite("test_suite.py", "test", 1) })
      assert.strictEqual(stdout, '{"score": 0.0}\n')
      const alive = yield* Effect.promise(
        () => new Promise<string>((resolve) => execFile("pgrep", ["-f", "sleep 8642"], (_, stdout) => resolve(stdout)))
      )
      assert.strictEqual(alive, "")
    }).pipe(Effect.scoped)
  )

  it.effect("gold that is no test, and a desktop that is none, judge nobody", () =>
    Effect.gen(function* () {
      assert.include(yield* run({ "block.py": right }, "def test(:"), "the gold file is no Python")
      assert.include(yield* run({ "block.py": right }, suite, { test_function_name: "grade" }), "has no function grade")
      assert.include(yield* run({ "block.py": right }, suite, {}, () => Effect.fail({ message: "gone" })), "gone")
      const silent = () => Effect.succeed({ exitCode: 127, stdout: "", stderr: "python3: not found" })
      assert.include(yield* run({ "block.py": right }, suite, {}, silent), "python3: not found")
      const at = yield* written({ "block.py": right, "test_suite.py": suite })
      const [result, gold] = [file(at("block.py")), file(at("test_suite.py"))]
      assert.include(yield* judge(Programs.checkPythonFileByTestSuite, result, gold), "in a desktop only")
      assert.strictEqual(yield* judge(Programs.checkPythonFileByTestSuite, missing, gold, {}, { runPython }), 0)
      assert.include(
        yield* judge(Programs.checkPythonFileByTestSuite, result, missing, {}, { runPython }),
        "expected value"
      )
      assert.include(
        yield* judge(Programs.checkPythonFileByTestSuite, result, Value.Text({ text: suite }), {}, { runPython }),
        "a file is needed"
      )
    }).pipe(Effect.scoped)
  )
})

describe("check_python_file_by_gold_file", () => {
  const compare = (program: string, gold: string) =>
    Effect.gen(function* () {
      const agent = yield* written({ "main.py": program })
      const task = yield* written({ "main.py": gold })
      const [result, expected] = [file(agent("main.py")), file(task("main.py"))]
      return yield* judge(Programs.checkPythonFileByGoldFile, result, expected, {}, { runPython })
    }).pipe(Effect.scoped)

  it.effect("prints the same", () =>
    Effect.gen(function* () {
      assert.strictEqual(yield* compare("print(6 * 7)", "print('42')"), 1)
      assert.strictEqual(yield* compare("print(6 * 9)", "print('42')"), 0)
      assert.strictEqual(yield* compare("print(42)\nraise ValueError", "print(42)"), 0)
      assert.strictEqual(yield* compare("while True: print('a' * 1000)", "print(42)"), 0)
      assert.strictEqual(yield* compare("import os\nprint(open('deskhand_gold.py').read())", "print(42)"), 0)
      assert.include(yield* compare("print(42)", "raise ValueError"), "the gold file fails")
      assert.include(yield* compare("print(42)", "print("), "the gold file is no Python")
    })
  )
})

describe("guestPython", () => {
  it.effect("leaves nothing behind, and no two calls meet", () =>
    Effect.gen(function* () {
      const at = yield* written({ a: "content" })
      const seen: { folder?: string } = {}
      const run = GuestPython.make(machine(seen))
      const folders: Array<string | undefined> = []
      for (const _ of [0, 1]) {
        const code = "print(os.getcwd(), sorted(os.listdir()), open('a').read())"
        const { exitCode, stderr, stdout } = yield* run({ files: [{ name: "../../a", path: at("a") }], code })
        assert.strictEqual(exitCode, 0, stderr)
        assert.strictEqual(stdout, `${seen.folder} ['a'] content\n`)
        folders.push(seen.folder)
      }
      assert.notStrictEqual(folders[0], folders[1])
      for (const folder of folders) {
        const left = yield* Effect.promise(() => readdir(folder ?? "").catch(() => []))
        assert.deepStrictEqual(left, [])
      }
    }).pipe(Effect.scoped)
  )

  it.effect("cleans up after a failure, and a clean-up that fails hides nothing", () =>
    Effect.gen(function* () {
      const gone = new GuestError({ operation: "x", reason: { _tag: "Unreachable", detail: "gone" } })
      let cleaned = 0
      const run = GuestPython.make({
        ...machine(),
        runPython: () => Effect.fail(gone),
        execute: () => {
          cleaned++
          return Effect.fail(gone)
        }
      })
      const error = yield* Effect.flip(run({ files: [], code: "" }))
      assert.strictEqual(error.message, gone.message)
      assert.strictEqual(cleaned, 1)
    })
  )
})
