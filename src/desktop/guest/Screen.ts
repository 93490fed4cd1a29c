/**
 * The screen, through a helper process that stays: one request at a time, started again once when it dies.
 *
 * @since 0.1.0
 */
import * as Context from "effect/Context"
import * as Data from "effect/Data"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Ref from "effect/Ref"
import * as Schema from "effect/Schema"
import * as Scope from "effect/Scope"
import type { Words } from "./CommandLine.js"
import * as Process from "./Process.js"

/**
 * The screen could not be read.
 *
 * @since 0.1.0
 * @category errors
 */
export class ScreenFailed extends Data.TaggedError("ScreenFailed")<{ readonly message: string }> {}

class HelperDied extends Data.TaggedError("HelperDied")<{ readonly exitCode: number; readonly log: string }> {}

/**
 * @since 0.1.0
 * @category context
 */
export class Screen extends Context.Tag("deskhand/desktop/guest/Screen")<
  Screen,
  {
    /** A PNG of the whole screen with the pointer in it. */
    readonly screenshot: Effect.Effect<Uint8Array, ScreenFailed>
    readonly cursor: Effect.Effect<{ readonly x: number; readonly y: number }, ScreenFailed>
    readonly size: Effect.Effect<{ readonly width: number; readonly height: number }, ScreenFailed>
  }
>() {}

const Header = Schema.parseJson(
  Schema.Union(
    Schema.Struct({
      ok: Schema.Literal(true),
      length: Schema.optionalWith(Schema.NonNegativeInt, { exact: true }),
      width: Schema.optionalWith(Schema.Number, { exact: true }),
      height: Schema.optionalWith(Schema.Number, { exact: true }),
      x: Schema.optionalWith(Schema.Number, { exact: true }),
      y: Schema.optionalWith(Schema.Number, { exact: true })
    }),
    Schema.Struct({ ok: Schema.Literal(false), error: Schema.String })
  )
)

const decodeHeader = Schema.decodeUnknownEither(Header)

interface Answer {
  readonly header: typeof Header.Type
  readonly body: Uint8Array
}

interface Helper {
  readonly ask: (operation: string) => Effect.Effect<Answer, HelperDied | ScreenFailed>
  readonly scope: Scope.CloseableScope
}

// The helper prints one exit code when its display is gone.
const displayGone = 3
const requestLimit = Duration.seconds(9)

const open = (words: Words): Effect.Effect<Helper, Process.NotStarted> =>
  Effect.gen(function* () {
    const scope = yield* Scope.make()
    const started = yield* Process.startScoped(words, { stdio: ["pipe", "pipe", "pipe"] }).pipe(
      Scope.extend(scope),
      Effect.onError(() => Scope.close(scope, Exit.void))
    )
    const { stdin, stdout, stderr } = started.child
    const chunks: Array<Buffer> = []
    let size = 0
    let wake = () => {}
    let log = ""
    stdout?.on("data", (chunk: Buffer) => {
      chunks.push(chunk)
      size += chunk.length
      wake()
    })
    stderr?.on("data", (chunk: Buffer) => {
      log = (log + chunk.toString("utf8")).slice(-2000)
    })
    // Writing to a helper that has just ended is answered by its exit.
    stdin?.on("error", () => {})

    const joined = (): Buffer => {
      const all = chunks.length === 1 && chunks[0] !== undefined ? chunks[0] : Buffer.concat(chunks)
      chunks.splice(0, chunks.length, all)
      return all
    }
    const take = (length: number): Buffer => {
      const all = joined()
      chunks.splice(0, chunks.length, all.subarray(length))
      size = all.length - length
      return all.subarray(0, length)
    }
    /** Waits until `ready` finds what it looks for in what has come so far. */
    const until = <A>(ready: () => A | undefined): Effect.Effect<A> =>
      Effect.async<A>((resume) => {
        const look = () => {
          const found = ready()
          if (found === undefined) return
          wake = () => {}
          resume(Effect.succeed(found))
        }
        wake = look
        look()
        return Effect.sync(() => {
          wake = () => {}
        })
      })
    const line = until(() => {
      const end = joined().indexOf(10)
      return end < 0 ? undefined : take(end + 1).toString("utf8")
    })

    const ask = (operation: string): Effect.Effect<Answer, HelperDied | ScreenFailed> =>
      Effect.gen(function* () {
        stdin?.write(`${JSON.stringify({ op: operation })}\n`)
        const text = yield* line
        const header = decodeHeader(text)
        if (Either.isLeft(header)) {
          return yield* new ScreenFailed({
            message: `the screen helper answered ${JSON.stringify(text.slice(0, 200))}`
          })
        }
        const length = header.right.ok ? (header.right.length ?? 0) : 0
        const body = length === 0 ? new Uint8Array() : yield* until(() => (size >= length ? take(length) : undefined))
        return { header: header.right, body }
      }).pipe(
        Effect.raceFirst(
          Effect.flatMap(started.exit, (exitCode) => Effect.fail(new HelperDied({ exitCode, log: log.trim() })))
        )
      )
    return { ask, scope }
  })

