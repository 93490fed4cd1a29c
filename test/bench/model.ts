/**
 * What the model client costs over a bare HTTP client that sends the same bytes, whether its memory grows with the number
 * of calls, and what the gateway adds to a call's time.
 *
 *     npm run bench:model
 *
 * It is compiled first, as the package is: what runs TypeScript as it stands adds to the cost of every function.
 */
import { spawn } from "node:child_process"
import { randomBytes } from "node:crypto"
import { open, readFile } from "node:fs/promises"
import { join } from "node:path"
import { Readable } from "node:stream"
import * as FileSystem from "@effect/platform/FileSystem"
import * as NodeContext from "@effect/platform-node/NodeContext"
import * as NodeRuntime from "@effect/platform-node/NodeRuntime"
import * as Undici from "@effect/platform-node/Undici"
import * as Console from "effect/Console"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type * as Scope from "effect/Scope"
import { ArtifactStore, type BlobRef, layer as storeLayer } from "../../src/artifact/ArtifactStore.js"
import * as ChatCompletions from "../../src/model/ChatCompletions.js"
import * as Connections from "../../src/model/Connections.js"
import { ImagePart, system, text, user } from "../../src/model/Conversation.js"
import { type ModelClient, ModelRequest } from "../../src/model/ModelClient.js"
import { Sampling } from "../../src/model/Sampling.js"
import * as Simulator from "../rollout/simulator.js"

const imageBytes = 300_000
const imagesPerCall = 3
const calls = 1_000
const concurrency = 64
const rounds = 5
const smallCalls = 400

const instruction = "You see a desktop. Say what to do next as one line of Python."
const question = "Three screens, oldest first."
const sampling = new Sampling({ temperature: 1, maxTokens: 1_024 })
const identity = Simulator.identity()

/** npm starts scripts in the package's folder. */
const file = (name: string) => join(process.cwd(), name)

/** What a program of ours prints until the pattern is found. The program ends with the scope. */
const started = (args: ReadonlyArray<string>, pattern: RegExp): Effect.Effect<string, never, Scope.Scope> =>
  Effect.flatMap(
    Effect.acquireRelease(
      Effect.sync(() => spawn(process.execPath, ["--import", "tsx", ...args], { stdio: ["pipe", "pipe", "inherit"] })),
      (child) => Effect.sync(() => child.kill("SIGKILL"))
    ),
    (child) =>
      Effect.async<string>((resume) => {
        let out = ""
        child.stdout.on("data", (chunk: Buffer) => {
          out += chunk.toString()
          const found = pattern.exec(out)?.[1]
          if (found !== undefined) resume(Effect.succeed(found))
        })
        child.on("exit", (code) => resume(Effect.dieMessage(`${args.join(" ")} ended with ${code}`)))
      })
  )

const median = (values: ReadonlyArray<number>): number => {
  const sorted = values.toSorted((a, b) => a - b)
  return sorted[Math.floor(sorted.length / 2)] ?? Number.NaN
}

/** CPU time of this process, threads that read files included, in milliseconds. */
const cpu = <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<number, E, R> =>
  Effect.gen(function* () {
    const before = process.cpuUsage()
    yield* effect
    const { system, user } = process.cpuUsage(before)
    return (system + user) / 1_000
  })

const many = <E, R>(count: number, one: (index: number) => Effect.Effect<unknown, E, R>) =>
  Effect.forEach(
    Array.from({ length: count }, (_, index) => index),
    one,
    { concurrency, discard: true }
  )

/** Images of a call, and the messages that have them. */
interface Prompt {
  readonly blobs: ReadonlyArray<BlobRef>
  readonly messages: ModelRequest["messages"]
}

const promptOf = (blobs: ReadonlyArray<BlobRef>): Prompt => ({
  blobs,
  messages: [system(instruction), user(text(question), ...blobs.map((blob) => new ImagePart({ blob })))]
})

type Pick = (index: number) => Prompt

const ours = (model: ModelClient["Type"], pick: Pick) => (index: number) =>
  model.complete(new ModelRequest({ messages: pick(index).messages, sampling, identity, step: 0 }))

interface Bare {
  readonly agent: Undici.Agent
  readonly url: string
  readonly directory: string
  readonly pick: Pick
}

