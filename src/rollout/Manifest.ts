/**
 * What a run was made of: every knob that changes its outcomes, and the tasks by content. Never a secret.
 *
 * @since 0.1.0
 */
import { createHash } from "node:crypto"
import * as FileSystem from "@effect/platform/FileSystem"
import * as Path from "@effect/platform/Path"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as ParseResult from "effect/ParseResult"
import * as Schema from "effect/Schema"
import { RunId } from "../identity/Identity.js"
import { RetryPolicy } from "../model/Retry.js"
import { BreakerOptions } from "./CircuitBreaker.js"
import type { CollectOptions } from "./Collection.js"
import { AgentContract, Parity } from "./Contract.js"
import * as FailurePolicy from "./FailurePolicy.js"
import { CollectError } from "./RolloutCollector.js"
import type { TaskRow } from "./TaskRow.js"

/**
 * A knob's value.
 *
 * @since 0.1.0
 * @category models
 */
export const Knob = Schema.Union(Schema.String, Schema.Finite, Schema.Boolean, Schema.Null)

const TaskDigest = Schema.Struct({
  index: Schema.NonNegativeInt,
  id: Schema.String,
  /** SHA-256 of the task's JSON. */
  sha256: Schema.String,
  domain: Schema.optionalWith(Schema.String, { exact: true }),
  /** How many rollouts of it the run was asked for, of all that resumed it the most. */
  rollouts: Schema.optionalWith(Schema.NonNegativeInt, { exact: true })
})

/** ISO 8601, and a line for each thing that changed. */
const Change = Schema.Struct({ at: Schema.String, differences: Schema.NonEmptyArray(Schema.String) })

/**
 * What a run is, as its `run.json` says: by it a run that goes on is known for the same.
 *
 * @since 0.1.0
 * @category models
 */
export class Manifest extends Schema.Class<Manifest>("deskhand/rollout/Manifest")({
  schema_version: Schema.Literal(1),
  run_id: RunId,
  /** ISO 8601. */
  started_at: Schema.String,
  /** Versions of what ran it; they may differ when a run is resumed. */
  versions: Schema.Record({ key: Schema.String, value: Schema.String }),
  /** What the agent was made of; its id is among the knobs. */
  agent_contract: Schema.optionalWith(AgentContract, { exact: true }),
  /** How the agent stands to the one that was trained, where a contract was given to compare with. */
  contract_parity: Schema.optionalWith(Parity, { exact: true }),
  /** What must be the same when a run is resumed. */
  knobs: Schema.Record({ key: Schema.String, value: Knob }),
  /** How rollouts were let in and called off, as the run that came last had it: it changes no outcome. */
  collector: Schema.optionalWith(Schema.Record({ key: Schema.String, value: Knob }), { exact: true }),
  /** Each time that it was resumed with another `collector`, and what had changed; oldest first. */
  collector_changes: Schema.optionalWith(Schema.Array(Change), { exact: true }),
  /** When a model call that failed is made again; absent where no model is asked. It changes no outcome that counts. */
  retry: Schema.optionalWith(RetryPolicy, { exact: true }),
  /** Each time that it was resumed although it had become another run, and what had changed; oldest first. */
  forced_resumes: Schema.optionalWith(Schema.Array(Change), { exact: true }),
  tasks: Schema.Array(TaskDigest).pipe(
    Schema.filter((tasks) => new Set(tasks.map(({ index }) => index)).size === tasks.length, {
      message: () => "every index once"
    })
  )
}) {}

/**
 * A task's index, id, and the SHA-256 of its JSON text in hex.
 *
 * @since 0.1.0
 * @category constructors
 */
export const digest = (row: TaskRow): typeof TaskDigest.Type => ({
  index: row.taskIndex,
  id: row.taskId,
  sha256: createHash("sha256").update(JSON.stringify(row.task)).digest("hex")
})

/**
 * The tasks of rows, each once: several rows may be for rollouts of one task. Each row is for `groupSize` rollouts.
 *
 * @since 0.1.0
 * @category constructors
 */
export const digests = (rows: ReadonlyArray<TaskRow>, groupSize = 1): Manifest["tasks"] => {
  const counts = new Map<number, number>()
  for (const { taskIndex } of rows) counts.set(taskIndex, (counts.get(taskIndex) ?? 0) + groupSize)
  const tasks = new Map(rows.map((row) => [row.taskIndex, { ...digest(row), domain: row.domain }]))
  return Array.from(tasks.values(), (task) => ({ ...task, rollouts: counts.get(task.index) ?? 0 }))
}

