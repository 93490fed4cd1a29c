/** The steps from a spec to a local sandbox that is of use, each with what is wrong when it fails. */
import type { PlatformError } from "@effect/platform/Error"
import * as FileSystem from "@effect/platform/FileSystem"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Schedule from "effect/Schedule"
import * as Stream from "effect/Stream"
import type { SandboxOperations } from "../Sandbox.js"
import { SandboxCreateRejected, SandboxNotReady } from "../SandboxError.js"
import type { SandboxSpec } from "../SandboxSpec.js"
import { lookedFor, problems } from "./bwrapArguments.js"
import * as Container from "./container.js"
import * as Folders from "./folders.js"
import * as Host from "./host.js"
import { provider } from "./localRemoval.js"
import * as Readiness from "./readiness.js"
import { explainFileError } from "./reasons.js"
import { socketPathProblem, socketPathRemedy } from "./record.js"

/** How long bubblewrap may take to build a container. It takes some 20 ms; a busy machine takes longer. */
const startLimit = Duration.seconds(20)

export const rejected = (reason: string, remedy: string) => new SandboxCreateRejected({ provider, reason, remedy })

export const rejectedByFiles = (error: PlatformError, place: string) => {
  const { reason, remedy } = explainFileError(error, place)
  return rejected(reason, remedy)
}

/** Makes sure that a sandbox could be kept, before anything of it exists. */
export const prepare = (stateDir: string, spec: SandboxSpec) =>
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
export const started = (folder: string, container: Container.Container) =>
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
export const openPorts = (folder: string, spec: SandboxSpec) =>
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
export const ready = (folder: string, spec: SandboxSpec, sandbox: SandboxOperations) =>
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
