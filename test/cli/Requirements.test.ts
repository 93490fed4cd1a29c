import * as FileSystem from "@effect/platform/FileSystem"
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Layer from "effect/Layer"
import * as Stream from "effect/Stream"
import * as Requirements from "../../src/cli/Requirements.js"
import * as Task from "../../src/osworld/Task.js"
import { Capabilities } from "../../src/sandbox/Capabilities.js"
import { type Check, SandboxProvider } from "../../src/sandbox/SandboxProvider.js"

const task = (config: ReadonlyArray<unknown>, related_apps: ReadonlyArray<string> = []) =>
  Either.getOrThrow(
    Task.decode({ id: "t", instruction: "i", config, related_apps, evaluator: { func: "infeasible" } }, "t.json")
  )

/** A machine that has these files and nothing else. */
const machine = (files: Readonly<Record<string, string>>, images = false) =>
  Layer.mergeAll(
    FileSystem.layerNoop({
      exists: (path) => Effect.succeed(path in files || path.includes("/deskhand") || path.includes("/src/desktop/")),
      readFileString: (path) => Effect.succeed(files[path] ?? "")
    }),
    Layer.succeed(SandboxProvider, {
      name: "test",
      capabilities: new Capabilities({
        exec: true,
        files: true,
        endpoint: true,
        hostFiles: true,
        images,
        connect: false,
        fork: false,
        pause: false,
        renew: false,
        entrypoint: true,
        snapshot: false,
        ttl: false
      }),
      borrow: () => Effect.never,
      fork: () => Effect.never,
      acquire: () => Effect.never,
      list: () => Stream.empty,
      sweep: () => Effect.never,
      preflight: Effect.succeed([])
    })
  )

const failed = (tasks: ReadonlyArray<Task.Task>, files: Readonly<Record<string, string>>) =>
  Requirements.check(tasks).pipe(
    Effect.map((checks) => checks.filter(({ ok }) => !ok)),
    Effect.provide(machine(files))
  )

describe("Requirements", () => {
  it("finds the applications that tasks start or name, each once, and no plain commands", () => {
    const tasks = [
      task([{ type: "launch", parameters: { command: ["google-chrome", "--x"] } }], ["chrome", "os"]),
      task([{ type: "execute", parameters: { command: "mkdir -p /tmp/x && mousepad /tmp/x/y", shell: true } }])
    ]
    assert.deepStrictEqual(
      Requirements.applicationsOf(tasks).map(({ commands }) => commands[0]),
      ["google-chrome", "mousepad"]
    )
  })

  it.effect("says what an image has to have, which nobody can look at from here", () =>
    Effect.gen(function* () {
      const tasks = [task([{ type: "launch", parameters: { command: ["code"] } }], ["gimp", "LibreOffice Calc", "os"])]
      const [image, ...rest] = yield* Effect.provide(Requirements.check(tasks), machine({}, true))
      assert.deepStrictEqual(rest, [])
      assert.isTrue(image?.ok)
      assert.include(image?.found, 'APPLICATIONS="gimp libreoffice-calc libreoffice-gtk3"')
      assert.include(image?.found, "code, of which Debian has none")
      assert.deepStrictEqual(yield* Effect.provide(Requirements.check([task([])]), machine({}, true)), [])
    })
  )

  it.effect("misses a program whose windows are not there", () =>
    Effect.gen(function* () {
      const tasks = [task([], ["libreoffice_calc"])]
      const files = { "/usr/lib/libreoffice/program/scalc": "", "/etc/os-release": "ID=debian" }
      const calc = (checks: Effect.Effect.Success<ReturnType<typeof failed>>) =>
        checks.find(({ subject }) => subject === "libreoffice --calc")
      const without = calc(yield* failed(tasks, files))
      assert.strictEqual(without?.found, "without /usr/lib/libreoffice/program/libvclplug_gtk3lo.so")
      assert.deepStrictEqual(without?.packages, ["libreoffice-calc", "libreoffice-gtk3"])
      const whole = { ...files, "/usr/lib/libreoffice/program/libvclplug_gtk3lo.so": "" }
      assert.isUndefined(calc(yield* failed(tasks, whole)))
    })
  )

  it.effect("names the packages of what is missing, and none of what is there", () =>
    Effect.gen(function* () {
      const tasks = [task([], ["mousepad", "chrome"])]
      const missing = yield* failed(tasks, { "/usr/bin/mousepad": "", "/usr/bin/Xvfb": "" })
      const packages = Requirements.packagesFor(missing)
      assert.include(packages, "chromium")
      assert.include(packages, "openbox")
      assert.notInclude(packages, "mousepad")
      assert.notInclude(packages, "xvfb")
      assert.include(
        Requirements.render(missing, false),
        `sudo apt-get install -y --no-install-recommends ${packages.join(" ")}`
      )
    })
  )

  it("offers --setup for what packages mend, and for nothing else", () => {
    const check = (subject: string, ok: boolean, ...packages: ReadonlyArray<string>): Check => ({
      subject,
      ok,
      found: "",
      remedy: "",
      packages
    })
    const chrome = check("google-chrome", false, "chromium")
    const code = check("code", false)
    const vlc = check("vlc", true)
    assert.include(Requirements.setupHint([chrome, vlc]), "does it for you")
    assert.strictEqual(Requirements.setupHint([code, vlc]), "")
    assert.include(
      Requirements.setupHint([chrome, code]),
      "which installs the packages; what may be missing still is then said: code."
    )
  })

  it.effect("does not send anybody on Ubuntu to a package that is a snap", () =>
    Effect.gen(function* () {
      const missing = yield* failed([task([], ["chrome"])], { "/etc/os-release": 'NAME="Ubuntu"\nID=ubuntu\n' })
      const chrome = missing.find(({ subject }) => subject === "google-chrome")
      assert.deepStrictEqual(chrome?.packages, [])
      assert.include(chrome?.remedy ?? "", "snap")
      assert.notInclude(Requirements.packagesFor(missing), "chromium")
    })
  )
})
