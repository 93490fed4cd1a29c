import * as FileSystem from "@effect/platform/FileSystem"
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as FC from "effect/FastCheck"
import { render } from "../../src/cli/Verify.js"
import { RolloutIdentity } from "../../src/identity/Identity.js"
import { ModelReply } from "../../src/model/ModelClient.js"
import { ModelCall, PlanFacts, Replied } from "../../src/rollout/Agent.js"
import { Evidence, type EvidenceRecord, Started } from "../../src/rollout/Evidence.js"
import { canonical, firstDifference } from "../../src/rollout/internal/evidence/json.js"
import * as Verify from "../../src/rollout/Verify.js"
import * as Fixture from "./evidenceFixture.js"

const { policy } = Fixture
const options = { replay: Fixture.replay(policy) }

const kinds = (report: Verify.VerifyReport) => Verify.faultsOf(report).map(({ kind }) => kind)

/** A run whose records are changed on their way to the disk: what the digests cannot tell, because they are right. */
const changed = (
  change: (record: EvidenceRecord) => EvidenceRecord,
  shape: Fixture.Options = { steps: 4, tokens: true }
) =>
  Fixture.withRun((out) =>
    Effect.gen(function* () {
      yield* Fixture.run(out, policy.id, shape)
      const records = yield* Fixture.episode(policy.id, shape)
      yield* Fixture.write(out, records.map(change))
      return yield* Verify.run(out, options)
    })
  )

const call = (at: number, change: (call: ModelCall) => ModelCall) => (record: EvidenceRecord) =>
  record._tag === "Called" && record.step === at ? { ...record, call: change(record.call) } : record

