/** So many at a time over a stream, for items that each are work of their own. */
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as FiberSet from "effect/FiberSet"
import * as Mailbox from "effect/Mailbox"
import * as Option from "effect/Option"
import * as Stream from "effect/Stream"
import { andThen, type Restore } from "./andThen.js"

/**
 * What `work` gives for each part of each item of a stream, as it comes, without what is none. No more than `permits`
 * parts are at work, or done and not taken yet, and no further item is spread. As `Stream.mapEffect` with unordered
 * concurrency, at a fraction of its cost: a fiber for each part, and no channel.
 */
export const concurrently =
  <A, C, B, E2, R2>(
    spread: (item: A) => Effect.Effect<ReadonlyArray<C>, E2, R2>,
    work: (part: C) => Effect.Effect<Option.Option<B>, E2, R2>,
    permits: number
  ) =>
  <E, R>(items: Stream.Stream<A, E, R>): Stream.Stream<B, E | E2, R | R2> =>
    Stream.unwrapScoped(
      Effect.gen(function* () {
        const done = yield* Mailbox.make<B, E | E2>({ capacity: Math.min(permits, 16) })
        const places = yield* Effect.makeSemaphore(permits)
        const fibers = yield* FiberSet.make<void>()
        // On the stack of each part while it is at work: one frame, and none for what comes after it.
        const one = (part: C, restore: Restore) =>
          andThen(restore(work(part)), (exit) =>
            Exit.match(exit, {
              onFailure: (cause) => done.failCause(cause),
              onSuccess: Option.match({ onNone: () => Effect.void, onSome: (result) => restore(done.offer(result)) })
            }).pipe(Effect.ensuring(places.release(1)))
          )
        const begin = (part: C) =>
          Effect.uninterruptibleMask((restore) =>
            Effect.zipRight(restore(places.take(1)), FiberSet.run(fibers, one(part, restore)))
          )
        const read = Stream.runForEachChunk(items, (chunk) =>
          Effect.forEach(
            chunk,
            (item) => Effect.flatMap(spread(item), (parts) => Effect.forEach(parts, begin, { discard: true })),
            { discard: true }
          )
        )
        yield* read.pipe(
          Effect.zipRight(places.take(permits)),
          Effect.zipRight(done.end),
          Effect.catchAllCause((cause) => done.failCause(cause)),
          Effect.forkScoped
        )
        return Mailbox.toStream(done)
      })
    )
