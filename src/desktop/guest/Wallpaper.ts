/**
 * The picture behind the windows. Without a desktop environment nobody else keeps it: a copy is kept in the home
 * folder, the root window shows it, and GNOME's setting, where there is one, names it.
 *
 * @since 0.1.0
 */
import * as Fs from "node:fs"
import * as Os from "node:os"
import * as Path from "node:path"
import { fileURLToPath } from "node:url"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import { Failed, NotFound } from "../GuestApi.js"
import type { Words } from "./CommandLine.js"
import * as Process from "./Process.js"

const schema = "org.gnome.desktop.background"
const kept = () => Path.join(Os.homedir(), ".config", "deskhand", "wallpaper")
const tool = (...words: Words) => Process.run(words, { limit: Duration.seconds(10) })
const message = (cause: unknown) => (cause instanceof Error ? cause.message : String(cause))

/**
 * Shows the picture at this path.
 *
 * @since 0.1.0
 * @category actions
 */
export const change = (path: string, painter: string): Effect.Effect<void, NotFound | Failed> =>
  Effect.gen(function* () {
    if (!Fs.existsSync(path))
      return yield* Effect.fail(new NotFound({ status: "error", message: `${path} does not exist` }))
    yield* Effect.tryPromise({
      try: async () => {
        await Fs.promises.mkdir(Path.dirname(kept()), { recursive: true })
        await Fs.promises.copyFile(path, kept())
      },
      catch: (cause) => new Failed({ status: "error", message: `${path} cannot be kept: ${message(cause)}` })
    })
    const uri = `file://${path.split("/").map(encodeURIComponent).join("/")}`
    // A desktop without GNOME's settings has nothing to note.
    yield* Effect.forEach(["picture-uri", "picture-uri-dark"], (key) =>
      Effect.catchAll(tool("gsettings", "set", schema, key, uri), (error) => Effect.logDebug(error.message))
    )
    const painted = yield* tool(painter, kept()).pipe(
      Effect.catchAll((error) => Effect.fail(new Failed({ status: "error", message: error.message })))
    )
    if (painted.exitCode !== 0) {
      const last = painted.stderr.trim().split("\n").at(-1) ?? ""
      return yield* Effect.fail(new Failed({ status: "error", message: `${path} cannot be shown: ${last}` }))
    }
  })

/**
 * The path of the picture that is shown: the one that GNOME's setting names, else the one that was set last.
 *
 * @since 0.1.0
 * @category queries
 */
export const current: Effect.Effect<string, NotFound> = Effect.gen(function* () {
  const setting = yield* tool("gsettings", "get", schema, "picture-uri").pipe(
    Effect.map(({ exitCode, stdout }) => (exitCode === 0 ? stdout.trim().replace(/^'|'$/g, "") : "")),
    Effect.catchAll(() => Effect.succeed(""))
  )
  const named = yield* Effect.try(() => fileURLToPath(setting)).pipe(Effect.orElseSucceed(() => ""))
  const path = [named, kept()].find((path) => path !== "" && Fs.existsSync(path))
  return path === undefined
    ? yield* Effect.fail(new NotFound({ status: "error", message: "no wallpaper has been set" }))
    : path
})
