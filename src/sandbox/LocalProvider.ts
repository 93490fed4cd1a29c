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
import { Capabilities } from "./Capabilities.js"
import { Endpoint } from "./Endpoint.js"
import { bwrapCommand, bwrapOptions, lookedFor, problems } from "./internal/bwrapArguments.js"
import * as Container from "./internal/container.js"
import * as Folders from "./internal/folders.js"
import * as Host from "./internal/host.js"
import * as LocalExec from "./internal/localExec.js"
import { liveness, type Owner } from "./internal/owner.js"
import * as Proc from "./internal/proc.js"
import * as Readiness from "./internal/readiness.js"
import { explainFileError } from "./internal/reasons.js"
import { matches, SandboxRecord, sandboxId, socketPathProblem, socketPathRemedy } from "./internal/record.js"
import { missingCapability } from "./internal/supported.js"
import { Ledger, makeMemory } from "./Ledger.js"
import { type OwnedSandbox, SandboxDescriptor, type SandboxInfo, type SandboxOperations } from "./Sandbox.js"
import {
  EndpointUnresolvable,
  type SandboxCreateError,
  SandboxCreateRejected,
  SandboxGone,
  SandboxNotReady,
  SandboxStateError,
  SandboxUnsupported
} from "./SandboxError.js"
import { SandboxProvider, type Selector, type SweepReceipt } from "./SandboxProvider.js"
import type { SandboxSpec } from "./SandboxSpec.js"

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

/** Containers end with the program that opened them, so none outlives its time. */
const capabilities = Capabilities.make({
  exec: true,
  files: true,
  endpoint: true,
  hostFiles: true,
  images: false,
  connect: true,
  fork: false,
  pause: false,
  renew: false,
  entrypoint: true,
  snapshot: false,
  ttl: true
})

/** How long the removal of a sandbox may take before it is left to `sweep`. */
const removalLimit = Duration.seconds(10)

/** How long bubblewrap may take to build a container. It takes some 20 ms; a busy machine takes longer. */
const startLimit = Duration.seconds(20)

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

/** What is on the disk is the ledger of local sandboxes; a ledger beside it that fails stops nothing. */
const note = <E extends { readonly message: string }>(effect: Effect.Effect<void, E>) =>
  Effect.catchAll(effect, (error) => Effect.logWarning(error.message))

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

/** Waits until the sandbox is of use, or is known not to become so. */
const ready = (folder: string, spec: SandboxSpec, sandbox: SandboxOperations) =>
  Effect.gen(function* () {
    const encoder = new TextEncoder()
    const wanted = Effect.gen(function* () {
      yield* Effect.forEach(
        Object.entries(spec.files),
        ([path, text]) => sandbox.upload(path, Stream.make(encoder.encode(text))),
        { concurrency: 4, discard: true }
      )
      return spec.readiness === undefined ? undefined : yield* Readiness.problem(sandbox, spec.readiness)
    }).pipe(Effect.catchAll((error) => Effect.succeed(error.message)))
    const needed = spec.readiness !== undefined || Object.keys(spec.files).length > 0
    const problem = needed
      ? yield* Effect.raceFirst(
          wanted,
          Effect.catchAll(sandbox.gone, (error) => Effect.succeed(error.reason))
        )
      : undefined
    if (problem !== undefined) {
      const log = yield* Container.logTail(folder)
      return yield* new SandboxNotReady({ provider, sandboxId: sandbox.id, reason: problem, log })
    }
  })

