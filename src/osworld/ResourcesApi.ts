/**
 * The HTTP protocol of a server of desktops, as one definition: `ResourcesServer` implements it and `RemoteEnvironment`
 * speaks it.
 *
 * Wire names are those of the field's stateful resources servers. A client names its session by the header
 * `x-deskhand-session`, or by the cookie that `POST /seed_session` sets.
 *
 * @since 0.1.0
 */
import * as HttpApi from "@effect/platform/HttpApi"
import * as HttpApiEndpoint from "@effect/platform/HttpApiEndpoint"
import * as HttpApiGroup from "@effect/platform/HttpApiGroup"
import * as HttpApiMiddleware from "@effect/platform/HttpApiMiddleware"
import * as HttpApiSchema from "@effect/platform/HttpApiSchema"
import * as Schema from "effect/Schema"
import { CallerRolloutId } from "../identity/TrajectoryIdentity.js"
import { Termination } from "../rollout/Termination.js"

/**
 * The header that names a session.
 *
 * @since 0.1.0
 * @category constants
 */
export const sessionHeader = "x-deskhand-session"

/**
 * The cookie that names a session, for clients that keep cookies.
 *
 * @since 0.1.0
 * @category constants
 */
export const sessionCookie = "deskhand_session"

// -----------------------------------------------------------------------------
// Answers other than success
// -----------------------------------------------------------------------------

const detail = { detail: Schema.String }

/**
 * 401: no bearer token, or another one.
 *
 * @since 0.1.0
 * @category errors
 */
export class Unauthorised extends Schema.TaggedError<Unauthorised>("deskhand/osworld/Unauthorised")(
  "Unauthorised",
  detail,
  HttpApiSchema.annotations({ status: 401 })
) {
  override get message() {
    return this.detail
  }
}

/**
 * 400: the request names no session.
 *
 * @since 0.1.0
 * @category errors
 */
export class NoSession extends Schema.TaggedError<NoSession>("deskhand/osworld/NoSession")(
  "NoSession",
  detail,
  HttpApiSchema.annotations({ status: 400 })
) {
  override get message() {
    return this.detail
  }
}

/**
 * 404: there is no such session (any more), or the session has shown no such blob.
 *
 * @since 0.1.0
 * @category errors
 */
export class NotFound extends Schema.TaggedError<NotFound>("deskhand/osworld/NotFound")(
  "NotFound",
  detail,
  HttpApiSchema.annotations({ status: 404 })
) {
  override get message() {
    return this.detail
  }
}

/**
 * 409: the request contradicts an earlier one: another task under the same session, another action under the same
 * operation id, a session id that is spent.
 *
 * @since 0.1.0
 * @category errors
 */
export class Conflict extends Schema.TaggedError<Conflict>("deskhand/osworld/Conflict")(
  "Conflict",
  detail,
  HttpApiSchema.annotations({ status: 409 })
) {
  override get message() {
    return this.detail
  }
}

/**
 * 410: the session was closed before the operation came to its end.
 *
 * @since 0.1.0
 * @category errors
 */
export class SessionClosed extends Schema.TaggedError<SessionClosed>("deskhand/osworld/SessionClosed")(
  "SessionClosed",
  detail,
  HttpApiSchema.annotations({ status: 410 })
) {
  override get message() {
    return this.detail
  }
}

/**
 * 422: the task is wrong, or it or its environment asks for what this server does not have. Trying again is of no use.
 *
 * @since 0.1.0
 * @category errors
 */
export class Rejected extends Schema.TaggedError<Rejected>("deskhand/osworld/Rejected")(
  "Rejected",
  { ...detail, phase: Schema.Literal("open", "setup", "observe", "step") },
  HttpApiSchema.annotations({ status: 422 })
) {
  override get message() {
    return this.detail
  }
}

/**
 * 429: more operations wait in this session than it takes. Answered with `Retry-After`.
 *
 * @since 0.1.0
 * @category errors
 */
export class TooManyOperations extends Schema.TaggedError<TooManyOperations>("deskhand/osworld/TooManyOperations")(
  "TooManyOperations",
  detail,
  HttpApiSchema.annotations({ status: 429 })
) {
  override get message() {
    return this.detail
  }
}

