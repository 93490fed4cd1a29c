import * as NodeContext from "@effect/platform-node/NodeContext"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Stream from "effect/Stream"
import type { Guest } from "../../../src/desktop/Guest.js"
import { GuestFileMissing } from "../../../src/desktop/GuestError.js"
import { Assets } from "../../../src/osworld/Assets.js"
import type { Getter, Role } from "../../../src/osworld/evaluator/Getter.js"
import type { Value } from "../../../src/osworld/evaluator/Metric.js"
import type { TaskContext } from "../../../src/osworld/Setup.js"
import { EndpointUnresolvable } from "../../../src/sandbox/SandboxError.js"

const no = (what: string) => Effect.dieMessage(`the guest of this test does not ${what}`)

/** A guest that can do what the test says it can. */
export const guestOf = (abilities: Partial<Guest>): Guest => ({
  ping: no("ping"),
  screenshot: no("show its screen"),
  accessibilityTree: no("tell its tree"),
  terminal: no("have a terminal"),
  screenSize: no("have a screen"),
  windowSize: () => no("have windows"),
  cursorPosition: no("have a pointer"),
  platform: no("have a platform"),
  desktopPath: no("have a desktop"),
  listDirectory: () => no("list"),
  wallpaper: no("have a wallpaper"),
  readFile: (path) => Stream.fail(new GuestFileMissing({ path })),
  writeFile: () => no("write"),
  execute: () => no("execute"),
  executeAndVerify: () => no("execute"),
  runPython: () => no("run Python"),
  runBash: () => no("run bash"),
  runAction: () => no("act"),
  launch: () => no("launch"),
  openFile: () => no("open"),
  activateWindow: () => no("have windows"),
  closeWindow: () => no("have windows"),
  changeWallpaper: () => no("have a wallpaper"),
  startRecording: no("record"),
  endRecording: Stream.die("the guest of this test does not record"),
  ...abilities
})

export const contextOf = (abilities: Partial<Guest>, rest: Partial<TaskContext> = {}): TaskContext => ({
  guest: guestOf(abilities),
  taskFile: undefined,
  cache: "/nowhere",
  placeholders: { clientPassword: "password", screenWidth: 1920, screenHeight: 1080 },
  endpoint: (port) =>
    Effect.fail(new EndpointUnresolvable({ provider: "test", sandboxId: "test", port, reason: "none here" })),
  compat: false,
  ...rest
})

/** What getters and metrics need of this host. */
export const requirements = Layer.merge(
  NodeContext.layer,
  Layer.succeed(Assets, { fetch: () => Effect.dieMessage("nothing is fetched here") })
)

/** What a getter brings, or why it failed. */
export const getWith = (
  getters: ReadonlyArray<Getter>,
  type: string,
  parameters: Record<string, unknown>,
  context: TaskContext,
  role: Role = "result"
): Effect.Effect<Value | string> => {
  const getter = getters.find(({ name }) => name === type)
  if (getter === undefined) return no(`bring ${type}`)
  return getter.get({ type, parameters }, { context, role }).pipe(
    Effect.catchAll((error) => Effect.succeed(error.message)),
    Effect.provide(requirements)
  )
}
