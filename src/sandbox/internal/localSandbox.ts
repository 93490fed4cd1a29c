/** One local sandbox: opened and answered for until its scope closes, or lent by the program that opened it. */
import { randomBytes } from "node:crypto"
import * as FileSystem from "@effect/platform/FileSystem"
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as ExecutionStrategy from "effect/ExecutionStrategy"
import * as Exit from "effect/Exit"
import * as Option from "effect/Option"
import * as Ref from "effect/Ref"
import * as Schedule from "effect/Schedule"
import * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import { Capabilities } from "../Capabilities.js"
import { Endpoint } from "../Endpoint.js"
import type { Ledger } from "../Ledger.js"
import type { OwnedSandbox, SandboxDescriptor, SandboxOperations } from "../Sandbox.js"
import {
  EndpointUnresolvable,
  ProviderUnavailable,
  type SandboxCreateError,
  SandboxGone,
  SandboxUnsupported
} from "../SandboxError.js"
import type { SandboxSpec } from "../SandboxSpec.js"
import { bwrapCommand, bwrapOptions } from "./bwrapArguments.js"
import * as Container from "./container.js"
import { descriptor } from "./driver.js"
import * as Folders from "./folders.js"
import * as LocalExec from "./localExec.js"
import * as LocalFiles from "./localFiles.js"
import { verdict } from "./localInventory.js"
import { openPorts, prepare, ready, rejected, rejectedByFiles, started } from "./localOpening.js"
import { bounded, note, type Platform, provider, removal } from "./localRemoval.js"
import * as Proc from "./proc.js"
import { SandboxRecord, sandboxId } from "./record.js"
import { missingCapability } from "./supported.js"

/** Containers end with the program that opened them, so none outlives its time. */
export const capabilities = Capabilities.make({
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
          Effect.flatMap(somewhere, (at) => LocalFiles.upload(at, path, bytes)),
          platform
        ),
      download: (path) =>
        Stream.provideContext(Stream.unwrap(Effect.map(somewhere, (at) => LocalFiles.download(at, path))), platform),
      endpoint: (port) =>
        spec.ports.includes(port)
          ? Effect.succeed(Endpoint.Unix({ socketPath: `${folder}/ports/${port}.sock` }))
          : new EndpointUnresolvable({ provider, sandboxId: id, port, reason: "the spec did not declare it" }),
      gone: Effect.gen(function* () {
        const reason = yield* ended
        return yield* new SandboxGone({ provider, sandboxId: id, reason, log: yield* Container.logTail(folder) })
      }).pipe(Effect.provide(platform)),
      descriptor: descriptor(provider, id, spec)
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
      owner: yield* Effect.mapError(Proc.self, (error) =>
        rejected(error.message, "Nothing is opened that no sweep could tell the owner of")
      ),
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
        Effect.zipRight(
          Effect.ignoreLogged(
            Effect.retry(Container.stop(id, folder, container), {
              schedule: Schedule.spaced("1 second"),
              while: (error) => error._tag === "ProcUnreadable"
            })
          )
        ),
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

export const acquire = (stateDir: string, ledger: Ledger["Type"], answered: Set<string>) =>
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
export const borrow = (stateDir: string) =>
  Effect.fn("LocalProvider.borrow", { captureStackTrace: false })(function* (descriptor: SandboxDescriptor) {
    const { id } = descriptor
    if (descriptor.provider !== provider) {
      return yield* new SandboxUnsupported({ provider, capability: `sandboxes of ${descriptor.provider}` })
    }
    const folder = `${stateDir}/${id}`
    const absent = new SandboxGone({ provider, sandboxId: id, reason: "it does not run", log: "" })
    const unknown = ({ message }: { readonly message: string }) =>
      new ProviderUnavailable({ provider, operation: "borrow", kind: "failing", reason: message })
    const found = (yield* Effect.mapError(Folders.entries(stateDir), unknown)).find((entry) => entry.id === id)
    if (found?.unreadable !== undefined) {
      return yield* unknown({ message: found.unreadable })
    }
    const record = found?.record
    if (
      found === undefined ||
      record === undefined ||
      (yield* verdict(stateDir, found, Proc.self)).state === "orphaned"
    ) {
      return yield* absent
    }
    const { first } = yield* Effect.mapError(Container.processes(folder), () => absent)
    // The number may be another's by now.
    const ours = Effect.map(Proc.supervisors, (all) => all.get(id)?.includes(first) === true)
    if (!(yield* Effect.mapError(ours, unknown))) {
      return yield* absent
    }
    // While nobody can tell, it has not ended.
    const ended = Effect.orElseSucceed(ours, () => true).pipe(
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
