/** Bytes as lines, without a copy of the file in memory. */
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"

/** A line without its newline; `torn` when the file ends before one. */
export interface ByteLine {
  /** From 1. */
  readonly number: number
  readonly bytes: Buffer
  readonly torn: boolean
}

const newline = 10

export const byteLines = <E, R>(chunks: Stream.Stream<Uint8Array, E, R>): Stream.Stream<ByteLine, E, R> =>
  Stream.suspend(() => {
    let pieces: Array<Uint8Array> = []
    let number = 0
    const line = (torn: boolean): ByteLine => {
      const bytes = Buffer.concat(pieces)
      pieces = []
      return { number: ++number, bytes, torn }
    }
    return chunks.pipe(
      Stream.mapConcat((chunk) => {
        const lines: Array<ByteLine> = []
        let from = 0
        for (let at = chunk.indexOf(newline); at >= 0; at = chunk.indexOf(newline, from)) {
          pieces.push(chunk.subarray(from, at))
          lines.push(line(false))
          from = at + 1
        }
        if (from < chunk.length) pieces.push(chunk.subarray(from))
        return lines
      }),
      Stream.concat(Stream.unwrap(Effect.sync(() => (pieces.length === 0 ? Stream.empty : Stream.make(line(true))))))
    )
  })
