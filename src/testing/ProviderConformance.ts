/**
 * What every sandbox provider has to do, as tests: run them on a provider of your own.
 *
 * @since 0.1.0
 */
import { assert, describe, layer as withLayer } from "@effect/vitest"
import * as Chunk from "effect/Chunk"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as FC from "effect/FastCheck"
import * as Fiber from "effect/Fiber"
import type * as Layer from "effect/Layer"
import * as Random from "effect/Random"
import * as Schedule from "effect/Schedule"
import * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import { httpClient } from "../sandbox/Endpoint.js"
import { type ExecCommand, type ExecOutcome, outputLimit } from "../sandbox/ExecOutcome.js"
import { Ledger } from "../sandbox/Ledger.js"
import type { SandboxOperations } from "../sandbox/Sandbox.js"
import { SandboxDescriptor } from "../sandbox/Sandbox.js"
import { SandboxProvider } from "../sandbox/SandboxProvider.js"
import { CommandReadiness, type SandboxSpec } from "../sandbox/SandboxSpec.js"

/**
 * @since 0.1.0
 * @category models
 */
export type Fields = Partial<NonNullable<ConstructorParameters<typeof SandboxSpec>[0]>>

/**
 * @since 0.1.0
 * @category models
 */
export type Part = "lifecycle" | "exec" | "files" | "endpoints" | "ownership" | "fork" | "interruption"

/**
 * @since 0.1.0
 * @category models
 */
export interface Options {
  /** The smallest sandbox with `/bin/sh` and the usual tools on its path, with these fields over it. */
  readonly spec: (fields: Fields) => SandboxSpec
  /** A sandbox in which something answers a GET of `/` on `port` with 200 and `body`, with these fields over it. */
  readonly server?: { readonly spec: (fields: Fields) => SandboxSpec; readonly port: number; readonly body: string }
  /** A path that cannot be written; `/proc/nothing` unless given. */
  readonly unwritable?: string
  /** Random schedules of interruption; 20 unless given. */
  readonly schedules?: number
  /** Schedules at the same time; 4 unless given. */
  readonly concurrency?: number
  /** The seed of the schedules; one of its own unless given. */
  readonly seed?: number
  /** How long the reaper may take until nothing is left; 1 minute unless given. */
  readonly settled?: Duration.DurationInput
  /** For each test; 2 minutes unless given. */
  readonly timeout?: number
  /** All of them unless given. */
  readonly parts?: ReadonlyArray<Part>
}

/** A label that only this test's sandboxes have. */
const freshRun = Effect.map(Random.nextIntBetween(0, 2 ** 47), (number) => `conformance-${number.toString(36)}`)

const listed = (run: string) =>
  Effect.flatMap(SandboxProvider, (provider) =>
    Effect.map(Stream.runCollect(provider.list({ run })), Chunk.toReadonlyArray)
  )

/** What is left of a run: in the inventory, and open in the ledger. */
const remains = (run: string) =>
  Effect.gen(function* () {
    const ledger = yield* Ledger
    const open = (yield* ledger.open).filter((entry) => entry.metadata["run"] === run)
    return {
      inventory: (yield* listed(run)).map(({ id }) => id),
      open: open.map(({ attemptKey, reason, sandboxId }) => ({ attemptKey, reason, sandboxId }))
    }
  })

const nothing = { inventory: [], open: [] }

/** Waits for the reaper. What is left afterwards is the assertion's. */
const settle = (run: string, limit: Duration.DurationInput) =>
  remains(run).pipe(
    Effect.repeat({
      until: ({ inventory, open }) => inventory.length === 0 && open.length === 0,
      schedule: Schedule.spaced("50 millis")
    }),
    Effect.timeoutOption(limit),
    Effect.zipRight(remains(run))
  )

const sh = (sandbox: SandboxOperations, script: string, options: Omit<ExecCommand, "command"> = {}) =>
  sandbox.exec({ command: ["/bin/sh", "-c", script], ...options })

/** Expects an exit code, and tells the output. */
const exits = (outcome: ExecOutcome, code = 0) => {
  assert.strictEqual(outcome._tag, "Exited", JSON.stringify({ ...outcome, stdout: outcome.stdout.slice(0, 500) }))
  if (outcome._tag === "Exited") {
    assert.strictEqual(outcome.code, code, outcome.stderr)
  }
  return outcome.stdout
}

