/** Groups of OSWorld on a provider whose service exists in memory, with a guest that is told which sandbox it is in. */
import * as Http from "node:http"
import * as FileSystem from "@effect/platform/FileSystem"
import type * as HttpClient from "@effect/platform/HttpClient"
import * as NodeContext from "@effect/platform-node/NodeContext"
import * as NodeHttpClient from "@effect/platform-node/NodeHttpClient"
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Exit from "effect/Exit"
import * as FC from "effect/FastCheck"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
import * as Scope from "effect/Scope"
import * as ArtifactStore from "../../src/artifact/ArtifactStore.js"
import { DesktopAction } from "../../src/desktop/Action.js"
import { RolloutIdentity, RunId } from "../../src/identity/Identity.js"
import * as Assets from "../../src/osworld/Assets.js"
import * as OSWorld from "../../src/osworld/OSWorld.js"
import { fromOneState, type GroupOptions } from "../../src/rollout/GroupEnvironment.js"
import { TaskRow } from "../../src/rollout/TaskRow.js"
import { AgentDone } from "../../src/rollout/Termination.js"
import * as Driver from "../../src/sandbox/Driver.js"
import { Endpoint } from "../../src/sandbox/Endpoint.js"
import * as Ledger from "../../src/sandbox/Ledger.js"
import { SandboxProvider } from "../../src/sandbox/SandboxProvider.js"
import * as SimulatedService from "../../src/testing/SimulatedService.js"
import { seed } from "../seed.js"

const png = Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a, 1, 2, 3])

type Refuses = (sandbox: string, path: string) => boolean

/** Keeps what it was asked for, and in which sandbox. */
const guest = (refuses: { current: Refuses }) =>
  Effect.gen(function* () {
    const asked: Array<string> = []
    const server = Http.createServer((request, response) => {
      const sandbox = String(request.headers["x-sandbox"])
      const path = request.url ?? ""
      asked.push(`${sandbox} ${path}`)
      request.resume()
      const json = (body: unknown) =>
        response.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify(body))
      if (refuses.current(sandbox, path)) return response.writeHead(500).end("told to fail")
      if (path === "/platform") return response.writeHead(200, { "content-type": "text/plain" }).end("Linux")
      if (path === "/screenshot") return response.writeHead(200, { "content-type": "image/png" }).end(png)
      return json({ status: "success", output: `set up in ${sandbox}\n`, error: "", returncode: 0 })
    })
    yield* Effect.acquireRelease(
      Effect.async<void>((resume) => {
        server.listen(0, "127.0.0.1", () => resume(Effect.void))
      }),
      () =>
        Effect.async<void>((resume) => {
          server.closeAllConnections()
          server.close(() => resume(Effect.void))
        })
    )
    const address = server.address()
    return { asked, url: `http://127.0.0.1:${typeof address === "object" ? address?.port : 0}` }
  })

const settle = { looks: 2, spacing: "10 millis", limit: "5 seconds", removal: "5 seconds", close: "5 seconds" } as const

/** The task's setup leaves a file on this host, which its evaluator reads: a copy needs it as the parent does. */
const row = new TaskRow({
  taskIndex: 0,
  taskId: "a",
  domain: "os",
  instruction: "Do a",
  task: {
    id: "a",
    instruction: "Do a",
    config: [{ type: "execute", parameters: { command: ["hostname"], stdout: "before.txt" } }],
    evaluator: {
      func: "file_contains",
      result: { type: "cache_file", path: "before.txt" },
      expected: { type: "rule", rules: { expected: ["set up in sim-0"] } }
    }
  }
})

const owner = (rolloutIndex: number): RolloutIdentity =>
  new RolloutIdentity({ runId: RunId.make("r"), taskId: "a", taskIndex: 0, rolloutIndex, attemptIndex: 0 })

const needs = { accessibilityTree: false }

