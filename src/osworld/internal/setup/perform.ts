/** Which function carries out which step. */
import * as Effect from "effect/Effect"
import type { TaskContext } from "../../Setup.js"
import * as Commands from "./commands.js"
import * as Files from "./files.js"
import * as Google from "./google.js"
import * as History from "./history.js"
import * as Proxy from "./proxy.js"
import { type Place, type Requirements, StepFailed } from "./step.js"
import * as Tabs from "./tabs.js"
import * as Windows from "./windows.js"

/** OSWorld has these names and nothing behind them. */
export const unimplemented: ReadonlySet<string> = new Set(["tidy_desktop", "act", "replay"])

/** The types that are carried out. */
export const supported: ReadonlySet<string> = new Set([
  "execute",
  "command",
  "execute_with_verification",
  "sleep",
  "launch",
  "download",
  "upload_file",
  "open",
  "activate_window",
  "close_window",
  "change_wallpaper",
  "chrome_open_tabs",
  "chrome_close_tabs",
  "update_browse_history",
  "googledrive",
  "login",
  "proxy"
])

export const perform = (context: TaskContext, place: Place): Effect.Effect<void, StepFailed, Requirements> => {
  const step = place.steps[place.index]
  if (step === undefined) return Effect.void
  switch (step.type) {
    case "execute":
    case "command":
      return Commands.execute(step.parameters, context, place)
    case "execute_with_verification":
      return Commands.executeWithVerification(step.parameters, context, place)
    case "sleep":
      return Commands.sleep(step.parameters, context, place)
    case "launch":
      return Commands.launch(step.parameters, context, place)
    case "download":
      return Files.download(step.parameters, context, place)
    case "upload_file":
      return Files.uploadFile(step.parameters, context, place)
    case "open":
      return Files.open(step.parameters, context, place)
    case "change_wallpaper":
      return Files.changeWallpaper(step.parameters, context, place)
    case "activate_window":
      return Windows.activate(step.parameters, context, place)
    case "close_window":
      return Windows.close(step.parameters, context, place)
    case "chrome_open_tabs":
      return Tabs.open(step.parameters, context, place)
    case "chrome_close_tabs":
      return Tabs.close(step.parameters, context, place)
    case "update_browse_history":
      return History.update(step.parameters, context, place)
    case "googledrive":
      return Google.googledrive(step.parameters, context, place)
    case "login":
      return Google.login(step.parameters, context, place)
    case "proxy":
      return Proxy.proxy(step.parameters, context, place)
    case "tidy_desktop":
    case "act":
    case "replay":
      return Effect.fail(new StepFailed("task", `steps of type ${step.type} are not implemented upstream either`))
  }
}
