/**
 * OSWorld's environment: a desktop from a provider, prepared for a task, acted in, and graded.
 *
 * @since 0.1.0
 */
import type * as CommandExecutor from "@effect/platform/CommandExecutor"
import * as FileSystem from "@effect/platform/FileSystem"
import type * as Path from "@effect/platform/Path"
import * as Arr from "effect/Array"
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as ExecutionStrategy from "effect/ExecutionStrategy"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Scope from "effect/Scope"
import { ArtifactStore } from "../artifact/ArtifactStore.js"
import type { DesktopAction } from "../desktop/Action.js"
import * as DesktopSpec from "../desktop/DesktopSpec.js"
import * as Guest from "../desktop/Guest.js"
import { isCommandTimeout } from "../desktop/GuestError.js"
import type { RolloutIdentity } from "../identity/Identity.js"
import {
  type Environment,
  EnvironmentError,
  type EnvironmentSession,
  EvaluationFailed,
  Observation,
  type ObservationNeeds,
  StepFacts
} from "../rollout/Environment.js"
import type { TaskRow } from "../rollout/TaskRow.js"
import type { OwnedSandbox } from "../sandbox/Sandbox.js"
import { SandboxProvider } from "../sandbox/SandboxProvider.js"
import type { Network, SandboxSpec } from "../sandbox/SandboxSpec.js"
import { spanned } from "../trace/Span.js"
import type { Assets } from "./Assets.js"
import { evaluate } from "./evaluator/Evaluator.js"
import * as Recording from "./Recording.js"
import * as Setup from "./Setup.js"
import { unsupported } from "./Support.js"
import * as Task from "./Task.js"
import * as TaskFolder from "./TaskFolder.js"

/**
 * OSWorld's environment, as a service.
 *
 * @since 0.1.0
 * @category context
 */
export class OSWorld extends Context.Tag("deskhand/osworld/OSWorld")<OSWorld, Environment<DesktopAction>>() {}

/**
 * @since 0.1.0
 * @category models
 */
export interface OSWorldOptions {
  /** `none` unless given. */
  readonly network?: Network
  /** The image or template of the desktop, for providers that start from one; `deskhand-desktop` unless given. */
  readonly image?: string
  /** OSWorld's own virtual machine in the place of our desktop; see `DesktopSpec.forVirtualMachine`. */
  readonly virtualMachine?: { readonly disk: string; readonly kvm: boolean }
  /** How long the desktop is left alone after each action before it is observed; half a second unless given. */
  readonly pause?: Duration.DurationInput
  /** How long it is left alone before the evaluation; two seconds unless given. */
  readonly settle?: Duration.DurationInput
  /** Pixels; 1920 by 1080 unless given. */
  readonly screen?: { readonly width: number; readonly height: number }
  /**
   * Whether a group's desktop is prepared once and copied by the provider; where the provider can unless given. Without it,
   * owners of a group are prepared one by one.
   */
  readonly fork?: boolean
  /** The desktop user's password, for the tasks' `{CLIENT_PASSWORD}`; `password` unless given. */
  readonly clientPassword?: string
  /** Scores as upstream scores, its known defects included; off unless given. */
  readonly compat?: boolean
}

/** OSWorld's own, which everybody knows. */
const defaultPassword = "password"

/** How much of what an action printed is kept. */
const stderrLimit = 2000

/**
 * How long the end of a desktop may take to be told after a call to it has failed. Where it has ended, the call was only
 * the first to notice, and why it ended tells more.
 */
const rootCauseWait = "2 seconds"

const openFailed = (error: { readonly message: string }) =>
  new EnvironmentError({ phase: "open", fault: "infrastructure", reason: error.message, cause: error })

/** Some services say only when they are asked that they cannot. */
const notForked = (error: { readonly _tag: string; readonly message: string }) =>
  openFailed(
    error._tag === "SandboxUnsupported"
      ? { message: `${error.message}. Set OSWorld's option fork to false: each owner is then prepared by itself` }
      : error
  )

/** What the guest answered is one of the two, or it would have been an error. */
const mediaType = (image: Uint8Array): string =>
  Option.getOrElse(Guest.imageFormat(image), () => "png") === "png" ? "image/png" : "image/jpeg"

/**
 * The environment, over the provider that is there. Nothing is opened before a rollout is.
 *
 * @since 0.1.0
 * @category constructors
 */
export const make = (
  options: OSWorldOptions = {}
): Effect.Effect<
  Environment<DesktopAction>,
  never,
  SandboxProvider | ArtifactStore | Assets | FileSystem.FileSystem | Path.Path | CommandExecutor.CommandExecutor