/** What can be done with a container that runs. */
const operations = (
  id: string,
  folder: string,
  spec: Pick<SandboxSpec, "env" | "ports" | "workdir">,
  ended: Effect.Effect<string, never, Platform>
): Effect.Effect<SandboxOperations, never, Platform> =>
  Effect.gen(function* () {
    const platform = yield* Effect.context<Platform>()
    const place = yield* Effect.cached(
      Effect.map(
        Effect.option(Container.processes(folder)),
        Option.map((processes): LocalExec.Place => ({ id, env: spec.env, workdir: spec.workdir, ...processes }))
      )
    )
    const nowhere: LocalExec.Place = { id, env: {}, workdir: undefined, first: 0, guest: 0 }
    const somewhere = Effect.map(
      place,
      Option.getOrElse(() => nowhere)
    )
    return {
      id,
      provider,
      exec: (command) =>
        Effect.provide(
          Effect.flatMap(somewhere, (at) => LocalExec.exec(at, command)),
          platform
        ),
      execStream: (command) =>
        Stream.provideContext(
          Stream.unwrap(Effect.map(somewhere, (at) => LocalExec.execStream(at, command))),
          platform
        ),
      upload: (path, bytes) =>
        Effect.provide(
          Effect.flatMap(somewhere, (at) => LocalExec.upload(at, path, bytes)),
          platform
        ),
      download: (path) =>
        Stream.provideContext(Stream.unwrap(Effect.map(somewhere, (at) => LocalExec.download(at, path))), platform),
      endpoint: (port) =>
        spec.ports.includes(port)
          ? Effect.succeed(Endpoint.Unix({ socketPath: `${folder}/ports/${port}.sock` }))
          : new EndpointUnresolvable({ provider, sandboxId: id, port, reason: "the spec did not declare it" }),
      gone: Effect.gen(function* () {
        const reason = yield* ended
        return yield* new SandboxGone({ provider, sandboxId: id, reason, log: yield* Container.logTail(folder) })
      }).pipe(Effect.provide(platform)),
      descriptor: SandboxDescriptor.make({
        provider,
        id,
        ports: spec.ports,
        ...(spec.workdir === undefined ? {} : { workdir: spec.workdir })
      })
    }
  })

const open = (
  stateDir: string,
  ledger: Ledger["Type"],
  answered: Set<string>,
  spec: SandboxSpec,
  scope: Scope.Scope,
  restore: <A, E, R>(effect: Effect.Effect<A, E, R>) => Effect.Effect<A, E, R>
): Effect.Effect<OwnedSandbox, SandboxCreateError, Platform> =>
  Effect.gen(function* () {
    const missing = missingCapability(spec, capabilities)
    if (missing !== undefined) {
      return yield* new SandboxUnsupported({ provider, capability: missing })
    }
    const facts = yield* restore(prepare(stateDir, spec))
    const fs = yield* FileSystem.FileSystem
    const platform = yield* Effect.context<Platform>()
    const id = sandboxId(randomBytes(6))
    const folder = `${stateDir}/${id}`
    const createdAt = yield* Clock.currentTimeMillis
    const record = SandboxRecord.make({
      id,
      metadata: spec.metadata,
      createdAt,
      owner: yield* Proc.self,
      env: spec.env,
      ports: spec.ports,
      ...(spec.workdir === undefined ? {} : { workdir: spec.workdir }),
      ...(spec.ttl === undefined ? {} : { expiresAt: createdAt + Duration.toMillis(spec.ttl) })
    })
    answered.add(folder)
    yield* Scope.addFinalizer(
      scope,
      Effect.sync(() => answered.delete(folder))
    )
    yield* Effect.mapError(ledger.intend({ attemptKey: folder, provider, metadata: spec.metadata }), (error) =>
      rejected(error.message, "Nothing is opened without it")
    )

    // From here on something may exist, so from here on it is removed.
    yield* Scope.addFinalizer(
      scope,
      Effect.gen(function* () {
        yield* note(ledger.removed(folder))
        const reason = yield* removal(stateDir, id)
        yield* note(reason === undefined ? ledger.confirmed(folder) : ledger.failed(folder, reason))
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
      yield* note(ledger.created(folder, id))
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
      })
    )
    const expired = yield* Ref.make(false)
    if (spec.ttl !== undefined) {
      yield* Ref.set(expired, true).pipe(
        Effect.zipRight(Effect.ignoreLogged(Container.stop(id, folder, container))),
        Effect.delay(spec.ttl),
        Effect.interruptible,
        Effect.provide(platform),
        Effect.forkIn(scope)
      )
    }
    const ended = Effect.gen(function* () {
      const reason = yield* container.ended
      if (yield* Ref.get(closing)) {
        return yield* Effect.never
      }
      return (yield* Ref.get(expired)) && spec.ttl !== undefined
        ? `its time to live of ${Duration.format(spec.ttl)} is over`
        : reason
    })
    const sandbox = yield* operations(id, folder, spec, ended)
    yield* restore(ready(folder, spec, sandbox))
    return { ...sandbox, _tag: "OwnedSandbox" as const }
  })

const acquire = (stateDir: string, ledger: Ledger["Type"], answered: Set<string>) =>
  Effect.fn("LocalProvider.acquire", { captureStackTrace: false })((spec: SandboxSpec) =>
    Effect.uninterruptibleMask((restore) =>
      Effect.gen(function* () {
        const scope = yield* Scope.fork(yield* Effect.scope, ExecutionStrategy.sequential)
        return yield* open(stateDir, ledger, answered, spec, scope, restore).pipe(
          Effect.onExit((exit) => (Exit.isFailure(exit) ? Scope.close(scope, exit) : Effect.void))
        )
      })
    )
  )

