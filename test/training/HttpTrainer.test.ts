import * as NodeHttpClient from "@effect/platform-node/NodeHttpClient"
import { assert, describe, it } from "@effect/vitest"
import * as ConfigProvider from "effect/ConfigProvider"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import * as Schedule from "effect/Schedule"
import * as ChainPolicy from "../../src/training/ChainPolicy.js"
import * as HttpTrainer from "../../src/training/HttpTrainer.js"
import * as ReferenceTrainer from "../../src/training/ReferenceTrainer.js"
import { Trainer, type UpdateBatch } from "../../src/training/Trainer.js"
import * as TrainerServer from "./trainerServer.js"

const task = ChainPolicy.standardTask

/** Decision 0 took action 2, then decision 1 action 0, after one token of text. */
const tokenIds = Int32Array.of(7, 4, 2, 5, 0)

const update = (id: string, version: number): UpdateBatch => ({
  id,
  version,
  loss: { name: "on_policy" },
  rows: [
    {
      id: "a_g0_s0",
      tokenIds,
      weight: Float64Array.of(0, 0.25, 0, 0.125),
      previous: Float64Array.of(0, Math.log(0.25), 0, Math.log(0.25)),
      advantage: 0.75
    },
    {
      id: "a_g1_s0",
      tokenIds: Int32Array.of(7, 4, 1),
      weight: Float64Array.of(0, 0.5),
      previous: Float64Array.of(0, Math.log(0.25)),
      advantage: -0.25
    }
  ]
})

const quickly = Schedule.intersect(Schedule.spaced("1 millis"), Schedule.recurs(3))

const against = (
  fault: Parameters<typeof TrainerServer.make>[2],
  options: Partial<HttpTrainer.HttpTrainerOptions> = {}
) =>
  Effect.gen(function* () {
    const server = yield* TrainerServer.make(task, 2, fault)
    // The client lives as long as the test's scope.
    const client = yield* Layer.build(NodeHttpClient.layerUndici)
    const trainer = yield* Effect.provide(HttpTrainer.make({ url: server.url, retry: quickly, ...options }), client)
    return { server, trainer }
  })

const once = (answer: { readonly status: number; readonly body: unknown } | "lost") => (request: number) =>
  request === 0 ? answer : undefined

