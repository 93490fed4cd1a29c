import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as FastCheck from "effect/FastCheck"
import * as TestClock from "effect/TestClock"
import * as View from "../../src/cli/internal/progressView.js"
import * as ProgressDisplay from "../../src/cli/ProgressDisplay.js"
import { RolloutIdentity, RunId } from "../../src/identity/Identity.js"
import { Evaluation } from "../../src/rollout/Evaluation.js"
import { Failed, Masked, type RolloutOutcome, Scored } from "../../src/rollout/Outcome.js"
import { emit, ProgressEvent } from "../../src/rollout/Progress.js"
import { TaskRow } from "../../src/rollout/TaskRow.js"
import { AgentDone, Infrastructure } from "../../src/rollout/Termination.js"

const runId = RunId.make("test-run")

const row = (taskIndex: number, taskId = `task-${taskIndex}`) =>
  new TaskRow({ taskIndex, taskId, domain: "os", instruction: "Do it", task: {} })

const identity = (taskIndex: number, taskId = `task-${taskIndex}`, rolloutIndex = 0) =>
  new RolloutIdentity({ runId, taskId, taskIndex, rolloutIndex, attemptIndex: 0 })

const scored = (taskIndex: number, score = 1, reward = score >= 1 ? 1 : 0) =>
  new Scored({
    identity: identity(taskIndex),
    termination: new AgentDone(),
    steps: [],
    milliseconds: 12_000,
    evaluation: new Evaluation({ score, details: [] }),
    reward
  })

const masked = (taskIndex: number, detail = "the desktop\nis gone") =>
  new Masked({
    identity: identity(taskIndex),
    termination: new Infrastructure({ kind: "environment_lost", detail }),
    steps: [],
    milliseconds: 1,
    reason: "environment_lost",
    detail
  })

const failed = (taskIndex: number) =>
  new Failed({ identity: identity(taskIndex), fault: "infrastructure", detail: "no desktop", milliseconds: 1 })

const dispatched = (taskIndex: number, taskId?: string) =>
  ProgressEvent.Dispatched({ identity: identity(taskIndex, taskId), row: row(taskIndex, taskId) })
const opened = (taskIndex: number) => ProgressEvent.Opened({ identity: identity(taskIndex) })
const stepped = (taskIndex: number, step: number, ...actions: ReadonlyArray<string>) =>
  ProgressEvent.Stepped({ identity: identity(taskIndex), step, maxSteps: 15, actions })
const evaluating = (taskIndex: number) => ProgressEvent.Evaluating({ identity: identity(taskIndex) })
const finished = (outcome: RolloutOutcome) => ProgressEvent.Finished({ outcome, row: row(outcome.identity.taskIndex) })

const second = 1000

/** Each event with the second in which it happens. */
const fold = (
  options: View.ViewOptions,
  ...events: ReadonlyArray<readonly [at: number, event: ProgressEvent]>
): View.View => events.reduce((view, [at, event]) => View.update(view, event, at * second), View.initial(options))

const text = (lines: ReadonlyArray<View.Line>) => lines.map((line) => View.paint(line, false))

