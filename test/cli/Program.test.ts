import { type ChildProcess, spawn } from "node:child_process"
import { existsSync, mkdtempSync, rmSync } from "node:fs"
import { createRequire } from "node:module"
import { constants, tmpdir } from "node:os"
import { join } from "node:path"

import { afterEach, assert, beforeEach, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as FastCheck from "effect/FastCheck"
import * as TestClock from "effect/TestClock"
import { type Act, echoMilliseconds, next, type Phase, statusOf } from "../../src/cli/internal/signals.js"
import { type Drain, makeStop } from "../../src/cli/internal/stop.js"
import { root } from "./harness.js"

describe("signals", () => {
  const ranks: Readonly<Record<Phase, number>> = { running: 0, draining: 1, stopping: 2 }

  it("each goes one step further, echoes none, and three that are apart always end a program", () => {
    FastCheck.assert(
      FastCheck.property(
        FastCheck.array(
          FastCheck.record({ drains: FastCheck.boolean(), since: FastCheck.integer({ min: 0, max: 3000 }) })
        ),
        (heard) => {
          let phase: Phase = "running"
          let apart = 0
          const acts: Array<Act> = []
          for (const one of heard) {
            const [then, act] = next(phase, one)
            assert.isAtLeast(ranks[then], ranks[phase])
            if (phase !== "running" && one.since <= echoMilliseconds) assert.strictEqual(act, "nothing")
            else apart += 1
            if (act !== "nothing") acts.push(act)
            phase = then
          }
          const order: ReadonlyArray<Act> = ["drain", "interrupt", "leave"]
          // No act before the one that it follows, and an interruption before a program is left.
          assert.deepStrictEqual(
            [...acts].sort((a, b) => order.indexOf(a) - order.indexOf(b)),
            acts
          )
          if (apart >= 3) assert.include(acts, "leave")
          if (acts.includes("leave")) assert.include(acts, "interrupt")
        }
      )
    )
  })

  it("gives the statuses that shells give", () => {
    // bash(1): 128 and the signal's number; signal(7): the numbers.
    for (const signal of ["SIGHUP", "SIGINT", "SIGTERM"] as const) {
      assert.strictEqual(statusOf(1, signal), 128 + constants.signals[signal])
      // All was done, whoever wanted it to stop.
      assert.strictEqual(statusOf(0, signal), 0)
    }
    assert.strictEqual(statusOf(2, undefined), 2)
  })
})

describe("an end", () => {
  /** What a program on its way out does, and when: seconds of the clock, which the test moves. */
  const stopping = (drain?: Drain) =>
    Effect.gen(function* () {
      const acts: Array<string> = []
      const clock = yield* Effect.clock
      const noted = (act: string) => acts.push(`${clock.unsafeCurrentTimeMillis() / 1000} ${act}`)
      const hear = yield* makeStop({
        say: () => {},
        drain: () => drain && { ...drain, begin: () => noted("drain") },
        interrupt: () => noted("interrupt"),
        leave: (signal) => noted(`leave ${signal}`)
      })
      return { acts, hear }
    })

  it.effect("has 300 seconds to close what is open, and not one more", () =>
    Effect.gen(function* () {
      const { acts, hear } = yield* stopping()
      hear("SIGTERM")
      yield* TestClock.adjust("299999 millis")
      assert.deepStrictEqual(acts, ["0 interrupt"])
      yield* TestClock.adjust("1 millis")
      assert.deepStrictEqual(acts, ["0 interrupt", "300 leave SIGTERM"])
    })
  )

  it.effect("drains for as long as it was told, and has 300 seconds from there", () =>
    Effect.gen(function* () {
      const { acts, hear } = yield* stopping({ seconds: 60, begin: () => {} })
      yield* TestClock.adjust("5 seconds")
      hear("SIGINT")
      // A wrapper's echo of the same signal.
      hear("SIGINT")
      yield* TestClock.adjust("59999 millis")
      assert.deepStrictEqual(acts, ["5 drain"])
      yield* TestClock.adjust("300 seconds")
      assert.deepStrictEqual(acts, ["5 drain", "65 interrupt"])
      yield* TestClock.adjust("1 millis")
      assert.deepStrictEqual(acts, ["5 drain", "65 interrupt", "365 leave SIGINT"])
    })
  )

  it.effect("is stopped by a second signal while it drains, once", () =>
    Effect.gen(function* () {
      const { acts, hear } = yield* stopping({ seconds: 60, begin: () => {} })
      hear("SIGINT")
      yield* TestClock.adjust("10 seconds")
      hear("SIGINT")
      yield* TestClock.adjust("299 seconds")
      assert.deepStrictEqual(acts, ["0 drain", "10 interrupt"])
      yield* TestClock.adjust("1 seconds")
      assert.deepStrictEqual(acts, ["0 drain", "10 interrupt", "310 leave SIGINT"])
    })
  )
})

interface Ended {
  readonly status: number | null
  readonly signal: NodeJS.Signals | null
  readonly told: string
}

describe("a process", () => {
  let folder: string
  let held: string
  let child: ChildProcess | undefined
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), "dh-program-"))
    held = join(folder, "held")
  })
  afterEach(() => {
    child?.kill("SIGKILL")
    child = undefined
    rmSync(folder, { recursive: true, force: true })
  })

  const driver = (...args: ReadonlyArray<string>) => ["--import", "tsx", "test/cli/programDriver.ts", held, ...args]

  const start = (command: string, args: ReadonlyArray<string>) => {
    const mine = spawn(command, args, { cwd: root, stdio: ["ignore", "ignore", "pipe"] })
    child = mine
    let told = ""
    const listeners = new Set<() => void>()
    mine.stderr.on("data", (chunk) => {
      told += chunk
      for (const listener of listeners) listener()
    })
    const ended = new Promise<Ended>((resolve) => {
      mine.on("close", (status, signal) => resolve({ status, signal, told }))
    })
    const heard = (text: string) =>
      new Promise<void>((resolve, reject) => {
        const look = () => void (told.includes(text) && resolve())
        listeners.add(look)
        look()
        ended.then(() => reject(new Error(`it ended without saying ${text}: ${told}`)))
      })
    return { process: mine, ended, heard }
  }

  const run = (...args: ReadonlyArray<string>) => start(process.execPath, driver(...args))

  /** A signal sooner after another than this is taken for its echo; nothing tells when that time is over. */
  const noEcho = () => new Promise((resolve) => setTimeout(resolve, echoMilliseconds + 200))

  for (const signal of ["SIGHUP", "SIGINT", "SIGTERM"] as const) {
    it(`gives back what it holds on ${signal}, whose status it has`, async () => {
      const running = run()
      await running.heard("ready")
      running.process.kill(signal)
      const { status, told } = await running.ended
      assert.strictEqual(status, 128 + constants.signals[signal])
      assert.include(told, "given back")
      assert.isFalse(existsSync(held))
    })
  }

  it("leaves at once at the second INT", async () => {
    const running = run("stuck")
    await running.heard("ready")
    running.process.kill("SIGINT")
    await running.heard("closing")
    await noEcho()
    assert.isNull(running.process.exitCode)
    running.process.kill("SIGINT")
    const { status, told } = await running.ended
    assert.strictEqual(status, 130)
    assert.include(told, "Left at once. To remove what is left of the desktops: deskhand sweep")
    // That is what leaving means: it is still there.
    assert.isTrue(existsSync(held))
  })

  it("drains at the first signal where it asked to, and ends by itself", async () => {
    const running = run("drain", "600")
    await running.heard("ready")
    running.process.kill("SIGTERM")
    const { status, told } = await running.ended
    assert.strictEqual(status, 143)
    assert.include(told, "what runs has 600 seconds to end")
    assert.include(told, "draining")
    assert.include(told, "given back")
    assert.notInclude(told, "stopping;")
  })

  it("is interrupted when the time to drain is over", async () => {
    const running = run("drains", "0.2")
    await running.heard("ready")
    running.process.kill("SIGINT")
    const { status, told } = await running.ended
    assert.strictEqual(status, 130)
    assert.include(told, "0.2 seconds are over: stopping")
    assert.isFalse(existsSync(held))
  })

  it("is interrupted by the second signal while it drains", async () => {
    const running = run("drains", "600")
    await running.heard("ready")
    running.process.kill("SIGINT")
    await running.heard("draining")
    await noEcho()
    running.process.kill("SIGTERM")
    const { status, told } = await running.ended
    // The first signal is what ended it.
    assert.strictEqual(status, 130)
    assert.include(told, "given back")
    assert.isFalse(existsSync(held))
  })

  it("gives back what it holds when its terminal is closed", async () => {
    // The other end of a terminal closes: the kernel sends HUP, and from then on nothing can be written.
    const script = `
import os, pty, sys
pid, terminal = pty.fork()
if pid == 0:
    os.execvp(sys.argv[1], sys.argv[1:])
said = b""
while b"ready" not in said:
    said += os.read(terminal, 1000)
os.close(terminal)
_, status = os.waitpid(pid, 0)
sys.exit(os.WEXITSTATUS(status) if os.WIFEXITED(status) else 99)
`
    const { ended } = start("python3", ["-c", script, process.execPath, ...driver()])
    const { status, told } = await ended
    assert.strictEqual(status, 129, told)
    assert.isFalse(existsSync(held))
  })

  it("gives back what it holds under the tsx command, however busy it is", async () => {
    // tsx kills a child that has not answered a signal within some 60 ms.
    const tsx = createRequire(import.meta.url).resolve("tsx/cli")
    const running = start(process.execPath, [tsx, "test/cli/programDriver.ts", held, "busy"])
    await running.heard("ready")
    running.process.kill("SIGINT")
    const { status, told } = await running.ended
    assert.strictEqual(status, 130)
    assert.include(told, "given back")
    assert.isFalse(existsSync(held))
  })

  it("holds nothing after a signal at any moment of its first milliseconds", { timeout: 120_000 }, async () => {
    // Before it listens the signal itself ends it, and it has done nothing; from then on it gives back.
    for (let round = 0; round < 8; round++) {
      const running = run()
      const moment = Math.random() * 1200
      await new Promise((resolve) => setTimeout(resolve, moment))
      running.process.kill("SIGTERM")
      const { signal, status, told } = await running.ended
      const at = `after ${Math.round(moment)} ms: ${told}`
      if (signal === null) assert.strictEqual(status, 143, at)
      else assert.strictEqual(signal, "SIGTERM", at)
      assert.isFalse(existsSync(held), at)
    }
  })
})
