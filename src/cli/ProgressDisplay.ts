/**
 * Shows a run while it goes on: a few lines that stay in place on a terminal, plain lines anywhere else.
 *
 * @since 0.1.0
 */
import { StringDecoder } from "node:string_decoder"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Queue from "effect/Queue"
import type * as Scope from "effect/Scope"
import { Progress } from "../rollout/Progress.js"
import * as View from "./internal/progressView.js"

type WriteCallback = (error?: Error | null) => void

/**
 * The part of a `NodeJS.WriteStream` that a display needs.
 *
 * @since 0.1.0
 * @category models
 */
export interface Output {
  readonly isTTY?: boolean
  readonly columns?: number
  readonly rows?: number
  write(chunk: string | Uint8Array, encoding?: BufferEncoding | WriteCallback, callback?: WriteCallback): boolean
  on(event: "resize", listener: () => void): unknown
  off(event: "resize", listener: () => void): unknown
}

/**
 * @since 0.1.0
 * @category models
 */
export interface ProgressDisplayOptions {
  /** Rollouts of the whole run, those of `earlier` among them. */
  readonly expected: number
  /** Rollouts that run at the same time: what the time left is reckoned with. */
  readonly concurrency: number
  /** Rewards of rollouts that a resumed run found scored. */
  readonly earlier?: Iterable<number>
  /** Where to show it; standard error unless given. */
  readonly output?: Output
  /**
   * Other streams that may lead to the same terminal; standard output unless given. What anybody writes to them, or to
   * `output`, goes above the lines that stay in place.
   */
  readonly beside?: ReadonlyArray<Output>
  /** Whether lines can be redrawn in place; asked of `output` unless given. */
  readonly terminal?: boolean
  /** Whether there are colours; on a terminal, and `NO_COLOR` is not set, unless given. */
  readonly color?: boolean
}

const hideCursor = "\u001b[?25l"
const showCursor = "\u001b[?25h"

/** A block of lines at the bottom of a terminal, and everything else that is written above it. */
interface Live {
  readonly draw: (above: ReadonlyArray<string>, block: ReadonlyArray<View.Line>) => void
  readonly columns: () => number
  readonly rows: () => number
}

const openLive = (
  output: Output,
  beside: ReadonlyArray<Output>,
  color: boolean,
  onResized: () => void
): Effect.Effect<Live, never, Scope.Scope> =>
  Effect.map(
    Effect.acquireRelease(
      Effect.sync(() => {
        const write = output.write.bind(output)
        // Some pseudo-terminals say 0.
        const columns = () => output.columns || 80
        const rows = () => output.rows || 24
        let shown: ReadonlyArray<View.Line> = []

        // A terminal that became narrower has wrapped the lines that it shows, so rows are counted and not lines. The
        // cursor rests below the block.
        const erase = () => {
          const height = shown.reduce((sum, line) => {
            const size = View.width(View.paint(line, false))
            return sum + Math.max(1, Math.ceil(size / columns()))
          }, 0)
          // Row by row: some terminals take "erase all below" from their first row as a page to keep for scrolling back.
          return height === 0 ? "" : `\r${"\u001b[1A\u001b[2K".repeat(height)}`
        }
        const paint = (block: ReadonlyArray<View.Line>) => block.map((line) => `${View.paint(line, color)}\n`).join("")

        const draw: Live["draw"] = (above, block) => {
          const erased = erase()
          shown = block
          write(`${erased}${above.map((line) => `${line}\n`).join("")}${paint(block)}`)
        }

        /** What others write to a stream, by whole lines: half a line has no place above the block, so it waits. */
        const takeOver = (stream: Output) => {
          const original = stream.write
          const direct = original.bind(stream)
          const decoder = new StringDecoder("utf8")
          let pending = ""
          const take: Output["write"] = (chunk, encoding, callback) => {
            pending +=
              typeof chunk !== "string"
                ? decoder.write(Buffer.from(chunk))
                : typeof encoding === "string" && encoding !== "utf8" && encoding !== "utf-8"
                  ? Buffer.from(chunk, encoding).toString("utf8")
                  : chunk
            const end = pending.lastIndexOf("\n") + 1
            if (end > 0) {
              write(erase())
              direct(pending.slice(0, end))
              write(paint(shown))
              pending = pending.slice(end)
            }
            const written = typeof encoding === "function" ? encoding : callback
            if (written !== undefined) process.nextTick(written)
            return true
          }
          stream.write = take
          return () => {
            if (stream.write === take) stream.write = original
            if (pending !== "") direct(pending)
          }
        }

        const releases = [output, ...beside.filter((stream) => stream !== output && stream.isTTY === true)].map(
          takeOver
        )
        const onResize = () => {
          write(erase())
          shown = []
          onResized()
        }
        output.on("resize", onResize)
        // A process that ends without closing its scopes must not leave a terminal without a cursor.
        const onExit = () => void write(showCursor)
        process.once("exit", onExit)
        write(hideCursor)

        return {
          live: { draw, columns, rows },
          close: () => {
            process.off("exit", onExit)
            output.off("resize", onResize)
            write(`${erase()}${showCursor}`)
            shown = []
            for (const release of releases) release()
          }
        }
      }),
      ({ close }) => Effect.sync(close)
    ),
    ({ live }) => live
  )

