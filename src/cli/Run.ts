/**
 * `deskhand run`: tasks in, a graded report out.
 *
 * @since 0.1.0
 */
import { availableParallelism } from "node:os"
import * as FileSystem from "@effect/platform/FileSystem"
import * as Path from "@effect/platform/Path"
import * as Clock from "effect/Clock"
import * as Console from "effect/Console"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Random from "effect/Random"
import * as Ref from "effect/Ref"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import { DesktopAgent } from "../agents/DesktopAgent.js"
import * as Noop from "../agents/Noop.js"
import * as ArtifactStore from "../artifact/ArtifactStore.js"
import { writeWhole } from "../artifact/WholeFile.js"
import { RunId } from "../identity/Identity.js"
import * as Connections from "../model/Connections.js"
import { redactUrl } from "../model/Redaction.js"
import { RetryPolicy } from "../model/Retry.js"
import type { Sampling } from "../model/Sampling.js"
import * as TransportLog from "../model/TransportLog.js"
import * as Assets from "../osworld/Assets.js"
import { OSWorld, layer as osworldLayer } from "../osworld/OSWorld.js"
import * as Recording from "../osworld/Recording.js"
import * as RemoteEnvironment from "../osworld/RemoteEnvironment.js"
import * as TaskSource from "../osworld/TaskSource.js"
import { AdmissionOptions, residentRows } from "../rollout/Admissions.js"
import * as Contract from "../rollout/Contract.js"
import * as Control from "../rollout/Control.js"
import * as Episode from "../rollout/Episode.js"
import { EpisodeLimits } from "../rollout/EpisodeLimits.js"
import * as Evidence from "../rollout/Evidence.js"
import * as Journal from "../rollout/Journal.js"
import * as Manifest from "../rollout/Manifest.js"
import * as Report from "../rollout/Report.js"
import * as ReportText from "../rollout/ReportText.js"
import * as RolloutCollector from "../rollout/RolloutCollector.js"
import { namesItsRollout, type TaskRow } from "../rollout/TaskRow.js"
import * as Ledger from "../sandbox/Ledger.js"
import type { Network } from "../sandbox/SandboxSpec.js"
import { type AgentAsked, type AgentChoice, choose, print } from "./internal/agentChoice.js"
import { cacheFolder } from "./internal/caches.js"
import { isRoot, version } from "./internal/host.js"
import { type ModelAddress, type ModelAsked, modelAddress } from "./internal/modelAddress.js"
import { clientOf, reach, retryWithin } from "./internal/modelClient.js"
import { type RemoteAsked, remoteDesktops } from "./internal/remoteDesktops.js"
import { UsageError, usage } from "./internal/usage.js"
import * as Packages from "./Packages.js"
import * as Program from "./Program.js"
import * as ProgressDisplay from "./ProgressDisplay.js"
import { dockerWithMachine, type ProviderName, providers } from "./Providers.js"
import * as Requirements from "./Requirements.js"
import * as RunReceipt from "./RunReceipt.js"

/**
 * @since 0.1.0
 * @category models
 */
export interface RunOptions extends AgentAsked, ModelAsked, RemoteAsked {
  /** Files, folders, globs and JSONL files of rows. */
  readonly tasks: ReadonlyArray<string>
  readonly domains: ReadonlyArray<string>
  readonly limit: Option.Option<number>
  /** Seconds. */
  readonly episodeTimeout: number
  readonly modelTimeout: number
  readonly actionTimeout: number
  readonly concurrency: Option.Option<number>
  readonly repeats: number
  readonly sampling: Sampling
  readonly provider: ProviderName
  /** The image or template of the desktop, where the provider starts from one. */
  readonly image: Option.Option<string>
  /** OSWorld's disk image, for its own virtual machine on Docker. */
  readonly vm: Option.Option<string>
  readonly network: Network
  /** Seconds after each action. */
  readonly pause: number
  readonly out: Option.Option<string>
  readonly resume: boolean
  /** Resume although something has changed; the manifest records what. */
  readonly forceResume: boolean
  readonly dryRun: boolean
  /** Say what the agent is made of, and start nothing. */
  readonly printContract: boolean
  readonly setup: boolean
  /** A cache of assets that is read before the user's own: what `deskhand prepare` has filled. */
  readonly assets: Option.Option<string>
  /** Download no assets. */
  readonly offline: boolean
  /** Make a film of each rollout. */
  readonly record: boolean
  /** Grade as OSWorld's own evaluators do, their known defects included. */
  readonly compat: boolean
  /** Seconds that rollouts have to come to their end after the first signal; at 0 they are interrupted. */
  readonly drainSeconds: number
  /** How rollouts are let in, tried again and called off. */
  readonly collect: Pick<RolloutCollector.CollectOptions, "admission" | "breaker" | "budget" | "failures">
}

