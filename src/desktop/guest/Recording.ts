/**
 * One recording of the screen at a time, through `ffmpeg`.
 *
 * @since 0.1.0
 */
import * as Fs from "node:fs"
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Ref from "effect/Ref"
import * as Schedule from "effect/Schedule"
import * as Scope from "effect/Scope"
import { BadRequest, Failed } from "../GuestApi.js"
import * as Process from "./Process.js"

/**
 * @since 0.1.0
 * @category context
 */
export class Recording extends Context.Tag("deskhand/desktop/guest/Recording")<
  Recording,
  {
    readonly start: Effect.Effect<void, BadRequest | Failed>
    /** Ends the recording and gives the path of the film. */
    readonly end: Effect.Effect<string, BadRequest | Failed>
  }
>() {}

const failed = (message: string) => Effect.fail(new Failed({ status: "error", message }))
const badRequest = (message: string) => Effect.fail(new BadRequest({ status: "error", message }))

const earlyExit = Duration.seconds(2)

/** How long `ffmpeg` may take to open the film on a desktop that is busy. */
const openLimit = Duration.seconds(20)
const endLimit = Duration.seconds(15)

interface Running {
  readonly started: Process.Started
  readonly log: () => string
  readonly scope: Scope.CloseableScope
}

/**
 * @since 0.1.0
 * @category layers
 */
export const layer = (options: {
  readonly display: string
  readonly path: string
  readonly size: Effect.Effect<{ readonly width: number; readonly height: number }, { readonly message: string }>
}): Layer.Layer<Recording> =>
  Layer.scoped(
    Recording,
    Effect.gen(function* () {
      const current = yield* Ref.make(Option.none<Running>())
      const turn = yield* Effect.makeSemaphore(1)
      const forget = Effect.flatMap(Ref.getAndSet(current, Option.none()), (running) =>
        Option.isSome(running) ? Scope.close(running.value.scope, Exit.void) : Effect.void
      )
      yield* Effect.addFinalizer(() => forget)

      const start = Effect.gen(function* () {
        if (Option.isSome(yield* Ref.get(current))) return yield* badRequest("a recording is running already")
        const { height, width } = yield* Effect.catchAll(options.size, ({ message }) => failed(message))
        // The film of an earlier recording is not to be taken for this one's.
        yield* Effect.promise(() => Fs.promises.rm(options.path, { recursive: true, force: true }))
        const scope = yield* Scope.make()
        const started = yield* Process.startScoped(
          [
            "ffmpeg",
            ...["-y", "-loglevel", "error", "-f", "x11grab", "-draw_mouse", "1", "-framerate", "30"],
            ...["-video_size", `${width}x${height}`, "-i", options.display],
            ...["-c:v", "libx264", "-preset", "ultrafast", "-pix_fmt", "yuv420p", options.path]
          ],
          { stdio: ["ignore", "ignore", "pipe"] }
        ).pipe(
          Scope.extend(scope),
          Effect.catchAll((error) => failed(error.message))
        )
        let log = ""
        started.child.stderr?.on("data", (chunk: Buffer) => {
          log = (log + chunk.toString("utf8")).slice(-2000)
        })
        yield* Ref.set(current, Option.some({ started, log: () => log.trim(), scope }))
        // Whoever is told that it records may end it at once, and then wants a film.
        const records = Effect.zipRight(
          Effect.sleep(earlyExit),
          Effect.sync(() => Fs.existsSync(options.path)).pipe(
            Effect.repeat({ until: (there) => there, schedule: Schedule.spaced("50 millis") }),
            Effect.timeoutOption(openLimit)
          )
        )
        const outcome = yield* Effect.raceFirst(
          Effect.map(started.exit, (code) => `ffmpeg ended at once with code ${code}: ${log.trim()}`),
          Effect.map(records, (there) =>
            Option.isSome(there)
              ? undefined
              : `ffmpeg wrote nothing within ${Duration.format(openLimit)}: ${log.trim()}`
          )
        )
        if (outcome !== undefined) {
          yield* forget
          return yield* failed(outcome)
        }
      })

      const end = Effect.gen(function* () {
        const running = yield* Ref.get(current)
        if (Option.isNone(running)) return yield* badRequest("no recording is running")
        const { log, started } = running.value
        started.child.kill("SIGINT")
        const exit = yield* Effect.timeoutOption(started.exit, endLimit)
        yield* forget
        if (Option.isNone(exit)) {
          return yield* failed(`ffmpeg did not end within ${Duration.format(endLimit)} and was stopped: ${log()}`)
        }
        return options.path
      })
      return { start: turn.withPermits(1)(start), end: turn.withPermits(1)(end) }
    })
  )
