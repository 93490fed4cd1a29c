/**
 * A double of an OpenSandbox service on loopback, with faults on demand. Its sandboxes are folders; their commands are
 * processes of this host, in a bubblewrap container with the folder as its root where bubblewrap is there.
 *
 * @since 0.1.0
 */
import { type ChildProcess, spawn, spawnSync } from "node:child_process"
import { randomBytes } from "node:crypto"
import * as fs from "node:fs"
import * as http from "node:http"
import * as net from "node:net"
import * as os from "node:os"
import * as path from "node:path"
import { pipeline } from "node:stream"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import type * as Scope from "effect/Scope"

/**
 * What can be asked of the service.
 *
 * @since 0.1.0
 * @category models
 */
export type Operation =
  | "create"
  | "get"
  | "list"
  | "delete"
  | "pause"
  | "resume"
  | "renew"
  | "endpoint"
  | "snapshot"
  | "ping"
  | "command"
  | "interrupt"
  | "status"
  | "upload"
  | "download"

/**
 * What happens to a request instead of, or besides, what should.
 *
 * - `lose`: it is carried out, and the connection is cut instead of an answer.
 * - `drop`: the connection is cut before anything is done.
 * - `hang`: it is carried out only after `millis`, whether the client is still there or not, and then answered.
 * - `status`: it is refused with `status`, and nothing is done.
 * - `malformed`: it is carried out and answered with half a JSON text.
 * - `cut`: of a command, the stream is cut after its first event, and the command goes on.
 * - `nullExit`: of a command, its exit code stays unknown.
 *
 * @since 0.1.0
 * @category models
 */
export type Fault =
  | { readonly kind: "lose" | "drop" | "malformed" | "cut" | "nullExit" }
  | { readonly kind: "hang"; readonly millis: number }
  | { readonly kind: "status"; readonly status: number; readonly retryAfter?: string }

/**
 * How the service behaves; it can be changed while it runs.
 *
 * @since 0.1.0
 * @category models
 */
export interface Behaviour {
  /** Milliseconds from a create's answer to `Running`. */
  startDelay: number
  /** Milliseconds from a delete's answer to 404. */
  deleteDelay: number
  /** Milliseconds that pausing and resuming take. */
  pauseDelay: number
  /** No page is longer, whatever is asked for. */
  pageLimit: number
  /** Answers every list with everything. */
  ignoresFilter: boolean
  /** Sandboxes never come to run. */
  failsToStart: boolean
  /** What endpoints call the host. */
  host: string
}

/**
 * One request as it arrived. `plane` tells whether the service got it or a sandbox.
 *
 * @since 0.1.0
 * @category models
 */
export interface Seen {
  readonly plane: "lifecycle" | "sandbox"
  readonly method: string
  readonly url: string
  readonly headers: Readonly<Record<string, string | ReadonlyArray<string> | undefined>>
  /** Of a create. */
  readonly body?: unknown
}

/**
 * @since 0.1.0
 * @category models
 */
export interface OpenSandboxDouble {
  /** With the version, and without a trailing slash. */
  readonly baseUrl: string
  readonly apiKey: Redacted.Redacted
  readonly behaviour: Behaviour
  /** The next requests of this kind meet this fault, `times` of them (one unless given). */
  readonly inject: (operation: Operation, fault: Fault, times?: number) => Effect.Effect<void>
  /** Faults that no request has met yet are forgotten. */
  readonly heal: Effect.Effect<void>
  readonly requests: Effect.Effect<ReadonlyArray<Seen>>
  /** What is there: the ids of sandboxes in any state, of snapshots, and how many processes run. */
  readonly inventory: Effect.Effect<{
    readonly sandboxes: ReadonlyArray<string>
    readonly snapshots: ReadonlyArray<string>
    readonly processes: number
    readonly folders: number
  }>
  /** Puts a sandbox there that nobody created: somebody else's. */
  readonly plant: (metadata: Readonly<Record<string, string>>) => Effect.Effect<string>
  /** Ends a sandbox as if by itself. */
  readonly kill: (id: string) => Effect.Effect<void>
}