describe("progress block", () => {
  const view = fold(
    { expected: 10, concurrency: 2 },
    [0, dispatched(0)],
    [0, dispatched(1)],
    [20, finished(scored(0))],
    [20, dispatched(2)],
    [24, finished(scored(1))],
    [24, dispatched(3)],
    [25, opened(2)],
    [26, stepped(2, 2, "pyautogui.click(400, 300)\ntime.sleep(1)", "WAIT")]
  )

  it("has totals and a line for each running rollout", () => {
    assert.deepStrictEqual(text(View.block(view, 30 * second, 100, 20)), [
      "2/10 done · mean reward 1.00 (2 scored, 0 masked, 0 failed) · 2 running · about 1 min left",
      "  os/task-2  step 3/15        pyautogui.click(400, 300) time.sleep(1); WAIT  10 s",
      "  os/task-3  opening desktop  6 s"
    ])
  })

  it("says what each is doing", () => {
    const doing = (...events: ReadonlyArray<ProgressEvent>) =>
      text(
        View.block(fold({ expected: 1, concurrency: 1 }, ...events.map((event) => [0, event] as const)), 0, 100, 9)
      )[1]
    assert.strictEqual(doing(dispatched(0)), "  os/task-0  opening desktop  0 s")
    assert.strictEqual(doing(dispatched(0), opened(0)), "  os/task-0  step 1  0 s")
    assert.strictEqual(doing(dispatched(0), opened(0), stepped(0, 0, "a")), "  os/task-0  step 1/15  a  0 s")
    assert.strictEqual(doing(dispatched(0), stepped(0, 0, "a"), evaluating(0)), "  os/task-0  evaluating  a  0 s")
    assert.strictEqual(doing(dispatched(0), finished(scored(0))), undefined)
  })

  it("shortens the header before it cuts it, and keeps the denominator", () => {
    const at = (columns: number) => text(View.block(view, 30 * second, columns, 20))[0]
    assert.strictEqual(at(80), "2/10 done · mean reward 1.00 (2 scored) · 2 running · about 1 min left")
    assert.strictEqual(at(64), "2/10 done · mean reward 1.00 (2 scored) · about 1 min left")
    assert.strictEqual(at(20), "2/10 done · mean re…")
  })

  it("shortens the action, so that the time stays", () => {
    assert.strictEqual(
      text(View.block(view, 30 * second, 50, 20))[1],
      "  os/task-2  step 3/15        pyautogui.cli…  10 s"
    )
  })

  it("shows as many as there are rows for, and counts the others", () => {
    const many = fold(
      { expected: 50, concurrency: 50 },
      ...Array.from({ length: 50 }, (_, index) => [0, dispatched(index)] as const)
    )
    const lines = text(View.block(many, 0, 80, 5))
    assert.strictEqual(lines.length, 5)
    assert.strictEqual(lines[4], "  and 47 more")
  })

  it("counts a rollout once, however often it is tried", () => {
    const retrying = ProgressEvent.Retrying({ outcome: failed(0), row: row(0), milliseconds: 1_000 })
    const again = fold({ expected: 10, concurrency: 2 }, [0, dispatched(0)], [5, retrying], [6, dispatched(0)])
    assert.deepInclude(again, { dispatched: 1, failed: 0, finished: 0 })
    assert.deepStrictEqual(
      Array.from(again.running.values(), ({ startedAt }) => startedAt),
      [6 * second]
    )
  })

  it("says why an attempt failed that is followed by another", () => {
    const outcome = failed(0)
    const retrying = ProgressEvent.Retrying({ outcome, row: row(0), milliseconds: 2_000 })
    const view = fold({ expected: 10, concurrency: 2 }, [0, dispatched(0)], [5, retrying])
    const line = View.plainLine(view, retrying, 5 * second) ?? ""
    assert.include(line, `failed: ${outcome.detail}`)
    assert.match(line, / · trying again in 2(\.0)? s$/)
  })

  it("counts an earlier run's rollouts", () => {
    const view = fold({ expected: 4, concurrency: 1, earlier: [1, 0] }, [0, dispatched(2)], [5, finished(masked(2))])
    assert.strictEqual(
      View.headerText(view, 5 * second),
      "3/4 done · mean reward 0.50 (2 scored, 1 masked, 0 failed) · 0 running · less than 10 s left"
    )
  })

  const anyText = FastCheck.oneof(
    FastCheck.string(),
    FastCheck.fullUnicodeString(),
    FastCheck.constantFrom(
      "名前を変更",
      "👩‍👩‍👧 family",
      "e\u0301te\u0301",
      "\u001b[2J\u001b[31mred",
      "a\tb\r\nc",
      "x".repeat(300)
    )
  )

  it.prop(
    "never wraps, never has more rows than the terminal, and never moves the cursor",
    {
      ids: FastCheck.array(anyText.filter((text) => text !== "")),
      actions: FastCheck.array(anyText),
      columns: FastCheck.integer({ min: 1, max: 200 }),
      rows: FastCheck.integer({ min: 1, max: 30 })
    },
    ({ ids, actions, columns, rows }) => {
      const view = fold(
        { expected: 99, concurrency: 9 },
        ...ids.flatMap((id, index) => [
          [0, dispatched(index, id)] as const,
          [1, stepped(index, index, ...actions)] as const
        ])
      )
      const lines = text(View.block(view, 100 * second, columns, rows))
      assert.isAtMost(lines.length, rows)
      for (const line of lines) {
        assert.isAtMost(View.width(line), columns)
        assert.notMatch(line, /\p{Cc}/u)
      }
    }
  )
})

