/**
 * Removes what nobody answers for any more, and looks until it is gone.
 */
import type * as FileSystem from "@effect/platform/FileSystem"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import * as Stream from "effect/Stream"
import { type ProviderUnavailable, SandboxStateError } from "../SandboxError.js"
import type { Selector, SweepReceipt } from "../SandboxProvider.js"
import type { Driver, Found } from "./driver.js"
import { labels } from "./driver.js"
import * as Labels from "./labels.js"
import * as Proc from "./proc.js"
import type { Settled } from "./settle.js"

/** `elsewhere`: its owner counts its processes in another container of this machine, so nobody here can tell. */
export type Whose = "alive" | "nobody" | "elsewhere"

export const stateError = (provider: string, operation: string) => (error: ProviderUnavailable) =>
  new SandboxStateError({
    provider,
    operation,
    reason: error.reason,
    remedy: "Nothing is known to be gone; try again when the service answers"
  })

/**
 * `self` is this program's label, and `answersFor` says whether it still does for a sandbox that it opened itself. Fails
 * when it cannot be read what runs on this host: then the owner may be alive.
 */
export const belongs =
  (self: Effect.Effect<string, Proc.ProcUnreadable, FileSystem.FileSystem>, answersFor: (found: Found) => boolean) =>
  (found: Found): Effect.Effect<Whose, Proc.ProcUnreadable, FileSystem.FileSystem> =>
    Effect.gen(function* () {
      const label = found.labels[labels.owner] ?? ""
      if (label === (yield* self)) {
        return answersFor(found) ? "alive" : "nobody"
      }
      const alive = yield* Proc.labelled(label)
      return alive === "alive" ? "alive" : alive === "dead" ? "nobody" : "elsewhere"
    })

export interface Swept {
  readonly receipt: SweepReceipt
  /** Nothing that had to go was seen in the last looks. */
  readonly confirmed: boolean
  /** The attempts of which something was seen at the last look. */
  readonly seen: ReadonlySet<string>
}

export const run = <Handle extends { readonly id: string }>(options: {
  readonly driver: Driver<Handle>
  readonly settle: Settled
  /** Labels of all that is meant. */
  readonly wanted: Selector
  /** The selector names more than the deployment: then what nobody can tell the owner of is meant, too. */
  readonly narrow: boolean
  readonly belongs: (found: Found) => Effect.Effect<Whose, Proc.ProcUnreadable, FileSystem.FileSystem>
}): Effect.Effect<Swept, SandboxStateError, FileSystem.FileSystem> =>
  Effect.gen(function* () {
    const { driver, settle, wanted } = options
    const asked = new Set<string>()
    const reasons = new Map<string, string>()
    const inUse = new Set<string>()
    const elsewhere = new Set<string>()
    /** Of which it could not be read whether the owner runs. */
    const untold = new Map<string, string>()
    let there: ReadonlySet<string> = new Set()
    const seen = new Set<string>()
    let looks = 0
    let unanswered: ProviderUnavailable | undefined

    const look = Effect.gen(function* () {
      const all = yield* Stream.runCollect(driver.list(wanted))
      unanswered = undefined
      inUse.clear()
      elsewhere.clear()
      untold.clear()
      seen.clear()
      const targets: Array<string> = []
      for (const found of all) {
        // A service that ignores the filter must not lose us anybody else's sandbox.
        if (!Labels.match(wanted, found.labels)) {
          continue
        }
        seen.add(found.labels[labels.attempt] ?? "")
        // One whose owner was known to be gone stays one to remove, whatever can be read now.
        const whose = asked.has(found.id) ? Either.right<Whose>("nobody") : yield* Effect.either(options.belongs(found))
        if (Either.isLeft(whose)) {
          untold.set(found.id, Proc.untold(whose.left))
        } else if (whose.right === "alive") {
          inUse.add(found.id)
        } else if (whose.right === "elsewhere" && !options.narrow) {
          elsewhere.add(found.id)
        } else {
          targets.push(found.id)
        }
      }
      there = new Set(targets)
      looks = targets.length === 0 ? looks + 1 : 0
      yield* Effect.forEach(
        targets,
        (id) => {
          asked.add(id)
          return driver.remove(id).pipe(
            Effect.tap(() => Effect.sync(() => reasons.set(id, "it is still listed after its removal"))),
            Effect.catchAll((error) => Effect.sync(() => reasons.set(id, error.message)))
          )
        },
        { concurrency: 8, discard: true }
      )
      return looks >= settle.looks
    })

    // A first listing that fails says that nothing can be done; a later one that fails says nothing at all.
    const first = yield* Effect.mapError(look, stateError(driver.name, "sweep"))
    if (!first) {
      yield* look.pipe(
        Effect.catchAll((error) =>
          Effect.sync(() => {
            looks = 0
            unanswered = error
            return false
          })
        ),
        Effect.delay(settle.spacing),
        Effect.repeat({ until: (done) => done }),
        Effect.timeoutOption(settle.limit),
        Effect.map(Option.isSome)
      )
    }
    if (looks < settle.looks && unanswered !== undefined && asked.size === 0) {
      return yield* stateError(driver.name, "sweep")(unanswered)
    }
    const confirmed = looks >= settle.looks
    const unconfirmed = confirmed ? new Set<string>() : asked
    const silence = unanswered
    const receipt: SweepReceipt = {
      provider: driver.name,
      removed: [...asked].filter((id) => !unconfirmed.has(id)),
      left: [
        ...[...unconfirmed].map((id) => ({
          id,
          reason:
            silence !== undefined
              ? `its removal is not confirmed: ${silence.message}`
              : there.has(id)
                ? (reasons.get(id) ?? "it is still listed")
                : `it was looked for too few times within ${Duration.format(settle.limit)}`
        })),
        ...[...elsewhere].map((id) => ({
          id,
          reason: "its owner runs in another container of this host; sweep there, or name its run"
        })),
        ...[...untold].map(([id, reason]) => ({ id, reason }))
      ],
      inUse: [...inUse]
    }
    return { receipt, confirmed, seen }
  })
