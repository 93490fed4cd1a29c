/**
 * Finds out whether a sandbox is of use.
 */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Ref from "effect/Ref"
import * as Schedule from "effect/Schedule"
import * as Stream from "effect/Stream"
import { httpClient } from "../Endpoint.js"
import type { ExecOutcome } from "../ExecOutcome.js"
import type { SandboxOperations } from "../Sandbox.js"
import type { CommandReadiness, HttpReadiness, Readiness } from "../SandboxSpec.js"

/** How long one question to a sandbox that starts may take. */
const tryLimit = Duration.seconds(5)

interface Unready {
  readonly message: string
}

const ask = (sandbox: SandboxOperations, readiness: HttpReadiness): Effect.Effect<void, Unready> =>
  Effect.gen(function* () {
    const client = yield* httpClient(yield* sandbox.endpoint(readiness.port))
    const response = yield* client.get(readiness.path)
    yield* Stream.runDrain(response.stream)
    if (response.status < 200 || response.status >= 300) {
      return yield* Effect.fail<Unready>({ message: `it answered ${response.status}` })
    }
  }).pipe(
    Effect.scoped,
    Effect.timeoutFail({
      duration: tryLimit,
      onTimeout: (): Unready => ({ message: `no answer came within ${Duration.format(tryLimit)}` })
    })
  )

const describe = (outcome: ExecOutcome): string => {
  const printed = (outcome.stderr.trim() || outcome.stdout.trim()).slice(-500)
  const how =
    outcome._tag === "Exited"
      ? `it ended with exit code ${outcome.code}`
      : outcome._tag === "TimedOut"
        ? "it did not end in time"
        : outcome.reason
  return printed === "" ? how : `${how}: ${printed}`
}

const tryCommand = (sandbox: SandboxOperations, readiness: CommandReadiness): Effect.Effect<void, Unready> =>
  Effect.flatMap(sandbox.exec({ command: readiness.command, timeout: readiness.timeout }), (outcome) =>
    outcome._tag === "Exited" && outcome.code === 0 ? Effect.void : Effect.fail<Unready>({ message: describe(outcome) })
  )

/** Why the sandbox is not ready, when it is not in time; undefined as soon as it is. */
export const problem = (sandbox: SandboxOperations, readiness: Readiness): Effect.Effect<string | undefined> =>
  Effect.gen(function* () {
    const last = yield* Ref.make("nothing was answered")
    const [attempt, asked] =
      readiness._tag === "HttpReadiness"
        ? [ask(sandbox, readiness), `GET ${readiness.path} on port ${readiness.port} had no 2xx answer`]
        : [tryCommand(sandbox, readiness), `${readiness.command.join(" ")} did not exit with 0`]
    const answered = yield* attempt.pipe(
      Effect.tapError((error) => Ref.set(last, error.message)),
      Effect.retryOrElse(Schedule.spaced("50 millis"), () => Effect.never),
      Effect.timeoutOption(readiness.timeout)
    )
    return Option.isSome(answered)
      ? undefined
      : `${asked} within ${Duration.format(readiness.timeout)}: ${yield* Ref.get(last)}`
  })