> =>
  Effect.gen(function* () {
    const provider = yield* SandboxProvider
    const store = yield* ArtifactStore
    const services = yield* Effect.context<
      FileSystem.FileSystem | Path.Path | CommandExecutor.CommandExecutor | Assets
    >()
    const fs = yield* FileSystem.FileSystem
    const recorder = yield* Effect.serviceOption(Recording.Recording)
    const screen = options.screen ?? { width: 1920, height: 1080 }
    const pause = Effect.sleep(options.pause ?? "500 millis")
    const settle = Effect.sleep(options.settle ?? "2 seconds")

    const taskOf = Effect.fnUntraced(function* (row: TaskRow) {
      const task = yield* Effect.mapError(
        Task.decode(row.task, row.source ?? row.taskId),
        (error) => new EnvironmentError({ phase: "open", fault: "task", reason: error.message })
      )
      const lacking = yield* unsupported(task)
      if (lacking.length === 0) return task
      return yield* new EnvironmentError({
        phase: "open",
        fault: "task",
        reason: `the task needs what is not yet supported: ${lacking.join(", ")}`
      })
    })

    const specOf = (row: TaskRow, identity: RolloutIdentity, group: Readonly<Record<string, string>>) => {
      const desktop = {
        ...screen,
        network: options.network ?? "none",
        metadata: { run: identity.runId, rollout: identity.rolloutId, task: row.taskId, ...group }
      }
      const { image, virtualMachine } = options
      return virtualMachine !== undefined
        ? DesktopSpec.forVirtualMachine({
            ...virtualMachine,
            ...(image === undefined ? {} : { image }),
            metadata: desktop.metadata
          })
        : provider.capabilities.images
          ? DesktopSpec.forImage({
              ...desktop,
              image: image ?? DesktopSpec.defaultImage,
              entrypoint: provider.capabilities.entrypoint
            })
          : DesktopSpec.make(desktop)
    }

    const makeCache = Effect.mapError(Effect.provideService(TaskFolder.make, FileSystem.FileSystem, fs), openFailed)

    /** A desktop that runs, as one task sees it. */
    const desktopOf = Effect.fnUntraced(function* (
      sandbox: OwnedSandbox,
      { row, task }: { readonly row: TaskRow; readonly task: Task.Task },
      identity: RolloutIdentity,
      cache: string
    ) {
      const endpoint = yield* Effect.mapError(sandbox.endpoint(DesktopSpec.ports.guest), openFailed)
      const guest = yield* Guest.make(endpoint)
      const lost = Effect.mapError(
        sandbox.gone,
        (error) => new EnvironmentError({ phase: "step", fault: "infrastructure", reason: error.message, cause: error })
      )
      const clientPassword = options.clientPassword ?? defaultPassword
      const secrets = clientPassword === defaultPassword ? [] : [clientPassword]
      const recording = yield* Option.match(recorder, {
        onNone: () => Effect.succeed(Recording.none(guest)),
        onSome: ({ open }) => open(identity, { guest, cache, secrets })
      })
      const context: Setup.TaskContext = {
        guest: recording.guest,
        taskFile: row.source,
        cache,
        placeholders: { clientPassword, screenWidth: screen.width, screenHeight: screen.height },
        endpoint: sandbox.endpoint,
        compat: options.compat ?? false,
        wantsProxy: task.proxy
      }
      return { context, guest, lost, recording }
    })

    /** A desktop on which the task's setup was done. */
    const prepare = Effect.fnUntraced(function* (
      row: TaskRow,
      task: Task.Task,
      identity: RolloutIdentity,
      spec: SandboxSpec
    ) {
      const cache = yield* makeCache
      const sandbox = yield* Effect.mapError(provider.acquire(spec), openFailed)
      const desktop = yield* desktopOf(sandbox, { row, task }, identity, cache)
      yield* Setup.run(desktop.context, "config", task.config).pipe(
        Effect.provide(services),
        Effect.mapError(
          (error) => new EnvironmentError({ phase: "setup", fault: error.fault, reason: error.message, cause: error })
        ),
        Effect.catchAll((error) => Effect.delay(Effect.fail(error), rootCauseWait)),
        Effect.raceFirst(desktop.lost)
      )
      yield* desktop.recording.film
      return { sandbox, desktop }
    })

    type Desktop = Effect.Effect.Success<ReturnType<typeof desktopOf>>

    /** A guest of a group answers, or the whole group is none. */
    const probe = (index: number, { guest, lost }: Desktop) =>
      Effect.raceFirst(guest.platform, lost).pipe(
        Effect.mapError((error) => openFailed({ message: `the desktop of owner ${index}: ${error.message}` }))
      )

    const session = (
      task: Task.Task,
      { context, guest, lost, recording }: Desktop,
      needs: ObservationNeeds
    ): EnvironmentSession<DesktopAction> => {
      const failedTo = (phase: "observe" | "step") => (error: { readonly message: string }) =>
        Effect.raceFirst(
          lost,
          Effect.delay(
            new EnvironmentError({ phase, fault: "infrastructure", reason: error.message, cause: error }),
            rootCauseWait
          )
        )

      const accessibilityTree = Effect.flatMap(guest.accessibilityTree, (xml) =>
        store.put(Buffer.from(xml), "text/xml")
      )

      const observe = Effect.gen(function* () {
        const started = yield* Clock.currentTimeMillis
        // Asked for when there is memory for it: a crowd of desktops waits with nothing in its hands.
        const screenshot = yield* store.receive((add) =>
          Effect.map(guest.screenshot, (image) => {
            add(image)
            return mediaType(image)
          })
        )
        const tree = needs.accessibilityTree ? { accessibilityTree: yield* accessibilityTree } : {}
        const ended = yield* Clock.currentTimeMillis
        return new Observation({ screenshot, ...tree, milliseconds: Math.max(0, ended - started) }, true)
      }).pipe(Effect.catchAll(failedTo("observe")), spanned("OSWorld.observe"))

      const step = (action: DesktopAction) =>
        guest.runAction(action).pipe(
          Effect.map(({ exitCode, stderr }) => ({ exitCode, stderr: stderr.slice(-stderrLimit) })),
          Effect.catchIf(isCommandTimeout, (error) => Effect.succeed({ stderr: error.message })),
          Effect.timed,
          Effect.map(
            ([took, facts]) => new StepFacts({ ...facts, milliseconds: Duration.toMillis(took), done: false }, true)
          ),
          Effect.zipLeft(pause),
          Effect.catchAll(failedTo("step"))
        )

      return {
        observe,
        step,
        wait: Effect.as(pause, new StepFacts({ milliseconds: 0, done: false })),
        evaluate: (termination) =>
          settle.pipe(
            Effect.zipRight(recording.evaluating(evaluate(task, context, termination))),
            Effect.provide(services),
            Effect.mapError((error) => new EvaluationFailed({ reason: error.message, cause: error }))
          ),
        lost
      }
    }

    const open: Environment<DesktopAction>["open"] = Effect.fn("OSWorld.open", { captureStackTrace: false })(
      function* (row, identity, needs) {
        const task = yield* taskOf(row)
        const { desktop } = yield* prepare(row, task, identity, specOf(row, identity, {}))
        return session(task, desktop, needs)
      }
    )

    /**
     * The first owner's desktop is prepared and copied for the others, who get what its setup left on this host too. Any
     * owner without a copy, or whose copy does not answer, is the end of the group.
     */
    const openGroup: NonNullable<Environment<DesktopAction>["openGroup"]> = Effect.fn("OSWorld.openGroup", {
      captureStackTrace: false
    })(function* (row, identities, needs) {
      const [first, ...others] = identities
      const scope = yield* Effect.scope
      const task = yield* taskOf(row)
      const own = yield* Scope.fork(scope, ExecutionStrategy.sequential)
      const parent = yield* prepare(row, task, first, specOf(row, first, { group: first.dispatchGroup })).pipe(
        Scope.extend(own)
      )
      yield* probe(first.rolloutIndex, parent.desktop)
      const owners = others.map(({ rolloutIndex }) => rolloutIndex)
      const forked = Arr.isNonEmptyArray(owners)
        ? yield* Effect.mapError(provider.fork(parent.sandbox, owners), notForked)
        : []
      const missing = forked.flatMap(({ child, owner }) =>
        child._tag === "Forked" ? [] : [`owner ${owner}: ${child.error.message}`]
      )
      if (missing.length > 0 || forked.length !== others.length) {
        return yield* openFailed({ message: `the desktop was not copied for each owner: ${missing.join("; ")}` })
      }
      const copies = yield* Effect.forEach(
        forked,
        ({ child, owner }, at) =>
          Effect.gen(function* () {
            const identity = others[at]
            if (child._tag !== "Forked" || identity?.rolloutIndex !== owner) {
              return yield* openFailed({ message: `the desktop that was copied is owner ${owner}'s` })
            }
            const own = yield* Scope.fork(scope, ExecutionStrategy.sequential)
            yield* Scope.addFinalizer(own, child.release)
            const cache = yield* Scope.extend(makeCache, own)
            yield* Effect.mapError(fs.copy(parent.desktop.context.cache, cache, { overwrite: true }), openFailed)
            const desktop = yield* Scope.extend(desktopOf(child.sandbox, { row, task }, identity, cache), own)
            yield* Scope.extend(desktop.recording.film, own)
            return { identity, own, desktop }
          }),
        { concurrency: 8 }
      )
      // The parent too: it stood still while it was copied.
      const members = [{ identity: first, own, desktop: parent.desktop }, ...copies]
      yield* Effect.forEach(members, ({ desktop, identity }) => probe(identity.rolloutIndex, desktop), {
        concurrency: "unbounded",
        discard: true
      })
      return members.map(({ desktop, identity, own }) => ({
        identity,
        session: session(task, desktop, needs),
        release: Scope.close(own, Exit.void)
      }))
    })

    return {
      show: (action) => action.code,
      open,
      ...((options.fork ?? provider.capabilities.fork) ? { openGroup } : {})
    }
  })

/**
 * The environment as a service.
 *
 * @since 0.1.0
 * @category layers
 */
export const layer = (
  options?: OSWorldOptions
): Layer.Layer<
  OSWorld,
  never,
  SandboxProvider | ArtifactStore | Assets | FileSystem.FileSystem | Path.Path | CommandExecutor.CommandExecutor
> => Layer.effect(OSWorld, make(options))