const jsonOf = (urls: ReadonlyArray<string>) =>
  JSON.stringify({
    messages: [
      { role: "system", content: instruction },
      {
        role: "user",
        content: [{ type: "text", text: question }, ...urls.map((url) => ({ type: "image_url", image_url: { url } }))]
      }
    ],
    temperature: 1,
    max_tokens: 1_024,
    model: "stub"
  })

const posted = async ({ agent, url }: Bare, body: string | AsyncIterable<string>, length: number) => {
  const response = await Undici.request(`${url}/chat/completions`, {
    dispatcher: agent,
    method: "POST",
    headers: { "content-type": "application/json", "content-length": String(length) },
    // Undici takes whatever can be iterated, and its types name streams alone.
    body: typeof body === "string" ? body : Readable.from(body)
  })
  const reply = (await response.body.json()) as { readonly id: string }
  if (response.statusCode !== 200) throw new Error(`status ${response.statusCode}`)
  return reply
}

const encoded = async (directory: string, { sha256 }: BlobRef) =>
  (await readFile(join(directory, sha256))).toString("base64")

/** Reads, encodes, and sends one text, as is usually done. */
const whole = (bare: Bare) => (index: number) =>
  Effect.promise(async () => {
    const images = await Promise.all(bare.pick(index).blobs.map((blob) => encoded(bare.directory, blob)))
    const body = jsonOf(images.map((base64) => `data:image/png;base64,${base64}`))
    return posted(bare, body, Buffer.byteLength(body))
  })

/** Reads and encodes an image when its turn comes to be sent: the cheapest way that we know. */
const streamed = (bare: Bare) => (index: number) =>
  Effect.promise(async () => {
    const { blobs } = bare.pick(index)
    const parts = jsonOf(blobs.map(() => "data:image/png;base64,@@")).split("@@")
    const length = parts.join("").length + blobs.reduce((sum, { bytes }) => sum + Math.ceil(bytes / 3) * 4, 0)
    const body = async function* () {
      for (const [at, part] of parts.entries()) {
        yield part
        const blob = blobs[at]
        if (blob !== undefined) yield await encoded(bare.directory, blob)
      }
    }
    return posted(bare, body(), length)
  })

const mebibytes = (bytes: number) => `${(bytes / 1024 / 1024).toFixed(0)} MiB`