describe("HttpTrainer", () => {
  it.scopedLive("scores, updates and publishes, as the reference trainer in this process does", () =>
    Effect.gen(function* () {
      const { server, trainer } = yield* against(undefined)
      const reference = yield* ReferenceTrainer.make({ task, learningRate: 2 })
      const rows = [{ id: "a_g0_s0", tokenIds }]
      assert.strictEqual(yield* trainer.version, 0)
      assert.deepStrictEqual(yield* trainer.score(rows), yield* reference.score(rows))
      for (const version of [0, 1, 2]) {
        const [far, near] = yield* Effect.all([
          trainer.update(update(`s${version}`, version)),
          reference.update(update(`s${version}`, version))
        ])
        assert.strictEqual(far.version, version + 1)
        assert.closeTo(far.loss, near.loss, 1e-12)
        assert.closeTo(far.gradientNorm, near.gradientNorm, 1e-12)
      }
      const near = (yield* reference.current).policy
      for (const [at, logit] of server.policy().logits.entries()) assert.closeTo(logit, near.logits[at] ?? 9, 1e-12)
      yield* trainer.publish(3)
      assert.include((yield* Effect.flip(trainer.publish(2))).message, "conflict): it answered 409: at version 3")
      assert.deepStrictEqual(yield* trainer.score([]), [])
    })
  )

  it.scopedLive("takes a step once, though its answer was lost and it was asked again", () =>
    Effect.gen(function* () {
      const { server, trainer } = yield* against(once("lost"))
      const report = yield* trainer.update(update("s0", 0))
      assert.deepStrictEqual([report.version, server.version()], [1, 1])
      assert.deepStrictEqual(server.requests, ["POST /v1/update", "POST /v1/update"])
    })
  )

  it.scopedLive("asks again while the trainer is busy, and gives up in the end", () =>
    Effect.gen(function* () {
      const busy = yield* against((request) => (request < 2 ? { status: 503, body: "" } : undefined))
      assert.strictEqual(yield* busy.trainer.version, 0)
      assert.strictEqual(busy.server.requests.length, 3)
      const dead = yield* against(() => ({ status: 500, body: { error: "out of memory" } }))
      const error = yield* Effect.flip(dead.trainer.update(update("s0", 0)))
      assert.deepStrictEqual([error.reason, error.attempts, dead.server.requests.length], ["unavailable", 4, 4])
      assert.include(error.message, `the trainer ${dead.server.url} failed after 4 tries (update, unavailable)`)
      assert.include(error.message, "out of memory")
    })
  )

  it.scopedLive("asks once where asking again does not help", () =>
    Effect.gen(function* () {
      for (const [status, reason] of [
        [400, "refused"],
        [401, "unauthorised"],
        [403, "unauthorised"],
        [409, "conflict"]
      ] as const) {
        const { server, trainer } = yield* against(() => ({ status, body: { error: "no" } }))
        const error = yield* Effect.flip(trainer.update(update("s0", 0)))
        assert.deepStrictEqual([error.reason, server.requests.length], [reason, 1])
      }
    })
  )

  it.scopedLive("shows its token", () =>
    Effect.gen(function* () {
      const { server, trainer } = yield* against(undefined, { token: Redacted.make("secret-1") })
      yield* trainer.version
      yield* trainer.score([{ id: "r", tokenIds }])
      assert.deepStrictEqual(server.authorizations, ["Bearer secret-1", "Bearer secret-1"])
    })
  )

  it.scopedLive("takes no answer for another: rows, lengths, numbers, versions", () =>
    Effect.gen(function* () {
      const rows = [{ id: "r", tokenIds }]
      for (const [body, said] of [
        [{ rows: [] }, "asked for 1 rows and answered 0"],
        [{ rows: [{ id: "q", logprobs: [0, -1, 0, -1] }] }, "row r was asked for, and q is in its place"],
        [{ rows: [{ id: "r", logprobs: [0, -1, 0] }] }, "5 tokens, and 3 log-probabilities"],
        [{ rows: [{ id: "r", logprobs: [0, 0.1, 0, -1] }] }, "rows.0.logprobs.1: Expected a non-positive number"],
        [{ rows: [{ id: "r", logprobs: [0, null, 0, -1] }] }, "rows.0.logprobs.1: Expected number"],
        ["<html>", "The answer should follow the schema"]
      ] as const) {
        const { trainer } = yield* against(once({ status: 200, body }))
        const error = yield* Effect.flip(trainer.score(rows))
        assert.strictEqual(error.reason, "reply")
        assert.include(error.message, said)
      }
      const skipped = yield* against(once({ status: 200, body: { version: 2, loss: 0, gradient_norm: 0 } }))
      const error = yield* Effect.flip(skipped.trainer.update(update("s0", 0)))
      assert.include(error.message, "a step from version 0 gives 1, and it says 2")
    })
  )

  it.scopedLive("sends nothing that is no number", () =>
    Effect.gen(function* () {
      const { server, trainer } = yield* against(undefined)
      const [row] = update("s0", 0).rows
      if (row === undefined) return
      const wrong = { ...update("s0", 0), rows: [{ ...row, advantage: Number.NaN }] }
      const error = yield* Effect.flip(trainer.update(wrong))
      assert.strictEqual(error.reason, "refused")
      assert.include(error.message, "it was not sent")
      assert.strictEqual(server.requests.length, 0)
    })
  )

  it.scopedLive("is told by the environment", () =>
    Effect.gen(function* () {
      const server = yield* TrainerServer.make(task, 2)
      const config = new Map([
        ["DESKHAND_TRAINER_URL", `${server.url}/`],
        ["DESKHAND_TRAINER_TOKEN", "secret-2"]
      ])
      const version = yield* Effect.provide(
        Effect.flatMap(Trainer, (trainer) => trainer.version),
        HttpTrainer.layerConfig.pipe(
          Layer.provide(NodeHttpClient.layerUndici),
          Layer.provide(Layer.setConfigProvider(ConfigProvider.fromMap(config)))
        )
      )
      assert.strictEqual(version, 0)
      assert.deepStrictEqual(server.authorizations, ["Bearer secret-2"])
    })
  )

  it("has a JSON schema for every body", () => {
    const schemas = HttpTrainer.jsonSchemas()
    assert.deepStrictEqual(Object.keys(schemas).sort(), [
      "PublishRequest",
      "ScoreReply",
      "ScoreRequest",
      "UpdateReply",
      "UpdateRequest",
      "VersionReply"
    ])
    assert.nestedPropertyVal(schemas["UpdateRequest"], "properties.rows.type", "array")
  })
})
