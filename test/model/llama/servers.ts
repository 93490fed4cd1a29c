/** Servers of the tiny model, each a process that ends with the scope. */
import { type ChildProcess, spawn } from "node:child_process"
import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import { isBuilt } from "./engine.js"
import { tinyModel } from "./gguf.js"

export interface LlamaServer {
  readonly name: string
  /** Whether nobody misses it where it is not. */
  readonly isOptional: boolean
  /** Whether this machine has it. */
  readonly isHere: boolean
  /** Whether it tells tokens as vLLM does. */
  readonly tellsTokens: boolean
  readonly command: readonly [string, ...Array<string>]
}

const file = (name: string) => fileURLToPath(new URL(name, import.meta.url))

const python = process.env.DESKHAND_LLAMA_PYTHON

export const servers: ReadonlyArray<LlamaServer> = [
  {
    name: "llama.cpp's engine behind a server of the tests",
    isOptional: false,
    isHere: isBuilt,
    tellsTokens: true,
    command: [process.execPath, "--import", "tsx", file("engineServer.ts")]
  },
  {
    // `pip install xllamacpp==2026.10.11549`, and DESKHAND_LLAMA_PYTHON names the Python that has it.
    name: "llama.cpp's own server",
    isOptional: true,
    isHere: python !== undefined,
    tellsTokens: false,
    command: [python ?? "python3", file("llama_server.py")]
  }
]

const address = (child: ChildProcess): Effect.Effect<string> =>
  Effect.async((resume) => {
    let out = ""
    let told = ""
    child.stderr?.on("data", (chunk: Buffer) => {
      told = (told + chunk.toString()).slice(-2_000)
    })
    child.stdout?.on("data", (chunk: Buffer) => {
      out += chunk.toString()
      const url = /^(http:\S+)\n/m.exec(out)?.[1]
      if (url !== undefined) resume(Effect.succeed(url))
    })
    child.on("error", (error) => resume(Effect.die(error)))
    child.on("exit", (code) => resume(Effect.dieMessage(`the server ended with ${code}: ${told}`)))
  })

/** The address of the server's API. */
export const start = ({ command: [program, ...args] }: LlamaServer): Effect.Effect<string, never, Scope.Scope> =>
  Effect.gen(function* () {
    const folder = yield* Effect.acquireRelease(
      Effect.sync(() => mkdtempSync(join(tmpdir(), "llama-"))),
      (path) => Effect.sync(() => rmSync(path, { recursive: true, force: true }))
    )
    const model = join(folder, "tiny.gguf")
    writeFileSync(model, tinyModel())
    const child = yield* Effect.acquireRelease(
      Effect.sync(() => spawn(program, [...args, model], { stdio: ["pipe", "pipe", "pipe"] })),
      (child) =>
        Effect.async<void>((resume) => {
          if (child.exitCode !== null || child.signalCode !== null) return resume(Effect.void)
          child.once("exit", () => resume(Effect.void))
          child.kill("SIGKILL")
        })
    )
    return yield* address(child)
  })