/**
 * Why a run made of `now` is not the run that `before` describes: a line for each knob that changed and for each task of
 * both that is not the same any more. Tasks that only one of them has are no difference.
 *
 * @since 0.1.0
 * @category decisions
 */
export const differences = (before: Manifest, now: Manifest): ReadonlyArray<string> => {
  const knobs = changesOf(before.knobs, now.knobs)
  const earlier = new Map(before.tasks.map((task) => [task.index, task]))
  const tasks = now.tasks.flatMap(({ id, index, sha256 }) => {
    const task = earlier.get(index)
    if (task === undefined || (task.id === id && task.sha256 === sha256)) return []
    return [task.id === id ? `task ${id} has changed` : `task number ${index} was ${task.id} and is ${id}`]
  })
  return [...knobs, ...tasks]
}

type Knobs = Manifest["knobs"]

const changesOf = (before: Knobs, now: Knobs): ReadonlyArray<string> => {
  const show = (value: typeof Knob.Type | undefined) => (value === undefined ? "not set" : JSON.stringify(value))
  return Array.from(new Set([...Object.keys(before), ...Object.keys(now)]))
    .sort()
    .filter((name) => before[name] !== now[name])
    .map((name) => `${name} was ${show(before[name])} and is ${show(now[name])}`)
}

/** What is new of how rollouts are let in. */
const collectorOf = (before: Manifest, now: Manifest): Pick<Manifest, "collector" | "collector_changes"> => {
  if (now.collector === undefined) return {}
  const [first, ...more] = before.collector === undefined ? [] : changesOf(before.collector, now.collector)
  return {
    collector: now.collector,
    ...(first === undefined
      ? {}
      : {
          collector_changes: [
            ...(before.collector_changes ?? []),
            { at: now.started_at, differences: [first, ...more] as const }
          ]
        })
  }
}

/**
 * What a manifest says of how a collection is run. How often what failed is tried decides which rollouts have a score: of
 * those that a timeout cut short, the quick ones are in the mean. So it is among the knobs, but for what somebody called
 * off and what has no known end, which is no failure of a rollout. All else changes when rollouts run, and no outcome.
 *
 * @since 0.1.0
 * @category constructors
 */
export const collecting = (
  options: Pick<CollectOptions, "admission" | "breaker" | "budget" | "concurrency" | "failures">
): { readonly knobs: Knobs; readonly collector: Knobs } => {
  const {
    admission,
    breaker = new BreakerOptions({}),
    budget,
    concurrency,
    failures = FailurePolicy.standard
  } = options
  const rules = FailurePolicy.FailureClass.literals.map((name) => ({ name, ...failures[name] }))
  const attempts = (of: typeof rules) =>
    of.map(({ inAll, inRun, name }) => [`attempts_${name}`, `${inRun} a run, ${inAll} in all`])
  const isFailure = ({ name }: (typeof rules)[number]) => name !== "cancelled" && name !== "unresolved"
  const waits = rules.map(({ baseMilliseconds, capMilliseconds, factor, name }) => [
    `retry_wait_${name}`,
    `${baseMilliseconds} ms, times ${factor}, up to ${capMilliseconds} ms`
  ])
  return {
    knobs: Object.fromEntries(attempts(rules.filter(isFailure))),
    collector: {
      concurrency,
      creates: admission?.creates ?? null,
      creates_per_second: admission?.createsPerSecond ?? null,
      max_resident: admission?.maxResident ?? null,
      ramp_up_from: admission?.rampUp?.from ?? null,
      ramp_up_milliseconds: admission?.rampUp?.milliseconds ?? null,
      budget_milliseconds: budget?.milliseconds ?? null,
      budget_drain_milliseconds: budget?.drainMilliseconds ?? null,
      budget_tokens: budget?.tokens ?? null,
      budget_cost: budget?.cost ?? null,
      price_prompt_million: budget?.prices?.promptMillion ?? null,
      price_completion_million: budget?.prices?.completionMillion ?? null,
      breaker_failures: breaker === "off" ? null : breaker.failures,
      breaker_cool_down_milliseconds: breaker === "off" ? null : breaker.coolDownMilliseconds,
      breaker_cap_milliseconds: breaker === "off" ? null : breaker.capMilliseconds,
      breaker_probes: breaker === "off" ? null : breaker.probes,
      ...Object.fromEntries([...attempts(rules.filter((rule) => !isFailure(rule))), ...waits])
    }
  }
}

