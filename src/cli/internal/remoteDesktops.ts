/** Desktops of a run that another machine serves. */
import * as Config from "effect/Config"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { type RemoteEnvironmentOptions, reach } from "../../osworld/RemoteEnvironment.js"
import { bundledTasks } from "./host.js"
import { type UsageError, usage } from "./usage.js"

export interface RemoteAsked {
  /** A `deskhand serve` somewhere. */
  readonly environmentUrl: Option.Option<string>
  /** The name of the environment variable that holds its token. */
  readonly environmentTokenEnv: Option.Option<string>
}

/** What else was asked for that only desktops of this run's own can have. */
interface Own {
  readonly image: Option.Option<string>
  readonly vm: Option.Option<string>
  readonly record: boolean
  readonly compat: boolean
  /** Seconds. */
  readonly pause: number
}

export const remoteDesktops = (
  options: RemoteAsked & Own
): Effect.Effect<Option.Option<RemoteEnvironmentOptions>, UsageError> =>
  Effect.gen(function* () {
    const { environmentTokenEnv, environmentUrl, image, pause } = options
    if (Option.isNone(environmentUrl)) {
      return Option.isSome(environmentTokenEnv)
        ? yield* usage("--environment-token-env is for --environment-url")
        : Option.none()
    }
    const own = [
      Option.isSome(image) ? "--image" : undefined,
      Option.isSome(options.vm) ? "--vm" : undefined,
      options.record ? "--record" : undefined,
      options.compat ? "--compat" : undefined
    ].find((flag) => flag !== undefined)
    if (own !== undefined) return yield* usage(`${own} is for the server to say, and not for --environment-url`)
    const token = yield* Effect.transposeOption(
      Option.map(environmentTokenEnv, (name) =>
        Effect.mapError(Config.redacted(Config.nonEmptyString(name)), () =>
          usage(`--environment-token-env names ${name}, which is not set`)
        )
      )
    )
    const address = {
      url: environmentUrl.value,
      ...Option.match(token, { onNone: () => ({}), onSome: (token) => ({ token }) })
    }
    const tokenName = Option.match(environmentTokenEnv, { onNone: () => ({}), onSome: (tokenName) => ({ tokenName }) })
    yield* Effect.mapError(reach({ ...address, ...tokenName }), ({ reason }) => usage(`--environment-url: ${reason}`))
    return Option.some({
      ...address,
      pause: Duration.seconds(pause),
      // The tasks that come with Deskhand are on every server, unless it was given others.
      tasks: bundledTasks
    })
  })
