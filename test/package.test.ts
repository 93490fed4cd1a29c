import { execFile } from "node:child_process"
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import { promisify } from "node:util"
import { afterAll, assert, beforeAll, describe, it } from "@effect/vitest"

const execute = promisify(execFile)

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
import * as TrainingInput from "deskhand/rollout/TrainingInput"
import * as Recipe from "deskhand/training/Recipe"

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

export const input = (outcomes: ReadonlyArray<RolloutOutcome>, out: string) =>
  TrainingInput.batch(outcomes, TrainingInput.fromEvidence(out), {
    groupSize: Recipe.flash.generations,
    prompts: Recipe.flash.prompts,
    sampler: Recipe.flash.sampler,
    version: 0,
    weightVersions: { dispatched: 0 }
  })

console.log(FixedWindow.make({ keepImages: 3 }).id)
`

/** A program that tries itself on doubles, without vitest in the project. */
const doubles = `
import * as NodeContext from "@effect/platform-node/NodeContext"
import * as Console from "effect/Console"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Stream from "effect/Stream"
import { DesktopAgent } from "deskhand/agents/DesktopAgent"
import * as ArtifactStore from "deskhand/artifact/ArtifactStore"
import { runMain } from "deskhand/cli/Program"
import { RunId } from "deskhand/identity/Identity"
import { OSWorld } from "deskhand/osworld/OSWorld"
import * as Episode from "deskhand/rollout/Episode"
import { EpisodeLimits } from "deskhand/rollout/EpisodeLimits"
import * as Evidence from "deskhand/rollout/Evidence"
import * as RolloutCollector from "deskhand/rollout/RolloutCollector"
import { TaskRow } from "deskhand/rollout/TaskRow"
import { Distribution } from "deskhand/testing/Distribution"
import * as SimulatedDesktops from "deskhand/testing/SimulatedDesktops"
import * as SimulatedModel from "deskhand/testing/SimulatedModel"

const row = new TaskRow({ taskIndex: 0, taskId: "t", domain: "d", instruction: "do", task: {} })

const Runtime = Layer.mergeAll(
  RolloutCollector.layer({ out: "simulated" }),
  Evidence.layer({ out: "simulated" }),
  SimulatedDesktops.layer({ seed: "a", pass: 1, latency: { step: Distribution.Fixed({ milliseconds: 1 }) } }),
  SimulatedModel.layerAgent.pipe(Layer.provide(SimulatedModel.layer({ seed: "a" })))
).pipe(Layer.provide(ArtifactStore.layer({ directory: "simulated/blobs" })), Layer.provide(NodeContext.layer))

