/** Settings as the options of a run, and the flags that give them. */
import * as Options from "@effect/cli/Options"
import * as Option from "effect/Option"
import { Sampling } from "../../model/Sampling.js"
import { AdmissionOptions, RampUp } from "../../rollout/Admissions.js"
import { BreakerOptions } from "../../rollout/CircuitBreaker.js"
import { DispatchBudget } from "../../rollout/DispatchBudget.js"
import * as FailurePolicy from "../../rollout/FailurePolicy.js"
import type { RunOptions } from "../Run.js"
import { about, type Name, type Settings } from "./settings.js"

const names = Object.keys(about).filter((name) => name !== "tasks" && name !== "domain")

const aboutAll: Readonly<Record<string, { readonly about: string }>> = about

/** A flag for each setting that has one value: its text, which is decoded with all others. */
export const flags: Readonly<Record<string, Options.Options<Option.Option<string>>>> = Object.fromEntries(
  names.map((name) => [
    name,
    Options.text(name).pipe(Options.optional, Options.withDescription(aboutAll[name]?.about ?? ""))
  ])
)

const collect = (settings: Settings): RunOptions["collect"] => {
  const { failures, "breaker-failures": breaker } = settings
  const {
    creates,
    "creates-per-second": createsPerSecond,
    "max-resident": maxResident,
    "ramp-up-seconds": rampUp
  } = settings
  const {
    "budget-cost": cost,
    "budget-drain-seconds": drain,
    "budget-seconds": seconds,
    "budget-tokens": tokens
  } = settings
  const { "price-completion": completion, "price-prompt": prompt } = settings
  return {
    admission: new AdmissionOptions({
      ...(creates === undefined ? {} : { creates }),
      ...(createsPerSecond === undefined ? {} : { createsPerSecond }),
      ...(maxResident === undefined ? {} : { maxResident }),
      ...(rampUp === undefined ? {} : { rampUp: new RampUp({ milliseconds: rampUp * 1000 }) })
    }),
    breaker: breaker === 0 ? "off" : new BreakerOptions({ failures: breaker }),
    budget: new DispatchBudget({
      ...(seconds === undefined ? {} : { milliseconds: seconds * 1000 }),
      ...(drain === undefined ? {} : { drainMilliseconds: drain * 1000 }),
      ...(tokens === undefined ? {} : { tokens }),
      ...(cost === undefined ? {} : { cost }),
      ...(prompt === undefined || completion === undefined
        ? {}
        : { prices: { promptMillion: prompt, completionMillion: completion } })
    }),
    ...(failures === undefined
      ? {}
      : { failures: new FailurePolicy.FailurePolicy({ ...FailurePolicy.standard, ...failures }) })
  }
}

/** What `Run.run` takes of the settings. */
export const toOptions = (settings: Settings) => {
  const option = <N extends Name>(name: N) => Option.fromNullable(settings[name])
  const { "max-tokens": maxTokens, temperature, "top-p": topP } = settings
  return {
    tasks: settings.tasks,
    domains: settings.domain,
    limit: option("limit"),
    repeats: settings.repeats,
    agent: settings.agent,
    history: option("history"),
    wireContract: option("wire-contract"),
    contract: option("contract"),
    contractMode: settings["contract-mode"],
    modelUrl: option("model-url"),
    model: option("model"),
    apiKeyEnv: option("api-key-env"),
    script: option("script"),
    sampling: new Sampling({
      ...(temperature === undefined ? {} : { temperature }),
      ...(topP === undefined ? {} : { topP }),
      ...(maxTokens === undefined ? {} : { maxTokens })
    }),
    maxSteps: settings["max-steps"],
    episodeTimeout: settings["episode-timeout"],
    modelTimeout: settings["model-timeout"],
    actionTimeout: settings["action-timeout"],
    provider: settings.provider,
    environmentUrl: option("environment-url"),
    environmentTokenEnv: option("environment-token-env"),
    image: option("image"),
    vm: option("vm"),
    network: settings.network,
    pause: settings.pause,
    out: option("out"),
    concurrency: option("concurrency"),
    drainSeconds: settings["drain-seconds"],
    collect: collect(settings)
  } satisfies Partial<RunOptions>
}
