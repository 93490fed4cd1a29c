/**
 * The one boundary to the `e2b` SDK: an E2B service, or one that speaks like it, as a driver.
 */

import { Sandbox, type SandboxInfo } from "e2b"
import type * as Cause from "effect/Cause"
import * as Chunk from "effect/Chunk"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import * as Schedule from "effect/Schedule"
import * as Stream from "effect/Stream"
import { Capabilities } from "../Capabilities.js"
import { SandboxDescriptor, type SandboxOperations } from "../Sandbox.js"
import {
  EndpointUnresolvable,
  ProviderUnavailable,
  SandboxCreateAmbiguous,
  SandboxCreateRejected,
  SandboxFileError,
  SandboxGone,
  SandboxUnsupported
} from "../SandboxError.js"
import type { Selector } from "../SandboxProvider.js"
import { type Attempt, type Driver, type Found, labels } from "./driver.js"
import * as E2BEndpoint from "./e2bEndpoint.js"
import * as E2BErrors from "./e2bErrors.js"
import { collect, execStream } from "./e2bExec.js"
import * as E2BHttp from "./e2bHttp.js"
import {
  dataPlane,
  type E2BOptions,
  quote,
  type Settings,
  settings as settingsOf,
  templateOf,
  ttlMs,
  unsupported
} from "./e2bOptions.js"
import { preflight } from "./e2bPreflight.js"

const provider = "e2b"

/** How long a new sandbox may take until it listens. */
const readyLimit = "1 minute"

/** A sandbox that is held. `current` changes when a resume gives it new tokens. */
export interface E2BHandle {
  readonly id: string
  current: HeldSandbox
}

interface HeldSandbox extends Sandbox {
  readonly token: string | undefined
  readonly reportedDomain: string | undefined
}

export interface E2BDriver extends Driver<E2BHandle> {
  /** Keeps the sandbox's memory and stops its time to live. A sandbox that is paused is paused. */
  readonly pause: (id: string) => Effect.Effect<void, ProviderUnavailable | SandboxGone>
  /** The sandbox runs again, and its time to live begins anew. */
  readonly resume: (id: string) => Effect.Effect<void, ProviderUnavailable | SandboxGone>
}

/** The driver's own class of sandbox never reaches the vendor's address by default, and tells its token. */
const heldClass = (settings: Settings) =>
  class Held extends Sandbox implements HeldSandbox {
    readonly reportedDomain: string | undefined
    constructor(options: ConstructorParameters<typeof Sandbox>[0]) {
      super({
        ...options,
        sandboxUrl: dataPlane(settings.endpoint, targetOf(options.sandboxId, options.sandboxDomain, undefined))
      })
      this.reportedDomain = options.sandboxDomain
    }
    get token() {
      return this.envdAccessToken
    }
  }

const targetOf = (
  id: string,
  domain: string | undefined,
  trafficToken: string | undefined
): E2BEndpoint.EndpointTarget => ({
  id,
  ...(domain === undefined ? {} : { domain }),
  ...(trafficToken === undefined ? {} : { trafficToken })
})

const toUnavailable =
  (operation: string) =>
  (cause: E2BErrors.Classified): ProviderUnavailable =>
    new ProviderUnavailable({
      provider,
      operation,
      kind: cause._tag === "Unavailable" ? cause.kind : cause._tag === "TimedOut" ? "unreachable" : "failing",
      reason: cause.reason,
      ...(cause._tag === "Unavailable" && cause.retryAfter !== undefined ? { retryAfter: cause.retryAfter } : {})
    })

const createError =
  (attemptKey: string, operation: string) =>
  (thrown: unknown): SandboxCreateRejected | SandboxCreateAmbiguous | ProviderUnavailable => {
    const cause = E2BErrors.ofCreate(E2BErrors.of(thrown))
    switch (cause._tag) {
      case "Unavailable":
        return toUnavailable(operation)(cause)
      case "Rejected":
      case "NotFound":
        return new SandboxCreateRejected({
          provider,
          reason: cause.reason,
          remedy: "Check the template's name and the service's version: `deskhand doctor` asks it"
        })
      default:
        return new SandboxCreateAmbiguous({ provider, attemptKey, reason: cause.reason })
    }
  }

type Child = Effect.Effect<E2BHandle, SandboxCreateRejected | SandboxCreateAmbiguous | ProviderUnavailable>

/** Calls that change nothing when they are made twice. */
const repeated = Schedule.intersect(Schedule.exponential("200 millis"), Schedule.recurs(2))

const matches = (row: Readonly<Record<string, string>>, selector: Selector): boolean =>
  Object.entries(selector).every(([key, value]) => row[key] === value)

/** The service's filter decodes twice, so only values that no decoding changes are left to it. */
const plainEntries = (selector: Selector): Record<string, string> =>
  Object.fromEntries(
    Object.entries(selector).filter(([key, value]) => /^[\w.-]+$/.test(key) && /^[\w.-]+$/.test(value))
  )

