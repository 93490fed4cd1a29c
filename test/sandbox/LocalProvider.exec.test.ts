import { readFileSync, rmSync, writeFileSync } from "node:fs"
import { assert, layer } from "@effect/vitest"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Stream from "effect/Stream"
import { afterAll } from "vitest"
import type { OwnedSandbox } from "../../src/sandbox/Sandbox.js"
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

  /** Command lines of the guest's processes that are `sleep` for so many seconds. */
  const sleepers = (sandbox: OwnedSandbox, seconds: number) =>
    Effect.map(
      sandbox.exec({ command: ["/bin/sh", "-c", "cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' ' '"] }),
      ({ stdout }) => stdout.split(`sleep ${seconds} `).length - 1
    )

  it.scoped("a command that is given our mark under a value of its own is ended with all that it started", () =>
    Effect.gen(function* () {
      const provider = yield* SandboxProvider
      const sandbox = yield* provider.acquire(new SandboxSpec({ ...idle, env: { ...idle.env, DESKHAND_EXEC: "x" } }))
      // By its environment alone is the second one known: its session and its parents are others.
      const script = "(setsid sleep 5001 &); sleep 5001 & sleep 5001"
      const outcome = yield* sandbox.exec({
        command: ["/bin/sh", "-c", script],
        env: { DESKHAND_EXEC: "x" },
        timeout: "700 millis"
      })
      assert.strictEqual(outcome._tag, "TimedOut")
      assert.strictEqual(yield* sleepers(sandbox, 5001), 0)
      const told = yield* sandbox.exec({ command: ["printenv", "DESKHAND_EXEC"], env: { DESKHAND_EXEC: "x" } })
      assert.match(told.stdout, /^[0-9a-f]{32}\n$/)
    })
  )

  it.scoped("a command's time ends what cleared its environment, left its session and lost its parent, too", () =>
    Effect.gen(function* () {
      const provider = yield* SandboxProvider
      const sandbox = yield* provider.acquire(idle)
      const hidden = "(env -i setsid sleep 5002 </dev/null >/dev/null 2>&1 &); echo hidden"
      const before = yield* sandbox.exec({ command: ["/bin/sh", "-c", hidden] })
      assert.strictEqual(before.stdout, "hidden\n")
      // What a command left when it ended in time is none of another's.
      assert.strictEqual(yield* sleepers(sandbox, 5002), 1)
      const outcome = yield* sandbox.exec({
        command: ["/bin/sh", "-c", `${hidden.replace("5002", "5003")}; sleep 5003`],
        timeout: "700 millis"
      })
      assert.deepStrictEqual({ ...outcome }, { _tag: "TimedOut", stdout: "hidden\n", stderr: "" })
      assert.strictEqual(yield* sleepers(sandbox, 5003), 0)
      assert.strictEqual(yield* sleepers(sandbox, 5002), 1)
    })
  )

  it.scoped("a command is told of its signals, and its exit is its own", () =>
    Effect.gen(function* () {
      const provider = yield* SandboxProvider
      const sandbox = yield* provider.acquire(idle)
      const run = (script: string) =>
        Effect.map(sandbox.exec({ command: ["/bin/bash", "-c", script] }), (outcome) =>
          outcome._tag === "Exited" ? outcome.code : outcome._tag
        )
      assert.deepStrictEqual(
        yield* Effect.all([
          run("exit 7"),
          // A shell's way of telling them: 128 and the signal's number.
          run("kill -TERM $$; sleep 10"),
          run("kill -KILL $$; sleep 10"),
          // To all of its process group, as a job control shell does; the trap shows that it came.
          run("trap 'exit 5' TERM; kill -TERM 0; sleep 10"),
          // What it left behind is not waited for, and its exit is not taken for the command's.
          run("(sleep 0.2; exit 9) & exit 3"),
          run("(exit 9) & sleep 0.3; exit 4")
        ]),
        [7, 143, 137, 5, 3, 4]
      )
      const missing = yield* sandbox.exec({ command: ["no-such-program"] })
      // As env has it.
      assert.deepStrictEqual([missing._tag, missing._tag === "Exited" && missing.code], ["Exited", 127])
      const nowhere = yield* sandbox.exec({ command: ["true"], workdir: "/no/such/folder" })
      assert.deepStrictEqual([nowhere._tag, nowhere._tag === "Exited" && nowhere.code], ["Exited", 126])
      assert.include(nowhere.stderr, "/no/such/folder")
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
