import type { ModelRequest } from "../../ModelClient.js"
import type { CallIds } from "../../TransportLog.js"

/** The names of the group that the rollout is of, where its row gave them. */
const namesOf = ({ trajectory }: ModelRequest["identity"]) => ({
  ...(trajectory === undefined ? {} : { groupId: trajectory.group_id }),
  ...(trajectory?.source_group_id === undefined ? {} : { sourceGroupId: trajectory.source_group_id }),
  ...(trajectory?.sampling_event_id === undefined ? {} : { samplingEventId: trajectory.sampling_event_id })
})

/** Whose call it is, for a log. */
export const idsOf = ({ identity, parseAttempt, step }: ModelRequest): CallIds => ({
  runId: identity.runId,
  taskId: identity.taskId,
  rolloutId: identity.rolloutId,
  rolloutIndex: identity.rolloutIndex,
  attemptIndex: identity.attemptIndex,
  ...namesOf(identity),
  step,
  ...(parseAttempt === undefined ? {} : { parseAttempt })
})

/** Whose call it is, for the server: our own gateway logs by them, a scripted model replies by them. */
export const headersOf = ({ identity, parseAttempt, step }: ModelRequest): Readonly<Record<string, string>> => ({
  ...Object.fromEntries(
    Object.entries(namesOf(identity)).map(([name, value]) => [
      `x-deskhand-${name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`,
      encodeURIComponent(value)
    ])
  ),
  "x-deskhand-run-id": identity.runId,
  "x-deskhand-rollout-id": identity.rolloutId,
  "x-deskhand-task-id": encodeURIComponent(identity.taskId),
  "x-deskhand-rollout-index": String(identity.rolloutIndex),
  "x-deskhand-attempt-index": String(identity.attemptIndex),
  "x-deskhand-step": String(step),
  ...(parseAttempt === undefined ? {} : { "x-deskhand-parse-attempt": String(parseAttempt) })
})