export const make = (options: E2BOptions): E2BDriver => {
  const settings = settingsOf(options)
  const { connection } = settings
  const Held = heldClass(settings)
  /** Held sandboxes, for a resume to give new tokens to. */
  const handles = new Map<string, Set<E2BHandle>>()
  /** A child has its parent's labels on the service, so whose it is is known here alone. */
  const children = new Map<string, Attempt>()
  /** The service has only the first version of the create route. */
  let onlyV1 = false

  const hold = (sandbox: HeldSandbox): E2BHandle => {
    const handle: E2BHandle = { id: sandbox.sandboxId, current: sandbox }
    handles.set(handle.id, (handles.get(handle.id) ?? new Set()).add(handle))
    return handle
  }

  const opened = (answer: E2BHttp.Opened): HeldSandbox =>
    new Held({
      ...connection,
      sandboxId: answer.sandboxID,
      envdVersion: answer.envdVersion,
      ...(typeof answer.domain === "string" && answer.domain !== "" ? { sandboxDomain: answer.domain } : {}),
      ...(typeof answer.envdAccessToken === "string" ? { envdAccessToken: answer.envdAccessToken } : {}),
      ...(typeof answer.trafficAccessToken === "string" ? { trafficAccessToken: answer.trafficAccessToken } : {})
    })

  /** A call that may be repeated; a thing that is not there is `NotFound`. */
  const control = <A>(call: (signal: AbortSignal) => Promise<A>): Effect.Effect<A, E2BErrors.Classified> =>
    Effect.tryPromise({ try: call, catch: (thrown) => E2BErrors.ofControl(E2BErrors.of(thrown)) }).pipe(
      Effect.retry({
        schedule: repeated,
        while: (cause) => cause._tag === "TimedOut" || (cause._tag === "Unavailable" && cause.kind !== "unauthorised")
      })
    )

  const info = (id: string): Effect.Effect<Option.Option<SandboxInfo>, E2BErrors.Classified> =>
    control((signal) => Sandbox.getInfo(id, { ...connection, signal })).pipe(
      Effect.asSome,
      Effect.catchIf(
        (cause) => cause._tag === "NotFound",
        () => Effect.succeedNone
      )
    )

  const foundOf = (row: SandboxInfo): Found => {
    const child = children.get(row.sandboxId)
    return {
      id: row.sandboxId,
      labels: child === undefined ? row.metadata : child.labels,
      state: row.state,
      createdAt: row.startedAt.getTime()
    }
  }

  /** Every page; what the service's filter lets through is looked at again. */
  const rows = (filter: Selector): Stream.Stream<Found, ProviderUnavailable> =>
    Stream.unwrap(
      Effect.sync(() => {
        const metadata = plainEntries(filter)
        const pages = Sandbox.list({
          ...connection,
          limit: 100,
          query: { state: ["running", "paused"], ...(Object.keys(metadata).length === 0 ? {} : { metadata }) }
        })
        const seen = new Set<string>()
        return Stream.paginateChunkEffect(undefined, () =>
          Effect.suspend(() => {
            const token = pages.nextToken
            // A service that gives the same page again and again would be listed for ever.
            if (token !== undefined && seen.has(token)) {
              return Effect.fail(
                new ProviderUnavailable({
                  provider,
                  operation: "list",
                  kind: "failing",
                  reason: "its pages go in circles"
                })
              )
            }
            if (token !== undefined) seen.add(token)
            return Effect.map(
              Effect.mapError(
                control((signal) => pages.nextItems({ signal })),
                toUnavailable("list")
              ),
              (page) =>
                [
                  // biome-ignore format: a tuple
                  Chunk.fromIterable(page.map(foundOf)),
                  pages.hasNext ? Option.some(undefined) : Option.none<undefined>()
                ] as const
            )
          })
        )
      })
    )

  const list = (selector: Selector) =>
    Stream.filter(rows(children.size === 0 ? selector : {}), (row) => matches(row.labels, selector))

  const collectRows = (selector: Selector) => Effect.map(Stream.runCollect(list(selector)), Chunk.toReadonlyArray)

  const exists = (id: string): Effect.Effect<boolean, ProviderUnavailable> =>
    Effect.flatMap(Effect.mapError(info(id), toUnavailable("exists")), (found) =>
      Option.isSome(found)
        ? Effect.succeed(true)
        : // A 404 may come from a gateway that knows nothing of sandboxes, so the list has to agree.
          Effect.map(Stream.runCollect(Stream.filter(rows({}), (row) => row.id === id)), (same) => same.length > 0)
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
      Effect.mapError(toUnavailable("remove")),
      Effect.tap(() => Effect.sync(() => handles.delete(id)))
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

  const endpointOf = (sandbox: HeldSandbox, port: number) =>
    E2BEndpoint.resolve(
      settings.endpoint,
      targetOf(sandbox.sandboxId, sandbox.reportedDomain, sandbox.trafficAccessToken),
      port
    )

  /** A create may return before the sandbox takes requests. */
  const listening = (handle: E2BHandle) =>
    Effect.tryPromise({
      try: (signal) => handle.current.isRunning({ requestTimeoutMs: settings.requestTimeoutMs, signal }),
      catch: (thrown) => E2BErrors.ofData(E2BErrors.of(thrown))
    }).pipe(
      Effect.filterOrFail(
        (running) => running,
        (): E2BErrors.Classified => ({
          _tag: "Unavailable",
          kind: "unreachable",
          reason: `sandbox ${handle.id} does not take requests`,
          retryAfter: undefined
        })
      ),
      Effect.retry({
        schedule: Schedule.intersect(
          Schedule.exponential("100 millis").pipe(Schedule.union(Schedule.spaced("1 second"))),
          Schedule.upTo(Schedule.forever, readyLimit)
        ),
        while: (cause) => cause._tag !== "Unavailable" || cause.kind !== "unauthorised"
      })
    )

  const start: E2BDriver["start"] = (handle, spec) =>
    Effect.gen(function* () {
      const reachable = endpointOf(handle.current, E2BEndpoint.envdPort)
      if (Either.isLeft(reachable)) {
        return yield* new SandboxCreateRejected({
          provider,
          reason: `its sandboxes cannot be reached: ${reachable.left}`,
          remedy: "Run `deskhand doctor`"
        })
      }
      yield* Effect.mapError(listening(handle), toUnavailable("start"))
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

  const fileError = (id: string, operation: "upload" | "download", path: string) => (thrown: unknown) => {
    const cause = E2BErrors.ofData(E2BErrors.of(thrown))
    return new SandboxFileError({
      provider,
      sandboxId: id,
      operation,
      path,
      missing: cause._tag === "NotFound" && operation === "download",
      reason: cause.reason
    })
  }

  const operations: E2BDriver["operations"] = (handle, spec) =>
    Effect.sync((): SandboxOperations => {
      const { id } = handle
      const target = {
        sandbox: () => handle.current,
        env: spec.env,
        workdir: spec.workdir,
        requestTimeoutMs: settings.requestTimeoutMs,
        isGone: isGone(id)
      }
      const ports = options.vncPort === undefined ? spec.ports : [...new Set([...spec.ports, options.vncPort])]
      return {
        id,
        provider,
        exec: (command) => collect(execStream(target, command)),
        execStream: (command) => execStream(target, command),
        upload: <E>(path: string, bytes: Stream.Stream<Uint8Array, E>) =>
          Effect.suspend(() => {
            // The SDK says of a source that fails that the fetch did.
            let failed: Cause.Cause<E> | undefined
            const body = Stream.toReadableStream(
              Stream.tapErrorCause(bytes, (cause) =>
                Effect.sync(() => {
                  failed = cause
                })
              )
            )
            return Effect.matchEffect(
              Effect.tryPromise({
                try: (signal) =>
                  handle.current.files.write(path, body, { requestTimeoutMs: settings.requestTimeoutMs, signal }),
                catch: (thrown) => thrown
              }),
              {
                onFailure: (thrown): Effect.Effect<void, SandboxFileError | E> =>
                  failed === undefined ? Effect.fail(fileError(id, "upload", path)(thrown)) : Effect.failCause(failed),
                onSuccess: () => Effect.void
              }
            )
          }),
        download: (path) =>
          Stream.unwrap(
            Effect.map(
              Effect.tryPromise({
                try: (signal) =>
                  handle.current.files.read(path, {
                    format: "stream",
                    requestTimeoutMs: settings.requestTimeoutMs,
                    signal
                  }),
                catch: fileError(id, "download", path)
              }),
              (body) => Stream.fromReadableStream(() => body, fileError(id, "download", path))
            )
          ),
        endpoint: (port) =>
          Either.mapLeft(
            ports.includes(port) ? endpointOf(handle.current, port) : Either.left("the spec does not declare it"),
            (reason) => new EndpointUnresolvable({ provider, sandboxId: id, port, reason })
          ),
        gone: Effect.repeat(isGone(id), { schedule: Schedule.spaced("2 seconds"), until: (gone) => gone }).pipe(
          Effect.zipRight(
            new SandboxGone({
              provider,
              sandboxId: id,
              reason: "the service does not know it any more: its time to live was over, or somebody removed it",
              log: ""
            })
          )
        ),
        descriptor: new SandboxDescriptor({
          provider,
          id,
          ports,
          ...(spec.workdir === undefined ? {} : { workdir: spec.workdir })
        })
      }
    })

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
        return Effect.succeed(
          attempts.map((attempt, at) => {
            const answer = answers[at]
            if (answer === undefined || answer instanceof Error) {
              return Effect.fail(createError(attempt.key, "fork")(answer))
            }
            children.set(answer.sandboxId, attempt)
            const child = hold(answer)
            // A child that does not listen yet is a child all the same: its first command waits for it, too.
            return Effect.as(Effect.ignore(Effect.timeout(listening(child), "10 seconds")), child)
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
      snapshot: false,
      ttl: true
    }),
    create,
    start,
    find: (attemptKey) => collectRows({ [labels.attempt]: attemptKey }),
    remove,
    exists,
    list,
    operations,
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
