/**
 * Watches over a run while it runs, from another process of the same user: over a socket of its folder.
 *
 * A request is a line of JSON, such as `{"ask":"concurrency","places":8}`, and so is its reply.
 *
 * @since 0.1.0
 */
import * as Path from "@effect/platform/Path"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Layer from "effect/Layer"
import * as Runtime from "effect/Runtime"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import { exchange } from "./internal/controlClient.js"
import { listen } from "./internal/controlSocket.js"
import type { RolloutCollector } from "./RolloutCollector.js"

// -----------------------------------------------------------------------------
// What is said
// -----------------------------------------------------------------------------

/**
 * What may be asked of a run:
 *
 * - `status`: what goes on, and nothing else
 * - `pause`: nothing new starts until `resume`
 * - `concurrency`: from now on so many rollouts run at a time; those that are too many come to their end
 * - `cancel`: one attempt is called off, by its id; the run goes on without its rollout, whose row says that it was
 *   cancelled
 * - `drain`: nothing new starts any more, and the run ends when what runs does
 *
 * @since 0.1.0
 * @category models
 */
export const Request = Schema.Union(
  Schema.Struct({ ask: Schema.Literal("status", "pause", "resume", "drain") }),
  Schema.Struct({ ask: Schema.Literal("concurrency"), places: Schema.Int.pipe(Schema.positive()) }),
  Schema.Struct({ ask: Schema.Literal("cancel"), rollout: Schema.NonEmptyString })
)

/**
 * @since 0.1.0
 * @category models
 */
export type Request = typeof Request.Type

/**
 * What goes on in a run and what came of it so far; nothing of earlier runs in the same folder but `earlier`.
 *
 * @since 0.1.0
 * @category models
 */
export class Status extends Schema.Class<Status>("deskhand/rollout/Control/Status")({
  pid: Schema.Int,
  running: Schema.Int,
  waiting: Schema.Int,
  /** How many may run. */
  concurrency: Schema.Int,
  paused: Schema.Boolean,
  draining: Schema.Boolean,
  finished: Schema.Int,
  failed: Schema.Int,
  unresolved: Schema.Int,
  /** Attempts that failed and were followed by another. */
  retried: Schema.Int,
  /** Rollouts that were scored, or failed for good, before this run. */
  earlier: Schema.Int,
  /** How long attempts take, in milliseconds. */
  medianMilliseconds: Schema.Finite,
  p90Milliseconds: Schema.Finite,
  promptTokens: Schema.Finite,
  completionTokens: Schema.Finite,
  /** Ids of the attempts that are under way: what `cancel` takes. */
  rollouts: Schema.Array(Schema.String)
}) {}

/**
 * What a run answers: how it is once the request is carried out, or why it was not.
 *
 * @since 0.1.0
 * @category models
 */
export const Reply = Schema.Union(
  Schema.Struct({ ok: Schema.Literal(true), status: Status }),
  Schema.Struct({ ok: Schema.Literal(false), reason: Schema.String })
)

/**
 * @since 0.1.0
 * @category models
 */
export type Reply = typeof Reply.Type

/**
 * No run answers in this folder, or it would not do what it was asked.
 *
 * @since 0.1.0
 * @category errors
 */
export class ControlError extends Schema.TaggedError<ControlError>("deskhand/ControlError")("ControlError", {
  out: Schema.String,
  kind: Schema.Literal("unreachable", "refused", "unreadable", "unavailable"),
  reason: Schema.String
}) {
  override get message() {
    switch (this.kind) {
      case "unreachable":
        return `no run goes on in ${this.out} that could be spoken to: ${this.reason}`
      case "unavailable":
        return `${this.out} cannot be controlled while it runs: ${this.reason}`
      default:
        return `${this.out}: ${this.reason}`
    }
  }
}

// -----------------------------------------------------------------------------
// Answering
// -----------------------------------------------------------------------------

/**
 * The part of a collector that answers.
 *
 * @since 0.1.0
 * @category models
 */
export type Controlled = Pick<RolloutCollector["Type"], "control" | "summary">

const decodeRequest = Schema.decodeUnknownEither(Schema.parseJson(Request))
const encodeRequest = Schema.encodeSync(Schema.parseJson(Request))
const decodeReply = Schema.decodeUnknownEither(Schema.parseJson(Reply))
const encodeReply = Schema.encodeSync(Schema.parseJson(Reply))

const refused = (reason: string): Reply => ({ ok: false, reason })

