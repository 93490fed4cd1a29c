/** The end of a local sandbox: what runs of it, and what is on the disk. */
import type * as CommandExecutor from "@effect/platform/CommandExecutor"
import type * as FileSystem from "@effect/platform/FileSystem"
import type * as Path from "@effect/platform/Path"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Option from "effect/Option"
import * as Ref from "effect/Ref"
import * as Schedule from "effect/Schedule"
import * as Container from "./container.js"
import * as Folders from "./folders.js"

export const provider = "local"

export type Platform = FileSystem.FileSystem | Path.Path | CommandExecutor.CommandExecutor

/** How long the removal of a sandbox may take before it is left to `sweep`. */
const removalLimit = Duration.seconds(10)

/**
 * Runs on time of its own, whatever happens to the fiber that waits: cleanup is neither cut short by the interruption
 * that caused it, nor can it hold that fiber longer than the limit.
 */
export const bounded = <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<Option.Option<A>, E, R> =>
  effect.pipe(Effect.timeoutOption(removalLimit), Effect.interruptible, Effect.forkDaemon, Effect.flatMap(Fiber.join))

/**
 * Ends whatever runs of a sandbox and removes its folder; answers with the reason when something is left. Doing it
 * twice, or twice at once, is harmless.
 */
export const removal = (stateDir: string, id: string): Effect.Effect<string | undefined, never, Platform> =>
  Effect.gen(function* () {
    const last = yield* Ref.make(`it took longer than ${Duration.format(removalLimit)}`)
    const note = (error: { readonly message: string }) => Ref.set(last, error.message)
    const removed = yield* Container.killAll(id, note).pipe(
      Effect.zipRight(Folders.remove(`${stateDir}/${id}`)),
      Effect.tapError(note),
      Effect.retryOrElse(Schedule.spaced("100 millis"), () => Effect.never),
      bounded
    )
    return Option.isSome(removed) ? undefined : yield* Ref.get(last)
  })

/** What is on the disk is the ledger of local sandboxes; a ledger beside it that fails stops nothing. */
export const note = <E extends { readonly message: string }>(effect: Effect.Effect<void, E>) =>
  Effect.catchAll(effect, (error) => Effect.logWarning(error.message))
