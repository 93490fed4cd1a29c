import { assert, describe, it } from "@effect/vitest"
import * as FastCheck from "effect/FastCheck"
import {
  bwrapCommand,
  bwrapOptions,
  type Folders,
  type HostFacts,
  lookedFor,
  problems
} from "../../../src/sandbox/internal/bwrapArguments.js"
import { Mount, Network, type SandboxSpec } from "../../../src/sandbox/SandboxSpec.js"
import { scriptSpec } from "./local.js"

const folders: Folders = {
  home: "/state/sb/home",
  runtime: "/state/sb/run",
  relay: "/state/sb/relay",
  etc: [{ name: "passwd", source: "/state/sb/etc/passwd" }]
}

const merged = ["bin", "sbin", "lib", "lib64"].map((name) => ({ path: `/${name}`, link: `usr/${name}` }))

const facts = (spec: SandboxSpec, root = false): HostFacts => ({
  root,
  folders: merged,
  present: new Set(lookedFor(spec))
})

/** What is bound, in order: option, source, target. */
const binds = (options: ReadonlyArray<string>) =>
  options.flatMap((option, index) =>
    option === "--bind" || option === "--ro-bind"
      ? [{ option, source: options[index + 1] ?? "", target: options[index + 2] ?? "" }]
      : []
  )

const inside = (path: string, folder: string) => path === folder || path.startsWith(`${folder}/`)

const segment = FastCheck.constantFrom(
  "a",
  "b",
  "etc",
  "home",
  "user",
  "usr",
  "proc",
  "dev",
  "tmp",
  "run",
  "root",
  "..",
  "opt",
  ""
)
const anyPath = FastCheck.array(segment, { maxLength: 4 }).map((segments) => `/${segments.join("/")}`)
const etcPath = FastCheck.oneof(
  FastCheck.constantFrom("/etc/fonts", "/etc/alternatives", "/etc/passwd", "/etc/ssl/certs", "/etc/ssl"),
  anyPath
)
const anySpec = FastCheck.record({
  systemFiles: FastCheck.array(etcPath, { maxLength: 4 }),
  mounts: FastCheck.array(
    FastCheck.record({ source: anyPath, target: anyPath }).map((mount) => Mount.make(mount)),
    { maxLength: 3 }
  ),
  network: FastCheck.constantFrom(...Network.literals)
}).map((fields) => scriptSpec("true", fields))

describe("bwrapOptions", () => {
  it.prop("bind nothing of the host but what is allowed", [anySpec, FastCheck.boolean()], ([spec, root]) => {
    FastCheck.pre(problems(spec, new Set(lookedFor(spec))).length === 0)
    const network =
      spec.network === "host" ? ["/etc/resolv.conf", "/etc/gai.conf", "/etc/ssl/certs", "/etc/ssl/openssl.cnf"] : []
    const allowed = new Set([
      ...["/usr", "/opt/google", ...spec.systemFiles, ...spec.mounts.map((mount) => mount.source), ...network],
      ...[folders.home, folders.runtime, folders.relay, ...folders.etc.map((file) => file.source)],
      ...["ld.so.cache", "ld.so.conf", "ld.so.conf.d", "alternatives", "localtime", "os-release"].map(
        (name) => `/etc/${name}`
      ),
      ...["protocols", "services"].map((name) => `/etc/${name}`)
    ])
    const options = bwrapOptions(spec, facts(spec, root), folders)
    for (const { source, option, target } of binds(options)) {
      assert.isTrue(allowed.has(source), source)
      if (option === "--bind") {
        assert.include([folders.home, folders.runtime, folders.relay], source)
        assert.include(["/home/user", "/run/user/1000", "/run/deskhand"], target)
      }
    }
    assert.isFalse(options.includes("--dev-bind"))
  })

  it.prop("let no mount hide or enter what the sandbox is made of", [anySpec], ([spec]) => {
    FastCheck.pre(problems(spec, new Set(lookedFor(spec))).length === 0)
    for (const { target } of spec.mounts) {
      for (const own of ["/usr", "/proc", "/dev", "/sys", "/home/user", "/run/user/1000", "/run/deskhand", "/bin"]) {
        assert.isFalse(inside(target, own) || inside(own, target), target)
      }
    }
  })

  it.prop("make every folder before what is bound into it, and close the root last", [anySpec], ([spec]) => {
    FastCheck.pre(problems(spec, new Set(lookedFor(spec))).length === 0)
    const options = bwrapOptions(spec, facts(spec), folders)
    for (const { target } of binds(options)) {
      const parent = target.slice(0, target.lastIndexOf("/"))
      const at = options.findIndex((option, index) => /bind$/.test(option) && options[index + 2] === target)
      const made = options.findIndex(
        (option, index) =>
          (/^--(dir|tmpfs|dev|proc)$/.test(option) && options[index + 1] === parent) ||
          (/bind$/.test(option) && inside(parent, options[index + 2] ?? "/-"))
      )
      assert.isTrue(parent === "" || (made !== -1 && made < at), `${target} before its folder`)
    }
    assert.deepStrictEqual(options.slice(-6), ["--remount-ro", "/dev", "--remount-ro", "/", "--chdir", "/home/user"])
  })

  it("drop everything in the order that matters", () => {
    const spec = scriptSpec("true", { env: { A: "1" } })
    const options = bwrapOptions(spec, facts(spec), folders)
    for (const option of ["--unshare-all", "--die-with-parent", "--new-session", "--clearenv"]) {
      assert.include(options, option)
    }
    assert.isBelow(options.indexOf("--clearenv"), options.indexOf("--setenv"))
    assert.isFalse(options.includes("--share-net"))
    assert.isTrue(bwrapOptions(scriptSpec("true", { network: "host" }), facts(spec), folders).includes("--share-net"))
  })

  it("keep of root only what it takes to become somebody else", () => {
    const spec = scriptSpec("true")
    const options = bwrapOptions(spec, facts(spec, true), folders)
    assert.deepStrictEqual(
      options.flatMap((option, index) => (/^--cap-/.test(option) ? [`${option} ${options[index + 1]}`] : [])),
      ["--cap-drop ALL", "--cap-add CAP_SETUID", "--cap-add CAP_SETGID", "--cap-add CAP_SETPCAP"]
    )
    assert.include(options, "--unshare-net")
    const command = bwrapCommand("sb", spec, true)
    assert.deepStrictEqual(command.slice(0, 5), ["/usr/bin/setpriv", "--reuid", "65530", "--regid", "65530"])
    assert.isBelow(command.indexOf("/usr/bin/unshare"), command.indexOf("/bin/bash"))
    assert.isFalse(
      bwrapOptions(scriptSpec("true", { network: "host" }), facts(spec, true), folders).includes("--unshare-net")
    )
  })

  it("show folders that were never merged into /usr as they are", () => {
    const spec = scriptSpec("true")
    const options = bwrapOptions(spec, { ...facts(spec), folders: [{ path: "/lib", link: undefined }] }, folders)
    assert.deepInclude(binds(options), { option: "--ro-bind", source: "/lib", target: "/lib" })
  })

  it("never let a named file replace a generated one", () => {
    const spec = scriptSpec("true", { systemFiles: ["/etc/passwd", "/etc/hosts", "/etc/fonts"] })
    const sources = binds(bwrapOptions(spec, facts(spec), folders)).map((bind) => bind.source)
    assert.include(sources, "/etc/fonts")
    assert.notInclude(sources, "/etc/passwd")
    assert.notInclude(sources, "/etc/hosts")
  })
})
