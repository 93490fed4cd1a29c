import { execFileSync } from "node:child_process"
import * as Fs from "node:fs"
import * as Path from "node:path"
import * as NodeFileSystem from "@effect/platform-node/NodeFileSystem"
import { assert, describe, it } from "@effect/vitest"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Applications from "../../src/desktop/Applications.js"
import * as DesktopSpec from "../../src/desktop/DesktopSpec.js"
import * as Windows from "../../src/desktop/guest/Windows.js"

const facts: DesktopSpec.HostFacts = { guest: "/package/guest", server: "/package/server.mjs", node: "/node" }

describe("DesktopSpec.forVirtualMachine", () => {
  it("is the official container: osworld-upstream.md section 2.4", () => {
    const of = (kvm: boolean) => DesktopSpec.forVirtualMachine({ disk: "/images/Ubuntu.qcow2", kvm })
    const spec = of(true)
    assert.deepStrictEqual(spec.entrypoint, ["/usr/bin/tini", "-s", "/run/entry.sh"])
    assert.deepStrictEqual({ ...spec.env }, { DISK_SIZE: "32G", RAM_SIZE: "4G", CPU_CORES: "4" })
    assert.deepStrictEqual(
      spec.mounts.map(({ source, target }) => [source, target]),
      [["/images/Ubuntu.qcow2", "/System.qcow2"]]
    )
    assert.deepStrictEqual(
      [...spec.ports].sort((a, b) => a - b),
      [5000, 8006, 8080, 9222]
    )
    assert.strictEqual(of(false).env.KVM, "N")
  })
})

describe("DesktopSpec", () => {
  it("is a pure function of its options and the host's facts", () => {
    const options = { width: 1280, height: 800, metadata: { run: "r" }, readyTimeout: "5 seconds" } as const
    const spec = DesktopSpec.make(options, facts)
    assert.deepStrictEqual(spec, DesktopSpec.make(options, facts))
    assert.deepStrictEqual(
      spec.mounts.map(({ source, target }) => [source, target]),
      [
        ["/package/guest/start.sh", "/opt/deskhand/start.sh"],
        ["/package/guest/bin", "/opt/deskhand/bin"],
        ["/package/guest/etc", "/opt/deskhand/etc"],
        ["/package/guest/python", "/opt/deskhand/python"],
        ["/package/server.mjs", "/opt/deskhand/server.mjs"],
        ["/node", "/opt/deskhand/node"]
      ]
    )
    assert.strictEqual(spec.env.DESKHAND_WIDTH, "1280")
    assert.strictEqual(spec.network, "none")
    assert.deepStrictEqual(spec.ports, [5000, 9222, 1337, 8080])
    assert.deepStrictEqual(spec.readiness?.timeout, Duration.seconds(5))
    assert.deepStrictEqual(spec.metadata, { run: "r" })
  })

  it("has the official desktop's size without options", () => {
    const { env } = DesktopSpec.make({}, facts)
    assert.deepStrictEqual([env.DESKHAND_WIDTH, env.DESKHAND_HEIGHT], ["1920", "1080"])
  })

  it.effect("finds its files in this package and names what is missing", () =>
    Effect.gen(function* () {
      assert.deepStrictEqual(
        (yield* DesktopSpec.missingFiles()).filter((path) => path !== DesktopSpec.hostFacts.server),
        []
      )
      assert.deepStrictEqual(yield* DesktopSpec.missingFiles({ ...DesktopSpec.hostFacts, node: "/none" }), ["/none"])
    }).pipe(Effect.provide(NodeFileSystem.layer))
  )
})

describe("Applications", () => {
  it("knows applications by their command lines", () => {
    assert.deepStrictEqual(Applications.find(["google-chrome", "--x"])?.packages, ["chromium"])
    assert.include(Applications.find(["libreoffice", "--calc", "a.xlsx"])?.packages ?? [], "libreoffice-calc")
    assert.include(Applications.find(["/usr/bin/soffice"])?.packages ?? [], "libreoffice-writer")
    assert.deepStrictEqual(Applications.find(["code"])?.packages, [])
    assert.isUndefined(Applications.find(["nope"]))
  })
})

