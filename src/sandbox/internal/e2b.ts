/**
 * The one boundary to the `e2b` SDK: an E2B service, or one that speaks like it, as a driver.
 */

import { Sandbox, type SandboxInfo } from "e2b"
import * as Chunk from "effect/Chunk"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import * as Schedule from "effect/Schedule"
import * as Stream from "effect/Stream"
import { Capabilities } from "../Capabilities.js"
import {
  type ProviderUnavailable,
  SandboxCreateAmbiguous,
  SandboxCreateRejected,
  SandboxGone,
  SandboxUnsupported
} from "../SandboxError.js"
import type { Selector } from "../SandboxProvider.js"
import { type Attempt, type Driver, type Found, labels } from "./driver.js"
import * as E2BEndpoint from "./e2bEndpoint.js"
import * as E2BErrors from "./e2bErrors.js"
import * as E2BHttp from "./e2bHttp.js"
import { endpointOf, listening, operations } from "./e2bOperations.js"
import { type E2BOptions, quote, settings as settingsOf, templateOf, ttlMs, unsupported } from "./e2bOptions.js"
import { preflight } from "./e2bPreflight.js"
import * as Sdk from "./e2bSdk.js"
import { createError, type E2BHandle, type HeldSandbox, provider, toUnavailable } from "./e2bSdk.js"

export interface E2BDriver extends Driver<E2BHandle> {
  /** Keeps the sandbox's memory and stops its time to live. A sandbox that is paused is paused. */
  readonly pause: (id: string) => Effect.Effect<void, ProviderUnavailable | SandboxGone>
  /** The sandbox runs again, and its time to live begins anew. */
  readonly resume: (id: string) => Effect.Effect<void, ProviderUnavailable | SandboxGone>
}

type Child = Effect.Effect<E2BHandle, SandboxCreateRejected | SandboxCreateAmbiguous | ProviderUnavailable>

const matches = (row: Readonly<Record<string, string>>, selector: Selector): boolean =>
  Object.entries(selector).every(([key, value]) => row[key] === value)

