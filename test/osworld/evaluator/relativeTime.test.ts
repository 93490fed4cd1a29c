import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as FastCheck from "effect/FastCheck"
import * as Schema from "effect/Schema"
import * as TestClock from "effect/TestClock"
import { GuestError, type GuestErrorReason } from "../../../src/desktop/GuestError.js"
import { getters } from "../../../src/osworld/evaluator/internal/getters/relativeTime.js"
import type { Value } from "../../../src/osworld/evaluator/Metric.js"
import * as RelativeTime from "../../../src/osworld/evaluator/relativeTime.js"
import { contextOf, getWith } from "./chromeSupport.js"
import { rightOf } from "./support.js"

const iso = "{Year}-{Month0D}-{Day0D}"
const rulesOf = (from: RelativeTime.Phrase, to?: RelativeTime.Phrase): RelativeTime.Rules => ({
  relativeTime: to === undefined ? { from } : { from, to },
  expected: to === undefined ? { time: iso } : { from: iso, to: iso }
})

const strict = { compat: false }

const single = (phrase: RelativeTime.Phrase, now: RelativeTime.Day): unknown =>
  rightOf(RelativeTime.resolve(rulesOf(phrase), now, strict)).expected["time"]

const range = (from: RelativeTime.Phrase, to: RelativeTime.Phrase, now: RelativeTime.Day): ReadonlyArray<unknown> => {
  const { expected } = rightOf(RelativeTime.resolve(rulesOf(from, to), now, strict))
  return [expected["from"], expected["to"]]
}

// Weekdays as the calendar has them: 2026-11-29 is a Sunday.
const sunday = { year: 2026, month: 11, day: 29 }
const monday = { year: 2026, month: 11, day: 30 }
const friday = { year: 2026, month: 12, day: 4 }
const saturday = { year: 2026, month: 12, day: 5 }

