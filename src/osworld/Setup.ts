/**
 * Prepares a desktop for a task, and for the evaluation of it: the steps of `config` and of `postconfig`.
 *
 * A step that cannot be carried out ends the setup: an agent never meets a desktop that is not what the task says, and no
 * grade comes of one that was not made ready for it. Calls that may happen twice are tried again when the guest cannot be
 * reached; a command is never run twice, because nobody knows whether a call whose answer was lost has acted.
 *
 * Steps that need a Google account take it from the environment: `DESKHAND_GOOGLE_CLIENT_ID`, `_CLIENT_SECRET` and
 * `_REFRESH_TOKEN` for files in Drive, `DESKHAND_GOOGLE_EMAIL` and `_PASSWORD` for logging Chrome in. Tasks that ask for
 * a proxy take one of the list in the file that `DESKHAND_TASK_PROXY_FILE` names; without it they go out directly,
 * unless `DESKHAND_DIRECT_PROXY_TASKS` is false.
 *
 * @since 0.1.0
 */
import type * as FileSystem from "@effect/platform/FileSystem"
import type * as Path from "@effect/platform/Path"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type { Guest } from "../desktop/Guest.js"
import type { OwnedSandbox } from "../sandbox/Sandbox.js"
import type { Assets } from "./Assets.js"
import * as Perform from "./internal/setup/perform.js"
import * as Proxy from "./internal/setup/proxy.js"
import type * as Placeholders from "./Placeholders.js"
import type { SetupStep } from "./SetupStep.js"

/**
 * A setup step failed. `fault` is `task` where the same step fails every time.
 *
 * @since 0.1.0
 * @category errors
 */
export class SetupError extends Schema.TaggedError<SetupError>("deskhand/SetupError")("SetupError", {
  /** `config` or `postconfig`. */
  list: Schema.String,
  /** From 0; -1 is the proxy that a task asks for outside its lists. */
  index: Schema.Int,
  type: Schema.String,
  fault: Schema.Literal("infrastructure", "task"),
  reason: Schema.String
}) {
  override get message() {
    const step = this.index < 0 ? `the task's ${this.type}` : `setup step ${this.list}[${this.index}] (${this.type})`
    return `${step} failed: ${this.reason}`
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
  /** The task asks for a proxy: it is up before the first step, and Chrome is launched with it. False unless given. */
  readonly wantsProxy?: boolean
}

/**
 * The types of setup step that `run` carries out: all that OSWorld itself carries out.
 *
 * @since 0.1.0
 * @category constants
 */
export const supported: ReadonlySet<string> = Perform.supported

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
): Effect.Effect<void, SetupError, FileSystem.FileSystem | Path.Path | Assets> => {
  const proxy =
    list === "config" && context.wantsProxy === true
      ? Effect.mapError(
          Proxy.start(context),
          ({ fault, reason }) => new SetupError({ list, index: -1, type: "proxy", fault, reason })
        )
      : Effect.void
  return Effect.zipRight(
    proxy,
    Effect.forEach(
      steps,
      ({ type }, index) =>
        Effect.mapError(
          Perform.perform(context, { list, steps, index }),
          ({ fault, reason }) => new SetupError({ list, index, type, fault, reason })
        ),
      { discard: true }
    )
  )
}
