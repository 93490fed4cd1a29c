import * as NodeContext from "@effect/platform-node/NodeContext"
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { describe, it } from "vitest"
import * as DockerProvider from "../../src/sandbox/DockerProvider.js"
import * as Ledger from "../../src/sandbox/Ledger.js"
import { CommandReadiness, HttpReadiness, SandboxSpec } from "../../src/sandbox/SandboxSpec.js"
import { providerConformance } from "../../src/testing/ProviderConformance.js"
import * as Engine from "./docker/engine.js"
import * as Faults from "./docker/faults.js"
import { drawn } from "./internal/schedules.js"

const skipped = Engine.skipReason()

const deployment = `conformance-${process.pid}-${Date.now()}`

/** What stands between the provider and the engine. */
class Faulty extends Context.Tag("test/Faulty")<Faulty, Faults.Faulty>() {}

const layer = Layer.unwrapEffect(
  Effect.map(Faulty, ({ host }) =>
    DockerProvider.layer({
      host,
      deployment,
      // A create that is lost goes on for up to a second in the engine, and nobody sees it.
      settle: { looks: 3, spacing: "500 millis", limit: "30 seconds", removal: "30 seconds", close: "60 seconds" }
    })
  )
).pipe(
  Layer.provideMerge(Layer.scoped(Faulty, Faults.make(Engine.host))),
  Layer.provideMerge(Ledger.layerMemory),
  Layer.provide(NodeContext.layer)
)

const next = (call: RegExp, fault: Faults.Fault) => Effect.map(Faulty, (faulty) => faulty.next(call, fault))

const answer = (status: number, message: string, acts = false): Faults.Fault => ({
  _tag: "Answer",
  status,
  message,
  acts
})

const create = /^POST \/containers\/create/
const start = /^POST \/containers\/[^/]+\/start/
const remove = /^DELETE/
const list = /^GET \/containers\/json/
const look = /^GET \/containers\/[^/]+\/json/

const lost: Faults.Fault = { _tag: "Lose" }
const late: Faults.Fault = { _tag: "Delay", millis: 400 }
const failure = "driver failed programming external connectivity"

const faults = {
  inject: {
    "create: the answer is lost": next(create, lost),
    "create: it comes late": next(create, late),
    "create: it comes after it was given up": next(create, { _tag: "Delay", millis: 2000 }),
    "create: 500": next(create, answer(500, "no space left on device")),
    "create: 500, and it is there": next(create, answer(500, "context canceled", true)),
    "create: 409, and it is there": next(create, answer(409, "Conflict. The container name is in use", true)),
    "create: 429": next(create, answer(429, "too many requests")),
    "start: the answer is lost": next(start, lost),
    "start: it comes late": next(start, late),
    "start: 500": next(start, answer(500, failure)),
    "start: 500, and it runs": next(start, answer(500, failure, true)),
    "remove: the answer is lost": next(remove, lost),
    "remove: it comes late": next(remove, late),
    "remove: 500": next(remove, answer(500, "device or resource busy")),
    "remove: 500, and it is gone": next(remove, answer(500, "device or resource busy", true)),
    "remove: 409": next(remove, answer(409, "removal of container x is already in progress")),
    "remove: 404": next(remove, answer(404, "No such container: x")),
    "list: 500": next(list, answer(500, "No such container: x")),
    "list: the answer is lost": next(list, lost),
    "list: it comes late": next(list, late),
    "look: 500": next(look, answer(500, "context deadline exceeded")),
    "look: 404": next(look, answer(404, "No such container: x")),
    "look: the answer is lost": next(look, lost)
  },
  clear: Effect.map(Faulty, (faulty) => faulty.clear()),
  specs: {
    "there is no such image": { image: "deskhand-none:none" },
    "its entrypoint is not there": { entrypoint: ["/no/such/program"] },
    "its entrypoint ends at once": { entrypoint: ["/bin/false"] },
    "it is never ready": {
      readiness: new CommandReadiness({ command: ["/bin/false"], timeout: Duration.millis(300) })
    }
  }
} as const

/** The engine's own answer, past the provider and what stands between. */
const leftovers = Effect.sync(() =>
  Engine.docker("ps", "-aq", "--filter", `label=deskhand.deployment=${deployment}`)
    .split("\n")
    .filter((id) => id !== "")
)

const port = 8000

const server = [
  '$s=IO::Socket::INET->new(LocalAddr=>"0.0.0.0",LocalPort=>8000,Listen=>9,ReuseAddr=>1) or die;',
  "while($c=$s->accept){while(<$c>){last if /^\\r/}",
  'print $c "HTTP/1.1 200 OK\\r\\nContent-Length: 5\\r\\nConnection: close\\r\\n\\r\\nhello";close $c}'
].join("")

if (skipped === undefined) {
  providerConformance("DockerProvider", layer, {
    spec: (fields) => new SandboxSpec({ image: Engine.image, ...fields }),
    server: {
      spec: (fields) =>
        new SandboxSpec({
          image: Engine.image,
          entrypoint: ["/usr/bin/perl", "-MIO::Socket::INET", "-e", server],
          ports: [port],
          readiness: new HttpReadiness({ port, path: "/", timeout: Duration.seconds(20) }),
          ...fields
        }),
      port,
      body: "hello"
    },
    ...drawn(100),
    concurrency: 12,
    faults,
    leftovers
  })
} else {
  describe("DockerProvider", () => {
    it.skip(`conforms (${skipped})`, () => {})
  })
}
