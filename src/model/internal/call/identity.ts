import type { ModelRequest } from "../../ModelClient.js"
import type { CallIds } from "../../TransportLog.js"

/** Whose call it is, for a log. */
export const idsOf = ({ identity, parseAttempt, step }: ModelRequest): CallIds => ({
  runId: identity.runId,
  taskId: identity.taskId,
  rolloutId: identity.rolloutId,
  rolloutIndex: identity.rolloutIndex,
  attemptIndex: identity.attemptIndex,
  step,
  ...(parseAttempt === undefined ? {} : { parseAttempt })
})

/** Whose call it is, for the server: our own gateway logs by them, a scripted model replies by them. */
export const headersOf = ({ identity, parseAttempt, step }: ModelRequest): Readonly<Record<string, string>> => ({
  "x-deskhand-run-id": identity.runId,
  "x-deskhand-rollout-id": identity.rolloutId,
  "x-deskhand-task-id": encodeURIComponent(identity.taskId),
  "x-deskhand-rollout-index": String(identity.rolloutIndex),
  "x-deskhand-attempt-index": String(identity.attemptIndex),
  "x-deskhand-step": String(step),
  ...(parseAttempt === undefined ? {} : { "x-deskhand-parse-attempt": String(parseAttempt) })
})
