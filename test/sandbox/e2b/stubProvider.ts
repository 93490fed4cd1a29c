/**
 * A provider for the E2B server's tests: a sandbox is a folder, and its commands are this machine's processes, each with
 * a process group of its own. Absolute paths of files are below the folder, which `$HOME` names.
 */
import { spawn } from "node:child_process"
import { createReadStream, createWriteStream, existsSync, mkdirSync, mkdtempSync, rmSync } from "node:fs"
import { constants, tmpdir } from "node:os"
import { dirname, join } from "node:path"
import * as NodeSink from "@effect/platform-node/NodeSink"
import * as NodeStream from "@effect/platform-node/NodeStream"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import * as Mailbox from "effect/Mailbox"
import * as Runtime from "effect/Runtime"
import * as Stream from "effect/Stream"
import { Capabilities } from "../../../src/sandbox/Capabilities.js"
import { Endpoint } from "../../../src/sandbox/Endpoint.js"
import { type ExecCommand, ExecEvent, ExecOutcome } from "../../../src/sandbox/ExecOutcome.js"
import { collect } from "../../../src/sandbox/internal/collect.js"
import { type OwnedSandbox, SandboxDescriptor } from "../../../src/sandbox/Sandbox.js"
import { EndpointUnresolvable, SandboxFileError, SandboxUnsupported } from "../../../src/sandbox/SandboxError.js"
import { SandboxProvider } from "../../../src/sandbox/SandboxProvider.js"
import type { SandboxSpec } from "../../../src/sandbox/SandboxSpec.js"

const provider = "stub"
const none = { stdout: "", stderr: "" }

const numberOf = (signal: NodeJS.Signals | null) => (signal === null ? 0 : (constants.signals[signal] ?? 0))

const execStream = (root: string, spec: SandboxSpec, command: ExecCommand): Stream.Stream<ExecEvent> =>
  Stream.unwrapScoped(
    Effect.gen(function* () {
      const mailbox = yield* Mailbox.make<ExecEvent>(64)
      const run = Runtime.runPromise(yield* Effect.runtime<never>())
      const [file, ...args] = command.command
      const child = yield* Effect.acquireRelease(
        Effect.sync(() =>
          spawn(file, args, {
            cwd: command.workdir ?? spec.workdir ?? root,
            env: { PATH: process.env["PATH"] ?? "", HOME: root, ...spec.env, ...command.env },
            stdio: "pipe",
            detached: true
          })
        ),
        (child) =>
          Effect.sync(() => {
            try {
              if (child.pid !== undefined && child.exitCode === null) process.kill(-child.pid, "SIGKILL")
            } catch {
              // It has ended.
            }
          })
      )
      child.stdin.on("error", () => {})
      child.stdin.end(command.stdin ?? "")
      const ended = Effect.async<ExecOutcome>((resume) => {
        child.on("error", (error) =>
          resume(Effect.succeed(ExecOutcome.SandboxFailed({ ...none, reason: error.message })))
        )
        child.on("close", (code, signal) =>
          resume(Effect.succeed(ExecOutcome.Exited({ ...none, code: code ?? 128 + numberOf(signal) })))
        )
      })
      const pump = (tag: "Stdout" | "Stderr", source: typeof child.stdout) =>
        source.on("data", (bytes: Buffer) => {
          source.pause()
          void run(mailbox.offer(ExecEvent[tag]({ bytes }))).then(() => source.resume())
        })
      pump("Stdout", child.stdout)
      pump("Stderr", child.stderr)
      yield* Effect.forkScoped(
        Effect.timeoutTo(ended, {
          duration: command.timeout ?? "3 minutes",
          onSuccess: (outcome): ExecOutcome => outcome,
          onTimeout: (): ExecOutcome => ExecOutcome.TimedOut(none)
        }).pipe(
          Effect.flatMap((outcome) => mailbox.offer(ExecEvent.Ended({ outcome }))),
          Effect.onExit((exit) => (Exit.isSuccess(exit) ? mailbox.end : mailbox.shutdown))
        )
      )
      return Mailbox.toStream(mailbox)
    })
  )

const open = (spec: SandboxSpec): OwnedSandbox => {
  const root = mkdtempSync(join(tmpdir(), "deskhand-stub-"))
  const fileError = (operation: "upload" | "download", path: string) => (error: unknown) =>
    new SandboxFileError({
      provider,
      sandboxId: root,
      operation,
      path,
      missing: operation === "download" && !existsSync(join(root, path)),
      reason: String(error)
    })
  return {
    _tag: "OwnedSandbox",
    id: root,
    provider,
    exec: (command) => collect(execStream(root, spec, command)),
    execStream: (command) => execStream(root, spec, command),
    upload: (path, bytes) =>
      Stream.run(
        bytes,
        NodeSink.fromWritable(
          () => {
            mkdirSync(dirname(join(root, path)), { recursive: true })
            return createWriteStream(join(root, path))
          },
          fileError("upload", path)
        )
      ),
    download: (path) => NodeStream.fromReadable(() => createReadStream(join(root, path)), fileError("download", path)),
    endpoint: (port) =>
      spec.ports.includes(port)
        ? Effect.succeed(Endpoint.Tcp({ url: `http://127.0.0.1:${port}`, headers: {} }))
        : new EndpointUnresolvable({ provider, sandboxId: root, port, reason: "not declared" }),
    gone: Effect.never,
    descriptor: new SandboxDescriptor({ provider, id: root, ports: spec.ports })
  }
}

/** `folders` are those that exist, for a test to see that none is left. */
export const layer = (folders: Set<string>): Layer.Layer<SandboxProvider> =>
  Layer.succeed(SandboxProvider, {
    name: provider,
    capabilities: new Capabilities({
      exec: true,
      files: true,
      endpoint: true,
      hostFiles: false,
      images: false,
      connect: false,
      fork: false,
      pause: false,
      renew: false,
      entrypoint: true,
      snapshot: false,
      ttl: false
    }),
    acquire: (spec) =>
      Effect.acquireRelease(
        Effect.sync(() => {
          const sandbox = open(spec)
          folders.add(sandbox.id)
          return sandbox
        }),
        ({ id }) =>
          Effect.sync(() => {
            rmSync(id, { recursive: true, force: true })
            folders.delete(id)
          }).pipe(Effect.delay(Duration.millis(5)))
      ),
    borrow: () => new SandboxUnsupported({ provider, capability: "connect" }),
    fork: () => new SandboxUnsupported({ provider, capability: "fork" }),
    list: () => Stream.empty,
    sweep: () => Effect.succeed({ provider, removed: [], left: [], inUse: [] }),
    preflight: Effect.succeed([])
  })
