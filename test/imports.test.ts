import { readdirSync, readFileSync } from "node:fs"
import { dirname, join, normalize, relative } from "node:path"
import { fileURLToPath } from "node:url"
import { assert, describe, it } from "@effect/vitest"

const src = fileURLToPath(new URL("../src", import.meta.url))

/** A room stands above all that it imports. `testing` is for tests and may import any; nothing imports it. */
const floors: Readonly<Record<string, number>> = {
  identity: 1,
  trace: 1,
  artifact: 1,
  sandbox: 1,
  history: 2,
  training: 2,
  desktop: 2,
  model: 2,
  rollout: 3,
  osworld: 4,
  agents: 4,
  cli: 5
}

/** Rooms that may import less than their floor allows. */
const only: Readonly<Record<string, ReadonlyArray<string>>> = {
  history: ["identity"],
  training: ["identity"],
  model: ["identity", "trace", "artifact"],
  desktop: ["identity", "artifact", "sandbox"],
  rollout: ["identity", "trace", "artifact", "history", "model", "training"]
}

interface Arrow {
  readonly file: string
  readonly from: string
  readonly to: string
}

const room = (path: string): string => (path.includes("/") ? path.slice(0, path.indexOf("/")) : "")

/** Static imports, re-exports, and imports in an expression or a type. */
const specifiers = (source: string): ReadonlyArray<string> =>
  Array.from(source.matchAll(/(?:\bfrom\s*|\bimport\s*\(?\s*)["']([^"']+)["']/g), ([, specifier = ""]) => specifier)

const arrowsOf = (file: string, source: string): ReadonlyArray<Arrow> =>
  specifiers(source)
    .filter((specifier) => specifier.startsWith("."))
    .map((specifier) => normalize(join(dirname(file), specifier)))
    .map((target) => ({ file, from: room(file), to: room(target) }))
    .filter(({ from, to }) => from !== to)

const files = (readdirSync(src, { recursive: true }) as Array<string>).filter((file) => file.endsWith(".ts"))

const complaint = ({ file, from, to }: Arrow): string | undefined => {
  if (from === "") return undefined
  // The command offers one of the doubles to users.
  if (to === "testing") return from === "cli" ? undefined : `${file} imports testing`
  if (from === "testing") return undefined
  const above = floors[from]
  const below = floors[to]
  if (above === undefined) return `${from}/ is no room of the house`
  if (below === undefined) return `${file} imports ${to === "" ? "the index" : to}`
  if (below >= above) return `${file} imports ${to}, which does not stand below ${from}`
  const allowed = only[from]
  return allowed !== undefined && !allowed.includes(to) ? `${file} imports ${to}` : undefined
}

describe("imports", () => {
  it("no arrow runs up, and each room imports only what it may", () => {
    assert.isAbove(files.length, 20)
    const complaints = files
      .flatMap((file) => arrowsOf(file, readFileSync(join(src, file), "utf8")))
      .map(complaint)
      .filter((text) => text !== undefined)
    assert.deepStrictEqual(complaints, [])
  })

  it("no file imports another area's internal part", () => {
    const complaints = files.flatMap((file) =>
      specifiers(readFileSync(join(src, file), "utf8"))
        .filter((specifier) => specifier.startsWith("."))
        .map((specifier) => relative(".", normalize(join(dirname(file), specifier))))
        .filter(
          (target) =>
            target.includes("/internal/") && !file.startsWith(`${target.slice(0, target.indexOf("/internal/"))}/`)
        )
        .map((target) => `${file} imports ${target}`)
    )
    assert.deepStrictEqual(complaints, [])
  })

  it("sees an arrow that runs up, in each form that an import has", () => {
    for (const form of [
      'import { X } from "../cli/X.js"',
      'import type { X } from "../cli/X.js"',
      'import "../cli/X.js"',
      'export * from "../cli/X.js"',
      'const x = await import("../cli/X.js")',
      'type X = import("../cli/X.js").X'
    ]) {
      assert.deepStrictEqual(arrowsOf("sandbox/Y.ts", form).map(complaint), [
        "sandbox/Y.ts imports cli, which does not stand below sandbox"
      ])
    }
    assert.deepStrictEqual(arrowsOf("rollout/Y.ts", 'import "../desktop/X.js"').map(complaint), [
      "rollout/Y.ts imports desktop"
    ])
    assert.deepStrictEqual(arrowsOf("agents/Y.ts", 'import "../osworld/X.js"').map(complaint), [
      "agents/Y.ts imports osworld, which does not stand below agents"
    ])
  })
})
