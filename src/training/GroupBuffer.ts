/**
 * Groups between dispatch and training: a slot is reserved before a group is generated and committed when all of it has
 * arrived. The buffer is a value; every operation gives the next one.
 *
 * @since 0.1.0
 */
import * as Data from "effect/Data"
import * as Either from "effect/Either"
import { type Sampler, type SelectionError, type Slot, select } from "./Window.js"

/**
 * A group that is being generated, or that waits to train.
 *
 * @since 0.1.0
 * @category models
 */
export interface BufferedGroup<A> extends Slot {
  readonly groupId: string
  /** What arrived; absent while it is generated. */
  readonly content: A | undefined
}

/**
 * @since 0.1.0
 * @category models
 */
export interface GroupBuffer<A> {
  /** Groups that are reserved or ready at most. */
  readonly capacity: number
  /** In the order of reservation. */
  readonly groups: ReadonlyArray<BufferedGroup<A>>
}

/**
 * - `full`: there is no room; wait until a step has taken groups
 * - `duplicate`: the group is there already
 * - `unknown`: the group was never reserved, or is gone: taken, evicted or aborted
 * - `committed`: all of it had arrived before
 * - `versions`: the weight versions of its calls are none, are no whole numbers, or are older than its reservation
 *
 * @since 0.1.0
 * @category errors
 */
export class GroupBufferError extends Data.TaggedError("GroupBufferError")<{
  readonly reason: "full" | "duplicate" | "unknown" | "committed" | "versions"
  readonly groupId: string
  readonly message: string
}> {}

const refused = (reason: GroupBufferError["reason"], groupId: string, message: string) =>
  Either.left(new GroupBufferError({ reason, groupId, message: `group ${groupId}: ${message}` }))

/**
 * A buffer for so many groups, with none in it.
 *
 * @since 0.1.0
 * @category constructors
 */
export const empty = <A = never>(capacity: number): GroupBuffer<A> => ({ capacity, groups: [] })

/**
 * A slot for a group that is about to be generated. `version` is the weight version that the engines have now, `targetStep`
 * the step that it was admitted for.
 *
 * @since 0.1.0
 * @category operations
 */
export const reserve = <A>(
  buffer: GroupBuffer<A>,
  group: { readonly groupId: string; readonly version: number; readonly targetStep?: number | undefined }
): Either.Either<GroupBuffer<A>, GroupBufferError> => {
  const { groupId, targetStep, version } = group
  if (buffer.groups.some((other) => other.groupId === groupId)) {
    return refused("duplicate", groupId, "it is in the buffer already. Give every dispatch an id of its own")
  }
  if (buffer.groups.length >= buffer.capacity) {
    return refused("full", groupId, `there is room for ${buffer.capacity} groups. Train on some first`)
  }
  if (!Number.isInteger(version) || version < 0) return refused("versions", groupId, `its weight version is ${version}`)
  return Either.right({
    ...buffer,
    groups: [...buffer.groups, { groupId, start: version, targetStep, ready: false, content: undefined }]
  })
}

/**
 * All of a group has arrived. Its weight version becomes the oldest of its calls': an episode may go on while weights
 * change, and its group is as stale as its stalest call.
 *
 * @since 0.1.0
 * @category operations
 */
export const commit = <A>(
  buffer: GroupBuffer<A>,
  group: {
    readonly groupId: string
    /** Of each model call of each rollout, in any order. */
    readonly callVersions: Iterable<number>
    readonly content: A
  }
): Either.Either<GroupBuffer<A>, GroupBufferError> => {
  const { callVersions, content, groupId } = group
  const reserved = buffer.groups.find((other) => other.groupId === groupId)
  if (reserved === undefined) {
    return refused("unknown", groupId, "it has no slot: it was never reserved, or it was given up as too old")
  }
  if (reserved.ready) return refused("committed", groupId, "it had arrived before")
  let start = Number.POSITIVE_INFINITY
  for (const version of callVersions) {
    if (!Number.isInteger(version)) return refused("versions", groupId, `a call has the weight version ${version}`)
    start = Math.min(start, version)
  }
  if (start === Number.POSITIVE_INFINITY) {
    return refused("versions", groupId, "it has no model call, so nothing says which weights it is from")
  }
  if (start < reserved.start) {
    return refused(
      "versions",
      groupId,
      `a call has the weight version ${start}, and the engines had ${reserved.start} when it was dispatched`
    )
  }
  return Either.right({
    ...buffer,
    groups: buffer.groups.map((other) => (other === reserved ? { ...other, start, ready: true, content } : other))
  })
}

/**
 * A group that comes to nothing gives its slot back, whether or not it had arrived.
 *
 * @since 0.1.0
 * @category operations
 */
export const release = <A>(buffer: GroupBuffer<A>, groupId: string): Either.Either<GroupBuffer<A>, GroupBufferError> =>
  buffer.groups.some((other) => other.groupId === groupId)
    ? Either.right({ ...buffer, groups: buffer.groups.filter((other) => other.groupId !== groupId) })
    : refused("unknown", groupId, "it has no slot to give back")

/**
 * What a step takes out, and what has become too old.
 *
 * @since 0.1.0
 * @category models
 */
export interface Taken<A> {
  readonly buffer: GroupBuffer<A>
  /** What trains now, in the sampler's order; empty when too few are ready. */
  readonly selected: ReadonlyArray<BufferedGroup<A>>
  readonly evicted: ReadonlyArray<BufferedGroup<A>>
  /** Still being generated, and too old already: whoever runs them should stop. A late commit is refused. */
  readonly aborted: ReadonlyArray<BufferedGroup<A>>
}

/**
 * Takes what a step at `version` trains on, by `Window.select`, and drops what never will.
 *
 * @since 0.1.0
 * @category operations
 */
export const take = <A>(
  buffer: GroupBuffer<A>,
  sampler: Sampler,
  bounds: { readonly version: number; readonly min: number; readonly max: number }
): Either.Either<Taken<A>, SelectionError> =>
  Either.map(select(sampler, buffer.groups, bounds), ({ aborted, evicted, selected = [] }) => {
    const at = (indices: ReadonlyArray<number>) =>
      indices.flatMap((index) => {
        const group = buffer.groups[index]
        return group === undefined ? [] : [group]
      })
    const gone = new Set([...selected, ...evicted, ...aborted])
    return {
      buffer: { ...buffer, groups: buffer.groups.filter((_, index) => !gone.has(index)) },
      selected: at(selected),
      evicted: at(evicted),
      aborted: at(aborted)
    }
  })
