/** OpenSandbox as a driver. */
import { randomBytes } from "node:crypto"
import * as Chunk from "effect/Chunk"
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import * as Ref from "effect/Ref"
import * as Schedule from "effect/Schedule"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import { Capabilities } from "../Capabilities.js"
import { Endpoint, httpClient } from "../Endpoint.js"
import { type ExecCommand, ExecEvent, ExecOutcome } from "../ExecOutcome.js"
import { SandboxDescriptor, type SandboxInfo, type SandboxOperations } from "../Sandbox.js"
import {
  EndpointUnresolvable,
  ProviderUnavailable,
  SandboxCreateRejected,
  SandboxFileError,
  SandboxGone,
  SandboxUnsupported
} from "../SandboxError.js"
import type { Check, Selector } from "../SandboxProvider.js"
import type { SandboxSpec } from "../SandboxSpec.js"
import { type Driver, type Found, labels } from "./driver.js"
import * as Api from "./openSandboxApi.js"
import { baseUrlProblem, type Resolved, resolve } from "./openSandboxEndpoint.js"
import { type ApiFailure, describe, ofCreate, provider, unavailable } from "./openSandboxErrors.js"
import { collect, exitCode, output, script } from "./openSandboxExec.js"
import { fromMetadata, toMetadata } from "./openSandboxLabels.js"

export interface OpenSandboxOptions {
  /** The service's address with its version: `http://127.0.0.1:8080/v1`. */
  readonly baseUrl: string
  /** Sent to the service and nowhere else. Absent: the service wants none. */
  readonly apiKey?: Redacted.Redacted
  /** Of endpoints that the service names without a scheme; the base URL's unless given. */
  readonly protocol?: "http" | "https"
  /** A pool of sandboxes that were started before: it decides image, resources and network, and a spec's are not sent. */
  readonly poolRef?: string
  /** Ports are reached through the service itself, which takes the key and passes the rest on. */
  readonly useServerProxy?: boolean
  /** What execd in the sandboxes wants, where the service does not say it with the endpoint. */
  readonly execdToken?: Redacted.Redacted
  /** Of a sandbox whose spec has no `ttl`; none unless given, two hours in a pool. */
  readonly defaultTtl?: Duration.DurationInput
  /** For an answer to a create; two minutes unless given. */
  readonly createTimeout?: Duration.DurationInput
  /** For an answer to anything else; 30 seconds unless given. */
  readonly requestTimeout?: Duration.DurationInput
  /** How long a created sandbox may take to run; five minutes unless given. */
  readonly startTimeout?: Duration.DurationInput
}

export interface Handle {
  readonly id: string
}

/** What a service of this kind can do that the contract has no operation for. */
export interface Controls {
  readonly pause: (id: string) => Effect.Effect<void, ProviderUnavailable | SandboxGone>
  readonly resume: (id: string) => Effect.Effect<void, ProviderUnavailable | SandboxGone>
  readonly snapshot: (id: string, name: string | undefined) => Effect.Effect<string, ProviderUnavailable | SandboxGone>
  readonly removeSnapshot: (snapshotId: string) => Effect.Effect<void, ProviderUnavailable>
}

/** The service takes no shorter time to live. */
const shortestTtl = Duration.seconds(60)

/** An image that starts so is a snapshot's id. */
export const snapshotPrefix = "snapshot:"

/** How long after its time a command that the service should have ended is waited for. */
const grace = Duration.seconds(5)

const capabilities = Capabilities.make({
  exec: true,
  files: true,
  endpoint: true,
  hostFiles: false,
  images: true,
  connect: true,
  fork: false,
  pause: true,
  renew: true,
  entrypoint: true,
  snapshot: true,
  ttl: true
})

const polling = Schedule.exponential("100 millis", 1.5).pipe(Schedule.union(Schedule.spaced("2 seconds")))