/**
 * 500: the environment failed. It is `lost` where it ended by itself, whatever it was doing; `bug` is a defect of the
 * environment's code. The session stays in error until it is reset or closed: nothing more is done in a desktop that
 * nobody knows the state of.
 *
 * @since 0.1.0
 * @category errors
 */
export class EnvironmentFailed extends Schema.TaggedError<EnvironmentFailed>("deskhand/osworld/EnvironmentFailed")(
  "EnvironmentFailed",
  {
    ...detail,
    phase: Schema.Literal("open", "setup", "observe", "step"),
    lost: Schema.Boolean,
    bug: Schema.Boolean
  },
  HttpApiSchema.annotations({ status: 500 })
) {
  override get message() {
    return this.detail
  }
}

/**
 * 500: the evaluator could not decide. There is no reward, and the sample is masked.
 *
 * @since 0.1.0
 * @category errors
 */
export class NotEvaluated extends Schema.TaggedError<NotEvaluated>("deskhand/osworld/NotEvaluated")(
  "NotEvaluated",
  { ...detail, mask_sample: Schema.Literal(true) },
  HttpApiSchema.annotations({ status: 500 })
) {
  override get message() {
    return this.detail
  }
}

/**
 * 503: every place is taken, or the server is shutting down. Answered with `Retry-After`.
 *
 * @since 0.1.0
 * @category errors
 */
export class AtCapacity extends Schema.TaggedError<AtCapacity>("deskhand/osworld/AtCapacity")(
  "AtCapacity",
  detail,
  HttpApiSchema.annotations({ status: 503 })
) {
  override get message() {
    return this.detail
  }
}

// -----------------------------------------------------------------------------
// Requests and replies
// -----------------------------------------------------------------------------

const Pixels = Schema.Int.pipe(Schema.between(320, 7680))

const or = <A, I>(schema: Schema.Schema<A, I>, value: A) =>
  Schema.optionalWith(schema, { nullable: true, default: () => value })

/**
 * The name of a session: a path segment as it is.
 *
 * @since 0.1.0
 * @category models
 */
export const SessionId = CallerRolloutId.pipe(Schema.maxLength(128))

/**
 * A task and the desktop that it wants.
 *
 * @since 0.1.0
 * @category models
 */
export const TaskRequest = Schema.Struct({
  /** The task, as its file has it. */
  task_config: Schema.Unknown,
  /** Where the task's file is in the server's folder of tasks, for the files that the task names beside it. */
  task_file: Schema.optionalWith(Schema.NonEmptyString, { nullable: true, exact: true }),
  /** Whether the answer holds an observation. */
  observe: or(Schema.Boolean, true),
  environment: Schema.optionalWith(
    Schema.Struct({
      action_space: or(Schema.Literal("pyautogui"), "pyautogui"),
      screen_width: or(Pixels, 1920),
      screen_height: or(Pixels, 1080),
      headless: or(Schema.Boolean, true),
      require_a11y_tree: or(Schema.Boolean, false),
      require_terminal: or(Schema.Boolean, false),
      client_password: Schema.optionalWith(Schema.String, { nullable: true, exact: true }),
      enable_proxy: or(Schema.Boolean, false),
      /** Whether observations hold their images, or links to them. */
      images: or(Schema.Literal("inline", "link"), "inline")
    }),
    {
      nullable: true,
      default: () => ({
        action_space: "pyautogui" as const,
        screen_width: 1920,
        screen_height: 1080,
        headless: true,
        require_a11y_tree: false,
        require_terminal: false,
        enable_proxy: false,
        images: "inline" as const
      })
    }
  )
})

/**
 * @since 0.1.0
 * @category models
 */
export type TaskRequest = typeof TaskRequest.Type

/**
 * Ids are the caller's own where they have to be safe to send again; the server chooses one where there is none.
 *
 * @since 0.1.0
 * @category models
 */
export const SeedRequest = Schema.Struct({
  ...TaskRequest.fields,
  session_id: Schema.optionalWith(SessionId, { nullable: true, exact: true })
})

/**
 * A blob of a session: `url` is a path of this server.
 *
 * @since 0.1.0
 * @category models
 */
