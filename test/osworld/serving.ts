/** A server of desktops that are doubles, and plain requests to it. */
import * as FileSystem from "@effect/platform/FileSystem"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import type { ArtifactStore } from "../../src/artifact/ArtifactStore.js"
import type { DesktopAction } from "../../src/desktop/Action.js"
import * as ResourcesServer from "../../src/osworld/ResourcesServer.js"
import {
  type Environment,
  EnvironmentError,
  type EnvironmentSession,
  Observation,
  StepFacts
} from "../../src/rollout/Environment.js"
import { Evaluation } from "../../src/rollout/Evaluation.js"
import { reason } from "../../src/rollout/Termination.js"

export const token = "a-token-of-tests"

export const png = Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a, 1, 2, 3])
export const tree = '<desktop-frame><label name="é"/></desktop-frame>'

/** An OSWorld task that decodes; what it asks for is for the double to say. */
export const task = (id: string) => ({ id, instruction: `Do ${id}`, config: [], evaluator: { func: "infeasible" } })

export interface Double {
  /** What happened, in order: `open <task>`, `step <code>`, `wait`, `evaluate <reason>`, `close <task>`. */
  readonly trace: Array<string>
  /** Desktops that are open now. */
  readonly open: Set<string>
  readonly environment: (store: ArtifactStore["Type"]) => Environment<DesktopAction>
}

export const double = (
  faults: {
    readonly open?: (taskId: string) => Effect.Effect<void, EnvironmentError>
    readonly observe?: Effect.Effect<void, EnvironmentError>
    readonly step?: (code: string) => Effect.Effect<void, EnvironmentError>
    readonly evaluate?: EnvironmentSession<DesktopAction>["evaluate"]
    readonly close?: Effect.Effect<void>
    readonly lost?: Effect.Effect<never, EnvironmentError>
  } = {}
): Double => {
  const trace: Array<string> = []
  const open = new Set<string>()
  const environment: Double["environment"] = (store) => ({
    show: ({ code }) => code,
    open: (row, identity, needs) =>
      Effect.gen(function* () {
        yield* Effect.acquireRelease(
          Effect.sync(() => {
            trace.push(`open ${row.taskId}`)
            open.add(identity.rolloutId)
          }),
          () =>
            Effect.zipRight(
              faults.close ?? Effect.void,
              Effect.sync(() => {
                trace.push(`close ${row.taskId}`)
                open.delete(identity.rolloutId)
              })
            )
        )
        yield* faults.open?.(row.taskId) ?? Effect.void
        const put = (bytes: Uint8Array, type: string) =>
          Effect.mapError(
            store.put(bytes, type),
            ({ message }) => new EnvironmentError({ phase: "observe", fault: "infrastructure", reason: message })
          )
        return {
          observe: Effect.gen(function* () {
            yield* faults.observe ?? Effect.void
            const screenshot = yield* put(png, "image/png")
            const shown = needs.accessibilityTree
              ? { accessibilityTree: yield* put(Buffer.from(tree), "text/xml") }
              : {}
            return new Observation({ screenshot, ...shown, milliseconds: 1 })
          }),
          step: ({ code }) =>
            Effect.gen(function* () {
              trace.push(`step ${code}`)
              yield* faults.step?.(code) ?? Effect.void
              return new StepFacts({ exitCode: 0, stderr: "", milliseconds: 7, done: code === "finish" })
            }),
          wait: Effect.sync(() => {
            trace.push("wait")
            return new StepFacts({ milliseconds: 0, done: false })
          }),
          evaluate: (termination) => {
            trace.push(`evaluate ${reason(termination)}`)
            return faults.evaluate?.(termination) ?? Effect.succeed(new Evaluation({ score: 1, details: [] }))
          },
          lost: faults.lost ?? Effect.never
        }
      })
  })
  return { trace, open, environment }
}

export const serve = (
  { environment }: Pick<Double, "environment">,
  options: Partial<ResourcesServer.ResourcesServerOptions<never>> = {}
) =>
  Effect.gen(function* () {
    const fs = yield* FileSystem.FileSystem
    const directory = yield* fs.makeTempDirectoryScoped()
    const server = yield* ResourcesServer.make({
      environment: ({ store }) => Effect.succeed(environment(store)),
      directory,
      capacity: 4,
      token: Redacted.make(token),
      ...options
    })
    return { ...server, directory }
  })

export interface Answer {
  readonly status: number
  readonly headers: Headers
  readonly body: Record<string, unknown>
}

/** A request as any HTTP client makes it. */
export const ask = (
  url: string,
  path: string,
  options: {
    readonly session?: string
    readonly body?: unknown
    readonly headers?: Readonly<Record<string, string>>
    readonly token?: string | null
  } = {}
): Effect.Effect<Answer> =>
  Effect.promise(async (signal) => {
    const shown = options.token === undefined ? token : options.token
    const response = await fetch(`${url}${path}`, {
      signal,
      method: options.body === undefined ? "GET" : "POST",
      headers: {
        ...(shown === null ? {} : { authorization: `Bearer ${shown}` }),
        ...(options.session === undefined ? {} : { "x-deskhand-session": options.session }),
        ...(options.body === undefined ? {} : { "content-type": "application/json" }),
        ...options.headers
      },
      ...(options.body === undefined ? {} : { body: JSON.stringify(options.body) })
    })
    const text = await response.text()
    const body: unknown = text.startsWith("{") ? JSON.parse(text) : { text }
    return {
      status: response.status,
      headers: response.headers,
      body: typeof body === "object" && body !== null ? { ...body } : {}
    }
  })

/** Seeds a session with this id. */
export const seed = (url: string, session: string, extra: Readonly<Record<string, unknown>> = {}) =>
  ask(url, "/seed_session", { body: { session_id: session, task_config: task("a"), ...extra } })

/** Time outside of the test's clock, for what happens in sockets. */
export const aMoment = Effect.promise(() => new Promise<void>((resolve) => setTimeout(resolve, 10)))

/** Until it is so; the test's own limit ends what never is. */
export const until = (so: () => boolean): Effect.Effect<void> =>
  Effect.suspend(() => (so() ? Effect.void : Effect.zipRight(aMoment, until(so))))
