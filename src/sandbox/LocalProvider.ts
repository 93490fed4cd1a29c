/**
 * Sandboxes on this host: each is a bubblewrap container with a home folder of its own and, of the host, `/usr` and the
 * files that its spec names, read-only.
 *
 * @since 0.1.0
 */

import { randomBytes } from "node:crypto"
import * as os from "node:os"
import * as CommandExecutor from "@effect/platform/CommandExecutor"
import type { PlatformError } from "@effect/platform/Error"
import * as FileSystem from "@effect/platform/FileSystem"
import * as Path from "@effect/platform/Path"
import * as Clock from "effect/Clock"
import * as Config from "effect/Config"
import type * as ConfigError from "effect/ConfigError"
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as ExecutionStrategy from "effect/ExecutionStrategy"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Ref from "effect/Ref"
import * as Schedule from "effect/Schedule"
import * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import { Endpoint, httpClient } from "./Endpoint.js"
import { bwrapCommand, bwrapOptions, lookedFor, problems } from "./internal/bwrapArguments.js"
import * as Container from "./internal/container.js"
import * as Folders from "./internal/folders.js"
import * as Host from "./internal/host.js"
import { liveness, type Owner } from "./internal/owner.js"
import * as Proc from "./internal/proc.js"
import { explainFileError } from "./internal/reasons.js"
import { matches, SandboxRecord, sandboxId, socketPathProblem, socketPathRemedy } from "./internal/record.js"
import type { OwnedSandbox, SandboxInfo } from "./Sandbox.js"
import {
  EndpointUnresolvable,
  type SandboxCreateError,
  SandboxCreateRejected,
  SandboxGone,
  SandboxNotReady,
  SandboxStateError
} from "./SandboxError.js"
import { SandboxProvider, type Selector, type SweepReceipt } from "./SandboxProvider.js"
import type { Readiness, SandboxSpec } from "./SandboxSpec.js"

/**
 * @since 0.1.0
 * @category models
 */
export interface Options {
  /**
   * Where sandboxes are kept while they exist, each in a folder of its own. Only its user may be able to write there;
   * it is made when it is missing. Programs that share it see each other's sandboxes in `list` and `sweep`.
   */
  readonly stateDir: string
}

const provider = "local"

/** How long the removal of a sandbox may take before it is left to `sweep`. */
const removalLimit = Duration.seconds(10)

/** How long bubblewrap may take to build a container. It takes some 20 ms; a busy machine takes longer. */
const startLimit = Duration.seconds(20)

/** How long one question to a sandbox that starts may take. */
const tryLimit = Duration.seconds(5)

type Platform = FileSystem.FileSystem | Path.Path | CommandExecutor.CommandExecutor

/**
 * Runs on time of its own, whatever happens to the fiber that waits: cleanup is neither cut short by the interruption
 * that caused it, nor can it hold that fiber longer than the limit.
 */
const bounded = <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<Option.Option<A>, E, R> =>
  effect.pipe(Effect.timeoutOption(removalLimit), Effect.interruptible, Effect.forkDaemon, Effect.flatMap(Fiber.join))

/**
 * Ends whatever runs of a sandbox and removes its folder; answers with the reason when something is left. Doing it
 * twice, or twice at once, is harmless.
 */
const removal = (stateDir: string, id: string): Effect.Effect<string | undefined, never, Platform> =>
  Effect.gen(function* () {
    const last = yield* Ref.make(`it took longer than ${Duration.format(removalLimit)}`)
    const removed = yield* Container.killAll(id).pipe(
      Effect.zipRight(Folders.remove(`${stateDir}/${id}`)),
      Effect.tapError((error) => Ref.set(last, error.message)),
      Effect.retryOrElse(Schedule.spaced("100 millis"), () => Effect.never),
      bounded
    )
    return Option.isSome(removed) ? undefined : yield* Ref.get(last)
  })

const rejected = (reason: string, remedy: string) => new SandboxCreateRejected({ provider, reason, remedy })

const rejectedByFiles = (error: PlatformError, place: string) => {
  const { reason, remedy } = explainFileError(error, place)
  return rejected(reason, remedy)
}

const stateError = (operation: string, stateDir: string) => (error: PlatformError) => {
  const { reason, remedy } = explainFileError(error, stateDir)
  return new SandboxStateError({ provider, operation, reason, remedy })
}

