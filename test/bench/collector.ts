/**
 * What the collector costs over a bare loop that moves the same bytes: time and processor a step, memory by the minute,
 * and how many rows become durable in a second. Desktops and models are simulated behind real sockets in another process:
 * a step is 10 s of waiting, a screenshot of 300 KB, and a prompt that shows it.
 *
 *     npm run bench:collector -- [--minutes 5] [--episodes 512,2048] [--folder /tmp] [--skip bare,rows]
 *
 * A minute of 2,048 episodes writes 4 GB, which is removed afterwards.
 */
import { type ChildProcess, spawn } from "node:child_process"
import { mkdtempSync, readdirSync, rmSync, statSync } from "node:fs"
import { cpus, tmpdir } from "node:os"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import { parseArgs } from "node:util"
import { table } from "../../src/cli/internal/table.js"
import type { Measured } from "./collector/sizes.js"

const { values } = parseArgs({
  options: {
    minutes: { type: "string", default: "5" },
    episodes: { type: "string", default: "512,2048" },
    folder: { type: "string", default: tmpdir() },
    skip: { type: "string", default: "" }
  }
})
const minutes = Number(values.minutes)
const sizes = values.episodes.split(",").map(Number)
const skip = new Set(values.skip.split(","))

const start = (file: string, ...args: ReadonlyArray<string>): ChildProcess =>
  spawn(process.execPath, [fileURLToPath(new URL(`./collector/${file}.mjs`, import.meta.url)), ...args], {
    stdio: ["ignore", "pipe", "inherit", "ipc"]
  })

/** The first line that a child prints. */
const line = (child: ChildProcess) =>
  new Promise<string>((resolve, reject) => {
    let said = ""
    child.stdout?.on("data", (chunk) => {
      said += chunk
      const end = said.indexOf("\n")
      if (end >= 0) resolve(said.slice(0, end))
    })
    child.on("exit", (status) => reject(new Error(`a child ended with ${status}`)))
  })

const bytesIn = (folder: string): number =>
  readdirSync(folder, { withFileTypes: true }).reduce(
    (sum, entry) =>
      sum +
      (entry.isDirectory()
        ? bytesIn(join(folder, entry.name))
        : entry.isFile()
          ? statSync(join(folder, entry.name)).size
          : 0),
    0
  )

// A bench that is stopped leaves no gigabytes behind.
const folders = new Set<string>()
process.on("exit", () => {
  for (const folder of folders) rmSync(folder, { recursive: true, force: true, maxRetries: 20, retryDelay: 100 })
})
for (const signal of ["SIGHUP", "SIGINT", "SIGTERM"] as const) process.on(signal, () => process.exit(1))

const inFolder = async <A>(use: (folder: string) => Promise<A>): Promise<A> => {
  const folder = mkdtempSync(join(values.folder, "deskhand-bench-"))
  folders.add(folder)
  try {
    return await use(folder)
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

const measure = (mode: "bare" | "driver", episodes: number) =>
  inFolder(async (folder) => {
    const world = start("world")
    try {
      const port = await line(world)
      const driver = start(mode, port, String(episodes), String(minutes), folder)
      const measured: Measured = JSON.parse(await line(driver))
      await new Promise((resolve) => (driver.exitCode === null ? driver.on("exit", resolve) : resolve(undefined)))
      return { ...measured, evidence: bytesIn(join(folder, "evidence")) }
    } finally {
      world.kill()
    }
  })

console.log(`${cpus().length} cores, ${cpus()[0]?.model}; ${minutes} minutes each`)
const rows: Array<ReadonlyArray<string>> = []
for (const episodes of sizes) {
  for (const mode of ["bare", "driver"] as const) {
    if (skip.has(mode)) continue
    const { cpu, evidence, median, memory, p90, steps } = await measure(mode, episodes)
    rows.push([
      mode === "bare" ? "bare loop" : "collector",
      String(episodes),
      String(steps),
      `${median.toFixed(1)} ms`,
      `${p90.toFixed(1)} ms`,
      `${cpu.toFixed(2)} ms`,
      memory.map((megabytes) => megabytes.toFixed(0)).join(" "),
      `${(evidence / 1000 / steps).toFixed(1)} KB`
    ])
  }
}
if (rows.length > 0) {
  const heads = [
    "",
    "episodes",
    "steps",
    "overhead a step",
    "90 %",
    "CPU a step",
    "MB by the minute",
    "evidence a step"
  ]
  console.log(table(heads, rows))
}
if (!skip.has("rows")) {
  const { alone, whole }: { readonly alone: number; readonly whole: number } = JSON.parse(
    await inFolder((folder) => line(start("rows", folder)))
  )
  console.log(`durable rows of 16 KB a second: ${alone.toFixed(0)} by the writer, ${whole.toFixed(0)} by a collection`)
}
