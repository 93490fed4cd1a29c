/** What a double of OpenSandbox holds: its sandboxes, their processes and folders, and the faults to come. */
import { type ChildProcess, spawn, spawnSync } from "node:child_process"
import { randomBytes } from "node:crypto"
import * as fs from "node:fs"
import type * as http from "node:http"
import * as net from "node:net"
import * as path from "node:path"
import type { Behaviour, Fault, Operation, Seen } from "../OpenSandboxDouble.js"
import { canContain, container, joined } from "./openSandboxContainer.js"
import { texts } from "./openSandboxWire.js"

export interface Running {
  readonly child: ChildProcess
  /** Standard output and standard error. */
  readonly outputs: ReadonlyArray<net.Socket>
}

export interface Command {
  readonly child: ChildProcess
  exitCode: number | null
  error: string
  running: boolean
  readonly nullExit: boolean
}

export interface Box {
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

export class Service {
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

  /** Keeps a request for who asks what arrived. */
  record(plane: Seen["plane"], request: http.IncomingMessage, body?: unknown) {
    this.seen.push({
      plane,
      method: request.method ?? "",
      url: request.url ?? "",
      headers: request.headers,
      ...(body === undefined ? {} : { body })
    })
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
