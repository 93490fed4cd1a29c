/**
 * OSWorld's environment on another machine: the client of a `ResourcesServer`.
 *
 * @since 0.1.0
 */
import { createHash, randomUUID } from "node:crypto"
import * as NodePath from "node:path"
import * as HttpApiClient from "@effect/platform/HttpApiClient"
import type * as HttpClientError from "@effect/platform/HttpClientError"
import * as Clock from "effect/Clock"
import * as Deferred from "effect/Deferred"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type * as ParseResult from "effect/ParseResult"
import * as Redacted from "effect/Redacted"
import * as Schedule from "effect/Schedule"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import { ArtifactStore } from "../artifact/ArtifactStore.js"
import type { DesktopAction } from "../desktop/Action.js"
import { showIssues } from "../identity/Issues.js"
import { type Environment, EnvironmentError, EvaluationFailed, Observation, StepFacts } from "../rollout/Environment.js"
import { Evaluation } from "../rollout/Evaluation.js"
import { Endpoint, httpClient } from "../sandbox/Endpoint.js"
import { OSWorld } from "./OSWorld.js"
import {
  type AtCapacity,
  type BlobLink,
  type Conflict,
  type EnvironmentFailed,
  type NoSession,
  NotEvaluated,
  type NotFound,
  type Rejected,
  ResourcesApi,
  type SessionClosed,
  type StepRequest,
  sessionHeader,
  type TooManyOperations,
  type Unauthorised
} from "./ResourcesApi.js"

/**
 * @since 0.1.0
 * @category models
 */
export interface RemoteEnvironmentOptions {
  /** The server's address, such as `http://desktops.example:8600`. */
  readonly url: string
  /** What the server wants to be shown. */
  readonly token?: Redacted.Redacted
  /** Pixels; 1920 by 1080 unless given. */
  readonly screen?: { readonly width: number; readonly height: number }
  /** The desktop user's password; the server's unless given. */
  readonly clientPassword?: string
  /** How long the desktop is left alone after each action; half a second unless given, two minutes at most. */
  readonly pause?: Duration.DurationInput
  /**
   * The folder of tasks that is on the server, too: of a task's file in it, the server is told the place, and so finds
   * the files beside it.
   */
  readonly tasks?: string
  /** How long to wait for a place while the server has none; ten minutes unless given. */
  readonly capacityWait?: Duration.DurationInput
  /** How long the answer to one request may take; 15 minutes unless given. The operation goes on; it is asked for again. */
  readonly timeout?: Duration.DurationInput
  /** How often a request is sent before the server counts as out of reach; 3 unless given. */
  readonly tries?: number
  /** How often the server is asked whether the session is still there, which also keeps it there; 15 seconds unless given. */
  readonly heartbeat?: Duration.DurationInput
}

/**
 * What was said about the server makes no sense.
 *
 * @since 0.1.0
 * @category errors
 */
export class RemoteEnvironmentError extends Schema.TaggedError<RemoteEnvironmentError>(
  "deskhand/RemoteEnvironmentError"
)("RemoteEnvironmentError", { reason: Schema.String }) {
  override get message() {
    return this.reason
  }
}

/** What the server says instead of an answer. */
type Refusal =
  | AtCapacity
  | Conflict
  | EnvironmentFailed
  | NoSession
  | NotEvaluated
  | NotFound
  | Rejected
  | SessionClosed
  | TooManyOperations
  | Unauthorised

/** No answer came, or none that the server would give: a gateway's, or half of one. */
class Unreachable extends Schema.TaggedError<Unreachable>("deskhand/osworld/Unreachable")("Unreachable", {
  detail: Schema.String
}) {}

type Transport =
  | HttpClientError.HttpClientError
  | ParseResult.ParseError
  | { readonly _tag: "HttpApiDecodeError"; readonly message: string }

/** A closed session is waited for so long; after that its time to live ends it. */
const closeDeadline = "2 minutes"

/** So many questions without an answer, one after the other, are a server that is gone. */
const missedHeartbeats = 4

const busyWait = "5 seconds"

const refusals: ReadonlySet<string> = new Set([
  "AtCapacity",
  "Conflict",
  "EnvironmentFailed",
  "NoSession",
  "NotEvaluated",
  "NotFound",
  "Rejected",
  "SessionClosed",
  "TooManyOperations",
  "Unauthorised"
] satisfies ReadonlyArray<Refusal["_tag"]>)

