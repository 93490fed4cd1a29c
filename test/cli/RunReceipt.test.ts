import { existsSync, readFileSync } from "node:fs"
import { join } from "node:path"
import * as NodeContext from "@effect/platform-node/NodeContext"
import { afterEach, assert, beforeEach, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as RunReceipt from "../../src/cli/RunReceipt.js"
import * as Ledger from "../../src/sandbox/Ledger.js"
import * as LocalProvider from "../../src/sandbox/LocalProvider.js"
import { SandboxStateError } from "../../src/sandbox/SandboxError.js"
import { SandboxProvider } from "../../src/sandbox/SandboxProvider.js"
import { Workplace } from "./harness.js"

describe("the receipt of a run", () => {
  let place: Workplace
  beforeEach(() => {
    place = new Workplace()
  })
  afterEach(() => {
    for (const line of place.processes()) process.kill(Number(line.split(" ")[0]), "SIGKILL")
    place.remove()
  })

  const receipt = () => JSON.parse(readFileSync(join(place.out, "receipt.json"), "utf8"))

  it("tells of the run that holds the folder alone, and leaves nothing after a kill", {
    timeout: 300_000
  }, async () => {
    const start = (...args: ReadonlyArray<string>) =>
      place.start(["run", "--domain", "os", "--limit", "1", "--pause", "5", "--out", place.out, ...args])
    const running = start()
    await running.printed("started")
    for (let tries = 0; tries < 200 && place.processes().length < 4; tries++) {
      await new Promise((resolve) => setTimeout(resolve, 50))
    }
    const second = await start().ended
    assert.isNull(running.process.exitCode)
    assert.strictEqual(second.status, 1, second.stderr)
    assert.include(second.stderr, `process ${running.process.pid} on`)
    assert.notInclude(second.stderr, "not confirmed gone")
    assert.isFalse(existsSync(join(place.out, "receipt.json")))

    running.process.kill("SIGKILL")
    await running.ended
    const anew = await start().ended
    assert.strictEqual(anew.status, 1, anew.stderr)
    assert.include(anew.stderr, "this folder already holds a run")
    assert.notInclude(anew.stderr, "not confirmed gone")
    assert.notInclude(anew.stderr, "taken over")
    assert.isFalse(existsSync(join(place.out, "receipt.json")))

    assert.strictEqual((await place.run(["sweep"])).status, 0)
    const resumed = await start("--resume").ended
    assert.strictEqual(resumed.status, 0, resumed.stderr)
    assert.notInclude(resumed.stderr, "not confirmed gone")
    assert.deepInclude(receipt(), { created: 2, removed: 2, confirmed: 2, left: [] })
    assert.deepStrictEqual(place.folders(), [])
    assert.deepStrictEqual(place.processes(), [])
  })

  /** A ledger in which a process that is gone left one sandbox open, and nothing of it in the state folder. */
  const leftOpen = Effect.gen(function* () {
    const ledger = yield* Ledger.Ledger
    const attemptKey = join(place.state, "sb-0123456789ab")
    yield* ledger.intend({ attemptKey, provider: "local", metadata: { run: "r", rollout: "0-0" } })
    yield* ledger.created(attemptKey, "sb-0123456789ab")
    return yield* ledger.open
  })

  const settled = (change: (provider: SandboxProvider["Type"]) => SandboxProvider["Type"]) =>
    Effect.gen(function* () {
      const ledger = yield* Ledger.Ledger
      const open = yield* leftOpen
      const provider = yield* LocalProvider.make({ stateDir: place.state })
      yield* Effect.provideService(RunReceipt.settleEarlier(open), SandboxProvider, change(provider))
      return yield* ledger.receipt("local")
    }).pipe(Effect.provide(Layer.merge(Ledger.layerMemory, NodeContext.layer)))

  it.live("confirms what an earlier process left open and is gone", () =>
    Effect.map(
      settled((provider) => provider),
      ({ confirmed, left }) => assert.deepStrictEqual({ confirmed, left }, { confirmed: 1, left: [] })
    )
  )

  it.live("confirms nothing where the provider does not answer", () =>
    Effect.map(
      settled((provider) => ({
        ...provider,
        sweep: () =>
          new SandboxStateError({ provider: "local", operation: "sweep", reason: "no answer", remedy: "try again" })
      })),
      ({ confirmed, left }) => assert.deepStrictEqual([confirmed, left.length], [0, 1])
    )
  )
})
