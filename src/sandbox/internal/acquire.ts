/**
 * From a create that was sent to a sandbox that is ready, or to an error and nothing left.
 */
import * as Cause from "effect/Cause"
import * as Deferred from "effect/Deferred"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as ExecutionStrategy from "effect/ExecutionStrategy"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Option from "effect/Option"
import * as Schedule from "effect/Schedule"
import * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import type { Ledger } from "../Ledger.js"
import type { OwnedSandbox, SandboxOperations } from "../Sandbox.js"
import {
  SandboxCreateAmbiguous,
  type SandboxCreateError,
  SandboxCreateRejected,
  SandboxGone,
  SandboxNotReady,
  SandboxUnsupported
} from "../SandboxError.js"
import type { SandboxSpec } from "../SandboxSpec.js"
import type { Attempt, Driver } from "./driver.js"
import { type CreateFailure, isDefinite, type Owned, type Ownership } from "./ownership.js"
import * as Readiness from "./readiness.js"
import type { Reaper } from "./reaper.js"
import { missingCapability } from "./supported.js"

/** Makes an effect of an uninterruptible region interruptible again. */
export type Restore = <A, E, R>(effect: Effect.Effect<A, E, R>) => Effect.Effect<A, E, R>

export interface Acquire<Handle> {
  /** Waits for a create, and then for the sandbox. The sandbox's scope is `parent`'s, and it is closed on any failure. */
  readonly take: (
    create: {
      readonly attempt: Attempt
      readonly spec: SandboxSpec
      readonly create: Effect.Effect<Handle, CreateFailure>
      /** What was forked, when this is a child. */
      readonly source: Owned<Handle> | undefined
    },
    parent: Scope.Scope,
    restore: Restore
  ) => Effect.Effect<OwnedSandbox, SandboxCreateError>
  readonly acquire: (spec: SandboxSpec) => Effect.Effect<OwnedSandbox, SandboxCreateError, Scope.Scope>
}

