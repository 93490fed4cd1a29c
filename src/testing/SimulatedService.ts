/**
 * A service that exists only in memory and goes wrong as it is told to: what a provider's ownership rules are tested on.
 *
 * @since 0.1.0
 */
import * as Clock from "effect/Clock"
import * as Deferred from "effect/Deferred"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Stream from "effect/Stream"
import { Capabilities } from "../sandbox/Capabilities.js"
import { type Driver, descriptor, type Found, labels, match } from "../sandbox/Driver.js"
import { Endpoint } from "../sandbox/Endpoint.js"
import { type ExecCommand, ExecEvent, ExecOutcome } from "../sandbox/ExecOutcome.js"
import {
  EndpointUnresolvable,
  ProviderUnavailable,
  SandboxCreateAmbiguous,
  SandboxCreateRejected,
  SandboxFileError,
  SandboxGone
} from "../sandbox/SandboxError.js"

/**
 * What a create meets: `lost` does it and loses the answer; `hang` does it late, and answers then; `silent` does it late
 * and never answers, so that the client gives up first; `broken` answers with what cannot be read.
 *
 * @since 0.1.0
 * @category models
 */
export type CreateFault = "none" | "lost" | "hang" | "silent" | "rejected" | "rate_limited" | "unavailable" | "broken"

/**
 * Each is asked with the number of the call, from 0. What is absent goes right.
 *
 * @since 0.1.0
 * @category models
 */
export interface Faults {
  readonly create?: (call: number) => CreateFault
  readonly start?: (call: number) => boolean
  readonly list?: (call: number) => boolean
  /** `absent`: it says that nothing is there, whatever is, and does nothing. */
  readonly remove?: (call: number) => boolean | "absent"
  /** `absent`: it says that nothing is there, whatever is. */
  readonly exists?: (call: number) => boolean | "absent"
  /** Which child of a fork there will not be. */
  readonly child?: (index: number) => CreateFault
  /** Commands that do not exit with 0. */
  readonly exec?: (command: ExecCommand) => ExecOutcome
}

/**
 * @since 0.1.0
 * @category models
 */
export interface Options {
  readonly faults?: Faults
  /** How long every answer takes; nothing unless given. */
  readonly latency?: Duration.DurationInput
  /** How long a create that hangs goes on; 20 ms unless given. */
  readonly hang?: Duration.DurationInput
  /** How long a removal goes on after its answer; nothing unless given. */
  readonly removal?: Duration.DurationInput
  readonly capabilities?: Partial<typeof Capabilities.Type>
}

interface Box {
  readonly found: Found
  readonly files: Map<string, Uint8Array>
  readonly ended: Deferred.Deferred<never, SandboxGone>
  expires: number
}

interface Handle {
  readonly id: string
}

/**
 * @since 0.1.0
 * @category models
 */
export interface SimulatedService {
  readonly driver: Driver<Handle>
  /** What exists now. */
  readonly inventory: Effect.Effect<ReadonlyArray<string>>
  /** How many sandboxes there have been. */
  readonly total: Effect.Effect<number>
  /** How often the time of a sandbox was extended. */
  readonly renewals: Effect.Effect<number>
  /** Puts a sandbox there that somebody else opened. */
  readonly plant: (labels: Readonly<Record<string, string>>) => Effect.Effect<string>
  /** Ends a sandbox from inside. */
  readonly end: (id: string) => Effect.Effect<void>
}

const provider = "simulated"

/**
 * A service without a sandbox, and with the faults that are given.
 *
 * @since 0.1.0
 * @category constructors
 */
