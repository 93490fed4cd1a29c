import * as Fs from "node:fs"
import * as NodeContext from "@effect/platform-node/NodeContext"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as DesktopSpec from "/work/i3/src/desktop/DesktopSpec.js"
import * as Guest from "/work/i3/src/desktop/Guest.js"
import * as DockerProvider from "/work/i3/src/sandbox/DockerProvider.js"
import * as Ledger from "/work/i3/src/sandbox/Ledger.js"
import { SandboxProvider } from "/work/i3/src/sandbox/SandboxProvider.js"

const t0 = Date.now()
const say = (...x: unknown[]) => console.log(Date.now() - t0, ...x)
const one = (network: "none" | "default") =>
  Effect.scoped(
    Effect.gen(function* () {
      const p = yield* SandboxProvider
      const s = yield* p.acquire(
        DesktopSpec.forImage({ image: "deskhand-desktop:latest", network, metadata: { run: "desk" } })
      )
      const e = yield* s.endpoint(5000)
      say("acquired", network, e)
      const g = yield* Guest.make(e)
      const png = yield* g.screenshot
      Fs.writeFileSync(`/tmp/shot-${network}.png`, png)
      say("png", png.length)
      yield* g.launch({ command: ["google-chrome", "--remote-debugging-port=1337", "about:blank"] } as never)
      yield* g.launch({ command: ["mousepad"] } as never)
      yield* Effect.sleep("8 seconds")
      Fs.writeFileSync(`/tmp/shot2-${network}.png`, yield* g.screenshot)
      say(
        yield* g.execute({
          command:
            "id; ps aux | grep -c chromium; curl -s localhost:1337/json/version | head -3; ls -ld ~ ; unshare --user true; curl -sS -m 3 http://deb.debian.org | head -2; date",
          shell: true
        } as never)
      )
    })
  )
Effect.runPromise(
  one("none").pipe(
    Effect.zipRight(one("default")),
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
