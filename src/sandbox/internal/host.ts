/**
 * What this host has of what local sandboxes need.
 */

import { statfs } from "node:fs/promises"
import * as Command from "@effect/platform/Command"
import * as FileSystem from "@effect/platform/FileSystem"
import * as Path from "@effect/platform/Path"
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import type { Check } from "../SandboxProvider.js"
import { type HostFacts, type SystemFolder, systemFolderPaths, trialArguments } from "./bwrapArguments.js"
import * as Folders from "./folders.js"
import * as Reasons from "./reasons.js"
import { socketPathProblem, socketPathRemedy } from "./record.js"

const isRoot = () => process.getuid?.() === 0

/** What `bwrapArguments` decides with. */
export const facts = (lookedFor: ReadonlyArray<string>): Effect.Effect<HostFacts, never, FileSystem.FileSystem> =>
  Effect.gen(function* () {
    const fs = yield* FileSystem.FileSystem
    const exists = (path: string) => Effect.orElseSucceed(fs.exists(path), () => false)
    const folders = yield* Effect.forEach(systemFolderPaths, (path) =>
      fs.readLink(path).pipe(
        Effect.map((link): SystemFolder | undefined => ({ path, link })),
        Effect.orElse(() => Effect.map(exists(path), (there) => (there ? { path, link: undefined } : undefined)))
      )
    )
    return {
      root: isRoot(),
      folders: folders.filter((each) => each !== undefined),
      present: new Set(yield* Effect.filter(lookedFor, exists))
    }
  })

const setting = (path: string) =>
  Effect.flatMap(FileSystem.FileSystem, (fs) => fs.readFileString(path)).pipe(
    Effect.map((text): string | undefined => text.trim()),
    Effect.orElseSucceed(() => undefined)
  )

const inContainer = Effect.gen(function* () {
  const fs = yield* FileSystem.FileSystem
  const marks = ["/.dockerenv", "/run/.containerenv"]
  return (yield* Effect.filter(marks, (path) => Effect.orElseSucceed(fs.exists(path), () => false))).length > 0
})

/** What to do about a container that could not be built. */
export const namespaceRemedy = (printed: string) =>
  Effect.gen(function* () {
    if (/exec: bwrap: not found|bwrap: command not found/.test(printed)) {
      return "Install bubblewrap: sudo apt-get install bubblewrap"
    }
    if (/relay of port/.test(printed)) {
      return "Install socat: sudo apt-get install socat"
    }
    if (/No space left/.test(printed)) {
      return "Free some space, or run `deskhand sweep`"
    }
    if (
      !/namespace|uid map|gid map|Operation not permitted|Permission denied|loopback|RTM_|No permissions/i.test(printed)
    ) {
      return "Run `deskhand doctor`, and look at what the spec mounts"
    }
    return Reasons.namespaceRemedy(printed, {
      apparmorRestricts: yield* setting("/proc/sys/kernel/apparmor_restrict_unprivileged_userns"),
      unprivilegedClone: yield* setting("/proc/sys/kernel/unprivileged_userns_clone"),
      maxUserNamespaces: yield* setting("/proc/sys/user/max_user_namespaces"),
      inContainer: yield* inContainer,
      bwrap: (yield* run("/bin/sh", "-c", "command -v bwrap")).printed.trim() || "/usr/bin/bwrap"
    })
  })

/** Runs a command to its end: what it printed, and whether it succeeded. */
const run = (command: string, ...args: ReadonlyArray<string>) =>
  Effect.gen(function* () {
    const process = yield* Command.start(Command.make("/bin/sh", "-c", 'exec "$@" 2>&1', "run", command, ...args))
    const printed = yield* Stream.mkString(Stream.decodeText(process.stdout))
    return { ok: (yield* process.exitCode) === 0, printed: printed.trim() }
  }).pipe(
    Effect.scoped,
    Effect.timeoutFail({ duration: "20 seconds", onTimeout: () => new Error("it did not end within 20 s") }),
    Effect.catchAll((error) => Effect.succeed({ ok: false, printed: error.message }))
  )

const check = (
  subject: string,
  ok: boolean,
  found: string,
  remedy: string,
  packages: ReadonlyArray<string> = []
): Check => ({ subject, ok, found, remedy: ok ? "" : remedy, packages: ok ? [] : packages })