/**
 * `before` with the tasks of `now` that it did not have, with the rollouts that `now` wants beyond its own, and with its
 * `collector`, which says what changed when there is another.
 *
 * @since 0.1.0
 * @category combinators
 */
export const extend = (before: Manifest, now: Manifest): Manifest => {
  const known = new Set(before.tasks.map(({ index }) => index))
  const wanted = new Map(now.tasks.map(({ index, rollouts }) => [index, rollouts]))
  const tasks = before.tasks.map((task) => {
    const rollouts = wanted.get(task.index)
    return rollouts === undefined ? task : { ...task, rollouts: Math.max(task.rollouts ?? 0, rollouts) }
  })
  return new Manifest({
    ...before,
    ...collectorOf(before, now),
    tasks: [...tasks, ...now.tasks.filter(({ index }) => !known.has(index))]
  })
}

/**
 * The manifest of a run that is resumed although `now` is another: it says from here on what `now` says, and beside that
 * what has changed, and when (ISO 8601). Without differences it is `extend`.
 *
 * @since 0.1.0
 * @category combinators
 */
export const force = (before: Manifest, now: Manifest, at: string): Manifest => {
  const [first, ...more] = differences(before, now)
  const extended = extend(before, now)
  if (first === undefined) return extended
  const tasks = new Map(now.tasks.map((task) => [task.index, task]))
  const { agent_contract, contract_parity, knobs, retry } = now
  const { agent_contract: _, contract_parity: __, retry: ___, ...kept } = extended
  return new Manifest({
    ...kept,
    ...(agent_contract === undefined ? {} : { agent_contract }),
    ...(contract_parity === undefined ? {} : { contract_parity }),
    ...(retry === undefined ? {} : { retry }),
    knobs,
    tasks: extended.tasks.map((task) => ({ ...task, ...tasks.get(task.index), ...rolloutsOf(task) })),
    forced_resumes: [...(before.forced_resumes ?? []), { at, differences: [first, ...more] }]
  })
}

const rolloutsOf = ({ rollouts }: typeof TaskDigest.Type) => (rollouts === undefined ? {} : { rollouts })

const fileOf = (out: string) => Effect.map(Path.Path, (path) => path.join(path.resolve(out), "run.json"))

const decode = Schema.decodeUnknown(Schema.parseJson(Manifest))

const encode = Schema.encodeSync(Schema.parseJson(Manifest, { space: 2 }))

/**
 * The manifest in a run's folder, if there is one.
 *
 * @since 0.1.0
 * @category operations
 */
export const read = (
  out: string
): Effect.Effect<Option.Option<Manifest>, CollectError, FileSystem.FileSystem | Path.Path> =>
  Effect.gen(function* () {
    const fs = yield* FileSystem.FileSystem
    const file = yield* fileOf(out)
    const failed = (remedy: string) => (error: { readonly message: string }) =>
      new CollectError({ path: file, reason: error.message, remedy })
    const unreadable = failed("Check the folder's permissions")
    if (!(yield* Effect.mapError(fs.exists(file), unreadable))) return Option.none()
    const content = yield* Effect.mapError(fs.readFileString(file), unreadable)
    return Option.some(
      yield* Effect.mapError(decode(content), (error) =>
        failed("It is no manifest of a run; choose another folder with --out")({
          message: ParseResult.TreeFormatter.formatErrorSync(error)
        })
      )
    )
  })

/**
 * Writes `run.json`, making the folder if it is missing.
 *
 * @since 0.1.0
 * @category operations
 */
export const write = (
  out: string,
  manifest: Manifest
): Effect.Effect<void, CollectError, FileSystem.FileSystem | Path.Path> =>
  Effect.gen(function* () {
    const fs = yield* FileSystem.FileSystem
    const path = yield* Path.Path
    const file = yield* fileOf(out)
    yield* fs.makeDirectory(path.dirname(file), { recursive: true }).pipe(
      Effect.zipRight(fs.writeFileString(`${file}.partial`, `${encode(manifest)}\n`)),
      Effect.zipRight(fs.rename(`${file}.partial`, file)),
      Effect.mapError(
        (error) =>
          new CollectError({
            path: file,
            reason: error.message,
            remedy: "Check that the folder is writable and the disk has space"
          })
      )
    )
  })
