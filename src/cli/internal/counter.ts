/** How far a preparation is: a line that is written over on a terminal, and a line now and then anywhere else. */
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import type { Progress } from "../../osworld/Benchmark.js"

const units = ["B", "kB", "MB", "GB", "TB"]

/** Bytes for a reader: `1.5 MB`. */
export const size = (bytes: number): string => {
  const power = Math.min(units.length - 1, Math.floor(Math.log10(Math.max(1, bytes)) / 3))
  return `${power === 0 ? bytes : (bytes / 1000 ** power).toFixed(1)} ${units[power]}`
}

export const line = ({ bytes, failed, files, phase, total }: Progress, seconds: number): string => {
  const pace = seconds > 0 ? `, ${size(Math.round(bytes / seconds))}/s` : ""
  return phase === "disk"
    ? `Reading the disk: ${size(bytes)}${pace}`
    : `Assets: ${files} of ${total}${failed > 0 ? `, ${failed} failed` : ""}, ${size(bytes)}${pace}`
}

export interface Output {
  readonly isTTY?: boolean
  write(chunk: string): unknown
}

/** A listener for progress. On a terminal it leaves no trace when the scope closes. */
export const make = (output: Output): Effect.Effect<(progress: Progress) => void, never, Scope.Scope> =>
  Effect.map(
    Effect.acquireRelease(
      Effect.sync(() => {
        const every = output.isTTY === true ? 200 : 5000
        const state = { last: Number.NEGATIVE_INFINITY, started: performance.now(), phase: "" }
        const listen = (progress: Progress) => {
          const now = performance.now()
          if (progress.phase !== state.phase) Object.assign(state, { phase: progress.phase, started: now })
          const ended = progress.phase === "assets" && progress.files + progress.failed === progress.total
          if (!ended && now - state.last < every) return
          state.last = now
          const text = line(progress, (now - state.started) / 1000)
          output.write(output.isTTY === true ? `\r\u001b[2K${text}` : `${text}\n`)
        }
        return { listen }
      }),
      () =>
        Effect.sync(() => {
          if (output.isTTY === true) output.write("\r\u001b[2K")
        })
    ),
    ({ listen }) => listen
  )
