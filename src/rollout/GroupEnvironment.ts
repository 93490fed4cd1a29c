/**
 * All owners of a group begin from one state: prepared once and copied where the environment can, and prepared again for
 * each where it cannot, which is said.
 *
 * @since 0.1.0
 */
import * as Arr from "effect/Array"
import * as Cause from "effect/Cause"
import * as Deferred from "effect/Deferred"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as ExecutionStrategy from "effect/ExecutionStrategy"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Scope from "effect/Scope"
import { RolloutIdentity } from "../identity/Identity.js"
import type { Finished } from "./Collection.js"
import { type Environment, EnvironmentError, type GroupMember, type ObservationNeeds, Origin } from "./Environment.js"
import { namesItsRollout, type TaskRow } from "./TaskRow.js"

/**
 * @since 0.1.0
 * @category models
 */
export interface GroupOptions {
  /** Owners of a group: their indices are 0 to `groupSize` - 1. */
  readonly groupSize: number
  /**
   * The owners of a row's group that are dispatched this time, ascending; all of them unless given. No other is opened, and
   * every row of the group must say the same.
   */
  readonly active?: (row: TaskRow) => ReadonlyArray<number>
  /**
   * What an earlier run left: a collector's `finished`, where it resumes. Owners that have a score or were begun before are
   * not active, so no copy waits for one that never comes: a scored one is over, and one that is tried again is opened by
   * itself. Nothing unless given.
   */
  readonly finished?: Pick<Finished, "scored" | "attempts">
  /**
   * How long an owner's copy waits for its owner once the group is open; 10 minutes unless given. Then it is removed, and an
   * owner that comes later fails. Where fewer rollouts run at a time than a group has, it has to be longer than they take.
   */
  readonly claimTimeout?: Duration.DurationInput
}

/** Is done once, and whoever comes while it is being done waits for it. */
const once = (effect: Effect.Effect<void>) => Effect.cached(Effect.uninterruptible(effect))

/** A group in one dispatch. */
interface Group<A> {
  readonly key: string
  readonly active: ReadonlyArray<number>
  /** Owners that have not come yet. */
  readonly unclaimed: Set<number>
  /** Owners whose copy is there, or will be, and is not to be removed yet. */
  readonly held: Set<number>
  readonly members: Deferred.Deferred<ReadonlyMap<number, GroupMember<A>>, EnvironmentError>
  readonly scope: Scope.CloseableScope
  /** Removes all of it; whoever asks again waits for the same end. */
  readonly close: Effect.Effect<void>
  /** Opens the group, and then waits for owners that don't come. */
  fiber: Fiber.RuntimeFiber<void> | undefined
}

const refuse = (fault: EnvironmentError["fault"], reason: string) =>
  new EnvironmentError({ phase: "open", fault, reason })

/**
 * The environment whose `open` gives each rollout its place in its group. The first owner that comes has the group opened, of
 * exactly the active owners, and all wait for it; each owner's copy is removed when the owner is done with it, whatever the
 * others do. Where the group cannot be opened everything of it is removed and each owner fails; whoever comes first after
 * that has it opened anew. A later attempt of an owner is opened by itself. Where a run is resumed, give what was `finished`:
 * otherwise copies of owners that are over are opened, and wait for them until the claim timeout.
 *
 * Copies of a group are there together, so an engine has up to a whole group's for each group that has begun. Fork
 * oversampling is this alone: it adds no row, no owner and no reward.
 *
 * Closing the scope removes what is left of all groups.
 *
 * @since 0.1.0
 * @category constructors
 */
