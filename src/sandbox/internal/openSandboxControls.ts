/** What OpenSandbox can do that the contract has no operation for: pause, resume, snapshots. */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import { ProviderUnavailable, SandboxGone } from "../SandboxError.js"
import type * as Api from "./openSandboxApi.js"
import { type ApiFailure, provider, unavailable } from "./openSandboxErrors.js"
import { isMissing, type Looks, poll } from "./openSandboxLooks.js"

/** What a service of this kind can do that the contract has no operation for. */
export interface Controls {
  readonly pause: (id: string) => Effect.Effect<void, ProviderUnavailable | SandboxGone>
  readonly resume: (id: string) => Effect.Effect<void, ProviderUnavailable | SandboxGone>
  readonly snapshot: (id: string, name: string | undefined) => Effect.Effect<string, ProviderUnavailable | SandboxGone>
  readonly removeSnapshot: (snapshotId: string) => Effect.Effect<void, ProviderUnavailable>
}

const notDone = (operation: string, id: string) => (failure: ApiFailure) =>
  isMissing(failure)
    ? new SandboxGone({ provider, sandboxId: id, reason: "the service does not know it", log: "" })
    : unavailable(operation, failure)

export const make = (api: Api.Lifecycle, { until }: Looks): Controls => {
  const moved = (operation: "pause" | "resume", id: string, state: string) =>
    Effect.gen(function* () {
      yield* Effect.mapError(api[operation](id), notDone(operation, id))
      yield* Effect.mapError(
        until(id, state, Duration.minutes(10)),
        (reason) => new ProviderUnavailable({ provider, operation, kind: "failing", reason })
      )
    })

  return {
    pause: (id) => moved("pause", id, "Paused"),
    resume: (id) => moved("resume", id, "Running"),
    snapshot: (id, name) =>
      Effect.gen(function* () {
        const { id: snapshotId } = yield* Effect.mapError(api.snapshot(id, name), notDone("snapshot", id))
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
}
