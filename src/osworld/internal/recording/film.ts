/** A film of a desktop, through the guest's own recorder. */
import * as FileSystem from "@effect/platform/FileSystem"
import * as Path from "@effect/platform/Path"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Stream from "effect/Stream"
import { writeWhole } from "../../../artifact/WholeFile.js"
import type { Guest } from "../../../desktop/Guest.js"

/** The guest itself gives its recorder 15 seconds; the rest is for the bytes. */
const endLimit = "120 seconds"

type Told = (what: string) => (error: { readonly message: string }) => Effect.Effect<void>

/** From now until the scope closes. It cannot fail: what goes wrong is told, and in a file where the film would be. */
export const film = (guest: Guest, folder: string, stem: string, told: Told) =>
  Effect.gen(function* () {
    const fs = yield* FileSystem.FileSystem
    const path = yield* Path.Path
    const services = yield* Effect.context<FileSystem.FileSystem | Path.Path>()
    const target = path.join(folder, `${stem}.mp4`)
    const failed = path.join(folder, `${stem}.failed.txt`)
    const report = (what: string) => (error: { readonly message: string }) =>
      Effect.zipRight(told(what)(error), Effect.ignore(writeWhole(failed, `${what}: ${error.message}\n`)))

    // Of an attempt that was begun before this one.
    yield* Effect.ignore(fs.remove(target, { force: true }))
    yield* Effect.ignore(fs.remove(failed, { force: true }))

    const end = Effect.gen(function* () {
      const partial = `${target}.partial`
      yield* fs.makeDirectory(folder, { recursive: true })
      yield* Stream.run(guest.endRecording, fs.sink(partial)).pipe(
        Effect.timeoutFail({
          duration: endLimit,
          onTimeout: () => ({ message: `it did not end within ${endLimit}` })
        }),
        Effect.zipRight(fs.rename(partial, target)),
        Effect.onError(() => Effect.ignore(fs.remove(partial, { force: true })))
      )
    }).pipe(Effect.catchAll(report("the film could not be had")), Effect.provide(services))

    yield* Effect.acquireRelease(Effect.either(guest.startRecording), (started) =>
      started._tag === "Left"
        ? report("no film could be started")(started.left)
        : // A fiber of its own has a deadline also where the rollout was interrupted.
          Effect.flatMap(Effect.forkDaemon(Effect.interruptible(end)), Fiber.join)
    )
  })
