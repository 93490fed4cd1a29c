import { readFileSync, rmSync, writeFileSync } from "node:fs"
import { assert, layer } from "@effect/vitest"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Stream from "effect/Stream"
import { afterAll } from "vitest"
import { SandboxProvider } from "../../src/sandbox/SandboxProvider.js"
import { Resources, SandboxSpec } from "../../src/sandbox/SandboxSpec.js"
import { leftovers, makeStateDir, nothing, provided, scriptSpec } from "./internal/local.js"

const stateDir = makeStateDir()
afterAll(() => rmSync(stateDir, { recursive: true, force: true }))

const idle = scriptSpec("exec sleep infinity")

layer(provided(stateDir), { excludeTestServices: true })("commands in a local sandbox", (it) => {
  it.scoped("run as the guest, with what the spec gives and nothing else of this host", () =>
    Effect.gen(function* () {
      const provider = yield* SandboxProvider
      const sandbox = yield* provider.acquire(idle)
      const outcome = yield* sandbox.exec({
        command: [
          "/bin/sh",
          "-c",
          "id -u; id -G; pwd; grep -E 'CapEff|NoNewPrivs' /proc/self/status; ls /proc/self/fd | wc -l; env | cut -d= -f1 | sort | tr '\\n' ' '; cat /proc/sys/kernel/hostname; touch /proc/sys/kernel/core_pattern 2>/dev/null && cat >/proc/sys/kernel/core_pattern && echo written"
        ],
        stdin: ""
      })
      assert.deepStrictEqual(outcome.stdout.split("\n"), [
        "1000",
        "1000",
        "/home/user",
        "CapEff:\t0000000000000000",
        "NoNewPrivs:\t1",
        // The three standard ones and the folder itself.
        "4",
        "DESKHAND_EXEC HOME PATH PWD deskhand",
        ""
      ])
    })
  )

  it.scoped("see the processes of the sandbox, and can end them", () =>
    Effect.gen(function* () {
      const provider = yield* SandboxProvider
      const sandbox = yield* provider.acquire(scriptSpec("sleep infinity & exec sleep infinity"))
      const gone = yield* Effect.fork(Effect.flip(sandbox.gone))
      const outcome = yield* sandbox.exec({ command: ["/bin/sh", "-c", "kill -KILL 2; sleep 100"] })
      assert.strictEqual(outcome._tag, "SandboxFailed", JSON.stringify(outcome))
      assert.strictEqual((yield* Fiber.join(gone))._tag, "SandboxGone")
      const after = yield* sandbox.exec({ command: ["true"] })
      assert.strictEqual(after._tag, "SandboxFailed")
      const error = yield* Effect.flip(Stream.runDrain(sandbox.download("/etc/passwd")))
      assert.strictEqual(error._tag, "SandboxFileError")
    })
  )

  it.scoped("a guest's links lead nowhere but inside", () =>
    Effect.gen(function* () {
      const provider = yield* SandboxProvider
      const sandbox = yield* provider.acquire(idle)
      const outside = `${stateDir}/host-file`
      writeFileSync(outside, "host")
      yield* sandbox.exec({ command: ["/usr/bin/ln", "-s", outside, "/home/user/link"] })
      yield* Effect.flip(Stream.runDrain(sandbox.download("/home/user/link")))
      yield* Effect.ignore(sandbox.upload("/home/user/link", Stream.make(Buffer.from("guest"))))
      assert.strictEqual(readFileSync(outside, "utf8"), "host")
      rmSync(outside)
    })
  )

  it.scoped(
    "a command that clears its environment, leaves its session and forgets its parent ends with the sandbox",
    () =>
      Effect.gen(function* () {
        const provider = yield* SandboxProvider
        const id = yield* Effect.scoped(
          Effect.gen(function* () {
            const sandbox = yield* provider.acquire(idle)
            const script = "(env -i setsid sleep 1000 </dev/null >/dev/null 2>&1 &) ; echo left"
            const outcome = yield* sandbox.exec({ command: ["/bin/sh", "-c", script] })
            assert.strictEqual(outcome.stdout, "left\n")
            return sandbox.id
          })
        )
        assert.deepStrictEqual(yield* leftovers(stateDir, [id]), nothing)
      })
  )

  it.scoped("without an entrypoint it is kept alive", () =>
    Effect.gen(function* () {
      const provider = yield* SandboxProvider
      const sandbox = yield* provider.acquire(new SandboxSpec({ network: "default", workdir: "/tmp" }))
      const outcome = yield* sandbox.exec({ command: ["/bin/sh", "-c", "pwd; tail -n +3 /proc/net/dev | wc -l"] })
      assert.strictEqual(outcome.stdout, "/tmp\n1\n")
    })
  )

  it.scoped("when its time to live is over, it is gone", () =>
    Effect.gen(function* () {
      const provider = yield* SandboxProvider
      const sandbox = yield* provider.acquire(new SandboxSpec({ ...idle, ttl: Duration.millis(700) }))
      const error = yield* Effect.flip(sandbox.gone)
      assert.include(error.message, "time to live")
    })
  )

  it.scoped("what it cannot do is refused", () =>
    Effect.gen(function* () {
      const provider = yield* SandboxProvider
      const image = yield* Effect.flip(provider.acquire(new SandboxSpec({ ...idle, image: "debian" })))
      assert.deepStrictEqual([image._tag, "capability" in image && image.capability], ["SandboxUnsupported", "images"])
      const limits = yield* Effect.flip(
        provider.acquire(new SandboxSpec({ ...idle, resources: new Resources({ cpu: 1 }) }))
      )
      assert.strictEqual(limits._tag, "SandboxCreateRejected")
      assert.deepStrictEqual(yield* leftovers(stateDir), nothing)
    })
  )
})
