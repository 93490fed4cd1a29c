import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { Fault } from "../../src/testing/E2BServer.js"
import { type Fixture, spec, withProvider } from "./e2b/fixture.js"

const sh = (script: string) => ({ command: ["/bin/sh", "-c", script] as const })

const nothingLeft = ({ folders, ledger, server }: Fixture) =>
  Effect.gen(function* () {
    assert.deepStrictEqual(yield* server.inventory, [])
    assert.strictEqual(folders.size, 0)
    const receipt = yield* ledger.receipt("e2b")
    assert.deepStrictEqual(receipt.left, [])
    return receipt
  })

describe("fork of an E2B sandbox", () => {
  it.live("owners in order, a token for each, a life for each", () =>
    withProvider(
      {},
      ({ provider, server }) =>
        Effect.gen(function* () {
          const source = yield* provider.acquire(spec())
          const children = yield* provider.fork(source, [0, 2, 5])
          assert.deepStrictEqual(
            children.map(({ child, owner }) => [owner, child._tag]),
            [
              [0, "Forked"],
              [2, "Forked"],
              [5, "Forked"]
            ]
          )
          const [request] = (yield* server.seen).filter(({ path }) => path.endsWith("/fork"))
          assert.deepStrictEqual(JSON.parse(request?.body ?? ""), { timeout: 3600, count: 3 })
          const entries = yield* server.inventory
          assert.strictEqual(entries.length, 4)
          assert.strictEqual(new Set(entries.map(({ token }) => token)).size, 4)
          for (const [index, { child }] of children.entries()) {
            const entry = entries.find(({ id }) => child._tag === "Forked" && id === child.sandbox.id)
            assert.deepStrictEqual(entry?.forked, { source: source.id, index })
          }
          const homes = new Set<string>()
          for (const { child, owner } of children) {
            if (child._tag !== "Forked") continue
            const outcome = yield* child.sandbox.exec(sh(`echo ${owner}:$HOME`))
            homes.add(outcome.stdout)
            assert.match(outcome.stdout, new RegExp(`^${owner}:`))
          }
          assert.strictEqual(homes.size, 3)
          // Each sibling's token opens itself and no other.
          const [a, b] = entries
          const health = yield* Effect.promise(() =>
            fetch(`${server.url}/process.Process/List`, {
              method: "POST",
              headers: {
                "content-type": "application/json",
                "e2b-sandbox-id": a?.id ?? "",
                "e2b-sandbox-port": "49983",
                "x-access-token": b?.token ?? ""
              },
              body: "{}"
            })
          )
          assert.strictEqual(health.status, 401)
        }),
      (fixture) => Effect.map(nothingLeft(fixture), ({ confirmed }) => assert.strictEqual(confirmed, 4))
    )
  )

  it.live("a child that fails leaves the others", () =>
    withProvider(
      {},
      ({ provider, server }) =>
        Effect.gen(function* () {
          const source = yield* provider.acquire(spec())
          yield* server.inject("fork", Fault.ChildFails({ index: 1, code: 429 }))
          const children = yield* provider.fork(source, [0, 2, 5])
          assert.deepStrictEqual(
            children.map(({ child, owner }) => [owner, child._tag === "Forked" ? "Forked" : child.error._tag]),
            [
              [0, "Forked"],
              [2, "ProviderUnavailable"],
              [5, "Forked"]
            ]
          )
          const [, , last] = children
          const entry = (yield* server.inventory).find(
            ({ id }) => last?.child._tag === "Forked" && id === last.child.sandbox.id
          )
          assert.strictEqual(entry?.forked?.index, 2)
          assert.strictEqual((yield* server.inventory).length, 3)
        }),
      (fixture) => Effect.map(nothingLeft(fixture), ({ confirmed }) => assert.strictEqual(confirmed, 3))
    )
  )

  it.live("a child can go before its siblings, and is confirmed gone", () =>
    withProvider(
      {},
      ({ ledger, provider, server }) =>
        Effect.gen(function* () {
          const source = yield* provider.acquire(spec())
          const [first, second] = yield* provider.fork(source, [0, 1])
          const ids = Effect.map(server.inventory, (entries) => entries.map(({ id }) => id))
          if (first.child._tag !== "Forked" || second?.child._tag !== "Forked") return assert.fail("two were forked")
          yield* first.child.release
          yield* first.child.release
          assert.sameMembers([...(yield* ids)], [source.id, second.child.sandbox.id])
          assert.strictEqual((yield* ledger.receipt("e2b")).confirmed, 1)
          assert.strictEqual((yield* second.child.sandbox.exec(sh("exit 0")))._tag, "Exited")
        }),
      (fixture) => Effect.map(nothingLeft(fixture), ({ confirmed }) => assert.strictEqual(confirmed, 3))
    )
  )

  it.live("children whose names were lost are found and removed, and known ones are not", () =>
    withProvider(
      {},
      ({ provider, server }) =>
        Effect.gen(function* () {
          const source = yield* provider.acquire(spec())
          const [kept] = yield* provider.fork(source, [7])
          yield* server.inject("fork", Fault.CommitThenLose())
          const lost = yield* provider.fork(source, [0, 2, 5])
          assert.deepStrictEqual(
            lost.map(({ child }) => (child._tag === "Forked" ? "Forked" : child.error._tag)),
            ["SandboxCreateAmbiguous", "SandboxCreateAmbiguous", "SandboxCreateAmbiguous"]
          )
          while ((yield* server.inventory).length > 2) yield* Effect.sleep("20 millis")
          yield* Effect.sleep("500 millis")
          assert.isTrue(
            kept.child._tag === "Forked" && (yield* kept.child.sandbox.exec(sh("exit 0")))._tag === "Exited"
          )
          assert.strictEqual((yield* source.exec(sh("exit 0")))._tag, "Exited")
        }),
      (fixture) => Effect.asVoid(nothingLeft(fixture))
    )
  )

  it.live("a service that does not fork", () =>
    withProvider({ server: { fork: "none" } }, ({ provider }) =>
      Effect.gen(function* () {
        const source = yield* provider.acquire(spec())
        assert.strictEqual((yield* Effect.flip(provider.fork(source, [0])))._tag, "SandboxUnsupported")
      })
    )
  )
})