const world = (
  options: SimulatedService.Options & { readonly osworld?: OSWorld.OSWorldOptions } = {},
  refuses: { current: Refuses } = { current: () => false }
) =>
  Effect.gen(function* () {
    const { asked, url } = yield* guest(refuses)
    const fs = yield* FileSystem.FileSystem
    const directory = yield* fs.makeTempDirectoryScoped()
    const service = SimulatedService.make(options)
    const ledger = yield* Ledger.makeMemory
    const driver: typeof service.driver = {
      ...service.driver,
      operations: (handle, spec) =>
        Effect.map(service.driver.operations(handle, spec), (operations) => ({
          ...operations,
          endpoint: () => Effect.succeed(Endpoint.Tcp({ url, headers: { "x-sandbox": handle.id } }))
        }))
    }
    const provider = yield* Driver.makeProvider(driver, { ledger, deployment: "here", settle })
    const environment = yield* OSWorld.make({ pause: 0, settle: 0, ...options.osworld }).pipe(
      Effect.provideService(SandboxProvider, provider),
      Effect.provide(
        Layer.mergeAll(
          ArtifactStore.layer({ directory: `${directory}/blobs` }),
          Assets.layer({ directory: `${directory}/assets` })
        )
      )
    )
    const left = Effect.gen(function* () {
      const receipt = yield* ledger.receipt("simulated")
      return { inventory: yield* service.inventory, open: receipt.left.length }
    })
    return { asked, environment, ledger, service, left }
  })

const nothing = { inventory: [], open: 0 }

const live = <E>(
  name: string,
  test: () => Effect.Effect<void, E, Scope.Scope | NodeContext.NodeContext | HttpClient.HttpClient>,
  timeout?: number
) =>
  it.scopedLive(
    name,
    () =>
      test().pipe(
        Effect.provide(Layer.merge(NodeContext.layer, NodeHttpClient.layer)),
        Effect.provide(Logger.remove(Logger.defaultLogger))
      ),
    timeout
  )

