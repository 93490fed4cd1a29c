/**
 * The names under which a trainer knows a rollout: its own where it gave some, and otherwise ones that follow from what
 * was run.
 *
 * @since 0.1.0
 */
import { createHash } from "node:crypto"
import * as Data from "effect/Data"
import * as Either from "effect/Either"
import * as ParseResult from "effect/ParseResult"
import * as Schema from "effect/Schema"
import type { RolloutIdentity } from "./Identity.js"
import { canonicalJson, stableId } from "./StableId.js"

const Index = Schema.NonNegativeInt

/** What the field allows in a path: no slash, no blank, nothing that has to be escaped. */
const callerIdPattern = /^[A-Za-z0-9][A-Za-z0-9._-]*$/

/**
 * A rollout id that a caller chose, the field's `_ng_rollout_id`. It is a path segment as it is.
 *
 * @since 0.1.0
 * @category models
 */
export const CallerRolloutId = Schema.String.pipe(
  Schema.pattern(callerIdPattern, {
    message: () => "expected letters, digits, dots, dashes and underscores, a letter or digit first"
  })
)

/**
 * The names of a rollout, its group and its task. Keys are the ones of the field's `trajectory_identity`.
 *
 * @since 0.1.0
 * @category models
 */
export const TrajectoryIdentity = Schema.Struct({
  schema_version: Schema.Literal(1),
  rollout_id: Schema.NonEmptyString,
  group_id: Schema.NonEmptyString,
  task_id: Schema.NonEmptyString,
  rollout_index: Index,
  attempt_index: Index,
  /** The trainer's sampling event and the group that it came from: both, or neither. */
  sampling_event_id: Schema.optionalWith(Schema.NonEmptyString, { exact: true }),
  source_group_id: Schema.optionalWith(Schema.NonEmptyString, { exact: true })
}).pipe(
  Schema.filter(({ sampling_event_id, source_group_id }) =>
    (sampling_event_id === undefined) === (source_group_id === undefined)
      ? undefined
      : "expected sampling_event_id and source_group_id, or neither of them"
  )
)

/**
 * @since 0.1.0
 * @category models
 */
export type TrajectoryIdentity = typeof TrajectoryIdentity.Type

/**
 * Who chose the names: the caller that of the group at least. A trajectory with derived ones is not for training.
 *
 * @since 0.1.0
 * @category models
 */
export const IdentitySource = Schema.Literal("caller", "derived")

/**
 * @since 0.1.0
 * @category models
 */
export type IdentitySource = typeof IdentitySource.Type

/**
 * A row names its rollout in a way that cannot be kept.
 *
 * @since 0.1.0
 * @category errors
 */
export class IdentityError extends Data.TaggedError("IdentityError")<{
  /** The key of the row that is wrong. */
  readonly path: string
  readonly message: string
}> {}

/**
 * What a row says of its rollout's names; nothing where it leaves them to us.
 *
 * @since 0.1.0
 * @category models
 */
export interface CallerIdentity {
  readonly rolloutId?: string
  /** The group alone is named: its rollouts' names follow from it. */
  readonly groupId?: string
  readonly trajectory?: TrajectoryIdentity
}

const compaction = "context_compaction_"

/** The same names in the keys of an earlier contract. */
const Legacy = Schema.Struct({
  context_compaction_contract_version: Schema.Literal(2),
  context_compaction_rollout_id: Schema.NonEmptyString,
  context_compaction_group_id: Schema.NonEmptyString,
  context_compaction_task_id: Schema.NonEmptyString,
  context_compaction_rollout_index: Index,
  context_compaction_attempt_index: Index
})

/** What a data set of tasks says, before anything is dispatched: the task and the group. */
const groupKeys = ["context_compaction_group_id", "context_compaction_task_id"]

const GroupAlone = Schema.Struct({
  context_compaction_group_id: Schema.NonEmptyString,
  context_compaction_task_id: Schema.NonEmptyString
})

/** The first thing that is wrong, at its place. */
const decoded =
  <A, I>(schema: Schema.Schema<A, I>, at: string) =>
  (value: unknown): Either.Either<A, IdentityError> =>
    Either.mapLeft(Schema.decodeUnknownEither(schema, { onExcessProperty: "error" })(value), (error) => {
      const [issue] = ParseResult.ArrayFormatter.formatErrorSync(error)
      const path = [at, ...(issue?.path ?? [])].filter((part) => part !== "").join(".")
      return new IdentityError({ path, message: (issue?.message ?? error.message).replace(", actual ", ", found ") })
    })

const present = (row: Readonly<Record<string, unknown>>, key: string): boolean =>
  Object.hasOwn(row, key) && row[key] !== null && row[key] !== undefined

