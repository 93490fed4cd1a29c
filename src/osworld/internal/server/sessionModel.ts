/** What a session is told, what it tells, and what its failures are on the wire. */
import type * as Duration from "effect/Duration"
import type * as Effect from "effect/Effect"
import type * as ArtifactStore from "../../../artifact/ArtifactStore.js"
import type { DesktopAction } from "../../../desktop/Action.js"
import type { RolloutIdentity } from "../../../identity/Identity.js"
import type {
  Environment,
  EnvironmentError,
  EvaluationFailed,
  Observation,
  StepFacts
} from "../../../rollout/Environment.js"
import type { Evaluation } from "../../../rollout/Evaluation.js"
import type { TaskRow } from "../../../rollout/TaskRow.js"
import type { Termination } from "../../../rollout/Termination.js"
import {
  type Conflict,
  EnvironmentFailed,
  NotEvaluated,
  type NotFound,
  Rejected,
  type SessionClosed,
  type SessionStatus,
  type StepRequest,
  type TooManyOperations
} from "../../ResourcesApi.js"

/** What a session was asked to be open on. */
export interface Seeded {
  readonly row: TaskRow
  readonly identity: RolloutIdentity
  readonly accessibilityTree: boolean
  readonly screen: { readonly width: number; readonly height: number }
  readonly clientPassword: string | undefined
  readonly images: "inline" | "link"
  readonly observe: boolean
  /** Of everything that was asked for. */
  readonly digest: string
}

export interface Opened {
  readonly seeded: Seeded
  readonly observation: Observation | undefined
}

export interface Stepped {
  readonly facts: StepFacts
  readonly done: boolean
  readonly observation: Observation | undefined
}

/** What an operation may come to instead of its answer. */
export type Failure = EnvironmentFailed | Rejected | NotEvaluated | SessionClosed | TooManyOperations

export interface SessionOptions {
  readonly id: string
  readonly environment: (
    seeded: Seeded,
    store: ArtifactStore.ArtifactStore["Type"]
  ) => Effect.Effect<Environment<DesktopAction>>
  /** The folder of this session's blobs; it goes with the session. */
  readonly blobs: string
  readonly ttl: Duration.Duration
  readonly operationTimeout: Duration.Duration
  readonly closeGrace: Duration.Duration
  /** How many operations may wait. */
  readonly waiting: number
  /** How many answers are remembered. */
  readonly remembered: number
}

export interface View {
  readonly status: SessionStatus
  readonly taskId: string
  readonly createdAt: number
  readonly lastAccess: number
  readonly failure: EnvironmentFailed | Rejected | undefined
  readonly images: "inline" | "link"
  readonly instruction: string
  /** Of what the environment that is open was asked to be. */
  readonly digest: string
}

export interface Session {
  readonly id: string
  readonly view: () => View
  /** The session was asked about, so somebody is there. */
  readonly touch: Effect.Effect<void>
  /** What came of the last open, for everybody who asks. */
  readonly opened: Effect.Effect<Opened, Failure>
  readonly reset: (seeded: Seeded) => Effect.Effect<Opened, Failure>
  readonly observe: Effect.Effect<Observation, Failure>
  readonly step: (request: {
    readonly id: string
    readonly action: StepRequest["action"]
    readonly pause: number
    readonly observe: boolean
  }) => Effect.Effect<Stepped, Failure | Conflict>
  readonly evaluate: (request: {
    readonly id: string | undefined
    readonly termination: Termination | undefined
  }) => Effect.Effect<Evaluation, Failure | Conflict>
  /** Returns when all that the session held is given back. */
  readonly close: (force: boolean) => Effect.Effect<void>
  /** A blob that this session has shown. */
  readonly blob: (
    sha256: string
  ) => Effect.Effect<{ readonly ref: ArtifactStore.BlobRef; readonly path: string }, NotFound>
}

export const wireFailure = (error: EnvironmentError, lost = false): EnvironmentFailed | Rejected =>
  error.fault === "task" && !lost
    ? new Rejected({ detail: error.reason, phase: error.phase })
    : new EnvironmentFailed({ detail: error.reason, phase: error.phase, lost, bug: false })

export const notEvaluated = (error: EvaluationFailed): NotEvaluated =>
  new NotEvaluated({ detail: error.reason, mask_sample: true })

export const bug = (detail: string, phase: "open" | "step") =>
  new EnvironmentFailed({ detail, phase, lost: false, bug: true })

/** Of all failures these leave an environment of which nobody knows the state. */
export const breaks = (failure: Failure): failure is EnvironmentFailed | Rejected =>
  failure._tag === "EnvironmentFailed" || failure._tag === "Rejected"
