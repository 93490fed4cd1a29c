/**
 * Ports of a sandbox.
 */
import { assert, describe } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { httpClient } from "../../../sandbox/Endpoint.js"
import { SandboxProvider } from "../../../sandbox/SandboxProvider.js"
import type { Server } from "../../ProviderConformance.js"
import { freshRun, nothing, type Suite, settle } from "./suite.js"

export const endpoints = ({ check, settled }: Suite, server: Server): void => {
  describe("endpoints", () => {
    check(
      "a declared port is reached, another is not",
      Effect.gen(function* () {
        const provider = yield* SandboxProvider
        const run = yield* freshRun
        yield* Effect.scoped(
          Effect.gen(function* () {
            const sandbox = yield* provider.acquire(server.spec({ metadata: { run } }))
            const endpoint = yield* sandbox.endpoint(server.port)
            if (endpoint._tag === "Tcp") {
              assert.notInclude(["0.0.0.0", "[::]", ""], new URL(endpoint.url).hostname)
            }
            const client = yield* httpClient(endpoint)
            const response = yield* client.get("/")
            assert.deepStrictEqual([response.status, yield* response.text], [200, server.body])
            const error = yield* Effect.flip(sandbox.endpoint(server.port + 1))
            assert.strictEqual(error._tag, "EndpointUnresolvable")
          })
        )
        assert.deepStrictEqual(yield* settle(run, settled), nothing)
      })
    )
  })
}
