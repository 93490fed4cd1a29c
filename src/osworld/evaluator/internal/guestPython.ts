/** Runs Python in the desktop that is judged: an agent's own code never runs on this host. */
import * as NodePath from "node:path"
import * as Effect from "effect/Effect"
import * as Random from "effect/Random"
import type { Guest } from "../../../desktop/Guest.js"
import * as PythonLiteral from "../../../desktop/PythonLiteral.js"
import type { RunPython } from "../Metric.js"

/**
 * Modules come in before the files do, and from then on not from the working folder: a file may be called `json.py`, and
 * that must not become a part of the program that judges it.
 */
const prelude = (folder: string) => `import ast, json, os, resource, signal, subprocess, sys
sys.path = [place for place in sys.path if place]
os.makedirs(${folder}, exist_ok=True)
os.chdir(${folder})
`

const newFolder = Effect.map(
  Effect.all([Random.nextIntBetween(0, 2 ** 32), Random.nextIntBetween(0, 2 ** 32)]),
  (parts) => `/tmp/deskhand-judge-${parts.map((part) => part.toString(16).padStart(8, "0")).join("")}`
)

export const make =
  (guest: Guest): RunPython =>
  ({ code, files }) =>
    Effect.acquireUseRelease(
      newFolder,
      (folder) =>
        Effect.gen(function* () {
          for (const { name, path } of files) yield* guest.writeFile(`${folder}/${NodePath.basename(name)}`, path)
          return yield* guest.runPython(`${prelude(PythonLiteral.fromString(folder))}${code}`)
        }),
      // What is left behind hurts nobody: the desktop is about to go.
      (folder) =>
        guest.execute({ command: ["rm", "-rf", "--", folder], timeout: "10 seconds" }).pipe(Effect.ignoreLogged)
    )
