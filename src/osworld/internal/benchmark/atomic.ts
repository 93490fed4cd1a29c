import { randomUUID } from "node:crypto"
import * as FileSystem from "@effect/platform/FileSystem"
import * as Path from "@effect/platform/Path"
import * as Effect from "effect/Effect"

/** Under its name it is whole or not there. The folder is made if it is missing. */
export const writeWhole = (file: string, content: string) =>
  Effect.gen(function* () {
    const fs = yield* FileSystem.FileSystem
    const path = yield* Path.Path
    yield* fs.makeDirectory(path.dirname(file), { recursive: true })
    const partial = `${file}.${randomUUID()}.partial`
    yield* fs.writeFileString(partial, content).pipe(
      Effect.zipRight(fs.rename(partial, file)),
      Effect.onExit((exit) =>
        exit._tag === "Success" ? Effect.void : Effect.ignore(fs.remove(partial, { force: true }))
      )
    )
  })