describe("days that rules speak of", () => {
  it("days after today and of next month, over the ends of months and years", () => {
    assert.strictEqual(single("tomorrow", { year: 2026, month: 12, day: 31 }), "2027-01-01")
    assert.strictEqual(single("tomorrow", { year: 2028, month: 2, day: 28 }), "2028-02-29")
    assert.strictEqual(single("5th next month", { year: 2026, month: 12, day: 31 }), "2027-01-05")
    assert.strictEqual(single("10th next month", { year: 2026, month: 1, day: 31 }), "2026-02-10")
    assert.deepStrictEqual(range("10th next month", "11th next month", monday), ["2026-12-10", "2026-12-11"])
    assert.strictEqual(single("this month", sunday), "2026-11-29")
  })

  it("weekdays: next Monday is never today, and next week begins there", () => {
    assert.strictEqual(single("next Monday", sunday), "2026-11-30")
    assert.strictEqual(single("next Monday", monday), "2026-12-07")
    assert.deepStrictEqual(range("next Monday", "next Friday", sunday), ["2026-11-30", "2026-12-04"])
    assert.deepStrictEqual(range("next Monday", "next Friday", friday), ["2026-12-07", "2026-12-11"])
    assert.deepStrictEqual(range("next week Friday", "next week Sunday", friday), ["2026-12-11", "2026-12-13"])
    assert.deepStrictEqual(range("next week Saturday", "next week Sunday", sunday), ["2026-12-05", "2026-12-06"])
    assert.deepStrictEqual(range("next Friday", "next Sunday", friday), ["2026-12-11", "2026-12-13"])
    assert.deepStrictEqual(range("next Friday", "next Sunday", monday), ["2026-12-04", "2026-12-06"])
    assert.deepStrictEqual(range("next Saturday", "next Sunday", saturday), ["2026-12-12", "2026-12-13"])
    assert.deepStrictEqual(range("this Saturday", "this Sunday", monday), ["2026-12-05", "2026-12-06"])
  })

  it("the first Monday in some months, December too, where upstream counts it as month 0", () => {
    // First Mondays by the calendar: 2026-12-07, 2027-02-01, 2027-03-01.
    assert.strictEqual(single("first monday four months later", { year: 2026, month: 8, day: 20 }), "2026-12-07")
    assert.strictEqual(single("first monday eight months later", { year: 2026, month: 4, day: 1 }), "2026-12-07")
    assert.strictEqual(single("first monday four months later", { year: 2026, month: 10, day: 31 }), "2027-02-01")
    assert.strictEqual(single("first monday four months later", sunday), "2027-03-01")
    for (const [phrase, month] of [
      ["first monday four months later", 8],
      ["first monday eight months later", 4]
    ] as const) {
      const compat = RelativeTime.resolve(rulesOf(phrase), { year: 2026, month, day: 3 }, { compat: true })
      assert.include(String(Either.getLeft(compat)), "month 0")
    }
    const other = RelativeTime.resolve(rulesOf("first monday four months later"), sunday, { compat: true })
    assert.strictEqual(rightOf(other).expected["time"], "2027-03-01")
  })

  it("templates: each placeholder where it first stands, in texts and lists", () => {
    assert.strictEqual(
      RelativeTime.fill("{DoW}, {Month} {Day0D}, {Year} {MonthFull} {month} {MonthD} {Month0D} {DayD}", {
        year: 2027,
        month: 3,
        day: 5
      }),
      "Fri, Mar 05, 2027 March march 3 03 5"
    )
    assert.strictEqual(RelativeTime.fill("{DayD}{DayD}{Dow}", sunday), "29{DayD}{Dow}")
    const rules: RelativeTime.Rules = {
      relativeTime: { from: "tomorrow" },
      expected: { time: ["{DayD} {Month}", "{Month} {DayD}"], place: "{Year}" },
      timezone: "UTC"
    }
    const resolved = rightOf(RelativeTime.resolve(rules, sunday, strict))
    assert.deepStrictEqual(resolved.expected, { time: ["30 Nov", "Nov 30"], place: "{Year}" })
    // What was given stays, so that it can be asked again.
    assert.deepStrictEqual(rules.expected["time"], ["{DayD} {Month}", "{Month} {DayD}"])
    assert.deepStrictEqual(rightOf(RelativeTime.resolve(rules, sunday, strict)), resolved)
  })

  it("split days fill six keys", () => {
    const parts = { puDay: "{DayD}", puMonth: "{MonthD}", puYear: "{Year}" }
    const rules: RelativeTime.Rules = {
      relativeTime: { from: "next Monday split", to: "next Friday split" },
      expected: { ...parts, doDay: "{DayD}", doMonth: "{MonthD}", doYear: "{Year}", location: "Zürich" }
    }
    assert.deepStrictEqual(rightOf(RelativeTime.resolve(rules, sunday, strict)).expected, {
      puDay: "30",
      puMonth: "11",
      puYear: "2026",
      doDay: "4",
      doMonth: "12",
      doYear: "2026",
      location: "Zürich"
    })
  })

  it("rules that make no sense are refused", () => {
    const decode = Schema.decodeUnknownEither(RelativeTime.Rules)
    assert.isTrue(Either.isLeft(decode({ relativeTime: { from: "some day" }, expected: { time: iso } })))
    assert.isTrue(Either.isLeft(decode({ relativeTime: {}, expected: {} })))
    const missing = RelativeTime.resolve({ relativeTime: { from: "tomorrow" }, expected: {} }, sunday, strict)
    assert.include(String(Either.getLeft(missing)), "expected.time is missing")
    const number = RelativeTime.resolve({ relativeTime: { from: "tomorrow" }, expected: { time: 5 } }, sunday, strict)
    assert.include(String(Either.getLeft(number)), "not 5")
  })

  it("every phrase names a day from yesterday on and within nine months", () => {
    FastCheck.assert(
      FastCheck.property(
        FastCheck.constantFrom(...RelativeTime.Phrase.literals),
        FastCheck.date({ min: new Date("2000-01-01"), max: new Date("2100-01-01"), noInvalidDate: true }),
        (phrase, date) => {
          const now = { year: date.getUTCFullYear(), month: date.getUTCMonth() + 1, day: date.getUTCDate() }
          const split = phrase.endsWith(" split")
          const rules: RelativeTime.Rules = {
            relativeTime: { from: phrase },
            expected: { time: iso, puDay: iso, puMonth: "", puYear: "" }
          }
          const found = rightOf(RelativeTime.resolve(rules, now, strict)).expected[split ? "puDay" : "time"]
          const days = (Date.parse(String(found)) - Date.UTC(now.year, now.month - 1, now.day)) / 86_400_000
          return Number.isInteger(days) && days >= -1 && days <= 280
        }
      )
    )
  })

  it("today is what it is in the zone", () => {
    // 2026-11-29T23:30Z: already Monday in Zürich (UTC+1 in winter), still Sunday in New York.
    const instant = Date.parse("2026-11-29T23:30:00Z")
    assert.deepStrictEqual(rightOf(RelativeTime.dayAt(instant, "Europe/Zurich", strict)), monday)
    assert.deepStrictEqual(rightOf(RelativeTime.dayAt(instant, "America/New_York", strict)), sunday)
    assert.include(String(Either.getLeft(RelativeTime.dayAt(instant, "Mars/Olympus", strict))), "Mars/Olympus")
    assert.deepStrictEqual(rightOf(RelativeTime.dayAt(instant, "Mars/Olympus", { compat: true })), sunday)
  })
})

