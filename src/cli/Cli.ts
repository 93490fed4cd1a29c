/**
 * The `deskhand` command.
 *
 * @since 0.1.0
 */
import * as Command from "@effect/cli/Command"
import * as ValidationError from "@effect/cli/ValidationError"
import * as NodeContext from "@effect/platform-node/NodeContext"
import * as NodeHttpClient from "@effect/platform-node/NodeHttpClient"
import * as ConfigError from "effect/ConfigError"
import * as Console from "effect/Console"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { ScriptError } from "../model/Scripted.js"
import * as TaskSource from "../osworld/TaskSource.js"
import { NoRun } from "../rollout/RecordedRun.js"
import { compare } from "./internal/commands/compare.js"
import { ctl } from "./internal/commands/ctl.js"
import { doctor } from "./internal/commands/doctor.js"
import { exported } from "./internal/commands/export.js"
import { gateway } from "./internal/commands/gateway.js"
import { history } from "./internal/commands/history.js"
import { prepare } from "./internal/commands/prepare.js"
import { recipe } from "./internal/commands/recipe.js"
import { report } from "./internal/commands/report.js"
import { run } from "./internal/commands/run.js"
import { serve } from "./internal/commands/serve.js"
import { serveE2B } from "./internal/commands/serveE2B.js"
import { sweep } from "./internal/commands/sweep.js"
import { tasksCommand } from "./internal/commands/tasks.js"
import { verify } from "./internal/commands/verify.js"
import { version } from "./internal/host.js"
import { wrongVariables } from "./internal/wrongVariables.js"
import * as Run from "./Run.js"

const command = Command.make("deskhand").pipe(
  Command.withDescription("Computer-use rollouts: sandboxed desktops, agents that act in them, honest grades"),
  Command.withSubcommands([
    run,
    report,
    compare,
    doctor,
    sweep,
    history,
    verify,
    exported,
    serve,
    serveE2B,
    gateway,
    ctl,
    prepare,
    tasksCommand,
    recipe
  ])
)

const exitCodeOf = (error: unknown): number =>
  error instanceof Run.UsageError ||
  error instanceof TaskSource.TaskSourceError ||
  error instanceof ScriptError ||
  error instanceof NoRun ||
  ConfigError.isConfigError(error) ||
  ValidationError.isValidationError(error)
    ? 2
    : 1

const textOf = (error: unknown): string =>
  ConfigError.isConfigError(error) ? wrongVariables(error) : error instanceof Error ? error.message : String(error)

const explain = (error: unknown) =>
  // @effect/cli has shown its own errors already.
  ValidationError.isValidationError(error) ? Effect.void : Console.error(`deskhand: ${textOf(error)}`)

/**
 * The command: reads `argv` (Node's own, two entries before the first argument) and answers with the exit status. 0 is
 * well, 1 is what went wrong or is not complete, 2 is what was asked in a wrong way.
 *
 * @since 0.1.0
 * @category programs
 */
export const main = (argv: ReadonlyArray<string>): Effect.Effect<number> =>
  Command.run(command, { name: "deskhand", version })(argv).pipe(
    Effect.provide(Layer.merge(NodeContext.layer, NodeHttpClient.layer)),
    Effect.as(0),
    Effect.catchAll((error) => Effect.as(explain(error), exitCodeOf(error)))
  )
