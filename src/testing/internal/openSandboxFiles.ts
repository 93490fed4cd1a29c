/** Files in the sandboxes of a double of OpenSandbox. */
import * as fs from "node:fs"
import type * as http from "node:http"
import * as path from "node:path"
import { pipeline } from "node:stream"
import type { Fault } from "../OpenSandboxDouble.js"
import type { Box, Service } from "./openSandboxState.js"
import { isRecord, problem, readAll, send, stopped } from "./openSandboxWire.js"

/** Two parts of a multipart body: the JSON of `metadata` and the bytes of `file`. */
const parseUpload = (
  body: Buffer,
  contentType: string
): { readonly path: string; readonly bytes: Buffer } | undefined => {
  const boundary = /boundary=([^;]+)/.exec(contentType)?.[1]
  if (boundary === undefined) {
    return undefined
  }
  const mark = Buffer.from(`--${boundary}`)
  const parts: Array<{ readonly head: string; readonly bytes: Buffer }> = []
  let at = body.indexOf(mark)
  while (at >= 0) {
    const begin = at + mark.length + 2
    const end = body.indexOf(Buffer.concat([Buffer.from("\r\n"), mark]), begin)
    if (end < 0) {
      break
    }
    const split = body.indexOf("\r\n\r\n", begin)
    parts.push({ head: body.toString("utf8", begin, split), bytes: body.subarray(split + 4, end) })
    at = end + 2
  }
  const metadata = parts.find(({ head }) => head.includes('name="metadata"'))
  const file = parts.find(({ head }) => head.includes('name="file"'))
  const parsed: unknown = metadata === undefined ? undefined : JSON.parse(metadata.bytes.toString("utf8"))
  return isRecord(parsed) && typeof parsed["path"] === "string" && file !== undefined
    ? { path: parsed["path"], bytes: file.bytes }
    : undefined
}

export const upload = async (
  service: Service,
  box: Box,
  request: http.IncomingMessage,
  response: http.ServerResponse,
  fault: Fault | undefined
): Promise<unknown> => {
  const given = parseUpload(await readAll(request), request.headers["content-type"] ?? "")
  if (await stopped(response, fault)) {
    return undefined
  }
  // It may have gone while this hung.
  if (!service.boxes.has(box.id)) {
    return send(response, problem(404, "ROUTE::NOT_FOUND", "no sandbox runs there"), fault)
  }
  if (given === undefined) {
    return send(response, problem(400, "INVALID_FILE_METADATA", "metadata and file are required"), fault)
  }
  try {
    const target = service.inside(box, given.path)
    fs.mkdirSync(path.dirname(target), { recursive: true })
    fs.writeFileSync(target, given.bytes)
    return send(response, { status: 200 }, fault)
  } catch (error) {
    return send(response, problem(500, "RUNTIME_ERROR", String(error)), fault)
  }
}

export const download = async (
  service: Service,
  box: Box,
  wanted: string,
  response: http.ServerResponse,
  fault: Fault | undefined
): Promise<unknown> => {
  if (await stopped(response, fault)) {
    return undefined
  }
  const file = service.inside(box, wanted)
  const stat = fs.statSync(file, { throwIfNoEntry: false })
  if (stat === undefined) {
    return send(response, problem(404, "FILE_NOT_FOUND", `there is no ${wanted}`), fault)
  }
  if (!stat.isFile()) {
    return send(response, problem(400, "INVALID_REQUEST", `${wanted} is no file`), fault)
  }
  response.writeHead(200, { "Content-Type": "application/octet-stream", "Content-Length": stat.size })
  return pipeline(fs.createReadStream(file), response, () => undefined)
}
