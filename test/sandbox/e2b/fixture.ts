/** The real SDK's provider in front of the E2B server, in front of processes of this machine. */
import * as NodeContext from "@effect/platform-node/NodeContext"
import * as Effect from "effect/Effect"
import * as Logger from "effect/Logger"
import * as Redacted from "effect/Redacted"
import type * as Scope from "effect/Scope"
import * as E2BProvider from "../../../src/sandbox/E2BProvider.js"
import * as Ledger from "../../../src/sandbox/Ledger.js"
import { SandboxProvider } from "../../../src/sandbox/SandboxProvider.js"
import { SandboxSpec } from "../../../src/sandbox/SandboxSpec.js"
import * as E2BServer from "../../../src/testing/E2BServer.js"
import * as Stub from "./stubProvider.js"

export const key = "e2b_0123456789abcdef"

/** The port that a test's own server in a sandbox listens at. */
export const servicePort = 40_000 + (process.pid % 20_000)

export const settle: NonNullable<E2BProvider.Options["settle"]> = {
  looks: 3,
  spacing: "150 millis",
  limit: "10 seconds",
  removal: "10 seconds",
  close: "15 seconds"
}

export interface Fixture {
  readonly server: E2BServer.E2BServer["Type"]
  readonly provider: SandboxProvider["Type"]
  readonly controls: E2BProvider.E2BControls["Type"]
  readonly ledger: Ledger.Ledger["Type"]
  readonly options: E2BProvider.Options
  /** Folders of the stub's sandboxes. */
  readonly folders: ReadonlySet<string>
}

export const spec = (fields: ConstructorParameters<typeof SandboxSpec>[0] = {}) =>
  new SandboxSpec({ image: "desk:1", metadata: { run: "r1" }, ...fields })

/** `use` is over, and what it acquired is released, before `after` looks at what is left. */
export const withProvider = <A, E, B, F>(
  settings: { readonly server?: Partial<E2BServer.Options>; readonly provider?: Partial<E2BProvider.Options> },
  use: (fixture: Fixture) => Effect.Effect<A, E, Scope.Scope>,
  after: (fixture: Fixture, result: A) => Effect.Effect<B, F> = () => Effect.succeed(undefined as B)
) => {
  const folders = new Set<string>()
  return Effect.gen(function* () {
    const server = yield* E2BServer.E2BServer
    const ledger = yield* Ledger.makeMemory
    const options: E2BProvider.Options = {
      apiKey: Redacted.make(key),
      apiUrl: server.url,
      endpointMode: "gateway",
      gatewayUrl: server.url,
      templates: { "desk:1": "desk" },
      requestTimeout: "5 seconds",
      createTimeout: "3 seconds",
      settle,
      ...settings.provider
    }
    const [fixture, result] = yield* Effect.gen(function* () {
      const provider = yield* SandboxProvider
      const controls = yield* E2BProvider.E2BControls
      const fixture: Fixture = { server, provider, controls, ledger, options, folders }
      return [fixture, yield* Effect.scoped(use(fixture))] as const
    }).pipe(
      Effect.provide(E2BProvider.layer(options)),
      Effect.provideService(Ledger.Ledger, ledger),
      Effect.provide(NodeContext.layer)
    )
    return yield* after(fixture, result)
  }).pipe(
    Effect.provide(
      E2BServer.layer({
        apiKey: Redacted.make(key),
        templates: (name) => (name === "desk" ? new SandboxSpec({ ports: [servicePort] }) : undefined),
        fork: "simulated",
        pause: "simulated",
        ...settings.server
      })
    ),
    Effect.provide(Stub.layer(folders)),
    Effect.provide(Logger.remove(Logger.defaultLogger))
  )
}