interface Running {
  readonly child: ChildProcess
  /** Standard output and standard error. */
  readonly outputs: ReadonlyArray<net.Socket>
}

interface Command {
  readonly child: ChildProcess
  exitCode: number | null
  error: string
  running: boolean
  readonly nullExit: boolean
}

interface Box {
  readonly id: string
  readonly root: string
  readonly token: string
  readonly metadata: Readonly<Record<string, string>>
  readonly env: Readonly<Record<string, string>>
  readonly entrypoint: ReadonlyArray<string>
  readonly createdAt: number
  expiresAt: number | undefined
  state: string
  reason: string
  readonly commands: Map<string, Command>
  /** Its first program, and a process of its container. */
  main: ChildProcess | undefined
  inner: number | undefined
  readonly timers: Set<NodeJS.Timeout>
}

const execdPort = 44772

const isRecord = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === "object" && value !== null && !Array.isArray(value)

const texts = (value: unknown): Readonly<Record<string, string>> =>
  isRecord(value)
    ? Object.fromEntries(
        Object.entries(value).flatMap(([key, each]) => (typeof each === "string" ? [[key, each]] : []))
      )
    : {}

/** Kubernetes' rules for labels, which the service has for metadata. */
const isLabel = (key: string, value: string): boolean =>
  /^[A-Za-z0-9](?:[A-Za-z0-9._/-]{0,61}[A-Za-z0-9])?$/.test(key) &&
  !key.startsWith("opensandbox.io/") &&
  (value === "" || /^[A-Za-z0-9](?:[A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$/.test(value))

/** Whether sandboxes can have namespaces of their own that commands can join later. */
const canContain = (): boolean =>
  spawnSync("bwrap", ["--ro-bind", "/", "/", "--unshare-pid", "--proc", "/proc", "true"], { stdio: "ignore" })
    .status === 0 && spawnSync("nsenter", ["--version"], { stdio: "ignore" }).status === 0

const systemFolders = ["/usr", "/bin", "/lib", "/lib64", "/sbin", "/etc"]

/** The command line of a container with the folder as its root; it ends with its first program. */
const container = (root: string, argv: ReadonlyArray<string>): ReadonlyArray<string> => [
  "bwrap",
  "--bind",
  root,
  "/",
  ...systemFolders.flatMap((folder) => ["--ro-bind-try", folder, folder]),
  "--proc",
  "/proc",
  "--dev",
  "/dev",
  "--unshare-pid",
  "--die-with-parent",
  "--info-fd",
  "3",
  "--chdir",
  "/root",
  ...argv
]

/** The command line of another program in the container of this process. */
const joined = (pid: number, cwd: string, argv: ReadonlyArray<string>): ReadonlyArray<string> => [
  "nsenter",
  ...(process.getuid?.() === 0 ? [] : ["--user", "--preserve-credentials"]),
  "--mount",
  "--pid",
  "--target",
  String(pid),
  "env",
  `--chdir=${cwd}`,
  ...argv
]

const readAll = (request: http.IncomingMessage): Promise<Buffer> =>
  new Promise((resolve, reject) => {
    const parts: Array<Buffer> = []
    request.on("data", (part: Buffer) => parts.push(part))
    request.on("end", () => resolve(Buffer.concat(parts)))
    request.on("error", reject)
    request.on("aborted", () => reject(new Error("aborted")))
  })

const sleep = (millis: number) => new Promise<void>((resolve) => setTimeout(resolve, millis))

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

/** Cuts output into lines as execd does: without their ends, an empty line as a newline, the rest at the end. */
const lines = (tell: (line: string) => void) => {
  let pending: Array<Buffer> = []
  const flush = (rest: Buffer) => {
    const line = Buffer.concat([...pending, rest])
    pending = []
    return line.toString("utf8")
  }
  return {
    push: (bytes: Buffer) => {
      let from = 0
      for (let at = bytes.indexOf(10); at >= 0; at = bytes.indexOf(10, from)) {
        const line = flush(bytes.subarray(from, at))
        tell(line === "" ? "\n" : line)
        from = at + 1
      }
      if (from < bytes.length) {
        pending.push(bytes.subarray(from))
      }
    },
    end: () => {
      const rest = flush(Buffer.alloc(0))
      if (rest !== "") {
        tell(rest)
      }
    }
  }
}

const signalTexts: Readonly<Record<string, string>> = {
  SIGKILL: "killed",
  SIGTERM: "terminated",
  SIGSEGV: "segmentation fault",
  SIGINT: "interrupt",
  SIGABRT: "aborted"
}

class Service {
  readonly boxes = new Map<string, Box>()
  readonly snapshots = new Map<string, { readonly readyAt: number; readonly root: string }>()
  readonly seen: Array<Seen> = []
  readonly faults = new Map<Operation, Array<Fault>>()
  readonly key = `key-${randomBytes(12).toString("hex")}`
  readonly contained = canContain()
  readonly behaviour: Behaviour = {
    startDelay: 20,
    deleteDelay: 20,
    pauseDelay: 20,
    pageLimit: 100,
    ignoresFilter: false,
    failsToStart: false,
    host: "127.0.0.1"
  }
  port = 0
  dataPort = 0

  constructor(readonly folder: string) {}

  take(operation: Operation): Fault | undefined {
    return this.faults.get(operation)?.shift()
  }

  later(box: Box, millis: number, run: () => void) {
    const timer = setTimeout(() => {
      box.timers.delete(timer)
      run()
    }, millis)
    box.timers.add(timer)
  }

  open(body: Readonly<Record<string, unknown>>): Box {
    const id = randomBytes(8).toString("hex")
    const root = path.join(this.folder, id)
    const from = typeof body["snapshotId"] === "string" ? this.snapshots.get(body["snapshotId"]) : undefined
    if (from === undefined) {
      fs.mkdirSync(path.join(root, "tmp"), { recursive: true })
      fs.mkdirSync(path.join(root, "root"))
      fs.mkdirSync(path.join(root, "home"))
    } else {
      fs.cpSync(from.root, root, { recursive: true })
    }
    const timeout = body["timeout"]
    const box: Box = {
      id,
      root,
      token: randomBytes(12).toString("hex"),
      metadata: texts(body["metadata"]),
      env: texts(body["env"]),
      entrypoint: Array.isArray(body["entrypoint"]) ? body["entrypoint"].map(String) : ["tail", "-f", "/dev/null"],
      createdAt: Date.now(),
      expiresAt: typeof timeout === "number" ? Date.now() + timeout * 1000 : undefined,
      state: "Pending",
      reason: "",
      commands: new Map(),
      main: undefined,
      inner: undefined,
      timers: new Set()
    }
    this.boxes.set(id, box)
    this.later(box, this.behaviour.startDelay, () => this.start(box))
    this.expire(box)
    return box
  }

  expire(box: Box) {
    const at = box.expiresAt
    if (at !== undefined && at - Date.now() < 2 ** 31) {
      this.later(box, Math.max(0, at - Date.now()), () => {
        // A renewal since then has a timer of its own.
        if (box.expiresAt !== undefined && box.expiresAt <= Date.now()) {
          this.drop(box)
        }
      })
    }
  }

  start(box: Box) {
    if (box.state !== "Pending") {
      return
    }
    if (this.behaviour.failsToStart) {
      box.state = "Failed"
      box.reason = "image_pull_failed"
      return
    }
    const [program = "true", ...rest] = this.contained ? container(box.root, box.entrypoint) : box.entrypoint
    const main = spawn(program, rest, {
      cwd: box.root,
      env: this.environment(box, {}),
      stdio: ["ignore", "ignore", "ignore", "pipe"],
      detached: true
    })
    box.main = main
    main.on("error", () => this.over(box, "the entrypoint could not be started"))
    main.once("exit", () => {
      box.main = undefined
      if (box.state === "Pending" || box.state === "Running") {
        this.over(box, "the entrypoint ended")
      }
    })
    const running = () => {
      if (box.state === "Pending") {
        box.state = "Running"
      }
    }
    if (!this.contained) {
      return running()
    }
    let info = ""
    const pipe = main.stdio[3]
    pipe?.on("data", (bytes: Buffer) => {
      info += bytes.toString()
      const inner = /"child-pid": *(\d+)/.exec(info)?.[1]
      if (inner !== undefined && box.inner === undefined) {
        box.inner = Number(inner)
        running()
      }
    })
    pipe?.on("error", () => undefined)
  }

  environment(box: Box, more: Readonly<Record<string, string>>): Record<string, string> {
    return { PATH: "/usr/local/bin:/usr/bin:/bin", HOME: "/root", ...box.env, ...more }
  }

  /** Ends a sandbox and leaves its record. */
  over(box: Box, reason: string) {
    box.state = "Terminated"
    box.reason = reason
    this.stop(box)
  }

  stop(box: Box) {
    if (box.main?.pid !== undefined) {
      try {
        process.kill(-box.main.pid, "SIGKILL")
      } catch {
        // It has ended meanwhile.
      }
    }
    for (const command of box.commands.values()) {
      this.signal(command, "SIGKILL")
    }
  }

  signal(command: Command, signal: NodeJS.Signals) {
    if (command.running && command.child.pid !== undefined) {
      try {
        process.kill(-command.child.pid, signal)
      } catch {
        // It has ended meanwhile.
      }
    }
  }

  drop(box: Box) {
    this.stop(box)
    for (const timer of box.timers) {
      clearTimeout(timer)
    }
    this.boxes.delete(box.id)
    fs.rmSync(box.root, { recursive: true, force: true, maxRetries: 5, retryDelay: 20 })
  }

  /** Outputs are named pipes, which programs can open by name; Node's own are sockets, which they cannot. */
  spawn(box: Box, argv: ReadonlyArray<string>, cwd: string, env: Readonly<Record<string, string>>): Running {
    const names = [0, 1].map(() => path.join(this.folder, `${randomBytes(8).toString("hex")}.fifo`))
    spawnSync("mkfifo", names)
    const ends = names.map((name) => ({
      read: fs.openSync(name, fs.constants.O_RDONLY | fs.constants.O_NONBLOCK),
      write: fs.openSync(name, fs.constants.O_WRONLY)
    }))
    const [program = "true", ...rest] = box.inner === undefined ? argv : joined(box.inner, cwd, argv)
    const child = spawn(program, rest, {
      cwd: box.inner === undefined ? this.inside(box, cwd) : "/",
      env: this.environment(box, env),
      stdio: ["ignore", ...ends.map(({ write }) => write)],
      detached: true
    })
    const outputs = ends.map(({ read, write }) => {
      fs.closeSync(write)
      const socket = new net.Socket({ fd: read, readable: true, writable: false })
      socket.on("error", () => socket.destroy())
      return socket
    })
    for (const name of names) {
      fs.rmSync(name)
    }
    return { child, outputs }
  }

  /** A path of the sandbox on this host. */
  inside(box: Box, wanted: string): string {
    return path.join(box.root, path.resolve("/root", wanted))
  }

  describe(box: Box): unknown {
    return {
      id: box.id,
      status: { state: box.state, ...(box.reason === "" ? {} : { reason: box.reason, message: box.reason }) },
      metadata: box.metadata,
      createdAt: new Date(box.createdAt).toISOString(),
      ...(box.expiresAt === undefined ? {} : { expiresAt: new Date(box.expiresAt).toISOString() }),
      entrypoint: box.entrypoint
    }
  }
}

interface Reply {
  readonly status: number
  readonly body?: unknown
}

const problem = (status: number, code: string, message: string): Reply => ({ status, body: { code, message } })

const send = (response: http.ServerResponse, reply: Reply, fault: Fault | undefined): unknown => {
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
const stopped = async (response: http.ServerResponse, fault: Fault | undefined): Promise<boolean> => {
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

const record = (service: Service, plane: Seen["plane"], request: http.IncomingMessage, body?: unknown) => {
  service.seen.push({
    plane,
    method: request.method ?? "",
    url: request.url ?? "",
    headers: request.headers,
    ...(body === undefined ? {} : { body })
  })
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

const onLifecycle =
  (service: Service, passOn = passedOn(service)) =>
  async (request: http.IncomingMessage, response: http.ServerResponse): Promise<unknown> => {
    const url = new URL(request.url ?? "/", "http://double")
    const method = request.method ?? "GET"
    const parts = url.pathname.split("/").slice(2)
    if (parts[0] === "sandboxes" && parts[2] === "proxy" && request.headers["open-sandbox-api-key"] === service.key) {
      record(service, "lifecycle", request)
      return passOn(request, response)
    }
    const raw = await readAll(request)
    const body: unknown = raw.length === 0 ? undefined : JSON.parse(raw.toString("utf8"))
    record(service, "lifecycle", request, body)
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

/** Runs a command and tells of it as execd does: bare JSON texts with an empty line behind each. */
const runCommand = async (
  service: Service,
  box: Box,
  request: http.IncomingMessage,
  response: http.ServerResponse,
  fault: Fault | undefined
): Promise<unknown> => {
  const body: unknown = JSON.parse((await readAll(request)).toString("utf8"))
  if (!isRecord(body) || typeof body["command"] !== "string") {
    return send(response, problem(400, "INVALID_REQUEST", "command is required"), undefined)
  }
  if (await stopped(response, fault)) {
    return undefined
  }
  const id = randomBytes(16).toString("hex")
  const tell = (type: string, rest: Readonly<Record<string, unknown>>) => {
    if (!response.destroyed) {
      response.write(`${JSON.stringify({ type, ...rest, timestamp: Date.now() })}\n\n`)
    }
  }
  const fail = (evalue: string, note: string) =>
    tell("error", { error: { ename: "CommandExecError", evalue, traceback: [note] } })
  response.writeHead(200, { "Content-Type": "text/event-stream" })
  const cwd = typeof body["cwd"] === "string" ? body["cwd"] : "/root"
  if (!fs.existsSync(service.inside(box, cwd)) && !systemFolders.some((folder) => cwd.startsWith(folder))) {
    tell("init", { text: id })
    fail(`chdir ${cwd}: no such file or directory`, `chdir ${cwd}: no such file or directory`)
    return response.end()
  }
  const { child, outputs } = service.spawn(box, ["bash", "-c", body["command"]], cwd, texts(body["envs"]))
  const command: Command = { child, exitCode: null, error: "", running: true, nullExit: fault?.kind === "nullExit" }
  box.commands.set(id, command)
  tell("init", { text: id })
  const timeout = typeof body["timeout"] === "number" ? body["timeout"] : 0
  const timer = timeout > 0 ? setTimeout(() => service.signal(command, "SIGKILL"), timeout) : undefined
  const out = lines((text) => tell("stdout", { text }))
  const err = lines((text) => tell("stderr", { text }))
  // What is left running may hold the outputs open: they end when nothing came for a while after the command.
  let heard = 0
  outputs[0]?.on("data", (bytes: Buffer) => {
    heard += 1
    out.push(bytes)
  })
  outputs[1]?.on("data", (bytes: Buffer) => {
    heard += 1
    err.push(bytes)
  })
  const drained = (then: () => void) => {
    const before = heard
    setTimeout(() => (heard === before ? then() : drained(then)), 5)
  }
  if (fault?.kind === "cut") {
    // The command goes on; only its output is lost.
    setTimeout(() => response.destroy(), 20)
  } else {
    response.once("close", () => service.signal(command, "SIGKILL"))
  }
  child.once("error", (error) => fail(`fork/exec: ${error.message}`, error.message))
  child.once("exit", (code, signal) => {
    clearTimeout(timer)
    command.running = false
    // nsenter ends as its command did; a shell's number of a signal is execd's -1.
    const note = signal === null ? `exit status ${code}` : `signal: ${signalTexts[signal] ?? signal}`
    command.exitCode = command.nullExit ? null : (code ?? -1)
    command.error = command.nullExit ? "it was lost" : code === 0 ? "" : note
    drained(() => {
      out.end()
      err.end()
      if (command.nullExit) {
        response.destroy()
      } else if (code === 0) {
        tell("execution_complete", { execution_time: 1 })
      } else {
        fail(String(code ?? -1), note)
      }
      response.end()
    })
  })
  return undefined
}

const proxied = (request: http.IncomingMessage, response: http.ServerResponse, port: number, rest: string) => {
  const asked = http.request({
    host: "127.0.0.1",
    port,
    method: request.method ?? "GET",
    path: rest,
    headers: { ...request.headers, host: `127.0.0.1:${port}` },
    agent: false
  })
  asked.once("error", () => send(response, problem(502, "PROXY::BAD_GATEWAY", "nothing listens there"), undefined))
  asked.once("response", (answer) => {
    response.writeHead(answer.statusCode ?? 502, answer.headers)
    pipeline(answer, response, () => undefined)
  })
  request.pipe(asked)
}

const onSandbox =
  (service: Service) =>
  async (request: http.IncomingMessage, response: http.ServerResponse): Promise<unknown> => {
    record(service, "sandbox", request)
    const url = new URL(request.url ?? "/", "http://double")
    const [, id = "", plane = "", ...rest] = url.pathname.split("/").slice(1)
    const box = service.boxes.get(id)
    if (box === undefined || (box.state !== "Running" && box.state !== "Pausing")) {
      return send(response, problem(404, "ROUTE::NOT_FOUND", "no sandbox runs there"), undefined)
    }
    if (request.headers["x-route"] !== id) {
      return send(response, problem(403, "ROUTE::FORBIDDEN", "the route's header is missing"), undefined)
    }
    if (plane === "proxy") {
      return proxied(request, response, Number(rest[0]), `/${rest.slice(1).join("/")}${url.search}`)
    }
    if (request.headers["x-execd-access-token"] !== box.token) {
      return send(response, problem(401, "UNAUTHORIZED", "the token is missing or wrong"), undefined)
    }
    const wanted = url.searchParams.get("path") ?? ""
    const command = box.commands.get(url.searchParams.get("id") ?? rest[2] ?? "")
    switch (`${request.method} /${rest.slice(0, 2).join("/")}`) {
      case "GET /ping": {
        const fault = service.take("ping")
        return (await stopped(response, fault)) ? undefined : send(response, { status: 200 }, fault)
      }
      case "POST /command":
        return runCommand(service, box, request, response, service.take("command"))
      case "DELETE /command": {
        const fault = service.take("interrupt")
        if (await stopped(response, fault)) {
          return undefined
        }
        if (command === undefined) {
          return send(response, problem(404, "NOT_FOUND", "there is no such command"), fault)
        }
        service.signal(command, "SIGKILL")
        return send(response, { status: 200 }, fault)
      }
      case "GET /command/status": {
        const fault = service.take("status")
        if (await stopped(response, fault)) {
          return undefined
        }
        return command === undefined
          ? send(response, problem(404, "NOT_FOUND", "there is no such command"), fault)
          : send(
              response,
              { status: 200, body: { running: command.running, exit_code: command.exitCode, error: command.error } },
              fault
            )
      }
      case "POST /files/upload": {
        const fault = service.take("upload")
        const upload = parseUpload(await readAll(request), request.headers["content-type"] ?? "")
        if (await stopped(response, fault)) {
          return undefined
        }
        // It may have gone while this hung.
        if (!service.boxes.has(box.id)) {
          return send(response, problem(404, "ROUTE::NOT_FOUND", "no sandbox runs there"), fault)
        }
        if (upload === undefined) {
          return send(response, problem(400, "INVALID_FILE_METADATA", "metadata and file are required"), fault)
        }
        try {
          const target = service.inside(box, upload.path)
          fs.mkdirSync(path.dirname(target), { recursive: true })
          fs.writeFileSync(target, upload.bytes)
          return send(response, { status: 200 }, fault)
        } catch (error) {
          return send(response, problem(500, "RUNTIME_ERROR", String(error)), fault)
        }
      }
      case "GET /files/download": {
        const fault = service.take("download")
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
      default:
        return send(response, problem(404, "NOT_FOUND", `there is no ${request.method} ${url.pathname}`), undefined)
    }
  }

const listening = (
  handle: (request: http.IncomingMessage, response: http.ServerResponse) => Promise<unknown>
): Effect.Effect<number, never, Scope.Scope> =>
  Effect.map(
    Effect.acquireRelease(
      Effect.async<{ readonly server: http.Server; readonly port: number }>((resume) => {
        const server = http.createServer((request, response) => {
          handle(request, response).catch(() => response.destroy())
        })
        server.listen(0, "127.0.0.1", () => {
          const address = server.address()
          resume(Effect.succeed({ server, port: typeof address === "object" && address !== null ? address.port : 0 }))
        })
      }),
      ({ server }) =>
        Effect.async<void>((resume) => {
          server.close(() => resume(Effect.void))
          server.closeAllConnections()
        })
    ),
    ({ port }) => port
  )

/**
 * Runs until the scope closes; then everything of it is gone.
 *
 * @since 0.1.0
 * @category constructors
 */
export const make = (behaviour: Partial<Behaviour> = {}): Effect.Effect<OpenSandboxDouble, never, Scope.Scope> =>
  Effect.gen(function* () {
    const service = yield* Effect.acquireRelease(
      Effect.sync(() => new Service(fs.mkdtempSync(path.join(os.tmpdir(), "dh-opensandbox-")))),
      (service) =>
        Effect.sync(() => {
          for (const box of [...service.boxes.values()]) {
            service.drop(box)
          }
          fs.rmSync(service.folder, { recursive: true, force: true, maxRetries: 5, retryDelay: 20 })
        })
    )
    Object.assign(service.behaviour, behaviour)
    service.dataPort = yield* listening(onSandbox(service))
    service.port = yield* listening(onLifecycle(service))
    return {
      baseUrl: `http://127.0.0.1:${service.port}/v1`,
      apiKey: Redacted.make(service.key),
      behaviour: service.behaviour,
      inject: (operation, fault, times = 1) =>
        Effect.sync(() => {
          const queue = service.faults.get(operation) ?? []
          service.faults.set(operation, [...queue, ...Array.from({ length: times }, () => fault)])
        }),
      heal: Effect.sync(() => service.faults.clear()),
      requests: Effect.sync(() => [...service.seen]),
      inventory: Effect.sync(() => ({
        sandboxes: [...service.boxes.keys()],
        snapshots: [...service.snapshots.keys()],
        processes: [...service.boxes.values()]
          .flatMap(({ commands }) => [...commands.values()])
          .filter(({ running }) => running).length,
        folders: fs.readdirSync(service.folder).length
      })),
      plant: (metadata) =>
        Effect.sync(() => {
          const box = service.open({ metadata })
          service.start(box)
          return box.id
        }),
      kill: (id) =>
        Effect.sync(() => {
          const box = service.boxes.get(id)
          if (box !== undefined) {
            service.over(box, "it was killed")
          }
        })
    }
  })
