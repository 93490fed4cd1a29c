/** Runs Python in the desktop that is judged: an agent's own code never runs on this host. */
import * as Effect from "effect/Effect"
import type { Guest } from "../../../desktop/Guest.js"
import type { RunPython } from "../Metric.js"

/** Where in the guest a program and its files lie while it runs; the code starts there. */
const folder = "/tmp/deskhand-judge"

export const make =
  (guest: Guest): RunPython =>
  ({ code, files }) =>
    Effect.gen(function* () {
      yield* guest.execute({ command: ["rm", "-rf", folder] })
      for (const { name, path } of files) yield* guest.writeFile(`${folder}/${name}`, path)
      return yield* guest.runPython(
        `import os, sys\nos.makedirs(${JSON.stringify(folder)}, exist_ok=True)\nos.chdir(${JSON.stringify(folder)})\nsys.path.insert(0, ${JSON.stringify(folder)})\n${code}`
      )
    })
