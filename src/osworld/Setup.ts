/**
 * Prepares a desktop for a task, and for the evaluation of it: the steps of `config` and of `postconfig`.
 *
 * A step that cannot be carried out ends the setup: an agent never meets a desktop that is not what the task says.
 *
 * @since 0.1.0
 */
import * as FileSystem from "@effect/platform/FileSystem"
import * as Path from "@effect/platform/Path"
import * as Effect from "effect/Effect"
import * as Schedule from "effect/Schedule"
import * as Schema from "effect/Schema"
import type { CommandResult, Guest } from "../desktop/Guest.js"
import type { GuestError, GuestUploadUnreadable } from "../desktop/GuestError.js"
import type { OwnedSandbox } from "../sandbox/Sandbox.js"
import { type AssetError, Assets } from "./Assets.js"
import * as Placeholders from "./Placeholders.js"
import type { SetupParameters, SetupStep } from "./SetupStep.js"

/**
 * A setup step failed. `fault` is `task` where the same step fails every time.
 *
 * @since 0.1.0
 * @category errors
 */
export class SetupError extends Schema.TaggedError<SetupError>("deskhand/SetupError")("SetupError", {
  /** `config` or `postconfig`. */
  list: Schema.String,
  /** From 0. */
  index: Schema.NonNegativeInt,
  type: Schema.String,
  fault: Schema.Literal("infrastructure", "task"),
  reason: Schema.String
}) {
  override get message() {
    return `setup step ${this.list}[${this.index}] (${this.type}) failed: ${this.reason}`
  }
}

/**
 * What setup and evaluation know of the rollout that they serve.
 *
 * @since 0.1.0
 * @category models
 */
export interface TaskContext {
  readonly guest: Guest
  /** The file that the task was read from: where its relative paths start. */
  readonly taskFile: string | undefined
  /** A folder of this host that is this rollout's alone: what commands printed, and files under judgement. */
  readonly cache: string
  readonly placeholders: Placeholders.Values
  /** Where a port of the desktop is reached: Chrome's DevTools, VLC's interface. See `DesktopSpec.ports`. */
  readonly endpoint: OwnedSandbox["endpoint"]
  /** Scores as upstream scores, its known defects included. */
  readonly compat: boolean
}

class StepFailed {
  readonly _tag = "StepFailed"
  constructor(
    readonly fault: SetupError["fault"],
    readonly reason: string
  ) {}
}

const fromGuest = (error: GuestError | GuestUploadUnreadable): StepFailed =>
  new StepFailed(error._tag === "GuestError" ? "infrastructure" : "task", error.message)

const fromAsset = (error: AssetError): StepFailed =>
  new StepFailed(error.missing ? "task" : "infrastructure", error.message)

/** How often a command is run again until it shows what is waited for; OSWorld's own interval. */
const untilInterval = "300 millis"

/** OSWorld waits for ever; nobody does. */
const untilLimit = "5 minutes"

const holds = (until: NonNullable<SetupParameters<"execute">["until"]>, result: CommandResult): boolean =>
  (until.returncode !== undefined && result.exitCode === until.returncode) ||
  (until.stdout !== undefined && result.stdout.includes(until.stdout)) ||
  (until.stderr !== undefined && result.stderr.includes(until.stderr))

type Requirements = FileSystem.FileSystem | Path.Path | Assets

const execute = (
  context: TaskContext,
  parameters: SetupParameters<"execute">
): Effect.Effect<void, StepFailed, Requirements> =>
  Effect.gen(function* () {
    const fs = yield* FileSystem.FileSystem
    const path = yield* Path.Path
    const command = Placeholders.fillCommand(parameters.command, context.placeholders)
    const once = Effect.mapError(context.guest.execute({ command, shell: parameters.shell }), fromGuest)
    const { until } = parameters
    const result =
      until === undefined
        ? yield* once
        : yield* once.pipe(
            Effect.repeat(
              Schedule.spaced(untilInterval).pipe(
                Schedule.passthrough<number, CommandResult, never>,
                Schedule.untilInput((result) => holds(until, result))
              )
            ),
            Effect.timeoutFail({
              duration: untilLimit,
              onTimeout: () => new StepFailed("infrastructure", `what it waits for did not come within ${untilLimit}`)
            })
          )
    const keep = (name: string | undefined, content: string) =>
      name === undefined
        ? Effect.void
        : Effect.mapError(
            fs.writeFileString(path.join(context.cache, path.basename(name)), content),
            (error) => new StepFailed("infrastructure", error.message)
          )
    yield* keep(parameters.stdout, result.stdout)
    yield* keep(parameters.stderr, result.stderr)
  })

const copy = (context: TaskContext, url: string, path: string): Effect.Effect<void, StepFailed, Requirements> =>
  Effect.gen(function* () {
    const assets = yield* Assets
    const local = yield* Effect.mapError(assets.fetch(url, context.taskFile), fromAsset)
    yield* Effect.mapError(context.guest.writeFile(path, local), fromGuest)
  })

const perform = (context: TaskContext, step: SetupStep): Effect.Effect<void, StepFailed, Requirements> => {
  const { guest, placeholders } = context
  switch (step.type) {
    case "execute":
    case "command":
      return execute(context, step.parameters)
    case "sleep":
      return Effect.sleep(`${step.parameters.seconds} seconds`)
    case "launch": {
      const { command, shell } = step.parameters
      return Effect.mapError(
        guest.launch({ command: Placeholders.fillCommand(command, placeholders), shell }),
        fromGuest
      )
    }
    case "download":
      return Effect.forEach(step.parameters.files, ({ url, path }) => copy(context, url, path), { discard: true })
    case "upload_file":
      return Effect.forEach(step.parameters.files, ({ localPath, path }) => copy(context, localPath, path), {
        discard: true
      })
    case "open":
      return Effect.mapError(guest.openFile(step.parameters.path), fromGuest)
    case "activate_window":
      return Effect.mapError(guest.activateWindow(windowMatch(step.parameters)), fromGuest)
    case "close_window":
      return Effect.mapError(guest.closeWindow(windowMatch(step.parameters)), fromGuest)
    case "change_wallpaper":
      return Effect.mapError(guest.changeWallpaper(step.parameters.path), fromGuest)
    default:
      return Effect.fail(new StepFailed("task", `steps of type ${step.type} are not yet supported`))
  }
}

const windowMatch = ({ byClass, strict, windowName }: SetupParameters<"activate_window">) => ({
  name: windowName,
  strict,
  byClass
})

/**
 * The types of setup step that `run` carries out.
 *
 * @since 0.1.0
 * @category constants
 */
export const supported: ReadonlySet<string> = new Set([
  "execute",
  "command",
  "sleep",
  "launch",
  "download",
  "upload_file",
  "open",
  "activate_window",
  "close_window",
  "change_wallpaper"
])

/**
 * Carries the steps out in order. Exit codes of commands don't count, as in OSWorld.
 *
 * @since 0.1.0
 * @category operations
 */
export const run = (
  context: TaskContext,
  list: "config" | "postconfig",
  steps: ReadonlyArray<SetupStep>
): Effect.Effect<void, SetupError, Requirements> =>
  Effect.forEach(
    steps,
    (step, index) =>
      Effect.mapError(
        perform(context, step),
        ({ fault, reason }) => new SetupError({ list, index, type: step.type, fault, reason })
      ),
    { discard: true }
  )
