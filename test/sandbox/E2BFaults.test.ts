import { assert, describe, it } from "@effect/vitest"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as FC from "effect/FastCheck"
import * as Fiber from "effect/Fiber"
import { Fault, type Operation } from "../../src/testing/E2BServer.js"
import { type Fixture, spec, withProvider } from "./e2b/fixture.js"

const sh = (script: string) => ({ command: ["/bin/sh", "-c", script] as const })

const nothingLeft = ({ folders, ledger, server }: Fixture) =>
  Effect.gen(function* () {
    assert.deepStrictEqual(yield* server.inventory, [])
    assert.strictEqual(folders.size, 0)
    const receipt = yield* ledger.receipt("e2b")
    assert.deepStrictEqual(receipt.left, [])
    return receipt
  })

/** What a create meets, what it says of it, and how many sandboxes came to be for a moment. */
const creates: ReadonlyArray<readonly [string, Fault, string, number]> = [
  ["commit, then lose the reply", Fault.CommitThenLose(), "SandboxCreateAmbiguous", 1],
  [
    "hang beyond the deadline, then commit",
    Fault.HangThenCommit({ delay: "3200 millis" }),
    "SandboxCreateAmbiguous",
    1
  ],
  ["a 201 that makes no sense", Fault.Malformed(), "SandboxCreateAmbiguous", 1],
  ["429 with Retry-After", Fault.RateLimited({ retryAfter: 1 }), "ProviderUnavailable", 0],
  ["429 without it", Fault.RateLimited({ retryAfter: undefined }), "ProviderUnavailable", 0],
  ["503", Fault.Busy(), "SandboxCreateAmbiguous", 0],
  ["500", Fault.Refused({ status: 500 }), "SandboxCreateAmbiguous", 0],
  ["400", Fault.Refused({ status: 400 }), "SandboxCreateRejected", 0],
  ["401", Fault.Refused({ status: 401 }), "ProviderUnavailable", 0],
  ["an empty 404", Fault.EmptyNotFound(), "SandboxCreateRejected", 0]
]