export const make = (options: Options = {}): SimulatedService => {
  const faults = options.faults ?? {}
  const boxes = new Map<string, Box>()
  const calls = { create: 0, start: 0, list: 0, remove: 0, exists: 0 }
  let born = 0
  let renewed = 0
  const latency = Effect.sleep(options.latency ?? 0)
  const hang = options.hang ?? "20 millis"

  const unavailable = (operation: string, kind: "failing" | "rate_limited" | "unreachable" = "failing") =>
    new ProviderUnavailable({ provider, operation, kind, reason: "the simulated service was told to fail" })

  const failing = <A extends boolean | "absent">(
    operation: "list" | "remove" | "exists",
    fails: ((call: number) => A) | undefined
  ) =>
    Effect.zipRight(
      latency,
      Effect.suspend(() => {
        const fault = fails?.(calls[operation]++)
        return fault === true ? unavailable(operation) : Effect.succeed(fault)
      })
    )

  const commit = (attributes: Readonly<Record<string, string>>) =>
    Effect.gen(function* () {
      const id = `sim-${born++}`
      boxes.set(id, {
        found: { id, labels: attributes, state: "running", createdAt: yield* Clock.currentTimeMillis },
        files: new Map(),
        ended: yield* Deferred.make<never, SandboxGone>(),
        expires: Number.POSITIVE_INFINITY
      })
      return { id }
    })

  /** The service's side of a create: it goes on when the client is interrupted. */
  const serve = (
    fault: CreateFault,
    attributes: Readonly<Record<string, string>>,
    key: string
  ): ReturnType<Driver<Handle>["create"]> => {
    const ambiguous = (reason: string) => new SandboxCreateAmbiguous({ provider, attemptKey: key, reason })
    const served = <A, E>(effect: Effect.Effect<A, E>) =>
      Effect.gen(function* () {
        const answer = yield* Deferred.make<A, E>()
        yield* Effect.forkDaemon(Effect.interruptible(Effect.intoDeferred(effect, answer)))
        return yield* Deferred.await(answer)
      })
    switch (fault) {
      case "none":
        return served(Effect.zipRight(latency, commit(attributes)))
      case "lost":
        return served(
          Effect.zipRight(
            latency,
            Effect.zipRight(commit(attributes), Effect.fail(ambiguous("the connection was reset")))
          )
        )
      case "broken":
        return served(
          Effect.zipRight(latency, Effect.zipRight(commit(attributes), Effect.dieMessage("malformed answer")))
        )
      case "hang":
        return served(Effect.delay(commit(attributes), hang))
      case "silent":
        return Effect.zipRight(
          Effect.forkDaemon(Effect.interruptible(Effect.delay(commit(attributes), hang))),
          Effect.delay(Effect.fail(ambiguous("no answer came in time")), Duration.times(hang, 0.9))
        )
      case "rejected":
        return Effect.zipRight(
          latency,
          new SandboxCreateRejected({ provider, reason: "no such image", remedy: "Name another" })
        )
      case "rate_limited":
        return Effect.zipRight(latency, unavailable("create", "rate_limited"))
      case "unavailable":
        return Effect.zipRight(latency, unavailable("create", "unreachable"))
    }
  }

  const driver: Driver<Handle> = {
    name: provider,
    capabilities: Capabilities.make({
      exec: true,
      files: true,
      endpoint: true,
      hostFiles: false,
      images: true,
      connect: true,
      fork: true,
      pause: false,
      renew: true,
      entrypoint: true,
      snapshot: false,
      ttl: true,
      ...options.capabilities
    }),
    create: (_, attempt) =>
      Effect.suspend(() => serve(faults.create?.(calls.create++) ?? "none", attempt.labels, attempt.key)),
    start: () =>
      Effect.zipRight(
        latency,
        Effect.suspend(() => (faults.start?.(calls.start++) === true ? unavailable("start") : Effect.void))
      ),
    find: (attemptKey) =>
      Effect.map(failing("list", faults.list), () =>
        [...boxes.values()].flatMap(({ found }) => (found.labels[labels.attempt] === attemptKey ? [found] : []))
      ),
    remove: (id) =>
      Effect.flatMap(failing("remove", faults.remove), (fault) =>
        Effect.suspend(() => {
          if (fault === "absent") {
            return Effect.void
          }
          const gone = Effect.sync(() => boxes.delete(id))
          return options.removal === undefined
            ? Effect.asVoid(gone)
            : Effect.asVoid(Effect.forkDaemon(Effect.interruptible(Effect.delay(gone, options.removal))))
        })
      ),
    exists: (id) => Effect.map(failing("exists", faults.exists), (fault) => fault !== "absent" && boxes.has(id)),
    list: (selector) =>
      failing("list", faults.list).pipe(
        Effect.map(() => [...boxes.values()].flatMap(({ found }) => (match(selector, found.labels) ? [found] : []))),
        Stream.fromIterableEffect
      ),
    operations: ({ id }, spec) =>
      Effect.sync(() => {
        const run = (command: ExecCommand) =>
          Effect.zipRight(
            latency,
            Effect.sync(() =>
              boxes.has(id)
                ? (faults.exec?.(command) ?? ExecOutcome.Exited({ code: 0, stdout: "", stderr: "" }))
                : ExecOutcome.SandboxFailed({ stdout: "", stderr: "", reason: "there is no such sandbox" })
            )
          )
        const fileError = (operation: "upload" | "download", path: string) =>
          new SandboxFileError({
            provider,
            sandboxId: id,
            operation,
            path,
            missing: operation === "download",
            reason: "no such file"
          })
        return {
          id,
          provider,
          exec: run,
          execStream: (command: ExecCommand) =>
            Stream.fromEffect(Effect.map(run(command), (outcome) => ExecEvent.Ended({ outcome }))),
          upload: (path, bytes) =>
            Effect.flatMap(Stream.runCollect(bytes), (chunks) =>
              Effect.suspend(() => {
                const box = boxes.get(id)
                box?.files.set(path, Buffer.concat([...chunks]))
                return box === undefined ? fileError("upload", path) : Effect.void
              })
            ),
          download: (path) =>
            Stream.suspend(() => {
              const bytes = boxes.get(id)?.files.get(path)
              return bytes === undefined ? Stream.fail(fileError("download", path)) : Stream.make(bytes)
            }),
          endpoint: (port) =>
            spec.ports.includes(port)
              ? Effect.succeed(Endpoint.Tcp({ url: `http://127.0.0.1:${port}`, headers: {} }))
              : new EndpointUnresolvable({ provider, sandboxId: id, port, reason: "the spec did not declare it" }),
          gone: Effect.suspend(() => {
            const box = boxes.get(id)
            return box === undefined
              ? new SandboxGone({ provider, sandboxId: id, reason: "there is no such sandbox", log: "" })
              : Deferred.await(box.ended)
          }),
          descriptor: descriptor(provider, id, spec)
        }
      }),
    log: () => Effect.succeed("the end of the log"),
    connect: (borrowed) =>
      Effect.sync(() => (boxes.has(borrowed.id) ? Option.some({ id: borrowed.id }) : Option.none())),
    fork: (source, _, attempts) =>
      Effect.gen(function* () {
        yield* latency
        const from = boxes.get(source.id)
        // A service copies the labels of the source, and knows nothing of attempts.
        const attributes = from?.found.labels ?? {}
        return attempts.map((attempt, index) => {
          const fault = faults.child?.(index) ?? "none"
          return serve(fault, attributes, attempt.key).pipe(
            Effect.catchTag("SandboxUnsupported", (error) => Effect.die(error))
          )
        })
      }),
    renew: ({ id }, spec) =>
      Effect.zipRight(
        latency,
        Effect.gen(function* () {
          const box = boxes.get(id)
          if (box === undefined) {
            return yield* unavailable("renew")
          }
          renewed++
          box.expires = (yield* Clock.currentTimeMillis) + Duration.toMillis(spec.ttl ?? Duration.infinity)
        })
      ),
    preflight: Effect.succeed([])
  }

  return {
    driver,
    inventory: Effect.sync(() => [...boxes.keys()]),
    total: Effect.sync(() => born),
    renewals: Effect.sync(() => renewed),
    plant: (attributes) => Effect.map(commit(attributes), ({ id }) => id),
    end: (id) =>
      Effect.suspend(() => {
        const box = boxes.get(id)
        boxes.delete(id)
        return box === undefined
          ? Effect.void
          : Effect.asVoid(
              Deferred.fail(
                box.ended,
                new SandboxGone({ provider, sandboxId: id, reason: "it was ended from inside", log: "" })
              )
            )
      })
  }
}