runMain(
  Effect.gen(function* () {
    const collector = yield* RolloutCollector.RolloutCollector
    const program = Episode.program({
      environment: yield* OSWorld,
      agent: yield* DesktopAgent,
      limits: EpisodeLimits.make({ maxSteps: 3 })
    })
    yield* collector
      .collect(Stream.make(row), program, { runId: RunId.make("doubles"), concurrency: 2, groupSize: 2 })
      .pipe(Stream.runForEach((outcome) => Console.log(outcome._tag)))
    return 0
  }).pipe(Effect.provide(Runtime), Effect.orDie)
)
`

/** An example as its header says to copy it: by the package's names. */
const copied = (name: string) =>
  readFileSync(join(root, "examples", name), "utf8")
    .replaceAll('"../src/index.js"', '"deskhand"')
    .replaceAll(/"\.\.\/src\/(\S+)\.js"/g, '"deskhand/$1"')

const tsconfig = {
  compilerOptions: {
    module: "NodeNext",
    target: "ES2022",
    strict: true,
    exactOptionalPropertyTypes: true,
    // The published declarations are checked too, not only how they are used.
    skipLibCheck: false,
    // Declarations of Node's own modules, which a program that opens sockets and files has.
    types: ["node"],
    outDir: "out"
  },
  include: ["*.ts"]
}

describe("the package", () => {
  let folder = ""
  const run = async (command: string, ...args: ReadonlyArray<string>): Promise<string> => {
    try {
      return (await execute(command, args, { cwd: folder })).stdout
    } catch (error) {
      const { stderr, stdout } = error as { readonly stdout?: string; readonly stderr?: string }
      throw new Error(`${command} ${args.join(" ")} failed:\n${stdout ?? ""}\n${stderr ?? ""}`)
    }
  }

  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), "deskhand-package-"))
    // globalSetup has built it.
    const packed = await execute("npm", ["pack", "--json", "--ignore-scripts", "--pack-destination", folder], {
      cwd: root
    })
    const [{ filename }] = JSON.parse(packed.stdout)
    writeFileSync(join(folder, "package.json"), JSON.stringify({ private: true, type: "module" }))
    writeFileSync(join(folder, "program.ts"), program)
    writeFileSync(join(folder, "doubles.ts"), doubles)
    for (const example of ["collect.ts", "trainer.ts"]) writeFileSync(join(folder, example), copied(example))
    writeFileSync(join(folder, "tsconfig.json"), JSON.stringify(tsconfig))
    const wanted = ["effect", "@effect/platform", "@effect/platform-node", "@types/node", "typescript"]
    const versions = wanted.map((name) => `${name}@${manifest.devDependencies[name]}`)
    await run("npm", "install", "--prefer-offline", "--no-audit", "--no-fund", `./${filename}`, ...versions)
  }, 240_000)

  afterAll(() => rmSync(folder, { recursive: true, force: true }))

  it("is one that another project can type-check against and import", async () => {
    await run("npx", "tsc", "-p", "tsconfig.json")
    // The published id of a fixed window of three images, osworld-gym.md section 3.6.
    assert.strictEqual((await run("node", "out/program.js")).trim(), "osworld-history-policy-d171b7730c73e7c384ab2b25")
  })

  it("has doubles that need no vitest", async () => {
    assert.isFalse(existsSync(join(folder, "node_modules/vitest")))
    assert.strictEqual(await run("node", "out/doubles.js"), "Scored\nScored\n")
  })

  it("has what its README links to", () => {
    const packed = join(folder, "node_modules/deskhand")
    const links = Array.from(
      readFileSync(join(packed, "README.md"), "utf8").matchAll(/\]\((?!#|https?:)([^)]+)\)/g),
      ([, path = ""]) => path
    )
    assert.include(links, "examples/trainer.ts")
    assert.deepStrictEqual(
      links.filter((path) => !existsSync(join(packed, path))),
      []
    )
  })

  it("shares the project's own effect", async () => {
    const listed = (await run("npm", "ls", "effect", "--parseable", "--all")).trim().split("\n")
    assert.deepStrictEqual(listed, [join(folder, "node_modules/effect")])
  })

  it("keeps its internal parts to itself", async () => {
    for (const name of [
      "internal/x",
      "rollout/internal/jsonLines",
      "training/internal/rowLoss",
      "testing/internal/e2bWire",
      "cli/internal/tsx",
      "desktop/guest/Server"
    ]) {
      const failure = await run("node", "-e", `import("deskhand/${name}")`).then(
        () => "it could be imported",
        (error: Error) => error.message
      )
      assert.include(failure, "ERR_PACKAGE_PATH_NOT_EXPORTED")
    }
  })

  it("has a command that runs without the sources", async () => {
    assert.strictEqual((await run("npx", "deskhand", "--version")).trim(), manifest.version)
    assert.include(await run("npx", "deskhand", "run", "--agent", "noop", "--dry-run"), "Nothing was started")
  })

  it("brings the parts of a desktop, executable where they have to be", async () => {
    const guest = join(folder, "node_modules/deskhand/src/desktop/guest")
    const packed = readdirSync(join(guest, "bin")).sort()
    assert.deepStrictEqual(packed, readdirSync(join(root, "src/desktop/guest/bin")).sort())
    for (const name of packed) assert.notStrictEqual(statSync(join(guest, "bin", name)).mode & 0o111, 0, name)
    assert.include(await run("npx", "deskhand", "doctor"), "✔ guest server")
  })
})