/** Looks until what is seen is what was waited for; a look that fails ends it. */
const poll = <A, E>(
  look: Effect.Effect<A, E>,
  done: (seen: A) => boolean,
  schedule: Schedule.Schedule<unknown> = polling
): Effect.Effect<A, E> =>
  Effect.flatMap(Effect.either(look), (seen) =>
    Either.isRight(seen) && !done(seen.right) ? Effect.fail(undefined) : Effect.succeed(seen)
  ).pipe(
    Effect.retryOrElse(schedule, () => Effect.never),
    Effect.flatten
  )

const isMissing = (failure: ApiFailure): boolean => failure._tag === "Status" && failure.status === 404

/** Whether a command that could not be handed over has not run: execd itself said so, or nothing was sent. */
const isUnrun = (failure: ApiFailure): boolean =>
  failure._tag === "NotSent" ||
  (failure._tag === "Status" && (failure.status < 500 || (failure.status === 500 && failure.code !== "")))

const states: Readonly<Record<string, SandboxInfo["state"]>> = {
  Pending: "starting",
  Running: "running",
  Pausing: "running",
  Paused: "paused",
  Resuming: "starting",
  Stopping: "stopped",
  Terminated: "stopped",
  Failed: "stopped"
}

/** States that no sandbox comes back from. */
const isOver = (state: string): boolean => states[state] === "stopped"

const said = ({ status }: Api.Sandbox): string =>
  `it is ${status.state}${status.reason ? ` (${status.reason})` : ""}${status.message ? `: ${status.message}` : ""}`

const found = (sandbox: Api.Sandbox): Found => {
  const createdAt = Date.parse(sandbox.createdAt ?? "")
  return {
    id: sandbox.id,
    labels: fromMetadata(sandbox.metadata ?? {}),
    state: states[sandbox.status.state] ?? "unknown",
    createdAt: Number.isFinite(createdAt) ? createdAt : 0
  }
}

const resourceLimits = (spec: SandboxSpec): Readonly<Record<string, string>> => ({
  cpu: `${Math.max(1, Math.round((spec.resources?.cpu ?? 1) * 1000))}m`,
  memory: `${spec.resources?.memoryMib ?? 2048}Mi`,
  ...(spec.resources?.diskGib === undefined ? {} : { "ephemeral-storage": `${spec.resources.diskGib}Gi` })
})

const seconds = (ttl: Duration.Duration): number => Math.ceil(Duration.toSeconds(Duration.max(ttl, shortestTtl)))

const rejected = (reason: string, remedy: string) => new SandboxCreateRejected({ provider, reason, remedy })

/** The create that a spec asks for, or why there is none. */
export const createRequest = (
  options: Pick<OpenSandboxOptions, "poolRef" | "defaultTtl">,
  spec: SandboxSpec,
  attemptLabels: Readonly<Record<string, string>>
): Either.Either<Api.CreateRequest, SandboxCreateRejected | SandboxUnsupported> =>
  Either.gen(function* () {
    const metadata = yield* Either.mapLeft(toMetadata(attemptLabels), (key) =>
      rejected(`the service takes no metadata key as long as ${key}`, "Use a shorter one")
    )
    const pool = options.poolRef
    const ttl =
      spec.ttl ??
      (options.defaultTtl === undefined
        ? pool === undefined
          ? undefined
          : Duration.hours(2)
        : Duration.decode(options.defaultTtl))
    const common = { timeout: ttl === undefined ? null : seconds(ttl), metadata }
    if (spec.network === "host") {
      return yield* Either.left(new SandboxUnsupported({ provider, capability: "network host" }))
    }
    if (pool !== undefined) {
      return spec.entrypoint === undefined
        ? { ...common, extensions: { poolRef: pool } }
        : { ...common, entrypoint: spec.entrypoint, extensions: { poolRef: pool } }
    }
    if (spec.image === undefined) {
      return yield* Either.left(
        rejected("the spec names no image", "Name one, or a pool in OPENSANDBOX_POOL_REF, or `snapshot:` and an id")
      )
    }
    const snapshotId = spec.image.startsWith(snapshotPrefix) ? spec.image.slice(snapshotPrefix.length) : undefined
    const entrypoint = spec.entrypoint ?? (snapshotId === undefined ? ["tail", "-f", "/dev/null"] : undefined)
    return {
      ...common,
      ...(snapshotId === undefined ? { image: { uri: spec.image } } : { snapshotId }),
      resourceLimits: resourceLimits(spec),
      env: spec.env,
      ...(entrypoint === undefined ? {} : { entrypoint }),
      ...(spec.network === "none" ? { networkPolicy: { defaultAction: "deny" as const, egress: [] } } : {})
    }
  })