export const make = (options: E2BOptions): E2BDriver => {
  const settings = settingsOf(options)
  const { connection } = settings
  const { Held, control, info, opened, rows } = Sdk.make(settings)
  /** Held sandboxes, for a resume to give new tokens to. */
  const handles = new Map<string, Set<E2BHandle>>()
  /** A child has its parent's labels on the service, so whose it is is known here alone. */
  const children = new Map<string, Attempt>()
  /** The service has only the first version of the create route. */
  let onlyV1 = false

  const hold = (sandbox: HeldSandbox): E2BHandle => ({ id: sandbox.sandboxId, current: sandbox })

  const foundOf = (row: SandboxInfo): Found => {
    const child = children.get(row.sandboxId)
    return {
      id: row.sandboxId,
      labels: child === undefined ? row.metadata : child.labels,
      state: row.state,
      createdAt: row.startedAt.getTime()
    }
  }

  const list = (selector: Selector) =>
    rows(children.size === 0 ? selector : {}).pipe(
      Stream.map(foundOf),
      Stream.filter((row) => matches(row.labels, selector))
    )

  const collectRows = (selector: Selector) => Effect.map(Stream.runCollect(list(selector)), Chunk.toReadonlyArray)

  const exists = (id: string): Effect.Effect<boolean, ProviderUnavailable> =>
    Effect.flatMap(Effect.mapError(info(id), toUnavailable("exists")), (found) =>
      Option.isSome(found)
        ? Effect.succeed(true)
        : // A 404 may come from a gateway that knows nothing of sandboxes, so the list has to agree.
          Effect.map(
            Stream.runCollect(Stream.filter(rows({}), (row) => row.sandboxId === id)),
            (same) => same.length > 0
          )
    ).pipe(
      Effect.tap((there) =>
        Effect.sync(() => {
          if (!there) children.delete(id)
        })
      )
    )

  const remove = (id: string): Effect.Effect<void, ProviderUnavailable> =>
    control((signal) => Sandbox.kill(id, { ...connection, signal })).pipe(
      Effect.asVoid,
      Effect.catchIf(
        (cause) => cause._tag === "NotFound",
        () => Effect.void
      ),
      Effect.mapError(toUnavailable("remove"))
    )

  const create: E2BDriver["create"] = (spec, attempt) =>
    Effect.gen(function* () {
      const missing = unsupported(options, spec)
      if (missing !== undefined) return yield* new SandboxUnsupported({ provider, capability: missing })
      const template = yield* Either.mapLeft(
        templateOf(options, spec.image),
        (reason) => new SandboxCreateRejected({ provider, reason, remedy: "Name it in the provider's `templates`" })
      )
      if (spec.resources !== undefined) {
        yield* Effect.logWarning(`${provider}: the spec's resources are the template's to give, and are ignored`)
      }
      const lifetime = ttlMs(settings, spec.ttl)
      const internet = spec.network === "default"
      const v1 = Effect.map(
        E2BHttp.createV1(settings, {
          templateID: template,
          metadata: attempt.labels,
          envVars: spec.env,
          timeout: lifetime / 1000,
          allow_internet_access: internet
        }),
        opened
      )
      const v2 = Effect.tryPromise({
        try: (signal) =>
          Held.create(template, {
            ...connection,
            requestTimeoutMs: settings.createTimeoutMs,
            retries: 0,
            metadata: { ...attempt.labels },
            envs: { ...spec.env },
            timeoutMs: lifetime,
            allowInternetAccess: internet,
            lifecycle: { onTimeout: "kill" },
            signal
          }),
        catch: (thrown) => thrown
      })
      // 405 says that the route is not there, so nothing was done and the older one may be asked.
      const sent = onlyV1
        ? v1
        : Effect.catchIf(
            v2,
            (thrown) => E2BErrors.of(thrown).statusCode === 405,
            () => {
              onlyV1 = true
              return v1
            }
          )
      const sandbox: HeldSandbox = yield* Effect.mapError(sent, createError(attempt.key, "create"))
      return hold(sandbox)
    })

  const start: E2BDriver["start"] = (handle, spec) =>
    Effect.gen(function* () {
      const reachable = endpointOf(settings, handle.current, E2BEndpoint.envdPort)
      if (Either.isLeft(reachable)) {
        return yield* new SandboxCreateRejected({
          provider,
          reason: `its sandboxes cannot be reached: ${reachable.left}`,
          remedy: "Run `deskhand doctor`"
        })
      }
      yield* Effect.mapError(listening(settings, handle), toUnavailable("start"))
      if (spec.entrypoint === undefined) return
      const line = `exec ${spec.entrypoint.map(quote).join(" ")} >/tmp/deskhand-entrypoint.log 2>&1`
      const started = yield* Effect.tryPromise({
        try: (signal) =>
          handle.current.commands.run(line, {
            background: true,
            envs: { ...spec.env },
            ...(spec.workdir === undefined ? {} : { cwd: spec.workdir }),
            timeoutMs: 0,
            requestTimeoutMs: settings.requestTimeoutMs,
            signal
          }),
        catch: (thrown) => E2BErrors.ofData(E2BErrors.of(thrown))
      }).pipe(
        Effect.retry({
          schedule: Schedule.intersect(Schedule.spaced("500 millis"), Schedule.recurs(20)),
          while: ({ _tag }) => _tag === "Unavailable"
        }),
        Effect.mapError(toUnavailable("start"))
      )
      yield* Effect.promise(() => started.disconnect())
    })

  const isGone = (id: string): Effect.Effect<boolean> =>
    Effect.match(exists(id), { onFailure: () => false, onSuccess: (there) => !there })

  /** Resumes a paused sandbox, so it is for those that run, or are to. */
  const open = (id: string, lifetime: number): Effect.Effect<HeldSandbox, E2BErrors.Classified> => {
    const v1 = Effect.map(E2BHttp.connectV1(settings, id, lifetime / 1000), opened)
    const v2 = Effect.tryPromise({
      try: (signal) => Held.connect(id, { ...connection, timeoutMs: lifetime, signal }),
      catch: (thrown) => thrown
    })
    const sent: Effect.Effect<HeldSandbox, unknown> = onlyV1
      ? v1
      : Effect.catchIf(
          v2,
          (thrown) => E2BErrors.of(thrown).statusCode === 405,
          () => v1
        )
    return Effect.mapError(sent, (thrown) => E2BErrors.ofControl(E2BErrors.of(thrown)))
  }

  const connect: E2BDriver["connect"] = (descriptor) =>
    Effect.gen(function* () {
      const found = yield* info(descriptor.id)
      if (Option.isNone(found) || found.value.state !== "running") return Option.none()
      const left = found.value.endAt.getTime() - (yield* Clock.currentTimeMillis)
      // A connect extends a life and does not shorten it; what is left is what it is given.
      const sandbox = yield* open(descriptor.id, Math.max(15, Math.ceil(left / 1000)) * 1000)
      return Option.some(hold(sandbox))
    }).pipe(
      Effect.catchIf(
        (cause) => cause._tag === "NotFound",
        () => Effect.succeedNone
      ),
      Effect.mapError(toUnavailable("borrow"))
    )

  const forkRequest = (source: E2BHandle, count: number, lifetime: number) =>
    Effect.tryPromise({
      try: () =>
        Held.fork(source.id, {
          ...connection,
          requestTimeoutMs: settings.createTimeoutMs,
          retries: 0,
          count,
          timeoutMs: lifetime
        }),
      catch: (thrown) => thrown
    })

  const fork: E2BDriver["fork"] = (source, spec, attempts): ReturnType<E2BDriver["fork"]> => {
    if (options.fork === false) return Effect.fail(new SandboxUnsupported({ provider, capability: "fork" }))
    /** Children may exist that nobody can name: each attempt is one of them until they have been looked for. */
    const lost = (reason: string): Effect.Effect<ReadonlyArray<Child>> =>
      Effect.succeed(
        attempts.map(({ key }) => Effect.fail(new SandboxCreateAmbiguous({ provider, attemptKey: key, reason })))
      )
    return Effect.matchEffect(forkRequest(source, attempts.length, ttlMs(settings, spec.ttl)), {
      onFailure: (thrown): Effect.Effect<ReadonlyArray<Child>, SandboxUnsupported | ProviderUnavailable> => {
        const facts = E2BErrors.of(thrown)
        const cause = E2BErrors.ofCreate(facts)
        return facts.statusCode === 405 || facts.statusCode === 501
          ? Effect.fail(new SandboxUnsupported({ provider, capability: "fork" }))
          : cause._tag === "Ambiguous"
            ? lost(cause.reason)
            : Effect.fail(toUnavailable("fork")(cause))
      },
      onSuccess: (answers): Effect.Effect<ReadonlyArray<Child>> => {
        const ids = answers.flatMap((answer) => (answer instanceof Error ? [] : [answer.sandboxId]))
        if (answers.length !== attempts.length || new Set([source.id, ...ids]).size !== ids.length + 1) {
          return lost(`${attempts.length} children were asked for, and the answer names ${ids.join(", ")}`)
        }
        const tokens = answers.flatMap((answer) =>
          answer instanceof Error || answer.token === undefined ? [] : [answer.token]
        )
        if (new Set([source.current.token, ...tokens]).size !== tokens.length + 1) {
          return lost("two of the source and its children have the same access token")
        }
        return Effect.succeed(
          attempts.map((attempt, at) => {
            const answer = answers[at]
            if (answer === undefined || answer instanceof Error) {
              return Effect.fail(createError(attempt.key, "fork")(answer))
            }
            children.set(answer.sandboxId, attempt)
            const child = hold(answer)
            // A child that does not listen yet is a child all the same: its first command waits for it, too.
            return Effect.as(Effect.ignore(Effect.timeout(listening(settings, child), "10 seconds")), child)
          })
        )
      }
    }).pipe(Effect.uninterruptible)
  }

  const renew: E2BDriver["renew"] = (handle, spec) =>
    Effect.gen(function* () {
      const lifetime = ttlMs(settings, spec.ttl)
      const from = yield* Clock.currentTimeMillis
      yield* control((signal) => Sandbox.setTimeout(handle.id, lifetime, { ...connection, signal }))
      // A renewal that is accepted may come too late for an eviction that is under way.
      const found = yield* info(handle.id)
      if (Option.isNone(found)) {
        return yield* Effect.fail<E2BErrors.Classified>({ _tag: "Gone", reason: "the sandbox is gone" })
      }
      if (found.value.endAt.getTime() < from + lifetime / 2) {
        return yield* Effect.fail<E2BErrors.Classified>({
          _tag: "Rejected",
          reason: `its life was to be extended to ${lifetime / 1000} s, and it ends at ${found.value.endAt.toISOString()}`
        })
      }
    }).pipe(Effect.mapError(toUnavailable("renew")))

  const goneOr = (operation: string, id: string) => (cause: E2BErrors.Classified) =>
    cause._tag === "NotFound"
      ? new SandboxGone({ provider, sandboxId: id, reason: cause.reason, log: "" })
      : toUnavailable(operation)(cause)

  return {
    name: provider,
    capabilities: new Capabilities({
      exec: true,
      files: true,
      endpoint: true,
      hostFiles: false,
      images: true,
      connect: true,
      fork: options.fork !== false,
      pause: true,
      renew: true,
      entrypoint: options.entrypoint === "run",
      snapshot: false,
      ttl: true
    }),
    create,
    start,
    find: (attemptKey) => collectRows({ [labels.attempt]: attemptKey }),
    remove,
    exists,
    list,
    operations: (handle, spec) =>
      Effect.as(
        // As long as somebody works with it, a resume gives it its new tokens.
        Effect.acquireRelease(
          Effect.sync(() => handles.set(handle.id, (handles.get(handle.id) ?? new Set()).add(handle))),
          () =>
            Effect.sync(() => {
              handles.get(handle.id)?.delete(handle)
              if (handles.get(handle.id)?.size === 0) handles.delete(handle.id)
            })
        ),
        operations(settings, handle, spec, isGone(handle.id))
      ),
    log: (handle) =>
      options.entrypoint === "run"
        ? Effect.tryPromise(() =>
            handle.current.files.read("/tmp/deskhand-entrypoint.log", { requestTimeoutMs: settings.requestTimeoutMs })
          ).pipe(
            Effect.map((text) => text.slice(-4096)),
            Effect.orElseSucceed(() => "")
          )
        : Effect.succeed(""),
    connect,
    fork,
    renew,
    preflight: preflight(settings),
    pause: (id) =>
      Effect.mapError(
        Effect.asVoid(control((signal) => Sandbox.pause(id, { ...connection, signal }))),
        goneOr("pause", id)
      ),
    resume: (id) =>
      open(id, settings.defaultTtlMs).pipe(
        Effect.flatMap((sandbox) =>
          Effect.sync(() => {
            for (const handle of handles.get(id) ?? []) handle.current = sandbox
          })
        ),
        Effect.mapError(goneOr("resume", id))
      )
  }
}
