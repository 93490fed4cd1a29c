/**
 * Ownership, once for every service: a driver knows how to ask, and here is who answers for what was asked.
 *
 * A create is written down before it is sent and runs on a fiber that no caller can interrupt; a caller that leaves, or
 * an answer that leaves it open what happened, hands the attempt to the reaper. A sandbox counts as gone only when the
 * service has said so.
 */
import { randomBytes } from "node:crypto"
import type * as FileSystem from "@effect/platform/FileSystem"
import * as Cause from "effect/Cause"
import * as Deferred from "effect/Deferred"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as ExecutionStrategy from "effect/ExecutionStrategy"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as FiberId from "effect/FiberId"
import * as Option from "effect/Option"
import * as Schedule from "effect/Schedule"
import * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import type { Ledger } from "../Ledger.js"
import { type OwnedSandbox, SandboxDescriptor, type SandboxInfo, type SandboxOperations } from "../Sandbox.js"
import {
  ProviderUnavailable,
  SandboxCreateAmbiguous,
  type SandboxCreateError,
  SandboxCreateRejected,
  SandboxGone,
  SandboxNotReady,
  SandboxUnsupported
} from "../SandboxError.js"
import type { ForkChild, SandboxProvider } from "../SandboxProvider.js"
import type { SandboxSpec } from "../SandboxSpec.js"
import type { Attempt, Driver } from "./driver.js"
import { labels } from "./driver.js"
import * as Labels from "./labels.js"
import { ownerLabel } from "./owner.js"
import * as Proc from "./proc.js"
import * as Readiness from "./readiness.js"
import { missingCapability } from "./supported.js"
import * as Sweep from "./sweep.js"

/** When it is believed that nothing is there, and how long that may take. */
export interface Settle {
  /** Consecutive listings without it; 3 unless given. */
  readonly looks?: number
  /** Between two looks; 2 seconds unless given. `looks` times this is longer than a create goes on unseen. */
  readonly spacing?: Duration.DurationInput
  /** How long an unclear create is followed; 3 minutes unless given. */
  readonly limit?: Duration.DurationInput
  /** How long one removal may take before it is left to `sweep`; 30 seconds unless given. */
  readonly removal?: Duration.DurationInput
  /** How long closing the provider waits for the reaper; 1 minute unless given. */
  readonly close?: Duration.DurationInput
}

export interface Options {
  readonly ledger: Ledger["Type"]
  /** What `list` and `sweep` are scoped to. */
  readonly deployment: string
  /** Who owns what is opened, as `ownerLabel` writes it; this process unless given. */
  readonly owner?: string
  readonly settle?: Settle
}

export interface Settled {
  readonly looks: number
  readonly spacing: Duration.Duration
  readonly limit: Duration.Duration
  readonly removal: Duration.Duration
  readonly close: Duration.Duration
}

const settled = (settle: Settle = {}): Settled => ({
  looks: settle.looks ?? 3,
  spacing: Duration.decode(settle.spacing ?? "2 seconds"),
  limit: Duration.decode(settle.limit ?? "3 minutes"),
  removal: Duration.decode(settle.removal ?? "30 seconds"),
  close: Duration.decode(settle.close ?? "1 minute")
})

/** A create of which nothing exists and nothing will. */
const isDefinite = (error: unknown): boolean =>
  error instanceof SandboxCreateRejected || error instanceof ProviderUnavailable || error instanceof SandboxUnsupported

type CreateFailure = SandboxCreateRejected | SandboxCreateAmbiguous | SandboxUnsupported | ProviderUnavailable

/** A sandbox that this provider opened and that is not confirmed gone. */
interface Owned<Handle> {
  readonly handle: Handle
  readonly spec: SandboxSpec
  readonly attemptKey: string
  state: "owned" | "closing" | "failed" | "confirmed"
  /** Completes with the reason why something is left, or none. Shared by all that close it at the same time. */
  closing: Deferred.Deferred<string | undefined> | undefined
  /** One fork of it at a time: children carry their source's labels, so an unclear one is told apart by exclusion. */
  readonly forking: Effect.Semaphore
}

