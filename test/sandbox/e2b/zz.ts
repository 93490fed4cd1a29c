import * as NodeContext from "@effect/platform-node/NodeContext"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { Sandbox } from "e2b"
import * as Ledger from "../../../src/sandbox/Ledger.js"
import * as LocalProvider from "../../../src/sandbox/LocalProvider.js"
import * as E2BServer from "../../../src/testing/E2BServer.js"
import { makeStateDir, scriptSpec } from "../internal/local.js"
const stateDir = makeStateDir()
const server = E2BServer.layer({ templates: () => scriptSpec("exec sleep infinity", {}) }).pipe(
  Layer.provide(LocalProvider.layer({ stateDir })), Layer.provide(Ledger.layerMemory), Layer.provide(NodeContext.layer))
await Effect.runPromise(Effect.gen(function* () {
  const s = yield* E2BServer.E2BServer
  yield* Effect.promise(async () => {
    const b = await Sandbox.create("x", { apiKey: "k", apiUrl: s.url, sandboxUrl: s.url })
    const h = await b.commands.run("exec /bin/sh -c '(sleep 31415; true) & sleep 31415; true'", { background: true, timeoutMs: 0, envs: { DESKHAND_EXEC: "abc" } })
    await new Promise((r) => setTimeout(r, 500))
    const sh = async (c: string) => console.log(await b.commands.run(c).then((r) => r.stdout + r.stderr, (e) => [e.name, e.message, e.stderr]))
    await sh("which grep cut; grep -lszx 'DESKHAND_EXEC=abc' /proc/[0-9]*/environ; echo --; ls -l /proc/[0-9]*/environ; cat /proc/[0-9]*/environ 2>&1 | tr '\\0' ' ' | head -c 1500; id")
    console.log("kill", await b.commands.kill(h.pid))
    await new Promise((r) => setTimeout(r, 500))
    await sh("for p in /proc/[0-9]*; do tr '\\0' ' ' <$p/cmdline; echo; done")
  })
}).pipe(Effect.provide(server)))
