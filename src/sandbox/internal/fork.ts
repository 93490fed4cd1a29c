/**
 * One sandbox becomes several: an attempt for every owner, one answer of the service for all of them.
 */
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as ExecutionStrategy from "effect/ExecutionStrategy"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Option from "effect/Option"
import * as Scope from "effect/Scope"
import { ProviderUnavailable, SandboxCreateAmbiguous, SandboxUnsupported } from "../SandboxError.js"
import type { ForkChild, SandboxProvider } from "../SandboxProvider.js"
import type { Acquire, Restore } from "./acquire.js"
import type { Attempt, Driver } from "./driver.js"
import type { Owned, Ownership } from "./ownership.js"

export const make = <Handle extends { readonly id: string }>(options: {
  readonly driver: Driver<Handle>
  readonly ownership: Ownership<Handle>
  readonly take: Acquire<Handle>["take"]
}): SandboxProvider["Type"]["fork"] => {
  const { driver, take } = options
  const { forget, intend, owned } = options.ownership
  const provider = driver.name

  /** An intent for every owner, or for none. */
  const intendAll = (metadata: Readonly<Record<string, string>>, owners: ReadonlyArray<number>) =>
    Effect.gen(function* () {
      const attempts: Array<{ readonly owner: number; readonly attempt: Attempt }> = []
      for (const each of owners) {
        const attempt = yield* intend({ ...metadata, owner: `${each}` }).pipe(
          Effect.tapError(() => Effect.forEach(attempts, ({ attempt }) => forget(attempt.key)))
        )
        attempts.push({ owner: each, attempt })
      }
      return attempts
    }).pipe(
      Effect.mapError(
        (error) => new ProviderUnavailable({ provider, operation: "fork", kind: "failing", reason: error.reason })
      )
    )

  const forkOwned = (mine: Owned<Handle>, owners: ReadonlyArray<number>, restore: Restore) =>
    Effect.gen(function* () {
      const scope = yield* Effect.scope
      const attempts = yield* intendAll(mine.spec.metadata, owners)
      const forking = yield* driver
        .fork(
          mine.handle,
          mine.spec,
          attempts.map(({ attempt }) => attempt)
        )
        .pipe(Effect.interruptible, Effect.forkDaemon)
      // A child's answer comes with the fork's, so each waits for both.
      const childOf = (index: number, key: string) =>
        Effect.flatMap(
          Effect.onInterrupt(Fiber.join(forking), () => Effect.forkDaemon(Fiber.interrupt(forking))),
          (children) =>
            children[index] ??
            new SandboxCreateAmbiguous({
              provider,
              attemptKey: key,
              reason: `the service answered with ${children.length} children for ${owners.length} owners`
            })
        )
      const fibers = yield* Effect.forEach(attempts, ({ attempt, owner }, index) =>
        Effect.gen(function* () {
          // One of its own for each child, so that it can end before its siblings.
          const own = yield* Scope.fork(scope, ExecutionStrategy.sequential)
          const create = childOf(index, attempt.key)
          return yield* take({ attempt, spec: mine.spec, create, source: mine }, own, restore).pipe(
            Effect.match({
              onSuccess: (sandbox): ForkChild => ({
                owner,
                child: { _tag: "Forked", sandbox, release: Scope.close(own, Exit.void) }
              }),
              onFailure: (error): ForkChild => ({ owner, child: { _tag: "NotForked", error } })
            })
          )
        }).pipe(Effect.fork)
      )
      const children = yield* restore(Fiber.join(Fiber.all(fibers))).pipe(
        Effect.onInterrupt(() => Fiber.interruptAll(fibers))
      )
      const failure = Option.flatMap(yield* Fiber.poll(forking), (exit) =>
        Exit.isFailure(exit) ? Cause.failureOption(exit.cause) : Option.none()
      )
      if (Option.isSome(failure)) {
        return yield* Effect.fail(failure.value)
      }
      return children
    })

  return (source, owners) =>
    Effect.uninterruptibleMask((restore) =>
      Effect.gen(function* () {
        const mine = owned.get(source.id)
        if (!driver.capabilities.fork || mine === undefined || mine.state !== "owned") {
          return yield* new SandboxUnsupported({
            provider,
            capability: driver.capabilities.fork ? "fork of a sandbox that this program does not own" : "fork"
          })
        }
        // A fork that waits for its turn can be left; one that was sent is answered for.
        const [first, ...rest] = yield* Effect.acquireUseRelease(
          restore(mine.forking.take(1)),
          () => forkOwned(mine, owners, restore),
          (permits) => mine.forking.release(permits)
        )
        return first === undefined
          ? yield* Effect.dieMessage("a fork is for at least one owner")
          : ([first, ...rest] as const)
      })
    )
}
