/**
 * What can be done with an E2B sandbox that is held: commands, files, ports.
 */
import type * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Schedule from "effect/Schedule"
import * as Stream from "effect/Stream"
import { SandboxDescriptor, type SandboxOperations } from "../Sandbox.js"
import { EndpointUnresolvable, SandboxFileError, SandboxGone } from "../SandboxError.js"
import type { SandboxSpec } from "../SandboxSpec.js"
import { collect } from "./collect.js"
import * as E2BEndpoint from "./e2bEndpoint.js"
import * as E2BErrors from "./e2bErrors.js"
import { execStream } from "./e2bExec.js"
import type { Settings } from "./e2bOptions.js"
import { type E2BHandle, type HeldSandbox, provider, targetOf } from "./e2bSdk.js"

/** How long a new sandbox may take until it listens. */
const readyLimit = "1 minute"

export const endpointOf = (settings: Settings, sandbox: HeldSandbox, port: number) =>
  E2BEndpoint.resolve(
    settings.endpoint,
    targetOf(sandbox.sandboxId, sandbox.reportedDomain, sandbox.trafficAccessToken),
    port
  )

/** A create may return before the sandbox takes requests. */
export const listening = (settings: Settings, handle: E2BHandle) =>
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

export const operations = (
  settings: Settings,
  handle: E2BHandle,
  spec: Pick<SandboxSpec, "ports" | "env" | "workdir">,
  isGone: Effect.Effect<boolean>
): SandboxOperations => {
  const { options } = settings
  const { id } = handle
  const target = {
    sandbox: () => handle.current,
    env: spec.env,
    workdir: spec.workdir,
    requestTimeoutMs: settings.requestTimeoutMs,
    isGone
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
        ports.includes(port) ? endpointOf(settings, handle.current, port) : Either.left("the spec does not declare it"),
        (reason) => new EndpointUnresolvable({ provider, sandboxId: id, port, reason })
      ),
    gone: Effect.repeat(isGone, { schedule: Schedule.spaced("2 seconds"), until: (gone) => gone }).pipe(
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
}