export {
  /**
   * What was asked for cannot be done as it was asked. Nothing has been started.
   *
   * @since 0.1.0
   * @category errors
   */
  UsageError
}

/**
 * The run ended and not every rollout has a score; the report has said which and why.
 *
 * @since 0.1.0
 * @category errors
 */
export class RunIncomplete extends Schema.TaggedError<RunIncomplete>("deskhand/RunIncomplete")("RunIncomplete", {
  out: Schema.String
}) {
  override get message() {
    return `the run is not complete; to go on with it, add --resume --out ${this.out}`
  }
}

/** When a model call that failed is made again. */
const retry = new RetryPolicy({})

/** The machine has what the tasks need, or the run does not start. */
const prepare = (loaded: TaskSource.LoadedTasks, setup: boolean) =>
  Effect.gen(function* () {
    const tasks = loaded.map(({ task }) => task)
    const before = yield* Requirements.check(tasks)
    const missing = Requirements.packagesFor(before)
    if (setup && missing.length > 0) yield* Packages.install(missing, isRoot)
    const checks = setup && missing.length > 0 ? yield* Requirements.check(tasks) : before
    if (checks.some(({ ok }) => !ok)) {
      const hint = setup ? "" : Requirements.setupHint(checks)
      return yield* usage(
        `this machine cannot run these tasks yet.\n${Requirements.render(checks, isRoot)}${hint === "" ? "" : `\n${hint}`}`
      )
    }
  })

const stamp = Effect.map(Clock.currentTimeMillis, (now) => {
  const digits = new Date(now).toISOString().replace(/[-:]/g, "").replace("T", "-")
  return digits.slice(0, "yyyymmdd-hhmmss".length)
})

const folderOf = (options: RunOptions) =>
  Option.match(options.out, {
    onSome: Effect.succeed,
    onNone: () =>
      options.resume || options.forceResume
        ? Effect.fail(usage("--resume wants --out, the folder of the run to go on with"))
        : Effect.map(stamp, (started) => `runs/${started}`)
  })

/** Writes the manifest of a new run, or extends the one that is resumed, if this is the same run. */
const openRun = (
  options: RunOptions,
  { contract, parity }: AgentChoice,
  model: string | null,
  out: string,
  rows: ReadonlyArray<TaskRow>,
  collecting: ReturnType<typeof Manifest.collecting>
) =>
  Effect.gen(function* () {
    const now = yield* Clock.currentTimeMillis
    const started = yield* stamp
    const { sampling } = options
    const suffix = (yield* Random.nextIntBetween(0, 36 ** 4)).toString(36).padStart(4, "0")
    const manifest = new Manifest.Manifest({
      schema_version: 1,
      run_id: RunId.make(`${started}-${suffix}`),
      started_at: new Date(now).toISOString(),
      versions: { deskhand: version, node: process.version },
      agent_contract: contract,
      ...(Option.isNone(parity) ? {} : { contract_parity: parity.value }),
      ...(model === null ? {} : { retry }),
      knobs: {
        agent: options.agent,
        agent_contract_id: Contract.contractId(contract),
        model,
        history_policy_id: contract.history_policy?.history_policy_id ?? null,
        temperature: sampling.temperature ?? null,
        top_p: sampling.topP ?? null,
        max_tokens: sampling.maxTokens ?? null,
        max_steps: options.maxSteps,
        episode_timeout_seconds: options.episodeTimeout,
        model_timeout_seconds: options.modelTimeout,
        action_timeout_seconds: options.actionTimeout,
        provider: Option.isSome(options.environmentUrl) ? "remote" : options.provider,
        image: Option.getOrNull(options.image),
        vm: Option.getOrNull(options.vm),
        network: options.network,
        pause_seconds: options.pause,
        compat: options.compat,
        ...collecting.knobs
      },
      collector: { ...collecting.collector, drain_seconds: options.drainSeconds },
      tasks: Manifest.digests(rows, options.repeats)
    })
    const resume = options.resume || options.forceResume
    const earlier = resume ? yield* Manifest.read(out) : Option.none()
    if (resume && Option.isNone(earlier)) return yield* usage(`${out} holds no run that could be resumed`)
    const merged = Option.match(earlier, {
      onNone: () => manifest,
      onSome: (before) => Manifest.force(before, manifest, manifest.started_at)
    })
    const changed = Option.match(earlier, {
      onNone: () => [],
      onSome: (before) => Manifest.differences(before, manifest)
    })
    if (changed.length > 0) {
      const list = changed.map((line) => `  ${line}`).join("\n")
      if (!options.forceResume) {
        return yield* usage(
          `${out} cannot be resumed, because this would be another run:\n${list}\nResume with the same settings, choose another folder with --out, or add --force-resume: run.json then records what changed`
        )
      }
      yield* Console.error(`Going on with ${out}, although this is another run now; run.json records it:\n${list}`)
    }
    yield* Manifest.write(out, merged)
    return merged
  })

