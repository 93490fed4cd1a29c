/** The database that gives Chrome a past; Chromium itself takes it in SetupChrome.test.ts. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as FastCheck from "effect/FastCheck"
import * as Sqlite from "../../src/osworld/evaluator/internal/sqlite.js"
import * as BrowseHistory from "../../src/osworld/internal/browseHistory.js"

describe("browseHistory", () => {
  it("counts from 1601: the first day of 1970 is 11644473600 s after it", () => {
    assert.strictEqual(BrowseHistory.chromeTime(0), 11_644_473_600_000_000n)
    assert.strictEqual(BrowseHistory.chromeTime(1_700_000_000_123), 13_344_473_600_123_000n)
  })

  const visits = FastCheck.array(
    FastCheck.record({
      url: FastCheck.constantFrom("http://a.test/", "http://b.test/", "http://c.test/'\"%"),
      title: FastCheck.string(),
      at: FastCheck.integer({ min: 0, max: 4_000_000_000_000 })
    }),
    { maxLength: 8 }
  )

  it.effect.prop(
    "holds every visit, each address once, with its latest time and exact microseconds",
    { visits },
    ({ visits }) =>
      Effect.gen(function* () {
        const database = yield* BrowseHistory.make(visits)
        const urls = yield* Sqlite.table(database, undefined, "urls", ["id", "url", "visit_count", "last_visit_time"])
        const made = yield* Sqlite.table(database, undefined, "visits", ["url", "transition"])
        assert.strictEqual(made.length, visits.length)
        // PageTransition: LINK, CHAIN_START and CHAIN_END.
        assert.isTrue(made.every(([, transition]) => transition === 805_306_368))
        const distinct = new Set(visits.map(({ url }) => url))
        assert.deepStrictEqual(new Set(urls.map(([, url]) => url)), distinct)
        for (const [id, url, count, last] of urls) {
          const own = visits.filter((visit) => visit.url === url)
          assert.strictEqual(count, own.length)
          assert.strictEqual(made.filter(([each]) => each === id).length, own.length)
          const expected = Math.max(...own.map(({ at }) => at)) + 11_644_473_600_000
          assert.strictEqual(Math.round(Number(last) / 1000), expected)
        }
        const exact = yield* Sqlite.first(database, "SELECT CAST(MAX(last_visit_time) AS TEXT) FROM urls")
        if (visits.length > 0) {
          assert.strictEqual(exact, String(BrowseHistory.chromeTime(Math.max(...visits.map(({ at }) => at)))))
        }
      }),
    { fastCheck: { numRuns: 25 } }
  )
})
