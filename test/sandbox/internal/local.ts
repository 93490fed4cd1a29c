/** What the tests of local sandboxes share: specs whose entrypoints are small, and a look at what is left. */

import { mkdtempSync } from "node:fs"
import * as os from "node:os"
import * as FileSystem from "@effect/platform/FileSystem"
import * as NodeContext from "@effect/platform-node/NodeContext"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { httpClient } from "../../../src/sandbox/Endpoint.js"
import * as LocalProvider from "../../../src/sandbox/LocalProvider.js"
import type { OwnedSandbox } from "../../../src/sandbox/Sandbox.js"
import { HttpReadiness, SandboxSpec } from "../../../src/sandbox/SandboxSpec.js"

export const makeStateDir = () => mkdtempSync(`${os.tmpdir()}/dh-`)

export const provided = (stateDir: string) =>
  Layer.merge(LocalProvider.layer({ stateDir }).pipe(Layer.provide(NodeContext.layer)), NodeContext.layer)

/** Answers every request on the port with what the file `report` in the home folder holds. */
const serve = (port: number) => `
cat >serve <<'END'
while read -r line && [[ $line != $'\\r' ]]; do :; done
report=$(cat /home/user/report)
printf 'HTTP/1.1 200 OK\\r\\nContent-Length: %d\\r\\nConnection: close\\r\\n\\r\\n%s' "\${#report}" "$report"
END
exec socat TCP-LISTEN:${port},bind=127.0.0.1,reuseaddr,fork EXEC:"/bin/bash serve"
`

export const port = 8000

type Fields = Partial<ConstructorParameters<typeof SandboxSpec>[0]>

/** A sandbox that runs a shell script. */
export const scriptSpec = (script: string, fields: Fields = {}) =>
  SandboxSpec.make({
    entrypoint: ["/bin/bash", "-c", script],
    env: { PATH: "/usr/bin:/bin", HOME: "/home/user" },
    mounts: [],
    systemFiles: [],
    ports: [],
    network: "none",
    metadata: {},
    ...fields
  })

export const ready = (seconds = 20) => new HttpReadiness({ port, path: "/", timeout: Duration.seconds(seconds) })

/** A sandbox that runs a script, and then tells over HTTP what the script printed. */
export const reportSpec = (script: string, fields: Fields = {}) =>
  scriptSpec(`{ ${script}\n} >report 2>&1${serve(port)}`, { ports: [port], readiness: ready(), ...fields })

export const report = (sandbox: OwnedSandbox) =>
  Effect.gen(function* () {
    const client = yield* httpClient(yield* sandbox.endpoint(port))
    return yield* Effect.flatMap(client.get("/"), (response) => response.text)
  }).pipe(Effect.scoped)

/** Everything that exists of sandboxes of a state folder: folders, and processes by any trace of them. */
export const leftovers = (stateDir: string, ids: ReadonlyArray<string> = []) =>
  Effect.gen(function* () {
    const fs = yield* FileSystem.FileSystem
    const folders = yield* fs.readDirectory(stateDir)
    const processes: Array<string> = []
    for (const pid of (yield* fs.readDirectory("/proc")).filter((name) => /^\d+$/.test(name))) {
      const read = (file: string) => Effect.orElseSucceed(fs.readFileString(`/proc/${pid}/${file}`), () => "")
      const command = yield* read("cmdline")
      // The root of a bind mount is its path on the disk that it comes from.
      const traces = [`${stateDir}/sb-`, ...ids, ...folders]
      const text = `${command}\n${yield* read("mountinfo")}`
      if (pid !== `${process.pid}` && traces.some((trace) => text.includes(trace))) {
        processes.push(`${pid} ${command.replaceAll("\0", " ").slice(0, 100)}`)
      }
    }
    return { folders, processes }
  })

export const nothing = { folders: [], processes: [] }

/** Whether the tests may do what only root can. */
export const isRoot = process.getuid?.() === 0
