/**
 * What a provider answers for: every attempt from its intent in the ledger until its sandbox is confirmed gone.
 */
import { randomBytes } from "node:crypto"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as FiberId from "effect/FiberId"
import type { Ledger } from "../Ledger.js"
import {
  ProviderUnavailable,
  type SandboxCreateAmbiguous,
  SandboxCreateRejected,
  SandboxUnsupported
} from "../SandboxError.js"
import type { SandboxSpec } from "../SandboxSpec.js"
import type { Attempt, Driver } from "./driver.js"
import * as Labels from "./labels.js"
import type { ProcUnreadable } from "./proc.js"
import { removed } from "./removal.js"
import type { Settled } from "./settle.js"

export type CreateFailure = SandboxCreateRejected | SandboxCreateAmbiguous | SandboxUnsupported | ProviderUnavailable

/** A create of which nothing exists and nothing will. */
export const isDefinite = (error: unknown): boolean =>
  error instanceof SandboxCreateRejected || error instanceof ProviderUnavailable || error instanceof SandboxUnsupported

/** A sandbox that this provider opened and that is not confirmed gone. */
export interface Owned<Handle> {
  readonly handle: Handle
  readonly spec: SandboxSpec
  readonly attemptKey: string
  state: "owned" | "closing" | "failed" | "confirmed"
  /** Completes with the reason why something is left, or none. Shared by all that close it at the same time. */
  closing: Deferred.Deferred<string | undefined> | undefined
  /** One fork of it at a time: children carry their source's labels, so an unclear one is told apart by exclusion. */
  readonly forking: Effect.Semaphore
}

export interface Ownership<Handle> {
  /** By the service's ids. */
  readonly owned: Map<string, Owned<Handle>>
  /** Attempts that this program answers for: being created, owned, closing or followed by the reaper. */
  readonly active: ReadonlySet<string>
  /** Writes an attempt down before it is sent. */
  readonly intend: (metadata: Readonly<Record<string, string>>) => Effect.Effect<Attempt, SandboxCreateRejected>
  /** The sandbox exists, and belongs to the caller. */
  readonly own: (attemptKey: string, handle: Handle, spec: SandboxSpec) => Owned<Handle>
  /** What the service knows by its labels, too: a ledger that fails later than at the intent stops nothing. */
  readonly note: <E extends { readonly message: string }>(effect: Effect.Effect<void, E>) => Effect.Effect<void>
  /** Nothing of the attempt exists. */
  readonly forget: (attemptKey: string) => Effect.Effect<void>
  /** Something of the attempt may exist, and this program does not answer for it any longer. */
  readonly leave: (attemptKey: string, what: string, reason: string) => Effect.Effect<void>
  /** Removes an owned sandbox; whoever comes while that goes on waits for the same result. */
  readonly close: (mine: Owned<Handle>) => Effect.Effect<string | undefined>
  /** From now on nothing is intended any more; everything that is owned is closed. */
  readonly end: Effect.Effect<void>
}

/** Runs on time of its own, whatever happens to the fiber that waits. */
export const detached = <A, E, R>(effect: Effect.Effect<A, E, R>) =>
  Effect.flatMap(Effect.forkDaemon(Effect.interruptible(effect)), Fiber.join)

export const make = <Handle extends { readonly id: string }>(options: {
  readonly driver: Driver<Handle>
  readonly ledger: Ledger["Type"]
  readonly deployment: string
  /** This program's label. */
  readonly owner: Effect.Effect<string, ProcUnreadable>
  readonly settle: Settled
}): Ownership<Handle> => {
  const { deployment, driver, ledger, owner, settle } = options
  const provider = driver.name
  const owned = new Map<string, Owned<Handle>>()
  const active = new Set<string>()
  let ended = false

  const note = <E extends { readonly message: string }>(effect: Effect.Effect<void, E>) =>
    Effect.catchAll(effect, (error) => Effect.logWarning(error.message))

  const leave = (attemptKey: string, what: string, reason: string) =>
    Effect.suspend(() => {
      active.delete(attemptKey)
      return Effect.zipRight(
        note(ledger.failed(attemptKey, reason)),
        Effect.logWarning(`${provider}: ${what} is not confirmed gone: ${reason}. Run \`deskhand sweep\``)
      )
    })

  const intend = (metadata: Readonly<Record<string, string>>) =>
    Effect.gen(function* () {
      if (ended) {
        return yield* new SandboxCreateRejected({
          provider,
          reason: "the provider is closed",
          remedy: "Acquire within the scope of its layer"
        })
      }
      const label = yield* Effect.mapError(
        owner,
        (error) =>
          new SandboxCreateRejected({
            provider,
            reason: error.message,
            remedy: "Nothing is created that no sweep could tell the owner of"
          })
      )
      const key = `dh-${randomBytes(12).toString("hex")}`
      yield* Effect.mapError(
        ledger.intend({ attemptKey: key, provider, metadata }),
        (error) =>
          new SandboxCreateRejected({ provider, reason: error.message, remedy: "Nothing is created without it" })
      )
      active.add(key)
      const attempt: Attempt = { key, labels: Labels.encode({ attemptKey: key, deployment, owner: label, metadata }) }
      return attempt
    })

  const own = (attemptKey: string, handle: Handle, spec: SandboxSpec): Owned<Handle> => {
    const mine: Owned<Handle> = {
      handle,
      spec,
      attemptKey,
      state: "owned",
      closing: undefined,
      forking: Effect.unsafeMakeSemaphore(1)
    }
    owned.set(handle.id, mine)
    return mine
  }

  const forget = (attemptKey: string) =>
    Effect.zipRight(
      note(ledger.confirmed(attemptKey)),
      Effect.sync(() => {
        active.delete(attemptKey)
      })
    )

  const close = (mine: Owned<Handle>): Effect.Effect<string | undefined> =>
    Effect.suspend(() => {
      if (mine.state === "confirmed") {
        return Effect.succeed(undefined)
      }
      if (mine.state === "closing" && mine.closing !== undefined) {
        return Deferred.await(mine.closing)
      }
      const { attemptKey, handle } = mine
      const result = Deferred.unsafeMake<string | undefined>(FiberId.none)
      mine.state = "closing"
      mine.closing = result
      active.add(attemptKey)
      return removed(driver, { id: handle.id, attemptKey }, note(ledger.removed(attemptKey)), settle.removal).pipe(
        Effect.tap((reason) =>
          Effect.gen(function* () {
            if (reason === undefined) {
              mine.state = "confirmed"
              owned.delete(handle.id)
              yield* forget(attemptKey)
            } else {
              mine.state = "failed"
              yield* leave(attemptKey, `sandbox ${handle.id}`, reason)
            }
          })
        ),
        Effect.onExit((exit) => Deferred.done(result, exit)),
        detached
      )
    })

  const end = Effect.suspend(() => {
    ended = true
    return Effect.forEach(owned.values(), close, { concurrency: 16, discard: true })
  })

  return { owned, active, intend, own, note, forget, leave, close, end }
}
