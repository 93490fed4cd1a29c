/**
 * What a step costs besides the model and the pauses: an action through the guest, the screenshot, its hash, the store.
 *
 *     npm run bench:desktop
 */
import * as FileSystem from "@effect/platform/FileSystem"
import * as NodeContext from "@effect/platform-node/NodeContext"
import * as NodeRuntime from "@effect/platform-node/NodeRuntime"
import * as Console from "effect/Console"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as ArtifactStore from "../../src/artifact/ArtifactStore.js"
import { DesktopAction } from "../../src/desktop/Action.js"
import * as DesktopSpec from "../../src/desktop/DesktopSpec.js"
import * as Guest from "../../src/desktop/Guest.js"
import * as LocalProvider from "../../src/sandbox/LocalProvider.js"
import { SandboxProvider } from "../../src/sandbox/SandboxProvider.js"

const steps = 40

/** A key that changes the screen, and no pause after it: pauses are for the desktop to settle, and are not counted. */
const action = (step: number) =>
  DesktopAction.Python({ code: `pyautogui.PAUSE = 0\npyautogui.press("${"abcdefghij"[step % 10]}")` })

/** The same by hand: a tool for the key, a library for the picture, and nothing of ours. */
const byHand = (step: number) => ({
  command: [
    "bash",
    "-c",
    `xdotool key ${"abcdefghij"[step % 10]} && python3 -c '
import io
from PIL import ImageGrab
ImageGrab.grab(xdisplay=":0").save("/tmp/by-hand.png", compress_level=1)'`
  ]
})

const quantile = (values: ReadonlyArray<number>, q: number): number =>
  [...values].sort((a, b) => a - b)[Math.min(values.length - 1, Math.floor(values.length * q))] ?? Number.NaN

const show = (name: string, values: ReadonlyArray<number>): string =>
  `${name.padEnd(34)} median ${quantile(values, 0.5).toFixed(0).padStart(4)} ms   p95 ${quantile(values, 0.95).toFixed(0).padStart(4)} ms`

const timed = <A, E, R>(effect: Effect.Effect<A, E, R>) =>
  Effect.map(Effect.timed(effect), ([took, value]) => [Duration.toMillis(took), value] as const)

const bench = Effect.gen(function* () {
  const provider = yield* SandboxProvider
  const store = yield* ArtifactStore.ArtifactStore
  const [opening, sandbox] = yield* timed(provider.acquire(DesktopSpec.make({ metadata: { run: "bench" } })))
  const guest = yield* Guest.make(yield* sandbox.endpoint(DesktopSpec.ports.guest))
  yield* guest.openFile("mousepad")

  const once = Effect.fnUntraced(function* (step: number) {
    const [acting, result] = yield* timed(guest.runAction(action(step)))
    if (result.exitCode !== 0) return yield* Effect.dieMessage(result.stderr)
    const [looking, image] = yield* timed(guest.screenshot)
    const [storing] = yield* timed(store.put(image, "image/png"))
    return { acting, looking, storing, whole: acting + looking + storing, bytes: image.length }
  })
  yield* Effect.forEach([0, 1, 2], once)
  // One of ours, one by hand, in turns: the machine's noise falls on both.
  const pairs = yield* Effect.forEach(
    Array.from({ length: steps }, (_, step) => step),
    (step) =>
      Effect.zip(
        once(step),
        Effect.map(timed(guest.execute(byHand(step))), ([took]) => took)
      )
  )
  const of = (key: "acting" | "looking" | "storing" | "whole") => pairs.map(([ours]) => ours[key])
  const hand = pairs.map(([, took]) => took)
  const size = quantile(
    pairs.map(([{ bytes }]) => bytes),
    0.5
  )
  yield* Console.log(
    [
      `${steps} steps on a local desktop of 1920x1080, which opened in ${opening.toFixed(0)} ms; screenshots of ${(size / 1024).toFixed(0)} KB`,
      show("action through the guest", of("acting")),
      show("screenshot", of("looking")),
      show("hash and store", of("storing")),
      show("a step's fixed overhead", of("whole")),
      show("baseline: xdotool and PIL by hand", hand),
      `ratio to the baseline: ${(quantile(of("whole"), 0.5) / quantile(hand, 0.5)).toFixed(2)}`
    ].join("\n")
  )
}).pipe(Effect.scoped)

const store = Layer.unwrapScoped(
  Effect.map(
    Effect.flatMap(FileSystem.FileSystem, (fs) => fs.makeTempDirectoryScoped()),
    (directory) => ArtifactStore.layer({ directory })
  )
)

bench.pipe(
  Effect.provide(Layer.mergeAll(LocalProvider.layerConfig, store)),
  Effect.provide(NodeContext.layer),
  NodeRuntime.runMain
)