const status = ({ control, summary }: Controlled): Effect.Effect<Reply> =>
  Effect.zipWith(control.status, summary, (now, sum) => ({
    ok: true,
    status: new Status({
      pid: process.pid,
      running: now.running,
      waiting: now.waiting,
      concurrency: now.concurrency,
      paused: now.paused,
      draining: now.draining,
      finished: sum.finished,
      failed: sum.failed,
      unresolved: sum.unresolved,
      retried: sum.retried,
      earlier: sum.earlier,
      medianMilliseconds: sum.latency.median,
      p90Milliseconds: sum.latency.p90,
      promptTokens: sum.promptTokens,
      completionTokens: sum.completionTokens,
      rollouts: now.rollouts
    })
  }))

/**
 * Carries a request out. More than `most` at a time is refused.
 *
 * @since 0.1.0
 * @category operations
 */
export const answer = (controlled: Controlled, request: Request, most: number): Effect.Effect<Reply> => {
  const { control } = controlled
  const then = status(controlled)
  switch (request.ask) {
    case "status":
      return then
    case "pause":
      return Effect.zipRight(control.pause, then)
    case "resume":
      return Effect.zipRight(control.resume, then)
    case "drain":
      return Effect.zipRight(control.drain, then)
    case "concurrency":
      return request.places > most
        ? Effect.succeed(refused(`at most ${most} can run at a time in this run`))
        : Effect.zipRight(control.concurrency(request.places), then)
    case "cancel":
      return Effect.flatMap(control.cancel(request.rollout), (found) =>
        found
          ? then
          : Effect.succeed(refused(`no rollout ${request.rollout} is under way; status lists those that are`))
      )
  }
}

const shape =
  '{"ask":"status"}, "pause", "resume", "drain", {"ask":"concurrency","places":N} or {"ask":"cancel","rollout":ID}'

const socketName = "control.sock"

/**
 * Listens at `<out>/control.sock` until the scope closes. The socket is in a folder of its own in the system's place
 * for temporary files, because its path is bounded (about 100 bytes) and because not every disk can hold one; in `out`
 * is a link to it. The folder is its owner's alone (0700), and so is the socket (0600). What a run that was killed left
 * there is removed.
 *
 * @since 0.1.0
 * @category operations
 */
export const serve = (options: {
  readonly out: string
  readonly controlled: Controlled
  /** Rollouts that can run at a time, whatever is asked. */
  readonly most: number
}): Effect.Effect<void, ControlError, Path.Path | Scope.Scope> =>
  Effect.gen(function* () {
    const path = yield* Path.Path
    const runtime = yield* Effect.runtime<never>()
    const { controlled, most, out } = options
    const link = path.join(path.resolve(out), socketName)
    yield* Effect.mapError(
      listen(link, (line) =>
        Runtime.runPromise(runtime)(
          Either.match(decodeRequest(line), {
            onLeft: () => Effect.succeed(refused(`that is no request; a request is ${shape}`)),
            onRight: (request) => answer(controlled, request, most)
          }).pipe(Effect.map((reply) => encodeReply(reply)))
        )
      ),
      (reason) => new ControlError({ out, kind: "unavailable", reason })
    )
  })

/**
 * `serve`, for as long as the layer is there. A run goes on without it where it cannot be, and says so.
 *
 * @since 0.1.0
 * @category layers
 */
export const layer = (options: Parameters<typeof serve>[0]): Layer.Layer<never, never, Path.Path> =>
  Layer.scopedDiscard(Effect.catchAll(serve(options), (error) => Effect.logWarning(error.message)))

// -----------------------------------------------------------------------------
// Asking
// -----------------------------------------------------------------------------

/**
 * Asks the run that goes on in `out`. It is given ten seconds to answer.
 *
 * @since 0.1.0
 * @category operations
 */
export const ask = (out: string, request: Request): Effect.Effect<Status, ControlError, Path.Path> =>
  Effect.gen(function* () {
    const path = yield* Path.Path
    const link = path.join(path.resolve(out), socketName)
    const line = yield* Effect.mapError(
      exchange(link, encodeRequest(request)),
      (reason) => new ControlError({ out, kind: "unreachable", reason })
    )
    const reply = yield* Effect.mapError(
      decodeReply(line),
      () => new ControlError({ out, kind: "unreadable", reason: `its answer cannot be read: ${line.slice(0, 200)}` })
    )
    return reply.ok ? reply.status : yield* new ControlError({ out, kind: "refused", reason: reply.reason })
  })