/**
 * @since 0.1.0
 * @category constructors
 */
export const make = (words: Words, display: string): Effect.Effect<Screen["Type"], never, Scope.Scope> =>
  Effect.gen(function* () {
    const current = yield* Ref.make(Option.none<Helper>())
    const turn = yield* Effect.makeSemaphore(1)
    const close = Effect.flatMap(Ref.getAndSet(current, Option.none()), (helper) =>
      Option.isSome(helper) ? Scope.close(helper.value.scope, Exit.void) : Effect.void
    )
    yield* Effect.addFinalizer(() => close)

    const helper = Effect.flatMap(
      Ref.get(current),
      Option.match({
        onSome: (helper) => Effect.succeed(helper),
        onNone: () => Effect.tap(open(words), (helper) => Ref.set(current, Option.some(helper)))
      })
    )
    const attempt = (operation: string) =>
      helper.pipe(
        Effect.flatMap((helper) => helper.ask(operation)),
        Effect.timeoutFail({
          duration: requestLimit,
          onTimeout: () =>
            new ScreenFailed({ message: `display ${display} did not answer within ${Duration.format(requestLimit)}` })
        }),
        // After an error nobody knows what is still in the pipe.
        Effect.tapErrorCause(() => close)
      )
    const ask = (operation: string): Effect.Effect<Answer, ScreenFailed> =>
      attempt(operation).pipe(
        Effect.retry({ times: 1, while: (error) => error._tag === "HelperDied" && error.exitCode !== displayGone }),
        Effect.mapError((error) => {
          switch (error._tag) {
            case "ScreenFailed":
              return error
            case "NotStarted":
              return new ScreenFailed({ message: error.message })
            case "HelperDied":
              return new ScreenFailed({
                message:
                  error.exitCode === displayGone
                    ? `display ${display} is gone${error.log === "" ? "" : `: ${error.log}`}`
                    : `the screen helper of display ${display} ended with code ${error.exitCode}: ${error.log}`
              })
          }
        }),
        Effect.flatMap((answer) =>
          answer.header.ok
            ? Effect.succeed(answer)
            : Effect.fail(new ScreenFailed({ message: `display ${display}: ${answer.header.error}` }))
        ),
        turn.withPermits(1),
        // A caller that goes away leaves its request to end by itself: half an answer left in the pipe would be taken
        // for the next one.
        Effect.forkDaemon,
        Effect.flatMap(Fiber.join)
      )
    const numbers = <A extends string, B extends string>(operation: string, a: A, b: B) =>
      Effect.flatMap(ask(operation), ({ header }) => {
        const values: Readonly<Record<string, unknown>> = header
        const first = values[a]
        const second = values[b]
        return typeof first === "number" && typeof second === "number"
          ? Effect.succeed([first, second] as const)
          : Effect.fail(new ScreenFailed({ message: `the screen helper left ${a} or ${b} out of its answer` }))
      })
    return {
      screenshot: Effect.map(ask("screenshot"), ({ body }) => body),
      cursor: Effect.map(numbers("cursor", "x", "y"), ([x, y]) => ({ x, y })),
      size: Effect.map(numbers("size", "width", "height"), ([width, height]) => ({ width, height }))
    }
  })

/**
 * @since 0.1.0
 * @category layers
 */
export const layer = (words: Words, display: string): Layer.Layer<Screen> => Layer.scoped(Screen, make(words, display))
