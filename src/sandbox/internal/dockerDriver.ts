/**
 * Docker as a provider knows it.
 */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import * as Schedule from "effect/Schedule"
import * as Stream from "effect/Stream"
import { Capabilities } from "../Capabilities.js"
import { Endpoint } from "../Endpoint.js"
import type { SandboxOperations } from "../Sandbox.js"
import {
  EndpointUnresolvable,
  ProviderUnavailable,
  SandboxCreateAmbiguous,
  SandboxCreateRejected,
  SandboxGone,
  SandboxUnsupported
} from "../SandboxError.js"
import type { Check } from "../SandboxProvider.js"
import type { SandboxSpec } from "../SandboxSpec.js"
import { collect } from "./collect.js"
import { isLocal } from "./dockerAddress.js"
import * as Container from "./dockerContainer.js"
import { type Engine, oldestMinor } from "./dockerEngine.js"
import * as Exec from "./dockerExec.js"
import { type EngineError, isBeingRemoved, isMissing, isNameTaken, kindOf, ofCreate } from "./dockerFailure.js"
import * as Files from "./dockerFiles.js"
import { type Attempt, type Driver, descriptor, type Found, labels } from "./driver.js"

export interface Handle {
  readonly id: string
}

export const provider = "docker"

/** How long the answer to a look at a container that runs is believed when the engine does not answer. */
const lookAgain = Duration.seconds(2)

const unavailable = (operation: string) => (error: EngineError) =>
  new ProviderUnavailable({ provider, operation, kind: kindOf(error.failure), reason: error.message })

const has = (wanted: Readonly<Record<string, string>>, found: Readonly<Record<string, string>>) =>
  Object.entries(wanted).every(([name, value]) => Object.hasOwn(found, name) && found[name] === value)

const imageRemedy =
  "Pull it, or build the desktop's with src/desktop/guest/build-image.sh, on the engine that DOCKER_HOST names"

type CreateFailure = SandboxCreateRejected | SandboxCreateAmbiguous | ProviderUnavailable

