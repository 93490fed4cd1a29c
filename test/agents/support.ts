/** A model that answers from a list, and a store in memory: what agents are tested with. */
import { createHash } from "node:crypto"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import sharp from "sharp"
import { ArtifactError, ArtifactStore, BlobRef } from "../../src/artifact/ArtifactStore.js"
import { HistoryPolicy } from "../../src/history/HistoryPolicy.js"
import { AssistantMessage, assistant, text } from "../../src/model/Conversation.js"
import { ModelClient, ModelReply, type ModelRequest } from "../../src/model/ModelClient.js"
import { ModelError } from "../../src/model/ModelError.js"
import { TokenBundle } from "../../src/model/TokenBundle.js"

export const reply = (said: string, finishReason = "stop"): ModelReply =>
  new ModelReply({
    message: said === "" ? assistant() : assistant(text(said)),
    finishReason,
    model: "fake",
    sent: {},
    attempts: 1,
    milliseconds: 1
  })

export const replyWithTokens = (said: string): ModelReply => {
  const { message, ...rest } = reply(said)
  const tokens = new TokenBundle({ promptTokenIds: [1, 2], generationTokenIds: [3], generationLogProbs: [-0.1] })
  return new ModelReply({ ...rest, message: new AssistantMessage({ ...message, tokens }) })
}

export const failure = (reason: ModelError["reason"]): ModelError =>
  new ModelError({ reason, url: "http://127.0.0.1/v1", detail: `the model says ${reason}` })

/** Answers from the list, in order; what it was asked is in `asked`. */
export const model = (answers: Iterable<ModelReply | ModelError>, asked: Array<ModelRequest> = []) => {
  const rest = Array.from(answers)
  return Layer.succeed(ModelClient, {
    model: "fake",
    complete: (request) =>
      Effect.suspend(() => {
        asked.push(request)
        const next = rest.shift()
        if (next === undefined) return Effect.die("the model has no more answers")
        return next instanceof ModelError ? Effect.fail(next) : Effect.succeed(next)
      })
  })
}

export const policy = (value: HistoryPolicy["Type"]) => Layer.succeed(HistoryPolicy, value)

export interface Memory {
  readonly layer: Layer.Layer<ArtifactStore>
  readonly put: (bytes: Uint8Array, mediaType: string) => BlobRef
  readonly bytes: (blob: BlobRef) => Uint8Array
}

export const memory = (): Memory => {
  const blobs = new Map<string, Uint8Array>()
  const put = (bytes: Uint8Array, mediaType: string) => {
    const sha256 = createHash("sha256").update(bytes).digest("hex")
    blobs.set(sha256, bytes)
    return new BlobRef({ sha256, bytes: bytes.length, mediaType })
  }
  const get = ({ sha256 }: BlobRef) => {
    const found = blobs.get(sha256)
    return found === undefined
      ? Effect.fail(new ArtifactError({ operation: "read", path: sha256, reason: "it is not there" }))
      : Effect.succeed(found)
  }
  return {
    put,
    bytes: ({ sha256 }) => blobs.get(sha256) ?? new Uint8Array(),
    layer: Layer.succeed(ArtifactStore, {
      directory: "/nowhere",
      put: (bytes, mediaType) => Effect.sync(() => put(bytes, mediaType)),
      get,
      receive: (fill) => {
        const pieces: Array<Uint8Array> = []
        return Effect.map(
          fill((piece) => pieces.push(Uint8Array.from(piece))),
          (mediaType) => put(Buffer.concat(pieces), mediaType)
        )
      },
      lend: (blob) => Effect.map(get(blob), (bytes) => ({ bytes, release: () => {} }))
    })
  }
}

/** A picture of one colour, and on it boxes of another. */
export const picture = (
  width: number,
  height: number,
  boxes: ReadonlyArray<{
    readonly left: number
    readonly top: number
    readonly width: number
    readonly height: number
  }> = []
): Promise<Buffer> =>
  sharp({ create: { width, height, channels: 3, background: "#336699" } })
    .composite(
      boxes.map(({ left, top, ...size }) => ({
        input: { create: { ...size, channels: 3 as const, background: "#ffcc00" } },
        left,
        top
      }))
    )
    .png()
    .toBuffer()
