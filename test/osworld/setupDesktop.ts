import * as NodeContext from "@effect/platform-node/NodeContext"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schedule from "effect/Schedule"
import * as DesktopSpec from "../../src/desktop/DesktopSpec.js"
import * as Guest from "../../src/desktop/Guest.js"
import * as DevTools from "../../src/osworld/internal/devtools.js"
import * as WindowFocus from "../../src/osworld/internal/windowFocus.js"
import type { TaskContext } from "../../src/osworld/Setup.js"
import * as LocalProvider from "../../src/sandbox/LocalProvider.js"
import { SandboxProvider } from "../../src/sandbox/SandboxProvider.js"
import { temporary } from "./setupSupport.js"

export class Desktop extends Context.Tag("test/SetupDesktop")<Desktop, TaskContext>() {}

export const open = Effect.gen(function* () {
  const provider = yield* SandboxProvider
  const sandbox = yield* provider.acquire(DesktopSpec.make({ width: 1280, height: 800, metadata: { run: "test" } }))
  const guest = yield* Guest.make(yield* sandbox.endpoint(DesktopSpec.ports.guest))
  return {
    guest,
    taskFile: undefined,
    cache: yield* temporary,
    placeholders: { clientPassword: "secret word", screenWidth: 1280, screenHeight: 800 },
    endpoint: sandbox.endpoint,
    compat: false
  }
})

export const DesktopLayer = Layer.scoped(Desktop, open).pipe(
  Layer.provide(Layer.unwrapScoped(Effect.map(temporary, (stateDir) => LocalProvider.layer({ stateDir })))),
  Layer.provide(NodeContext.layer)
)

export const eventually = <A, E>(effect: Effect.Effect<A, E>) =>
  effect.pipe(Effect.retry(Schedule.spaced("200 millis")), Effect.timeout("30 seconds"))

/** What a command of the desktop prints. */
export const shell = (context: TaskContext, command: string) =>
  Effect.map(context.guest.execute({ command, shell: true }), ({ stdout }) => stdout.trim())

export const activeTitle = (context: TaskContext) =>
  Effect.map(
    WindowFocus.look(context.guest),
    ({ active, windows }) => windows.find(({ id }) => id === active)?.title ?? "none"
  )

export const urls = (context: TaskContext) =>
  Effect.scoped(
    Effect.gen(function* () {
      const chrome = yield* DevTools.connect(context, { revive: false })
      return (yield* chrome.pages).map((page) => page.url())
    })
  )

export const sorted = (texts: ReadonlyArray<string>) => [...texts].sort()