export const make = (engine: Engine, settings: Container.Settings): Driver<Handle> => {
  const local = isLocal(engine.address)
  const capabilities = Capabilities.make({
    exec: true,
    files: true,
    endpoint: true,
    hostFiles: local,
    images: true,
    connect: true,
    fork: false,
    pause: false,
    renew: false,
    entrypoint: true,
    snapshot: false,
    ttl: true
  })

  const rejected = (reason: string, remedy: string) => new SandboxCreateRejected({ provider, reason, remedy })

  /** One for all, and left for the next: it is nobody's in particular. */
  const isolatedNetwork = Effect.gen(function* () {
    const found = yield* Effect.either(engine.network(Container.isolatedNetwork))
    if (Either.isRight(found)) {
      return found.right
    }
    if (!isMissing(found.left.failure)) {
      return yield* found.left
    }
    yield* Effect.catchIf(
      engine.createNetwork(Container.isolatedNetworkBody),
      ({ failure }) => isNameTaken(failure),
      () => Effect.void
    )
    return yield* engine.network(Container.isolatedNetwork)
  })

  const create = (spec: SandboxSpec, attempt: Attempt) =>
    Effect.gen(function* () {
      if (spec.resources?.diskGib !== undefined) {
        return yield* new SandboxUnsupported({ provider, capability: "a limit of the disk (resources.diskGib)" })
      }
      const body = Container.createBody(spec, attempt.labels, settings, engine.address)
      if (Either.isLeft(body)) {
        return yield* rejected(body.left.reason, body.left.remedy)
      }
      if (Container.networkOf(spec, settings) === Container.isolatedNetwork) {
        // Nothing of the attempt has been sent yet.
        const network = yield* Effect.mapError(isolatedNetwork, unavailable("create"))
        if (!network.Internal) {
          return yield* rejected(
            `the network ${Container.isolatedNetwork} is not internal, so it is not ours`,
            `Remove it: docker network rm ${Container.isolatedNetwork}`
          )
        }
      }
      const ambiguous = (reason: string) => new SandboxCreateAmbiguous({ provider, attemptKey: attempt.key, reason })
      return yield* engine.create(attempt.key, body.right).pipe(
        Effect.map(({ Id }): Handle => ({ id: Id })),
        Effect.catchAll((error): Effect.Effect<Handle, CreateFailure> => {
          switch (ofCreate(error.failure)) {
            case "unavailable":
              return Effect.fail(unavailable("create")(error))
            case "ambiguous":
              return Effect.fail(ambiguous(error.message))
            case "rejected":
              return Effect.fail(
                rejected(error.message, isMissing(error.failure) ? imageRemedy : "Correct the spec or the options")
              )
            case "conflict":
              // Only an earlier send of this very attempt may hold its name and be ours.
              return Effect.matchEffect(engine.inspect(attempt.key), {
                onSuccess: (holder): Effect.Effect<Handle, CreateFailure> =>
                  has({ [labels.attempt]: attempt.key }, holder.Config.Labels ?? {})
                    ? Effect.succeed<Handle>({ id: holder.Id })
                    : Effect.fail(rejected(`the name ${attempt.key} is somebody else's`, "Try again")),
                // A name that is taken by nothing that is there: one look may be wrong, and what it missed may be ours.
                onFailure: (cause): Effect.Effect<Handle, CreateFailure> =>
                  Effect.fail(ambiguous(isMissing(cause.failure) ? error.message : cause.message))
              })
          }
        })
      )
    })

  const start = (handle: Handle) =>
    engine.start(handle.id).pipe(
      Effect.asVoid,
      Effect.mapError((error) =>
        error.failure._tag === "Refused" && error.failure.status !== 401 && error.failure.status !== 429
          ? rejected(
              `the container could not be started: ${error.message}`,
              "Correct the spec or the options, and see that the image has the programs that are to run"
            )
          : unavailable("start")(error)
      )
    )

  const list = (wanted: Readonly<Record<string, string>>) =>
    engine.list(wanted).pipe(
      // A container that goes while it is listed fails the list of some engines.
      Effect.retry({
        times: 3,
        schedule: Schedule.spaced("100 millis"),
        while: ({ failure }) => isMissing(failure) || /no such container/i.test(failure.reason)
      }),
      Effect.map((all) =>
        all.flatMap((each): ReadonlyArray<Found> => {
          const found = each.Labels ?? {}
          return has(wanted, found)
            ? [{ id: each.Id, labels: found, state: Container.stateOf(each.State), createdAt: each.Created * 1000 }]
            : []
        })
      )
    )

  const find = (attemptKey: string) =>
    Effect.gen(function* () {
      const listed = yield* list({ [labels.attempt]: attemptKey })
      if (listed.length > 0) {
        return listed
      }
      // A name can be held by a container that is not listed.
      const named = yield* Effect.either(engine.inspect(attemptKey))
      if (Either.isLeft(named)) {
        return isMissing(named.left.failure) ? [] : yield* named.left
      }
      const found = named.right.Config.Labels ?? {}
      return has({ [labels.attempt]: attemptKey }, found)
        ? [
            {
              id: named.right.Id,
              labels: found,
              state: Container.stateOf(named.right.State.Status),
              createdAt: Date.parse(named.right.Created) || 0
            }
          ]
        : []
    }).pipe(Effect.mapError(unavailable("find")))

  const exists = (id: string) =>
    Effect.matchEffect(engine.inspect(id), {
      onSuccess: () => Effect.succeed(true),
      onFailure: (error) =>
        isMissing(error.failure) ? Effect.succeed(false) : Effect.fail(unavailable("inspect")(error))
    })

  const log = (handle: Handle) =>
    engine.logs(handle.id, 50).pipe(
      Effect.map((text) => text.slice(-4096)),
      Effect.orElseSucceed(() => "")
    )

  const operations = (handle: Handle, spec: Pick<SandboxSpec, "ports" | "env" | "workdir">) =>
    Effect.gen(function* () {
      const { id } = handle
      const user = yield* Effect.cached(Files.userOf(engine, id))
      const files: Files.Sandbox = { engine, provider, id, user }
      const execStream: SandboxOperations["execStream"] = (command) => Exec.stream({ engine, id, spec }, command)

      const gone = (reason: string) =>
        Effect.flatMap(log(handle), (text) => new SandboxGone({ provider, sandboxId: id, reason, log: text }))
      /** The engine's own answer when it waits, and another look when the connection breaks. */
      const watch: Effect.Effect<never, SandboxGone> = engine.wait(id).pipe(
        Effect.zipRight(engine.inspect(id)),
        Effect.flatMap((found) => (found.State.Running ? Effect.void : gone(Container.endOf(found)))),
        Effect.catchAll(
          (error): Effect.Effect<void, SandboxGone> =>
            error._tag === "SandboxGone"
              ? Effect.fail(error)
              : isMissing(error.failure)
                ? gone("the container was removed")
                : Effect.void
        ),
        Effect.repeat(Schedule.spaced(lookAgain)),
        Effect.zipRight(Effect.never)
      )

      const operations: SandboxOperations = {
        id,
        provider,
        exec: (command) => collect(Exec.stream({ engine, id, spec }, command)),
        execStream,
        upload: (path, bytes) => Files.upload(files, path, bytes),
        download: (path) => Files.download(files, path),
        endpoint: (port) =>
          Effect.gen(function* () {
            const unresolvable = (reason: string) => new EndpointUnresolvable({ provider, sandboxId: id, port, reason })
            if (!spec.ports.includes(port)) {
              return yield* unresolvable("the spec does not declare it")
            }
            const found = yield* Effect.mapError(engine.inspect(id), (error) => unresolvable(error.message))
            const url = yield* Effect.mapError(Container.endpointOf(found, port, engine.address), unresolvable)
            return Endpoint.Tcp({ url, headers: {} })
          }),
        gone: watch,
        descriptor: descriptor(provider, id, spec)
      }
      return operations
    })

  const check = (subject: string, found: string, remedy: string): Check => ({
    subject,
    ok: remedy === "",
    found,
    remedy,
    packages: []
  })

  const preflight = Effect.gen(function* () {
    const version = yield* Effect.either(engine.version)
    if (Either.isLeft(version)) {
      return [
        {
          ...check(
            "docker engine",
            version.left.message,
            version.left.failure._tag === "Unsent" && version.left.failure.denied
              ? "Let this user use the engine: sudo usermod -aG docker USER, and log in again"
              : "Start it (sudo apt-get install docker.io), or name it in DOCKER_HOST"
          ),
          packages: ["docker.io"]
        }
      ]
    }
    const { ApiVersion, Version } = version.right
    const minor = Number(ApiVersion.split(".")[1])
    const info = yield* Effect.option(engine.info)
    const where = Option.match(info, { onNone: () => "", onSome: ({ OperatingSystem }) => OperatingSystem ?? "" })
    const checks = [
      check(
        "docker engine",
        `${Version}, API ${ApiVersion}${where === "" ? "" : `, on ${where}`}`,
        minor >= oldestMinor ? "" : `Install an engine with API 1.${oldestMinor} or later (20.10)`
      )
    ]
    if (/docker desktop/i.test(where)) {
      checks.push(
        check(
          "isolated network",
          "containers' own addresses are not reached from outside Docker Desktop",
          'Ask for the network "default" for sandboxes with ports'
        )
      )
    }
    if (settings.image !== undefined) {
      const image = yield* Effect.either(engine.image(settings.image))
      checks.push(
        check(
          "docker image",
          Either.isRight(image) ? `${settings.image} is there` : image.left.message,
          Either.isRight(image) ? "" : imageRemedy
        )
      )
    }
    return checks
  })

  return {
    name: provider,
    capabilities,
    create,
    start,
    find,
    remove: (id) =>
      engine.remove(id).pipe(
        Effect.asVoid,
        Effect.catchIf(
          ({ failure }) => isMissing(failure) || isBeingRemoved(failure),
          () => Effect.void
        ),
        Effect.mapError(unavailable("remove"))
      ),
    exists,
    list: (selector) =>
      Stream.unwrap(Effect.map(Effect.mapError(list(selector), unavailable("list")), Stream.fromIterable)),
    operations,
    log,
    connect: (descriptor) =>
      Effect.matchEffect(engine.inspect(descriptor.id), {
        onSuccess: (found) => Effect.succeed(found.State.Running ? Option.some({ id: found.Id }) : Option.none()),
        onFailure: (error) =>
          isMissing(error.failure) ? Effect.succeed(Option.none()) : Effect.fail(unavailable("connect")(error))
      }),
    fork: () => new SandboxUnsupported({ provider, capability: "fork" }),
    renew: () => new SandboxUnsupported({ provider, capability: "renew" }),
    preflight
  }
}