export const make = <Handle extends { readonly id: string }>(options: {
  readonly driver: Driver<Handle>
  readonly ledger: Ledger["Type"]
  readonly ownership: Ownership<Handle>
  readonly reaper: Reaper<Handle>
}): Acquire<Handle> => {
  const { driver, ledger } = options
  const { close, forget, intend, note, own } = options.ownership
  const { reap } = options.reaper
  const provider = driver.name

  /** What has to hold before a sandbox that exists is handed out. */
  const becomeReady = (mine: Owned<Handle>, operations: SandboxOperations, files: Readonly<Record<string, string>>) =>
    Effect.gen(function* () {
      const notReady = (reason: string) =>
        Effect.flatMap(
          Effect.orElseSucceed(Effect.timeout(driver.log(mine.handle), "5 seconds"), () => ""),
          (log) => new SandboxNotReady({ provider, sandboxId: mine.handle.id, reason, log })
        )
      if (Object.keys(files).length === 0 && mine.spec.readiness === undefined) {
        return
      }
      const encoder = new TextEncoder()
      const wanted = Effect.gen(function* () {
        yield* Effect.forEach(
          Object.entries(files),
          ([path, text]) => operations.upload(path, Stream.make(encoder.encode(text))),
          { concurrency: 4, discard: true }
        )
        return mine.spec.readiness === undefined ? undefined : yield* Readiness.problem(operations, mine.spec.readiness)
      }).pipe(Effect.catchAll((error) => Effect.succeed(error.message)))
      const reason = yield* Effect.raceFirst(
        wanted,
        Effect.catchAll(operations.gone, (error) => Effect.succeed(error.reason))
      )
      if (reason !== undefined) {
        return yield* notReady(reason)
      }
    })

  /** Extends the time to live as long as the sandbox is owned; fails `lost` when the service says it is gone. */
  const heartbeat = (mine: Owned<Handle>, lost: Deferred.Deferred<never, SandboxGone>) => {
    const { ttl } = mine.spec
    if (ttl === undefined || !driver.capabilities.renew) {
      return Effect.void
    }
    const { id } = mine.handle
    const tick = driver.renew(mine.handle, mine.spec).pipe(
      Effect.catchAll((error) =>
        Effect.zipRight(
          Effect.logDebug(`${provider}: the time of sandbox ${id} was not extended: ${error.message}`),
          Effect.flatMap(
            Effect.orElseSucceed(driver.exists(id), () => true),
            (there) =>
              there
                ? Effect.void
                : Deferred.fail(
                    lost,
                    new SandboxGone({ provider, sandboxId: id, reason: "the service has removed it", log: "" })
                  )
          )
        )
      )
    )
    return Effect.asVoid(Effect.repeat(tick, Schedule.spaced(Duration.times(ttl, 1 / 3))))
  }

  const take: Acquire<Handle>["take"] = ({ attempt, create, source, spec }, parent, restore) =>
    Effect.gen(function* () {
      const creating = yield* Effect.forkDaemon(Effect.interruptible(create))
      const answer = yield* restore(Fiber.await(creating)).pipe(
        Effect.onInterrupt(() => reap(attempt.key, creating, source))
      )
      if (Exit.isFailure(answer)) {
        const failure = Cause.failureOption(answer.cause)
        if (Option.isSome(failure) && isDefinite(failure.value)) {
          yield* forget(attempt.key)
          return yield* Effect.fail(failure.value)
        }
        yield* reap(attempt.key, creating, source)
        return yield* Option.isSome(failure)
          ? Effect.fail(failure.value)
          : new SandboxCreateAmbiguous({ provider, attemptKey: attempt.key, reason: Cause.pretty(answer.cause) })
      }
      const handle = answer.value
      const mine = own(attempt.key, handle, spec)
      const scope = yield* Scope.fork(parent, ExecutionStrategy.sequential)
      yield* Scope.addFinalizer(scope, close(mine))
      return yield* Effect.gen(function* () {
        yield* note(ledger.created(attempt.key, handle.id))
        const lost = yield* Deferred.make<never, SandboxGone>()
        if (source === undefined) {
          yield* restore(driver.start(handle, spec))
        }
        const operations = yield* restore(Scope.extend(driver.operations(handle, spec), scope))
        const gone = Effect.raceFirst(operations.gone, Deferred.await(lost)).pipe(
          Effect.catchAll((error) => (mine.state === "owned" ? Effect.fail(error) : Effect.never))
        )
        const sandbox: OwnedSandbox = { ...operations, gone, _tag: "OwnedSandbox" }
        yield* Effect.forkIn(Effect.interruptible(heartbeat(mine, lost)), scope)
        yield* restore(becomeReady(mine, sandbox, source === undefined ? spec.files : {}))
        return sandbox
      }).pipe(Effect.onError((cause) => Scope.close(scope, Exit.failCause(cause))))
    })

  const acquire = Effect.fn("SandboxProvider.acquire", { captureStackTrace: false })((spec: SandboxSpec) =>
    Effect.uninterruptibleMask((restore) =>
      Effect.gen(function* () {
        const missing = missingCapability(spec, driver.capabilities)
        if (missing !== undefined) {
          return yield* new SandboxUnsupported({ provider, capability: missing })
        }
        if (spec.readiness?._tag === "HttpReadiness" && !spec.ports.includes(spec.readiness.port)) {
          return yield* new SandboxCreateRejected({
            provider,
            reason: `readiness asks port ${spec.readiness.port}, which is not among the ports`,
            remedy: "Correct the spec"
          })
        }
        const attempt = yield* intend(spec.metadata)
        const create = driver.create(spec, attempt)
        return yield* take({ attempt, spec, create, source: undefined }, yield* Effect.scope, restore)
      })
    )
  )

  return { take, acquire }
}
