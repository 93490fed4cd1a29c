import type * as Undici from "@effect/platform-node/Undici"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import { exchange } from "./exchange.js"
import { decodeUtf8 } from "./reply.js"

/** A server's address without the `/v1` of its API: where vLLM and its kin have `/tokenize` and `/metrics`. */
export const rootOf = (base: string): string => base.replace(/\/+$/, "").replace(/\/v1$/, "")

const most = 8 * 1024 * 1024

/** A small text that a server has for everybody; `undefined` where it has none, or does not answer in time. */
export const fetchText = (
  dispatcher: Undici.Dispatcher,
  url: string,
  timeout: Duration.DurationInput
): Effect.Effect<string | undefined> =>
  Effect.suspend(() => {
    if (!URL.canParse(url)) return Effect.succeed(undefined)
    const chunks: Array<Uint8Array> = []
    let status = 0
    let length = 0
    return exchange(
      dispatcher,
      { method: "GET", url: new URL(url), headers: {} },
      {
        head: (code) => {
          status = code
        },
        data: (chunk) => {
          chunks.push(chunk)
          length += chunk.length
          return length <= most
        }
      }
    ).pipe(
      Effect.timeoutOption(timeout),
      Effect.map((done) =>
        done._tag === "Some" && status === 200 && length <= most ? decodeUtf8(Buffer.concat(chunks)) : undefined
      ),
      Effect.orElseSucceed(() => undefined)
    )
  })