/** How many processes run whose command line has this text. The pattern does not match the command that looks. */
const running = (sandbox: SandboxOperations, text: string) =>
  Effect.map(
    sh(
      sandbox,
      `for p in /proc/[0-9]*; do tr '\\0' ' ' <"$p/cmdline" 2>/dev/null && echo; done | grep -c '[${text.slice(0, 1)}]${text.slice(1)}'; true`
    ),
    (outcome) => Number(exits(outcome).trim())
  )

const bytes = (size: number): Uint8Array => Uint8Array.from({ length: size }, (_, index) => (index * 7919) % 256)

const joined = <E, R>(stream: Stream.Stream<Uint8Array, E, R>) =>
  Effect.map(Stream.runCollect(stream), (chunks) => Buffer.concat([...chunks]))

/** When each of some holders is interrupted, as a share of what an acquire takes, and how long it would hold. */
const schedule = FC.record({
  holders: FC.array(
    FC.record({
      interruptAt: FC.option(FC.double({ min: 0, max: 1.5, noNaN: true })),
      hold: FC.double({ min: 0, max: 0.3, noNaN: true }),
      fails: FC.boolean()
    }),
    { minLength: 1, maxLength: 3 }
  )
})

/**
 * Declares the tests. The layer's ledger is the one that the provider keeps.
 *
 * @since 0.1.0
 * @category tests
 */
