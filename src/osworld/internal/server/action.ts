/** Actions as they come over the wire, and what they say of the episode's end. */
import * as Data from "effect/Data"
import { DesktopAction } from "../../../desktop/Action.js"
import { AgentDone, AgentFail, EnvironmentDone, MaxSteps, type Termination } from "../../../rollout/Termination.js"
import type { StepRequest } from "../../ResourcesApi.js"

export type WireAction = Data.TaggedEnum<{
  Act: { readonly action: DesktopAction }
  Wait: Record<never, never>
  Done: Record<never, never>
  Fail: Record<never, never>
}>

export const WireAction = Data.taggedEnum<WireAction>()

/** The words are the field's, and nothing but them is read as such: `done` is code. */
export const parse = (action: StepRequest["action"]): WireAction => {
  if (typeof action !== "string") return WireAction.Act({ action: DesktopAction.Python(action) })
  const text = action
  switch (text.trim()) {
    case "WAIT":
      return WireAction.Wait()
    case "DONE":
      return WireAction.Done()
    case "FAIL":
      return WireAction.Fail()
    default:
      return WireAction.Act({ action: DesktopAction.Python({ code: text }) })
  }
}

/** What an episode came to so far. */
export interface History {
  readonly last: WireAction["_tag"] | undefined
  readonly environmentDone: boolean
}

export const noHistory: History = { last: undefined, environmentDone: false }

/** The last action alone decides, as OSWorld has it. A caller that just stops has come to the end of its steps. */
export const terminationOf = ({ environmentDone, last }: History): Termination =>
  last === "Done"
    ? new AgentDone()
    : last === "Fail"
      ? new AgentFail()
      : environmentDone
        ? new EnvironmentDone()
        : new MaxSteps()
