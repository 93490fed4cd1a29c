/** What an error in the loop of an episode makes of it: always the infrastructure's, never the policy's. */
import * as Duration from "effect/Duration"
import type { ModelError } from "../../model/ModelError.js"
import type { AgentError } from "../Agent.js"
import type { EnvironmentError } from "../Environment.js"
import type { EvidenceError } from "../Evidence.js"
import { Infrastructure } from "../Termination.js"

/** What ends a loop that should have gone on. */
export type LoopError = EnvironmentError | EvidenceError | ModelError | AgentError | TimedOut

/** An action or a model call was not over when its limit was. */
export class TimedOut {
  readonly _tag = "TimedOut"
  constructor(
    readonly what: "action" | "model",
    readonly limit: Duration.Duration
  ) {}
}

export const cutShort = (error: LoopError): Infrastructure => {
  switch (error._tag) {
    case "EnvironmentError":
      return new Infrastructure({ kind: "environment_failed", detail: error.message })
    case "EvidenceError":
      return new Infrastructure({ kind: "evidence_failed", detail: error.message })
    case "AgentError":
      return new Infrastructure({ kind: "rollout_error", detail: error.message })
    case "TimedOut":
      return new Infrastructure({
        kind: error.what === "action" ? "action_timeout" : "model_timeout",
        detail: `${error.what === "action" ? "an action" : "a model call"} took longer than ${Duration.format(error.limit)}`
      })
    case "ModelError":
      // A prompt that is too long and that the agent could not shorten is a call that failed, like any other.
      return new Infrastructure({
        kind: error.reason === "timeout" ? "model_timeout" : "model_call_failed",
        detail: error.message
      })
  }
}

/** The environment ended under the episode, whatever it was doing. */
export const environmentLost = (error: EnvironmentError): Infrastructure =>
  new Infrastructure({ kind: "environment_lost", detail: error.message })