describe("progress time left", () => {
  const options = { expected: 10, concurrency: 2 }

  it("is unknown before anything is finished, and after everything is", () => {
    assert.isUndefined(View.timeLeft(fold(options, [0, dispatched(0)]), second))
    const all = fold({ expected: 1, concurrency: 1 }, [0, dispatched(0)], [9, finished(scored(0))])
    assert.isUndefined(View.timeLeft(all, 9 * second))
  })

  it("is the mean of the finished, for what is left, over the places", () => {
    const view = fold(
      options,
      [0, dispatched(0)],
      [0, dispatched(1)],
      [20, finished(scored(0))],
      [40, finished(masked(1))]
    )
    // A mean of 30 s for 8 rollouts in 2 places.
    assert.strictEqual(View.timeLeft(view, 40 * second), 120 * second)
    // One of them has run for 10 s.
    assert.strictEqual(View.timeLeft(View.update(view, dispatched(2), 40 * second), 50 * second), 115 * second)
  })

  it("is not divided among more places than there are rollouts", () => {
    const view = fold(
      { expected: 2, concurrency: 8 },
      [0, dispatched(0)],
      [0, dispatched(1)],
      [30, finished(scored(0))]
    )
    assert.strictEqual(View.timeLeft(view, 30 * second), 0)
    const late = fold(
      { expected: 2, concurrency: 8 },
      [0, dispatched(0)],
      [30, finished(scored(0))],
      [30, dispatched(1)]
    )
    assert.strictEqual(View.timeLeft(late, 30 * second), 30 * second)
  })
})

describe("progress lines", () => {
  const line = (outcome: RolloutOutcome) =>
    View.paint(View.finishedLine(outcome, row(outcome.identity.taskIndex)), false)

  it("tell what became of a rollout", () => {
    assert.strictEqual(line(scored(0)), "✔ os/task-0 reward 1 · 0 steps · agent_done · 12 s")
    assert.strictEqual(line(scored(0, 0)), "✘ os/task-0 reward 0 · 0 steps · agent_done · 12 s")
    assert.strictEqual(line(scored(0, 0.5)), "✘ os/task-0 reward 0 (score 0.50) · 0 steps · agent_done · 12 s")
    assert.strictEqual(line(masked(0)), "! os/task-0 masked: environment_lost: the desktop is gone")
    assert.strictEqual(line(failed(0)), "! os/task-0 failed: no desktop")
  })

  it("name a task once, and the rollouts of a group", () => {
    assert.strictEqual(View.nameOf(identity(0, "os/rename-file"), { domain: "os" }), "os/rename-file")
    assert.strictEqual(View.nameOf(identity(0, "rename-file", 2), { domain: "os" }), "os/rename-file #3")
  })

  it("are painted without changing what they measure", () => {
    const line = View.finishedLine(scored(0), row(0))
    assert.strictEqual(View.paint(line, true), "\u001b[32m✔\u001b[0m os/task-0 reward 1 · 0 steps · agent_done · 12 s")
    assert.strictEqual(View.paint(View.cut(line, 12), false), "✔ os/task-…")
  })
})

/** A terminal of so many columns that understands what the display sends, and nothing else. */
class FakeTerminal implements ProgressDisplay.Output {
  readonly isTTY = true
  columns: number
  rows = 30
  cursorShown = true
  /** All that was ever written, what scrolled off among it. */
  private screen: Array<string> = [""]
  private y = 0
  private listeners: Array<() => void> = []

  constructor(columns: number) {
    this.columns = columns
  }