describe("faults of an E2B service", () => {
  for (const [name, fault, tag, existed] of creates) {
    it.live(`create: ${name}`, () =>
      withProvider(
        {},
        ({ provider, server }) =>
          Effect.gen(function* () {
            yield* server.inject("create", fault)
            const error = yield* Effect.flip(provider.acquire(spec()))
            assert.strictEqual(error._tag, tag)
          }),
        (fixture) =>
          Effect.gen(function* () {
            const receipt = yield* nothingLeft(fixture)
            assert.strictEqual(receipt.confirmed, existed)
            // A create is never sent again.
            const sent = (yield* fixture.server.seen).filter(
              ({ method, path }) => method === "POST" && path === "/v2/sandboxes"
            )
            assert.strictEqual(sent.length, 1)
          })
      )
    )
  }

  it.live("a create that hangs is left when its caller is interrupted, and removed when it comes", () =>
    withProvider(
      {},
      ({ provider, server }) =>
        Effect.gen(function* () {
          yield* server.inject("create", Fault.HangThenCommit({ delay: "1 second" }))
          const fiber = yield* Effect.fork(provider.acquire(spec()))
          yield* Effect.sleep("300 millis")
          const [took] = yield* Effect.timed(Fiber.interrupt(fiber))
          assert.isBelow(Duration.toMillis(took), 200)
        }),
      (fixture) => Effect.map(nothingLeft(fixture), (receipt) => assert.strictEqual(receipt.confirmed, 1))
    )
  )

  const removals: ReadonlyArray<readonly [string, Fault]> = [
    ["an empty 404 that is not true", Fault.EmptyNotFound()],
    ["the reply is lost", Fault.CommitThenLose()],
    ["500", Fault.Refused({ status: 500 })],
    ["503", Fault.Busy()],
    ["429", Fault.RateLimited({ retryAfter: undefined })]
  ]
  for (const [name, fault] of removals) {
    it.live(`removal: ${name}`, () =>
      withProvider(
        {},
        ({ provider, server }) =>
          Effect.gen(function* () {
            yield* provider.acquire(spec())
            yield* server.inject("kill", fault)
          }),
        (fixture) => Effect.map(nothingLeft(fixture), (receipt) => assert.strictEqual(receipt.confirmed, 1))
      )
    )
  }

  it.live("an empty 404 to a question about a sandbox that is there does not make it gone", () =>
    withProvider(
      {},
      ({ provider, server }) =>
        Effect.gen(function* () {
          const sandbox = yield* provider.acquire(spec())
          yield* server.inject("info", Fault.EmptyNotFound(), 1)
          const end = yield* Effect.timeoutOption(Effect.flip(sandbox.gone), "2500 millis")
          assert.strictEqual(end._tag, "None")
        }),
      (fixture) => Effect.asVoid(nothingLeft(fixture))
    )
  )

  for (const [name, fault] of [
    ["503", Fault.Busy()],
    ["an empty 404", Fault.EmptyNotFound()],
    ["a lost answer", Fault.CommitThenLose()]
  ] as const) {
    it.live(`a new sandbox whose envd answers with ${name} at first is asked again`, () =>
      withProvider(
        {},
        ({ provider, server }) =>
          Effect.gen(function* () {
            yield* server.inject("health", fault, 2)
            const sandbox = yield* provider.acquire(spec())
            assert.strictEqual((yield* sandbox.exec(sh("exit 0")))._tag, "Exited")
            const asked = (yield* server.seen).filter(({ path }) => path === "/health")
            assert.isAtLeast(asked.length, 3)
          }),
        (fixture) => Effect.map(nothingLeft(fixture), (receipt) => assert.strictEqual(receipt.confirmed, 1))
      )
    )
  }

  it.live("a service that does not tell whether there is a template is not said to have none", () =>
    withProvider({}, ({ provider, server }) =>
      Effect.gen(function* () {
        yield* server.inject("template", Fault.Busy())
        const checks = yield* provider.preflight
        const check = checks.find(({ subject }) => subject === "template desk")
        assert.deepStrictEqual([check?.ok, check?.found], [true, "the service does not tell (503)"])
      })
    )
  )

  it.live("an exit that nobody saw", () =>
    withProvider({}, ({ provider, server }) =>
      Effect.gen(function* () {
        const sandbox = yield* provider.acquire(spec())
        yield* server.inject("exec", Fault.NoEndEvent())
        const outcome = yield* sandbox.exec(sh("echo out; exit 0"))
        assert.strictEqual(outcome._tag, "Unknown")
        assert.strictEqual(outcome.stdout, "out\n")
      })
    )
  )

  it.live(
    "random faults and interruptions leave nothing",
    () =>
      Effect.promise(() =>
        FC.assert(
          FC.asyncProperty(
            FC.array(
              FC.record({
                operation: FC.constantFrom<Operation>("create", "kill", "info", "list", "health", "exec", "files"),
                fault: FC.constantFrom<Fault>(
                  Fault.CommitThenLose(),
                  Fault.HangThenCommit({ delay: "150 millis" }),
                  Fault.Malformed(),
                  Fault.RateLimited({ retryAfter: undefined }),
                  Fault.Busy(),
                  Fault.Refused({ status: 500 }),
                  Fault.EmptyNotFound()
                )
              }),
              { maxLength: 5 }
            ),
            FC.array(FC.integer({ min: 1, max: 400 }), { minLength: 1, maxLength: 4 }),
            (faults, leaves) =>
              Effect.runPromise(
                withProvider(
                  {
                    provider: {
                      createTimeout: "100 millis",
                      settle: {
                        looks: 3,
                        spacing: "100 millis",
                        limit: "5 seconds",
                        removal: "5 seconds",
                        close: "8 seconds"
                      }
                    }
                  },
                  ({ provider, server }) =>
                    Effect.gen(function* () {
                      yield* Effect.forEach(faults, ({ fault, operation }) => server.inject(operation, fault))
                      yield* Effect.forEach(
                        leaves,
                        (after) =>
                          Effect.scoped(
                            Effect.flatMap(provider.acquire(spec({ files: { "/a": "b" } })), (sandbox) =>
                              sandbox.exec(sh("sleep 0.05; echo hi"))
                            )
                          ).pipe(Effect.timeoutOption(after), Effect.exit),
                        { concurrency: "unbounded" }
                      )
                    }),
                  (fixture) => Effect.asVoid(nothingLeft(fixture))
                )
              )
          ),
          { numRuns: 12 }
        )
      ),
    60_000
  )
})
