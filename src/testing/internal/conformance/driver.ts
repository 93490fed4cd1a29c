/**
 * What a driver has to see of a create when nobody has its answer. A provider that believes its driver cannot tell: a
 * sandbox that the driver never finds is one that nobody misses.
 */
import { isDeepStrictEqual } from "node:util"
import * as NodeFileSystem from "@effect/platform-node/NodeFileSystem"
import { assert, describe } from "@effect/vitest"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Schedule from "effect/Schedule"
import type * as Scope from "effect/Scope"
import * as Driver from "../../../sandbox/Driver.js"
import * as Ledger from "../../../sandbox/Ledger.js"
import { SandboxCreateAmbiguous, type SandboxCreateError } from "../../../sandbox/SandboxError.js"
import { freshRun, type Suite } from "./suite.js"

export interface Options<Handle extends { readonly id: string }, R> {
  readonly driver: Effect.Effect<Driver.Driver<Handle>, never, R | Scope.Scope>
  readonly settle: Driver.Settle
  /** What the service has, asked for without the driver. */
  readonly leftovers: Effect.Effect<ReadonlyArray<string>, never, R>
}

export interface DriverTest<R> {
  readonly title: string
  readonly test: Effect.Effect<void, unknown, R>
}

/** The same driver with another create. Each part is asked of the driver itself, which may be an object of a class. */
const withCreate = <Handle extends { readonly id: string }>(
  driver: Driver.Driver<Handle>,
  create: Driver.Driver<Handle>["create"]
): Driver.Driver<Handle> => ({
  name: driver.name,
  capabilities: driver.capabilities,
  create,
  start: (handle, spec) => driver.start(handle, spec),
  find: (attemptKey) => driver.find(attemptKey),
  remove: (id) => driver.remove(id),
  exists: (id) => driver.exists(id),
  list: (selector) => driver.list(selector),
  operations: (handle, spec) => driver.operations(handle, spec),
  log: (handle) => driver.log(handle),
  connect: (descriptor) => driver.connect(descriptor),
  fork: (source, spec, attempts) => driver.fork(source, spec, attempts),
  renew: (handle, spec) => driver.renew(handle, spec),
  preflight: driver.preflight
})

/** Asks until the answer is as wanted, or for as long as that may take, and tells the last one. */
const until = <A, E, R>(ask: Effect.Effect<A, E, R>, limit: Duration.DurationInput, wanted: (answer: A) => boolean) =>
  ask.pipe(
    Effect.repeat({ until: wanted, schedule: Schedule.spaced("50 millis") }),
    Effect.timeoutOption(limit),
    Effect.zipRight(ask)
  )

/** A sandbox that was created, by the service's name and by ours. */
interface Created {
  readonly id: string
  readonly key: string
}

type CreateError<Handle extends { readonly id: string }> = Effect.Effect.Error<
  ReturnType<Driver.Driver<Handle>["create"]>
>

export const driverTests = <Handle extends { readonly id: string }, R>(
  { settled, spec }: Pick<Suite, "settled" | "spec">,
  { driver: make, leftovers, settle }: Options<Handle, R>
): ReadonlyArray<DriverTest<R>> => {
  /** For how long a provider looks before it believes that nothing came of a create. */
  const looking = Duration.times(settle.spacing ?? "2 seconds", settle.looks ?? 3)

  const look = (driver: Driver.Driver<Handle>, { id, key }: Created) =>
    Effect.all({
      found: Effect.map(driver.find(key), (found) => found.map(({ id }) => id)),
      exists: driver.exists(id)
    })

  /** Acquires two sandboxes at the same time, does `after` to each create, and expects that nothing is left. */
  const acquired = (
    after: (driver: Driver.Driver<Handle>, created: Created) => Effect.Effect<void, CreateError<Handle>>,
    ends: (acquire: Effect.Effect<void, SandboxCreateError>) => Effect.Effect<void, SandboxCreateError>
  ) =>
    Effect.scoped(
      Effect.gen(function* () {
        const driver = yield* make
        const run = yield* freshRun
        const ledger = yield* Ledger.makeMemory
        const created: Array<Created> = []
        const watched = withCreate(driver, (wanted, attempt) =>
          Effect.tap(driver.create(wanted, attempt), ({ id }) => {
            const one = { id, key: attempt.key }
            created.push(one)
            return after(driver, one)
          })
        )
        const provider = yield* Driver.makeProvider(watched, { ledger, deployment: run, settle })
        const acquire = ends(Effect.scoped(Effect.asVoid(provider.acquire(spec({ metadata: { run } })))))
        yield* Effect.all([acquire, acquire], { concurrency: "unbounded" })
        const remains = Effect.gen(function* () {
          const { confirmed, created: existed, left } = yield* ledger.receipt(driver.name)
          const looks = yield* Effect.forEach(created, (one) => look(driver, one))
          return {
            "known to have existed": existed,
            "confirmed gone": confirmed,
            "open in the ledger": left.map(({ reason }) => reason),
            found: looks.flatMap(({ found }) => found),
            exists: created.flatMap(({ id }, index) => (looks[index]?.exists === true ? [id] : [])),
            "in the service": yield* leftovers
          }
        })
        const nothing = {
          "known to have existed": 2,
          "confirmed gone": 2,
          "open in the ledger": [],
          found: [],
          exists: [],
          "in the service": []
        }
        assert.deepStrictEqual(yield* until(remains, settled, (seen) => isDeepStrictEqual(seen, nothing)), nothing)
      })
    ).pipe(Effect.provide(NodeFileSystem.layer))

  return [
    {
      title: "what is created is found by its key and exists, and neither once it is removed",
      test: Effect.gen(function* () {
        const seen: Array<Effect.Effect.Success<ReturnType<typeof look>> & { readonly id: string }> = []
        const ended = yield* acquired(
          (driver, created) =>
            Effect.gen(function* () {
              // Before it is started: a create whose answer is lost leaves it so.
              const asked = look(driver, created)
              const looked = yield* until(asked, looking, ({ exists, found }) => exists && found.length > 0)
              seen.push({ id: created.id, ...looked })
            }),
          (acquire) => acquire
        ).pipe(Effect.exit)
        // First, because what else goes wrong comes of it.
        assert.deepStrictEqual(
          seen,
          seen.map(({ id }) => ({ id, found: [id], exists: true })),
          "what `find` and `exists` say of what was just created"
        )
        yield* ended
      })
    },
    {
      title: "what is created and whose answer was lost is found and removed",
      test: acquired(
        ({ name }, { key }) =>
          new SandboxCreateAmbiguous({ provider: name, attemptKey: key, reason: "the suite lost its answer" }),
        (acquire) =>
          Effect.gen(function* () {
            const { _tag, message } = yield* Effect.orDie(Effect.flip(acquire))
            assert.strictEqual(_tag, "SandboxCreateAmbiguous", message)
          })
      )
    }
  ]
}

export const driver = <Handle extends { readonly id: string }, R>(
  suite: Pick<Suite, "settled" | "spec">,
  options: Options<Handle, R>,
  check: (title: string, test: Effect.Effect<void, unknown, R>) => void
): void => {
  describe("driver", () => {
    for (const { test, title } of driverTests(suite, options)) check(title, test)
  })
}