const isRefusal = (error: Refusal | Transport): error is Refusal => refusals.has(error._tag)

const checked = (
  options: Pick<RemoteEnvironmentOptions, "url" | "token">
): Effect.Effect<string, RemoteEnvironmentError> => {
  const { url } = options
  const wrong = (reason: string) => Effect.fail(new RemoteEnvironmentError({ reason }))
  if (!URL.canParse(url) || !/^https?:$/.test(new URL(url).protocol)) {
    return wrong("the environment's address is no http or https address")
  }
  const { hash, password, search, username } = new URL(url)
  if (username !== "" || password !== "") return wrong("the environment's address holds credentials: give a token")
  if (hash !== "" || search !== "") return wrong("the environment's address has a query or a fragment")
  if (options.token !== undefined && !/^\S+$/.test(Redacted.value(options.token))) {
    return wrong("the environment's token is empty, or has blanks in it")
  }
  return Effect.succeed(url.replace(/\/+$/, ""))
}

/** Waits of a second, two, four, and five from then on. */
const backoff = Schedule.exponential("1 second").pipe(
  Schedule.modifyDelay((_, delay) => Duration.min(delay, Duration.seconds(5)))
)

const taskFileOf = (tasks: string | undefined, source: string | undefined): string | undefined => {
  if (tasks === undefined || source === undefined) return undefined
  const relative = NodePath.relative(NodePath.resolve(tasks), NodePath.resolve(source))
  return relative === "" || relative.startsWith("..") || NodePath.isAbsolute(relative)
    ? undefined
    : relative.split(NodePath.sep).join("/")
}

/** `connect ECONNREFUSED 127.0.0.1:8600` says more than what it ended as. */
const innermost = (error: Error): string => {
  let words = error.message
  let cause = error.cause
  for (let depth = 0; cause instanceof Error && depth < 8; depth++) {
    if (cause.message !== "") words = cause.message
    cause = cause.cause
  }
  return words
}

/** Why an answer is none, in a line: an answer of another server fits no type of ours, and would show all of them. */
const described = (error: Transport): string => {
  switch (error._tag) {
    case "ParseError":
      return `does not answer as a deskhand serve does: ${showIssues(error)}`
    case "RequestError":
      return `gave no answer: ${innermost(error)}`
    case "ResponseError":
      return `does not answer as a deskhand serve does: HTTP ${error.response.status} to ${error.methodAndUrl}`
    default:
      return `gave no answer: ${error.message}`
  }
}

/** How long the question whether a server is there may take. */
const reachDeadline = "30 seconds"

/**
 * Whether the server is there, is one, and takes the token: asked before anything depends on it. Opens no session.
 *
 * @since 0.1.0
 * @category queries
 */
export const reach = (
  options: Pick<RemoteEnvironmentOptions, "url" | "token"> & {
    /** What people know the token by, such as the variable that holds it. */
    readonly tokenName?: string
  }
): Effect.Effect<void, RemoteEnvironmentError> =>
  Effect.gen(function* () {
    const url = yield* checked(options)
    const wrong = (reason: string) => new RemoteEnvironmentError({ reason: `${url} ${reason}` })
    const { public: open, sessions } = yield* apiClient(url, options.token)
    yield* Effect.mapError(open.health(), (error) =>
      wrong(`${described(error)}. Check the address, and that deskhand serve runs there`)
    )
    // Any other refusal is of the session, of which there is none.
    yield* sessions.session({ headers: { [sessionHeader]: `reach-${randomUUID()}` } }).pipe(
      Effect.catchIf(
        (error) => isRefusal(error) && error._tag !== "Unauthorised",
        () => Effect.void
      ),
      Effect.mapError((error) =>
        wrong(
          error._tag !== "Unauthorised"
            ? described(error)
            : options.token === undefined
              ? "wants a token, and none was given: --environment-token-env names the variable that holds it"
              : `refuses the token${options.tokenName === undefined ? "" : ` in ${options.tokenName}`}: it must be the one that deskhand serve was given`
        )
      )
    )
  }).pipe(
    Effect.scoped,
    Effect.timeoutFail({
      duration: reachDeadline,
      onTimeout: () => new RemoteEnvironmentError({ reason: `${options.url} gave no answer within ${reachDeadline}` })
    })
  )

