/**
 * The sandboxes of an E2B-compatible server: each is one of a provider's, with a token and an end of its own.
 */
import { randomBytes } from "node:crypto"
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as ExecutionStrategy from "effect/ExecutionStrategy"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import type * as Option from "effect/Option"
import * as Scope from "effect/Scope"
import type { OwnedSandbox } from "../../sandbox/Sandbox.js"
import type { SandboxCreateError } from "../../sandbox/SandboxError.js"
import type { SandboxProvider } from "../../sandbox/SandboxProvider.js"
import { SandboxSpec } from "../../sandbox/SandboxSpec.js"

/** A command that runs in a guest, or that has ended not long ago. */
export interface Running {
  readonly pid: number
  readonly cmd: string
  readonly args: ReadonlyArray<string>
  readonly envs: Readonly<Record<string, string>>
  readonly cwd: string | undefined
  readonly tag: string | undefined
  readonly listeners: Set<(bytes: Buffer, last: boolean) => Effect.Effect<void>>
  /** The `end` event and the end of the stream, once it has ended. */
  ended: Buffer | undefined
  stdin: string
  /** The command waits for its input to be complete. */
  start: Effect.Effect<void>
  kill: (status: string) => Effect.Effect<void>
}

export interface Guest {
  readonly id: string
  readonly template: string
  readonly spec: SandboxSpec
  readonly sandbox: OwnedSandbox
  readonly scope: Scope.CloseableScope
  readonly token: string
  readonly trafficToken: string | undefined
  readonly metadata: Readonly<Record<string, string>>
  readonly envs: Readonly<Record<string, string>>
  readonly internet: boolean
  readonly autoPause: boolean
  readonly startedAt: number
  /** In the order of creation, for pages. */
  readonly order: number
  /** Of a fork: which child of which sandbox. */
  readonly forked: { readonly source: string; readonly index: number } | undefined
  readonly processes: Map<number, Running>
  state: "running" | "paused" | "closing"
  endAt: number
  timer: Fiber.RuntimeFiber<void> | undefined
}

export interface CreateRequest {
  readonly template: string
  readonly metadata: Readonly<Record<string, string>>
  readonly envs: Readonly<Record<string, string>>
  readonly timeout: Duration.Duration
  readonly internet: boolean
  readonly publicTraffic: boolean
  readonly autoPause: boolean
}

export interface Guests {
  readonly all: () => ReadonlyArray<Guest>
  /** One that is not being removed. */
  readonly get: (id: string) => Guest | undefined
  /** None when there is no such template. */
  readonly create: (request: CreateRequest) => Effect.Effect<Option.Option<Guest>, SandboxCreateError>
  /** Native where the provider forks; else, where it is allowed, a new sandbox of the same template. */
  readonly fork: (
    source: Guest,
    timeout: Duration.Duration,
    index: number
  ) => Effect.Effect<Option.Option<Guest>, SandboxCreateError>
  readonly remove: (guest: Guest) => Effect.Effect<void>
  readonly setTimeout: (guest: Guest, timeout: Duration.Duration) => Effect.Effect<void>
  readonly pause: (guest: Guest) => Effect.Effect<void>
  readonly resume: (guest: Guest, timeout: Duration.Duration) => Effect.Effect<void>
}

