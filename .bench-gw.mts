import { createServer, Agent, request } from "node:http"
import { fork } from "node:child_process"
import { mkdtempSync, rmSync } from "node:fs"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as NodeContext from "@effect/platform-node/NodeContext"
import * as ModelGateway from "./src/model/ModelGateway.js"
import * as ModelCallCapture from "./src/model/ModelCallCapture.js"
const role = process.argv[2]
if (role === "stub") {
  const reply = JSON.stringify({ id: "c", object: "chat.completion", created: 1, model: "m", choices: [{ index: 0, message: { role: "assistant", content: "hi" }, finish_reason: "stop" }] })
  const s = createServer((q, r) => { q.resume(); q.on("end", () => { r.writeHead(200, { "content-type": "application/json", "content-length": reply.length }); r.end(reply) }) })
  s.listen(0, "127.0.0.1", () => process.send!((s.address() as any).port))
} else if (role === "gw") {
  const dir = process.argv[4] === "none" ? undefined : process.argv[4]
  const cap = dir === undefined ? ModelCallCapture.layerDisabled : ModelCallCapture.layer({ directory: dir }).pipe(Layer.provide(NodeContext.layer))
  Effect.gen(function* () { const g = yield* ModelGateway.ModelGateway; process.send!(g.port); return yield* Effect.never }).pipe(
    Effect.provide(ModelGateway.layer({ upstreams: [process.argv[3]!] }).pipe(Layer.provide(cap))), Effect.runFork)
} else {
  const start = (args: string[]) => new Promise<[any, number]>((res) => { const c = fork(process.argv[1]!, args, { execArgv: ["--import", "tsx"] }); c.once("message", (p: number) => res([c, p])) })
  const [s, port] = await start(["stub"])
  const dir = mkdtempSync("/tmp/w/c-bench/x")
  const [g, gp] = await start(["gw", `http://127.0.0.1:${port}/v1`, "none"])
  const [gc, gcp] = await start(["gw", `http://127.0.0.1:${port}/v1`, dir])
  const image = "data:image/png;base64," + "A".repeat(400_000)
  const bodies = { small: JSON.stringify({ model: "m", messages: [{ role: "user", content: "hi" }] }), images: JSON.stringify({ model: "m", messages: [{ role: "user", content: [image, image, image].map((url) => ({ type: "image_url", image_url: { url } })) }] }) }
  const agent = new Agent({ keepAlive: true })
  const one = (port: number, path: string, body: Buffer) => new Promise<number>((res, rej) => {
    const t = performance.now()
    const q = request({ host: "127.0.0.1", port, path, method: "POST", agent, headers: { "content-type": "application/json", "content-length": body.length } }, (r) => { r.resume(); r.on("end", () => res(performance.now() - t)) })
    q.on("error", rej); q.end(body)
  })
  for (const [name, text] of Object.entries(bodies)) {
    const body = Buffer.from(text)
    for (const conc of [1, 8]) for (const [what, p] of [["direct", port], ["gateway", gp], ["gateway+capture", gcp]] as const) {
      const times: number[] = []; let n = 0
      const total = name === "images" ? 150 : 300
      const worker = async (w: number) => { while (n++ < total) times.push(await one(p, `/ng-rollout/r${w}/v1/chat/completions`.slice(what === "direct" ? `/ng-rollout/r${w}`.length : 0), body)) }
      await Promise.all(Array.from({ length: conc }, (_, w) => worker(w)))
      times.sort((a, b) => a - b)
      console.log(name, "conc", conc, what, "p50", times[times.length >> 1]!.toFixed(2), "p95", times[Math.floor(times.length * 0.95)]!.toFixed(2))
    }
  }
  for (const c of [s, g, gc]) c.kill()
  rmSync(dir, { recursive: true }); agent.destroy()
}
