import * as Fs from "node:fs"
import * as Os from "node:os"
import * as Path from "node:path"
import * as NodeContext from "@effect/platform-node/NodeContext"
import { assert, layer } from "@effect/vitest"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { build } from "esbuild"
import * as DesktopSpec from "../../../src/desktop/DesktopSpec.js"
import * as Guest from "../../../src/desktop/Guest.js"
import * as GuestPython from "../../../src/osworld/evaluator/internal/guestPython.js"
import * as Programs from "../../../src/osworld/evaluator/pythonPrograms.js"
import * as LocalProvider from "../../../src/sandbox/LocalProvider.js"
import { SandboxProvider } from "../../../src/sandbox/SandboxProvider.js"
import { file, judge, written } from "./support.js"

class Desktop extends Context.Tag("test/Desktop")<Desktop, Guest.Guest>() {}

const folder = Effect.acquireRelease(
  Effect.promise(() => Fs.promises.mkdtemp(Path.join(Os.tmpdir(), "deskhand-test-"))),
  (place) => Effect.promise(() => Fs.promises.rm(place, { recursive: true, force: true }))
)

/** The guest server as the sources are now, in a folder that a guest may read. */
const facts = Effect.gen(function* () {
  const place = yield* folder
  const server = Path.join(place, "server.mjs")
  yield* Effect.promise(async () => {
    await Fs.promises.chmod(place, 0o755)
    await build({
      entryPoints: [Path.join(DesktopSpec.hostFacts.guest, "main.ts")],
      bundle: true,
      platform: "node",
      target: "node20",
      format: "esm",
      banner: { js: "import{createRequire}from'node:module';const require=createRequire(import.meta.url);" },
      outfile: server
    })
  })
  return { ...DesktopSpec.hostFacts, server }
})

const open = Effect.gen(function* () {
  const provider = yield* SandboxProvider
  const spec = DesktopSpec.make({ width: 1280, height: 800, metadata: { run: "test" } }, yield* facts)
  const sandbox = yield* provider.acquire(spec)
  return yield* Guest.make(yield* sandbox.endpoint(DesktopSpec.ports.guest))
})

const Provider = Layer.unwrapScoped(Effect.map(folder, (stateDir) => LocalProvider.layer({ stateDir }))).pipe(
  Layer.provide(NodeContext.layer)
)

layer(Layer.provide(Layer.scoped(Desktop, open), Provider), { excludeTestServices: true, timeout: "60 seconds" })(
  "an agent's Python in a desktop",
  (it) => {
    it.effect("is judged there, and nothing of it is left", () =>
      Effect.gen(function* () {
        const guest = yield* Desktop
        const runPython = GuestPython.make(guest)
        const at = yield* written({
          "block.py": "import getpass\ndef rotate(cells):\n    return cells[::-1]\n",
          "test_suite.py":
            "import block, os\ndef test():\n    return block.rotate([1, 2]) == [2, 1] and os.getcwd()[:5] == '/tmp/'\n"
        })
        const tested = (program: string) =>
          judge(Programs.checkPythonFileByTestSuite, file(at(program)), file(at("test_suite.py")), {}, { runPython })
        assert.strictEqual(yield* tested("block.py"), 1)
        const compared = yield* judge(
          Programs.checkPythonFileByGoldFile,
          file(at("block.py")),
          file(at("block.py")),
          {},
          { runPython }
        )
        assert.strictEqual(compared, 1)
        const { stdout } = yield* guest.execute({ command: "ls -d /tmp/deskhand-judge-* | wc -l", shell: true })
        assert.strictEqual(stdout.trim(), "0")
      }).pipe(Effect.scoped)
    )
  }
)
