/** Steps that bring files into the desktop, open them, or show them behind the windows. */
import * as FileSystem from "@effect/platform/FileSystem"
import * as Effect from "effect/Effect"
import { Assets } from "../../Assets.js"
import * as Placeholders from "../../Placeholders.js"
import type { TaskContext } from "../../Setup.js"
import { broken, fromAsset, fromGuest, idempotent, type Perform, type Requirements, StepFailed } from "./step.js"

/**
 * Brings a file, and looks whether as many bytes have arrived: a desktop whose file is cut off would be graded as the
 * agent's doing.
 */
const copy = (context: TaskContext, url: string, path: string): Effect.Effect<void, StepFailed, Requirements> =>
  Effect.gen(function* () {
    const assets = yield* Assets
    const fs = yield* FileSystem.FileSystem
    const target = Placeholders.fill(path, context.placeholders)
    const source = Placeholders.fill(url, context.placeholders)
    const local = yield* Effect.mapError(assets.fetch(source, context.taskFile), fromAsset)
    yield* idempotent(context.guest.writeFile(target, local))
    // Only the guest itself can tell what its variables are.
    if (target.includes("$")) return
    const { size } = yield* Effect.mapError(fs.stat(local), broken)
    const seen = yield* idempotent(context.guest.execute({ command: ["stat", "-L", "-c", "%s", "--", target] }))
    if (seen.exitCode === 0 && seen.stdout.trim() === String(size)) return
    const found = seen.exitCode === 0 ? `${seen.stdout.trim()} bytes` : seen.stderr.trim()
    return yield* Effect.fail(
      new StepFailed("infrastructure", `${target} has not arrived as it was sent: ${size} bytes, and there is ${found}`)
    )
  })

export const download: Perform<"download"> = ({ files }, context) =>
  Effect.forEach(files, ({ path, url }) => copy(context, url, path), { discard: true })

export const uploadFile: Perform<"upload_file"> = ({ files }, context) =>
  Effect.forEach(files, ({ localPath, path }) => copy(context, localPath, path), { discard: true })

/** Opened twice there are two windows, so that an answer which got lost is the end. */
export const open: Perform<"open"> = ({ path }, { guest, placeholders }) =>
  Effect.mapError(guest.openFile(Placeholders.fill(path, placeholders)), fromGuest)

export const changeWallpaper: Perform<"change_wallpaper"> = ({ path }, { guest, placeholders }) =>
  idempotent(guest.changeWallpaper(Placeholders.fill(path, placeholders)))
