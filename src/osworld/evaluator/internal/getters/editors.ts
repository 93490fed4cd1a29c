/** What VS Code says of itself, through an extension that the task has installed. */
import * as FileSystem from "@effect/platform/FileSystem"
import * as Effect from "effect/Effect"
import * as Schedule from "effect/Schedule"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import * as Action from "../../../../desktop/Action.js"
import type { Guest } from "../../../../desktop/Guest.js"
import * as PythonLiteral from "../../../../desktop/PythonLiteral.js"
import * as Getter from "../../Getter.js"
import { Value } from "../../Metric.js"
import { placeFor } from "./files.js"

const VsCode = Schema.Struct({
  vscode_extension_command: Schema.NonEmptyString,
  path: Schema.NonEmptyString,
  dest: Schema.NonEmptyString
})

const window = { name: "Visual Studio Code" }

/** The palette takes a moment to open and to find a command; letters without a pause between them get lost. */
const palette = (command: string): string =>
  [
    "pyautogui.hotkey('ctrl', 'shift', 'p')",
    "time.sleep(1)",
    `pyautogui.write(${PythonLiteral.fromString(command)}, interval=0.02)`,
    "time.sleep(0.5)",
    "pyautogui.press('enter')"
  ].join("; ")

/** How long the extension may take to write its file. */
const patience = Schedule.intersect(Schedule.spaced("500 millis"), Schedule.recurs(10))

/** The folders that VS Code has had open, as it notes them itself. */
const workspaces = (guest: Guest) =>
  Effect.map(
    guest.execute({
      command: ["sh", "-c", 'cat "$HOME"/.config/Code/User/workspaceStorage/*/workspace.json 2>/dev/null']
    }),
    ({ stdout }) => stdout
  )

const vscodeConfig = Getter.make("vscode_config", VsCode, ({ dest, path, vscode_extension_command }, input) =>
  Effect.gen(function* () {
    const { guest } = input.context
    const fs = yield* FileSystem.FileSystem
    const place = yield* placeFor(input, dest)
    // What lies there now is not what VS Code says when it is asked.
    yield* guest.execute({ command: ["sh", "-c", 'rm -f -- "$1"', "sh", path] })
    const isOpen = yield* guest.activateWindow(window).pipe(
      Effect.as(true),
      Effect.catchIf(
        ({ reason }) => reason._tag === "Refused",
        () => Effect.succeed(false)
      )
    )
    if (isOpen) {
      const { exitCode, stderr } = yield* guest.runAction(
        Action.DesktopAction.Python({ code: palette(vscode_extension_command) })
      )
      if (exitCode !== 0) return yield* Effect.fail({ message: `no keys could be pressed: ${stderr.slice(-500)}` })
      const written = yield* Stream.run(guest.readFile(path), fs.sink(place.path)).pipe(
        Effect.as(true),
        Effect.retry({ schedule: patience, while: ({ _tag }) => _tag === "GuestFileMissing" }),
        Effect.catchTag("GuestFileMissing", () => Effect.as(fs.remove(place.path, { force: true }), false))
      )
      if (written) return Value.File(place)
    }
    const noted = yield* workspaces(guest)
    if (noted.trim() === "") {
      return Value.Missing({ reason: isOpen ? `VS Code has not written ${path}` : "VS Code is not open" })
    }
    yield* fs.writeFileString(place.path, noted)
    return Value.File(place)
  })
)

export const getters: ReadonlyArray<Getter.Getter> = [vscodeConfig]
