import { spawn, spawnSync } from "node:child_process"
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { draw } from "../../src/testing/Distribution.js"

const root = fileURLToPath(new URL("../..", import.meta.url))

const folder = Effect.acquireRelease(
  Effect.sync(() => mkdtempSync(join(tmpdir(), "deskhand-example-"))),
  (path) => Effect.sync(() => rmSync(path, { recursive: true, force: true }))
)

interface Ended {
  readonly status: number | null
  readonly output: string
}

/** Runs the example, with temporary files in `temporary`, and interrupts it once it has said `interruptAt`. */
const run = (temporary: string, options: ReadonlyArray<string>, interruptAt?: RegExp): Effect.Effect<Ended> =>
  Effect.async((resume) => {
    const child = spawn(process.execPath, ["--import", "tsx", "examples/trainer.ts", ...options], {
      cwd: root,
      env: { ...process.env, TMPDIR: temporary },
      stdio: ["ignore", "pipe", "pipe"]
    })
    let output = ""
    let interrupted = false
    const said = (chunk: Buffer) => {
      output += chunk.toString()
      if (interruptAt === undefined || interrupted || !interruptAt.test(output)) return
      interrupted = true
      child.kill("SIGINT")
    }
    child.stdout.on("data", said)
    child.stderr.on("data", said)
    child.on("close", (status) => resume(Effect.succeed({ status, output })))
    return Effect.promise(
      () =>
        new Promise<void>((done) => {
          child.on("close", () => done())
          if (child.exitCode === null && child.signalCode === null) child.kill("SIGINT")
          else done()
        })
    )
  })

/** What is ours: tsx keeps what it has compiled in the same folder. */
const leftIn = (temporary: string): ReadonlyArray<string> =>
  readdirSync(temporary, { recursive: true })
    .map(String)
    .filter((path) => path.startsWith("deskhand-"))

const curveOf = (output: string) =>
  Array.from(output.matchAll(/^step +(\d+) +reward ([\d.]+) +success ([\d.]+)/gm), ([, step, reward, success]) => [
    Number(step),
    Number(reward),
    Number(success)
  ])

/** With this seed, one of the first two owners presses the right buttons. */
const lucky = 44
const targets = [2, 0, 3]

/** What the two owners of the first step press: the policy knows nothing yet, so each button is a quarter of the draws. */
const pressed = [0, 1].map((owner) => targets.map((_, step) => Math.floor(draw(lucky, `0-${owner}`, String(step)) * 4)))

/**
 * How likely success is after the first step of those two. Rewards 1 and 0 are 0.5 and -0.5 from their mean, whitened 1 and
 * -1; each of the prompt's 6 tokens weighs a sixth; the learning rate is 2.
 */
const afterFirst = (): number => {
  const logits = targets.map((_, step) => {
    const own = [0, 0, 0, 0]
    for (const [owner, advantage] of [1, -1].entries()) {
      for (const button of own.keys()) {
        const slope = (advantage / 6) * ((pressed[owner]?.[step] === button ? 1 : 0) - 0.25)
        own[button] = (own[button] ?? 0) + 2 * slope
      }
    }
    return own.map(Math.exp)
  })
  return targets.reduce((product, target, step) => {
    const odds = logits[step] ?? []
    return (product * (odds[target] ?? 0)) / odds.reduce((sum, one) => sum + one, 0)
  }, 1)
}

const two = ["--prompts", "1", "--generations", "2", "--seed", String(lucky)]

const has = (...commands: ReadonlyArray<string>) =>
  commands.every((command) => spawnSync("sh", ["-c", `command -v ${command}`]).status === 0)

describe("examples/trainer.ts", () => {
  it("has a seed that begins with one success of two", () => {
    assert.deepStrictEqual(pressed[0], targets)
    assert.notDeepEqual(pressed[1], targets)
  })

  it.scopedLive(
    "learns from a success, draws the curve, and leaves nothing but what it was asked to keep",
    () =>
      Effect.gen(function* () {
        const temporary = yield* folder
        const out = join(yield* folder, "run")
        const { output, status } = yield* run(temporary, [...two, "--steps", "3", "--out", out])
        assert.strictEqual(status, 0, output)
        const curve = curveOf(output)
        assert.deepStrictEqual(
          curve.map(([step]) => step),
          [1, 2, 3]
        )
        assert.deepStrictEqual(curve[0], [1, 0.5, Number(afterFirst().toFixed(3))])
        assert.include(readFileSync(join(out, "curve.svg"), "utf8"), "Learning by flash-b8n8-reinforce")
        assert.lengthOf(readFileSync(join(out, "rollouts.jsonl"), "utf8").trim().split("\n"), 6)
        assert.deepStrictEqual(leftIn(temporary), [])
      }),
    120_000
  )

  it.scopedLive(
    "stops on Ctrl-C, and leaves nothing",
    () =>
      Effect.gen(function* () {
        const temporary = yield* folder
        const { output, status } = yield* run(temporary, ["--steps", "1000"], /^step +1/m)
        assert.strictEqual(status, 130, output)
        assert.deepStrictEqual(leftIn(temporary), [])
      }),
    120_000
  )

  it.scopedLive.skipIf(!has("Xvfb", "bwrap", "openbox", "dbus-daemon"))(
    "learns the same on a real desktop of this machine",
    () =>
      Effect.gen(function* () {
        const temporary = yield* folder
        const { output, status } = yield* run(temporary, [...two, "--steps", "2", "--desktop", "local"])
        assert.strictEqual(status, 0, output)
        const [first, second] = curveOf(output)
        assert.deepStrictEqual(first, [1, 0.5, Number(afterFirst().toFixed(3))])
        assert.strictEqual(second?.[0], 2)
        // The folder in which desktops live stays; no desktop does.
        assert.deepStrictEqual(
          leftIn(temporary).filter((path) => !/^deskhand-\d+(\/[a-z-]+)?$/.test(path)),
          []
        )
      }),
    180_000
  )
})