export const make = (
  options: OpenSandboxOptions
): Effect.Effect<{ readonly driver: Driver<Handle>; readonly controls: Controls }, never, Scope.Scope> =>
  Effect.gen(function* () {
    const limit = Duration.decode(options.requestTimeout ?? "30 seconds")
    const startLimit = Duration.decode(options.startTimeout ?? "5 minutes")
    const useServerProxy = options.useServerProxy ?? false
    const problem = baseUrlProblem(options.baseUrl)
    const api = yield* Api.lifecycle({
      baseUrl: problem === undefined ? options.baseUrl : "http://unset.invalid",
      apiKey: options.apiKey,
      limit,
      createLimit: Duration.decode(options.createTimeout ?? "2 minutes")
    })

    /** Where a port is. The key goes along only where the service itself passes requests on. */
    const place = (id: string, port: number): Effect.Effect<Resolved, ApiFailure> =>
      Effect.flatMap(api.place(id, port, useServerProxy), ({ endpoint, headers }) =>
        Either.match(
          resolve({ baseUrl: options.baseUrl, protocol: options.protocol, endpoint, headers: headers ?? {} }),
          {
            onLeft: (reason) => Effect.fail<ApiFailure>({ _tag: "Malformed", status: 200, reason }),
            onRight: (resolved) =>
              Effect.succeed(
                useServerProxy && resolved.proxied && options.apiKey !== undefined
                  ? { ...resolved, headers: { ...resolved.headers, [Api.keyHeader]: Redacted.value(options.apiKey) } }
                  : resolved
              )
          }
        )
      )

    /** execd of one sandbox; its place is asked for once, and again after it could not be reached. */
    const connectExecd = (id: string) =>
      Effect.gen(function* () {
        // Absolute addresses: the place may change, the connections are this scope's.
        const client = yield* httpClient(Endpoint.Tcp({ url: "", headers: {} }))
        const known = yield* Ref.make(Option.none<Api.Execd>())
        const token = options.execdToken === undefined ? {} : { [Api.tokenHeader]: Redacted.value(options.execdToken) }
        const get = Effect.flatMap(
          Ref.get(known),
          Option.match({
            onSome: Effect.succeed,
            onNone: () =>
              place(id, Api.execdPort).pipe(
                Effect.map(({ headers, url }) =>
                  Api.execd({
                    client,
                    url,
                    headers: { ...token, ...headers },
                    limit,
                    boundary: `deskhand-${randomBytes(12).toString("hex")}`
                  })
                ),
                Effect.tap((execd) => Ref.set(known, Option.some(execd)))
              )
          })
        )
        return { get, forget: Ref.set(known, Option.none()) }
      })

    /** A page that says that there is more and brings nothing new would go on for ever. */
    const list = (selector: Selector): Stream.Stream<Found, ProviderUnavailable> => {
      const asked = Either.getOrElse(toMetadata(selector), () => ({}))
      return Stream.unwrap(
        Effect.sync(() => {
          const seen = new Set<string>()
          return Stream.paginateChunkEffect(1, (page) =>
            Effect.gen(function* () {
              const { items, pagination } = yield* api.list(page, asked)
              const fresh = items.filter(({ id }) => !seen.has(id))
              for (const { id } of fresh) {
                seen.add(id)
              }
              if (pagination.page !== page || (pagination.hasNextPage && fresh.length === 0)) {
                return yield* Effect.fail<ApiFailure>({
                  _tag: "Malformed",
                  status: 200,
                  reason: `page ${page} of the list says that it is page ${pagination.page} and brings ${fresh.length} new sandboxes`
                })
              }
              return [
                Chunk.fromIterable(fresh.map(found)),
                pagination.hasNextPage ? Option.some(page + 1) : Option.none<number>()
              ] as const
            })
          )
        })
      ).pipe(
        Stream.mapError((failure) => unavailable("list", failure)),
        Stream.filter((each) => Object.entries(selector).every(([key, value]) => each.labels[key] === value))
      )
    }

    /** Looks until the sandbox is in the state; fails with what it says of itself when it never will be. */
    const until = (id: string, state: string, within: Duration.Duration) =>
      Effect.gen(function* () {
        const last = yield* Ref.make("the service said nothing of it")
        const look = api.get(id).pipe(
          Effect.tap((sandbox) => Ref.set(last, said(sandbox))),
          Effect.tapError((failure) => Ref.set(last, describe(failure))),
          Effect.map(
            (sandbox): Option.Option<Either.Either<void, string>> =>
              sandbox.status.state === state
                ? Option.some(Either.right<void>(undefined))
                : isOver(sandbox.status.state)
                  ? Option.some(Either.left(said(sandbox)))
                  : Option.none()
          )
        )
        let missing = 0
        const step = Effect.catchAll(look, (failure) =>
          Effect.sync((): Option.Option<Either.Either<void, string>> => {
            // The service may show a sandbox a little later than it names it.
            missing = isMissing(failure) ? missing + 1 : 0
            return missing >= 5 ? Option.some(Either.left("the service does not know it any more")) : Option.none()
          })
        )
        const ended = yield* Effect.timeoutOption(
          poll(step, (how) => Option.isSome(how)),
          within
        )
        return yield* Option.match(Option.flatten(ended), {
          onSome: (how): Effect.Effect<void, string> => how,
          onNone: () =>
            Effect.flatMap(Ref.get(last), (reason) =>
              Effect.fail(`it was not ${state} within ${Duration.format(within)}: ${reason}`)
            )
        })
      })

    /** Whether the sandbox is over, with what is said of it. A service that does not answer says nothing. */
    const over = (id: string): Effect.Effect<string | undefined> =>
      api.get(id).pipe(
        Effect.map((sandbox) => (isOver(sandbox.status.state) ? said(sandbox) : undefined)),
        Effect.catchAll((failure) =>
          Effect.succeed(isMissing(failure) ? "the service does not know it any more" : undefined)
        )
      )

    const operations = (
      { id }: Handle,
      spec: Pick<SandboxSpec, "ports" | "env" | "workdir">
    ): Effect.Effect<SandboxOperations, never, Scope.Scope> =>
      Effect.gen(function* () {
        const connection = yield* connectExecd(id)

        const failed = (failure: ApiFailure) =>
          Effect.map(over(id), (reason) =>
            reason === undefined && !isUnrun(failure)
              ? ExecOutcome.Unknown({ stdout: "", stderr: "", reason: describe(failure) })
              : ExecOutcome.SandboxFailed({ stdout: "", stderr: "", reason: reason ?? describe(failure) })
          )

        /** What became of a command whose stream broke off: what execd remembers of it, or that nobody knows. */
        const settle = (execd: Api.Execd, commandId: string, failure: ApiFailure, timedOut: Effect.Effect<boolean>) =>
          Effect.gen(function* () {
            const unknown = (reason: string) => ExecOutcome.Unknown({ stdout: "", stderr: "", reason })
            const status = yield* poll(execd.status(commandId), ({ running }) => !running).pipe(
              Effect.timeoutFail({
                duration: "15 seconds",
                onTimeout: (): ApiFailure => ({ _tag: "Lost", reason: `${describe(failure)}; it still runs` })
              }),
              Effect.either
            )
            if (Either.isLeft(status)) {
              yield* connection.forget
              const reason = yield* over(id)
              return reason === undefined
                ? unknown(`${describe(failure)}; asked how it ended, ${describe(status.left)}`)
                : ExecOutcome.SandboxFailed({ stdout: "", stderr: "", reason })
            }
            const { error, exit_code } = status.right
            const code = exitCode(exit_code, error ?? undefined)
            if (!(typeof exit_code === "number" && exit_code >= 0) && (yield* timedOut)) {
              return ExecOutcome.TimedOut({ stdout: "", stderr: "" })
            }
            return Option.match(code, {
              onSome: (code): ExecOutcome => ExecOutcome.Exited({ stdout: "", stderr: "", code }),
              onNone: () => unknown(`it ended and no exit code is known${error ? `: ${error}` : ""}`)
            })
          })

        const started = (execd: Api.Execd, command: ExecCommand, stdinPath: string | undefined) =>
          Effect.gen(function* () {
            const timeout = Duration.decode(command.timeout ?? "3 minutes")
            const millis = Math.max(1, Math.ceil(Duration.toMillis(timeout)))
            const begun = yield* Clock.currentTimeMillis
            const timedOut = Effect.map(Clock.currentTimeMillis, (now) => now - begun >= millis - 20)
            const mark = `dh${randomBytes(12).toString("hex")}`
            let commandId: string | undefined
            let ended = false
            const interrupt = Effect.suspend(() =>
              commandId === undefined || ended
                ? Effect.void
                : Effect.ignoreLogged(Effect.timeout(execd.interrupt(commandId), "5 seconds"))
            )
            yield* Effect.addFinalizer(() => interrupt)
            const end = (outcome: ExecOutcome) => {
              ended = true
              return [ExecEvent.Ended({ outcome })]
            }
            const nothing = { stdout: "", stderr: "" }

            /** How execd's last word is to be read. */
            const failedWith = (event: Api.Event): Effect.Effect<ReadonlyArray<ExecEvent>> =>
              Effect.gen(function* () {
                const said = event.error?.evalue ?? ""
                const note = (event.error?.traceback ?? []).join("; ")
                if (/^\d+$/.test(said)) {
                  return end(ExecOutcome.Exited({ ...nothing, code: Number(said) }))
                }
                if (yield* timedOut) {
                  return end(ExecOutcome.TimedOut(nothing))
                }
                const reason = yield* over(id)
                if (reason !== undefined) {
                  return end(ExecOutcome.SandboxFailed({ ...nothing, reason }))
                }
                const what = note === "" ? said : note
                return end(
                  Option.match(exitCode(said, note), {
                    onSome: (code): ExecOutcome => ExecOutcome.Exited({ ...nothing, code }),
                    onNone: () =>
                      /(?:^|\b)(?:fork\/exec|chdir|exec:)/.test(what)
                        ? ExecOutcome.SandboxFailed({ ...nothing, reason: `it could not be started: ${what}` })
                        : ExecOutcome.Unknown({
                            ...nothing,
                            reason: `it ended and no exit code is known${what === "" ? "" : `: ${what}`}`
                          })
                  })
                )
              })

            /** Lines that came together are told together. */
            const on = (events: Chunk.Chunk<Api.Event>): Effect.Effect<Chunk.Chunk<ExecEvent>> =>
              Effect.gen(function* () {
                const told: Array<ExecEvent> = []
                let texts: Array<string> = []
                let of = "stdout"
                const flush = () => {
                  const bytes = Buffer.from(texts.join(""))
                  texts = []
                  if (bytes.length > 0) {
                    told.push(of === "stdout" ? ExecEvent.Stdout({ bytes }) : ExecEvent.Stderr({ bytes }))
                  }
                }
                for (const event of events) {
                  const text = event.text ?? ""
                  if (event.type === "stdout" || event.type === "stderr") {
                    if (event.type !== of) {
                      flush()
                      of = event.type
                    }
                    texts.push(output(text, mark))
                  } else if (event.type === "init") {
                    commandId = text === "" ? undefined : text
                  } else if (event.type === "execution_complete" || event.type === "error") {
                    flush()
                    told.push(
                      ...(event.type === "error"
                        ? yield* failedWith(event)
                        : end(ExecOutcome.Exited({ ...nothing, code: 0 })))
                    )
                  }
                }
                flush()
                return Chunk.unsafeFromArray(told)
              })

            const broken = (failure: ApiFailure) =>
              Effect.map(
                commandId === undefined
                  ? Effect.zipRight(connection.forget, failed(failure))
                  : settle(execd, commandId, failure, timedOut),
                end
              )

            const events = execd
              .run({
                command: script(command.command, { mark, stdinPath }),
                envs: { ...spec.env, ...command.env },
                timeout: millis,
                ...((command.workdir ?? spec.workdir) === undefined
                  ? {}
                  : { cwd: command.workdir ?? spec.workdir ?? "" })
              })
              .pipe(
                Stream.mapChunksEffect(on),
                Stream.catchAll((failure) => Stream.fromIterableEffect(broken(failure))),
                Stream.concat(
                  Stream.fromIterableEffect(
                    Effect.suspend(() =>
                      ended ? Effect.succeed([]) : broken({ _tag: "Lost", reason: "its output ended before it did" })
                    )
                  )
                )
              )
            // The service ends what takes too long. Where it does not, and says nothing either, we ask once more.
            const late = Effect.gen(function* () {
              yield* Effect.sleep(Duration.sum(timeout, grace))
              const id = commandId
              const stopped =
                id !== undefined &&
                (yield* Effect.isSuccess(Effect.timeout(execd.interrupt(id), grace))) &&
                (yield* execd.status(id).pipe(
                  Effect.map(({ running }) => !running),
                  Effect.orElseSucceed(() => false)
                ))
              return ExecEvent.Ended({
                outcome: stopped
                  ? ExecOutcome.TimedOut(nothing)
                  : ExecOutcome.Unknown({ ...nothing, reason: "its time was over, and it is not known to have ended" })
              })
            })
            return Stream.merge(events, Stream.fromEffect(late), { haltStrategy: "either" }).pipe(
              Stream.takeUntil((event) => event._tag === "Ended")
            )
          })

        const execStream = (command: ExecCommand): Stream.Stream<ExecEvent> =>
          Stream.unwrapScoped(
            Effect.gen(function* () {
              const execd = yield* connection.get
              const stdinPath =
                command.stdin === undefined ? undefined : `/tmp/.deskhand-${randomBytes(8).toString("hex")}`
              if (command.stdin !== undefined && stdinPath !== undefined) {
                yield* execd.upload(stdinPath, 644, Stream.make(Buffer.from(command.stdin)))
              }
              return yield* started(execd, command, stdinPath)
            }).pipe(
              // Nothing was started yet.
              Effect.catchAll((failure) =>
                Effect.gen(function* () {
                  yield* connection.forget
                  const reason = (yield* over(id)) ?? `it could not be started: ${describe(failure)}`
                  return Stream.make(
                    ExecEvent.Ended({ outcome: ExecOutcome.SandboxFailed({ stdout: "", stderr: "", reason }) })
                  )
                })
              )
            )
          )

        const fileError = (operation: "upload" | "download", path: string) => (failure: ApiFailure) =>
          new SandboxFileError({
            provider,
            sandboxId: id,
            operation,
            path,
            missing: operation === "download" && isMissing(failure),
            reason: describe(failure)
          })

        return {
          id,
          provider,
          exec: (command) => collect(execStream(command)),
          execStream,
          upload: <E>(path: string, bytes: Stream.Stream<Uint8Array, E>) =>
            Effect.gen(function* () {
              const execd = yield* Effect.mapError(connection.get, fileError("upload", path))
              yield* execd
                .upload(
                  path,
                  644,
                  Stream.mapError(bytes, (error) => ({ theirs: error }))
                )
                .pipe(
                  Effect.mapError((error): E | SandboxFileError =>
                    "theirs" in error ? error.theirs : fileError("upload", path)(error)
                  )
                )
            }),
          download: (path) =>
            Stream.unwrap(Effect.map(connection.get, (execd) => execd.download(path))).pipe(
              Stream.mapError(fileError("download", path))
            ),
          endpoint: (port) =>
            spec.ports.includes(port)
              ? place(id, port).pipe(
                  Effect.map(({ headers, url }) => Endpoint.Tcp({ url, headers })),
                  Effect.mapError(
                    (failure) => new EndpointUnresolvable({ provider, sandboxId: id, port, reason: describe(failure) })
                  )
                )
              : new EndpointUnresolvable({ provider, sandboxId: id, port, reason: "the spec did not declare it" }),
          gone: poll(over(id), (reason) => reason !== undefined, Schedule.spaced("2 seconds")).pipe(
            Effect.flatMap(
              (reason) => new SandboxGone({ provider, sandboxId: id, reason: reason ?? "it is not there", log: "" })
            )
          ),
          descriptor: SandboxDescriptor.make({
            provider,
            id,
            ports: spec.ports,
            ...(spec.workdir === undefined ? {} : { workdir: spec.workdir })
          })
        }
      })

    const log = ({ id }: Handle) =>
      api.get(id).pipe(
        Effect.map(({ status }) => [status.reason, status.message].filter((each) => each).join(": ")),
        Effect.orElseSucceed(() => "")
      )

    const renew = ({ id }: Handle, spec: SandboxSpec) =>
      Effect.gen(function* () {
        if (spec.ttl === undefined) {
          return
        }
        const now = yield* Clock.currentTimeMillis
        const wanted = now + Duration.toMillis(Duration.max(spec.ttl, shortestTtl))
        const current = Date.parse((yield* api.get(id)).expiresAt ?? "")
        // Only a later time is taken.
        if (Number.isFinite(current) && current >= wanted) {
          return
        }
        const { expiresAt } = yield* api.renew(id, new Date(wanted))
        // A second of rounding is none of our business; a time that stayed as it was is.
        if (Number.isNaN(Date.parse(expiresAt)) || Date.parse(expiresAt) < wanted - 1000) {
          return yield* Effect.fail<ApiFailure>({
            _tag: "Malformed",
            status: 200,
            reason: `asked for ${new Date(wanted).toISOString()}, it says ${expiresAt}`
          })
        }
      }).pipe(Effect.mapError((failure) => unavailable("renew", failure)))

    const preflight: Effect.Effect<ReadonlyArray<Check>> = Effect.gen(function* () {
      if (problem !== undefined) {
        return [
          {
            subject: "OpenSandbox's address",
            ok: false,
            found: problem,
            remedy:
              "Set OPENSANDBOX_BASE_URL to the service's address with its version, as in http://127.0.0.1:8080/v1",
            packages: []
          }
        ]
      }
      const answer = yield* Effect.either(api.list(1, {}))
      return [
        Either.match(answer, {
          onLeft: (failure): Check => ({
            subject: "OpenSandbox",
            ok: false,
            found: `${options.baseUrl}: ${describe(failure)}`,
            remedy:
              failure._tag === "Status" && (failure.status === 401 || failure.status === 403)
                ? "Set OPENSANDBOX_API_KEY to a key that the service knows"
                : "Check that the service runs, and that OPENSANDBOX_BASE_URL is its address with its version",
            packages: []
          }),
          onRight: (): Check => ({
            subject: "OpenSandbox",
            ok: true,
            found: options.poolRef === undefined ? options.baseUrl : `${options.baseUrl}, pool ${options.poolRef}`,
            remedy: "",
            packages: []
          })
        })
      ]
    })

    const driver: Driver<Handle> = {
      name: provider,
      capabilities,
      create: (spec, attempt) =>
        Effect.gen(function* () {
          if (problem !== undefined) {
            return yield* rejected(`the service's address is of no use: ${problem}`, "Correct OPENSANDBOX_BASE_URL")
          }
          const request = yield* createRequest(options, spec, attempt.labels)
          const { id } = yield* Effect.mapError(api.create(request), (failure) => ofCreate(attempt.key, failure))
          return { id }
        }),
      start: ({ id }) =>
        Effect.gen(function* () {
          yield* Effect.mapError(until(id, "Running", startLimit), (reason) =>
            rejected(`the sandbox did not come to run: ${reason}`, "Look at the image, and at the service's log")
          )
          const { forget, get } = yield* connectExecd(id)
          const last = yield* Ref.make("nothing was answered")
          const ping = Effect.flatMap(get, (execd) => execd.ping).pipe(
            Effect.tapError((failure) => Effect.zipRight(Ref.set(last, describe(failure)), forget)),
            Effect.retryOrElse(polling, () => Effect.never)
          )
          const answered = yield* Effect.timeoutOption(ping, Duration.min(startLimit, "1 minute"))
          if (Option.isNone(answered)) {
            return yield* rejected(
              `execd in the sandbox does not answer: ${yield* Ref.get(last)}`,
              "Look at the image, and at whether its ports can be reached from here"
            )
          }
        }).pipe(Effect.scoped),
      find: (attemptKey) =>
        Effect.map(Stream.runCollect(list({ [labels.attempt]: attemptKey })), Chunk.toReadonlyArray),
      remove: (id) =>
        api.remove(id).pipe(
          Effect.catchIf(isMissing, () => Effect.void),
          // It is being removed already, or is about to change its state: the look afterwards decides.
          Effect.catchIf(
            (failure) => failure._tag === "Status" && failure.status === 409,
            (failure) =>
              Effect.flatMap(over(id), (reason) => (reason === undefined ? Effect.fail(failure) : Effect.void))
          ),
          Effect.mapError((failure) => unavailable("remove", failure))
        ),
      exists: (id) =>
        api.get(id).pipe(
          Effect.as(true),
          Effect.catchIf(isMissing, () => Effect.succeed(false)),
          Effect.mapError((failure) => unavailable("look", failure))
        ),
      list,
      operations,
      log,
      connect: ({ id }) =>
        api.get(id).pipe(
          Effect.map((sandbox) => (sandbox.status.state === "Running" ? Option.some({ id }) : Option.none())),
          Effect.catchIf(isMissing, () => Effect.succeed(Option.none())),
          Effect.mapError((failure) => unavailable("connect", failure))
        ),
      fork: () => new SandboxUnsupported({ provider, capability: "fork" }),
      renew,
      preflight
    }

    const moved = (operation: "pause" | "resume", id: string, state: string) =>
      Effect.gen(function* () {
        yield* Effect.mapError(api[operation](id), (failure) =>
          isMissing(failure)
            ? new SandboxGone({ provider, sandboxId: id, reason: "the service does not know it", log: "" })
            : unavailable(operation, failure)
        )
        yield* Effect.mapError(
          until(id, state, Duration.minutes(10)),
          (reason) => new ProviderUnavailable({ provider, operation, kind: "failing", reason })
        )
      })

    const controls: Controls = {
      pause: (id) => moved("pause", id, "Paused"),
      resume: (id) => moved("resume", id, "Running"),
      snapshot: (id, name) =>
        Effect.gen(function* () {
          const { id: snapshotId } = yield* Effect.mapError(api.snapshot(id, name), (failure) =>
            isMissing(failure)
              ? new SandboxGone({ provider, sandboxId: id, reason: "the service does not know it", log: "" })
              : unavailable("snapshot", failure)
          )
          const snapshot = yield* poll(
            api.getSnapshot(snapshotId),
            ({ status }) => status.state === "Ready" || status.state === "Failed"
          ).pipe(
            Effect.timeoutFail({
              duration: "10 minutes",
              onTimeout: (): ApiFailure => ({ _tag: "Lost", reason: "it was not ready within 10 minutes" })
            }),
            Effect.mapError((failure) => unavailable("snapshot", failure))
          )
          if (snapshot.status.state === "Failed") {
            return yield* new ProviderUnavailable({
              provider,
              operation: "snapshot",
              kind: "failing",
              reason: snapshot.status.message ?? snapshot.status.reason ?? "the service says no more than that"
            })
          }
          return snapshotId
        }),
      removeSnapshot: (snapshotId) =>
        api.removeSnapshot(snapshotId).pipe(
          Effect.catchIf(isMissing, () => Effect.void),
          Effect.mapError((failure) => unavailable("remove a snapshot", failure))
        )
    }
    return { driver, controls }
  })
