import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { createServer } from "node:net"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { assert, describe, it } from "@effect/vitest"
import { inProcess } from "./inProcess.js"

const refused = async (args: ReadonlyArray<string>, ...texts: ReadonlyArray<string>) => {
  const { status, stderr } = await inProcess(args)
  assert.strictEqual(status, 2, stderr)
  for (const text of texts) assert.include(stderr, text)
}

describe("arguments", () => {
  it("tell an option that nobody knows from one that cannot be read", async () => {
    await refused(["run", "--limt", "3"], "there is no option --limt")
    await refused(["run", "--max-steps", "2", "--max-steps", "3"], "--max-steps is given twice")
    await refused(["run", "--repeats=2", "--repeats=3"], "--repeats is given twice")
    await refused(["run", "--dry-run", "--dry-run"], "--dry-run is given twice")
    await refused(["run", "--dry-run", "--concurrency"], "--concurrency wants a value")
    await refused(["run", "--concurrency", "--max-steps", "2"], "--concurrency wants a value")
    await refused(["run", "--domain", "--dry-run"], "--domain wants a value")
    await refused(["doctor", "--provider"], "--provider wants a value")
    await refused(["tasks", "--format", "json", "--format", "json"], "--format is given twice")
  })

  it("name a model only where there is one", async () => {
    await refused(["run", "--dry-run", "--model", "m"], "model-url is missing: --model is for a model", "--model-url")
    await refused(
      ["run", "--dry-run", "--api-key-env", "KEY", "--temperature", "0.5"],
      "--api-key-env, --temperature are for a model"
    )
    const replayed = await inProcess(["run", "--dry-run", "--limit", "1"])
    assert.strictEqual(replayed.status, 0, replayed.stderr)
    assert.include(replayed.stderr, "No model was given: the recorded solutions of the tasks are replayed")
    const control = await inProcess(["run", "--dry-run", "--limit", "1", "--agent", "noop"])
    assert.strictEqual(control.status, 0, control.stderr)
    assert.notInclude(control.stderr, "No model was given")
  })

  it("take only ports that there are, and say what to do where one is taken", async () => {
    for (const command of ["gateway", "serve", "serve-e2b"]) {
      for (const port of ["99999", "-1", "8.5"]) {
        assert.strictEqual((await inProcess([command, "--port", port])).status, 2)
      }
    }
    const taken = createServer()
    await new Promise<void>((resolve) => taken.listen(0, "127.0.0.1", resolve))
    const address = taken.address()
    const port = typeof address === "object" && address !== null ? String(address.port) : ""
    const out = mkdtempSync(join(tmpdir(), "dh-port-"))
    try {
      for (const args of [
        ["gateway", "--upstream", "http://127.0.0.1:9/v1"],
        ["serve", "--out", out],
        ["serve-e2b", "--provider", "local"]
      ]) {
        await refused([...args, "--port", port], "EADDRINUSE", "Give it another --port, or none for a free one")
      }
    } finally {
      taken.close()
      rmSync(out, { recursive: true, force: true })
    }
  })

  it("name the environment variable that a provider cannot do without", async () => {
    for (const [provider, variable] of [
      ["opensandbox", "OPENSANDBOX_BASE_URL"],
      ["e2b", "E2B_API_KEY"]
    ] as const) {
      for (const args of [["doctor"], ["run", "--agent", "noop", "--limit", "1"]]) {
        const message = `the environment variable ${variable} is not set: give the `
        await refused([...args, "--provider", provider], message)
      }
    }
  })

  it("are told wrong in a line, and never by a schema", async () => {
    const folder = mkdtempSync(join(tmpdir(), "dh-arguments-"))
    const task = join(folder, "task.json")
    const broken = join(folder, "broken.json")
    writeFileSync(task, '{"id": "x"}')
    writeFileSync(broken, "{")
    try {
      for (const [args, ...texts] of [
        [
          ["run", "--contract", task],
          `--contract names ${task}, which is not what --print-contract writes: id: is unknown; there are schema_version`
        ],
        [["run", "--contract", broken], `--contract names ${broken}, which is no JSON`],
        [["run", "--failures", "{x"], "--failures is no JSON: {x"],
        [["run", "--failures", "5"], "--failures must be an object, and is 5"],
        [
          ["run", "--failures", '{"model":{"inRun":0},"foo":1}'],
          "failures.foo in --failures is unknown; there are infrastructure, model",
          "failures.model.inRun in --failures Expected a positive number, found 0"
        ],
        [
          ["run", "--agent", "prompt:foo=1"],
          "the agent prompt cannot be had with these options: foo: is unknown; there are observation, action_space"
        ],
        [["history", "--policy", "fixed:3", "--turns", "0"], "--turns must be a whole number from 1, and is 0"],
        [["history", "--policy", "fixed:3", "--turns", "x"], "--turns must be a whole number from 1, and is x"],
        [["serve", "--session-ttl", "3"], "--session-ttl must be a whole number from 60, and is 3"],
        [["gateway", "--port", "70000"], "--port must be a whole number from 0 to 65535, and is 70000"]
      ] as const) {
        const { status, stderr, stdout } = await inProcess(args)
        const told = stderr + stdout
        assert.strictEqual(status, 2, told)
        for (const text of texts) assert.include(told, text)
        assert.notMatch(told, /readonly|└─|<->/)
      }
    } finally {
      rmSync(folder, { recursive: true, force: true })
    }
  })

  it("name desktops elsewhere that are not there, before anything is started", async () => {
    const run = ["run", "--agent", "noop", "--limit", "1", "--environment-url"]
    await refused(
      [...run, "http://127.0.0.1:9"],
      "--environment-url: http://127.0.0.1:9 gave no answer: connect ECONNREFUSED",
      "Check the address, and that deskhand serve runs there"
    )
  })

  it("name a folder of assets that is none", async () => {
    const run = ["run", "--agent", "noop", "--limit", "1", "--assets"]
    await refused([...run, "/no/such/folder"], "--assets names /no/such/folder, which does not exist", "prepare")
    await refused([...run, "/etc/hostname"], "--assets names /etc/hostname, which is no folder")
  })
})