export const BlobLink = Schema.Struct({
  sha256: Schema.String.pipe(Schema.pattern(/^[0-9a-f]{64}$/)),
  bytes: Schema.NonNegativeInt,
  media_type: Schema.String,
  url: Schema.String
})

/**
 * @since 0.1.0
 * @category models
 */
export type BlobLink = typeof BlobLink.Type

/**
 * What a desktop shows. Links are always there; the contents only where the session was seeded with `inline` images.
 *
 * @since 0.1.0
 * @category models
 */
export const ObservationReply = Schema.Struct({
  screenshot: BlobLink,
  screenshot_b64: Schema.NullOr(Schema.String),
  accessibility_tree_blob: Schema.NullOr(BlobLink),
  accessibility_tree: Schema.NullOr(Schema.String),
  terminal: Schema.Null,
  instruction: Schema.String,
  milliseconds: Schema.Finite
})

/**
 * @since 0.1.0
 * @category models
 */
export type ObservationReply = typeof ObservationReply.Type

/**
 * `error` is an environment that failed, and waits to be reset or closed.
 *
 * @since 0.1.0
 * @category models
 */
export const SessionStatus = Schema.Literal(
  "creating",
  "ready",
  "resetting",
  "observing",
  "stepping",
  "evaluating",
  "error",
  "closing"
)

/**
 * @since 0.1.0
 * @category models
 */
export type SessionStatus = typeof SessionStatus.Type

const named = {
  session_id: Schema.String,
  task_id: Schema.String,
  /** The provider of the desktop. */
  worker: Schema.String,
  status: SessionStatus
}

/**
 * A session that was opened, with its first observation unless none was asked for.
 *
 * @since 0.1.0
 * @category models
 */
export const SeedReply = Schema.Struct({ ...named, observation: Schema.NullOr(ObservationReply) })

/**
 * What a session is and how far it has come.
 *
 * @since 0.1.0
 * @category models
 */
export const SessionReply = Schema.Struct({
  ...named,
  /** Seconds since 1970. */
  created_at: Schema.Finite,
  last_access_at: Schema.Finite,
  ttl_seconds: Schema.Finite,
  /** Of a session in error. */
  error: Schema.NullOr(Schema.Struct({ detail: Schema.String, lost: Schema.Boolean }))
})

/**
 * One action under an operation's id.
 *
 * @since 0.1.0
 * @category models
 */
export const StepRequest = Schema.Struct({
  /** A step with an id that is known already is not taken again: it joins the one that runs, or has its answer. */
  operation_id: Schema.NonEmptyString.pipe(Schema.maxLength(256)),
  /** Code, or `WAIT`, `DONE` or `FAIL`. An object with a `code` is code, even where that is one of these words. */
  action: Schema.Union(Schema.String, Schema.Struct({ code: Schema.String })),
  /** Seconds that the desktop is left alone after the action. */
  pause: or(Schema.Finite.pipe(Schema.between(0, 120)), 0.5),
  /** Whether the answer holds an observation. */
  observe: or(Schema.Boolean, true)
})

/**
 * @since 0.1.0
 * @category models
 */
export type StepRequest = typeof StepRequest.Type

/**
 * `reward` is 0 because steps have none: the evaluator is the only one who knows.
 *
 * @since 0.1.0
 * @category models
 */
export const StepReply = Schema.Struct({
  operation_id: Schema.String,
  observation: Schema.NullOr(ObservationReply),
  reward: Schema.Literal(0),
  done: Schema.Boolean,
  info: Schema.Struct({
    exit_code: Schema.NullOr(Schema.Int),
    stderr: Schema.NullOr(Schema.String),
    milliseconds: Schema.Finite,
    /** Whether the environment, and not the action, says that the episode is over. */
    environment_done: Schema.Boolean
  })
})

/**
 * How the episode ended, as far as the evaluation wants to know.
 *
 * @since 0.1.0
 * @category models
 */
export const EvaluateRequest = Schema.Struct({
  /** As of a step. */
  operation_id: Schema.optionalWith(Schema.NonEmptyString.pipe(Schema.maxLength(256)), { nullable: true, exact: true }),
  /** Why the episode ended; without it the last action says so. */
  termination: Schema.optionalWith(Termination, { nullable: true, exact: true })
})