const apiClient = (url: string, token: Redacted.Redacted | undefined) =>
  Effect.gen(function* () {
    const headers = token === undefined ? {} : { authorization: `Bearer ${Redacted.value(token)}` }
    const client = yield* httpClient(Endpoint.Tcp({ url, headers }))
    return yield* HttpApiClient.makeWith(ResourcesApi, { httpClient: client })
  })

/**
 * An environment whose desktops are the server's. What was asked for once is done once: every operation has an id, and is
 * sent again under the same one when its answer is lost. A session is closed however its scope is; where the server cannot
 * be reached for that, the session's time to live ends it.
 *
 * @since 0.1.0
 * @category constructors
 */
export const make = (
  options: RemoteEnvironmentOptions
): Effect.Effect<Environment<DesktopAction>, RemoteEnvironmentError, ArtifactStore | Scope.Scope> =>
  Effect.gen(function* () {
    const url = yield* checked(options)
    const store = yield* ArtifactStore
    const { sessions: api } = yield* apiClient(url, options.token)
    const pause = Duration.toSeconds(options.pause ?? "500 millis")
    const screen = options.screen ?? { width: 1920, height: 1080 }
    const tries = options.tries ?? 3
    const timeout = options.timeout ?? "15 minutes"
    const heartbeat = options.heartbeat ?? "15 seconds"
    const capacityWait = options.capacityWait ?? "10 minutes"

    /** One request, as often as it takes; safe because the server does nothing twice. */
    const call = <A>(
      request: Effect.Effect<A, Refusal | Transport>,
      limit: Duration.DurationInput = timeout,
      times = tries
    ): Effect.Effect<A, Refusal | Unreachable> =>
      request.pipe(
        Effect.mapError((error) =>
          isRefusal(error) ? error : new Unreachable({ detail: `${url} ${described(error)}` })
        ),
        Effect.timeoutFail({
          duration: limit,
          onTimeout: () =>
            new Unreachable({ detail: `${url} gave no answer within ${Duration.format(Duration.decode(limit))}` })
        }),
        Effect.retry({
          schedule: Schedule.intersect(backoff, Schedule.recurs(times - 1)),
          while: ({ _tag }) => _tag === "Unreachable" || _tag === "TooManyOperations"
        })
      )

    return {
      show: (action) => action.code,
      open: Effect.fn("RemoteEnvironment.open", { captureStackTrace: false })(function* (row, identity, needs) {
        const id = `${identity.rolloutId.slice(0, 64)}-${randomUUID()}`
        const headers = { [sessionHeader]: id } as const
        const lost = yield* Deferred.make<never, EnvironmentError>()
        let operations = 0
        const operationId = () => `${id}-${operations++}-${randomUUID().replaceAll("-", "")}`

        const failed = (
          phase: EnvironmentError["phase"],
          reason: string,
          fault: EnvironmentError["fault"] = "infrastructure"
        ) => new EnvironmentError({ phase, fault, reason })

        /** What a refusal means to whoever is in the environment. One that ended by itself is lost, whatever it did. */
        const toError =
          (phase: EnvironmentError["phase"]) =>
          (error: Refusal | Unreachable): Effect.Effect<never, EnvironmentError> => {
            switch (error._tag) {
              case "EnvironmentFailed": {
                if (error.bug) return Effect.dieMessage(error.detail)
                const cause = failed(error.phase, error.detail)
                return error.lost ? gone(cause) : cause
              }
              case "Rejected":
                return failed(error.phase, error.detail, "task")
              case "NotFound":
              case "SessionClosed":
                return gone(failed(phase, `the session is gone: ${error.detail}`))
              default:
                return failed(phase, error.detail)
            }
          }

        /** Whoever watches for the loss hears of it before whoever waited for an answer. */
        const gone = (error: EnvironmentError): Effect.Effect<never, EnvironmentError> =>
          Effect.zipRight(Deferred.fail(lost, error), Effect.delay(error, "1 second"))

        // Before anything is asked for: a seed that is cut off may still come to be, and a close that comes first spends
        // the id.
        yield* Effect.addFinalizer(() =>
          call(api.close({ headers, payload: { force: true } }), closeDeadline).pipe(
            Effect.timeoutFail({
              duration: closeDeadline,
              onTimeout: () => new Unreachable({ detail: `${url} gave no answer within ${closeDeadline}` })
            }),
            Effect.catchAll((error) =>
              Effect.logWarning(
                `the session ${id} is not known to be closed: ${error.detail}. Its time to live ends it`
              )
            )
          )
        )

        const task_file = taskFileOf(options.tasks, row.source)
        const seed = call(
          api.seed({
            headers,
            payload: {
              session_id: id,
              task_config: row.task,
              ...(task_file === undefined ? {} : { task_file }),
              observe: false,
              environment: {
                action_space: "pyautogui",
                screen_width: screen.width,
                screen_height: screen.height,
                headless: true,
                require_a11y_tree: needs.accessibilityTree,
                require_terminal: false,
                enable_proxy: false,
                images: "link",
                ...(options.clientPassword === undefined ? {} : { client_password: options.clientPassword })
              }
            }
          })
        )
        yield* seed.pipe(
          Effect.retry({
            schedule: Schedule.spaced(busyWait).pipe(Schedule.upTo(capacityWait)),
            while: ({ _tag }) => _tag === "AtCapacity"
          }),
          Effect.catchAll(toError("open"))
        )

        let missed = 0
        yield* call(api.session({ headers }), "30 seconds", 1).pipe(
          Effect.matchEffect({
            onSuccess: ({ error }) => {
              missed = 0
              return error?.lost === true ? Deferred.fail(lost, failed("step", error.detail)) : Effect.void
            },
            onFailure: (error) => {
              if (error._tag === "NotFound") {
                return Deferred.fail(lost, failed("step", `the session is gone: ${error.detail}`))
              }
              missed++
              return missed >= missedHeartbeats ? Deferred.fail(lost, failed("step", error.detail)) : Effect.void
            }
          }),
          Effect.delay(heartbeat),
          Effect.forever,
          Effect.forkScoped
        )

        const fetched = (link: BlobLink) =>
          store
            .receive((add) =>
              Effect.flatMap(call(api.blob({ headers, path: { sha256: link.sha256 } })), (bytes) => {
                const digest = createHash("sha256").update(bytes).digest("hex")
                if (digest !== link.sha256) {
                  return Effect.fail(new Unreachable({ detail: `${url} gave other bytes than it named` }))
                }
                add(bytes)
                return Effect.succeed(link.media_type)
              })
            )
            .pipe(Effect.catchTag("ArtifactError", ({ message }) => Effect.fail(new Unreachable({ detail: message }))))

        const observe = Effect.gen(function* () {
          const started = yield* Clock.currentTimeMillis
          const { accessibility_tree_blob, screenshot } = yield* call(api.observe({ headers }))
          const image = yield* fetched(screenshot)
          const tree =
            accessibility_tree_blob === null ? {} : { accessibilityTree: yield* fetched(accessibility_tree_blob) }
          const ended = yield* Clock.currentTimeMillis
          return new Observation({ screenshot: image, ...tree, milliseconds: ended - started })
        }).pipe(Effect.catchAll(toError("observe")))

        const step = (action: StepRequest["action"]) =>
          Effect.suspend(() =>
            call(api.step({ headers, payload: { operation_id: operationId(), action, pause, observe: false } }))
          ).pipe(
            Effect.map(
              ({ info }) =>
                new StepFacts({
                  ...(info.exit_code === null ? {} : { exitCode: info.exit_code }),
                  ...(info.stderr === null ? {} : { stderr: info.stderr }),
                  milliseconds: info.milliseconds,
                  done: info.environment_done
                })
            ),
            Effect.catchAll(toError("step"))
          )

        return {
          observe,
          step: ({ code }) => step({ code }),
          wait: step("WAIT"),
          evaluate: (termination) =>
            Effect.suspend(() =>
              call(api.evaluate({ headers, payload: { operation_id: operationId(), termination } }))
            ).pipe(
              Effect.map(({ details, score }) => new Evaluation({ score, details })),
              Effect.catchAll(
                (error): Effect.Effect<never, EvaluationFailed | EnvironmentError> =>
                  error instanceof NotEvaluated
                    ? new EvaluationFailed({ reason: error.detail })
                    : toError("step")(error)
              )
            ),
          lost: Deferred.await(lost)
        }
      })
    }
  })

/**
 * A server's desktops where a program asks for OSWorld's.
 *
 * @since 0.1.0
 * @category layers
 */
export const layer = (options: RemoteEnvironmentOptions): Layer.Layer<OSWorld, RemoteEnvironmentError, ArtifactStore> =>
  Layer.scoped(OSWorld, make(options))
