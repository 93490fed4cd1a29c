import * as NodeContext from "@effect/platform-node/NodeContext"
import * as Duration from "effect/Duration"
import * as Layer from "effect/Layer"
import { describe, it } from "vitest"
import * as DockerProvider from "../../src/sandbox/DockerProvider.js"
import * as Ledger from "../../src/sandbox/Ledger.js"
import { HttpReadiness, SandboxSpec } from "../../src/sandbox/SandboxSpec.js"
import { providerConformance } from "../../src/testing/ProviderConformance.js"
import * as Engine from "./docker/engine.js"

const skipped = Engine.skipReason()

const layer = DockerProvider.layer({
  host: Engine.host,
  deployment: `conformance-${process.pid}-${Date.now()}`,
  settle: { looks: 2, spacing: "300 millis", limit: "30 seconds", removal: "30 seconds", close: "60 seconds" }
}).pipe(Layer.provideMerge(Ledger.layerMemory), Layer.provide(NodeContext.layer))

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
    schedules: Number(process.env["DESKHAND_SCHEDULES"] ?? 100),
    concurrency: 4
  })
} else {
  describe("DockerProvider", () => {
    it.skip(`conforms (${skipped})`, () => {})
  })
}
