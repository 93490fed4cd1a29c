/**
 * All sessions of a server: who gets a place, which ids are spent, and the end of them all.
 */
import { createHash, randomUUID } from "node:crypto"
import * as FileSystem from "@effect/platform/FileSystem"
import * as Path from "@effect/platform/Path"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as ExecutionStrategy from "effect/ExecutionStrategy"
import * as Scope from "effect/Scope"
import { RolloutIdentity, RunId } from "../../../identity/Identity.js"
import type { Evaluation } from "../../../rollout/Evaluation.js"
import { TaskRow } from "../../../rollout/TaskRow.js"
import { AtCapacity, Conflict, NotFound, Rejected, type TaskRequest } from "../../ResourcesApi.js"
import * as Task from "../../Task.js"
import { start } from "./session.js"
import type { Failure, Opened, Seeded, Session, SessionOptions } from "./sessionModel.js"

export interface SessionsOptions
  extends Pick<SessionOptions, "environment" | "ttl" | "operationTimeout" | "closeGrace" | "waiting" | "remembered"> {
  readonly deployment: string
  readonly capacity: number
  /** Of blobs: a folder of each session's in it. */
  readonly directory: string
  /** Where the files of tasks are. */
  readonly tasks: string | undefined
}

export interface Sessions {
  /** A session with an environment that is open. Asked for again with the same id, it is the same one. */
  readonly seed: (
    asked: { readonly id: string | undefined; readonly cookie: string | undefined },
    request: TaskRequest
  ) => Effect.Effect<readonly [Session, Opened], Failure | Conflict | AtCapacity>
  readonly reset: (session: Session, request: TaskRequest) => Effect.Effect<Opened, Failure>
  readonly get: (id: string) => Effect.Effect<Session, NotFound>
  readonly close: (id: string, force: boolean) => Effect.Effect<"closed" | "already_closed">
  /** Evaluates and closes, whatever comes of it. Asked for again, it says the same. */
  readonly verify: (id: string) => Effect.Effect<Evaluation, Failure | Conflict | NotFound>
  readonly counts: () => { readonly sessions: number; readonly creating: number; readonly lastError: string | null }
  /** No new sessions from now on; returns when there are none. */
  readonly drain: Effect.Effect<void>
  readonly draining: () => boolean
}

/** So many ids of sessions that were closed are remembered, so that a request that comes late opens nothing. */
const spentLimit = 10_000

const sorted = (value: unknown): unknown =>
  Array.isArray(value)
    ? value.map(sorted)
    : typeof value === "object" && value !== null
      ? Object.fromEntries(
          Object.entries(value)
            .sort(([a], [b]) => (a < b ? -1 : 1))
            .map(([key, entry]) => [key, sorted(entry)])
        )
      : value

const digestOf = (request: TaskRequest): string =>
  createHash("sha256")
    .update(JSON.stringify(sorted(request)))
    .digest("hex")

/** A path below the folder, or nothing. What links lead to is looked at when a file is read. */
const taskFile = (path: Path.Path, folder: string, file: string): string | undefined => {
  const full = path.resolve(folder, file)
  return full.startsWith(`${path.resolve(folder)}${path.sep}`) ? full : undefined
}

const rejected = (detail: string) => Either.left(new Rejected({ detail, phase: "open" }))

/** What a request asks a session to be open on; or why this server cannot. */
const seededOf = (
  options: Pick<SessionsOptions, "deployment" | "tasks">,
  path: Path.Path,
  id: string,
  request: TaskRequest
): Either.Either<Seeded, Rejected> =>
  Either.gen(function* () {
    const { environment } = request
    if (environment.require_terminal) return yield* rejected("observations of this server hold no terminal")
    if (environment.enable_proxy) return yield* rejected("this server has no proxy")
    const source =
      request.task_file === undefined || options.tasks === undefined
        ? undefined
        : taskFile(path, options.tasks, request.task_file)
    if (request.task_file !== undefined && source === undefined) {
      return yield* rejected(
        options.tasks === undefined
          ? "this server has no folder of tasks, so a task_file means nothing"
          : "task_file must be a path below the server's folder of tasks"
      )
    }
    const task = yield* Either.mapLeft(
      Task.decode(request.task_config, request.task_file ?? "task_config"),
      (error) => new Rejected({ detail: error.message, phase: "open" })
    )
    return {
      row: new TaskRow({
        taskIndex: 0,
        taskId: task.id,
        domain: task.snapshot ?? task.relatedApps[0] ?? "unknown",
        instruction: task.instruction,
        ...(source === undefined ? {} : { source }),
        task: request.task_config
      }),
      identity: new RolloutIdentity({
        runId: RunId.make(`serve-${options.deployment}`),
        taskId: task.id,
        taskIndex: 0,
        rolloutIndex: 0,
        attemptIndex: 0,
        callerId: id
      }),
      accessibilityTree: environment.require_a11y_tree,
      screen: { width: environment.screen_width, height: environment.screen_height },
      clientPassword: environment.client_password,
      images: environment.images,
      observe: request.observe,
      digest: digestOf(request)
    }
  })