/** Makes sure that a sandbox could be kept, before anything of it exists. */
const prepare = (stateDir: string, spec: SandboxSpec) =>
  Effect.gen(function* () {
    const socketProblem = socketPathProblem(stateDir)
    if (socketProblem !== undefined) {
      return yield* rejected(socketProblem, socketPathRemedy)
    }
    const facts = yield* Host.facts(lookedFor(spec))
    const found = problems(spec, facts.present)
    if (found.length > 0) {
      return yield* rejected(found.join("; "), "Correct the spec")
    }
    yield* Folders.ensureStateDir(stateDir).pipe(
      Effect.catchTags({
        UnsafeStateDir: ({ reason }) =>
          rejected(reason, "Name a folder of your own in DESKHAND_STATE_DIR, with no write permission for others"),
        BadArgument: (error) => rejectedByFiles(error, stateDir),
        SystemError: (error) => rejectedByFiles(error, stateDir)
      })
    )
    return facts
  })

/** Waits for the container's first program to say that the ports are relayed. */
const started = (folder: string, container: Container.Container) =>
  Effect.gen(function* () {
    const fs = yield* FileSystem.FileSystem
    const mark = `${folder}/relay/started`
    const appeared = Effect.orElseSucceed(fs.exists(mark), () => false)
    const dead = Effect.gen(function* () {
      const how = yield* container.ended
      // An entrypoint that ends at once was started nevertheless.
      if (yield* appeared) {
        return
      }
      const log = (yield* Container.logTail(folder)).trim()
      return yield* rejected(
        `bubblewrap could not build the container: ${log === "" ? how : log}`,
        yield* Host.namespaceRemedy(log)
      )
    })
    yield* Effect.repeat(appeared, { until: (there) => there, schedule: Schedule.spaced("10 millis") }).pipe(
      Effect.raceFirst(dead),
      Effect.timeoutFail({
        duration: startLimit,
        onTimeout: () =>
          rejected(
            `bubblewrap did not build the container within ${Duration.format(startLimit)}`,
            "Open fewer sandboxes at once, or run `deskhand doctor`"
          )
      })
    )
  })

/**
 * The guest can put a link to a socket of this host in the place of its own. So the socket itself, which has no other
 * name outside, gets a name where the guest cannot reach; `link` follows no links.
 */
const openPorts = (folder: string, spec: SandboxSpec) =>
  Effect.gen(function* () {
    const fs = yield* FileSystem.FileSystem
    yield* Effect.forEach(
      spec.ports,
      (port) =>
        Effect.gen(function* () {
          const socket = `${folder}/ports/${port}.sock`
          yield* fs.link(`${folder}/relay/${port}.sock`, socket)
          const isLink = yield* Effect.isSuccess(fs.readLink(socket))
          if (isLink || (yield* fs.stat(socket)).type !== "Socket") {
            return yield* rejected(`the socket of port ${port} was swapped inside`, "Look at what the entrypoint does")
          }
        }),
      { discard: true }
    )
  })

/** Asks until the answer is 2xx; says what the last answer was when there is no time left. */
const answering = (socketPath: string, readiness: Readiness) =>
  Effect.gen(function* () {
    const client = yield* httpClient(Endpoint.Unix({ socketPath }))
    const last = yield* Ref.make("nothing was answered")
    const ask = client.get(readiness.path).pipe(
      Effect.flatMap((response) =>
        Effect.zipRight(
          Stream.runDrain(response.stream),
          response.status >= 200 && response.status < 300
            ? Effect.void
            : Effect.fail({ message: `it answered ${response.status}` })
        )
      ),
      Effect.timeoutFail({
        duration: tryLimit,
        onTimeout: () => ({ message: `no answer came within ${Duration.format(tryLimit)}` })
      }),
      Effect.tapError((error) => Ref.set(last, error.message))
    )
    const asked = `GET ${readiness.path} on port ${readiness.port}`
    return yield* ask.pipe(
      Effect.retryOrElse(Schedule.spaced("50 millis"), () => Effect.never),
      Effect.as<string | undefined>(undefined),
      Effect.timeoutTo({
        duration: readiness.timeout,
        onSuccess: () => Effect.succeed<string | undefined>(undefined),
        onTimeout: () =>
          Effect.map(
            Ref.get(last),
            (reason): string | undefined =>
              `${asked} had no 2xx answer within ${Duration.format(readiness.timeout)}: ${reason}`
          )
      }),
      Effect.flatten
    )
  }).pipe(Effect.scoped)

/** Waits until the sandbox is of use, or is known not to become so. */
const ready = (id: string, folder: string, spec: SandboxSpec, container: Container.Container) =>
  Effect.gen(function* () {
    if (spec.readiness === undefined) {
      return
    }
    const problem = yield* Effect.raceFirst(
      answering(`${folder}/ports/${spec.readiness.port}.sock`, spec.readiness),
      container.ended
    )
    if (problem !== undefined) {
      const log = yield* Container.logTail(folder)
      return yield* new SandboxNotReady({ provider, sandboxId: id, reason: problem, log })
    }
  })

