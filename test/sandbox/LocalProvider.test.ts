import { rmSync } from "node:fs"
import * as FileSystem from "@effect/platform/FileSystem"
import { assert, describe, it, layer } from "@effect/vitest"
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Stream from "effect/Stream"
import { afterAll } from "vitest"
import { SandboxProvider } from "../../src/sandbox/SandboxProvider.js"
import { Mount } from "../../src/sandbox/SandboxSpec.js"
import {
  isRoot,
  leftovers,
  makeStateDir,
  nothing,
  port,
  provided,
  ready,
  report,
  reportSpec,
  scriptSpec
} from "./internal/local.js"

const stateDir = makeStateDir()
afterAll(() => rmSync(stateDir, { recursive: true, force: true }))

/** The failure of an acquire whose scope stays open meanwhile. */
const refused = (spec: Parameters<SandboxProvider["Type"]["acquire"]>[0]) =>
  Effect.gen(function* () {
    const provider = yield* SandboxProvider
    return yield* Effect.flip(provider.acquire(spec))
  })

layer(provided(stateDir), { excludeTestServices: true })("LocalProvider", (it) => {
  describe("what a guest sees", () => {
    it.scoped("an unprivileged user at home, and nothing of the host but what was named", () =>
      Effect.gen(function* () {
        const provider = yield* SandboxProvider
        const fs = yield* FileSystem.FileSystem
        const lent = yield* fs.makeTempDirectoryScoped({ prefix: "dh-lent-" })
        yield* fs.writeFileString(`${lent}/note`, "lent")
        yield* fs.chmod(lent, 0o755)
        const sandbox = yield* provider.acquire(
          reportSpec(
            `
            echo "id: $(id -u):$(id -g) $(id -un) $HOME $PWD"
            touch here && echo "home: writable"
            echo "caps: $(grep -h -E 'Cap(Inh|Prm|Eff|Amb)' /proc/self/status | tr -d '\\n\\t')"
            echo "privileges: $(grep NoNewPrivs /proc/self/status | tr -d '\\t')"
            echo "env: $(env | grep -v -E '^(_|PWD|SHLVL)=' | sort | tr '\\n' ' ')"
            echo "root: $(ls -1 / | tr '\\n' ' ')"
            echo "homes: $(ls -1 /home)"
            for path in /root /etc/shadow /srv /boot /sys /mnt /etc/ssh ${stateDir} ${process.cwd()}; do
              [[ -e $path ]] && echo "seen: $path"
            done
            for place in / /etc /usr /dev /run /opt/lent /proc/sys/kernel/core_pattern; do
              touch $place/x 2>/dev/null && echo "written: $place"
              [[ -f $place ]] && { : >>$place; } 2>/dev/null && echo "written: $place"
            done
            for place in /tmp /dev/shm /var/tmp /run/user/1000; do touch $place/x || echo "not writable: $place"; done
            echo "runtime: $(stat -c '%a %u' /run/user/1000)"
            echo "lent: $(cat /opt/lent/note)"
            echo "interfaces: $(tail -n +3 /proc/net/dev | cut -d: -f1 | tr -d ' \\n')"
            echo "processes: $(cat /proc/[0-9]*/comm | grep -v -x -E 'bwrap|bash|socat|cat|grep')"
            echo "supervisor: $(wc -c </proc/1/environ 2>/dev/null)"
            echo "files: $(ls /proc/self/fd | tr '\\n' ' ')"
            echo "host name: $(cat /etc/hostname)"
            `,
            {
              mounts: [Mount.make({ source: lent, target: "/opt/lent" })],
              env: { PATH: "/usr/bin", HOME: "/home/user", A: "b c" }
            }
          )
        )
        const lines = (yield* report(sandbox)).split("\n")
        const found = (name: string) =>
          lines.filter((line) => line.startsWith(`${name}: `)).map((line) => line.slice(name.length + 2).trim())
        const all = lines.join("\n")
        assert.deepStrictEqual(found("id"), ["1000:1000 user /home/user /home/user"], all)
        assert.deepStrictEqual(found("home"), ["writable"])
        assert.deepStrictEqual(found("caps"), ["CapInh:CapPrm:CapEff:CapAmb:".replaceAll(":", ":0000000000000000")])
        assert.deepStrictEqual(found("privileges"), ["NoNewPrivs:1"])
        assert.deepStrictEqual(found("env"), ["A=b c HOME=/home/user PATH=/usr/bin"])
        assert.deepStrictEqual(
          found("root")[0]
            ?.split(" ")
            .filter((name) => !/^(lib.*|s?bin)$/.test(name)),
          ["dev", "etc", "home", "opt", "proc", "run", "tmp", "usr", "var"]
        )
        assert.deepStrictEqual(found("homes"), ["user"])
        assert.deepStrictEqual(found("seen"), [])
        assert.deepStrictEqual(found("written"), isRoot ? [] : found("written").filter((place) => place === "/run"))
        assert.deepStrictEqual(found("not writable"), [])
        assert.deepStrictEqual(found("runtime"), ["700 1000"])
        assert.deepStrictEqual(found("lent"), ["lent"])
        assert.deepStrictEqual(found("interfaces"), ["lo"])
        assert.deepStrictEqual(found("processes"), [""])
        assert.include(["", "0"], found("supervisor")[0], all)
        assert.deepStrictEqual(found("host name"), ["deskhand"])
      })
    )

    it.scoped("its own loopback: two sandboxes listen on one port", () =>
      Effect.gen(function* () {
        const provider = yield* SandboxProvider
        const names = ["one", "two"]
        const sandboxes = yield* Effect.forEach(names, (name) => provider.acquire(reportSpec(`echo ${name}`)), {
          concurrency: 2
        })
        assert.deepStrictEqual(yield* Effect.forEach(sandboxes, report), names)
      })
    )

    it.scoped("this host's network when it was asked for", () =>
      Effect.gen(function* () {
        const provider = yield* SandboxProvider
        const sandbox = yield* provider.acquire(
          scriptSpec(
            "tail -n +3 /proc/net/dev | cut -d: -f1 >/home/user/report; ls /etc >>report; : >done; sleep 100",
            {
              network: "host"
            }
          )
        )
        const fs = yield* FileSystem.FileSystem
        yield* Effect.repeat(fs.exists(`${stateDir}/${sandbox.id}/home/done`), { until: (there) => there })
        const seen = yield* fs.readFileString(`${stateDir}/${sandbox.id}/home/report`)
        const here = yield* fs.readFileString("/proc/net/dev")
        const interfaces = here
          .split("\n")
          .slice(2, -1)
          .map((line) => line.split(":")[0]?.trim() ?? "")
        assert.deepStrictEqual(
          interfaces.filter((name) => !seen.includes(name)),
          []
        )
        assert.include(seen, "resolv.conf")
      })
    )
  })

  describe("ports", () => {
    it.scoped("that were not declared cannot be resolved", () =>
      Effect.gen(function* () {
        const provider = yield* SandboxProvider
        const sandbox = yield* provider.acquire(scriptSpec("sleep 100", { ports: [port] }))
        assert.strictEqual((yield* sandbox.endpoint(port))._tag, "Unix")
        const error = yield* Effect.flip(sandbox.endpoint(9))
        assert.strictEqual(error._tag, "EndpointUnresolvable")
        assert.include(error.message, sandbox.id)
      })
    )

    it.scoped("lead into the sandbox though the guest puts links in the place of its sockets", () =>
      Effect.gen(function* () {
        const provider = yield* SandboxProvider
        const sandbox = yield* provider.acquire(reportSpec("echo mine"))
        const other = yield* provider.acquire(reportSpec("echo other"))
        const target = yield* other.endpoint(port)
        if (target._tag !== "Unix") {
          return assert.fail("a local endpoint is a socket")
        }
        const fs = yield* FileSystem.FileSystem
        // The folder is the one that the guest sees as /run/deskhand and may write.
        yield* fs.remove(`${stateDir}/${sandbox.id}/relay/${port}.sock`)
        yield* fs.symlink(target.socketPath, `${stateDir}/${sandbox.id}/relay/${port}.sock`)
        assert.strictEqual(yield* report(sandbox), "mine")
      })
    )
  })

  describe("a sandbox that cannot be used", () => {
    it.scoped("is removed when it is never ready, and its last words are told", () =>
      Effect.gen(function* () {
        const error = yield* refused(
          scriptSpec("echo first words; head -c 9000 /dev/zero | tr '\\0' x; echo; echo last words; sleep 100", {
            ports: [port],
            readiness: ready(1)
          })
        )
        if (error._tag !== "SandboxNotReady") {
          return assert.fail(error.message)
        }
        assert.include(error.reason, "GET / on port 8000 had no 2xx answer within 1s")
        assert.include(error.log, "last words")
        assert.notInclude(error.log, "first words")
        assert.isAtMost(error.log.length, 2_000)
        assert.deepStrictEqual(yield* leftovers(stateDir, [error.sandboxId]), nothing)
      })
    )

    it.scoped("is removed as soon as its entrypoint ends", () =>
      Effect.gen(function* () {
        const began = Date.now()
        const error = yield* refused(scriptSpec("echo no display; exit 7", { ports: [port], readiness: ready(60) }))
        if (error._tag !== "SandboxNotReady") {
          return assert.fail(error.message)
        }
        assert.include(error.message, "its entrypoint ended with exit code 7")
        assert.include(error.log, "no display")
        assert.isBelow(Date.now() - began, 10_000)
        assert.deepStrictEqual(yield* leftovers(stateDir, [error.sandboxId]), nothing)
      })
    )

    it.scoped("is refused with all that is wrong with its spec", () =>
      Effect.gen(function* () {
        const error = yield* refused(
          scriptSpec("true", {
            mounts: [Mount.make({ source: "/nowhere", target: "/usr/x" })],
            systemFiles: ["/root/.ssh", "/etc/../root"],
            readiness: ready()
          })
        )
        assert.strictEqual(error._tag, "SandboxCreateRejected")
        for (const part of [
          "/nowhere does not exist",
          "/usr/x is part of",
          "/root/.ssh",
          "/etc/../root",
          "port 8000"
        ]) {
          assert.include(error.message, part)
        }
        assert.deepStrictEqual(yield* leftovers(stateDir), nothing)
      })
    )

    it.scoped("is refused when bubblewrap cannot build it", () =>
      Effect.gen(function* () {
        const fs = yield* FileSystem.FileSystem
        const lent = yield* fs.makeTempDirectoryScoped()
        const error = yield* refused(
          scriptSpec("true", {
            systemFiles: ["/etc/alternatives"],
            mounts: [Mount.make({ source: lent, target: "/etc/alternatives/deskhand/no-such-folder" })]
          })
        )
        assert.strictEqual(error._tag, "SandboxCreateRejected")
        assert.include(error.message, "bubblewrap could not build the container: bwrap: ")
        assert.deepStrictEqual(yield* leftovers(stateDir), nothing)
      })
    )
  })

  it.scoped("a sandbox that ends by itself is reported gone", () =>
    Effect.gen(function* () {
      const provider = yield* SandboxProvider
      const asked = yield* provider.acquire(scriptSpec("echo bye; sleep 0.2; exit 3"))
      const error = yield* Effect.flip(asked.gone)
      assert.strictEqual(error._tag, "SandboxGone")
      assert.include(error.reason, "exit code 3")
      assert.strictEqual(error.log.trim(), "bye")

      const killed = yield* provider.acquire(scriptSpec("sleep 0.2; kill -9 $$"))
      assert.include((yield* Effect.flip(killed.gone)).reason, "exit code 137 (signal SIGKILL)")
      assert.strictEqual((yield* Stream.runCollect(provider.list({}))).length, 2)
    })
  )

  describe("when the scope closes", () => {
    for (const [how, end] of [
      ["success", Effect.void],
      ["failure", Effect.fail("a task failed")],
      ["defect", Effect.die("a bug")],
      ["interruption", Effect.interrupt]
    ] as const) {
      it.effect(`nothing is left after ${how}`, () =>
        Effect.gen(function* () {
          const provider = yield* SandboxProvider
          let id = ""
          const exit = yield* Effect.exit(
            Effect.scoped(
              Effect.gen(function* () {
                const sandbox = yield* provider.acquire(reportSpec("true"))
                id = sandbox.id
                const before = yield* leftovers(stateDir, [id])
                assert.deepStrictEqual(before.folders, [id])
                assert.isAtLeast(before.processes.length, 3)
                return yield* end
              })
            )
          )
          assert.strictEqual(Exit.isSuccess(exit), how === "success")
          if (Exit.isFailure(exit)) {
            assert.strictEqual(Cause.isInterruptedOnly(exit.cause), how === "interruption")
          }
          assert.deepStrictEqual(yield* leftovers(stateDir, [id]), nothing)
        })
      )
    }

    it.effect("a guest that makes itself hard to remove is removed", () =>
      Effect.gen(function* () {
        const provider = yield* SandboxProvider
        const id = yield* Effect.scoped(
          Effect.gen(function* () {
            const sandbox = yield* provider.acquire(
              reportSpec(`
                trap '' TERM HUP INT QUIT
                (trap '' TERM HUP INT; setsid bash -c 'trap "" TERM HUP; (sleep 1000 & sleep 1000) & sleep 1000' & ) &
                mkdir -p closed/inner && touch closed/inner/file && chmod 000 closed/inner closed
                mkdir -p "$(printf 'd/%.0s' {1..1500})"
                (cd "$(printf 'd/%.0s' {1..1500})" && mkdir -p "$(printf 'd/%.0s' {1..1500})" && touch d/d/d/leaf)
                ln -s / everything
                ln -s /etc/passwd passwd
                touch -- '-rf' $'new\\nline' '*'
                (sleep 1; chmod 000 .) &
              `)
            )
            yield* report(sandbox)
            yield* Effect.sleep("1500 millis")
            return sandbox.id
          })
        )
        assert.deepStrictEqual(yield* leftovers(stateDir, [id]), nothing)
      })
    )

    it.effect("many at a time are removed", () =>
      Effect.gen(function* () {
        const provider = yield* SandboxProvider
        const ids = yield* Effect.scoped(
          Effect.forEach(
            Array.from({ length: 6 }),
            () => Effect.map(provider.acquire(reportSpec("true")), (sandbox) => sandbox.id),
            { concurrency: "unbounded" }
          )
        )
        assert.strictEqual(new Set(ids).size, 6)
        assert.deepStrictEqual(yield* leftovers(stateDir, ids), nothing)
      })
    )
  })

  it.effect("an acquire that is interrupted at any moment leaves nothing", () =>
    Effect.gen(function* () {
      const provider = yield* SandboxProvider
      for (const delay of [0, 1, 3, 8, 12, 20, 30, 45, 70, 100, 150, 250]) {
        const began = Date.now()
        const exit = yield* provider
          .acquire(scriptSpec("trap '' TERM; sleep 100", { ports: [port], readiness: ready(60) }))
          .pipe(Effect.scoped, Effect.timeoutOption(delay), Effect.exit)
        assert.isTrue(Exit.isSuccess(exit), `${exit}`)
        assert.isBelow(Date.now() - began, 5_000)
        assert.deepStrictEqual(yield* leftovers(stateDir), nothing, `interrupted after ${delay} ms`)
      }
    })
  )
})

