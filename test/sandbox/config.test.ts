/** What each provider takes from the environment, and what is said of an environment that is of no use. */
import { existsSync, mkdtempSync, rmSync } from "node:fs"
import { createServer } from "node:http"
import { tmpdir } from "node:os"
import * as NodeContext from "@effect/platform-node/NodeContext"
import { assert, describe, it } from "@effect/vitest"
import type * as Config from "effect/Config"
import type * as ConfigError from "effect/ConfigError"
import * as ConfigProvider from "effect/ConfigProvider"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import * as DockerProvider from "../../src/sandbox/DockerProvider.js"
import * as E2BProvider from "../../src/sandbox/E2BProvider.js"
import * as Ledger from "../../src/sandbox/Ledger.js"
import * as LocalProvider from "../../src/sandbox/LocalProvider.js"
import * as OpenSandboxProvider from "../../src/sandbox/OpenSandboxProvider.js"
import { SandboxProvider } from "../../src/sandbox/SandboxProvider.js"
import { SandboxSpec } from "../../src/sandbox/SandboxSpec.js"
import * as E2BServer from "../../src/testing/E2BServer.js"
import * as OpenSandboxDouble from "../../src/testing/OpenSandboxDouble.js"
import * as Stub from "./e2b/stubProvider.js"
import { scriptSpec } from "./internal/local.js"

type Environment = Readonly<Record<string, string>>

const environment = (given: Environment) => ConfigProvider.fromMap(new Map(Object.entries(given)))

const read = <A>(config: Config.Config<A>, given: Environment) => Effect.withConfigProvider(config, environment(given))

/** The provider that a `layerConfig` makes of an environment, and nothing else. */
const built = <Id, E>(
  layer: Layer.Layer<SandboxProvider | Id, E, Ledger.Ledger | NodeContext.NodeContext>,
  given: Environment
): Effect.Effect<SandboxProvider["Type"], E, Scope.Scope> =>
  Effect.map(
    Layer.build(
      layer.pipe(
        Layer.provide(Layer.mergeAll(Layer.effect(Ledger.Ledger, Ledger.makeMemory), NodeContext.layer)),
        Layer.provide(Layer.setConfigProvider(environment(given)))
      )
    ),
    Context.get(SandboxProvider)
  )

/** What is said of an environment that a provider cannot be made of. */
const refusal = <Id>(
  layer: Layer.Layer<SandboxProvider | Id, ConfigError.ConfigError, Ledger.Ledger | NodeContext.NodeContext>,
  given: Environment
) => Effect.scoped(Effect.map(Effect.flip(built(layer, given)), String))

const folder = Effect.acquireRelease(
  Effect.sync(() => mkdtempSync(`${tmpdir()}/dh-config-`)),
  (path) => Effect.sync(() => rmSync(path, { recursive: true, force: true }))
)

describe("local, from the environment", () => {
  it.scopedLive("keeps sandboxes where DESKHAND_STATE_DIR says", () =>
    Effect.gen(function* () {
      const stateDir = `${yield* folder}/state`
      const provider = yield* built(LocalProvider.layerConfig, { DESKHAND_STATE_DIR: stateDir })
      const { id } = yield* provider.acquire(scriptSpec("exec sleep infinity"))
      assert.isTrue(existsSync(`${stateDir}/${id}`))
    })
  )

  it.scopedLive("names DESKHAND_STATE_DIR where sandboxes cannot be kept in it", () =>
    Effect.gen(function* () {
      // A folder that everybody may write to.
      const provider = yield* built(LocalProvider.layerConfig, { DESKHAND_STATE_DIR: "/tmp" })
      const { message } = yield* Effect.flip(provider.acquire(scriptSpec("exec sleep infinity")))
      assert.include(message, "DESKHAND_STATE_DIR")
    })
  )
})