  write(chunk: string | Uint8Array): boolean {
    const text = typeof chunk === "string" ? chunk : Buffer.from(chunk).toString("utf8")
    for (const [token, up] of text.matchAll(/\u001b\[(\d+)A|\u001b\[\??\d*[a-zA-Z]|[\s\S]/gu)) {
      if (token === "\n") {
        this.y++
        if (this.screen[this.y] === undefined) this.screen.push("")
      } else if (token === "\u001b[2K") this.screen[this.y] = ""
      else if (up !== undefined) this.y -= Number(up)
      else if (token === "\u001b[?25l") this.cursorShown = false
      else if (token === "\u001b[?25h") this.cursorShown = true
      else if (token.length <= 2 && token !== "\r") this.screen[this.y] = `${this.screen[this.y] ?? ""}${token}`
      else assert.match(token, /^\u001b\[\d+m$|^\r$/)
    }
    return true
  }
  on(_: "resize", listener: () => void) {
    this.listeners.push(listener)
  }
  off(_: "resize", listener: () => void) {
    this.listeners = this.listeners.filter((other) => other !== listener)
  }
  /** As most terminals do it: lines that became too long wrap, and the cursor goes down with them. */
  resize(columns: number) {
    this.columns = columns
    const wrapped = this.screen.map((line) => line.match(new RegExp(`.{1,${columns}}`, "gu")) ?? [""])
    this.y = wrapped.slice(0, this.y).flat().length
    this.screen = wrapped.flat()
    for (const listener of this.listeners) listener()
  }
  get lines(): ReadonlyArray<string> {
    return this.screen.slice(0, this.screen.findLastIndex((line) => line !== "") + 1)
  }
  get isWatched() {
    return this.listeners.length > 0
  }
}

describe("ProgressDisplay", () => {
  const options = { expected: 3, concurrency: 2, color: true, beside: [] }

  it.effect("keeps a block in place, and everything else above it", () =>
    Effect.gen(function* () {
      const output = new FakeTerminal(60)
      const { write } = output
      yield* Effect.gen(function* () {
        yield* emit(dispatched(0))
        yield* emit(dispatched(1))
        yield* TestClock.adjust("100 millis")
        assert.isFalse(output.cursorShown)
        assert.deepStrictEqual(output.lines, [
          "0/3 done · 2 running",
          "  os/task-0  opening desktop  0 s",
          "  os/task-1  opening desktop  0 s"
        ])
        yield* emit(opened(0))
        yield* emit(stepped(0, 0, "pyautogui.click(1, 2)"))
        output.write("a log line\nhalf a ")
        yield* emit(finished(scored(1)))
        output.write(Buffer.from("line\n"))
        // Nothing happens, and time goes on to be seen.
        yield* TestClock.adjust("5500 millis")
        assert.deepStrictEqual(output.lines, [
          "a log line",
          "half a line",
          "✔ os/task-1 reward 1 · 0 steps · agent_done · 12 s",
          "1/3 done · mean reward 1.00 (1 scored) · 1 running · less th…".slice(0, 0) +
            "1/3 done · mean reward 1.00 (1 scored) · less than 10 s left",
          "  os/task-0  step 1/15  pyautogui.click(1, 2)  5 s"
        ])
        output.resize(30)
        yield* TestClock.adjust("200 millis")
        assert.deepStrictEqual(output.lines, [
          "a log line",
          "half a line",
          "✔ os/task-1 reward 1 · 0 steps",
          " · agent_done · 12 s",
          "1/3 done · mean reward 1.00 (…",
          "  os/task-0  step 1/15  5 s"
        ])
        yield* emit(finished(masked(0)))
      }).pipe(Effect.provide(ProgressDisplay.layer({ ...options, output })))

      assert.deepStrictEqual(output.lines, [
        "a log line",
        "half a line",
        "✔ os/task-1 reward 1 · 0 steps",
        " · agent_done · 12 s",
        "! os/task-0 masked: environme…"
      ])
      assert.isTrue(output.cursorShown)
      assert.isFalse(output.isWatched)
      assert.strictEqual(output.write, write)
    })
  )

  it.effect("gives the terminal back when it is interrupted or dies", () =>
    Effect.gen(function* () {
      for (const end of [Effect.interrupt, Effect.die("a defect")]) {
        const output = new FakeTerminal(60)
        yield* emit(dispatched(0)).pipe(
          Effect.zipRight(TestClock.adjust("1 second")),
          Effect.zipRight(Effect.sync(() => assert.isFalse(output.cursorShown))),
          Effect.zipRight(end),
          Effect.provide(ProgressDisplay.layer({ ...options, output })),
          Effect.exit
        )
        assert.isTrue(output.cursorShown)
        assert.deepStrictEqual(output.lines, [])
      }
    })
  )

  it.effect("writes plain lines where nothing can stay in place", () =>
    Effect.gen(function* () {
      const output = new FakeTerminal(20)
      yield* Effect.gen(function* () {
        yield* emit(dispatched(0))
        yield* emit(opened(0))
        yield* emit(stepped(0, 0, "a"))
        yield* TestClock.adjust("40 seconds")
        yield* emit(finished(scored(0)))
        yield* emit(dispatched(1))
        yield* emit(finished(masked(1)))
      }).pipe(Effect.provide(ProgressDisplay.layer({ expected: 3, concurrency: 1, output, terminal: false })))
      assert.deepStrictEqual(output.lines, [
        "started os/task-0 (1 of 3)",
        "✔ os/task-0 reward 1 · 0 steps · agent_done · 12 s | 1/3 done · mean reward 1.00 (1 scored, 0 masked, 0 failed) · 0 running · about 1 min left",
        "started os/task-1 (2 of 3)",
        "! os/task-1 masked: environment_lost: the desktop is gone | 2/3 done · mean reward 1.00 (1 scored, 1 masked, 0 failed) · 0 running · about 20 s left"
      ])
    })
  )
})
