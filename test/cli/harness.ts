/** Runs the command as its users do: in a process of its own, with a state folder of its own to look into afterwards. */
import { type ChildProcess, spawn } from "node:child_process"
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { fileURLToPath } from "node:url"

export const root = fileURLToPath(new URL("../..", import.meta.url))

export interface Ended {
  readonly status: number | null
  readonly stdout: string
  readonly stderr: string
}

export interface Running {
  readonly process: ChildProcess
  readonly ended: Promise<Ended>
  /** Resolves when `text` has been printed to standard error. */
  readonly printed: (text: string) => Promise<void>
}

export class Workplace {
  readonly folder = mkdtempSync(join(tmpdir(), "dh-cli-"))
  /** Where desktops live. */
  readonly state = join(this.folder, "state")
  readonly out = join(this.folder, "out")

  start(args: ReadonlyArray<string>, env: Readonly<Record<string, string>> = {}): Running {
    // As package.json's own script has it.
    const child = spawn(
      process.execPath,
      ["--max-semi-space-size=4", "--import", "tsx", "examples/osworld.ts", ...args],
      {
        cwd: root,
        env: { ...process.env, NO_COLOR: "1", DESKHAND_STATE_DIR: this.state, ...env },
        stdio: ["ignore", "pipe", "pipe"]
      }
    )
    let stdout = ""
    let stderr = ""
    const waiting: Array<{ readonly text: string; readonly resolve: () => void }> = []
    child.stdout.on("data", (chunk: Buffer) => {
      stdout += chunk
    })
    child.stderr.on("data", (chunk: Buffer) => {
      stderr += chunk
      for (const { text, resolve } of waiting) if (stderr.includes(text)) resolve()
    })
    const ended = new Promise<Ended>((resolve) => {
      child.on("close", (status) => resolve({ status, stdout, stderr }))
    })
    return {
      process: child,
      ended,
      printed: (text) =>
        new Promise((resolve, reject) => {
          if (stderr.includes(text)) return resolve()
          waiting.push({ text, resolve })
          ended.then(() => reject(new Error(`it ended without printing ${text}:\n${stderr}`)))
        })
    }
  }

  run(args: ReadonlyArray<string>, env?: Readonly<Record<string, string>>): Promise<Ended> {
    return this.start(args, env).ended
  }

  /** Folders that desktops have left. */
  folders(): ReadonlyArray<string> {
    try {
      return readdirSync(this.state)
    } catch {
      return []
    }
  }

  /** Processes that belong to desktops of this place, by what they were started with. */
  processes(): ReadonlyArray<string> {
    return readdirSync("/proc").flatMap((pid) => {
      if (!/^\d+$/.test(pid)) return []
      try {
        // A container's arguments go through a pipe, but its mounts name the folder.
        const text = `${readFileSync(`/proc/${pid}/cmdline`)}${readFileSync(`/proc/${pid}/mountinfo`)}`
        const command = readFileSync(`/proc/${pid}/cmdline`, "utf8").replaceAll("\0", " ")
        return text.includes(this.state) && Number(pid) !== process.pid ? [`${pid} ${command}`] : []
      } catch {
        return []
      }
    })
  }

  rows(file: string): ReadonlyArray<Record<string, unknown>> {
    return readFileSync(join(this.out, file), "utf8")
      .split("\n")
      .filter((line) => line !== "")
      .map((line) => JSON.parse(line))
  }

  remove(): void {
    rmSync(this.folder, { recursive: true, force: true })
  }
}