const open = (
  stateDir: string,
  spec: SandboxSpec,
  scope: Scope.Scope,
  restore: <A, E, R>(effect: Effect.Effect<A, E, R>) => Effect.Effect<A, E, R>
): Effect.Effect<OwnedSandbox, SandboxCreateError, Platform> =>
  Effect.gen(function* () {
    const facts = yield* restore(prepare(stateDir, spec))
    const fs = yield* FileSystem.FileSystem
    const platform = yield* Effect.context<Platform>()
    const id = sandboxId(randomBytes(6))
    const folder = `${stateDir}/${id}`
    const record = SandboxRecord.make({
      id,
      metadata: spec.metadata,
      createdAt: yield* Clock.currentTimeMillis,
      owner: yield* Proc.self
    })

    // From here on something may exist, so from here on it is removed.
    yield* Scope.addFinalizer(
      scope,
      Effect.gen(function* () {
        const reason = yield* removal(stateDir, id)
        if (reason !== undefined) {
          yield* Effect.ignoreLogged(Folders.abandon(folder))
          yield* Effect.logWarning(
            `${provider}: sandbox ${id} was not removed: ${reason}; it stays listed: run \`deskhand sweep\``
          )
        }
      }).pipe(Effect.provide(platform))
    )
    const container = yield* Effect.gen(function* () {
      const folders = yield* Folders.create(folder, record, facts.root, randomBytes(16).toString("hex"))
      yield* fs.writeFileString(
        `${folder}/args`,
        bwrapOptions(spec, facts, folders)
          .map((each) => `${each}\0`)
          .join("")
      )
      return yield* Scope.extend(Container.start(id, folder, bwrapCommand(id, spec, facts.root)), scope)
    }).pipe(Effect.mapError((error) => rejectedByFiles(error, folder)))

    const closing = yield* Ref.make(false)
    yield* Scope.addFinalizer(
      scope,
      Effect.zipRight(Ref.set(closing, true), bounded(Container.stop(id, folder, container))).pipe(
        Effect.catchAll((error) => Effect.logDebug("a sandbox did not end at once", { id, error })),
        Effect.provide(platform)
      )
    )

    yield* restore(
      Effect.gen(function* () {
        yield* started(folder, container)
        yield* openPorts(folder, spec).pipe(
          Effect.catchTags({
            BadArgument: (error) => rejectedByFiles(error, folder),
            SystemError: (error) => rejectedByFiles(error, folder)
          })
        )
        yield* ready(id, folder, spec, container)
      })
    )

    return {
      _tag: "OwnedSandbox",
      id,
      provider,
      endpoint: (port) =>
        spec.ports.includes(port)
          ? Effect.succeed(Endpoint.Unix({ socketPath: `${folder}/ports/${port}.sock` }))
          : new EndpointUnresolvable({
              provider,
              sandboxId: id,
              port,
              reason: "the spec did not declare it"
            }),
      gone: Effect.gen(function* () {
        const reason = yield* container.ended
        if (yield* Ref.get(closing)) {
          return yield* Effect.never
        }
        return yield* new SandboxGone({ provider, sandboxId: id, reason, log: yield* Container.logTail(folder) })
      }).pipe(Effect.provide(platform))
    }
  })

const acquire = (stateDir: string) =>
  Effect.fn("LocalProvider.acquire", { captureStackTrace: false })((spec: SandboxSpec) =>
    Effect.uninterruptibleMask((restore) =>
      Effect.gen(function* () {
        const scope = yield* Scope.fork(yield* Effect.scope, ExecutionStrategy.sequential)
        return yield* open(stateDir, spec, scope, restore).pipe(
          Effect.onExit((exit) => (Exit.isFailure(exit) ? Scope.close(scope, exit) : Effect.void))
        )
      })
    )
  )

/** Who answers for what is found in the state folder. */
const verdict = (entry: Folders.Entry, here: Owner) =>
  Effect.gen(function* () {
    const { record } = entry
    if (record === undefined) {
      return (yield* Folders.isStale(entry)) ? "orphaned" : "running"
    }
    if (entry.abandoned) {
      return "orphaned"
    }
    const alive = liveness(record.owner, yield* Proc.stat(record.owner.pid), here)
    return alive === "dead" ? "orphaned" : alive === "alive" ? "running" : "unknown"
  })