/** Runs on time of its own, whatever happens to the fiber that waits. */
const detached = <A, E, R>(effect: Effect.Effect<A, E, R>) =>
  Effect.flatMap(Effect.forkDaemon(Effect.interruptible(effect)), Fiber.join)

/** Between the two looks that have to agree that a sandbox is gone. */
const secondLook = "150 millis"

/** Asks for the removal and looks until nothing is there. Neither an answer nor a failed look is taken for a removal. */
const removed = <Handle extends { readonly id: string }>(
  driver: Driver<Handle>,
  id: string,
  attemptKey: string,
  asked: Effect.Effect<void>,
  limit: Duration.Duration
): Effect.Effect<string | undefined> =>
  Effect.gen(function* () {
    let last = "the service did not answer"
    const noted = yield* Effect.once(asked)
    const stillThere = Effect.fail({ message: "it is still there" })
    const look = Effect.flatMap(driver.exists(id), (there) => (there ? stillThere : Effect.void))
    const listed = Effect.flatMap(driver.find(attemptKey), (found) =>
      found.some((each) => each.id === id) ? stillThere : Effect.void
    )
    // A gateway that answers "not found" for a service that it cannot reach does so for a moment, and has no list.
    const twice = Effect.zipRight(look, Effect.delay(Effect.zipRight(look, listed), secondLook))
    const gone = yield* driver.remove(id).pipe(
      Effect.zipRight(noted),
      Effect.zipRight(
        Effect.retry(twice, Schedule.intersect(Schedule.exponential("50 millis", 1.5), Schedule.recurs(8)))
      ),
      Effect.tapError((error) =>
        Effect.sync(() => {
          last = error.message
        })
      ),
      Effect.sandbox,
      Effect.tapError((cause) =>
        Cause.isDie(cause)
          ? Effect.sync(() => {
              last = Cause.pretty(cause)
            })
          : Effect.void
      ),
      Effect.retryOrElse(
        Schedule.exponential("100 millis", 1.5).pipe(Schedule.union(Schedule.spaced("2 seconds"))),
        () => Effect.never
      ),
      Effect.timeoutOption(limit)
    )
    return Option.isSome(gone) ? undefined : `${last} after ${Duration.format(limit)}`
  })

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
    const owner = options.owner ?? ownerLabel(yield* Proc.self)
    const owned = new Map<string, Owned<Handle>>()
    /** Attempts that this program answers for: being created, owned, closing or followed by the reaper. */
    const active = new Set<string>()
    /** Children of forks that the reaper has met. */
    const children = new Set<string>()
    let closed = false
    const reapers = new Set<Fiber.RuntimeFiber<void>>()

    /** What the service knows by its labels, too: a ledger that fails later than at the intent stops nothing. */
    const note = <E extends { readonly message: string }>(effect: Effect.Effect<void, E>) =>
      Effect.catchAll(effect, (error) => Effect.logWarning(error.message))

    const leave = (attemptKey: string, what: string, reason: string) =>
      Effect.zipRight(
        note(ledger.failed(attemptKey, reason)),
        Effect.logWarning(`${provider}: ${what} is not confirmed gone: ${reason}. Run \`deskhand sweep\``)
      )

    const intend = (metadata: Readonly<Record<string, string>>) =>
      Effect.gen(function* () {
        if (closed) {
          return yield* new SandboxCreateRejected({
            provider,
            reason: "the provider is closed",
            remedy: "Acquire within the scope of its layer"
          })
        }
        const key = `dh-${randomBytes(12).toString("hex")}`
        yield* Effect.mapError(
          ledger.intend({ attemptKey: key, provider, metadata }),
          (error) =>
            new SandboxCreateRejected({ provider, reason: error.message, remedy: "Nothing is created without it" })
        )
        active.add(key)
        const attempt: Attempt = { key, labels: Labels.encode({ attemptKey: key, deployment, owner, metadata }) }
        return attempt
      })

    const forget = (attemptKey: string) =>
      Effect.zipRight(
        note(ledger.confirmed(attemptKey)),
        Effect.sync(() => {
          active.delete(attemptKey)
        })
      )

    /**
     * Follows a create whose outcome is not known: waits for a late answer, removes what the service shows, and counts
     * it as gone after enough looks in a row that found nothing, the create not being under way any more.
     */
    const follow = (
      attemptKey: string,
      creating: Fiber.Fiber<Handle, CreateFailure>,
      source: Owned<Handle> | undefined
    ) =>
      Effect.gen(function* () {
        let looks = 0
        let last = "it was not looked for yet"
        const removeFound = (id: string) =>
          Effect.gen(function* () {
            // The children of one unclear fork cannot be told apart: each is counted once, for whichever attempt.
            if (source === undefined || !children.has(id)) {
              yield* note(ledger.created(attemptKey, id))
            }
            if (source !== undefined) {
              children.add(id)
            }
            return yield* removed(driver, id, attemptKey, note(ledger.removed(attemptKey)), settle.removal)
          })
        const find = Effect.gen(function* () {
          const found = yield* driver.find(attemptKey)
          if (source === undefined) {
            return found.map(({ id }) => id)
          }
          // Services copy a source's labels to its children.
          const related = yield* driver.find(source.attemptKey)
          const known = new Set([source.handle.id, ...[...owned.values()].map(({ handle }) => handle.id)])
          return [...new Set([...found, ...related].map(({ id }) => id))].filter((id) => !known.has(id))
        })
        const lock =
          source === undefined ? <A, E>(effect: Effect.Effect<A, E>) => effect : source.forking.withPermits(1)
        const look = lock(
          Effect.gen(function* () {
            const answer = Option.getOrUndefined(yield* Fiber.poll(creating))
            if (answer !== undefined && Exit.isSuccess(answer)) {
              const reason = yield* removeFound(answer.value.id)
              last = reason ?? last
              return reason === undefined
            }
            if (answer !== undefined && Exit.isFailure(answer)) {
              const failure = Cause.failureOption(answer.cause)
              if (Option.isSome(failure) && isDefinite(failure.value)) {
                return true
              }
            }
            const found = yield* find
            if (found.length > 0) {
              looks = 0
              const reasons = yield* Effect.forEach(found, removeFound)
              last = reasons.find((reason) => reason !== undefined) ?? "it was there at the last look"
              return false
            }
            last = answer === undefined ? "the create has not been answered" : "it was looked for too few times"
            looks = answer === undefined ? 0 : looks + 1
            return looks >= settle.looks
          })
        ).pipe(
          Effect.catchAll((error) =>
            Effect.sync(() => {
              looks = 0
              last = error.message
              return false
            })
          )
        )
        const gone = Effect.repeat(look, { until: (done) => done, schedule: Schedule.spaced(settle.spacing) })
        const first = yield* Effect.timeoutOption(gone, settle.limit)
        // A create without an answer is given up, and looked for once more, on time of its own.
        const second = Option.isSome(first)
          ? first
          : yield* Fiber.interrupt(creating).pipe(
              Effect.timeoutOption(settle.removal),
              Effect.zipRight(Effect.timeoutOption(gone, settle.limit))
            )
        yield* Option.isSome(second)
          ? forget(attemptKey)
          : Effect.zipRight(
              leave(attemptKey, `what came of the create ${attemptKey}`, last),
              Effect.sync(() => {
                active.delete(attemptKey)
              })
            )
      })

    const reap = (
      attemptKey: string,
      creating: Fiber.Fiber<Handle, CreateFailure>,
      source: Owned<Handle> | undefined
    ) =>
      Effect.gen(function* () {
        const fiber = yield* Effect.forkDaemon(
          Effect.interruptible(
            follow(attemptKey, creating, source).pipe(
              Effect.onInterrupt(() => Fiber.interruptFork(creating)),
              Effect.catchAllCause((cause) => leave(attemptKey, `the create ${attemptKey}`, Cause.pretty(cause)))
            )
          )
        )
        reapers.add(fiber)
        fiber.addObserver(() => reapers.delete(fiber))
      })

    /** Removes an owned sandbox; whoever comes while that goes on waits for the same result. */
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
        return removed(driver, handle.id, attemptKey, note(ledger.removed(attemptKey)), settle.removal).pipe(
          Effect.tap((reason) =>
            Effect.gen(function* () {
              if (reason === undefined) {
                mine.state = "confirmed"
                owned.delete(handle.id)
                yield* forget(attemptKey)
              } else {
                mine.state = "failed"
                active.delete(attemptKey)
                yield* leave(attemptKey, `sandbox ${handle.id}`, reason)
              }
            })
          ),
          Effect.onExit((exit) => Deferred.done(result, exit)),
          detached
        )
      })

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
          return mine.spec.readiness === undefined
            ? undefined
            : yield* Readiness.problem(operations, mine.spec.readiness)
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

    /** Waits for a create, and then for the sandbox. The scope is the sandbox's own, and it is closed on any failure. */
    const take = (
      attempt: Attempt,
      spec: SandboxSpec,
      create: Effect.Effect<Handle, CreateFailure>,
      source: Owned<Handle> | undefined,
      parent: Scope.Scope,
      restore: <A, E, R>(effect: Effect.Effect<A, E, R>) => Effect.Effect<A, E, R>
    ): Effect.Effect<OwnedSandbox, SandboxCreateError> =>
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
        const mine: Owned<Handle> = {
          handle,
          spec,
          attemptKey: attempt.key,
          state: "owned",
          closing: undefined,
          forking: Effect.unsafeMakeSemaphore(1)
        }
        owned.set(handle.id, mine)
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
          return yield* take(attempt, spec, driver.create(spec, attempt), undefined, yield* Effect.scope, restore)
        })
      )
    )

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

    const forkOwned = (
      mine: Owned<Handle>,
      owners: ReadonlyArray<number>,
      restore: <A, E, R>(effect: Effect.Effect<A, E, R>) => Effect.Effect<A, E, R>
    ) =>
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
          take(attempt, mine.spec, childOf(index, attempt.key), mine, scope, restore).pipe(
            Effect.match({
              onSuccess: (sandbox): ForkChild => ({ owner, child: { _tag: "Forked", sandbox } }),
              onFailure: (error): ForkChild => ({ owner, child: { _tag: "NotForked", error } })
            }),
            Effect.fork
          )
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

    const fork: SandboxProvider["Type"]["fork"] = (source, owners) =>
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
            belongs(found),
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

    yield* Effect.addFinalizer(() =>
      Effect.gen(function* () {
        closed = true
        yield* Effect.forEach(owned.values(), close, { concurrency: 16, discard: true })
        const waited = yield* Effect.suspend(() => Fiber.awaitAll([...reapers])).pipe(
          Effect.repeat({ until: () => reapers.size === 0 }),
          Effect.timeoutOption(settle.close),
          Effect.interruptible,
          detached
        )
        if (Option.isNone(waited)) {
          yield* Effect.forEach(
            active,
            (key) => leave(key, `what came of the create ${key}`, "the program ended before that was known"),
            { discard: true }
          )
          yield* Effect.forEach(reapers, Fiber.interruptFork, { discard: true })
        }
      })
    )

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

/** What another program needs to borrow a sandbox: for drivers. */
export const descriptor = (
  provider: string,
  id: string,
  spec: Pick<SandboxSpec, "ports" | "workdir">
): SandboxDescriptor =>
  SandboxDescriptor.make({
    provider,
    id,
    ports: spec.ports,
    ...(spec.workdir === undefined ? {} : { workdir: spec.workdir })
  })