describe("Docker, from the environment", () => {
  it.effect("every variable is an option", () =>
    Effect.gen(function* () {
      const all = yield* read(DockerProvider.config, {
        DOCKER_HOST: "tcp://engine.example:2376",
        DOCKER_TLS_VERIFY: "1",
        DOCKER_CERT_PATH: "/certificates",
        DESKHAND_DOCKER_IMAGE: "debian:12",
        DESKHAND_DOCKER_PUBLISH_HOST: "192.0.2.7",
        DESKHAND_DOCKER_NETWORK: "desks",
        DESKHAND_DEPLOYMENT: "nightly"
      })
      assert.deepStrictEqual(all, {
        host: "tcp://engine.example:2376",
        certificates: "/certificates",
        image: "debian:12",
        publishHost: "192.0.2.7",
        network: "desks",
        deployment: "nightly"
      })
      assert.deepStrictEqual(yield* read(DockerProvider.config, { HOME: "/home/me" }), {})
      // As docker itself has it: `~/.docker` unless the folder is named, and no TLS unless it is asked for.
      assert.deepStrictEqual(yield* read(DockerProvider.config, { HOME: "/home/me", DOCKER_TLS_VERIFY: "1" }), {
        certificates: "/home/me/.docker"
      })
      assert.deepStrictEqual(yield* read(DockerProvider.config, { DOCKER_CERT_PATH: "/certificates" }), {})
    })
  )

  it.scopedLive("asks the engine of DOCKER_HOST for what is of DESKHAND_DEPLOYMENT", () =>
    Effect.gen(function* () {
      const socket = `${yield* folder}/engine.sock`
      const asked: Array<string> = []
      yield* Effect.acquireRelease(
        Effect.async<() => void>((resume) => {
          const server = createServer((request, response) => {
            asked.push(decodeURIComponent(request.url ?? ""))
            response.setHeader("content-type", "application/json")
            response.end(
              request.url === "/version"
                ? JSON.stringify({ Version: "24.0.0", ApiVersion: "1.43" })
                : JSON.stringify([])
            )
          })
          server.listen(socket, () => resume(Effect.succeed(() => server.close())))
        }),
        (close) => Effect.sync(close)
      )
      const provider = yield* built(DockerProvider.layerConfig, {
        DOCKER_HOST: `unix://${socket}`,
        DESKHAND_DEPLOYMENT: "nightly"
      })
      assert.strictEqual(yield* Stream.runCount(provider.list({})), 0)
      const [listed, ...more] = asked.filter((url) => url.includes("/containers/json"))
      assert.include(listed ?? "", '"deskhand.deployment=nightly"')
      assert.deepStrictEqual(more, [])
    })
  )

  it.effect("names DOCKER_HOST when it is no address", () =>
    Effect.gen(function* () {
      const said = yield* refusal(DockerProvider.layerConfig, { DOCKER_HOST: "ftp://engine.example" })
      assert.include(said, "DOCKER_HOST")
      assert.include(said, "neither unix://, tcp:// nor ssh://")
    })
  )
})

describe("E2B, from the environment", () => {
  const digest = "0".repeat(64)

  it.effect("every variable is an option", () =>
    Effect.gen(function* () {
      const { apiKey, ...all } = yield* read(E2BProvider.config, {
        E2B_API_KEY: "e2b_key",
        E2B_API_URL: "https://api.example",
        E2B_DOMAIN: "desks.example",
        E2B_SANDBOX_URL: "https://gateway.example",
        E2B_TEMPLATES: "desk:1=desk, registry/a=b:2=other",
        E2B_TEMPLATE: "base",
        E2B_VNC_PORT: "8006",
        E2B_CA_FILE: "/ca.pem",
        E2B_CA_SHA256: digest,
        DESKHAND_DEPLOYMENT: "nightly"
      })
      assert.isTrue(apiKey !== undefined && Redacted.value(apiKey) === "e2b_key")
      assert.deepStrictEqual(all, {
        endpointMode: "gateway",
        apiUrl: "https://api.example",
        domain: "desks.example",
        gatewayUrl: "https://gateway.example",
        templates: { "desk:1": "desk", "registry/a=b:2": "other" },
        defaultTemplate: "base",
        vncPort: 8006,
        caFile: { path: "/ca.pem", sha256: digest },
        deployment: "nightly"
      })
      assert.deepStrictEqual(yield* read(E2BProvider.config, {}), { endpointMode: "hostname", templates: {} })
    })
  )

  it.scopedLive("opens what E2B_TEMPLATES names at the service of E2B_API_URL, with its key", () =>
    Effect.gen(function* () {
      const server = yield* E2BServer.make({
        apiKey: Redacted.make("e2b_0123456789abcdef"),
        templates: (name) => (name === "desk" ? new SandboxSpec({}) : undefined)
      })
      const provider = yield* built(E2BProvider.layerConfig, {
        E2B_API_KEY: "e2b_0123456789abcdef",
        E2B_API_URL: server.url,
        E2B_SANDBOX_URL: server.url,
        E2B_TEMPLATES: "desk:1=desk",
        DESKHAND_DEPLOYMENT: "nightly"
      })
      const sandbox = yield* provider.acquire(new SandboxSpec({ image: "desk:1" }))
      assert.strictEqual((yield* sandbox.exec({ command: ["echo", "here"] })).stdout, "here\n")
      const [entry] = yield* server.inventory
      assert.strictEqual(entry?.template, "desk")
      assert.strictEqual(entry?.metadata["deskhand.deployment"], "nightly")
    }).pipe(Effect.provide(Stub.layer(new Set())))
  )

  it.effect("names the variable that is wrong", () =>
    Effect.gen(function* () {
      const said = (given: Environment) => refusal(E2BProvider.layerConfig, given)
      assert.include(yield* said({ E2B_VNC_PORT: "novnc" }), "E2B_VNC_PORT")
      const templates = yield* said({ E2B_TEMPLATES: "desk" })
      assert.include(templates, "E2B_TEMPLATES")
      assert.include(templates, "image=template")
      assert.include(yield* said({ E2B_CA_FILE: "/ca.pem" }), "E2B_CA_SHA256")
      assert.include(yield* said({ E2B_CA_SHA256: digest }), "E2B_CA_FILE")
      const short = yield* said({ E2B_CA_FILE: "/ca.pem", E2B_CA_SHA256: "0123" })
      assert.include(short, "E2B_CA_SHA256")
      assert.include(short, "64 hexadecimal digits")
    })
  )
})