it.scopedLive("a state folder whose sockets would have too long a path is refused", () =>
  Effect.gen(function* () {
    const long = `${stateDir}/${"long".repeat(20)}`
    yield* Effect.gen(function* () {
      const error = yield* refused(scriptSpec("true"))
      assert.strictEqual(error._tag, "SandboxCreateRejected")
      assert.include(error.message, "DESKHAND_STATE_DIR")
      const provider = yield* SandboxProvider
      const check = (yield* provider.preflight).find((each) => each.subject === "socket paths")
      assert.isFalse(check?.ok)
      assert.include(check?.remedy, "DESKHAND_STATE_DIR")
    }).pipe(Effect.provide(provided(long)))
  })
)

it.scopedLive("a state folder that others can write is refused", () =>
  Effect.gen(function* () {
    const fs = yield* FileSystem.FileSystem
    const open = yield* fs.makeTempDirectoryScoped({ prefix: "dh-open-" })
    yield* fs.chmod(open, 0o777)
    const error = yield* Effect.provide(refused(scriptSpec("true")), provided(open))
    assert.include(error.message, "other users can write")
  }).pipe(Effect.provide(provided(stateDir)))
)

it.live("preflight finds all that it needs on a machine where these tests run", () =>
  Effect.gen(function* () {
    const provider = yield* SandboxProvider
    const checks = yield* provider.preflight
    assert.deepStrictEqual(
      checks.filter((check) => !check.ok),
      []
    )
    assert.includeMembers(
      checks.map((check) => check.subject),
      ["bubblewrap", "user namespaces", "socat", "bash", "state folder", "socket paths", "disk space"]
    )
  }).pipe(Effect.provide(provided(stateDir)))
)
