/** The lifecycle API of a double of OpenSandbox. */
import { randomBytes } from "node:crypto"
import * as fs from "node:fs"
import type * as http from "node:http"
import * as path from "node:path"
import type { Operation } from "../OpenSandboxDouble.js"
import { onSandbox } from "./openSandboxExecd.js"
import type { Box, Service } from "./openSandboxState.js"
import { execdPort, isRecord, problem, type Reply, readAll, send, stopped, texts } from "./openSandboxWire.js"

/** Kubernetes' rules for labels, which the service has for metadata. */
const isLabel = (key: string, value: string): boolean =>
  /^[A-Za-z0-9](?:[A-Za-z0-9._/-]{0,61}[A-Za-z0-9])?$/.test(key) &&
  !key.startsWith("opensandbox.io/") &&
  (value === "" || /^[A-Za-z0-9](?:[A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$/.test(value))

const operationOf = (method: string, parts: ReadonlyArray<string>): Operation | undefined => {
  const [what, id, action] = parts
  if (what === "snapshots") {
    return "snapshot"
  }
  if (what !== "sandboxes") {
    return undefined
  }
  switch (`${method} ${id === undefined ? "" : "id"}/${action ?? ""}`) {
    case "POST /":
      return "create"
    case "GET /":
      return "list"
    case "GET id/":
      return "get"
    case "DELETE id/":
      return "delete"
    case "POST id/pause":
      return "pause"
    case "POST id/resume":
      return "resume"
    case "POST id/renew-expiration":
      return "renew"
    case "POST id/snapshots":
      return "snapshot"
    case "GET id/endpoints":
      return "endpoint"
    default:
      return undefined
  }
}

const createProblem = (service: Service, body: Readonly<Record<string, unknown>>): Reply | undefined => {
  const extensions = texts(body["extensions"])
  const pooled = extensions["poolRef"] !== undefined
  const bad = Object.entries(texts(body["metadata"])).find(([key, value]) => !isLabel(key, value))
  if (bad !== undefined) {
    return problem(400, "SANDBOX::INVALID_METADATA_LABEL", `${bad[0]} is no label, or its value is none`)
  }
  if (typeof body["timeout"] === "number" && body["timeout"] < 60) {
    return problem(400, "INVALID_REQUEST", "timeout is at least 60")
  }
  if (pooled) {
    return body["snapshotId"] !== undefined || body["networkPolicy"] !== undefined
      ? problem(400, "INVALID_REQUEST", "a pool takes no snapshotId and no networkPolicy")
      : undefined
  }
  if (!isRecord(body["resourceLimits"])) {
    return problem(400, "INVALID_REQUEST", "resourceLimits is required")
  }
  if ((body["image"] === undefined) === (body["snapshotId"] === undefined)) {
    return problem(400, "INVALID_REQUEST", "exactly one of image and snapshotId is required")
  }
  if (typeof body["snapshotId"] === "string" && !service.snapshots.has(body["snapshotId"])) {
    return problem(404, "SNAPSHOT::NOT_FOUND", "there is no such snapshot")
  }
  return body["image"] !== undefined && !Array.isArray(body["entrypoint"])
    ? problem(400, "INVALID_REQUEST", "entrypoint is required with image")
    : undefined
}

const change = (service: Service, box: Box, from: string, during: string, to: string): Reply => {
  if (box.state !== from) {
    return problem(409, "SANDBOX::CONFLICT", `it is ${box.state}`)
  }
  box.state = during
  service.later(box, service.behaviour.pauseDelay, () => {
    if (box.state === during) {
      box.state = to
      for (const command of box.commands.values()) {
        service.signal(command, to === "Paused" ? "SIGSTOP" : "SIGCONT")
      }
    }
  })
  return { status: 202 }
}

const listed = (service: Service, query: URLSearchParams): Reply => {
  const wanted = [...new URLSearchParams(query.get("metadata") ?? "")]
  const page = Number(query.get("page") ?? "1")
  const size = Math.min(Number(query.get("pageSize") ?? "20"), service.behaviour.pageLimit)
  const all = [...service.boxes.values()].filter(
    ({ metadata }) => service.behaviour.ignoresFilter || wanted.every(([key, value]) => metadata[key] === value)
  )
  return {
    status: 200,
    body: {
      items: all.slice((page - 1) * size, page * size).map((box) => service.describe(box)),
      pagination: {
        page,
        pageSize: size,
        totalItems: all.length,
        totalPages: Math.ceil(all.length / size),
        hasNextPage: page * size < all.length
      }
    }
  }
}

const carryOut = (
  service: Service,
  operation: Operation,
  parts: ReadonlyArray<string>,
  query: URLSearchParams,
  method: string,
  body: unknown
): Reply => {
  const given = isRecord(body) ? body : {}
  if (operation === "create") {
    return createProblem(service, given) ?? { status: 202, body: service.describe(service.open(given)) }
  }
  if (operation === "list") {
    return listed(service, query)
  }
  if (parts[0] === "snapshots") {
    const snapshot = service.snapshots.get(parts[1] ?? "")
    if (snapshot === undefined) {
      return problem(404, "SNAPSHOT::NOT_FOUND", "there is no such snapshot")
    }
    if (method === "DELETE") {
      service.snapshots.delete(parts[1] ?? "")
      fs.rmSync(snapshot.root, { recursive: true, force: true })
      return { status: 204 }
    }
    return {
      status: 200,
      body: { id: parts[1], status: { state: Date.now() >= snapshot.readyAt ? "Ready" : "Creating" } }
    }
  }
  const box = service.boxes.get(parts[1] ?? "")
  if (box === undefined) {
    return problem(404, "DOCKER::SANDBOX_NOT_FOUND", "there is no such sandbox")
  }
  switch (operation) {
    case "get":
      return { status: 200, body: service.describe(box) }
    case "delete": {
      if (box.state !== "Stopping") {
        box.state = "Stopping"
        service.stop(box)
        service.later(box, service.behaviour.deleteDelay, () => service.drop(box))
      }
      return { status: 204 }
    }
    case "pause":
      return change(service, box, "Running", "Pausing", "Paused")
    case "resume":
      return change(service, box, "Paused", "Resuming", "Running")
    case "renew": {
      const at = typeof given["expiresAt"] === "string" ? Date.parse(given["expiresAt"]) : Number.NaN
      if (Number.isNaN(at) || at <= Date.now() || (box.expiresAt !== undefined && at <= box.expiresAt)) {
        return problem(400, "INVALID_REQUEST", "expiresAt must be later than now and than it is")
      }
      box.expiresAt = at
      service.expire(box)
      return { status: 200, body: { expiresAt: new Date(at).toISOString() } }
    }
    case "snapshot": {
      if (box.state !== "Running") {
        return problem(409, "SANDBOX::CONFLICT", `it is ${box.state}`)
      }
      const id = `snap-${randomBytes(6).toString("hex")}`
      const root = path.join(service.folder, id)
      fs.cpSync(box.root, root, { recursive: true })
      service.snapshots.set(id, { root, readyAt: Date.now() + 50 })
      return { status: 202, body: { id, sandboxId: box.id, status: { state: "Creating" } } }
    }
    default: {
      const port = Number(parts[3])
      if (query.get("use_server_proxy") === "true") {
        const headers = port === execdPort ? { "X-EXECD-ACCESS-TOKEN": box.token } : {}
        const place = `127.0.0.1:${service.port}/v1/sandboxes/${box.id}/proxy/${port}`
        return { status: 200, body: { endpoint: place, headers } }
      }
      const routed = `${service.behaviour.host}:${service.dataPort}/box/${box.id}`
      const headers = { "X-Route": box.id, "X-EXECD-ACCESS-TOKEN": box.token }
      return port === execdPort
        ? { status: 200, body: { endpoint: `${routed}/execd`, headers } }
        : { status: 200, body: { endpoint: `${routed}/proxy/${port}`, headers: { "X-Route": box.id } } }
    }
  }
}

/** The service as a proxy: the key is taken off, and what is left goes to the sandbox. */
const passedOn = (service: Service) => {
  const answer = onSandbox(service)
  return (request: http.IncomingMessage, response: http.ServerResponse): Promise<unknown> => {
    const [id = "", , port = "", ...rest] = (request.url ?? "").split("/").slice(3)
    request.url = `/box/${id}/${Number(port) === execdPort ? "execd" : `proxy/${port}`}/${rest.join("/")}`
    const { "open-sandbox-api-key": _, ...headers } = request.headers
    request.headers = { ...headers, "x-route": id }
    return answer(request, response)
  }
}

export const onLifecycle =
  (service: Service, passOn = passedOn(service)) =>
  async (request: http.IncomingMessage, response: http.ServerResponse): Promise<unknown> => {
    const url = new URL(request.url ?? "/", "http://double")
    const method = request.method ?? "GET"
    const parts = url.pathname.split("/").slice(2)
    if (parts[0] === "sandboxes" && parts[2] === "proxy" && request.headers["open-sandbox-api-key"] === service.key) {
      service.record("lifecycle", request)
      return passOn(request, response)
    }
    const raw = await readAll(request)
    const body: unknown = raw.length === 0 ? undefined : JSON.parse(raw.toString("utf8"))
    service.record("lifecycle", request, body)
    if (request.headers["open-sandbox-api-key"] !== service.key) {
      return send(response, problem(401, "UNAUTHORIZED", "the key is missing or wrong"), undefined)
    }
    const operation = url.pathname.startsWith("/v1/") ? operationOf(method, parts) : undefined
    if (operation === undefined) {
      return send(response, problem(404, "NOT_FOUND", `there is no ${method} ${url.pathname}`), undefined)
    }
    const fault = service.take(operation)
    return (await stopped(response, fault))
      ? undefined
      : send(response, carryOut(service, operation, parts, url.searchParams, method, body), fault)
  }