export const providerConformance = <E>(
  name: string,
  layer: Layer.Layer<SandboxProvider | Ledger, E>,
  options: Options
): void => {
  const has = (part: Part) => options.parts === undefined || options.parts.includes(part)
  const timeout = options.timeout ?? 120_000
  const settled = options.settled ?? "1 minute"

  withLayer(layer, { excludeTestServices: true, timeout })(`${name} conforms`, (it) => {
    /** A sandbox for one test, of which nothing may be left. */
    const test = <E2>(
      title: string,
      use: (sandbox: SandboxOperations) => Effect.Effect<void, E2, SandboxProvider | Ledger | Scope.Scope>,
      fields: Fields = {}
    ) =>
      it.effect(
        title,
        () =>
          Effect.gen(function* () {
            const provider = yield* SandboxProvider
            const run = yield* freshRun
            yield* Effect.scoped(Effect.flatMap(provider.acquire(options.spec({ ...fields, metadata: { run } })), use))
            assert.deepStrictEqual(yield* settle(run, settled), nothing)
          }),
        timeout
      )

    if (has("lifecycle")) {
      describe("lifecycle", () => {
        it.effect(
          "it is listed with its metadata while its scope is open, and is gone afterwards, and the receipt says so",
          () =>
            Effect.gen(function* () {
              const provider = yield* SandboxProvider
              const ledger = yield* Ledger
              const run = yield* freshRun
              const before = yield* ledger.receipt(provider.name)
              yield* Effect.scoped(
                Effect.gen(function* () {
                  const sandbox = yield* provider.acquire(options.spec({ metadata: { run, task: "a b" } }))
                  const found = yield* listed(run)
                  assert.deepStrictEqual(
                    found.map(({ id, metadata, provider, state }) => ({ id, metadata, provider, state })),
                    [{ id: sandbox.id, metadata: { run, task: "a b" }, provider: provider.name, state: "running" }]
                  )
                  assert.deepStrictEqual(yield* listed(`${run}-other`), [])
                  const swept = yield* provider.sweep({ run })
                  assert.deepStrictEqual(swept, {
                    provider: provider.name,
                    removed: [],
                    left: [],
                    inUse: [sandbox.id]
                  })
                })
              )
              assert.deepStrictEqual(yield* remains(run), nothing)
              const after = yield* ledger.receipt(provider.name)
              assert.isAbove(after.created, before.created)
              assert.isAbove(after.confirmed, before.confirmed)
            }),
          timeout
        )

        it.effect(
          "a sandbox that does not become ready is an error with a reason, and nothing of it is left",
          () =>
            Effect.gen(function* () {
              const provider = yield* SandboxProvider
              const run = yield* freshRun
              const readiness = new CommandReadiness({
                command: ["/bin/sh", "-c", "echo not yet >&2; exit 3"],
                timeout: Duration.seconds(2)
              })
              const error = yield* Effect.flip(
                Effect.scoped(provider.acquire(options.spec({ readiness, metadata: { run } })))
              )
              assert.strictEqual(error._tag, "SandboxNotReady", error.message)
              assert.deepStrictEqual(yield* settle(run, settled), nothing)
            }),
          timeout
        )

        it.effect(
          "closing it twice at once, and sweeping meanwhile, is closing it",
          () =>
            Effect.gen(function* () {
              const provider = yield* SandboxProvider
              const run = yield* freshRun
              const scope = yield* Scope.make()
              yield* Scope.extend(provider.acquire(options.spec({ metadata: { run } })), scope)
              yield* Effect.all(
                [Scope.close(scope, Exit.void), Scope.close(scope, Exit.void), provider.sweep({ run })],
                { concurrency: "unbounded" }
              )
              assert.deepStrictEqual(yield* settle(run, settled), nothing)
            }),
          timeout
        )
      })
    }

    if (has("exec")) {
      describe("exec", () => {
        test("exit codes and signals are told as they are", (sandbox) =>
          Effect.gen(function* () {
            exits(yield* sh(sandbox, "true"))
            exits(yield* sh(sandbox, "exit 7"), 7)
            exits(yield* sh(sandbox, "exit 125"), 125)
            exits(yield* sh(sandbox, "kill -KILL $$"), 137)
            exits(yield* sh(sandbox, "kill -TERM $$"), 143)
            const missing = yield* sandbox.exec({ command: ["no-such-command-at-all"] })
            assert.isTrue(
              (missing._tag === "Exited" && [126, 127].includes(missing.code)) || missing._tag === "SandboxFailed",
              JSON.stringify(missing)
            )
          }))

        test("the two outputs are apart, and can be opened by name", (sandbox) =>
          Effect.gen(function* () {
            const outcome = yield* sh(sandbox, "echo out; echo err >&2; echo more >/dev/stderr")
            assert.strictEqual(exits(outcome), "out\n")
            assert.strictEqual(outcome.stderr, "err\nmore\n")
          }))

        test(
          "the call's environment goes over the spec's, and the workdir over the spec's",
          (sandbox) =>
            Effect.gen(function* () {
              const script = 'echo "$ONE $TWO"; pwd'
              assert.strictEqual(exits(yield* sh(sandbox, script)), "a b\n/tmp\n")
              const over = { env: { TWO: 'it\'s "c"\n' }, workdir: "/" }
              assert.strictEqual(exits(yield* sh(sandbox, script, over)), 'a it\'s "c"\n\n/\n')
            }),
          { env: { ONE: "a", TWO: "b", PATH: "/usr/local/bin:/usr/bin:/bin" }, workdir: "/tmp" }
        )

        test("it reads what it is given, and nothing otherwise", (sandbox) =>
          Effect.gen(function* () {
            const stdin = `${"x".repeat(300_000)}é\n`
            assert.strictEqual(exits(yield* sh(sandbox, "cat", { stdin })), stdin)
            assert.strictEqual(exits(yield* sh(sandbox, "cat; echo end")), "end\n")
            exits(yield* sh(sandbox, "exit 0", { stdin }))
          }))

        test("when its time is over, it and all that it started are ended", (sandbox) =>
          Effect.gen(function* () {
            const outcome = yield* sh(sandbox, "echo begun; (sleep 31415; true) & sleep 31415; true", {
              timeout: "1500 millis"
            })
            assert.strictEqual(outcome._tag, "TimedOut", JSON.stringify(outcome))
            assert.strictEqual(outcome.stdout, "begun\n")
            assert.strictEqual(yield* running(sandbox, "sleep 31415"), 0)
          }))

        test("what a command leaves running lives on, and does not hold it up", (sandbox) =>
          Effect.gen(function* () {
            const [took, outcome] = yield* Effect.timed(sh(sandbox, "sleep 27182 & echo done", { timeout: "1 minute" }))
            assert.strictEqual(exits(outcome), "done\n")
            assert.isBelow(Duration.toSeconds(took), 30)
            assert.strictEqual(yield* running(sandbox, "sleep 27182"), 1)
          }))

        test("of much output the first part is kept, and the command is not held up", (sandbox) =>
          Effect.gen(function* () {
            const size = outputLimit + 1_000_000
            const outcome = yield* sh(sandbox, `head -c ${size} /dev/zero | tr '\\0' x; echo end >&2`)
            assert.strictEqual(exits(outcome).length, outputLimit)
            assert.strictEqual(outcome.stderr, "end\n")
          }))

        test("it is told while it runs; leaving ends it", (sandbox) =>
          Effect.gen(function* () {
            const command = ["/bin/sh", "-c", "echo first; sleep 16180; true"] as const
            const [first] = yield* sandbox.execStream({ command }).pipe(Stream.take(1), Stream.runCollect)
            assert.strictEqual(first?._tag === "Stdout" ? Buffer.from(first.bytes).toString() : first?._tag, "first\n")
            const gone = yield* running(sandbox, "sleep 16180").pipe(
              Effect.repeat({ until: (count) => count === 0, schedule: Schedule.spaced("100 millis") }),
              Effect.timeoutOption("10 seconds")
            )
            assert.strictEqual(gone._tag, "Some")
            const events = Chunk.toReadonlyArray(
              yield* Stream.runCollect(sandbox.execStream({ command: ["/bin/sh", "-c", "exit 3"] }))
            )
            const last = events.at(-1)
            assert.strictEqual(last?._tag === "Ended" && last.outcome._tag === "Exited" && last.outcome.code, 3)
          }))

        test("many at a time", (sandbox) =>
          Effect.gen(function* () {
            const numbers = Array.from({ length: 8 }, (_, index) => index)
            const outcomes = yield* Effect.forEach(numbers, (each) => sh(sandbox, `echo ${each}; exit ${each}`), {
              concurrency: "unbounded"
            })
            outcomes.forEach((outcome, each) => {
              assert.strictEqual(exits(outcome, each), `${each}\n`)
            })
          }))
      })
    }

    if (has("files")) {
      describe("files", () => {
        test("bytes come back as they were, at any path, empty ones too", (sandbox) =>
          Effect.gen(function* () {
            for (const [path, content] of [
              ["/tmp/made/on/the/way", bytes(2_000_000)],
              ["/tmp/a b'c\"d$(e)", bytes(300)],
              ["/tmp/empty", bytes(0)]
            ] as const) {
              yield* sandbox.upload(path, Stream.rechunk(Stream.fromIterable([content, bytes(0)]), 1))
              const back = yield* joined(sandbox.download(path))
              assert.strictEqual(Buffer.compare(back, content), 0, path)
            }
            yield* sandbox.upload("/tmp/empty", Stream.make(bytes(3)))
            assert.strictEqual((yield* joined(sandbox.download("/tmp/empty"))).length, 3)
          }))

        test("one that is not there is missing; one that cannot be written is not", (sandbox) =>
          Effect.gen(function* () {
            const missing = yield* Effect.flip(joined(sandbox.download("/tmp/none")))
            assert.strictEqual(missing._tag === "SandboxFileError" && missing.missing, true, missing.message)
            const refused = yield* Effect.flip(
              sandbox.upload(options.unwritable ?? "/proc/nothing", Stream.make(bytes(100_000)))
            )
            assert.strictEqual(refused._tag === "SandboxFileError" && !refused.missing, true, refused.message)
          }))

        test("an upload whose source fails, fails so", (sandbox) =>
          Effect.gen(function* () {
            const source = Stream.concat(Stream.make(bytes(10)), Stream.fail("the source broke" as const))
            assert.strictEqual(yield* Effect.flip(sandbox.upload("/tmp/broken", source)), "the source broke")
          }))

        test(
          "the spec's files are there",
          (sandbox) =>
            Effect.gen(function* () {
              assert.strictEqual((yield* joined(sandbox.download("/tmp/seed/one"))).toString(), "é 1\n")
            }),
          { files: { "/tmp/seed/one": "é 1\n" } }
        )
      })
    }

    const { server } = options
    if (has("endpoints") && server !== undefined) {
      describe("endpoints", () => {
        it.effect(
          "a declared port is reached, another is not",
          () =>
            Effect.gen(function* () {
              const provider = yield* SandboxProvider
              const run = yield* freshRun
              yield* Effect.scoped(
                Effect.gen(function* () {
                  const sandbox = yield* provider.acquire(server.spec({ metadata: { run } }))
                  const endpoint = yield* sandbox.endpoint(server.port)
                  if (endpoint._tag === "Tcp") {
                    assert.notInclude(["0.0.0.0", "[::]", ""], new URL(endpoint.url).hostname)
                  }
                  const client = yield* httpClient(endpoint)
                  const response = yield* client.get("/")
                  assert.deepStrictEqual([response.status, yield* response.text], [200, server.body])
                  const error = yield* Effect.flip(sandbox.endpoint(server.port + 1))
                  assert.strictEqual(error._tag, "EndpointUnresolvable")
                })
              )
              assert.deepStrictEqual(yield* settle(run, settled), nothing)
            }),
          timeout
        )
      })
    }

    if (has("ownership")) {
      describe("ownership", () => {
        test("a borrower works in the same sandbox, and leaves it as it is", (sandbox) =>
          Effect.gen(function* () {
            const provider = yield* SandboxProvider
            if (!provider.capabilities.connect) {
              const error = yield* Effect.flip(Effect.scoped(provider.borrow(sandbox.descriptor)))
              assert.strictEqual(error._tag, "SandboxUnsupported")
              return
            }
            yield* Effect.scoped(
              Effect.gen(function* () {
                const borrowed = yield* provider.borrow(sandbox.descriptor)
                assert.deepStrictEqual([borrowed._tag, borrowed.id], ["BorrowedSandbox", sandbox.id])
                yield* borrowed.upload("/tmp/lent", Stream.make(bytes(10)))
              })
            )
            assert.strictEqual((yield* joined(sandbox.download("/tmp/lent"))).length, 10)
            const unknown = SandboxDescriptor.make({ ...sandbox.descriptor, id: "sb-0123456789ab" })
            const error = yield* Effect.flip(Effect.scoped(provider.borrow(unknown)))
            assert.strictEqual(error._tag, "SandboxGone", error.message)
          }))
      })
    }

    if (has("fork")) {
      describe("fork", () => {
        test("children of one state, one for each owner in order; or a typed refusal", (sandbox) =>
          Effect.gen(function* () {
            const provider = yield* SandboxProvider
            const source = { ...sandbox, _tag: "OwnedSandbox" as const }
            if (!provider.capabilities.fork) {
              const error = yield* Effect.flip(Effect.scoped(provider.fork(source, [0])))
              assert.strictEqual(error._tag, "SandboxUnsupported")
              return
            }
            if (provider.capabilities.files && has("files")) {
              yield* sandbox.upload("/tmp/before", Stream.make(bytes(5)))
            }
            yield* Effect.scoped(
              Effect.gen(function* () {
                const children = yield* provider.fork(source, [0, 2, 5])
                assert.deepStrictEqual(
                  children.map(({ child, owner }) => [owner, child._tag]),
                  [
                    [0, "Forked"],
                    [2, "Forked"],
                    [5, "Forked"]
                  ]
                )
                const born = children.flatMap(({ child }) => (child._tag === "Forked" ? [child.sandbox] : []))
                assert.strictEqual(new Set([sandbox.id, ...born.map(({ id }) => id)]).size, 4)
                if (provider.capabilities.files && has("files")) {
                  for (const child of born) {
                    assert.strictEqual((yield* joined(child.download("/tmp/before"))).length, 5)
                  }
                }
              })
            )
          }))
      })
    }

    if (has("interruption")) {
      const count = options.schedules ?? 20
      const seed = options.seed ?? Math.floor(Math.random() * 2 ** 31)
      describe("interrupt anywhere", () => {
        it.effect(
          `nothing is left after ${count} random schedules (seed ${seed})`,
          () =>
            Effect.gen(function* () {
              const provider = yield* SandboxProvider
              const ledger = yield* Ledger
              const first = yield* freshRun
              const [took] = yield* Effect.timed(
                Effect.scoped(provider.acquire(options.spec({ metadata: { run: first } })))
              )
              const whole = Math.max(10, Duration.toMillis(took))
              yield* Effect.forEach(
                FC.sample(schedule, { numRuns: count, seed }),
                (plan) =>
                  Effect.gen(function* () {
                    const run = yield* freshRun
                    yield* Effect.forEach(
                      plan.holders,
                      ({ fails, hold, interruptAt }) =>
                        provider.acquire(options.spec({ metadata: { run } })).pipe(
                          Effect.zipRight(Effect.sleep(hold * whole)),
                          Effect.zipRight(fails ? Effect.fail("the holder fails") : Effect.void),
                          Effect.scoped,
                          Effect.exit,
                          Effect.fork,
                          Effect.flatMap((fiber) =>
                            interruptAt === null
                              ? Effect.asVoid(Fiber.await(fiber))
                              : Effect.delay(Effect.asVoid(Fiber.interrupt(fiber)), interruptAt * whole)
                          )
                        ),
                      { concurrency: "unbounded", discard: true }
                    )
                    assert.deepStrictEqual(yield* settle(run, settled), nothing, JSON.stringify(plan))
                  }),
                { concurrency: options.concurrency ?? 4, discard: true }
              )
              const receipt = yield* ledger.receipt(provider.name)
              assert.strictEqual(receipt.confirmed, receipt.created)
              assert.deepStrictEqual(receipt.left, [])
            }),
          timeout + count * 10_000
        )
      })
    }
  })
}