/** When the scope closes, all sessions are closed, side by side. */
export const make = (
  options: SessionsOptions
): Effect.Effect<Sessions, never, Scope.Scope | FileSystem.FileSystem | Path.Path> =>
  Effect.gen(function* () {
    const fs = yield* FileSystem.FileSystem
    const path = yield* Path.Path
    const parent = yield* Effect.scope
    const scope = yield* Scope.fork(parent, ExecutionStrategy.parallel)
    const empty = yield* Deferred.make<void>()
    const sessions = new Map<string, Session>()
    /** With what the evaluator said, where a session ended by being verified. */
    const spent = new Map<string, Evaluation | undefined>()
    let draining = false
    let lastError: string | null = null

    // Whatever is asked while all is being closed opens nothing.
    yield* Effect.addFinalizer(() =>
      Effect.sync(() => {
        draining = true
      })
    )

    const spend = (id: string, evaluation?: Evaluation) => {
      if (spent.get(id) !== undefined) return
      spent.delete(id)
      spent.set(id, evaluation)
      for (const [oldest] of spent) {
        if (spent.size <= spentLimit) break
        spent.delete(oldest)
      }
    }

    const ended = (id: string) => {
      sessions.delete(id)
      if (draining && sessions.size === 0) Deferred.unsafeDone(empty, Effect.void)
    }

    /** A cookie may outlive its session: then its bearer begins anew. */
    const idFor = ({ cookie, id }: { readonly id: string | undefined; readonly cookie: string | undefined }) =>
      id ?? (cookie !== undefined && (sessions.has(cookie) || !spent.has(cookie)) ? cookie : randomUUID())

    const begin = (id: string, seeded: Seeded) =>
      Effect.gen(function* () {
        const { directory, ...rest } = options
        const session = yield* start({ ...rest, id, blobs: path.join(directory, id) }, seeded, () => ended(id))
        sessions.set(id, session)
        return session
      }).pipe(
        Effect.provideService(Scope.Scope, scope),
        Effect.provideService(FileSystem.FileSystem, fs),
        Effect.provideService(Path.Path, path),
        Effect.uninterruptible
      )

    const turn = yield* Effect.makeSemaphore(1)

    const seed: Sessions["seed"] = (asked, request) =>
      Effect.gen(function* () {
        const id = idFor(asked)
        const seeded = yield* seededOf(options, path, id, request)
        const session = yield* Effect.gen(function* () {
          const there = sessions.get(id)
          if (there !== undefined) {
            const { digest, status } = there.view()
            if (status === "closing") return yield* new Conflict({ detail: `session ${id} is being closed` })
            if (digest === seeded.digest) return there
            return yield* new Conflict({ detail: `session ${id} is open on another task; reset it, or close it first` })
          }
          if (spent.has(id)) return yield* new Conflict({ detail: `session ${id} was closed, and its id is spent` })
          if (draining) return yield* new AtCapacity({ detail: "the server is shutting down" })
          if (sessions.size >= options.capacity) {
            return yield* new AtCapacity({ detail: `all ${options.capacity} places are taken` })
          }
          return yield* begin(id, seeded)
        }).pipe(turn.withPermits(1))
        const opened = yield* Effect.tapError(session.opened, (error) =>
          Effect.sync(() => {
            if (error._tag === "EnvironmentFailed") lastError = error.detail
          })
        )
        return [session, opened] as const
      })

    const close: Sessions["close"] = (id, force) =>
      Effect.suspend(() => {
        const session = sessions.get(id)
        const known = spent.has(id)
        spend(id)
        return session === undefined
          ? Effect.succeed(known ? ("already_closed" as const) : ("closed" as const))
          : Effect.as(session.close(force), "closed" as const)
      })

    return {
      seed,
      reset: (session, request) => Effect.flatMap(seededOf(options, path, session.id, request), session.reset),
      get: (id) =>
        Effect.suspend(() => {
          const session = sessions.get(id)
          return session === undefined
            ? Effect.fail(new NotFound({ detail: `there is no session ${id}` }))
            : Effect.succeed(session)
        }),
      close,
      verify: (id) =>
        Effect.suspend((): ReturnType<Sessions["verify"]> => {
          const said = spent.get(id)
          if (said !== undefined) return Effect.succeed(said)
          const session = sessions.get(id)
          if (session === undefined) return Effect.fail(new NotFound({ detail: `there is no session ${id}` }))
          return session.evaluate({ id: "verify", termination: undefined }).pipe(
            Effect.tap((evaluation) => Effect.sync(() => spend(id, evaluation))),
            Effect.ensuring(close(id, true))
          )
        }),
      counts: () => ({
        sessions: sessions.size,
        creating: [...sessions.values()].filter((session) => session.view().status === "creating").length,
        lastError
      }),
      drain: Effect.suspend(() => {
        draining = true
        return sessions.size === 0 ? Effect.void : Deferred.await(empty)
      }),
      draining: () => draining
    }
  })
