import { execFile } from "node:child_process"
import { existsSync, readFileSync } from "node:fs"
import { createRequire } from "node:module"
import { join } from "node:path"
import { promisify } from "node:util"
import * as FileSystem from "@effect/platform/FileSystem"
import * as NodeFileSystem from "@effect/platform-node/NodeFileSystem"
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"

const root = join(import.meta.dirname, "../../..")

/** Libraries that take tens of megabytes, and that a run whose tasks need none of them does without. */
const heavy = ["pdfjs-dist", "playwright-core", "sharp", "sql.js", "music-metadata"]

/** Node tells a hook of every module that it loads, and CommonJS of what it has. */
const hook = (log: string) => `
import { appendFileSync } from "node:fs"
export const load = async (url, context, next) => {
  appendFileSync(${JSON.stringify(log)}, url + "\\n")
  return next(url, context)
}`

/** What a process of its own has loaded when it has loaded these modules. */
const loadedBy = (modules: ReadonlyArray<string>) =>
  Effect.gen(function* () {
    const fs = yield* FileSystem.FileSystem
    const folder = yield* fs.makeTempDirectoryScoped()
    const log = join(folder, "loaded.txt")
    yield* fs.writeFileString(join(folder, "hook.mjs"), hook(log))
    yield* fs.writeFileString(
      join(folder, "register.mjs"),
      `import { register } from "node:module"\nregister(${JSON.stringify(`file://${join(folder, "hook.mjs")}`)})`
    )
    const program = `
      import { appendFileSync } from "node:fs"
      import { createRequire } from "node:module"
      ${modules.map((module) => `await import(${JSON.stringify(`file://${join(root, module)}`)})`).join("\n")}
      const required = Object.keys(createRequire(import.meta.url).cache)
      appendFileSync(${JSON.stringify(log)}, required.join("\\n") + "\\n")
      console.log(process.memoryUsage().rss)`
    yield* fs.writeFileString(join(folder, "main.mjs"), program)
    const { stdout } = yield* Effect.promise(() =>
      promisify(execFile)(
        process.execPath,
        ["--import", "tsx", "--import", join(folder, "register.mjs"), join(folder, "main.mjs")],
        { cwd: root }
      )
    )
    return { loaded: readFileSync(log, "utf8").split("\n"), rss: Number(stdout) }
  }).pipe(Effect.provide(NodeFileSystem.layer))

const of = (loaded: ReadonlyArray<string>) =>
  heavy.filter((name) => loaded.some((url) => url.includes(`/node_modules/${name}/`)))

describe("the registries", () => {
  it("know libraries that are there", () => {
    for (const name of heavy) assert.isTrue(existsSync(join(root, "node_modules", name)), name)
  })

  it.scoped("load no heavy library before it is used", () =>
    Effect.gen(function* () {
      const { loaded, rss } = yield* loadedBy([
        "src/osworld/evaluator/Metrics.ts",
        "src/osworld/evaluator/Getters.ts",
        "src/osworld/Setup.ts",
        "src/osworld/OSWorld.ts"
      ])
      assert.isAbove(loaded.length, 100)
      assert.isTrue(loaded.some((url) => url.endsWith("/evaluator/images.ts")))
      assert.deepStrictEqual(of(loaded), [])
      assert.isBelow(rss, 300 * 1024 * 1024)
    })
  )

  it.scoped("would be seen if they did", () =>
    Effect.gen(function* () {
      const { loaded } = yield* loadedBy([
        createRequire(import.meta.url)
          .resolve("sharp")
          .slice(root.length)
      ])
      assert.deepStrictEqual(of(loaded), ["sharp"])
    })
  )
})