describe("groups of OSWorld", () => {
  live("one desktop is set up and copied, and every owner's answers", () =>
    Effect.gen(function* () {
      const { asked, environment, left } = yield* world()
      yield* Effect.scoped(
        Effect.gen(function* () {
          const group = yield* fromOneState(environment, { groupSize: 8, active: () => [0, 2, 5] })
          const sessions = yield* Effect.forEach([2, 0, 5], (index) => group.open(row, owner(index), needs), {
            concurrency: "unbounded"
          })
          // The parent is the first of the active ones; copies are in their order.
          assert.deepStrictEqual((yield* left).inventory, ["sim-0", "sim-1", "sim-2"])
          assert.deepStrictEqual(
            asked.filter((line) => line.endsWith("/execute") || line.endsWith("/setup/execute")).length,
            1
          )
          for (const id of ["sim-0", "sim-1", "sim-2"]) assert.include(asked, `${id} /platform`)
          const desktops: Array<string> = []
          for (const session of sessions) {
            asked.length = 0
            yield* session.step(DesktopAction.Python({ code: "pass" }))
            desktops.push(...new Set(asked.map((line) => line.split(" ")[0] ?? "")))
            const evaluation = yield* session.evaluate(new AgentDone())
            // What setup kept is what the parent said.
            assert.strictEqual(evaluation.score, 1)
          }
          assert.strictEqual(desktops[1], "sim-0")
          assert.deepStrictEqual(desktops.toSorted(), ["sim-0", "sim-1", "sim-2"])
        })
      )
      assert.deepStrictEqual(yield* left, nothing)
    })
  )

  live("an owner's desktop goes when its owner does, and the others stay", () =>
    Effect.gen(function* () {
      const { asked, environment, left } = yield* world()
      const group = yield* fromOneState(environment, { groupSize: 3 })
      const owners = yield* Effect.forEach([0, 1, 2], (index) =>
        Effect.gen(function* () {
          const scope = yield* Scope.make()
          const session = yield* Scope.extend(group.open(row, owner(index), needs), scope)
          asked.length = 0
          yield* session.step(DesktopAction.Python({ code: "pass" }))
          return { desktop: asked[0]?.split(" ")[0], close: Scope.close(scope, Exit.void) }
        })
      )
      for (const gone of [[1], [1, 0], [1, 0, 2]]) {
        yield* owners[gone.at(-1) ?? -1]?.close ?? Effect.void
        const there = owners.flatMap(({ desktop }, index) => (gone.includes(index) ? [] : [desktop]))
        const { inventory, open } = yield* left
        assert.deepStrictEqual(inventory.toSorted(), there.toSorted())
        assert.strictEqual(open, there.length)
      }
    })
  )

  const failing: ReadonlyArray<readonly [string, SimulatedService.Options, Refuses, string]> = [
    [
      "there is no copy for",
      { faults: { child: (index) => (index === 1 ? "rejected" : "none") } },
      () => false,
      "owner 2: "
    ],
    [
      "the answer about a copy is lost for",
      { faults: { child: (index) => (index === 0 ? "lost" : "none") } },
      () => false,
      "owner 1: "
    ],
    [
      "the copy does not answer for",
      {},
      (sandbox, path) => sandbox === "sim-2" && path === "/platform",
      "the desktop of owner "
    ],
    ["the parent does not answer for", {}, (sandbox, path) => sandbox === "sim-0" && path === "/platform", "owner 0: "],
    ["setup fails for", {}, (_, path) => path.endsWith("execute"), "config[0]"]
  ]
  for (const [name, options, refuses, told] of failing) {
    live(`is none, and leaves nothing, when ${name} an owner`, () =>
      Effect.gen(function* () {
        const switched = { current: refuses }
        const { environment, left } = yield* world(options, switched)
        const group = yield* fromOneState(environment, { groupSize: 3 })
        const ended = yield* Effect.forEach(
          [0, 1, 2],
          (index) => Effect.either(Effect.scoped(group.open(row, owner(index), needs))),
          {
            concurrency: "unbounded"
          }
        )
        for (const each of ended) {
          assert.isTrue(Either.isLeft(each) && each.left.reason.includes(told), JSON.stringify(each))
        }
        for (let tries = 0; tries < 100 && (yield* left).inventory.length > 0; tries++) yield* Effect.sleep("20 millis")
        assert.deepStrictEqual((yield* left).inventory, [])
      })
    )
  }

  live("owners are set up one by one where the provider has no copies, or is not to make any", () =>
    Effect.gen(function* () {
      for (const options of [{ capabilities: { fork: false } }, { osworld: { fork: false } }]) {
        const { asked, environment, left } = yield* world(options)
        assert.isUndefined(environment.openGroup)
        const group = yield* fromOneState(environment, { groupSize: 2 })
        yield* Effect.scoped(
          Effect.forEach([0, 1], (index) => group.open(row, owner(index), needs), { concurrency: "unbounded" })
        )
        assert.strictEqual(asked.filter((line) => line.endsWith("/execute")).length, 2)
        assert.strictEqual(group.origin?.(row, owner(1)).kind, "replay")
        assert.deepStrictEqual(yield* left, nothing)
      }
    })
  )

  live(
    "whatever is interrupted whenever, no desktop is left",
    () =>
      Effect.gen(function* () {
        const services = yield* Effect.context<NodeContext.NodeContext | HttpClient.HttpClient>()
        const run = (options: GroupOptions, delays: ReadonlyArray<number>, closes: number, child: number) =>
          Effect.gen(function* () {
            const faults = { child: (index: number) => (index === child ? "hang" : "none") } as const
            const { environment, left } = yield* world({ latency: 2, hang: "15 millis", faults })
            yield* Effect.scoped(
              Effect.gen(function* () {
                const group = yield* fromOneState(environment, options)
                const fibers = yield* Effect.forEach(delays, (_, index) =>
                  Effect.fork(
                    Effect.scoped(Effect.zipRight(group.open(row, owner(index), needs), Effect.sleep("20 millis")))
                  )
                )
                yield* Effect.forEach(
                  delays,
                  (delay, index) =>
                    Effect.delay(
                      Effect.suspend(() =>
                        fibers[index] === undefined ? Effect.void : Fiber.interrupt(fibers[index])
                      ),
                      delay
                    ),
                  { concurrency: "unbounded" }
                ).pipe(Effect.timeoutOption(closes))
              })
            )
            for (let tries = 0; tries < 100 && (yield* left).inventory.length > 0; tries++)
              yield* Effect.sleep("20 millis")
            assert.deepStrictEqual((yield* left).inventory, [])
          }).pipe(Effect.scoped)
        yield* Effect.promise(() =>
          FC.assert(
            FC.asyncProperty(
              FC.array(FC.nat({ max: 120 }), { minLength: 1, maxLength: 4 }),
              FC.nat({ max: 150 }),
              FC.nat({ max: 6 }),
              FC.boolean(),
              (delays, closes, child, missing) =>
                Effect.runPromise(
                  Effect.provide(
                    run(
                      { groupSize: delays.length + (missing ? 1 : 0), claimTimeout: "30 millis" },
                      delays,
                      closes,
                      child
                    ),
                    services
                  )
                )
            ),
            { numRuns: 25, seed }
          )
        )
      }),
    120_000
  )
})
