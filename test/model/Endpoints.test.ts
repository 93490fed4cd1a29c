import { assert, describe, it } from "@effect/vitest"
import * as FastCheck from "effect/FastCheck"
import { affinity, choose, type Endpoints, isUp, make, markDown, markUp } from "../../src/model/Endpoints.js"

const runs = { numRuns: 1000 }

const urls = FastCheck.integer({ min: 1, max: 6 }).map((count): Endpoints["urls"] => [
  "http://127.0.0.1:8000/v1",
  ...Array.from({ length: count - 1 }, (_, index) => `http://127.0.0.1:${8001 + index}/v1`)
])

const keys = FastCheck.uniqueArray(FastCheck.string({ maxLength: 12 }), { minLength: 1, maxLength: 40 })

const failures = FastCheck.array(FastCheck.tuple(FastCheck.nat(5), FastCheck.nat(1000)), { maxLength: 12 })

const failing = (state: Endpoints, all: ReadonlyArray<readonly [index: number, now: number]>): Endpoints =>
  all.reduce((before, [index, now]) => markDown(before, state.urls[index % state.urls.length] ?? "", now), state)

describe("Endpoints", () => {
  it("sends a key where the field sends it", () => {
    // int.from_bytes(hashlib.sha256(key.encode()).digest()[:8], "big") % count, in Python 3.
    assert.strictEqual(affinity("0-0", 3), 2)
    assert.strictEqual(affinity("0-1", 3), 0)
    assert.strictEqual(affinity("12-3-a1", 4), 3)
    assert.strictEqual(affinity("rollout é", 5), 1)
    assert.strictEqual(affinity("", 2), 0)
  })

  it("keeps a key at its own address while all are up", () => {
    FastCheck.assert(
      FastCheck.property(urls, FastCheck.string(), FastCheck.nat(), (all, key, now) => {
        assert.strictEqual(choose(make(all), key, now), all[affinity(key, all.length)])
      }),
      runs
    )
  })

  it("moves only keys whose address is down, to one that is up, and back after the probe interval", () => {
    FastCheck.assert(
      FastCheck.property(urls, keys, failures, (all, some, failed) => {
        const fresh = make(all, { probeAfter: 500 })
        const state = failing(fresh, failed)
        const now = 1000
        const anyUp = all.some((url) => isUp(state, url, now))
        for (const key of some) {
          const home = choose(fresh, key, now)
          const chosen = choose(state, key, now)
          if (isUp(state, home, now) || !anyUp) assert.strictEqual(chosen, home)
          else assert.isTrue(isUp(state, chosen, now))
          assert.strictEqual(choose(state, key, now + 501), home)
        }
      }),
      runs
    )
  })

  it("moves no key twice for the failure of an address that it is not at", () => {
    FastCheck.assert(
      FastCheck.property(urls, keys, failures, FastCheck.nat(5), (all, some, failed, index) => {
        const state = failing(make(all, { probeAfter: 5000 }), failed)
        const broken = all[index % all.length] ?? all[0]
        const worse = markDown(state, broken, 1000)
        const anyUp = all.some((url) => isUp(worse, url, 1000))
        for (const key of some) {
          const before = choose(state, key, 1000)
          if (before !== broken && anyUp) assert.strictEqual(choose(worse, key, 1000), before)
        }
      }),
      runs
    )
  })

  it("spreads the keys of an address that is down over all others", () => {
    const all: Endpoints["urls"] = ["http://a", "http://b", "http://c", "http://d"]
    const state = markDown(make(all), "http://a", 0)
    const moved = Array.from({ length: 4000 }, (_, index) => `${index}-0`).filter((key) => affinity(key, 4) === 0)
    for (const url of ["http://b", "http://c", "http://d"]) {
      const share = moved.filter((key) => choose(state, key, 1) === url).length / moved.length
      // A third each; with about 1,000 keys, three standard deviations are 0.045.
      assert.closeTo(share, 1 / 3, 0.045)
    }
  })

  it("is up as soon as it answers, and down again for as long when the probe fails", () => {
    const all: Endpoints["urls"] = ["http://a", "http://b"]
    const down = markDown(make(all), "http://a", 0)
    assert.isFalse(isUp(down, "http://a", 29_999))
    assert.isTrue(isUp(down, "http://a", 30_000))
    assert.isFalse(isUp(markDown(down, "http://a", 30_000), "http://a", 59_999))
    assert.isTrue(isUp(markUp(down, "http://a"), "http://a", 1))
    assert.strictEqual(markDown(down, "http://elsewhere", 0), down)
  })
})
