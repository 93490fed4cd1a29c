/**
 * What the parts of the conformance suite share: how a test is declared, and how one looks at what is left.
 */
import { assert } from "@effect/vitest"
import * as Chunk from "effect/Chunk"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Random from "effect/Random"
import * as Schedule from "effect/Schedule"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import type { ExecCommand, ExecOutcome } from "../../../sandbox/ExecOutcome.js"
import { Ledger } from "../../../sandbox/Ledger.js"
import type { SandboxOperations } from "../../../sandbox/Sandbox.js"
import { SandboxProvider } from "../../../sandbox/SandboxProvider.js"
import type { SandboxSpec } from "../../../sandbox/SandboxSpec.js"
import type { Fields } from "../../ProviderConformance.js"

export interface Suite {
  readonly spec: (fields: Fields) => SandboxSpec
  /** How long the reaper may take until nothing is left. */
  readonly settled: Duration.DurationInput
  readonly check: <E>(title: string, test: Effect.Effect<void, E, SandboxProvider | Ledger>) => void
}

/** A label that only this test's sandboxes have. */
export const freshRun = Effect.map(Random.nextIntBetween(0, 2 ** 47), (number) => `conformance-${number.toString(36)}`)

export const listed = (run: string) =>
  Effect.flatMap(SandboxProvider, (provider) =>
    Effect.map(Stream.runCollect(provider.list({ run })), Chunk.toReadonlyArray)
  )

/** What is left of a run: in the inventory, and open in the ledger. */
export const remains = (run: string) =>
  Effect.gen(function* () {
    const ledger = yield* Ledger
    const open = (yield* ledger.open).filter((entry) => entry.metadata["run"] === run)
    return {
      inventory: (yield* listed(run)).map(({ id }) => id),
      open: open.map(({ attemptKey, reason, sandboxId }) => ({ attemptKey, reason, sandboxId }))
    }
  })

export const nothing = { inventory: [], open: [] }

/** Waits for the reaper. What is left afterwards is the assertion's. */
export const settle = (run: string, limit: Duration.DurationInput) =>
  remains(run).pipe(
    Effect.repeat({
      until: ({ inventory, open }) => inventory.length === 0 && open.length === 0,
      schedule: Schedule.spaced("50 millis")
    }),
    Effect.timeoutOption(limit),
    Effect.zipRight(remains(run))
  )

/** Declares tests that have a sandbox, of which nothing may be left. */
export const withSandbox =
  ({ check, settled, spec }: Suite) =>
  <E>(
    title: string,
    use: (sandbox: SandboxOperations) => Effect.Effect<void, E, SandboxProvider | Ledger | Scope.Scope>,
    fields: Fields = {}
  ): void =>
    check(
      title,
      Effect.gen(function* () {
        const provider = yield* SandboxProvider
        const run = yield* freshRun
        yield* Effect.scoped(Effect.flatMap(provider.acquire(spec({ ...fields, metadata: { run } })), use))
        assert.deepStrictEqual(yield* settle(run, settled), nothing)
      })
    )

export const sh = (sandbox: SandboxOperations, script: string, options: Omit<ExecCommand, "command"> = {}) =>
  sandbox.exec({ command: ["/bin/sh", "-c", script], ...options })

/** Expects an exit code, and tells the output. */
export const exits = (outcome: ExecOutcome, code = 0) => {
  assert.strictEqual(outcome._tag, "Exited", JSON.stringify({ ...outcome, stdout: outcome.stdout.slice(0, 500) }))
  if (outcome._tag === "Exited") {
    assert.strictEqual(outcome.code, code, outcome.stderr)
  }
  return outcome.stdout
}

export const bytes = (size: number): Uint8Array => Uint8Array.from({ length: size }, (_, index) => (index * 7919) % 256)

export const joined = <E, R>(stream: Stream.Stream<Uint8Array, E, R>) =>
  Effect.map(Stream.runCollect(stream), (chunks) => Buffer.concat([...chunks]))
