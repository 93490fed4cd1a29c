/** The protocol's routes, on sessions. */
import type * as FileSystem from "@effect/platform/FileSystem"
import * as HttpApiBuilder from "@effect/platform/HttpApiBuilder"
import * as HttpApp from "@effect/platform/HttpApp"
import type * as HttpServerRequest from "@effect/platform/HttpServerRequest"
import * as HttpServerResponse from "@effect/platform/HttpServerResponse"
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type { BlobRef } from "../../../artifact/ArtifactStore.js"
import type { Observation } from "../../../rollout/Environment.js"
import { type RewardMode, reward } from "../../../rollout/Evaluation.js"
import {
  type BlobLink,
  EnvironmentFailed,
  NoSession,
  NotFound,
  type ObservationReply,
  ResourcesApi,
  SessionId,
  sessionCookie,
  sessionHeader
} from "../../ResourcesApi.js"
import type { Session } from "./sessionModel.js"
import type { Sessions } from "./sessions.js"

export interface RoutesOptions {
  readonly sessions: Sessions
  readonly fs: FileSystem.FileSystem
  readonly deployment: string
  readonly worker: string
  readonly capacity: number
  readonly ttl: Duration.Duration
  readonly rewardMode: RewardMode
}

type Headers = { readonly [sessionHeader]?: string }

const isId = Schema.is(SessionId)

const cookieOf = (request: HttpServerRequest.HttpServerRequest): string | undefined => {
  const value = request.cookies[sessionCookie]
  return value !== undefined && isId(value) ? value : undefined
}

const linkOf = ({ bytes, mediaType, sha256 }: BlobRef): BlobLink => ({
  sha256,
  bytes,
  media_type: mediaType,
  url: `/blobs/${sha256}`
})

export const publicRoutes = ({ capacity, deployment, sessions, worker }: RoutesOptions) =>
  HttpApiBuilder.group(ResourcesApi, "public", (handlers) =>
    Effect.gen(function* () {
      const started = yield* Clock.currentTimeMillis
      return handlers
        .handle("root", () => Effect.succeed({ service: "deskhand" as const }))
        .handle("health", () =>
          Effect.map(Clock.currentTimeMillis, (now) => {
            const counts = sessions.counts()
            return {
              status: sessions.draining() ? ("draining" as const) : ("ok" as const),
              deployment_id: deployment,
              uptime_seconds: (now - started) / 1000,
              sessions: counts.sessions,
              creating: counts.creating,
              capacity,
              proxy_configured: false,
              workers: [
                {
                  name: worker,
                  capacity,
                  active: counts.sessions - counts.creating,
                  reserved: counts.creating,
                  available: Math.max(0, capacity - counts.sessions),
                  last_error: counts.lastError
                }
              ]
            }
          })
        )
    })
  )

