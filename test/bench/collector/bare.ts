/**
 * The loop that the collector is measured against: the same bytes over the same sockets and to the same disk, and nothing
 * else. No digests, no journal, no rows, no limits.
 *
 *     node bare.mjs PORT EPISODES MINUTES FOLDER
 */
import { mkdirSync } from "node:fs"
import { open, writeFile } from "node:fs/promises"
import { join } from "node:path"
import * as Undici from "@effect/platform-node/Undici"
import { measure, rampMilliseconds, steps } from "./sizes.js"

const [port = "", episodes = "", minutes = "", folder = ""] = process.argv.slice(2)
const origin = `http://127.0.0.1:${port}`
const dispatcher = new Undici.Agent({ connections: 8192, pipelining: 1, headersTimeout: 0, bodyTimeout: 0 })

const get = async (path: string): Promise<Buffer> => {
  const { body } = await Undici.request(`${origin}${path}`, { dispatcher })
  return Buffer.from(await body.arrayBuffer())
}

const post = async (path: string, body: string): Promise<string> => {
  const response = await Undici.request(`${origin}${path}`, {
    dispatcher,
    method: "POST",
    headers: { "content-type": "application/json" },
    body
  })
  return response.body.text()
}

const { after, step } = measure(Number(minutes))
mkdirSync(join(folder, "blobs"), { recursive: true })
mkdirSync(join(folder, "evidence"), { recursive: true })

/** What evidence holds of a step, by its length. */
const record = "x".repeat(4_000)
let blobs = 0

const episode = async (name: string) => {
  const evidence = await open(join(folder, "evidence", name), "w")
  await post("/create", "{}")
  for (let at = 0; at < steps; at++) {
    const began = performance.now()
    const screenshot = await get("/screenshot")
    await writeFile(join(folder, "blobs", String(blobs++)), screenshot)
    const content = [
      { type: "image_url", image_url: { url: `data:image/png;base64,${screenshot.toString("base64")}` } }
    ]
    const reply = await post(
      "/v1/chat/completions",
      JSON.stringify({ model: "bench", messages: [{ role: "user", content }] })
    )
    JSON.parse(reply)
    await post("/act", JSON.stringify({ command: "pyautogui.click(960, 540)" }))
    await evidence.write(`${record}\n`)
    step(performance.now() - began)
  }
  await post("/evaluate", "{}")
  await evidence.close()
}

const count = Number(episodes)
for (let slot = 0; slot < count; slot++) {
  void (async () => {
    await new Promise((resolve) => setTimeout(resolve, (slot * rampMilliseconds) / count))
    for (let round = 0; ; round++) await episode(`${slot}-${round}`)
  })()
}
process.stdout.write(`${JSON.stringify(await after)}\n`)
process.exit(0)
