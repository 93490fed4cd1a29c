/** Requests and answers of a double of OpenSandbox, with the faults that an answer can have. */
import type * as http from "node:http"
import type { Fault } from "../OpenSandboxDouble.js"

export const execdPort = 44772

export const isRecord = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === "object" && value !== null && !Array.isArray(value)

export const texts = (value: unknown): Readonly<Record<string, string>> =>
  isRecord(value)
    ? Object.fromEntries(
        Object.entries(value).flatMap(([key, each]) => (typeof each === "string" ? [[key, each]] : []))
      )
    : {}

export const readAll = (request: http.IncomingMessage): Promise<Buffer> =>
  new Promise((resolve, reject) => {
    const parts: Array<Buffer> = []
    request.on("data", (part: Buffer) => parts.push(part))
    request.on("end", () => resolve(Buffer.concat(parts)))
    request.on("error", reject)
    request.on("aborted", () => reject(new Error("aborted")))
  })

const sleep = (millis: number) => new Promise<void>((resolve) => setTimeout(resolve, millis))

export interface Reply {
  readonly status: number
  readonly body?: unknown
}

export const problem = (status: number, code: string, message: string): Reply => ({ status, body: { code, message } })

export const send = (response: http.ServerResponse, reply: Reply, fault: Fault | undefined): unknown => {
  if (fault?.kind === "lose") {
    return response.destroy()
  }
  if (fault?.kind === "malformed") {
    return response.writeHead(reply.status, { "Content-Type": "application/json" }).end('{"id": "half')
  }
  if (reply.body === undefined) {
    return response.writeHead(reply.status).end()
  }
  return response.writeHead(reply.status, { "Content-Type": "application/json" }).end(JSON.stringify(reply.body))
}

/** Meets the faults that stop a request before it is carried out; says whether it did. */
export const stopped = async (response: http.ServerResponse, fault: Fault | undefined): Promise<boolean> => {
  switch (fault?.kind) {
    case "drop":
      response.destroy()
      return true
    case "hang":
      await sleep(fault.millis)
      return false
    case "status":
      response
        .writeHead(fault.status, {
          "Content-Type": "application/json",
          ...(fault.retryAfter === undefined ? {} : { "Retry-After": fault.retryAfter })
        })
        .end(JSON.stringify({ code: "DOUBLE::FAULT", message: "a fault that was asked for" }))
      return true
    default:
      return false
  }
}
