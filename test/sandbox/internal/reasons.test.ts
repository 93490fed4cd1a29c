import { SystemError } from "@effect/platform/Error"
import { assert, describe, it } from "@effect/vitest"
import { describeExit } from "../../../src/sandbox/internal/container.js"
import { explainFileError, isRecentBubblewrap, namespaceRemedy } from "../../../src/sandbox/internal/reasons.js"
import { isSandboxId, matches, sandboxId, socketPathProblem } from "../../../src/sandbox/internal/record.js"

const failure = (description: string) =>
  new SystemError({ reason: "Unknown", module: "FileSystem", method: "writeFile", description })

const settings = {
  apparmorRestricts: undefined,
  unprivilegedClone: undefined,
  maxUserNamespaces: "15000",
  inContainer: false,
  bwrap: "/usr/bin/bwrap"
}

describe("reasons", () => {
  it("tell what failures of the disk mean", () => {
    const full = explainFileError(failure("ENOSPC: no space left on device, write"), "/state")
    assert.include(full.reason, "no space left for /state")
    assert.include(full.remedy, "deskhand sweep")
    const denied = explainFileError(failure("EACCES: permission denied, mkdir '/state'"), "/state")
    assert.include(denied.reason, "/state cannot be written")
    assert.include(denied.remedy, "DESKHAND_STATE_DIR")
  })

  it("name the very setting that keeps containers from being made", () => {
    const denied = "bwrap: setting up uid map: Permission denied"
    const apparmor = namespaceRemedy(denied, { ...settings, apparmorRestricts: "1" })
    assert.include(apparmor, "sysctl -w kernel.apparmor_restrict_unprivileged_userns=0")
    assert.include(apparmor, "/etc/apparmor.d/bwrap")
    // What Ubuntu 24.04 prints first.
    assert.strictEqual(
      namespaceRemedy("bwrap: loopback: Failed RTM_NEWADDR: Operation not permitted", {
        ...settings,
        apparmorRestricts: "1"
      }),
      apparmor
    )
    assert.include(namespaceRemedy(denied, { ...settings, unprivilegedClone: "0" }), "unprivileged_userns_clone=1")
    assert.include(namespaceRemedy(denied, { ...settings, maxUserNamespaces: "0" }), "max_user_namespaces=")
    assert.include(namespaceRemedy(denied, { ...settings, inContainer: true }), "--privileged")
  })

  it("know which bubblewrap is too old", () => {
    assert.deepStrictEqual(
      ["bubblewrap 0.4.0", "bubblewrap 0.5.0", "bubblewrap 0.11.1", "bubblewrap 1.0.0", ""].map(isRecentBubblewrap),
      [false, true, true, true, false]
    )
  })

  it("tell exits by signals from others", () => {
    assert.strictEqual(describeExit(3), "its entrypoint ended with exit code 3")
    assert.strictEqual(describeExit(139), "its entrypoint ended with exit code 139 (signal SIGSEGV)")
  })
})

describe("records", () => {
  it("ids are told from other names", () => {
    assert.isTrue(isSandboxId(sandboxId(new Uint8Array([0, 1, 2, 3, 4, 255]))))
    for (const name of ["", "sb-", "sb-00000000000", "sb-00000000000g", "../sb-000000000000", "home"]) {
      assert.isFalse(isSandboxId(name))
    }
  })

  it("a selector wants every entry of its own", () => {
    assert.isTrue(matches({}, {}))
    assert.isTrue(matches({ run: "a" }, { run: "a", task: "b" }))
    assert.isFalse(matches({ run: "a", task: "c" }, { run: "a", task: "b" }))
    assert.isFalse(matches({ constructor: "x" }, {}))
  })

  it("a socket's path has 107 bytes at most", () => {
    const longest = `/${"x".repeat(106 - "/sb-000000000000/ports/65535.sock".length)}`
    assert.isUndefined(socketPathProblem(longest))
    assert.include(socketPathProblem(`${longest}x`), "at most 74")
    assert.isDefined(socketPathProblem(`/${"é".repeat(50)}`))
  })
})
