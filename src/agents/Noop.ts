/**
 * An agent that looks once and says that it is done: the control that shows what doing nothing scores.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { Sampling } from "../model/Sampling.js"
import { Decision } from "../rollout/Agent.js"
import { DesktopAgent } from "./DesktopAgent.js"

/**
 * @since 0.1.0
 * @category layers
 */
export const layer: Layer.Layer<DesktopAgent> = Layer.succeed(DesktopAgent, {
  contract: { name: "noop", sampling: new Sampling({}) },
  open: () =>
    Effect.succeed({ decide: () => Effect.succeed({ decisions: [Decision.Done()], text: "DONE", calls: [] }) })
})