const agentLayer = (options: RunOptions, { dialect, layer }: AgentChoice, address: Option.Option<ModelAddress>) =>
  Option.match(Option.all({ address, layer }), {
    onNone: () => Noop.layer,
    onSome: ({ address, layer }) =>
      layer(options.sampling).pipe(
        Layer.provide(
          clientOf(dialect, {
            ...address,
            retry: retryWithin(retry, options.modelTimeout),
            timeout: `${options.modelTimeout} seconds`
          })
        ),
        Layer.provide(
          Layer.catchAll(TransportLog.layerConfig, (error) => Layer.fail(usage(`the transport log: ${error.message}`)))
        )
      )
  })

const plan = (
  options: RunOptions,
  loaded: TaskSource.LoadedTasks,
  { contract, parity }: AgentChoice,
  address: Option.Option<ModelAddress>
): string => {
  const model = Option.match(address, {
    onNone: () => "no model",
    onSome: ({ model, url }) => `${model} at ${redactUrl(url)}`
  })
  const differences = Option.match(parity, { onNone: () => [], onSome: ({ differences }) => differences })
  const width = Math.max(...loaded.map(({ row }) => row.taskId.length))
  return [
    ...loaded.map(({ row }) => `  ${row.taskId.padEnd(width)}  ${row.domain}`),
    "",
    `${loaded.length} tasks, ${options.repeats} rollouts each, ${options.maxSteps} steps at most; agent ${options.agent}, ${model}.`,
    `Agent contract ${Contract.contractId(contract)}.`,
    ...differences.map((difference) => `  ${Contract.describe(difference, "there", "here")}`),
    "Nothing was started (--dry-run)."
  ].join("\n")
}

/** The report on the screen and in `metrics.json`. */
const conclude = (out: string, report: Report.Report, record: boolean) =>
  Effect.gen(function* () {
    const path = yield* Path.Path
    const color = process.stdout.isTTY === true && process.env["NO_COLOR"] === undefined
    yield* Console.log(ReportText.render(report, { width: process.stdout.columns ?? 120, color }))
    yield* Console.log(`\nScreenshots, step by step: ${path.join(out, "screenshots")}`)
    if (record) yield* Console.log(`Films: ${path.join(out, "recordings")}`)
    yield* Console.log(`Rows: ${path.join(out, "rollouts.jsonl")}; failures: ${path.join(out, "failures.jsonl")}`)
    yield* writeWhole(path.join(out, "metrics.json"), `${JSON.stringify(Report.toMetrics(report), null, 2)}\n`)
  })

/**
 * Runs the tasks. Fails with `UsageError` before anything is started, and with `RunIncomplete` when a rollout has no
 * score in the end.
 *
 * @since 0.1.0
 * @category operations
 */