describe("Verify", () => {
  it.effect("finds nothing wrong with a whole run, and makes each prompt again", () =>
    Fixture.withRun((out) =>
      Effect.gen(function* () {
        yield* Fixture.run(out, policy.id, { steps: 6, tokens: true, retry: true })
        const report = yield* Verify.run(out, options)
        assert.deepStrictEqual(Verify.faultsOf(report), [])
        const [rollout] = report.rollouts
        // A head, 7 observations, 6 steps of a call and an action, a retry, an end and a verdict.
        assert.deepStrictEqual(
          { ...rollout, faults: [] },
          { stem: "task-0.0-0", records: 1 + 7 + 12 + 1 + 2, steps: 6, calls: 7, replayed: 7, replanned: 7, faults: [] }
        )
        assert.strictEqual(report.blobs, 7)
      })
    )
  )

  it.effect("makes the plans again where it does not know the agent", () =>
    Fixture.withRun((out) =>
      Effect.gen(function* () {
        yield* Fixture.run(out, policy.id, { steps: 6, retry: true })
        const report = yield* Verify.run(out)
        assert.deepStrictEqual(Verify.faultsOf(report), [])
        assert.deepStrictEqual([report.rollouts[0]?.replayed, report.rollouts[0]?.replanned], [0, 7])
      })
    )
  )

  it.effect(
    "finds any single bit that is flipped in evidence or in a blob",
    () =>
      Fixture.withRun((out) =>
        Effect.gen(function* () {
          const fs = yield* FileSystem.FileSystem
          const evidence = yield* Fixture.run(out, policy.id, { steps: 2, tokens: true })
          const blobs = yield* fs.readDirectory(`${out}/blobs`)
          const files = [evidence, ...blobs.map((name) => `${out}/blobs/${name}`)]
          const flips = FC.sample(
            FC.record({
              file: FC.nat(9),
              place: FC.double({ min: 0, max: 1, maxExcluded: true, noNaN: true }),
              bit: FC.nat(7)
            }),
            { numRuns: 150, seed: 1 }
          )
          // The last byte of a file, its newline, is the one that lines alone would not tell.
          for (const flip of [{ file: 0, place: 0.9999999, bit: 0 }, ...flips]) {
            const file = (flip.file < 7 ? undefined : files[1 + (flip.file % blobs.length)]) ?? evidence
            const bytes = yield* fs.readFile(file)
            const at = Math.floor(flip.place * bytes.length)
            const other = Uint8Array.from(bytes)
            other[at] = (bytes[at] ?? 0) ^ (1 << flip.bit)
            yield* fs.writeFile(file, other)
            const report = yield* Verify.run(out, options)
            const faults = Verify.faultsOf(report)
            assert.isNotEmpty(faults, `${file}, byte ${at}, bit ${flip.bit}`)
            assert.isTrue(
              faults.some(({ path }) => path === file),
              `${file}, byte ${at}, bit ${flip.bit}`
            )
            yield* fs.writeFile(file, bytes)
          }
          assert.deepStrictEqual(Verify.faultsOf(yield* Verify.run(out, options)), [])
        })
      ),
    120_000
  )

  it.effect("names the first byte at which a prompt differs from the one made again", () =>
    Effect.gen(function* () {
      const report = yield* changed(call(2, (call) => new ModelCall({ ...call, messages: call.messages.slice(0, -1) })))
      assert.deepStrictEqual(kinds(report), ["prompt_differs"])
      assert.match(
        Verify.faultsOf(report)[0]?.message ?? "",
        /task-0\.0-0\.jsonl:\d+: prompt_differs: the prompt, byte \d+: expected ".+", found ".+"/
      )
    })
  )

  it.effect("names a plan that the policy does not make", () =>
    Effect.gen(function* () {
      const report = yield* changed(
        call(
          3,
          (call) =>
            new ModelCall({
              ...call,
              ...(call.plan === undefined ? {} : { plan: new PlanFacts({ ...call.plan, compaction: false }) })
            })
        )
      )
      assert.deepStrictEqual(kinds(report), ["plan_differs"])
    })
  )

  it.effect("names a plan of another policy", () =>
    Effect.gen(function* () {
      const report = yield* changed(
        call(
          3,
          (call) =>
            new ModelCall({
              ...call,
              ...(call.plan === undefined ? {} : { plan: new PlanFacts({ ...call.plan, policyId: "another" }) })
            })
        )
      )
      assert.deepStrictEqual(kinds(report), ["foreign_id", "plan_differs"])
    })
  )

  it.effect("names a call that is missing and a step that was not observed", () =>
    Fixture.withRun((out) =>
      Effect.gen(function* () {
        yield* Fixture.run(out, policy.id, { steps: 4 })
        const records = yield* Fixture.episode(policy.id, { steps: 4 })
        yield* Fixture.write(
          out,
          records.filter((record) => !("step" in record) || record.step !== 2)
        )
        assert.includeMembers(kinds(yield* Verify.run(out, options)), ["gap", "row_differs"])
      })
    )
  )

  it.effect("names an end that is not on record, and a record after the end", () =>
    Fixture.withRun((out) =>
      Effect.gen(function* () {
        yield* Fixture.run(out, policy.id, { steps: 2 })
        const records = yield* Fixture.episode(policy.id, { steps: 2 })
        yield* Fixture.write(out, records.slice(0, -1))
        assert.deepStrictEqual(kinds(yield* Verify.run(out, options)), ["unfinished"])
        yield* Fixture.write(out, records.slice(0, -2))
        assert.deepStrictEqual(kinds(yield* Verify.run(out, options)), ["unfinished"])
        yield* Fixture.write(out, [...records, ...records.slice(-1)])
        assert.deepStrictEqual(kinds(yield* Verify.run(out, options)), ["out_of_order"])
      })
    )
  )

  it.effect("names a blob that is missing, and the line that refers to it", () =>
    Fixture.withRun((out) =>
      Effect.gen(function* () {
        const fs = yield* FileSystem.FileSystem
        const file = yield* Fixture.run(out, policy.id, { steps: 2 })
        const [first] = (yield* fs.readDirectory(`${out}/blobs`)).sort()
        yield* fs.remove(`${out}/blobs/${first}`)
        const faults = Verify.faultsOf(yield* Verify.run(out, options))
        assert.deepStrictEqual(
          faults.map(({ kind, path }) => ({ kind, path })),
          [{ kind: "missing_blob", path: file }]
        )
        assert.isDefined(faults[0]?.line)
      })
    )
  )

  it.effect("names another rollout's evidence under this one's name", () =>
    Fixture.withRun((out) =>
      Effect.gen(function* () {
        const fs = yield* FileSystem.FileSystem
        const file = yield* Fixture.run(out, policy.id, { steps: 2 })
        yield* fs.copyFile(file, `${out}/evidence/task-0.1-0.jsonl`)
        const report = yield* Verify.run(out, options)
        assert.deepStrictEqual(kinds(report), ["foreign_id", "row_missing"])
      })
    )
  )

  it.effect("names what a row says otherwise", () =>
    Fixture.withRun((out) =>
      Effect.gen(function* () {
        const fs = yield* FileSystem.FileSystem
        yield* Fixture.run(out, policy.id, { steps: 2 })
        const rows = yield* fs.readFileString(`${out}/rollouts.jsonl`)
        const told = (from: string, to: string) =>
          Effect.gen(function* () {
            assert.include(rows, from)
            yield* fs.writeFileString(`${out}/rollouts.jsonl`, rows.replace(from, to))
            return Verify.faultsOf(yield* Verify.run(out, options)).map(({ kind, line }) => `${kind} ${line}`)
          })
        assert.deepStrictEqual(yield* told('"reward":1', '"reward":0.5'), ["row_differs 1"])
        assert.deepStrictEqual(yield* told('"act 1"', '"act 2"'), ["row_differs 1"])
        assert.deepStrictEqual(yield* told('"agent_done"', '"max_steps"'), ["row_differs 1"])
        assert.deepStrictEqual(yield* told('"task_id":"task-0","domain"', '"task_id":"task-9","domain"'), [
          "evidence_missing 1",
          "row_missing undefined"
        ])
        assert.deepStrictEqual(yield* told("{", ""), ["unreadable 1", "row_missing undefined"])
      })
    )
  )

  it.effect("names tokens that do not go on where the messages do", () =>
    Fixture.withRun((out) =>
      Effect.gen(function* () {
        const shape = { steps: 2, tokens: true }
        yield* Fixture.run(out, policy.id, shape)
        const records = yield* Fixture.episode(policy.id, shape)
        yield* Fixture.write(
          out,
          records.map((record) => {
            if (record._tag !== "Called" || record.step !== 1 || record.call.result._tag !== "Replied") return record
            const { reply } = record.call.result
            const { tokens } = reply.message
            if (tokens === undefined) return record
            const other = { ...tokens, promptTokenIds: [9, ...tokens.promptTokenIds.slice(1)] }
            const message = Fixture.withTokens(reply.message, other)
            const result = new Replied({ ...record.call.result, reply: new ModelReply({ ...reply, message }) })
            return { ...record, call: new ModelCall({ ...record.call, result }) }
          })
        )
        assert.deepStrictEqual(kinds(yield* Verify.run(out, options)), ["tokens_not_contiguous"])
      })
    )
  )

  it.effect("excuses an attempt that was stopped, once a later one has its row", () =>
    Fixture.withRun((out) =>
      Effect.gen(function* () {
        const fs = yield* FileSystem.FileSystem
        const stopped = yield* Fixture.run(out, policy.id, { steps: 3 })
        const whole = yield* fs.readFileString(stopped)
        // It was stopped in the middle of a line, as a disk that is full does it.
        yield* fs.writeFileString(stopped, whole.slice(0, whole.length / 2))

        const later = new RolloutIdentity({ ...Fixture.identity, attemptIndex: 1 })
        const records = (yield* Fixture.episode(policy.id, { steps: 3 })).map((record) =>
          record._tag === "Started" ? new Started({ ...record, identity: later }) : record
        )
        const evidence = yield* Evidence
        yield* Effect.scoped(
          Effect.flatMap(evidence.open(later), (log) => Effect.forEach(records, (record) => log.append(record)))
        )
        const row = { ...Fixture.rowOf(policy.id, records), _ng_attempt_index: 1, _ng_rollout_id: "0-0-a1" }
        const rows = `${out}/rollouts.jsonl`
        yield* fs.writeFileString(rows, `${JSON.stringify(row)}\n`)

        const faults = ["row_missing", "torn_tail", "unfinished"]
        const found = Effect.map(Verify.run(out, options), (report) => kinds(report).sort())
        // Without a journal nobody knows that it was stopped.
        assert.deepStrictEqual(yield* found, faults)
        const entry = (attempt: number, state: object) =>
          `${JSON.stringify({ v: 1, at: 0, rollout: "0-0", attempt, ...state })}\n`
        const open = [
          entry(0, { state: "dispatched", task: "task-0" }),
          entry(0, { state: "unresolved", cause: "stopped" }),
          entry(1, { state: "dispatched", task: "task-0" })
        ].join("")
        yield* fs.writeFileString(`${out}/journal.jsonl`, open)
        const report = yield* Verify.run(out, options)
        assert.deepStrictEqual(Verify.faultsOf(report), [])
        assert.deepStrictEqual(
          report.rollouts.map(({ abandonedFor, stem }) => [stem, abandonedFor]),
          [
            ["task-0.0-0-a1", undefined],
            ["task-0.0-0", 1]
          ]
        )
        assert.include(render(report), "task-0.0-0: abandoned attempt: it was stopped before its end")
        // The later attempt is gone: nothing stands in the place of the first.
        yield* fs.writeFileString(rows, "")
        assert.deepStrictEqual(yield* found, [...faults, "row_missing"].sort())
      })
    )
  )

  it.effect("says that a folder is no run", () =>
    Fixture.withRun((out) =>
      Effect.gen(function* () {
        const error = yield* Effect.flip(Verify.run(`${out}/blobs`, options))
        assert.match(error.message, /blobs holds no evidence of a run/)
      })
    )
  )
})

describe("Canonical JSON for comparing", () => {
  it.prop(
    "is the same whatever the order of the keys",
    { value: FC.dictionary(FC.string(), FC.jsonValue()) },
    ({ value }) => {
      const turned = Object.fromEntries(Object.entries(value).reverse())
      assert.strictEqual(canonical(turned), canonical(value))
      assert.deepStrictEqual(canonical(JSON.parse(canonical(value))), canonical(value))
    }
  )

  it("finds the first byte, not the first character", () => {
    assert.strictEqual(firstDifference("é1", "é2")?.byte, 2)
    assert.strictEqual(firstDifference("a", "ab")?.byte, 1)
    assert.isUndefined(firstDifference("a", "a"))
  })
})
