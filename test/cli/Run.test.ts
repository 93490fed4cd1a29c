import { execFileSync } from "node:child_process"
import { existsSync, mkdirSync, readdirSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { afterEach, assert, beforeEach, describe, it } from "@effect/vitest"
import { type Running, Workplace } from "./harness.js"

const tasks = 10
const infeasible = "os-bluetooth-speaker"

describe("deskhand run", () => {
  let place: Workplace
  beforeEach(() => {
    place = new Workplace()
  })
  afterEach(() => {
    // A process that outlives its test is the failure of that test, not of the next.
    for (const line of place.processes()) process.kill(Number(line.split(" ")[0]), "SIGKILL")
    place.remove()
  })

  const nothingLeft = () => {
    assert.deepStrictEqual(place.folders(), [])
    assert.deepStrictEqual(place.processes(), [])
  }

  /** Rewards by task, from the rows that a trainer reads. */
  const rewards = () =>
    Object.fromEntries(
      place.rows("rollouts.jsonl").map((row) => {
        const { task_id } = row["verifier_metadata"] as { readonly task_id: string }
        return [task_id, row["reward"]]
      })
    )

  /** The most memory that a process has held, in MB, asked for until it ends. */
  const peakMemory = async ({ ended, process }: Running): Promise<number> => {
    let peak = 0
    const timer = setInterval(() => {
      try {
        const status = readFileSync(`/proc/${process.pid}/status`, "utf8")
        peak = Math.max(peak, Number(/VmHWM:\s+(\d+) kB/.exec(status)?.[1] ?? 0) / 1024)
      } catch {
        // It has ended.
      }
    }, 250)
    await ended
    clearInterval(timer)
    return peak
  }

  it("gives each recorded solution its reward of 1", { timeout: 600_000 }, async () => {
    const running = place.start(["run", "--out", place.out, "--concurrency", "2"])
    const { status, stderr, stdout } = await running.ended
    assert.strictEqual(status, 0, stdout + stderr)
    const scores = rewards()
    assert.strictEqual(Object.keys(scores).length, tasks)
    assert.deepStrictEqual(
      Object.entries(scores).filter(([, reward]) => reward !== 1),
      []
    )
    assert.include(stdout, `over ${tasks} scored of ${tasks} expected; 0 masked, 0 failed, 0 unresolved, 0 not started`)
    // Every screenshot that a person leafs through is there, and is an image.
    for (const folder of readdirSync(join(place.out, "screenshots"))) {
      const pictures = readdirSync(join(place.out, "screenshots", folder))
      assert.isAtLeast(pictures.length, 2, folder)
      for (const picture of pictures) {
        const bytes = readFileSync(join(place.out, "screenshots", folder, picture))
        assert.strictEqual(bytes.subarray(1, 4).toString(), "PNG", picture)
      }
    }
    nothingLeft()
  })

  it("gives doing nothing a reward of 0, eight desktops at a time, in flat memory", { timeout: 600_000 }, async () => {
    const running = place.start(["run", "--agent", "noop", "--out", place.out, "--concurrency", "8"])
    const [peak, { status, stderr, stdout }] = await Promise.all([peakMemory(running), running.ended])
    assert.strictEqual(status, 0, stdout + stderr)
    const scores = rewards()
    assert.strictEqual(Object.keys(scores).length, tasks)
    assert.include(Object.keys(scores), infeasible)
    assert.deepStrictEqual(
      Object.entries(scores).filter(([, reward]) => reward !== 0),
      []
    )
    assert.deepStrictEqual(place.rows("failures.jsonl"), [])
    assert.isBelow(peak, 300)
    nothingLeft()
  })

  it("goes on where it was, and refuses to go on as another run", { timeout: 300_000 }, async () => {
    const run = (...args: ReadonlyArray<string>) =>
      place.run(["run", "--agent", "noop", "--domain", "os", "--out", place.out, ...args])
    assert.strictEqual((await run("--limit", "1")).status, 0)
    const again = await run("--limit", "1")
    assert.strictEqual(again.status, 1)
    assert.include(again.stderr, "already holds a run")
    const other = await run("--resume", "--max-steps", "3")
    assert.strictEqual(other.status, 2)
    assert.include(other.stderr, "max_steps was 15 and is 3")
    const { status, stdout } = await run("--resume")
    assert.strictEqual(status, 0)
    assert.include(stdout, "over 2 scored of 2 expected")
    assert.strictEqual(place.rows("rollouts.jsonl").length, 2)
    nothingLeft()
  })

  it("goes on as another run when it is forced to, and writes down what changed", { timeout: 300_000 }, async () => {
    const run = (...args: ReadonlyArray<string>) =>
      place.run(["run", "--agent", "noop", "--domain", "os", "--out", place.out, ...args])
    const manifest = () => JSON.parse(readFileSync(join(place.out, "run.json"), "utf8"))
    assert.strictEqual((await run("--limit", "1", "--temperature", "0.6", "--concurrency", "1")).status, 0)
    const changed = ["--temperature", "0.9", "--failures", '{"model":{"inRun":4}}', "--concurrency", "2"]
    const refused = await run("--resume", ...changed)
    assert.strictEqual(refused.status, 2)
    const differences = [
      'attempts_model was "2 a run, 6 in all" and is "4 a run, 6 in all"',
      "temperature was 0.6 and is 0.9"
    ]
    const listed = differences.map((line) => `  ${line}\n`).join("")
    assert.include(refused.stderr, `because this would be another run:\n${listed}`)
    assert.include(refused.stderr, "--force-resume")
    assert.deepInclude(manifest().knobs, { temperature: 0.6 })
    const { run_id } = manifest()

    const forced = await run("--force-resume", ...changed)
    assert.strictEqual(forced.status, 0, forced.stderr)
    assert.include(forced.stderr, listed)
    assert.include(forced.stdout, "over 2 scored of 2 expected")
    const { collector, collector_changes, forced_resumes, knobs, ...rest } = manifest()
    assert.strictEqual(rest.run_id, run_id)
    assert.deepInclude(knobs, { temperature: 0.9, attempts_model: "4 a run, 6 in all" })
    assert.deepStrictEqual(
      forced_resumes.map((each: { readonly differences: ReadonlyArray<string> }) => each.differences),
      [differences]
    )
    // How many run at a time makes no other run, and is written down all the same.
    assert.deepInclude(collector, { concurrency: 2, drain_seconds: 0 })
    assert.deepStrictEqual(collector_changes[0].differences, ["concurrency was 1 and is 2"])
    // From here on it is the run that it was forced to be.
    assert.strictEqual((await run("--resume", ...changed)).status, 0)
    nothingLeft()
  })

  it("masks a rollout whose display dies, and says so", { timeout: 300_000 }, async () => {
    // A model that waits for ever keeps the desktop open.
    // A second attempt would have a display that nobody kills.
    const once = ["--failures", JSON.stringify({ environment: { inRun: 1 }, infrastructure: { inRun: 1 } })]
    const running = place.start(["run", "--domain", "os", "--limit", "1", "--out", place.out, ...once])
    await running.printed("started")
    const killed = await (async () => {
      for (let tries = 0; tries < 200; tries++) {
        const xvfb = place.processes().find((line) => / Xvfb :0/.test(line))
        if (xvfb !== undefined && existsSync(join(place.out, "rollouts.jsonl"))) return xvfb
        await new Promise((resolve) => setTimeout(resolve, 50))
      }
      throw new Error("no display came up")
    })()
    process.kill(Number(killed.split(" ")[0]), "SIGKILL")
    const { status, stdout } = await running.ended
    assert.strictEqual(status, 1)
    // Which of the two is seen first: the end of the X server, or a call that finds no display.
    assert.match(stdout, /Xvfb|display :0/, stdout)
    assert.deepStrictEqual(place.rows("rollouts.jsonl"), [])
    const [failure, ...more] = place.rows("failures.jsonl")
    assert.deepStrictEqual(more, [])
    assert.deepInclude(failure, { reward: null, mask_sample: true })
    nothingLeft()
  })

  for (const signal of ["SIGTERM", "SIGINT"] as const) {
    it(`leaves no process and no folder after ${signal} at five random moments`, { timeout: 300_000 }, async () => {
      for (let round = 0; round < 5; round++) {
        const out = `${place.out}-${round}`
        const running = place.start(["run", "--out", out, "--concurrency", "3"])
        await running.printed("started")
        const moment = Math.random() * 6000
        await new Promise((resolve) => setTimeout(resolve, moment))
        running.process.kill(signal)
        const { status, stderr } = await running.ended
        const told = `after ${Math.round(moment)} ms: ${stderr}`
        assert.strictEqual(status, signal === "SIGINT" ? 130 : 143, told)
        assert.deepStrictEqual(place.folders(), [], told)
        assert.deepStrictEqual(place.processes(), [], told)
      }
    })
  }

  it("leaves to sweep what SIGKILL left, and containers end with it", { timeout: 300_000 }, async () => {
    const TMPDIR = join(place.folder, "tmp")
    mkdirSync(TMPDIR)
    const taskFolders = () => readdirSync(TMPDIR).filter((name) => name.startsWith("deskhand-task-"))
    const running = place.start(["run", "--out", place.out, "--concurrency", "2"], { TMPDIR })
    await running.printed("started")
    for (let tries = 0; tries < 200 && place.processes().length < 4; tries++) {
      await new Promise((resolve) => setTimeout(resolve, 50))
    }
    assert.isNotEmpty(taskFolders())
    // While it runs, all that it has stays its own.
    const early = await place.run(["sweep"], { TMPDIR })
    assert.strictEqual(early.status, 0, early.stdout + early.stderr)
    assert.notInclude(early.stdout, "task folders")
    assert.isNull(running.process.exitCode)

    running.process.kill("SIGKILL")
    await running.ended
    assert.isNotEmpty(place.folders())
    const left = taskFolders()
    assert.isNotEmpty(left)
    const { status, stdout } = await place.run(["sweep"], { TMPDIR })
    assert.strictEqual(status, 0, stdout)
    assert.include(stdout, `task folders: ${left.length} removed`)
    assert.deepStrictEqual(taskFolders(), [])
    nothingLeft()
  })

  it("tells of a full disk by the file's name, and keeps what is scored", { timeout: 300_000 }, async () => {
    // A file system of a megabyte fills up with the first screenshots.
    execFileSync("mkdir", ["-p", place.out])
    execFileSync("mount", ["-t", "tmpfs", "-o", "size=1m", "tmpfs", place.out])
    try {
      const { status, stderr, stdout } = await place.run(["run", "--out", place.out, "--concurrency", "2"])
      assert.strictEqual(status, 1)
      assert.match(stdout + stderr, /no space left on device/i)
      assert.include(stdout + stderr, place.out)
      for (const row of place.rows("rollouts.jsonl")) assert.strictEqual(row["reward"], 1)
      // What was written before the disk was full is whole, and what could not be written is not there.
      for (const file of ["metrics.json", "receipt.json"]) {
        if (existsSync(join(place.out, file))) JSON.parse(readFileSync(join(place.out, file), "utf8"))
      }
      const counts = (text: string) => /over .*/.exec(text)?.[0]
      const { stdout: reported } = await place.run(["report", place.out])
      assert.strictEqual(counts(stdout), counts(reported))
      nothingLeft()
    } finally {
      execFileSync("umount", ["-l", place.out])
    }
  })
})