describe("rule_relativeTime", () => {
  const parameters = (timezone?: string) => ({
    rules: {
      relativeTime: { from: "tomorrow" },
      expected: { time: iso },
      ...(timezone === undefined ? {} : { timezone })
    }
  })
  const guest = (stdout: string, exitCode = 0) => ({
    execute: () => Effect.succeed({ stdout, stderr: "", exitCode })
  })
  const time = (value: Value | string): unknown =>
    typeof value !== "string" && value._tag === "Json"
      ? Schema.decodeUnknownSync(Schema.Struct({ expected: Schema.Struct({ time: Schema.Unknown }) }))(value.json)
          .expected.time
      : value

  it.effect("takes the task's zone, else the guest's day, else UTC's", () =>
    Effect.gen(function* () {
      yield* TestClock.setTime(Date.parse("2026-11-29T23:30:00Z"))
      const get = (stdout: string, timezone?: string, exitCode?: number) =>
        Effect.map(
          getWith(getters, "rule_relativeTime", parameters(timezone), contextOf(guest(stdout, exitCode))),
          time
        )
      assert.strictEqual(yield* get("2031-02-28\n", "Europe/Zurich"), "2026-12-01")
      assert.strictEqual(yield* get("2031-02-28\n"), "2031-03-01")
      assert.strictEqual(yield* get("no clock here"), "2026-11-30")
      assert.strictEqual(yield* get("2031-02-28\n", undefined, 1), "2026-11-30")
      assert.include(String(yield* get("", "Mars/Olympus")), "Mars/Olympus")
      const failing = (reason: GuestErrorReason) =>
        contextOf({ execute: () => Effect.fail(new GuestError({ operation: "execute", reason })) })
      const refusing = failing({ _tag: "Refused", status: 500, detail: "no such command: date" })
      assert.strictEqual(time(yield* getWith(getters, "rule_relativeTime", parameters(), refusing)), "2026-11-30")
      // Near midnight this host's day is another one than the guest's: who does not answer has not said "today".
      const down = failing({ _tag: "Unreachable", detail: "gone" })
      for (const rules of [parameters(), { rules: {} }]) {
        assert.include(String(yield* getWith(getters, "rule_relativeTime", rules, down)), "rule_relativeTime failed")
      }
    })
  )
})
