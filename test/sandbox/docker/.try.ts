import * as NodeContext from "@effect/platform-node/NodeContext"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import * as DockerProvider from "/work/i3/src/sandbox/DockerProvider.js"
import * as Ledger from "/work/i3/src/sandbox/Ledger.js"
import { SandboxProvider } from "/work/i3/src/sandbox/SandboxProvider.js"
import { SandboxSpec } from "/work/i3/src/sandbox/SandboxSpec.js"

const t0 = Date.now()
const say = (...x: unknown[]) => console.log(Date.now() - t0, ...x)
const main = Effect.gen(function* () {
  const p = yield* SandboxProvider
  say(yield* p.preflight)
  yield* Effect.scoped(
    Effect.gen(function* () {
      const s = yield* p.acquire(
        SandboxSpec.make({ image: "deskhand-base:bookworm", metadata: { run: "x" }, env: { A: "1" } })
      )
      say("acquired", s.id)
      say(yield* s.exec({ command: ["sh", "-c", "echo hi; echo err >&2; echo $A; exit 3"] }))
      say(yield* s.exec({ command: ["cat"], stdin: "hello in" }))
      say(yield* s.exec({ command: ["nonexistent"] }))
      say(yield* s.exec({ command: ["sh", "-c", "sleep 300 & echo bg"] }))
      say(
        yield* s.exec({ command: ["sh", "-c", "(setsid env -i sleep 333 &) ; echo x; sleep 444"], timeout: "1 second" })
      )
      say(yield* s.exec({ command: ["sh", "-c", "for f in /proc/[0-9]*/cmdline; do tr '\\0' ' ' <$f; echo; done"] }))
      const big = new Uint8Array(5_000_000).map((_, i) => (i * 7919) % 251)
      yield* s.upload("/root/a b/c/x.bin", Stream.make(big.subarray(0, 1000), big.subarray(1000)))
      say("uploaded")
      const back = Buffer.concat([...(yield* Stream.runCollect(s.download("/root/a b/c/x.bin")))])
      say(back.length, Buffer.compare(back, Buffer.from(big)))
      say(yield* s.exec({ command: ["ls", "-laR", "/root"] }))
      say(yield* Effect.either(Stream.runCollect(s.download("/nope"))))
      say(yield* Effect.either(Stream.runCollect(s.download("/etc"))))
      say(yield* Stream.runCollect(p.list({ run: "x" })))
    })
  )
  say("closed")
  say(yield* Stream.runCollect(p.list({ run: "x" })))
  say(yield* (yield* Ledger.Ledger).receipt("docker"))
})
Effect.runPromise(
  main.pipe(
    Effect.provide(DockerProvider.layer({ host: "unix:///var/tmp/deskhand-docker/docker.sock" })),
    Effect.provide(Layer.mergeAll(Ledger.layerMemory, NodeContext.layer))
  )
).then(
  () => say("end"),
  (e) => {
    console.error(e)
    process.exit(1)
  }
)