const bubblewrap = Effect.map(run("bwrap", "--version"), ({ ok, printed }) =>
  check(
    "bubblewrap",
    ok && Reasons.isRecentBubblewrap(printed),
    ok ? printed : "not installed",
    `Install bubblewrap ${Reasons.oldestBubblewrap} or later: sudo apt-get install bubblewrap`,
    ["bubblewrap"]
  )
)

const namespaces = Effect.gen(function* () {
  const { ok, printed } = yield* run("bwrap", ...trialArguments(isRoot()))
  const missing = /not found/.test(printed)
  return check(
    "user namespaces",
    ok,
    ok ? (isRoot() ? "work (guests are user 65530 outside)" : "work") : missing ? "needs bubblewrap" : printed,
    yield* namespaceRemedy(printed)
  )
})

const program = (subject: string, packages: ReadonlyArray<string>, ...command: [string, ...Array<string>]) =>
  Effect.map(run(...command), ({ ok, printed }) =>
    check(
      subject,
      ok,
      ok ? (printed.split("\n").find((line) => /version/i.test(line)) ?? printed.slice(0, 100)) : "not installed",
      `Install ${subject}: sudo apt-get install ${packages.join(" ")}`,
      packages
    )
  )

/** The state folder, or the nearest folder above it that exists. */
const nearestFolder = (folder: string): Effect.Effect<string, never, FileSystem.FileSystem | Path.Path> =>
  Effect.gen(function* () {
    const fs = yield* FileSystem.FileSystem
    const path = yield* Path.Path
    const there = yield* Effect.orElseSucceed(fs.exists(folder), () => false)
    return there || path.dirname(folder) === folder ? folder : yield* nearestFolder(path.dirname(folder))
  })

const stateFolder = (stateDir: string) =>
  Effect.gen(function* () {
    const fs = yield* FileSystem.FileSystem
    const nearest = yield* nearestFolder(stateDir)
    const usable =
      nearest === stateDir
        ? Effect.as(Folders.checkStateDir(stateDir), stateDir)
        : Effect.as(fs.access(nearest, { writable: true }), `${stateDir} (is made when it is needed)`)
    return yield* usable.pipe(
      Effect.zipLeft(fs.access(nearest, { writable: true })),
      Effect.match({
        onSuccess: (found) => check("state folder", true, found, ""),
        onFailure: (error) =>
          check(
            "state folder",
            false,
            error._tag === "UnsafeStateDir" ? error.reason : `${nearest} cannot be written`,
            "Name a folder of your own in DESKHAND_STATE_DIR, with no write permission for others"
          )
      })
    )
  })

const socketPaths = (stateDir: string) => {
  const problem = socketPathProblem(stateDir)
  return check("socket paths", problem === undefined, problem ?? "short enough", socketPathRemedy)
}

/** A desktop's home folder grows to some 100 MB. */
const wantedBytes = 300 * 1024 * 1024

const freeSpace = (stateDir: string) =>
  Effect.gen(function* () {
    const nearest = yield* nearestFolder(stateDir)
    const { bavail, bsize } = yield* Effect.promise(() => statfs(nearest))
    const free = bavail * bsize
    return check(
      "disk space",
      free >= wantedBytes,
      `${Math.floor(free / 1024 / 1024)} MB free for ${stateDir}`,
      "Free some space, run `deskhand sweep`, or name a folder on another disk in DESKHAND_STATE_DIR"
    )
  })

/** Everything that a sandbox needs of this host. Changes nothing. */
export const preflight = (stateDir: string) =>
  Effect.all(
    [
      bubblewrap,
      namespaces,
      program("socat", ["socat"], "socat", "-V"),
      program("bash", ["bash"], "/bin/bash", "--version"),
      program("perl", ["perl-base"], "/usr/bin/perl", "-MPOSIX", "-e", "print qq(version $]\\n)"),
      ...(isRoot()
        ? [
            program("setpriv", ["util-linux"], "/usr/bin/setpriv", "--version"),
            program("unshare", ["util-linux"], "/usr/bin/unshare", "--version"),
            program("nsenter", ["util-linux"], "/usr/bin/nsenter", "--version")
          ]
        : []),
      stateFolder(stateDir),
      Effect.succeed(socketPaths(stateDir)),
      freeSpace(stateDir)
    ],
    { concurrency: 4 }
  )
