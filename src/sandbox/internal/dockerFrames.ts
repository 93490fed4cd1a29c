/**
 * The framing of what a container says without a terminal: a header of eight bytes (the stream's number, three zeros,
 * the length as a big-endian 32-bit number), then that many bytes. A frame may come in any number of pieces.
 */
import * as Chunk from "effect/Chunk"
import * as Stream from "effect/Stream"

export interface Frame {
  readonly stream: "stdout" | "stderr"
  readonly bytes: Uint8Array
}

interface State {
  /** The header as far as it has come. */
  readonly header: Uint8Array
  /** Of the frame that is being read. */
  readonly stream: Frame["stream"]
  readonly left: number
}

export const initial: State = { header: new Uint8Array(0), stream: "stdout", left: 0 }

const headerSize = 8

const join = (a: Uint8Array, b: Uint8Array) => {
  const both = new Uint8Array(a.length + b.length)
  both.set(a)
  both.set(b, a.length)
  return both
}

/** The frames, or parts of frames, in these bytes. Bytes are passed on as they come and never kept. */
export const step = (state: State, bytes: Uint8Array): readonly [State, ReadonlyArray<Frame>] => {
  const frames: Array<Frame> = []
  let { header, left, stream } = state
  let at = 0
  while (at < bytes.length) {
    if (left > 0) {
      const part = bytes.subarray(at, at + left)
      frames.push({ stream, bytes: part })
      left -= part.length
      at += part.length
      continue
    }
    const part = bytes.subarray(at, at + headerSize - header.length)
    header = join(header, part)
    at += part.length
    if (header.length === headerSize) {
      stream = header[0] === 2 ? "stderr" : "stdout"
      left = new DataView(header.buffer).getUint32(4)
      header = new Uint8Array(0)
    }
  }
  return [{ header, left, stream }, frames]
}

export const decode = <E, R>(bytes: Stream.Stream<Uint8Array, E, R>): Stream.Stream<Frame, E, R> =>
  bytes.pipe(
    Stream.mapAccum(initial, (state, part) => step(state, part)),
    Stream.mapConcatChunk(Chunk.unsafeFromArray)
  )
