import * as FileSystem from "@effect/platform/FileSystem"
import * as Effect from "effect/Effect"

/** Under its name it is whole, or what was there before: a disk that is full leaves no half of it. */
export const writeWhole = (file: string, content: string) =>
  Effect.flatMap(FileSystem.FileSystem, (fs) => {
    const partial = `${file}.partial`
    return fs.writeFileString(partial, content).pipe(
      Effect.zipRight(fs.rename(partial, file)),
      Effect.onError(() => Effect.ignore(fs.remove(partial, { force: true })))
    )
  })