describe("OpenSandbox, from the environment", () => {
  it.effect("every variable is an option", () =>
    Effect.gen(function* () {
      const { apiKey, execdToken, ...all } = yield* read(OpenSandboxProvider.config, {
        OPENSANDBOX_BASE_URL: "https://box.example/v1",
        OPENSANDBOX_API_KEY: "k",
        OPENSANDBOX_PROTOCOL: "https",
        OPENSANDBOX_POOL_REF: "p",
        OPENSANDBOX_SERVER_PROXY: "true",
        OPENSANDBOX_EXECD_TOKEN: "t",
        DESKHAND_DEPLOYMENT: "nightly"
      })
      assert.isTrue(apiKey !== undefined && Redacted.value(apiKey) === "k")
      assert.isTrue(execdToken !== undefined && Redacted.value(execdToken) === "t")
      assert.notInclude(JSON.stringify({ apiKey, execdToken }), '"k"')
      assert.deepStrictEqual(all, {
        baseUrl: "https://box.example/v1",
        protocol: "https",
        poolRef: "p",
        useServerProxy: true,
        deployment: "nightly"
      })
      assert.deepStrictEqual(
        yield* read(OpenSandboxProvider.config, { OPENSANDBOX_BASE_URL: "http://127.0.0.1:8080/v1" }),
        { baseUrl: "http://127.0.0.1:8080/v1", useServerProxy: false }
      )
    })
  )

  it.scopedLive("opens sandboxes at the service of OPENSANDBOX_BASE_URL, with its key", () =>
    Effect.gen(function* () {
      const double = yield* OpenSandboxDouble.make({ startDelay: 5, deleteDelay: 5 })
      const provider = yield* built(OpenSandboxProvider.layerConfig, {
        OPENSANDBOX_BASE_URL: double.baseUrl,
        OPENSANDBOX_API_KEY: Redacted.value(double.apiKey),
        OPENSANDBOX_SERVER_PROXY: "true",
        OPENSANDBOX_POOL_REF: "desks",
        DESKHAND_DEPLOYMENT: "nightly"
      })
      const sandbox = yield* provider.acquire(new SandboxSpec({}))
      assert.strictEqual((yield* sandbox.exec({ command: ["echo", "here"] })).stdout, "here\n")
      const requests = yield* double.requests
      const created = JSON.stringify(requests.find(({ body }) => body !== undefined)?.body)
      assert.include(created, '"poolRef":"desks"')
      assert.include(created, '"nightly"')
      assert.isTrue(requests.some(({ url }) => url.includes("/proxy/44772/command")))
    })
  )

  it.effect("names the variable that is missing or wrong", () =>
    Effect.gen(function* () {
      const baseUrl = { OPENSANDBOX_BASE_URL: "http://127.0.0.1:8080/v1" }
      const said = (given: Environment) => refusal(OpenSandboxProvider.layerConfig, given)
      assert.include(yield* said({}), "OPENSANDBOX_BASE_URL")
      assert.include(yield* said({ ...baseUrl, OPENSANDBOX_PROTOCOL: "ftp" }), "OPENSANDBOX_PROTOCOL")
      assert.include(yield* said({ ...baseUrl, OPENSANDBOX_SERVER_PROXY: "perhaps" }), "OPENSANDBOX_SERVER_PROXY")
    })
  )
})
