import { assert, describe, it } from "@effect/vitest"
import * as FastCheck from "effect/FastCheck"
import { liveness, Owner, ownerLabel, parseOwnerLabel, parseStat } from "../../../src/sandbox/internal/owner.js"

const here = Owner.make({ pid: 42, startedAt: "1000", boot: "b", pidNamespace: "pid:[1]" })
const stat = { state: "S", parent: 1, startedAt: "1000" }

describe("owner", () => {
  it.prop("any process name may stand in /proc/<pid>/stat", [FastCheck.string({ maxLength: 15 })], ([name]) => {
    // The layout of proc_pid_stat(5): pid (comm) state ppid ... starttime is field 22.
    const text = `42 (${name}) S 7 42 42 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 1000 9 9\n`
    assert.deepStrictEqual(parseStat(text), { state: "S", parent: 7, startedAt: "1000" })
  })

  it("text that is none is nothing", () => {
    assert.isUndefined(parseStat(""))
    assert.isUndefined(parseStat("42 (x) S 7"))
  })

  it("is alive only as the very process that it was", () => {
    assert.strictEqual(liveness(here, stat, here), "alive")
    assert.strictEqual(liveness(here, undefined, here), "dead")
    assert.strictEqual(liveness(here, { ...stat, startedAt: "1001" }, here), "dead")
    assert.strictEqual(liveness(here, { ...stat, state: "Z" }, here), "dead")
    assert.strictEqual(liveness(here, stat, Owner.make({ ...here, boot: "c" })), "dead")
    assert.strictEqual(liveness(here, stat, Owner.make({ ...here, pidNamespace: "pid:[2]" })), "unknown")
  })

  it("is a label that every service takes, and comes back from it as the same process", () => {
    const boot = "0f8fad5b-d9cb-469f-a165-70867728950e"
    const owner = Owner.make({ pid: 4194304, startedAt: "123456789012", boot, pidNamespace: "pid:[4026531836]" })
    const label = ownerLabel(owner)
    assert.strictEqual(label, "0f8fad5bd9cb.4026531836.4194304.123456789012")
    assert.match(label, /^[A-Za-z0-9.]{1,63}$/)
    const back = parseOwnerLabel(label)
    assert.isDefined(back)
    assert.strictEqual(back === undefined ? "" : ownerLabel(back), label)
    for (const text of ["", "a.b.c", "a.1.x.2", "a.1.2.3.4"]) {
      assert.isUndefined(parseOwnerLabel(text))
    }
  })
})
