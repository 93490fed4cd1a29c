/** OpenSandbox as a driver. */
import * as Chunk from "effect/Chunk"
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import * as Ref from "effect/Ref"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import { Capabilities } from "../Capabilities.js"
import { SandboxUnsupported } from "../SandboxError.js"
import type { Check } from "../SandboxProvider.js"
import type { SandboxSpec } from "../SandboxSpec.js"
import { type Driver, labels } from "./driver.js"
import * as Api from "./openSandboxApi.js"
import * as Controls from "./openSandboxControls.js"
import { baseUrlProblem } from "./openSandboxEndpoint.js"
import { type ApiFailure, describe, ofCreate, provider, unavailable } from "./openSandboxErrors.js"
import * as Looks from "./openSandboxLooks.js"
import { operations } from "./openSandboxOperations.js"
import { createRequest, type OpenSandboxOptions, rejected, shortestTtl } from "./openSandboxOptions.js"
import * as Places from "./openSandboxPlace.js"

export interface Handle {
  readonly id: string
}

const capabilities = Capabilities.make({
  exec: true,
  files: true,
  endpoint: true,
  hostFiles: false,
  images: true,
  connect: true,
  fork: false,
  pause: true,
  renew: true,
  entrypoint: true,
  snapshot: true,
  ttl: true
})

export const make = (
  options: OpenSandboxOptions
): Effect.Effect<{ readonly driver: Driver<Handle>; readonly controls: Controls.Controls }, never, Scope.Scope> =>
  Effect.gen(function* () {
    const limit = Duration.decode(options.requestTimeout ?? "30 seconds")
    const startLimit = Duration.decode(options.startTimeout ?? "5 minutes")
    const problem = baseUrlProblem(options.baseUrl)
    const api = yield* Api.lifecycle({
      baseUrl: problem === undefined ? options.baseUrl : "http://unset.invalid",
      apiKey: options.apiKey,
      limit,
      createLimit: Duration.decode(options.createTimeout ?? "2 minutes")
    })

    const places = Places.make(options, api, limit)
    const looks = Looks.make(api)
    const { list, over, until } = looks

    const log = ({ id }: Handle) =>
      api.get(id).pipe(
        Effect.map(({ status }) => [status.reason, status.message].filter((each) => each).join(": ")),
        Effect.orElseSucceed(() => "")
      )

    const renew = ({ id }: Handle, spec: SandboxSpec) =>
      Effect.gen(function* () {
        if (spec.ttl === undefined) {
          return
        }
        const now = yield* Clock.currentTimeMillis
        const wanted = now + Duration.toMillis(Duration.max(spec.ttl, shortestTtl))
        const current = Date.parse((yield* api.get(id)).expiresAt ?? "")
        // Only a later time is taken.
        if (Number.isFinite(current) && current >= wanted) {
          return
        }
        const { expiresAt } = yield* api.renew(id, new Date(wanted))
        // A second of rounding is none of our business; a time that stayed as it was is.
        if (Number.isNaN(Date.parse(expiresAt)) || Date.parse(expiresAt) < wanted - 1000) {
          return yield* Effect.fail<ApiFailure>({
            _tag: "Malformed",
            status: 200,
            reason: `asked for ${new Date(wanted).toISOString()}, it says ${expiresAt}`
          })
        }
      }).pipe(Effect.mapError((failure) => unavailable("renew", failure)))

    const preflight: Effect.Effect<ReadonlyArray<Check>> = Effect.gen(function* () {
      if (problem !== undefined) {
        return [
          {
            subject: "OpenSandbox's address",
            ok: false,
            found: problem,
            remedy:
              "Set OPENSANDBOX_BASE_URL to the service's address with its version, as in http://127.0.0.1:8080/v1",
            packages: []
          }
        ]
      }
      const answer = yield* Effect.either(api.list(1, {}))
      return [
        Either.match(answer, {
          onLeft: (failure): Check => ({
            subject: "OpenSandbox",
            ok: false,
            found: `${options.baseUrl}: ${describe(failure)}`,
            remedy:
              failure._tag === "Status" && (failure.status === 401 || failure.status === 403)
                ? "Set OPENSANDBOX_API_KEY to a key that the service knows"
                : "Check that the service runs, and that OPENSANDBOX_BASE_URL is its address with its version",
            packages: []
          }),
          onRight: (): Check => ({
            subject: "OpenSandbox",
            ok: true,
            found: options.poolRef === undefined ? options.baseUrl : `${options.baseUrl}, pool ${options.poolRef}`,
            remedy: "",
            packages: []
          })
        })
      ]
    })

    const driver: Driver<Handle> = {
      name: provider,
      capabilities,
      create: (spec, attempt) =>
        Effect.gen(function* () {
          if (problem !== undefined) {
            return yield* rejected(`the service's address is of no use: ${problem}`, "Correct OPENSANDBOX_BASE_URL")
          }
          const request = yield* createRequest(options, spec, attempt.labels)
          const { id } = yield* Effect.mapError(api.create(request), (failure) => ofCreate(attempt.key, failure))
          return { id }
        }),
      start: ({ id }) =>
        Effect.gen(function* () {
          yield* Effect.mapError(until(id, "Running", startLimit), (reason) =>
            rejected(`the sandbox did not come to run: ${reason}`, "Look at the image, and at the service's log")
          )
          const { forget, get } = yield* places.connectExecd(id)
          const last = yield* Ref.make("nothing was answered")
          const ping = Effect.flatMap(get, (execd) => execd.ping).pipe(
            Effect.tapError((failure) => Effect.zipRight(Ref.set(last, describe(failure)), forget)),
            Effect.retryOrElse(Looks.polling, () => Effect.never)
          )
          const answered = yield* Effect.timeoutOption(ping, Duration.min(startLimit, "1 minute"))
          if (Option.isNone(answered)) {
            return yield* rejected(
              `execd in the sandbox does not answer: ${yield* Ref.get(last)}`,
              "Look at the image, and at whether its ports can be reached from here"
            )
          }
        }).pipe(Effect.scoped),
      find: (attemptKey) =>
        Effect.map(Stream.runCollect(list({ [labels.attempt]: attemptKey })), Chunk.toReadonlyArray),
      remove: (id) =>
        api.remove(id).pipe(
          Effect.catchIf(Looks.isMissing, () => Effect.void),
          // It is being removed already, or is about to change its state: the look afterwards decides.
          Effect.catchIf(
            (failure) => failure._tag === "Status" && failure.status === 409,
            (failure) =>
              Effect.flatMap(over(id), (reason) => (reason === undefined ? Effect.fail(failure) : Effect.void))
          ),
          Effect.mapError((failure) => unavailable("remove", failure))
        ),
      exists: (id) =>
        api.get(id).pipe(
          Effect.as(true),
          Effect.catchIf(Looks.isMissing, () => Effect.succeed(false)),
          Effect.mapError((failure) => unavailable("look", failure))
        ),
      list,
      operations: ({ id }, spec) => operations(places, looks, id, spec),
      log,
      connect: ({ id }) =>
        api.get(id).pipe(
          Effect.map((sandbox) => (sandbox.status.state === "Running" ? Option.some({ id }) : Option.none())),
          Effect.catchIf(Looks.isMissing, () => Effect.succeed(Option.none())),
          Effect.mapError((failure) => unavailable("connect", failure))
        ),
      fork: () => new SandboxUnsupported({ provider, capability: "fork" }),
      renew,
      preflight
    }

    return { driver, controls: Controls.make(api, looks) }
  })
