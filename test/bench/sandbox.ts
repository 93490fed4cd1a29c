/**
 * What owning a Docker sandbox costs over opening it: ledger, labels, confirmation, against the same calls made raw.
 *
 *     DOCKER_HOST=unix:///var/tmp/deskhand-docker/docker.sock npm run bench:sandbox
 */
import { randomBytes } from "node:crypto"
import * as FileSystem from "@effect/platform/FileSystem"
import * as NodeContext from "@effect/platform-node/NodeContext"
import * as NodeRuntime from "@effect/platform-node/NodeRuntime"
import * as Undici from "@effect/platform-node/Undici"
import * as Console from "effect/Console"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as DockerProvider from "../../src/sandbox/DockerProvider.js"
import * as Ledger from "../../src/sandbox/Ledger.js"
import { SandboxProvider } from "../../src/sandbox/SandboxProvider.js"
import { SandboxSpec } from "../../src/sandbox/SandboxSpec.js"

const sandboxes = 50
const concurrency = 10
const rounds = 3
const image = process.env.DESKHAND_DOCKER_IMAGE ?? "deskhand-base:bookworm"
const socketPath = (process.env.DOCKER_HOST ?? "unix:///var/run/docker.sock").replace(/^unix:\/\//, "")

const all = <A, E, R>(one: Effect.Effect<A, E, R>) =>
  Effect.forEach(Array.from({ length: sandboxes }), () => one, { concurrency, discard: true })

/** Create, start, remove, and nothing else. */
const raw = (agent: Undici.Agent) => {
  const call = (method: "POST" | "DELETE", path: string, body?: unknown) =>
    Effect.promise(async () => {
      const response = await Undici.request(`http://docker${path}`, {
        dispatcher: agent,
        method,
        ...(body === undefined ? {} : { headers: { "content-type": "application/json" }, body: JSON.stringify(body) })
      })
      const text = await response.body.text()
      if (response.statusCode >= 300) throw new Error(`${method} ${path}: ${response.statusCode} ${text}`)
      return text === "" ? undefined : (JSON.parse(text) as { readonly Id: string })
    })
  return Effect.gen(function* () {
    const created = yield* call("POST", `/containers/create?name=raw-${randomBytes(6).toString("hex")}`, {
      Image: image,
      Entrypoint: ["sleep", "infinity"],
      HostConfig: { NetworkMode: "none", Init: true }
    })
    yield* call("POST", `/containers/${created?.Id}/start`)
    yield* call("DELETE", `/containers/${created?.Id}?force=1&v=1`)
  })
}

const spec = new SandboxSpec({
  image,
  entrypoint: ["sleep", "infinity"],
  env: {},
  files: {},
  mounts: [],
  systemFiles: [],
  ports: [],
  network: "none",
  metadata: { run: "bench" }
})

const seconds = (effect: Effect.Effect<unknown, unknown, SandboxProvider>) =>
  Effect.map(Effect.timed(effect), ([took]) => Duration.toSeconds(took))

const bench = Effect.gen(function* () {
  const provider = yield* SandboxProvider
  const agent = new Undici.Agent({ connect: { socketPath } })
  const ours = Effect.scoped(provider.acquire(spec))
  const bare = raw(agent)
  // Once unmeasured, for whatever happens only once.
  yield* ours
  yield* bare
  let [mine, theirs] = [0, 0]
  // In turns, so that the machine's noise falls on both.
  for (let round = 0; round < rounds; round++) {
    theirs += yield* seconds(all(bare))
    mine += yield* seconds(all(ours))
  }
  yield* Effect.promise(() => agent.close())
  yield* Console.log(
    [
      `${sandboxes} Docker sandboxes opened and removed, ${concurrency} at a time, ${rounds} rounds in turns`,
      `Deskhand                  ${((1000 * mine) / rounds / sandboxes).toFixed(0).padStart(5)} ms a sandbox`,
      `baseline: the Engine API  ${((1000 * theirs) / rounds / sandboxes).toFixed(0).padStart(5)} ms a sandbox`,
      `ratio to the baseline: ${(mine / theirs).toFixed(2)}`
    ].join("\n")
  )
})

const ledger = Layer.unwrapScoped(
  Effect.map(
    Effect.flatMap(FileSystem.FileSystem, (fs) => fs.makeTempDirectoryScoped()),
    (folder) => Ledger.layer({ path: `${folder}/ledger.jsonl` })
  )
)

bench.pipe(
  Effect.provide(DockerProvider.layerConfig),
  Effect.provide(ledger),
  Effect.provide(NodeContext.layer),
  NodeRuntime.runMain
)
