/** What the service says of its sandboxes: which there are, and what became of one. */
import * as Chunk from "effect/Chunk"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import * as Ref from "effect/Ref"
import * as Schedule from "effect/Schedule"
import * as Stream from "effect/Stream"
import type { SandboxInfo } from "../Sandbox.js"
import type { ProviderUnavailable } from "../SandboxError.js"
import type { Selector } from "../SandboxProvider.js"
import type { Found } from "./driver.js"
import type * as Api from "./openSandboxApi.js"
import { type ApiFailure, describe, unavailable } from "./openSandboxErrors.js"
import { fromMetadata, toMetadata } from "./openSandboxLabels.js"

export const polling = Schedule.exponential("100 millis", 1.5).pipe(Schedule.union(Schedule.spaced("2 seconds")))

/** Looks until what is seen is what was waited for; a look that fails ends it. */
export const poll = <A, E>(
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

export const isMissing = (failure: ApiFailure): boolean => failure._tag === "Status" && failure.status === 404

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

export interface Looks {
  readonly list: (selector: Selector) => Stream.Stream<Found, ProviderUnavailable>
  readonly until: (id: string, state: string, within: Duration.Duration) => Effect.Effect<void, string>
  readonly over: (id: string) => Effect.Effect<string | undefined>
}

export const make = (api: Api.Lifecycle): Looks => {
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

  return { list, until, over }
}
