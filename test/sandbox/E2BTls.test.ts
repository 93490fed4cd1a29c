/** The real SDK behind TLS with an authority of the service's own, in both ways of reaching sandboxes. */
import { spawn } from "node:child_process"
import { createHash } from "node:crypto"
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from "node:fs"
import * as Net from "node:net"
import { tmpdir } from "node:os"
import * as Tls from "node:tls"
import { fileURLToPath } from "node:url"
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import { SandboxSpec } from "../../src/sandbox/SandboxSpec.js"
import * as E2BServer from "../../src/testing/E2BServer.js"
import { authority } from "./e2b/certificates.js"
import type { Report } from "./e2b/client.js"
import { key, servicePort } from "./e2b/fixture.js"
import * as Stub from "./e2b/stubProvider.js"

const program = fileURLToPath(new URL("./e2b/client.ts", import.meta.url))

/** A service behind TLS; `run` is a client of it with this environment besides what all clients of it have. */
const service = Effect.gen(function* () {
  const folder = yield* Effect.acquireRelease(
    Effect.sync(() => mkdtempSync(`${tmpdir()}/dh-tls-`)),
    (path) => Effect.sync(() => rmSync(path, { recursive: true, force: true }))
  )
  const ours = authority("a service of one's own")
  const { certificate, key: privateKey } = ours.host("api.desks.test", "*.desks.test")
  let behind = 0
  const front = Tls.createServer({ cert: certificate, key: privateKey }, (socket) => {
    const server = Net.connect(behind, "127.0.0.1")
    for (const [from, to] of [
      [socket, server],
      [server, socket]
    ] as const) {
      from.on("error", () => to.destroy())
      from.pipe(to)
    }
  })
  front.on("tlsClientError", () => {})
  const port = yield* Effect.acquireRelease(
    Effect.async<number>((resume) => {
      front.listen(0, "127.0.0.1", () => {
        const address = front.address()
        resume(Effect.succeed(typeof address === "object" && address !== null ? address.port : 0))
      })
    }),
    () => Effect.sync(() => front.close())
  )
  const server = yield* E2BServer.make({
    apiKey: Redacted.make(key),
    templates: (name) => (name === "desk" ? new SandboxSpec({ ports: [servicePort] }) : undefined),
    domain: `desks.test:${port}`
  }).pipe(Effect.provide(Stub.layer(new Set())))
  behind = Number(new URL(server.url).port)
  const caFile = `${folder}/ca.pem`
  writeFileSync(caFile, ours.certificate)
  chmodSync(caFile, 0o400)
  const run = (environment: Readonly<Record<string, string>>) =>
    Effect.async<Report, string>((resume) => {
      const child = spawn(process.execPath, ["--import", "tsx", program], {
        env: {
          PATH: process.env["PATH"] ?? "",
          HOME: folder,
          SERVICE_PORT: String(servicePort),
          E2B_API_KEY: key,
          E2B_TEMPLATES: "desk:1=desk",
          E2B_CA_FILE: caFile,
          E2B_CA_SHA256: createHash("sha256").update(ours.certificate).digest("hex"),
          NODE_EXTRA_CA_CERTS: caFile,
          ...environment
        }
      })
      let out = ""
      let err = ""
      child.stdout.on("data", (bytes: Buffer) => {
        out += bytes.toString()
      })
      child.stderr.on("data", (bytes: Buffer) => {
        err += bytes.toString()
      })
      child.on("close", (code) => resume(code === 0 ? Effect.succeed(JSON.parse(out)) : Effect.fail(`${code}: ${err}`)))
      return Effect.sync(() => child.kill("SIGKILL"))
    })
  return { caFile, port, run, server }
})

const failed = ({ checks }: Report) => checks.filter(({ ok }) => !ok).map(({ subject }) => subject)

const used = (report: Report) => {
  const { endpoint: _, id: __, ...rest } = report.sandbox ?? assert.fail(JSON.stringify(report))
  assert.deepStrictEqual(rest, { said: "here\n", file: "bytes", page: "page" })
}

describe("E2B behind TLS", () => {
  it.scopedLive("a pinned authority is enough, behind a gateway", () =>
    Effect.gen(function* () {
      const { caFile, port, run, server } = yield* service
      const url = `https://127.0.0.1:${port}`
      const report = yield* run({ E2B_API_URL: url, E2B_SANDBOX_URL: url })
      assert.deepStrictEqual(failed(report), [])
      const pinned = report.checks.find(({ subject }) => subject === "certificate authority")
      assert.include(pinned?.found ?? "", caFile)
      used(report)
      assert.strictEqual(report.sandbox?.endpoint, url)
      assert.deepStrictEqual(yield* server.inventory, [])
    })
  )

  it.scopedLive("each port has a host name of its own, and requests come by these alone", () =>
    Effect.gen(function* () {
      const { port, run, server } = yield* service
      const report = yield* run({ E2B_API_URL: `https://api.desks.test:${port}` })
      assert.deepStrictEqual(failed(report), [])
      used(report)
      const id = report.sandbox?.id
      assert.strictEqual(report.sandbox?.endpoint, `https://${servicePort}-${id}.desks.test:${port}`)
      const hosts = new Set((yield* server.seen).map(({ headers }) => headers.host))
      assert.deepStrictEqual(
        [...hosts].sort(),
        [
          `${servicePort}-${id}.desks.test:${port}`,
          // envd's own port (E2B's protocol).
          `49983-${id}.desks.test:${port}`,
          `api.desks.test:${port}`
        ].sort()
      )
      // The key is the control plane's.
      for (const { headers } of yield* server.seen) {
        assert.strictEqual(headers["x-api-key"] !== undefined, headers.host === `api.desks.test:${port}`)
      }
      assert.deepStrictEqual(yield* server.inventory, [])
    })
  )

  it.scopedLive("without the authority, or with another one, nothing is opened and the key is not sent", () =>
    Effect.gen(function* () {
      const { caFile, port, run, server } = yield* service
      const url = `https://127.0.0.1:${port}`
      const another = `${caFile}.another`
      writeFileSync(another, authority("another service's").certificate)
      for (const trusted of ["", another]) {
        const report = yield* run({ E2B_API_URL: url, E2B_SANDBOX_URL: url, NODE_EXTRA_CA_CERTS: trusted })
        assert.deepStrictEqual(failed(report), ["certificate authority", "control plane"])
        // Node's name for it (OpenSSL's X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE).
        const control = report.checks.find(({ subject }) => subject === "control plane")
        assert.include(control?.found ?? "", "UNABLE_TO_VERIFY_LEAF_SIGNATURE")
        assert.match(report.refused ?? "", /^ProviderUnavailable: /)
      }
      assert.deepStrictEqual(yield* server.seen, [])
    })
  )
})
