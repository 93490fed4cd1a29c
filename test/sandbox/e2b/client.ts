/**
 * A program that uses an E2B service as its environment says, and prints what came of it: Node reads the certificates
 * that it trusts when it starts, so a test of them needs a process of its own.
 */
import dns from "node:dns"
import * as NodeContext from "@effect/platform-node/NodeContext"
import * as Chunk from "effect/Chunk"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Layer from "effect/Layer"
import * as Schedule from "effect/Schedule"
import * as Stream from "effect/Stream"
import * as E2BProvider from "../../../src/sandbox/E2BProvider.js"
import { Endpoint, httpClient } from "../../../src/sandbox/Endpoint.js"
import * as Ledger from "../../../src/sandbox/Ledger.js"
import { SandboxProvider } from "../../../src/sandbox/SandboxProvider.js"
import { SandboxSpec } from "../../../src/sandbox/SandboxSpec.js"

export interface Report {
  readonly checks: ReadonlyArray<{ readonly subject: string; readonly ok: boolean; readonly found: string }>
  /** Why no sandbox was opened. */
  readonly refused?: string
  readonly sandbox?: {
    readonly id: string
    readonly said: string
    readonly file: string
    readonly endpoint: string
    readonly page: string
  }
}

const port = Number(process.env["SERVICE_PORT"])

// A service has wildcard names in its DNS. No file of this machine can hold such, so they are put below all programs.
const lookup = dns.lookup
Object.defineProperty(dns, "lookup", {
  value: (
    name: string,
    ...rest: [dns.LookupAllOptions, (error: Error | null, found: Array<dns.LookupAddress>) => void]
  ) => lookup(name.endsWith(".desks.test") ? "127.0.0.1" : name, ...rest)
})

const used = Effect.gen(function* () {
  const provider = Context.get(yield* Layer.build(E2BProvider.layerConfig), SandboxProvider)
  const checks = (yield* provider.preflight).map(({ found, ok, subject }) => ({ subject, ok, found }))
  const opened = yield* Effect.either(provider.acquire(new SandboxSpec({ image: "desk:1", ports: [port] })))
  if (Either.isLeft(opened)) {
    const report: Report = { checks, refused: `${opened.left._tag}: ${opened.left.message}` }
    return report
  }
  const sandbox = opened.right
  const serve = `require("node:http").createServer((_, answer) => answer.end("page")).listen(${port}, "127.0.0.1", () => console.log("up"))`
  // To leave it is to end it, so it is listened to for as long as the page is wanted.
  yield* sandbox.execStream({ command: ["node", "-e", serve] }).pipe(Stream.runDrain, Effect.forkScoped)
  yield* sandbox.upload("/tmp/file", Stream.make(Buffer.from("bytes")))
  const bytes = Chunk.toReadonlyArray(yield* Stream.runCollect(sandbox.download("/tmp/file")))
  const endpoint = yield* sandbox.endpoint(port)
  const client = yield* httpClient(endpoint)
  const page = yield* Effect.gen(function* () {
    const answer = yield* client.get("/")
    return answer.status === 200 ? yield* answer.text : yield* Effect.fail(`the port answers ${answer.status}`)
  }).pipe(Effect.retry(Schedule.intersect(Schedule.recurs(600), Schedule.spaced("50 millis"))))
  const report: Report = {
    checks,
    sandbox: {
      id: sandbox.id,
      said: (yield* sandbox.exec({ command: ["echo", "here"] })).stdout,
      file: Buffer.concat(bytes).toString(),
      endpoint: Endpoint.$is("Tcp")(endpoint) ? endpoint.url : "",
      page
    }
  }
  return report
}).pipe(Effect.scoped, Effect.provide(Layer.merge(Layer.effect(Ledger.Ledger, Ledger.makeMemory), NodeContext.layer)))

process.stdout.write(JSON.stringify(await Effect.runPromise(used)))