export const make = (options: {
  readonly provider: SandboxProvider["Type"]
  readonly templates: (template: string) => SandboxSpec | undefined
  readonly fork: "native" | "simulated" | "none"
}): Effect.Effect<Guests, never, Scope.Scope> =>
  Effect.gen(function* () {
    const { provider } = options
    const parent = yield* Effect.scope
    const guests = new Map<string, Guest>()
    let order = 0

    const remove = (guest: Guest): Effect.Effect<void> =>
      Effect.suspend(() => {
        guest.state = "closing"
        const { timer } = guest
        guest.timer = undefined
        return Scope.close(guest.scope, Exit.void).pipe(
          Effect.ensuring(Effect.sync(() => guests.delete(guest.id))),
          Effect.zipRight(timer === undefined ? Effect.void : Effect.forkDaemon(Fiber.interrupt(timer))),
          Effect.asVoid
        )
      })

    const pause = (guest: Guest) =>
      Effect.suspend(() => {
        guest.state = "paused"
        const { timer } = guest
        guest.timer = undefined
        return timer === undefined ? Effect.void : Effect.asVoid(Effect.forkDaemon(Fiber.interrupt(timer)))
      })

    const setTimeout = (guest: Guest, timeout: Duration.Duration) =>
      Effect.gen(function* () {
        guest.endAt = (yield* Clock.currentTimeMillis) + Duration.toMillis(timeout)
        const { timer } = guest
        guest.timer = undefined
        if (timer !== undefined) yield* Fiber.interrupt(timer)
        if (guest.state !== "running") return
        guest.timer = yield* Effect.forkIn(
          Effect.zipRight(
            Effect.sleep(timeout),
            Effect.suspend(() => (guest.autoPause ? pause(guest) : Effect.asVoid(Effect.forkIn(remove(guest), parent))))
          ).pipe(Effect.interruptible),
          parent
        )
      })

    /** On its own in the server's scope: a client that leaves changes nothing about what it asked for. */
    const admit = (
      request: CreateRequest,
      spec: SandboxSpec,
      acquire: Effect.Effect<OwnedSandbox, SandboxCreateError, Scope.Scope>,
      forked?: Guest["forked"]
    ) =>
      Effect.gen(function* () {
        const scope = yield* Scope.fork(parent, ExecutionStrategy.sequential)
        const sandbox = yield* Scope.extend(Effect.interruptible(acquire), scope).pipe(
          Effect.onError((cause) => Scope.close(scope, Exit.failCause(cause)))
        )
        const guest: Guest = {
          id: `i${randomBytes(10).toString("hex")}`,
          template: request.template,
          spec,
          sandbox,
          scope,
          token: randomBytes(16).toString("hex"),
          trafficToken: request.publicTraffic ? undefined : randomBytes(16).toString("hex"),
          metadata: request.metadata,
          envs: request.envs,
          internet: request.internet,
          autoPause: request.autoPause,
          startedAt: yield* Clock.currentTimeMillis,
          order: order++,
          forked,
          processes: new Map(),
          state: "running",
          endAt: 0,
          timer: undefined
        }
        guests.set(guest.id, guest)
        yield* setTimeout(guest, request.timeout)
        // A sandbox that ends by itself is not listed any more.
        yield* Effect.forkIn(
          Effect.interruptible(Effect.catchAll(sandbox.gone, () => Effect.forkIn(remove(guest), parent))),
          scope
        )
        return guest
      }).pipe(Effect.uninterruptible)

    return {
      all: () => [...guests.values()],
      get: (id) => {
        const guest = guests.get(id)
        return guest?.state === "closing" ? undefined : guest
      },
      create: (request) =>
        Effect.suspend(() => {
          const template = options.templates(request.template)
          if (template === undefined) return Effect.succeedNone
          const spec = new SandboxSpec({ ...template, env: { ...template.env, ...request.envs } })
          return Effect.asSome(admit(request, spec, provider.acquire(spec)))
        }),
      fork: (source, timeout, index) =>
        Effect.suspend(() => {
          if (options.fork === "none") return Effect.succeedNone
          const request: CreateRequest = {
            template: source.template,
            metadata: source.metadata,
            envs: source.envs,
            timeout,
            internet: source.internet,
            publicTraffic: source.trafficToken === undefined,
            autoPause: source.autoPause
          }
          const acquire =
            options.fork === "simulated"
              ? provider.acquire(source.spec)
              : Effect.flatMap(provider.fork(source.sandbox, [0]), ([{ child }]) =>
                  child._tag === "Forked" ? Effect.succeed(child.sandbox) : Effect.fail(child.error)
                )
          return Effect.asSome(admit(request, source.spec, acquire, { source: source.id, index }))
        }),
      remove,
      setTimeout,
      pause,
      resume: (guest, timeout) =>
        Effect.suspend(() => {
          guest.state = "running"
          return setTimeout(guest, timeout)
        })
    }
  })
