/** Steps that run a command, start a program, or wait. */
import * as FileSystem from "@effect/platform/FileSystem"
import * as Path from "@effect/platform/Path"
import * as Effect from "effect/Effect"
import * as Schedule from "effect/Schedule"
import * as Applications from "../../../desktop/Applications.js"
import type { CommandResult } from "../../../desktop/Guest.js"
import type { GuestError } from "../../../desktop/GuestError.js"
import * as Placeholders from "../../Placeholders.js"
import type { Command, SetupParameters } from "../../SetupStep.js"
import * as TaskProxy from "../taskProxy.js"
import { broken, fromGuest, isLost, type Perform, StepFailed } from "./step.js"

/** How often a command is run again until it shows what is waited for; OSWorld's own interval. */
const untilInterval = "300 millis"

/** OSWorld waits for ever; nobody does. */
const untilLimit = "5 minutes"

/** How many answers may get lost while a command is run again and again, as in OSWorld. */
const untilLost = 5

type Until = NonNullable<SetupParameters<"execute">["until"]>

const isCondition = ({ returncode, stderr, stdout }: Until): boolean =>
  returncode !== undefined || stdout !== undefined || stderr !== undefined

const holds = (until: Until, result: CommandResult): boolean =>
  (until.returncode !== undefined && result.exitCode === until.returncode) ||
  (until.stdout !== undefined && result.stdout.includes(until.stdout)) ||
  (until.stderr !== undefined && result.stderr.includes(until.stderr))

/** The task itself says that such a command may run many times, so an answer that got lost is no end. */
const repeatUntil = (once: Effect.Effect<CommandResult, GuestError>, until: Until) =>
  once.pipe(
    Effect.retry({
      schedule: Schedule.intersect(Schedule.spaced(untilInterval), Schedule.recurs(untilLost - 1)),
      while: isLost
    }),
    Effect.mapError(fromGuest),
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

export const execute: Perform<"execute"> = (parameters, context) =>
  Effect.gen(function* () {
    const fs = yield* FileSystem.FileSystem
    const path = yield* Path.Path
    const { shell, until } = parameters
    const once = context.guest.execute({
      command: Placeholders.fillCommand(parameters.command, context.placeholders),
      shell
    })
    const result = yield* until === undefined || !isCondition(until)
      ? Effect.mapError(once, fromGuest)
      : repeatUntil(once, until)
    const keep = (name: string | undefined, content: string) =>
      name === undefined
        ? Effect.void
        : Effect.mapError(fs.writeFileString(path.join(context.cache, path.basename(name)), content), broken)
    yield* keep(parameters.stdout, result.stdout)
    yield* keep(parameters.stderr, result.stderr)
  })

export const executeWithVerification: Perform<"execute_with_verification"> = (parameters, { guest, placeholders }) =>
  Effect.gen(function* () {
    const { windowExists, commandSuccess } = parameters.verification ?? {}
    const fill = (text: string) => Placeholders.fill(text, placeholders)
    const { verified } = yield* Effect.mapError(
      guest.executeAndVerify({
        command: Placeholders.fillCommand(parameters.command, placeholders),
        shell: parameters.shell,
        ...(windowExists === undefined ? {} : { windowExists: fill(windowExists) }),
        ...(commandSuccess === undefined ? {} : { commandSuccess: fill(commandSuccess) }),
        maxWait: `${parameters.maxWaitTime} seconds`,
        interval: `${parameters.checkInterval} seconds`
      }),
      fromGuest
    )
    if (verified) return
    const missing = [
      ...(windowExists === undefined ? [] : [`no window has ${JSON.stringify(windowExists)} in its title`]),
      ...(commandSuccess === undefined ? [] : [`${JSON.stringify(commandSuccess)} does not succeed`])
    ].join(" or ")
    return yield* Effect.fail(
      new StepFailed("infrastructure", `what was to come about did not within ${parameters.maxWaitTime} s: ${missing}`)
    )
  })

/**
 * The command line as OSWorld starts it: a text with blanks is cut at them, unless it has quotes, which only the guest's
 * own reading of it honours. Where a proxy is up, Chrome goes through it.
 */
export const launchCommand = (command: Command, shell: boolean, proxy: string | undefined): Command => {
  const chrome = proxy === undefined ? undefined : `--proxy-server=${proxy}`
  if (typeof command === "string") {
    if (shell || /["'\\]/.test(command)) {
      return chrome === undefined ? command : command.replace(/^\s*google-chrome(?=\s|$)/, `$& ${chrome}`)
    }
    const [program, ...rest] = command.split(/\s+/).filter((word) => word !== "")
    return program === undefined ? command : launchCommand([program, ...rest], shell, proxy)
  }
  const [program, ...rest] = command
  if (chrome === undefined) return command
  if (shell) return [program.replace(/^\s*google-chrome(?=\s|$)/, `$& ${chrome}`), ...rest]
  return program === "google-chrome" ? [program, chrome, ...rest] : command
}

/** A guest that says that it could not start an application which we know: what to do about it. */
const missingApplication = (command: Command, shell: boolean, error: GuestError): StepFailed => {
  if (error.reason._tag !== "Refused") return fromGuest(error)
  const text = typeof command === "string" ? command : shell ? command[0] : command.join(" ")
  const words = text.split(/\s+/).filter((word) => !/^\w+=/.test(word))
  const application = Applications.find(words)
  if (application === undefined || !/could not be started|No such file|not found|ENOENT/i.test(error.reason.detail)) {
    return fromGuest(error)
  }
  const remedy =
    application.packages.length === 0
      ? (application.note ?? "Debian has no package of it")
      : `Debian: apt-get install ${application.packages.join(" ")}`
  return new StepFailed(
    "infrastructure",
    `missing application ${application.commands[0]}: ${remedy} (${error.message})`
  )
}

export const launch: Perform<"launch"> = ({ command, shell }, context) =>
  Effect.gen(function* () {
    const proxy = context.wantsProxy === true && (yield* TaskProxy.isConfigured) ? TaskProxy.address : undefined
    const line = launchCommand(Placeholders.fillCommand(command, context.placeholders), shell, proxy)
    yield* Effect.mapError(context.guest.launch({ command: line, shell }), (error) =>
      missingApplication(line, shell, error)
    )
  })

export const sleep: Perform<"sleep"> = ({ seconds }) => Effect.sleep(`${seconds} seconds`)
