import { mkdirSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { afterAll, assert, beforeAll, describe, it } from "@effect/vitest"
import { type Ended, root, Workplace } from "./harness.js"

const bundled = join(root, "examples/tasks")

describe("deskhand", () => {
  let place: Workplace
  beforeAll(() => {
    place = new Workplace()
  })
  afterAll(() => place.remove())

  const refused = (ended: Ended, ...texts: ReadonlyArray<string>) => {
    assert.strictEqual(ended.status, 2, ended.stderr)
    for (const text of texts) assert.include(ended.stderr, text)
    assert.deepStrictEqual(place.folders(), [])
  }

  describe("says what is wrong with what was asked, and starts nothing", () => {
    const task = (name: string, content: string) => {
      const file = join(place.folder, name)
      writeFileSync(file, content)
      return file
    }

    it("an option that does not exist", async () => {
      refused(await place.run(["run", "--limt", "3"]), "there is no option --limt")
    })

    it("a value that an option cannot have", async () => {
      refused(await place.run(["run", "--max-steps", "none"]))
      refused(await place.run(["run", "--max-steps", "0"]))
      refused(await place.run(["run", "--temperature", "9"]), "temperature")
    })

    it("a task file that is no JSON, and one that is no task", async () => {
      const files = [
        task("broken.json", '{"id": '),
        task("wrong.json", '{"id": "x", "instruction": 5, "evaluator": {"func": "infeasible"}}')
      ]
      refused(
        await place.run(["run", "--agent", "noop", ...files]),
        "broken.json",
        "wrong.json",
        "instruction: Expected string, found 5"
      )
    })

    it("a file that does not exist", async () => {
      refused(await place.run(["run", "--agent", "noop", join(place.folder, "no-such.json")]), "no-such.json")
    })

    it("a folder without tasks", async () => {
      const empty = join(place.folder, "empty")
      mkdirSync(empty, { recursive: true })
      refused(await place.run(["run", "--agent", "noop", empty]), empty)
    })

    it("no model", async () => {
      refused(await place.run(["run", bundled]), "no model", "--model-url", "--script")
      refused(await place.run(["run", bundled, "--model-url", "http://127.0.0.1:9/v1"]), "wants --model")
    })

    it("a model that nobody serves", async () => {
      refused(
        await place.run(["run", bundled, "--model-url", "http://127.0.0.1:9/v1", "--model", "m"]),
        "the model at http://127.0.0.1:9/v1 gave no reply",
        "ECONNREFUSED"
      )
    })

    it("a key that is not set, without printing one that is", async () => {
      const args = ["run", bundled, "--model-url", "http://127.0.0.1:9/v1", "--model", "m", "--api-key-env"]
      refused(await place.run([...args, "NO_SUCH_KEY"]), "NO_SUCH_KEY, which is not set")
      const ended = await place.run([...args, "MY_KEY"], { MY_KEY: "sk-secret" })
      refused(ended)
      assert.notInclude(ended.stderr + ended.stdout, "sk-secret")
    })

    it("an address with credentials, without printing them", async () => {
      const ended = await place.run(["run", bundled, "--model-url", "ftp://me:hunter22@host/v1", "--model", "m"])
      refused(ended, "--model-url ftp://host/v1 is no http or https address")
      assert.notInclude(ended.stderr + ended.stdout, "hunter22")
    })

    it("an agent that does not exist, and a history policy that is none", async () => {
      refused(await place.run(["run", "--agent", "promt"]), 'there is no agent "promt"', "prompt", "noop")
      refused(await place.run(["run", "--history", "fixed"]), "fixed:IMAGES")
    })

    it("another agent than the contract's, with the differences", async () => {
      const printed = await place.run(["run", "--agent", "noop", "--max-steps", "100", "--print-contract"])
      assert.strictEqual(printed.status, 0, printed.stderr)
      const contract = task("contract.json", printed.stdout)
      refused(
        await place.run(["run", "--agent", "noop", "--contract", contract]),
        "this is not the agent of",
        "max_steps: 100 there, 15 here",
        "--contract-mode declared"
      )
    })

    it("a virtual machine without its disk, or elsewhere than on Docker", async () => {
      const run = ["run", "--agent", "noop", "--limit", "1", "--vm"]
      refused(
        await place.run([...run, "/no/such.qcow2", "--provider", "docker"]),
        "/no/such.qcow2, which does not exist"
      )
      refused(await place.run([...run, "/etc/hostname"]), "--vm is for --provider docker")
    })

    it("a resume of nothing", async () => {
      refused(await place.run(["run", "--resume"]), "--resume wants --out")
      refused(await place.run(["run", "--resume", "--out", join(place.folder, "nothing")]), "holds no run")
    })

    it("a machine that lacks what desktops need, with the remedy", async () => {
      const ended = await place.run(["run", "--agent", "noop", "--limit", "1"], { PATH: "/nonexistent" })
      refused(ended, "✘ bubblewrap", "apt-get install -y --no-install-recommends", "--setup")
    })
  })

  it("says with --dry-run what would run", async () => {
    const { status, stdout } = await place.run(["run", "--dry-run", "--limit", "2", "--repeats", "3"])
    assert.strictEqual(status, 0)
    assert.include(stdout, "2 tasks, 3 rollouts each")
    assert.deepStrictEqual(place.folders(), [])
  })

  it("says with --dry-run where the model is, without credentials", async () => {
    const { status, stdout } = await place.run([
      ...["run", "--dry-run", "--limit", "1", "--model", "m"],
      ...["--model-url", "http://me:hunter22@127.0.0.1:9/v1?api_key=hunter23"]
    ])
    assert.strictEqual(status, 0)
    assert.include(stdout, "m at http://127.0.0.1:9/v1?api_key=redacted")
    assert.notMatch(stdout, /hunter2/)
    assert.match(stdout, /Agent contract osworld-agent-contract-[0-9a-f]{24}\./)
  })

  it("has a doctor that finds what this machine has", async () => {
    const { status, stdout } = await place.run(["doctor"])
    assert.strictEqual(status, 0, stdout)
    assert.include(stdout, "Everything that is needed is here.")
  })

  it("sweeps nothing where nothing is", async () => {
    const { status, stdout } = await place.run(["sweep"])
    assert.strictEqual(status, 0)
    assert.include(stdout, "0 removed, 0 in use, 0 left")
  })
})
