/**
 * Steps that raise and close windows.
 *
 * OSWorld does not look whether a window was raised, and what is typed next then goes somewhere else: the document is not
 * saved, and its grade is a false 0. Here a window that is needed and stays behind is a failure. It is needed in
 * `postconfig`, always, and in `config` where a later step types or clicks before another window is raised; elsewhere in
 * `config` it is logged. A window that is not there in `postconfig` is the agent's own doing, who may have saved and closed
 * it: that is logged, and what is on disk is graded. Under `compat` OSWorld's silence holds.
 */
import * as Effect from "effect/Effect"
import * as Ref from "effect/Ref"
import * as Schedule from "effect/Schedule"
import type { WindowMatch } from "../../../desktop/Guest.js"
import * as Placeholders from "../../Placeholders.js"
import type { TaskContext } from "../../Setup.js"
import type { SetupParameters, SetupStep } from "../../SetupStep.js"
import * as WindowFocus from "../windowFocus.js"
import { fromGuest, idempotent, type Perform, type Place, StepFailed } from "./step.js"

/** How long a window may take to appear and to come to the front. */
const focusLimit = "10 seconds"

/** A window manager takes a moment to hand over the keyboard. */
const settleTime = "150 millis"

const matchOf = (
  { byClass, strict, windowName }: SetupParameters<"activate_window">,
  { placeholders }: TaskContext
): WindowMatch => ({ name: Placeholders.fill(windowName, placeholders), strict, byClass })

const types = (step: SetupStep): boolean => {
  if (step.type !== "execute" && step.type !== "command" && step.type !== "execute_with_verification") return false
  const { command } = step.parameters
  return /\b(?:pyautogui|xdotool|xte|ydotool)\b/.test(typeof command === "string" ? command : command.join(" "))
}

/** Whether what comes after the step counts on the window. */
export const isNeeded = ({ index, list, steps }: Place): boolean => {
  if (list === "postconfig") return true
  for (const step of steps.slice(index + 1)) {
    if (step.type === "activate_window") return false
    if (types(step)) return true
  }
  return false
}

/** Raises the window and looks, again and again, until it is in front. */
const focus = (context: TaskContext, match: WindowMatch) =>
  Effect.gen(function* () {
    const { guest } = context
    const last = yield* Ref.make<WindowFocus.State>("absent")
    const once = Effect.gen(function* () {
      const before = yield* WindowFocus.look(guest)
      const meant =
        WindowFocus.alternatives(match).find((each) => WindowFocus.stateOf(before, each) !== "absent") ?? match
      yield* Effect.mapError(idempotent(guest.activateWindow(meant)), ({ reason }) => ({ message: reason }))
      yield* Effect.sleep(settleTime)
      const state = WindowFocus.stateOf(yield* WindowFocus.look(guest), meant)
      yield* Ref.set(last, state)
      return state
    })
    return yield* once.pipe(
      Effect.repeat(
        Schedule.spaced("350 millis").pipe(
          Schedule.passthrough<number, WindowFocus.State, never>,
          Schedule.untilInput((state) => state === "focused")
        )
      ),
      Effect.timeoutTo({ duration: focusLimit, onSuccess: Effect.succeed, onTimeout: () => Ref.get(last) }),
      Effect.flatten
    )
  })

export const activate: Perform<"activate_window"> = (parameters, context, place) => {
  const match = matchOf(parameters, context)
  if (context.compat) return Effect.mapError(context.guest.activateWindow(match), fromGuest)
  const name = JSON.stringify(match.name)
  const missed = (reason: string) =>
    isNeeded(place)
      ? Effect.fail(new StepFailed("infrastructure", reason))
      : Effect.logWarning(`activate_window: ${reason}; nothing counts on it, so the setup goes on`)
  return Effect.matchEffect(focus(context, match), {
    onFailure: ({ message }) => missed(`it is not known whether ${name} is in front: ${message}`),
    onSuccess: (state) => {
      switch (state) {
        case "focused":
          return Effect.void
        case "absent": {
          const reason = `no window matched ${name} within ${focusLimit}`
          return place.list === "postconfig"
            ? Effect.logWarning(`activate_window: ${reason}; what is on disk is graded`)
            : missed(reason)
        }
        case "behind":
          return missed(`the window ${name} did not get the keyboard within ${focusLimit}`)
      }
    }
  })
}

/** That there is no such window is what is wished for. Tried once: another window may match after the first is gone. */
export const close: Perform<"close_window"> = (parameters, context) =>
  Effect.mapError(context.guest.closeWindow(matchOf(parameters, context)), fromGuest)
