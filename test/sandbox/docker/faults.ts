/**
 * An engine that fails when it is told to, in front of the real one.
 */
import * as Fs from "node:fs"
import * as Http from "node:http"
import * as Net from "node:net"
import { tmpdir } from "node:os"
import { join } from "node:path"
import * as Effect from "effect/Effect"

export type Fault =
  /** The engine acts on it, and its answer is lost. */
  | { readonly _tag: "Lose" }
  /** The engine never hears of it, unless it acts on it first. */
  | { readonly _tag: "Answer"; readonly status: number; readonly message: string; readonly acts?: boolean }
  /** The engine hears of it this much later, whether or not somebody still waits. */
  | { readonly _tag: "Delay"; readonly millis: number }

export interface Faulty {
  readonly host: string
  /** The next calls whose method and path match fail so, each once. */
  readonly next: (call: RegExp, fault: Fault) => void
  /** Faults that no call has met yet are forgotten. */
  readonly clear: () => void
  /** `METHOD path` of all calls so far, without the version. */
  readonly calls: ReadonlyArray<string>
}

export const make = (engine: string) =>
  Effect.acquireRelease(
    Effect.async<Faulty & { readonly close: () => void }>((resume) => {
      const upstream = engine.replace(/^unix:\/\//, "")
      const folder = Fs.mkdtempSync(join(tmpdir(), "deskhand-faulty-"))
      const path = join(folder, "docker.sock")
      const waiting: Array<{ readonly call: RegExp; readonly fault: Fault }> = []
      const calls: Array<string> = []
      const faultOf = (request: Http.IncomingMessage): Fault | undefined => {
        const call = `${request.method} ${request.url?.replace(/^\/v[\d.]+/, "")}`
        calls.push(call)
        const index = waiting.findIndex((each) => each.call.test(call))
        return index === -1 ? undefined : waiting.splice(index, 1)[0]?.fault
      }
      const forward = (request: Http.IncomingMessage, body: Buffer, answer: (response: Http.IncomingMessage) => void) =>
        Http.request({
          socketPath: upstream,
          method: request.method ?? "GET",
          path: request.url ?? "/",
          headers: request.headers,
          agent: false
        })
          .on("response", answer)
          // A client that waits for the engine's answer hears that there is none.
          .on("error", () => request.socket.destroy())
          .end(body)
      const server = Http.createServer(async (request, response) => {
        const fault = faultOf(request)
        const parts: Array<Buffer> = []
        for await (const part of request) {
          parts.push(part)
        }
        const body = Buffer.concat(parts)
        if (fault?._tag === "Answer") {
          if (fault.acts === true) {
            await new Promise<void>((done) => {
              forward(request, body, (found) => found.resume().on("end", done))
            })
          }
          response.writeHead(fault.status, { "Content-Type": "application/json" })
          response.end(JSON.stringify({ message: fault.message }))
          return
        }
        if (fault?._tag === "Delay") {
          await new Promise((done) => setTimeout(done, fault.millis))
        }
        forward(request, body, (found) => {
          if (fault?._tag === "Lose") {
            found.resume().on("end", () => request.socket.destroy())
          } else {
            response.writeHead(found.statusCode ?? 500, found.headers)
            found.pipe(response)
          }
        })
      })
      server.on("upgrade", (request: Http.IncomingMessage, socket: Net.Socket, head: Buffer) => {
        faultOf(request)
        const to = Net.connect(upstream)
        const headers = Object.entries(request.headers).map(([name, value]) => `${name}: ${value}\r\n`)
        to.write(`${request.method} ${request.url} HTTP/1.1\r\n${headers.join("")}\r\n`)
        to.write(head)
        socket.pipe(to).pipe(socket)
        socket.on("error", () => to.destroy())
        to.on("error", () => socket.destroy())
      })
      server.listen(path, () =>
        resume(
          Effect.succeed({
            host: `unix://${path}`,
            next: (call: RegExp, fault: Fault) => {
              waiting.push({ call, fault })
            },
            clear: () => {
              waiting.length = 0
            },
            calls,
            close: () => {
              server.closeAllConnections()
              server.close()
              Fs.rmSync(folder, { recursive: true, force: true })
            }
          })
        )
      )
    }),
    (faulty) => Effect.sync(faulty.close)
  )