export const run = Effect.fn("deskhand.run", { captureStackTrace: false })(
  function* (options: RunOptions) {
    const path = yield* Path.Path
    const choice = yield* choose(options)
    if (options.printContract) return yield* Console.log(print(choice.contract))
    const loaded = yield* TaskSource.load(options.tasks, {
      ...(options.domains.length === 0 ? {} : { domain: options.domains }),
      ...Option.match(options.limit, { onNone: () => ({}), onSome: (limit) => ({ limit }) })
    })
    const rows = loaded.map(({ row }) => row)
    const named = rows.find(namesItsRollout)
    if (named !== undefined && options.repeats > 1) {
      return yield* usage(`the row of ${named.taskId} names its one rollout: --repeats ${options.repeats} cannot be`)
    }
    const address = yield* modelAddress(options, choice)
    if (options.dryRun) return yield* Console.log(plan(options, loaded, choice, address))
    const fs = yield* FileSystem.FileSystem
    const kvm = yield* Effect.orElseSucceed(fs.exists("/dev/kvm"), () => false)
    const disk = Option.map(options.vm, (file) => path.resolve(file))
    if (Option.isSome(disk)) {
      if (options.provider !== "docker") return yield* usage("--vm is for --provider docker")
      const there = yield* Effect.orElseSucceed(fs.exists(disk.value), () => false)
      if (!there) return yield* usage(`--vm names ${disk.value}, which does not exist`)
      if (!kvm) yield* Console.error("There is no /dev/kvm: the virtual machine will be slow")
    }
    if (Option.isSome(options.assets)) {
      const folder = options.assets.value
      const found = yield* Effect.option(fs.stat(folder))
      if (!Option.exists(found, ({ type }) => type === "Directory")) {
        const what = Option.isNone(found) ? "does not exist" : "is no folder"
        return yield* usage(`--assets names ${folder}, which ${what}: deskhand prepare --assets ${folder} fills one`)
      }
    }
    const provider = Option.isSome(disk) ? dockerWithMachine(kvm) : providers[options.provider]
    const remote = yield* remoteDesktops(options)
    // What the tasks need is the server's affair, where the desktops are its.
    if (Option.isNone(remote)) {
      yield* Effect.provide(prepare(loaded, options.setup), Layer.provide(provider, Ledger.layerMemory))
    }
    if (Option.isSome(address)) {
      yield* Effect.mapError(reach(choice.dialect, address.value), (error) => usage(error.message))
    }

    const assets = path.join(yield* cacheFolder, "assets")
    const expected = rows.length * options.repeats
    // Desktops that see this machine's network share its ports.
    const most = options.network === "host" ? 1 : expected
    if (Option.exists(options.concurrency, (asked) => asked > 1) && options.network === "host") {
      return yield* usage("with --network host only one desktop runs at a time: leave --concurrency out, or give 1")
    }
    const concurrency = Math.min(
      most,
      Option.getOrElse(options.concurrency, () => availableParallelism())
    )
    const maxResident = options.collect.admission?.maxResident ?? Math.max(residentRows(concurrency), 64)
    // Of rows that are read no further ahead, no more could run when somebody asks for it.
    const admission = new AdmissionOptions({ ...options.collect.admission, maxResident })

    const out = yield* folderOf(options)
    const Runtime = Layer.mergeAll(
      agentLayer(options, choice, address),
      Evidence.layer({ out }),
      Option.isSome(remote)
        ? Layer.mapError(RemoteEnvironment.layer(remote.value), (error) => usage(error.message))
        : osworldLayer({
            network: options.network,
            pause: `${options.pause} seconds`,
            compat: options.compat,
            ...Option.match(options.image, { onNone: () => ({}), onSome: (image) => ({ image }) }),
            ...Option.match(disk, { onNone: () => ({}), onSome: (disk) => ({ virtualMachine: { disk, kvm } }) })
          })
    ).pipe(
      Layer.provideMerge(provider),
      Layer.provide(
        Assets.layerConfig({ directory: assets, shared: Option.toArray(options.assets), offline: options.offline })
      ),
      Layer.provide(Recording.layer({ out, film: options.record })),
      Layer.provide(ArtifactStore.layer({ directory: path.join(out, "blobs") }))
    )

    const opened = yield* Ref.make(false)
    yield* Effect.gen(function* () {
      const collector = yield* RolloutCollector.RolloutCollector
      const environment = yield* OSWorld
      const agent = yield* DesktopAgent
      const reported = Contract.contractId(Contract.withMaxSteps(agent.contract, options.maxSteps))
      if (reported !== Contract.contractId(choice.contract)) {
        return yield* Effect.dieMessage(`the agent ${options.agent} is not the one that its contract describes`)
      }
      const model = Option.match(address, { onNone: () => null, onSome: ({ model }) => model })
      const collecting = Manifest.collecting({ ...options.collect, admission, concurrency })
      const manifest = yield* openRun(options, choice, model, out, rows, collecting)
      yield* Ref.set(opened, true)
      const ledger = yield* Ledger.Ledger
      const leftOpen = yield* ledger.open
      const limits = EpisodeLimits.make({
        maxSteps: options.maxSteps,
        episodeTimeout: Duration.seconds(options.episodeTimeout),
        modelTimeout: Duration.seconds(options.modelTimeout),
        stepTimeout: Duration.seconds(options.actionTimeout)
      })
      const program = Episode.program({ environment, agent, limits })
      const initial = Report.addEarlier(Report.ofRows(rows, options.repeats), collector.finished, rows, options.repeats)
      const earlier = Report.entries(initial).flatMap(({ result }) => (result._tag === "Scored" ? [result.reward] : []))
      const report = yield* Ref.make(initial)
      const byIndex = new Map(rows.map((row) => [row.taskIndex, row]))
      const collected = collector.collect(Stream.fromIterable(rows), program, {
        runId: manifest.run_id,
        ...options.collect,
        admission,
        concurrency,
        groupSize: options.repeats,
        model: model ?? "none",
        contract: choice.contract
      })
      yield* Stream.runForEach(collected, (outcome) => {
        const row = byIndex.get(outcome.identity.taskIndex)
        return row === undefined ? Effect.void : Ref.update(report, (before) => Report.add(before, outcome, row))
      }).pipe(
        Effect.provide(
          Layer.mergeAll(
            ProgressDisplay.layer({ expected, concurrency, earlier }),
            Control.layer({ out, controlled: collector, most: Math.min(most, maxResident) }),
            options.drainSeconds > 0
              ? Layer.scopedDiscard(Program.drainOnSignal(collector.control.drain, options.drainSeconds))
              : Layer.empty
          )
        ),
        // Whatever ends a run, what it has is shown, and what it left is told.
        Effect.ensuring(
          // What was stopped in its middle has no outcome, and was started all the same: the journal knows.
          Journal.read(path.join(out, "journal.jsonl")).pipe(
            Effect.flatMap((standings) =>
              Ref.update(report, (told) => Report.addStandings(told, standings, rows, options.repeats))
            ),
            Effect.catchAll((error) => Console.error(error.message)),
            Effect.zipRight(Ref.get(report)),
            Effect.flatMap((report) => conclude(out, report, options.record)),
            Effect.catchAll((error) => Console.error(error.message))
          )
        ),
        Effect.onInterrupt(() => Console.error(new RunIncomplete({ out }).message)),
        Effect.ensuring(RunReceipt.settleEarlier(leftOpen))
      )
      if (Report.facts(yield* Ref.get(report)).measured < expected) return yield* new RunIncomplete({ out })
    }).pipe(
      Effect.provide(Runtime),
      // The provider is closed by now, and with it every desktop. Whoever was refused has no desktops to tell of.
      Effect.ensuring(Effect.whenEffect(RunReceipt.write(out, options.provider), Ref.get(opened))),
      Effect.provide(Ledger.layer({ path: path.join(out, "ledger.jsonl") })),
      // Outside of all: the ledger and the receipt are those of the run that holds the folder.
      Effect.provide(RolloutCollector.layer({ out, resume: options.resume || options.forceResume }))
    )
  },
  Effect.scoped,
  Effect.provide(Connections.layer())
)
