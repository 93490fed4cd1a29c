/**
 * Ownership, once for every service: a driver knows how to ask, and here is who answers for what was asked.
 *
 * A create is written down before it is sent and runs on a fiber that no caller can interrupt; a caller that leaves, or
 * an answer that leaves it open what happened, hands the attempt to the reaper. A sandbox counts as gone only when the
 * service has said so.
 */
import type * as FileSystem from "@effect/platform/FileSystem"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import type { Ledger } from "../Ledger.js"
import type { SandboxInfo } from "../Sandbox.js"
import { SandboxGone, SandboxUnsupported } from "../SandboxError.js"
import type { SandboxProvider } from "../SandboxProvider.js"
import * as Acquire from "./acquire.js"
import { type Driver, labels } from "./driver.js"
import * as Fork from "./fork.js"
import * as Labels from "./labels.js"
import { ownerLabel } from "./owner.js"
import * as Ownership from "./ownership.js"
import * as Proc from "./proc.js"
import * as Reaper from "./reaper.js"
import { type Settle, settled } from "./settle.js"
import * as Sweep from "./sweep.js"

export interface Options {
  readonly ledger: Ledger["Type"]
  /** What `list` and `sweep` are scoped to. */
  readonly deployment: string
  /** Who owns what is opened, as `ownerLabel` writes it; this process unless given. */
  readonly owner?: string
  readonly settle?: Settle
}

/**
 * Makes a provider of a driver. Closing the scope waits, bounded, for what the reaper still follows and tries what could
 * not be removed once more.
 */
export const make = <Handle extends { readonly id: string }>(
  driver: Driver<Handle>,
  options: Options
): Effect.Effect<SandboxProvider["Type"], never, FileSystem.FileSystem | Scope.Scope> =>
  Effect.gen(function* () {
    const { deployment, ledger } = options
    const settle = settled(options.settle)
    const provider = driver.name
    const platform = yield* Effect.context<FileSystem.FileSystem>()
    // Asked when it is needed, and kept: a host that cannot be read for a moment is no reason to have no provider.
    let known = options.owner
    const owner = Effect.suspend(() =>
      known === undefined
        ? Effect.tap(Effect.map(Proc.self, ownerLabel), (label) =>
            Effect.sync(() => {
              known = label
            })
          )
        : Effect.succeed(known)
    ).pipe(Effect.provide(platform))
    const ownership = Ownership.make({ driver, ledger, deployment, owner, settle })
    const { active, forget, owned } = ownership
    const reaper = Reaper.make({ driver, ledger, ownership, settle })
    const { acquire, take } = Acquire.make({ driver, ledger, ownership, reaper })
    const fork = Fork.make({ driver, ownership, take })

    const borrow: SandboxProvider["Type"]["borrow"] = (descriptor) =>
      Effect.gen(function* () {
        if (!driver.capabilities.connect || descriptor.provider !== provider) {
          return yield* new SandboxUnsupported({
            provider,
            capability: driver.capabilities.connect ? `sandboxes of ${descriptor.provider}` : "connect"
          })
        }
        const handle = yield* driver.connect(descriptor)
        if (Option.isNone(handle)) {
          return yield* new SandboxGone({ provider, sandboxId: descriptor.id, reason: "it does not run", log: "" })
        }
        const operations = yield* driver.operations(handle.value, {
          ports: descriptor.ports,
          env: {},
          ...(descriptor.workdir === undefined ? {} : { workdir: descriptor.workdir })
        })
        return { ...operations, _tag: "BorrowedSandbox" as const }
      })

    /** Whom a found sandbox belongs to. What this program gave up on belongs to nobody. */
    const belongs = Sweep.belongs(owner, (found) => {
      const mine = owned.get(found.id)
      return mine === undefined ? active.has(found.labels[labels.attempt] ?? "") : mine.state !== "failed"
    })

    const list: SandboxProvider["Type"]["list"] = (selector) => {
      const wanted = Labels.selector(deployment, selector)
      return driver.list(wanted).pipe(
        Stream.mapError(Sweep.stateError(provider, "list")),
        Stream.filter((found) => Labels.match(wanted, found.labels)),
        Stream.mapEffect((found) =>
          Effect.map(
            Effect.orElseSucceed(belongs(found), () => undefined),
            (whose): SandboxInfo => ({
              id: found.id,
              provider,
              metadata: Labels.metadata(found.labels),
              createdAt: found.createdAt,
              state: whose === "nobody" ? "orphaned" : found.state
            })
          )
        ),
        Stream.provideContext(platform)
      )
    }

    const sweep: SandboxProvider["Type"]["sweep"] = (selector) =>
      Effect.gen(function* () {
        const { confirmed, receipt, seen } = yield* Sweep.run({
          driver,
          settle,
          wanted: Labels.selector(deployment, selector),
          narrow: Object.keys(selector).length > 0,
          belongs
        })
        // What is known to be gone is not open any more, whoever opened it.
        const gone = new Set(receipt.removed)
        for (const entry of yield* ledger.open) {
          const named = entry.provider === provider && Labels.match(selector, entry.metadata)
          const absent = confirmed && named && !active.has(entry.attemptKey) && !seen.has(entry.attemptKey)
          if (absent || (entry.sandboxId !== undefined && gone.has(entry.sandboxId))) {
            yield* forget(entry.attemptKey)
            owned.delete(entry.sandboxId ?? "")
          }
        }
        return receipt
      }).pipe(Effect.provide(platform), Effect.withSpan("SandboxProvider.sweep", { captureStackTrace: false }))

    yield* Effect.addFinalizer(() => Effect.zipRight(ownership.end, reaper.end))

    return {
      name: provider,
      capabilities: driver.capabilities,
      acquire,
      borrow,
      fork,
      list,
      sweep,
      preflight: driver.preflight
    }
  })
