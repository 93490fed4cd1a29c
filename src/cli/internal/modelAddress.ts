/** Where the model of a run is. */
import type * as FileSystem from "@effect/platform/FileSystem"
import type * as Path from "@effect/platform/Path"
import * as Config from "effect/Config"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type * as Redacted from "effect/Redacted"
import type * as Scope from "effect/Scope"
import { redactUrl } from "../../model/Redaction.js"
import * as Scripted from "../../model/Scripted.js"
import type { AgentChoice } from "./agentChoice.js"
import { type UsageError, usage } from "./usage.js"

export interface ModelAsked {
  readonly modelUrl: Option.Option<string>
  readonly model: Option.Option<string>
  /** The name of the environment variable that holds the key. */
  readonly apiKeyEnv: Option.Option<string>
  /** A folder of recorded replies. */
  readonly script: Option.Option<string>
}

/** Where the model is: `None` for an agent that asks none. */
export interface ModelAddress {
  readonly url: string
  readonly model: string
  readonly apiKey?: Redacted.Redacted
  /** The variable that holds the key. */
  readonly keyName?: string
}

export const modelAddress = (
  options: ModelAsked,
  agent: AgentChoice
): Effect.Effect<
  Option.Option<ModelAddress>,
  UsageError | Scripted.ScriptError,
  FileSystem.FileSystem | Path.Path | Scope.Scope
> =>
  Effect.gen(function* () {
    if (Option.isNone(agent.layer)) return Option.none()
    if (Option.isSome(options.modelUrl)) {
      const url = options.modelUrl.value
      if (!URL.canParse(url) || !/^https?:$/.test(new URL(url).protocol)) {
        return yield* usage(`--model-url ${redactUrl(url)} is no http or https address`)
      }
      if (Option.isNone(options.model)) return yield* usage("--model-url wants --model, the name that the server knows")
      const apiKey = Option.isNone(options.apiKeyEnv)
        ? undefined
        : yield* Effect.mapError(Config.redacted(Config.nonEmptyString(options.apiKeyEnv.value)), () =>
            usage(`--api-key-env names ${Option.getOrElse(options.apiKeyEnv, () => "")}, which is not set`)
          )
      return Option.some({
        url,
        model: options.model.value,
        ...(apiKey === undefined ? {} : { apiKey }),
        ...Option.match(options.apiKeyEnv, { onNone: () => ({}), onSome: (keyName) => ({ keyName }) })
      })
    }
    if (Option.isSome(options.script)) {
      if (agent.dialect !== "chat") {
        return yield* usage("--script answers on Chat Completions, and the agent speaks another wire: give --model-url")
      }
      const script = yield* Scripted.load(options.script.value)
      const url = yield* Effect.mapError(Scripted.serve(script), (error) =>
        usage(`the scripted model could not be served on 127.0.0.1: ${error.message}`)
      )
      return Option.some({ url, model: "scripted" })
    }
    return yield* usage(
      "no model: give --model-url and --model, or --script with a folder of recorded replies, or --agent noop"
    )
  })
