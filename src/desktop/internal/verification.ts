/** Commands whose effect is waited for: through the guest's own route, and from here where a guest has none. */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Ref from "effect/Ref"
import * as Schedule from "effect/Schedule"
import * as Schema from "effect/Schema"
import type { CommandResult, Guest, VerifiedRequest, VerifiedResult } from "../Guest.js"
import type { GuestError } from "../GuestError.js"
import { RefusedAnswer } from "./guestCalls.js"

/** What the guests of the new generation answer, with status 500, where the command ran and nothing came of it. */
const NotVerified = Schema.parseJson(
  Schema.Struct({
    status: Schema.Literal("verification_failed"),
    output: Schema.optionalWith(Schema.String, { nullable: true, default: () => "" }),
    error: Schema.optionalWith(Schema.String, { nullable: true, default: () => "" }),
    returncode: Schema.optionalWith(Schema.Int, { nullable: true, default: () => 0 })
  })
)

interface Reply {
  readonly output: string
  readonly error: string
  readonly returncode: number
}

const result = ({ error, output, returncode }: Reply, verified: boolean): VerifiedResult => ({
  stdout: output,
  stderr: error,
  exitCode: returncode,
  verified
})

/** Reads the route's two answers; every other failure stays one. */
export const answered = <E, R>(reply: Effect.Effect<Reply, E, R>): Effect.Effect<VerifiedResult, E, R> =>
  Effect.matchEffect(reply, {
    onSuccess: (reply) => Effect.succeed(result(reply, true)),
    onFailure: (error) =>
      error instanceof RefusedAnswer
        ? Either.match(Schema.decodeEither(NotVerified)(error.text), {
            onLeft: () => Effect.fail(error),
            onRight: (reply) => Effect.succeed(result(reply, false))
          })
        : Effect.fail(error)
  })

export interface Payload {
  readonly command: VerifiedRequest["command"]
  readonly shell: boolean | string
  readonly verification: { readonly window_exists?: string; readonly command_success?: string }
  readonly max_wait_time: number
  readonly check_interval: number
}

/** How long a command that verifies may take, as on the guest. */
const checkLimit = "5"

const check = (
  execute: Guest["execute"],
  { commandSuccess, windowExists }: VerifiedRequest
): Effect.Effect<boolean, GuestError> =>
  Effect.gen(function* () {
    if (windowExists !== undefined) {
      const { stdout } = yield* execute({ command: ["wmctrl", "-l"] })
      if (!stdout.toLowerCase().includes(windowExists.toLowerCase())) return false
    }
    if (commandSuccess === undefined) return true
    const { exitCode } = yield* execute({ command: ["timeout", checkLimit, "/bin/sh", "-c", commandSuccess] })
    return exitCode === 0
  })

const fromHere = (execute: Guest["execute"], request: VerifiedRequest): Effect.Effect<VerifiedResult, GuestError> =>
  Effect.gen(function* () {
    const { command, interval, maxWait, shell = false } = request
    const ran: CommandResult = yield* execute({ command, shell })
    const verified = yield* check(execute, request).pipe(
      Effect.repeat(
        Schedule.spaced(Duration.max(interval, "50 millis")).pipe(
          Schedule.passthrough<number, boolean, never>,
          Schedule.untilInput((met) => met)
        )
      ),
      Effect.timeoutTo({ duration: maxWait, onSuccess: (met) => met, onTimeout: () => false })
    )
    return { ...ran, verified }
  })

/** `hasRoute` is learnt once for each guest. A guest without the route has not run anything, so that running is safe. */
export const make =
  (options: {
    readonly execute: Guest["execute"]
    readonly byRoute: (payload: Payload, limit: Duration.Duration) => Effect.Effect<VerifiedResult, GuestError>
    readonly hasRoute: Ref.Ref<boolean>
    readonly limit: Duration.DurationInput
  }): Guest["executeAndVerify"] =>
  (request) => {
    const { command, commandSuccess, interval, maxWait, shell = false, windowExists } = request
    const fallback = fromHere(options.execute, request)
    const payload = {
      command,
      shell,
      verification: {
        ...(windowExists === undefined ? {} : { window_exists: windowExists }),
        ...(commandSuccess === undefined ? {} : { command_success: commandSuccess })
      },
      max_wait_time: Duration.toSeconds(maxWait),
      check_interval: Duration.toSeconds(interval)
    }
    return Effect.flatMap(Ref.get(options.hasRoute), (has) =>
      has
        ? Effect.catchIf(
            options.byRoute(payload, Duration.sum(options.limit, Duration.sum(maxWait, "10 seconds"))),
            ({ reason }) => reason._tag === "Refused" && reason.status === 404,
            () => Effect.zipRight(Ref.set(options.hasRoute, false), fallback)
          )
        : fallback
    )
  }
