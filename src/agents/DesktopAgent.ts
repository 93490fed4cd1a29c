/**
 * The agent of a run: whichever layer provides it.
 *
 * @since 0.1.0
 */
import * as Context from "effect/Context"
import type { DesktopAction } from "../desktop/Action.js"
import type { Agent } from "../rollout/Agent.js"

/**
 * The agent that acts on desktops, as a service.
 *
 * @since 0.1.0
 * @category context
 */
export class DesktopAgent extends Context.Tag("deskhand/agents/DesktopAgent")<DesktopAgent, Agent<DesktopAction>>() {}