/** The entries that a selector names; an entry without a record has no metadata, so only the empty one names it. */
const selected = (stateDir: string, selector: Selector) =>
  Effect.gen(function* () {
    const here = yield* Proc.self
    const found = (yield* Folders.entries(stateDir)).filter((entry) => matches(selector, entry.record?.metadata ?? {}))
    return yield* Effect.forEach(found, (entry) => Effect.map(verdict(entry, here), (state) => ({ entry, state })), {
      concurrency: 16
    })
  })

const list = (stateDir: string, selector: Selector) =>
  selected(stateDir, selector).pipe(
    Effect.mapError(stateError("list", stateDir)),
    Effect.map((found) =>
      found.map(
        ({ entry, state }): SandboxInfo => ({
          id: entry.id,
          provider,
          metadata: entry.record?.metadata ?? {},
          createdAt: entry.record?.createdAt ?? entry.changedAt,
          state: state === "orphaned" ? "orphaned" : "running"
        })
      )
    ),
    Stream.fromIterableEffect
  )

type Swept = { readonly removed: string } | { readonly inUse: string } | { readonly left: SweepReceipt["left"][number] }

const sweep = (stateDir: string) =>
  Effect.fn("LocalProvider.sweep", { captureStackTrace: false })(function* (selector: Selector) {
    const found = yield* Effect.mapError(selected(stateDir, selector), stateError("sweep", stateDir))
    const swept = yield* Effect.forEach(
      found,
      ({ entry: { id }, state }): Effect.Effect<Swept, never, Platform> =>
        state === "running"
          ? Effect.succeed({ inUse: id })
          : state === "unknown"
            ? Effect.succeed({
                left: {
                  id,
                  reason: `its owner runs in another container; sweep there, or remove ${stateDir}/${id} when that is gone`
                }
              })
            : Effect.map(removal(stateDir, id), (reason) =>
                reason === undefined ? { removed: id } : { left: { id, reason } }
              ),
      { concurrency: 4 }
    )
    const receipt: SweepReceipt = {
      provider,
      removed: swept.flatMap((each) => ("removed" in each ? [each.removed] : [])),
      left: swept.flatMap((each) => ("left" in each ? [each.left] : [])),
      inUse: swept.flatMap((each) => ("inUse" in each ? [each.inUse] : []))
    }
    return receipt
  })

/**
 * Opens sandboxes on this host.
 *
 * - A guest is user 1000 in namespaces of its own, with no capabilities. Outside, it is the user that runs this program;
 *   when that is root, it is the unprivileged user 65530 instead.
 * - A container ends with the thread that started it: run this on the main thread, not in a worker that ends early.
 *   SIGKILL of this program ends its containers, at whatever moment; `sweep` removes what they leave on the disk.
 * - With the spec's network `host`, 127.0.0.1 is this host's: two sandboxes cannot listen on the same port, and a guest
 *   reaches what listens on this host.
 * - Waiting is on the real clock: tests use `it.live` or a live clock.
 *
 * @since 0.1.0
 * @category constructors
 */
export const make = (options: Options): Effect.Effect<SandboxProvider["Type"], never, Platform> =>
  Effect.gen(function* () {
    const path = yield* Path.Path
    const stateDir = path.resolve(options.stateDir)
    const platform = Context.pick(
      FileSystem.FileSystem,
      Path.Path,
      CommandExecutor.CommandExecutor
    )(yield* Effect.context<Platform>())
    const open = acquire(stateDir)
    const clean = sweep(stateDir)
    return {
      name: provider,
      acquire: (spec) =>
        Effect.mapInputContext(open(spec), (scope: Context.Context<Scope.Scope>) => Context.merge(platform, scope)),
      list: (selector) => Stream.provideContext(list(stateDir, selector), platform),
      sweep: (selector) => Effect.provide(clean(selector), platform),
      preflight: Effect.provide(Host.preflight(stateDir), platform)
    }
  })

/**
 * @since 0.1.0
 * @category layers
 */
export const layer = (options: Options): Layer.Layer<SandboxProvider, never, Platform> =>
  Layer.effect(SandboxProvider, make(options))

/**
 * Keeps sandboxes in the folder that `DESKHAND_STATE_DIR` names, `<temporary folder>/deskhand-<uid>` without it.
 *
 * @since 0.1.0
 * @category layers
 */
export const layerConfig: Layer.Layer<SandboxProvider, ConfigError.ConfigError, Platform> = Layer.unwrapEffect(
  Effect.gen(function* () {
    const stateDir = yield* Config.nonEmptyString("DESKHAND_STATE_DIR").pipe(
      Config.orElse(() => Config.sync(() => `${os.tmpdir()}/deskhand-${process.getuid?.() ?? 0}`))
    )
    return layer({ stateDir })
  })
)
