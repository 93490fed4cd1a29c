/** What can happen on this host to the sandboxes of a state folder. */
import { chmodSync, readdirSync, readFileSync } from "node:fs"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Random from "effect/Random"
import { CommandReadiness } from "../../../src/sandbox/SandboxSpec.js"
import type { Faults } from "../../../src/testing/ProviderConformance.js"

const read = (path: string): string => {
  try {
    return readFileSync(path, "utf8")
  } catch {
    // It has ended meanwhile.
    return ""
  }
}

const childrenOf = (pid: number): ReadonlyArray<number> =>
  read(`/proc/${pid}/task/${pid}/children`)
    .trim()
    .split(" ")
    .filter((each) => each !== "")
    .map(Number)

const family = (pid: number): ReadonlyArray<number> => [pid, ...childrenOf(pid).flatMap(family)]

/**
 * Processes of all sandboxes, from the ones that supervise them outside to what their entrypoints did; `helpers` are the
 * provider's own, too: commands that enter a sandbox, and what removes its folder.
 */
const processesOf = (stateDir: string, helpers: boolean): ReadonlyArray<number> => {
  const ids = readdirSync(stateDir).filter((name) => name.startsWith("sb-"))
  return childrenOf(process.pid)
    .filter((pid) => {
      const command = read(`/proc/${pid}/cmdline`)
      return ids.some((id) => command.includes(id)) && (helpers || command.startsWith("bwrap\0"))
    })
    .flatMap(family)
}

const signal = (stateDir: string, signal: NodeJS.Signals, helpers: boolean) =>
  Effect.gen(function* () {
    const all = processesOf(stateDir, helpers)
    const pid = all[yield* Random.nextIntBetween(0, Math.max(1, all.length))]
    yield* Effect.sync(() => {
      try {
        if (pid !== undefined) {
          process.kill(pid, signal)
        }
      } catch {
        // It has ended meanwhile.
      }
    })
  })

const mode = (stateDir: string, bits: number) => Effect.sync(() => chmodSync(stateDir, bits))

export const faults = (stateDir: string): Faults => ({
  inject: {
    "a process of a sandbox is killed": signal(stateDir, "SIGKILL", true),
    "a process of a sandbox is told to end": signal(stateDir, "SIGTERM", true),
    // Nothing stops a program of ours that way.
    "a process of a sandbox stands still": signal(stateDir, "SIGSTOP", false),
    "others can write the state folder": mode(stateDir, 0o777).pipe(
      Effect.zipRight(Effect.sleep("20 millis")),
      Effect.ensuring(mode(stateDir, 0o700))
    )
  },
  clear: mode(stateDir, 0o700),
  specs: {
    "its entrypoint is not there": { entrypoint: ["/no/such/program"] },
    "its entrypoint ends at once": { entrypoint: ["/bin/false"] },
    "its entrypoint ends soon": { entrypoint: ["/bin/sleep", "0.05"] },
    "it does not listen to signals, nor do its children": {
      entrypoint: ["/bin/bash", "-c", "trap '' TERM INT HUP; for i in 1 2 3; do sleep 1000 & done; wait; sleep 1000"]
    },
    "it closes its folders": {
      entrypoint: ["/bin/bash", "-c", "mkdir -p a/b/c; touch a/b/c/d; chmod 000 a/b/c a/b a; exec sleep 1000"]
    },
    "it stands still": { entrypoint: ["/bin/bash", "-c", "kill -STOP $$"] },
    "it is never ready": {
      readiness: new CommandReadiness({ command: ["/bin/false"], timeout: Duration.millis(200) })
    },
    "its file cannot be written": { files: { "/proc/nothing": "x" } }
  }
})
