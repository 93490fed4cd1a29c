/** What can be done with a sandbox of an OpenSandbox service. */
import * as Effect from "effect/Effect"
import * as Schedule from "effect/Schedule"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import { Endpoint } from "../Endpoint.js"
import type { SandboxOperations } from "../Sandbox.js"
import { EndpointUnresolvable, SandboxFileError, SandboxGone } from "../SandboxError.js"
import type { SandboxSpec } from "../SandboxSpec.js"
import { collect } from "./collect.js"
import { descriptor } from "./driver.js"
import { commands } from "./openSandboxCommand.js"
import { type ApiFailure, describe, provider } from "./openSandboxErrors.js"
import { isMissing, type Looks, poll } from "./openSandboxLooks.js"
import type { Places } from "./openSandboxPlace.js"

export const operations = (
  { connectExecd, place }: Places,
  { over }: Looks,
  id: string,
  spec: Pick<SandboxSpec, "ports" | "env" | "workdir">
): Effect.Effect<SandboxOperations, never, Scope.Scope> =>
  Effect.gen(function* () {
    const connection = yield* connectExecd(id)
    const execStream = commands({ connection, over: over(id), spec })

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
      descriptor: descriptor(provider, id, spec)
    }
  })