/** A sandbox that some program on this host owns and that runs. */
const borrow = (stateDir: string) =>
  Effect.fn("LocalProvider.borrow", { captureStackTrace: false })(function* (descriptor: SandboxDescriptor) {
    const { id } = descriptor
    if (descriptor.provider !== provider) {
      return yield* new SandboxUnsupported({ provider, capability: `sandboxes of ${descriptor.provider}` })
    }
    const folder = `${stateDir}/${id}`
    const absent = new SandboxGone({ provider, sandboxId: id, reason: "it does not run", log: "" })
    const found = (yield* Effect.orElseSucceed(Folders.entries(stateDir), () => [])).find((entry) => entry.id === id)
    const record = found?.record
    if (found === undefined || record === undefined || (yield* verdict(found, yield* Proc.self)) === "orphaned") {
      return yield* absent
    }
    const { first } = yield* Effect.mapError(Container.processes(folder), () => absent)
    // The number may be another's by now.
    const ours = Effect.map(Proc.supervisors, (all) => all.get(id)?.includes(first) === true)
    if (!(yield* ours)) {
      return yield* absent
    }
    const ended = ours.pipe(
      Effect.repeat({ while: (runs) => runs, schedule: Schedule.spaced("250 millis") }),
      Effect.as("it has ended")
    )
    const workdir = descriptor.workdir ?? record.workdir
    const sandbox = yield* operations(
      id,
      folder,
      { env: record.env, ports: record.ports, ...(workdir === undefined ? {} : { workdir }) },
      ended
    )
    return { ...sandbox, _tag: "BorrowedSandbox" as const }
  })

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
    if (record.expiresAt !== undefined && record.expiresAt + 60_000 < (yield* Clock.currentTimeMillis)) {
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

/**
 * Confirms in the ledger what a program that is gone left open there, and of which nothing is on the disk. The ledger
 * knows a local sandbox by its folder.
 */
const confirmGone = (
  stateDir: string,
  ledger: Ledger["Type"],
  answered: ReadonlySet<string>,
  selector: Selector
): Effect.Effect<void, never, FileSystem.FileSystem> =>
  Effect.gen(function* () {
    const fs = yield* FileSystem.FileSystem
    for (const { attemptKey, metadata, provider: whose } of yield* ledger.open) {
      const named = whose === provider && attemptKey.startsWith(`${stateDir}/`) && matches(selector, metadata)
      if (named && !answered.has(attemptKey) && !(yield* Effect.orElseSucceed(fs.exists(attemptKey), () => true))) {
        yield* note(ledger.confirmed(attemptKey))
      }
    }
  })

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
 * - With the spec's network `none` or `default` a sandbox has a loopback of its own and nothing else; there is no other
 *   network that could be lent without privileges. With `host`, 127.0.0.1 is this host's: two sandboxes cannot listen on the same port, and a guest
 *   reaches what listens on this host.
 * - A `Ledger` in the context is kept, too: then a run's receipt knows its local sandboxes.
 * - Waiting is on the real clock: tests use `it.live` or a live clock.
 *
 * @since 0.1.0
 * @category constructors
 */
export const make = (options: Options): Effect.Effect<SandboxProvider["Type"], never, Platform> =>
  Effect.gen(function* () {
    const path = yield* Path.Path
    const memory = yield* makeMemory
    const stateDir = path.resolve(options.stateDir)
    const platform = Context.pick(
      FileSystem.FileSystem,
      Path.Path,
      CommandExecutor.CommandExecutor
    )(yield* Effect.context<Platform>())
    const ledger = Option.getOrElse(yield* Effect.serviceOption(Ledger), () => memory)
    /** The folders that this program answers for, from the intent to the end of the removal. */
    const answered = new Set<string>()
    const open = acquire(stateDir, ledger, answered)
    const lend = borrow(stateDir)
    const clean = sweep(stateDir)
    return {
      name: provider,
      capabilities,
      acquire: (spec) =>
        Effect.mapInputContext(open(spec), (scope: Context.Context<Scope.Scope>) => Context.merge(platform, scope)),
      borrow: (descriptor) => Effect.provide(lend(descriptor), platform),
      fork: () => new SandboxUnsupported({ provider, capability: "fork" }),
      list: (selector) => Stream.provideContext(list(stateDir, selector), platform),
      sweep: (selector) =>
        clean(selector).pipe(
          Effect.tap(() => confirmGone(stateDir, ledger, answered, selector)),
          Effect.provide(platform)
        ),
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