export const fromOneState = <A>(
  environment: Environment<A>,
  options: GroupOptions
): Effect.Effect<Environment<A>, never, Scope.Scope> =>
  Effect.gen(function* () {
    const { groupSize } = options
    const claimTimeout = Duration.decode(options.claimTimeout ?? "10 minutes")
    const { openGroup } = environment
    const all = Array.from({ length: groupSize }, (_, index) => index)

    const groups = new Map<string, Group<A>>()
    /** Also those that are no longer to be found, until all of them is gone. */
    const living = new Set<Group<A>>()
    /** Which owners were dispatched and which have not come: kept of groups that are over too, so that none is opened again. */
    const claims = new Map<string, { readonly active: ReadonlyArray<number>; readonly unclaimed: Set<number> }>()
    let closed = false
    /** Who comes first, and whether all is over, is found out by one at a time. */
    const turn = yield* Effect.makeSemaphore(1)

    // -------------------------------------------------------------------------
    // Who is meant
    // -------------------------------------------------------------------------

    const activeOf = (row: TaskRow): ReadonlyArray<number> => {
      const meant = options.active?.(row) ?? all
      const { finished } = options
      if (finished === undefined) return meant
      return meant.filter((index) => {
        const key = `${row.taskIndex}-${index}`
        return !finished.scored.has(key) && (finished.attempts.get(key) ?? 0) <= (row.attemptIndex ?? 0)
      })
    }

    const isLater = (row: TaskRow, { attemptIndex }: RolloutIdentity): boolean =>
      attemptIndex !== (row.attemptIndex ?? 0)

    /** Rows that are for one rollout each may have indices of their own; others are one for the whole group. */
    const keyOf = (row: TaskRow, { dispatchGroup, runId, taskId }: RolloutIdentity, needs: ObservationNeeds) =>
      JSON.stringify([
        runId,
        dispatchGroup,
        row.attemptIndex ?? 0,
        taskId,
        namesItsRollout(row) ? null : row.taskIndex,
        needs.accessibilityTree
      ])

    const checked = (row: TaskRow, { rolloutIndex }: RolloutIdentity) => {
      const active = activeOf(row)
      const inOrder = active.every(
        (index, at) => Number.isInteger(index) && index > (active[at - 1] ?? -1) && index < groupSize
      )
      if (!Arr.isNonEmptyReadonlyArray(active) || !inOrder) {
        return refuse("task", `[${active.join(", ")}] are no ascending owners of a group of ${groupSize}`)
      }
      return active.includes(rolloutIndex)
        ? Effect.succeed(active)
        : refuse("task", `owner ${rolloutIndex} is none of the active ones, [${active.join(", ")}]`)
    }

    /** One owner takes its place; nobody can after it. */
    const claim = (key: string, active: ReadonlyArray<number>, { dispatchGroup, rolloutIndex }: RolloutIdentity) =>
      Effect.suspend(() => {
        const known = claims.get(key) ?? { active, unclaimed: new Set(active) }
        if (known.active.join() !== active.join()) {
          const found = `[${active.join(", ")}], and [${known.active.join(", ")}] were dispatched`
          return refuse("task", `the active owners of group ${dispatchGroup} are ${found}`)
        }
        if (!known.unclaimed.delete(rolloutIndex)) {
          const late =
            openGroup === undefined ? "" : `, or was given up ${Duration.format(claimTimeout)} after it was there`
          return refuse(
            "infrastructure",
            `the place of owner ${rolloutIndex} of group ${dispatchGroup} is taken${late}`
          )
        }
        claims.set(key, known)
        return Effect.succeed(known)
      })

    // -------------------------------------------------------------------------
    // Copies
    // -------------------------------------------------------------------------

    const release = (members: ReadonlyMap<number, GroupMember<A>>, which: (index: number) => boolean) =>
      Effect.forEach(
        [...members].filter(([index]) => which(index)),
        ([, member]) => member.release,
        { concurrency: "unbounded", discard: true }
      )

    const end = (group: Group<A>) =>
      Effect.suspend(() => {
        // After a failure, another may have begun under its key.
        if (groups.get(group.key) === group) groups.delete(group.key)
        return Effect.zipRight(
          group.close,
          Effect.sync(() => living.delete(group))
        )
      })

    const wasClosed = refuse("infrastructure", "the group was closed while it was opened")

    /** Ends the group from outside of its fiber. */
    const stop = (group: Group<A>) =>
      Effect.zipRight(group.fiber === undefined ? Effect.void : Fiber.interrupt(group.fiber), end(group)).pipe(
        Effect.zipRight(Deferred.fail(group.members, wasClosed)),
        Effect.asVoid
      )

    const leave = (group: Group<A>, index: number) =>
      Effect.gen(function* () {
        group.held.delete(index)
        if (group.held.size === 0) return yield* stop(group)
        // One that is still being made is removed as soon as it is there.
        if (yield* Deferred.isDone(group.members)) {
          const members = yield* Effect.exit(Deferred.await(group.members))
          if (Exit.isSuccess(members)) yield* release(members.value, (at) => at === index)
        }
      })

    const giveUpUnclaimed = (group: Group<A>, members: ReadonlyMap<number, GroupMember<A>>) =>
      Effect.suspend(() => {
        const late = new Set(group.unclaimed)
        for (const index of late) {
          group.unclaimed.delete(index)
          group.held.delete(index)
        }
        const left = group.held.size === 0 ? end(group) : Effect.void
        return Effect.zipRight(
          release(members, (index) => late.has(index)),
          left
        )
      })

    const run = (group: Group<A>, opening: Effect.Effect<ReadonlyArray<GroupMember<A>>, EnvironmentError>) =>
      Effect.uninterruptibleMask((restore) =>
        Effect.gen(function* () {
          const exit = yield* Effect.exit(restore(opening))
          if (Exit.isFailure(exit)) {
            // Both at once: whoever comes meanwhile begins anew, and not with half of this one.
            yield* Effect.sync(() => {
              claims.delete(group.key)
              groups.delete(group.key)
            })
            yield* end(group)
            const cause = Cause.isInterruptedOnly(exit.cause) ? Cause.fail(wasClosed) : exit.cause
            return yield* Effect.asVoid(Deferred.failCause(group.members, cause))
          }
          const members = new Map<number, GroupMember<A>>()
          for (const member of exit.value) {
            members.set(member.identity.rolloutIndex, { ...member, release: yield* once(member.release) })
          }
          // Closing the group waits for those that are being removed, too.
          yield* Scope.addFinalizer(
            group.scope,
            release(members, () => true)
          )
          yield* Deferred.succeed(group.members, members)
          yield* release(members, (index) => !group.held.has(index))
          if (group.unclaimed.size === 0) return
          yield* restore(Effect.sleep(claimTimeout))
          yield* giveUpUnclaimed(group, members)
        })
      )

    const begin = (
      open: NonNullable<typeof openGroup>,
      row: TaskRow,
      identity: RolloutIdentity,
      needs: ObservationNeeds,
      key: string,
      { active, unclaimed }: { readonly active: ReadonlyArray<number>; readonly unclaimed: Set<number> }
    ) =>
      Effect.gen(function* () {
        const { callerId: _, trajectory: __, ...shared } = identity
        // What a caller called one rollout is no name of another.
        const identities = active.map((rolloutIndex) =>
          rolloutIndex === identity.rolloutIndex ? identity : new RolloutIdentity({ ...shared, rolloutIndex })
        )
        const scope = yield* Scope.make(ExecutionStrategy.sequential)
        const group: Group<A> = {
          key,
          active,
          unclaimed,
          held: new Set(active),
          members: yield* Deferred.make<ReadonlyMap<number, GroupMember<A>>, EnvironmentError>(),
          scope,
          close: yield* once(Scope.close(scope, Exit.void)),
          fiber: undefined
        }
        groups.set(key, group)
        living.add(group)
        const opening = Arr.isNonEmptyReadonlyArray(identities)
          ? Scope.extend(open(row, identities, needs), group.scope)
          : Effect.dieMessage("a group has an owner")
        group.fiber = yield* Effect.forkDaemon(Effect.interruptible(run(group, opening)))
        return group
      })

    const join = (row: TaskRow, identity: RolloutIdentity, needs: ObservationNeeds) =>
      Effect.gen(function* () {
        if (closed) return yield* refuse("infrastructure", "the groups are closed")
        const active = yield* checked(row, identity)
        const key = keyOf(row, identity, needs)
        const claimed = yield* claim(key, active, identity)
        if (openGroup === undefined) return undefined
        return groups.get(key) ?? (yield* begin(openGroup, row, identity, needs, key, claimed))
      }).pipe(turn.withPermits(1))

    yield* Effect.addFinalizer(() =>
      turn
        .withPermits(1)(Effect.sync(() => (closed = true)))
        .pipe(
          Effect.zipRight(
            Effect.suspend(() => Effect.forEach([...living], stop, { concurrency: "unbounded", discard: true }))
          )
        )
    )

    return {
      show: environment.show,
      origin: (row, identity) => {
        const { dispatchGroup: group, rolloutIndex } = identity
        if (isLater(row, identity)) return new Origin({ kind: "fresh", group, activeIndices: [rolloutIndex] })
        const active = activeOf(row)
        const [parent] = active
        return openGroup === undefined
          ? new Origin({ kind: "replay", group, activeIndices: active })
          : new Origin({
              kind: "fork",
              group,
              activeIndices: active,
              ...(parent === undefined || parent === rolloutIndex ? {} : { parent })
            })
      },
      open: (row, identity, needs) =>
        Effect.uninterruptibleMask((restore) =>
          Effect.gen(function* () {
            if (isLater(row, identity)) return yield* restore(environment.open(row, identity, needs))
            const group = yield* join(row, identity, needs)
            if (group === undefined) return yield* restore(environment.open(row, identity, needs))
            yield* Effect.addFinalizer(() => leave(group, identity.rolloutIndex))
            const members = yield* restore(Deferred.await(group.members))
            const member = members.get(identity.rolloutIndex)
            return member === undefined
              ? yield* refuse("infrastructure", `the environment opened no owner ${identity.rolloutIndex}`)
              : member.session
          })
        )
    }
  })
