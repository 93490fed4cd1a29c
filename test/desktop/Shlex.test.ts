import { execFileSync } from "node:child_process"
import { assert, describe, it } from "@effect/vitest"
import * as Either from "effect/Either"
import * as FastCheck from "effect/FastCheck"
import * as CommandLine from "../../src/desktop/guest/CommandLine.js"
import * as Shlex from "../../src/desktop/guest/Shlex.js"

const word = FastCheck.string({ unit: FastCheck.constantFrom(..."ab \t\n'\"\\$é漢😀") })

describe("Shlex", () => {
  it.prop("reads back the words that were quoted", [FastCheck.array(word)], ([words]) => {
    assert.deepStrictEqual(Shlex.split(words.map(Shlex.quote).join(" ")), Either.right(words))
  })

  it("splits as Python's shlex does, and refuses what it refuses", () => {
    const lines = FastCheck.sample(word, { numRuns: 2000, seed: 7 })
    const program = `
import json, shlex, sys
def split(line):
    try:
        return shlex.split(line)
    except ValueError:
        return None
print(json.dumps([split(line) for line in json.load(sys.stdin)]))`
    const answers: unknown = JSON.parse(
      execFileSync("/usr/bin/python3", ["-c", program], { input: JSON.stringify(lines), encoding: "utf8" })
    )
    assert.deepStrictEqual(
      lines.map((line) => Either.getOrElse(Shlex.split(line), () => null)),
      answers
    )
  })
})

describe("CommandLine", () => {
  const parse = (command: string | ReadonlyArray<string>, shell: boolean | string) =>
    CommandLine.parse({ command, shell }, "/home/user")

  it("splits text, expands the home folder in lists, and gives text to a shell", () => {
    assert.deepStrictEqual(parse("echo 'a b' c", false), Either.right(["echo", "a b", "c"]))
    assert.deepStrictEqual(parse(["cat", "~/a", "x~/b"], false), Either.right(["cat", "/home/user/a", "x~/b"]))
    assert.deepStrictEqual(parse("ls | wc", true), Either.right(["/bin/sh", "-c", "ls | wc"]))
    assert.deepStrictEqual(parse("ls | wc", "true"), Either.right(["/bin/sh", "-c", "ls | wc"]))
  })

  it("runs only the first word of a list in a shell, as the official server does", () => {
    assert.deepStrictEqual(parse(["echo $0", "b"], true), Either.right(["/bin/sh", "-c", "echo $0", "b"]))
  })

  it("refuses what cannot be run", () => {
    for (const command of ["", [], [""], "a\0b", ["a\0b"], "'a"]) assert.isTrue(Either.isLeft(parse(command, false)))
  })

  it("replaces ~ and known variables in paths", () => {
    const expand = (path: string) => CommandLine.expandPath(path, { A: "x" }, "/home/user")
    assert.strictEqual(expand(["~/$A/", "{A}b/$B"].join("$")), "/home/user/x/xb/$B")
    assert.strictEqual(expand("~"), "/home/user")
    assert.strictEqual(expand("a~b"), "a~b")
  })
})