// Both listings are what wmctrl 1.07 printed in a desktop of ours.
describe("Windows", () => {
  const windows = Windows.parse(
    [
      "0x00600002  0 10   10   1060 770  desk Hello page - Chromium",
      "0x00c00024  0 0    0    1280 800  desk hello.txt - LibreOffice Writer",
      "0x00c00025 -1 -5   0    10   10   N/A "
    ].join("\n")
  )
  const classes = [
    "0x00600002  0 google-chrome (/home/user/.config/google-chrome).google-chrome  desk Hello page - Chromium",
    "0x00c00024  0 libreoffice.libreoffice-writer  desk hello.txt - LibreOffice Writer"
  ].join("\n")

  it("are read from wmctrl's listing", () => {
    assert.deepStrictEqual(windows[0], {
      id: "0x00600002",
      width: 1060,
      height: 770,
      host: "desk",
      title: "Hello page - Chromium"
    })
    assert.strictEqual(windows.length, 3)
    assert.strictEqual(windows[2]?.title, "")
  })

  it("show a file when its name is in their title", () => {
    for (const [title, name, expected] of [
      ["~/Notes.txt - Mousepad", "notes.txt", true],
      ["*notes - Mousepad", "notes.txt", true],
      ["footnotes - Mousepad", "notes.txt", false],
      ["xterm", "x.png", false],
      ["[x] (imported)-1.0", "x.png", true],
      ["表.xlsx - Calc", "表.xlsx", true],
      ["", "a", false]
    ] as const) {
      assert.strictEqual(Windows.shows(title, name), expected, `${title} / ${name}`)
    }
  })

  it("are known by their class, whatever blanks are in it", () => {
    const names = windows.map((window) => Windows.classOf(window, classes))
    assert.strictEqual(names[0], "google-chrome (/home/user/.config/google-chrome).google-chrome")
    assert.strictEqual(names[1], "libreoffice.libreoffice-writer")
    assert.isTrue(Windows.isOfClass(names[0] ?? "", "Google-chrome"))
    assert.isTrue(Windows.isOfClass(names[1] ?? "", "libreoffice"))
    assert.isTrue(Windows.isOfClass(names[1] ?? "", "libreoffice-writer"))
    assert.isFalse(Windows.isOfClass(names[1] ?? "", "libre"))
  })
})

describe("OSWorld's names of applications", () => {
  it("are found however they are spelt", () => {
    const packages = (name: string) => Applications.forRelatedApp(name)?.packages
    for (const name of ["libreoffice_calc", "LibreOffice Calc", "calc", "libreoffice-calc"]) {
      assert.include(packages(name) ?? [], "libreoffice-calc", name)
    }
    assert.deepStrictEqual(packages("Google Chrome"), ["chromium"])
    assert.deepStrictEqual(packages("vscode"), [])
    assert.deepStrictEqual(packages("GIMP"), ["gimp"])
    assert.isUndefined(Applications.forRelatedApp("os"))
  })

  it("stand for the same packages where the image is built", () => {
    const script = Path.join(DesktopSpec.hostFacts.guest, "build-image.sh")
    const said = (...names: ReadonlyArray<string>) =>
      execFileSync(script, ["packages", ...names], { encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] })
        .split("\n")
        .filter((line) => line !== "")
    const names = ["chrome", "gimp", "vlc", "thunderbird", "vs_code", "terminal", "files", "pdf", "os"].concat(
      ["calc", "writer", "impress", "draw"].map((component) => `libreoffice_${component}`)
    )
    const known = (name: string) =>
      Applications.packagesOf([Applications.forRelatedApp(name)].filter((each) => each !== undefined))
    for (const name of names) assert.deepStrictEqual(said(name), known(name), name)
    assert.deepStrictEqual(said("all"), Array.from(new Set(names.flatMap(known))).sort())
    assert.throws(() => said("winword"))
  })

  it("are in an image only with what every desktop needs", () => {
    const dockerfile = Fs.readFileSync(Path.join(DesktopSpec.hostFacts.guest, "Dockerfile"), "utf8").split(/[\s\\]+/)
    for (const name of Applications.packagesOf(Applications.base)) assert.include(dockerfile, name)
  })
})