const bench = Effect.gen(function* () {
  const store = yield* ArtifactStore
  const root = yield* started([file("test/bench/modelStub.ts")], /^(http:\S+)\n/m)
  const url = `${root}/v1`
  const blobs = yield* Effect.forEach(Array.from({ length: 24 }), () => store.put(randomBytes(imageBytes), "image/png"))
  const prompts = blobs.map((_, index) =>
    promptOf(
      Array.from({ length: imagesPerCall }, (_, at) => blobs.at((index + at) % blobs.length)).flatMap(
        (blob) => blob ?? []
      )
    )
  )
  const [first] = prompts
  if (first === undefined) return
  const pick: Pick = (index) => prompts[index % prompts.length] ?? first
  const model = yield* ChatCompletions.make({ url, model: "stub" })
  const agent = new Undici.Agent({ connections: concurrency })
  const bare: Bare = { agent, url, directory: store.directory, pick }

  const digesting = { ...bare, url: `${root}/digest/v1` }
  const digests = yield* Effect.all([
    Effect.flatMap(ChatCompletions.make({ url: digesting.url, model: "stub" }), (one) => ours(one, pick)(0)),
    whole(digesting)(0),
    streamed(digesting)(0)
  ])
  if (new Set(digests.map(({ id }) => id)).size !== 1) {
    return yield* Effect.dieMessage("the clients do not send the same bytes")
  }

  yield* Console.log(
    `${calls} calls with ${imagesPerCall} images of ${imageBytes / 1_000} KB, ${concurrency} at a time, to a stub in another process`
  )

  // Memory, before the other client has used any.
  let done = 0
  for (const until of [200, 500, 1_000]) {
    yield* many(until - done, ours(model, pick))
    done = until
    // What is only waiting to be collected says nothing.
    globalThis.gc?.()
    yield* Effect.sleep("200 millis")
    globalThis.gc?.()
    const { external, heapUsed, rss } = process.memoryUsage()
    yield* Console.log(
      `memory after ${String(until).padStart(5)} calls: ${mebibytes(rss)} resident, ${mebibytes(heapUsed)} heap, ${mebibytes(external)} buffers`
    )
  }

  const each = calls / rounds
  const clients = [
    { name: "Deskhand", call: ours(model, pick), spent: [] as number[] },
    { name: "baseline: undici, one text", call: whole(bare), spent: [] as number[] },
    { name: "baseline: undici, streamed", call: streamed(bare), spent: [] as number[] }
  ]
  for (const { call } of clients) yield* many(each, call)
  // In turns, so that the machine's noise falls on all.
  for (let round = 0; round < rounds; round++) {
    for (const { call, spent } of clients) spent.push((yield* cpu(many(each, call))) / each)
  }
  const mine = clients[0]?.spent ?? []
  for (const { name, spent } of clients) {
    const ratio = `, ratio ${(median(mine) / median(spent)).toFixed(2)}, of the least ${(Math.min(...mine) / Math.min(...spent)).toFixed(2)}`
    yield* Console.log(
      `${name.padEnd(26)} ${median(spent).toFixed(2)} ms CPU a call, median of ${rounds} rounds, least ${Math.min(...spent).toFixed(2)}${spent === mine ? "" : ratio}`
    )
  }

  // The gateway, a small request at a time.
  const fs = yield* FileSystem.FileSystem
  const captured = yield* fs.makeTempDirectoryScoped()
  const gateway = (...args: ReadonlyArray<string>) =>
    started([file("examples/osworld.ts"), "gateway", "--upstream", url, ...args], /is at (http:\S+)\. /)
  const bases = {
    direct: url,
    "through the gateway": `${yield* gateway()}/v1`,
    "through it, captured": `${yield* gateway("--capture", captured)}/ng-rollout/bench/v1`
  }
  const small = JSON.stringify({ model: "stub", messages: [{ role: "user", content: "What now?" }], max_tokens: 16 })
  const took = new Map<string, Array<number>>(Object.keys(bases).map((name) => [name, []]))
  // What the disk takes for a line of that size, which a captured call waits for.
  const log = yield* Effect.promise(() => open(join(captured, "line"), "a"))
  const synced: Array<number> = []
  for (let index = -20; index < smallCalls; index++) {
    yield* Effect.promise(async () => {
      const began = performance.now()
      await log.appendFile(`${"x".repeat(1_000)}\n`)
      await log.sync()
      if (index >= 0) synced.push(performance.now() - began)
    })
    for (const [name, base] of Object.entries(bases)) {
      yield* Effect.promise(async () => {
        const began = performance.now()
        const response = await Undici.request(`${base}/chat/completions`, {
          dispatcher: agent,
          method: "POST",
          headers: { "content-type": "application/json" },
          body: small
        })
        await response.body.text()
        if (response.statusCode !== 200) throw new Error(`${name}: status ${response.statusCode}`)
        if (index >= 0) took.get(name)?.push(performance.now() - began)
      })
    }
  }
  const direct = median(took.get("direct") ?? [])
  yield* Console.log(`${smallCalls} small calls, one at a time`)
  for (const [name, values] of took) {
    const added = median(values) - direct
    yield* Console.log(
      `${name.padEnd(21)} ${median(values).toFixed(2).padStart(6)} ms at the median${name === "direct" ? "" : `, ${added.toFixed(2)} ms more`}`
    )
  }
  yield* Console.log(`of which the disk keeps a line for ${median(synced).toFixed(2)} ms`)
  yield* Effect.promise(() => Promise.all([agent.close(), log.close()]))
})

const store = Layer.unwrapScoped(
  Effect.map(
    Effect.flatMap(FileSystem.FileSystem, (fs) => fs.makeTempDirectoryScoped()),
    (directory) => storeLayer({ directory })
  )
)

bench.pipe(
  Effect.scoped,
  Effect.provide(Layer.merge(store, Connections.layer({ perOrigin: concurrency }))),
  Effect.provide(NodeContext.layer),
  NodeRuntime.runMain
)