export const sessionRoutes = ({ fs, rewardMode, sessions, ttl, worker }: RoutesOptions) =>
  HttpApiBuilder.group(ResourcesApi, "sessions", (handlers) => {
    /** Nothing is looked up, and no folder named, by what is no id. */
    const checkedId = (id: string): Effect.Effect<string, NoSession> =>
      isId(id)
        ? Effect.succeed(id)
        : new NoSession({ detail: `${sessionHeader} is letters, digits, dots, dashes and underscores, 128 at most` })

    const idOf = (headers: Headers, request: HttpServerRequest.HttpServerRequest): Effect.Effect<string, NoSession> => {
      const id = headers[sessionHeader] ?? cookieOf(request)
      return id === undefined
        ? new NoSession({ detail: `the request names no session: seed one, then send ${sessionHeader} or its cookie` })
        : checkedId(id)
    }

    const sessionOf = (headers: Headers, request: HttpServerRequest.HttpServerRequest) =>
      Effect.flatMap(idOf(headers, request), sessions.get)

    /** The bytes of what was shown, for clients that want them inline; read anew, so that nothing is held. */
    const bytesOf = (session: Session, ref: BlobRef) =>
      Effect.flatMap(session.blob(ref.sha256), ({ path }) =>
        Effect.mapError(
          fs.readFile(path),
          (error) => new EnvironmentFailed({ detail: error.message, phase: "observe", lost: false, bug: false })
        )
      )

    const show = (session: Session, { accessibilityTree, milliseconds, screenshot }: Observation) =>
      Effect.gen(function* () {
        const { images, instruction } = session.view()
        const inline = images === "inline"
        const tree = accessibilityTree
        const reply: ObservationReply = {
          screenshot: linkOf(screenshot),
          screenshot_b64: inline ? Buffer.from(yield* bytesOf(session, screenshot)).toString("base64") : null,
          accessibility_tree_blob: tree === undefined ? null : linkOf(tree),
          accessibility_tree:
            inline && tree !== undefined ? Buffer.from(yield* bytesOf(session, tree)).toString() : null,
          terminal: null,
          instruction,
          milliseconds
        }
        return reply
      })

    const maybeShow = (session: Session, observation: Observation | undefined) =>
      observation === undefined ? Effect.succeed(null) : show(session, observation)

    const named = (session: Session) => {
      const { status, taskId } = session.view()
      return { session_id: session.id, task_id: taskId, worker, status }
    }

    return handlers
      .handle("seed", ({ headers, payload, request }) =>
        Effect.gen(function* () {
          const { session_id, ...asked } = payload
          const chosen = session_id ?? headers[sessionHeader]
          const id = chosen === undefined ? undefined : yield* checkedId(chosen)
          const [session, { observation }] = yield* sessions.seed({ id, cookie: cookieOf(request) }, asked)
          yield* HttpApp.appendPreResponseHandler((_, response) =>
            Effect.orDie(
              HttpServerResponse.setCookie(response, sessionCookie, session.id, {
                httpOnly: true,
                sameSite: "strict",
                path: "/"
              })
            )
          )
          return { ...named(session), observation: yield* maybeShow(session, observation) }
        })
      )
      .handle("session", ({ headers, request }) =>
        Effect.gen(function* () {
          const session = yield* sessionOf(headers, request)
          yield* session.touch
          const { createdAt, failure, lastAccess } = session.view()
          return {
            ...named(session),
            created_at: createdAt / 1000,
            last_access_at: lastAccess / 1000,
            ttl_seconds: Duration.toSeconds(ttl),
            error:
              failure === undefined
                ? null
                : { detail: failure.detail, lost: failure._tag === "EnvironmentFailed" && failure.lost }
          }
        })
      )
      .handle("reset", ({ headers, payload, request }) =>
        Effect.gen(function* () {
          const session = yield* sessionOf(headers, request)
          const { observation } = yield* sessions.reset(session, payload)
          return { ...named(session), observation: yield* maybeShow(session, observation) }
        })
      )
      .handle("observe", ({ headers, request }) =>
        Effect.flatMap(sessionOf(headers, request), (session) =>
          Effect.flatMap(session.observe, (observation) => show(session, observation))
        )
      )
      .handle("step", ({ headers, payload, request }) =>
        Effect.gen(function* () {
          const session = yield* sessionOf(headers, request)
          const { done, facts, observation } = yield* session.step({
            id: payload.operation_id,
            action: payload.action,
            pause: payload.pause,
            observe: payload.observe
          })
          return {
            operation_id: payload.operation_id,
            observation: yield* maybeShow(session, observation),
            reward: 0 as const,
            done,
            info: {
              exit_code: facts.exitCode ?? null,
              stderr: facts.stderr ?? null,
              milliseconds: facts.milliseconds,
              environment_done: facts.done
            }
          }
        })
      )
      .handle("evaluate", ({ headers, payload, request }) =>
        Effect.gen(function* () {
          const session = yield* sessionOf(headers, request)
          const { details, score } = yield* session.evaluate({
            id: payload.operation_id,
            termination: payload.termination
          })
          return { score, details }
        })
      )
      .handle("close", ({ headers, payload, request }) =>
        Effect.gen(function* () {
          const id = yield* idOf(headers, request)
          return { closed: true as const, outcome: yield* sessions.close(id, payload.force) }
        })
      )
      .handle("verify", ({ headers, payload, request }) =>
        Effect.gen(function* () {
          const evaluation = yield* sessions.verify(yield* idOf(headers, request))
          return {
            ...payload,
            reward: reward(evaluation, rewardMode),
            mask_sample: false,
            osworld_score: evaluation.score,
            osworld_details: evaluation.details
          }
        })
      )
      .handle("blob", ({ headers, path: { sha256 }, request }) =>
        Effect.gen(function* () {
          const session = yield* sessionOf(headers, request)
          const { path, ref } = yield* session.blob(sha256)
          yield* session.touch
          const there = yield* Effect.orElseSucceed(fs.exists(path), () => false)
          if (!there) return yield* new NotFound({ detail: `the blob ${sha256} is gone` })
          return HttpServerResponse.stream(fs.stream(path), {
            contentType: ref.mediaType,
            contentLength: ref.bytes
          })
        })
      )
  })
