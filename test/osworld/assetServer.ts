/** A server of files on this machine: it knows ranges, and fails as it is told to. */
import { createHash } from "node:crypto"
import * as Http from "node:http"
import * as Effect from "effect/Effect"

export const sha256 = (content: string | Uint8Array): string => createHash("sha256").update(content).digest("hex")

/** Bytes that look alike nowhere. */
export const noise = (length: number, seed = "a"): Buffer => {
  const pieces: Array<Buffer> = []
  for (let at = 0, i = 0; at < length; at += 32, i++) pieces.push(createHash("sha256").update(`${seed}${i}`).digest())
  return Buffer.concat(pieces).subarray(0, length)
}

/** What a request comes to, one after the other; then whole answers. */
export type Mishap =
  | { readonly _tag: "Status"; readonly status: number; readonly headers?: Record<string, string> }
  /** The answer breaks off after so many bytes. */
  | { readonly _tag: "Cut"; readonly bytes: number }
  /** So many bytes come, and then nothing until somebody hangs up. */
  | { readonly _tag: "Stall"; readonly bytes: number }

export interface Asked {
  readonly url: string
  readonly range: string | undefined
  readonly authorization: string | undefined
}

export interface AssetServer {
  readonly url: string
  readonly asked: Array<Asked>
  readonly files: Map<string, Buffer>
  readonly mishaps: Map<string, Array<Mishap>>
  readonly headers: Map<string, Record<string, string>>
}

const answer = (server: AssetServer, request: Http.IncomingMessage, response: Http.ServerResponse): void => {
  const url = request.url ?? ""
  const { authorization, range } = request.headers
  server.asked.push({ url, range, authorization })
  const mishap = server.mishaps.get(url)?.shift()
  if (mishap?._tag === "Status") return void response.writeHead(mishap.status, mishap.headers ?? {}).end()
  const file = server.files.get(url.split("?")[0] ?? "")
  if (file === undefined) return void response.writeHead(404).end()
  const etag = `"${sha256(file).slice(0, 16)}"`
  const wanted = /^bytes=(\d+)-$/.exec(range ?? "")?.[1]
  const from = wanted !== undefined && request.headers["if-range"] === etag ? Number(wanted) : 0
  const body = file.subarray(from)
  response.writeHead(from > 0 ? 206 : 200, {
    etag,
    "content-length": body.length,
    ...(from > 0 ? { "content-range": `bytes ${from}-${file.length - 1}/${file.length}` } : {}),
    ...server.headers.get(url)
  })
  if (mishap === undefined) return void response.end(body)
  response.write(body.subarray(0, mishap.bytes), () => {
    if (mishap._tag === "Cut") setTimeout(() => response.destroy(), 20)
  })
}

export const make = Effect.gen(function* () {
  const facts = { asked: [], files: new Map(), mishaps: new Map(), headers: new Map() }
  const made: AssetServer = { url: "", ...facts }
  const server = Http.createServer((request, response) => answer(made, request, response))
  yield* Effect.acquireRelease(
    Effect.async<void>((resume) => {
      server.listen(0, "127.0.0.1", () => resume(Effect.void))
    }),
    () =>
      Effect.async<void>((resume) => {
        server.closeAllConnections()
        server.close(() => resume(Effect.void))
      })
  )
  const address = server.address()
  const port = typeof address === "object" && address !== null ? address.port : 0
  return Object.assign(made, { url: `http://127.0.0.1:${port}` })
})