/**
 * The score, in [0, 1], and how it came about.
 *
 * @since 0.1.0
 * @category models
 */
export const EvaluateReply = Schema.Struct({
  score: Schema.Finite.pipe(Schema.between(0, 1)),
  details: Schema.Array(Schema.String)
})

/**
 * That the server lives, and how much room it has.
 *
 * @since 0.1.0
 * @category models
 */
export const HealthReply = Schema.Struct({
  status: Schema.Literal("ok", "draining"),
  deployment_id: Schema.String,
  uptime_seconds: Schema.Finite,
  sessions: Schema.NonNegativeInt,
  creating: Schema.NonNegativeInt,
  capacity: Schema.NonNegativeInt,
  proxy_configured: Schema.Boolean,
  workers: Schema.Array(
    Schema.Struct({
      name: Schema.String,
      capacity: Schema.NonNegativeInt,
      active: Schema.NonNegativeInt,
      reserved: Schema.NonNegativeInt,
      available: Schema.NonNegativeInt,
      last_error: Schema.NullOr(Schema.String)
    })
  )
})

const Anything = Schema.Record({ key: Schema.String, value: Schema.Unknown })

// -----------------------------------------------------------------------------
// Routes
// -----------------------------------------------------------------------------

/**
 * Lets in who shows the server's token.
 *
 * @since 0.1.0
 * @category api
 */
export class Authorisation extends HttpApiMiddleware.Tag<Authorisation>()("deskhand/osworld/Authorisation", {
  failure: Unauthorised
}) {}

const Headers = Schema.Struct({ [sessionHeader]: Schema.optionalWith(Schema.String, { exact: true }) })

const get = <const Name extends string>(name: Name, path: `/${string}`) =>
  HttpApiEndpoint.get(name, path).setHeaders(Headers)

const post = <const Name extends string>(name: Name, path: `/${string}`) =>
  HttpApiEndpoint.post(name, path).setHeaders(Headers)

/**
 * What wants the token.
 *
 * @since 0.1.0
 * @category api
 */
export const sessionRoutes = HttpApiGroup.make("sessions")
  .add(post("seed", "/seed_session").setPayload(SeedRequest).addSuccess(SeedReply))
  .add(get("session", "/session").addSuccess(SessionReply))
  .add(post("reset", "/reset").setPayload(TaskRequest).addSuccess(SeedReply))
  .add(get("observe", "/observe").addSuccess(ObservationReply))
  .add(post("step", "/step").setPayload(StepRequest).addSuccess(StepReply))
  .add(post("evaluate", "/evaluate").setPayload(EvaluateRequest).addSuccess(EvaluateReply))
  .add(
    post("close", "/close")
      .setPayload(
        Schema.Struct({
          /** Cuts what runs; without it, what runs has a while to come to its end. */
          force: or(Schema.Boolean, false)
        })
      )
      .addSuccess(Schema.Struct({ closed: Schema.Literal(true), outcome: Schema.Literal("closed", "already_closed") }))
  )
  .add(post("verify", "/verify").setPayload(Anything).addSuccess(Anything))
  .add(
    get("blob", "/blobs/:sha256")
      .setPath(Schema.Struct({ sha256: Schema.String }))
      .addSuccess(HttpApiSchema.Uint8Array())
  )
  .addError(NoSession)
  .addError(NotFound)
  .addError(Conflict)
  .addError(SessionClosed)
  .addError(Rejected)
  .addError(TooManyOperations)
  .addError(EnvironmentFailed)
  .addError(NotEvaluated)
  .addError(AtCapacity)
  .middleware(Authorisation)

/**
 * What everybody may ask.
 *
 * @since 0.1.0
 * @category api
 */
export const publicRoutes = HttpApiGroup.make("public")
  .add(HttpApiEndpoint.get("root", "/").addSuccess(Schema.Struct({ service: Schema.Literal("deskhand") })))
  .add(HttpApiEndpoint.get("health", "/healthz").addSuccess(HealthReply))

/**
 * The HTTP API of a resources server.
 *
 * @since 0.1.0
 * @category api
 */
export class ResourcesApi extends HttpApi.make("resources").add(publicRoutes).add(sessionRoutes) {}
