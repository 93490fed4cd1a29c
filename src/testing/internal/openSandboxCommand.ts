/** Commands in the sandboxes of a double of OpenSandbox, told of as execd tells of them. */
import { randomBytes } from "node:crypto"
import * as fs from "node:fs"
import type * as http from "node:http"
import type { Fault } from "../OpenSandboxDouble.js"
import { systemFolders } from "./openSandboxContainer.js"
import type { Box, Command, Service } from "./openSandboxState.js"
import { isRecord, problem, readAll, send, stopped, texts } from "./openSandboxWire.js"

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

/** Runs a command and tells of it as execd does: bare JSON texts with an empty line behind each. */
export const runCommand = async (
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
