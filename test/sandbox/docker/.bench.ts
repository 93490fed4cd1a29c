import * as NodeContext from "@effect/platform-node/NodeContext"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Scope from "effect/Scope"
import * as Exit from "effect/Exit"
import * as Http from "node:http"
import * as DockerProvider from "/work/i3/src/sandbox/DockerProvider.js"
import * as Ledger from "/work/i3/src/sandbox/Ledger.js"
import { SandboxProvider } from "/work/i3/src/sandbox/SandboxProvider.js"
import { SandboxSpec } from "/work/i3/src/sandbox/SandboxSpec.js"
const sock = "/var/tmp/deskhand-docker/docker.sock"
const agent = new Http.Agent({ keepAlive: true })
const call = (method: string, path: string, body?: unknown) => new Promise<{status: number, text: string}>((ok, no) => {
  const r = Http.request({ socketPath: sock, agent, method, path, headers: { "content-type": "application/json" } }, (res) => { let t = ""; res.on("data", (c) => t += c).on("end", () => ok({ status: res.statusCode ?? 0, text: t })) })
  r.on("error", no); r.end(body === undefined ? undefined : JSON.stringify(body))
})
const raw = Effect.forEach(Array.from({ length: 50 }), (_, i) => Effect.promise(async () => {
  const c = await call("POST", "/v1.41/containers/create?name=raw" + i, { Image: "deskhand-base:bookworm", Entrypoint: ["sleep"], Cmd: ["2147483647"], HostConfig: { Init: true, NetworkMode: "none", PidsLimit: 4096 } })
  const { Id } = JSON.parse(c.text)
  const s = await call("POST", `/v1.41/containers/${Id}/start`)
  const d = await call("DELETE", `/v1.41/containers/${Id}?force=1&v=1`)
  if (s.status !== 204 || d.status !== 204) throw new Error(s.text + d.text)
}), { concurrency: 10 })
const ours = Effect.gen(function* () {
  const p = yield* SandboxProvider
  yield* Effect.forEach(Array.from({ length: 50 }), () => Effect.scoped(p.acquire(new SandboxSpec({ image: "deskhand-base:bookworm" }))), { concurrency: 10 })
})
Effect.runPromise(Effect.gen(function* () {
  for (let i = 0; i < 3; i++) {
    const [a] = yield* Effect.timed(raw)
    const [b] = yield* Effect.timed(ours)
    console.log("raw", Number(a.pipe((d) => (d as any).value.millis)), "ours", (b as any).value.millis)
  }
}).pipe(Effect.provide(DockerProvider.layer({ host: "unix://" + sock })), Effect.provide(Layer.mergeAll(Ledger.layerMemory, NodeContext.layer)))).then(() => process.exit(0), (e) => { console.error(e); process.exit(1) })
