/** What the steps of a setup have in common: how one fails, what it knows, and what is tried again. */
import type * as FileSystem from "@effect/platform/FileSystem"
import type * as Path from "@effect/platform/Path"
import * as Effect from "effect/Effect"
import * as Schedule from "effect/Schedule"
import type { GuestError, GuestUploadUnreadable } from "../../../desktop/GuestError.js"
import type { AssetError, Assets } from "../../Assets.js"
import type { TaskContext } from "../../Setup.js"
import type { SetupStep } from "../../SetupStep.js"

export type Requirements = FileSystem.FileSystem | Path.Path | Assets

/** `task` where the same step fails every time. */
export class StepFailed {
  readonly _tag = "StepFailed"
  constructor(
    readonly fault: "infrastructure" | "task",
    readonly reason: string
  ) {}
}

/** What a step of this type does. */
export type Perform<Type extends SetupStep["type"]> = (
  parameters: Extract<SetupStep, { readonly type: Type }>["parameters"],
  context: TaskContext,
  /** The list that the step is in, and where. */
  place: Place
) => Effect.Effect<void, StepFailed, Requirements>

export interface Place {
  readonly list: "config" | "postconfig"
  readonly steps: ReadonlyArray<SetupStep>
  readonly index: number
}

export const broken = (error: { readonly message: string }): StepFailed =>
  new StepFailed("infrastructure", error.message)

export const fromGuest = (error: GuestError | GuestUploadUnreadable): StepFailed =>
  new StepFailed(error._tag === "GuestError" ? "infrastructure" : "task", error.message)

export const fromAsset = (error: AssetError): StepFailed =>
  new StepFailed(error.missing ? "task" : "infrastructure", error.message)

/** Whether nobody knows if the guest has heard of the call. */
export const isLost = (error: GuestError | GuestUploadUnreadable): boolean =>
  error._tag === "GuestError" && error.reason._tag === "Unreachable"

/** Two more tries, one second and two later. */
export const transportSchedule = Schedule.intersect(Schedule.exponential("1 second"), Schedule.recurs(2))

/**
 * Tries again when the guest could not be reached. Only for what may happen twice: a command may not, nor may the opening
 * or closing of a window.
 */
export const idempotent = <A, E extends GuestError | GuestUploadUnreadable, R>(
  call: Effect.Effect<A, E, R>
): Effect.Effect<A, StepFailed, R> =>
  call.pipe(Effect.retry({ schedule: transportSchedule, while: isLost }), Effect.mapError(fromGuest))
