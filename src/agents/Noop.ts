/**
 * An agent that looks once and says that it is done: the control that shows what doing nothing scores.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { Decision } from "../rollout/Agent.js"
import type { AgentContract } from "../rollout/Contract.js"
import { DesktopAgent } from "./DesktopAgent.js"

/**
 * It asks no model, so it has no protocol, no history and no options.
 *
 * @since 0.1.0
 * @category models
 */
export const contract: AgentContract = {
  schema_version: 1,
  runner: {
    name: "noop",
    kind: "noop",
    action_space: "pyautogui",
    observation_type: "screenshot",
    agent_class_path: "noop",
    platform: "ubuntu",
    screen_size: [1920, 1080]
  },
  // The one step that it takes; a run says how many an episode may have.
  max_steps: 1,
  model_protocol: null,
  history_policy: null,
  agent_options: null
}

/**
 * The agent that does nothing and says at once that it is done.
 *
 * @since 0.1.0
 * @category layers
 */
export const layer: Layer.Layer<DesktopAgent> = Layer.succeed(DesktopAgent, {
  contract,
  open: () => Effect.succeed({ decide: () => Effect.succeed({ decisions: [Decision.Done()], text: "DONE" }) })
})
