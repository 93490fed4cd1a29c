import { execFileSync } from "node:child_process"
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import { afterAll, assert, beforeAll, describe, it } from "@effect/vitest"

const root = fileURLToPath(new URL("..", import.meta.url))
const manifest = JSON.parse(readFileSync(join(root, "package.json"), "utf8"))

/** A program of somebody else's, by the package's names alone. */
const program = `
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import { Episode, EpisodeLimits, FixedWindow, OSWorld, RolloutCollector } from "deskhand"
import { DesktopAgent } from "deskhand/agents/DesktopAgent"
import { RunId } from "deskhand/identity/Identity"
import type { RolloutOutcome } from "deskhand/rollout/Outcome"

export const rewards = Effect.gen(function* () {
  const collector = yield* RolloutCollector.RolloutCollector
  const agent = yield* DesktopAgent
  const environment = yield* OSWorld.OSWorld
  const program = Episode.program({ environment, agent, limits: EpisodeLimits.EpisodeLimits.make({ maxSteps: 15 }) })
  const outcomes: Stream.Stream<RolloutOutcome, RolloutCollector.CollectError, unknown> = collector.collect(
    Stream.empty,
    program,
    { runId: RunId.make("mine"), concurrency: 2 }
  )
  return yield* Stream.runCount(outcomes)
})

console.log(FixedWindow.make({ keepImages: 3 }).id)
`

const tsconfig = {
  compilerOptions: {
    module: "NodeNext",
    target: "ES2022",
    strict: true,
    exactOptionalPropertyTypes: true,
    // The published declarations are checked too, not only how they are used.
    skipLibCheck: false,
    types: [],
    outDir: "out"
  },
  include: ["program.ts"]
}

describe("the package", () => {
  let folder = ""
  const run = (command: string, ...args: ReadonlyArray<string>) => {
    try {
      return execFileSync(command, args, { cwd: folder, encoding: "utf8", stdio: ["ignore", "pipe", "pipe"] })
    } catch (error) {
      const { stderr, stdout } = error as { readonly stdout?: string; readonly stderr?: string }
      throw new Error(`${command} ${args.join(" ")} failed:\n${stdout ?? ""}\n${stderr ?? ""}`)
    }
  }

  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), "deskhand-package-"))
    const packed = execFileSync("npm", ["pack", "--json", "--pack-destination", folder], {
      cwd: root,
      encoding: "utf8",
      stdio: ["ignore", "pipe", "ignore"]
    })
    // What prepack prints comes before the JSON.
    const [{ filename }] = JSON.parse(packed.slice(packed.search(/^\[/m)))
    writeFileSync(join(folder, "package.json"), JSON.stringify({ private: true, type: "module" }))
    writeFileSync(join(folder, "program.ts"), program)
    writeFileSync(join(folder, "tsconfig.json"), JSON.stringify(tsconfig))
    const wanted = ["effect", "@effect/platform", "@effect/platform-node", "typescript"]
    const versions = wanted.map((name) => `${name}@${manifest.devDependencies[name]}`)
    run("npm", "install", "--prefer-offline", "--no-audit", "--no-fund", `./${filename}`, ...versions)
  }, 240_000)

  afterAll(() => rmSync(folder, { recursive: true, force: true }))

  it("is one that another project can type-check against and import", () => {
    run("npx", "tsc", "-p", "tsconfig.json")
    // The published id of a fixed window of three images, osworld-gym.md section 3.6.
    assert.strictEqual(run("node", "out/program.js").trim(), "osworld-history-policy-d171b7730c73e7c384ab2b25")
  })

  it("shares the project's own effect", () => {
    assert.deepStrictEqual(
      run("npm", "ls", "effect", "--parseable", "--all")
        .trim()
        .split("\n")
        .filter((line) => line !== ""),
      [join(folder, "node_modules/effect")]
    )
  })

  it("keeps its internal parts to itself", () => {
    for (const name of ["internal/x", "rollout/internal/jsonLines", "desktop/guest/Server"]) {
      assert.throws(() => run("node", "-e", `import("deskhand/${name}")`), /ERR_PACKAGE_PATH_NOT_EXPORTED/)
    }
  })

  it("has a command that runs without the sources", () => {
    assert.strictEqual(run("npx", "deskhand", "--version").trim(), manifest.version)
    assert.include(run("npx", "deskhand", "run", "--agent", "noop", "--dry-run"), "Nothing was started")
  })
})