const makeTerminal = (
  options: ProgressDisplayOptions,
  output: Output,
  color: boolean
): Effect.Effect<Progress["Type"], never, Scope.Scope> =>
  Effect.gen(function* () {
    const changed = yield* Queue.sliding<void>(1)
    const redraw = () => void Queue.unsafeOffer(changed, undefined)
    const live = yield* openLive(output, options.beside ?? [process.stdout], color, redraw)
    let view = View.initial(options)
    let above: Array<View.Line> = []

    const draw = Effect.map(Clock.currentTimeMillis, (now) => {
      const lines = above.map((line) => View.paint(View.cut(line, live.columns()), color))
      above = []
      // The cursor rests on a row of its own.
      live.draw(lines, View.block(view, now, live.columns(), live.rows() - 1))
    })
    yield* Effect.addFinalizer(() => draw)
    yield* Queue.take(changed).pipe(
      Effect.timeoutOption("900 millis"),
      Effect.zipRight(draw),
      Effect.zipRight(Effect.sleep("100 millis")),
      Effect.forever,
      Effect.forkScoped
    )
    redraw()

    return {
      emit: (event) =>
        Effect.map(Clock.currentTimeMillis, (now) => {
          view = View.update(view, event, now)
          if (event._tag === "Finished") above.push(View.finishedLine(event.outcome, event.row))
          if (event._tag === "Retrying") above.push(View.retryingLine(event))
          redraw()
        })
    }
  })

const makePlain = (options: ProgressDisplayOptions, output: Output): Effect.Effect<Progress["Type"]> =>
  Effect.sync(() => {
    let view = View.initial(options)
    return {
      emit: (event) =>
        Effect.map(Clock.currentTimeMillis, (now) => {
          view = View.update(view, event, now)
          const line = View.plainLine(view, event, now)
          if (line !== undefined) output.write(`${line}\n`)
        })
    }
  })

/**
 * On a terminal: totals and what each running rollout is doing, redrawn at most ten times and at least once a second,
 * with finished rollouts and whatever anybody logs scrolling above. The terminal is as before when the scope closes.
 *
 * Anywhere else: a line for each rollout that starts, one for each that ends, and one for each attempt that is followed by another.
 *
 * @since 0.1.0
 * @category constructors
 */
export const make = (options: ProgressDisplayOptions): Effect.Effect<Progress["Type"], never, Scope.Scope> =>
  Effect.suspend(() => {
    const output: Output = options.output ?? process.stderr
    const terminal = options.terminal ?? (output.isTTY === true && process.env.TERM !== "dumb")
    const color = options.color ?? (terminal && (process.env.NO_COLOR ?? "") === "")
    return terminal ? makeTerminal(options, output, color) : makePlain(options, output)
  })

/**
 * @since 0.1.0
 * @category layers
 */
export const layer = (options: ProgressDisplayOptions): Layer.Layer<Progress> => Layer.scoped(Progress, make(options))