const ofTask = (found: string, taskId: string, path: string): Either.Either<void, IdentityError> =>
  found === taskId
    ? Either.right(undefined)
    : Either.left(
        new IdentityError({
          path,
          message: `expected ${JSON.stringify(taskId)}, the id of the task, found ${JSON.stringify(found)}`
        })
      )

const namesOf = (
  row: Readonly<Record<string, unknown>>,
  taskId: string
): Either.Either<Pick<CallerIdentity, "groupId" | "trajectory">, IdentityError> =>
  Either.gen(function* () {
    const earlier = Object.keys(row).filter((key) => key.startsWith(compaction) && present(row, key))
    const given = present(row, "trajectory_identity")
    const [first] = earlier
    if (first === undefined) {
      if (!given) return {}
      const trajectory = yield* decoded(TrajectoryIdentity, "trajectory_identity")(row["trajectory_identity"])
      yield* ofTask(trajectory.task_id, taskId, "trajectory_identity.task_id")
      return { trajectory }
    }
    if (given) {
      return yield* Either.left(
        new IdentityError({ path: "trajectory_identity", message: `expected it or ${first}, not both of them` })
      )
    }
    const keys = Object.fromEntries(earlier.map((key) => [key, row[key]]))
    if (earlier.length === groupKeys.length && groupKeys.every((key) => earlier.includes(key))) {
      const names = yield* decoded(GroupAlone, "")(keys)
      yield* ofTask(names.context_compaction_task_id, taskId, `${compaction}task_id`)
      return { groupId: names.context_compaction_group_id }
    }
    const names = yield* decoded(Legacy, "")(keys)
    yield* ofTask(names.context_compaction_task_id, taskId, `${compaction}task_id`)
    const trajectory: TrajectoryIdentity = {
      schema_version: 1,
      rollout_id: names.context_compaction_rollout_id,
      group_id: names.context_compaction_group_id,
      task_id: names.context_compaction_task_id,
      rollout_index: names.context_compaction_rollout_index,
      attempt_index: names.context_compaction_attempt_index
    }
    return { trajectory }
  })

/**
 * Reads `_ng_rollout_id` and `trajectory_identity` (or the keys `context_compaction_*` of an earlier contract) of a row
 * for the task `taskId`. A row that has only `context_compaction_task_id` and `context_compaction_group_id` names its group
 * and leaves its rollouts to us. Null is absent. Fails when a value is not what it must be, when both styles are there, and
 * when the names are of another task; nothing is mended.
 *
 * @since 0.1.0
 * @category decoding
 */
export const fromRow = (
  row: Readonly<Record<string, unknown>>,
  taskId: string
): Either.Either<CallerIdentity, IdentityError> =>
  Either.gen(function* () {
    const rolloutId = present(row, "_ng_rollout_id")
      ? yield* decoded(CallerRolloutId, "_ng_rollout_id")(row["_ng_rollout_id"])
      : undefined
    return { ...(rolloutId === undefined ? {} : { rolloutId }), ...(yield* namesOf(row, taskId)) }
  })

/**
 * What the id of a named group's rollout is made of.
 *
 * @since 0.1.0
 * @category models
 */
export interface RolloutParts {
  readonly taskId: string
  readonly groupId: string
  readonly rolloutIndex: number
  readonly attemptIndex: number
}

/**
 * `rollout-` and the first 24 hexadecimal digits of the SHA-256 of the canonical JSON of the parts, an object.
 *
 * @since 0.1.0
 * @category constructors
 */
export const rolloutId = ({ attemptIndex, groupId, rolloutIndex, taskId }: RolloutParts): string => {
  const parts = { attempt_index: attemptIndex, group_id: groupId, rollout_index: rolloutIndex, task_id: taskId }
  return `rollout-${createHash("sha256").update(canonicalJson(parts)).digest("hex").slice(0, 24)}`
}

/**
 * The trajectory's names: the caller's unchanged; ones that follow, by the field's recipe, from the group that the caller
 * named; or ones that are hashed from the task, the indices and the model's name. The same rollout always has the same.
 *
 * @since 0.1.0
 * @category constructors
 */
export const of = (
  identity: RolloutIdentity,
  model: string
): { readonly identity: TrajectoryIdentity; readonly source: IdentitySource } => {
  if (identity.trajectory !== undefined) return { identity: identity.trajectory, source: "caller" }
  const { attemptIndex, groupId, rolloutIndex, taskId } = identity
  const group = groupId ?? stableId("trajectory-group", taskId)
  return {
    source: groupId === undefined ? "derived" : "caller",
    identity: {
      schema_version: 1,
      rollout_id:
        groupId === undefined
          ? stableId("rollout", taskId, group, rolloutIndex, attemptIndex, model)
          : rolloutId({ taskId, groupId, rolloutIndex, attemptIndex }),
      group_id: group,
      task_id: taskId,
      rollout_index: rolloutIndex,
      attempt_index: attemptIndex
    }
  }
}
