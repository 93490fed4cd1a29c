import { assert, describe, it } from "@effect/vitest"
import * as FastCheck from "effect/FastCheck"
import { labels } from "../../../src/sandbox/internal/driver.js"
import * as Labels from "../../../src/sandbox/internal/labels.js"

const metadata = FastCheck.dictionary(FastCheck.string(), FastCheck.string(), { noNullPrototype: true })

const encoded = (values: Readonly<Record<string, string>>) =>
  Labels.encode({ attemptKey: "dh-1", deployment: "here", owner: "o", metadata: values })

describe("labels", () => {
  it.prop("metadata comes back as it was, whatever its keys", [metadata], ([values]) => {
    assert.deepStrictEqual(Object.entries(Labels.metadata(encoded(values))).sort(), Object.entries(values).sort())
  })

  it.prop("a sandbox is found by any part of its metadata, and in its deployment alone", [metadata], ([values]) => {
    const some = Object.fromEntries(Object.entries(values).slice(1))
    assert.isTrue(Labels.match(Labels.selector("here", some), encoded(values)))
    assert.isFalse(Labels.match(Labels.selector("there", some), encoded(values)))
    assert.isFalse(Labels.match(Labels.selector("here", { ...some, "no such key": "x" }), encoded(some)))
  })

  it("metadata cannot stand in for a label of ours", () => {
    assert.strictEqual(encoded({ [labels.attempt]: "x" })[labels.attempt], "dh-1")
  })
})
