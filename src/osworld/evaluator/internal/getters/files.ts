/** Files: of the guest, of the task, and of the rollout's own folder. */
import * as FileSystem from "@effect/platform/FileSystem"
import * as Path from "@effect/platform/Path"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import { Assets } from "../../../Assets.js"
import * as Getter from "../../Getter.js"
import { type FileRef, Value } from "../../Metric.js"

const OneOrMany = Schema.Union(Schema.String, Schema.NonEmptyArray(Schema.String))

/** One file, or with `multi` a list of them, of which `gives` (indices, the first unless given) reach the metric. */
const Files = Schema.Struct({
  path: OneOrMany,
  dest: OneOrMany,
  multi: Schema.optionalWith(Schema.Boolean, { default: () => false, nullable: true }),
  gives: Schema.optionalWith(Schema.Array(Schema.NonNegativeInt), { default: () => [0], nullable: true })
})

const asList = (value: string | ReadonlyArray<string>): ReadonlyArray<string> =>
  typeof value === "string" ? [value] : value

/** Brings each file to this host by `bring`, which answers `Missing` or a file, and gives the metric what it asked for. */
const files = (
  { dest, gives, path }: typeof Files.Type,
  bring: (path: string, dest: string) => Effect.Effect<Value, { readonly message: string }, Getter.Requirements>
) =>
  Effect.gen(function* () {
    const paths = asList(path)
    const names = asList(dest)
    if (paths.length !== names.length) {
      return yield* Effect.fail({ message: `it names ${paths.length} paths and ${names.length} destinations` })
    }
    const values = yield* Effect.forEach(paths, (path, index) => bring(path, names[index] ?? path))
    const given: Array<FileRef> = []
    for (const index of gives) {
      const value = values[index]
      if (value === undefined) return yield* Effect.fail({ message: `it gives file ${index} of ${values.length}` })
      if (value._tag !== "File") return value
      given.push(value)
    }
    const [only] = given
    return given.length === 1 && only !== undefined ? Value.File(only) : Value.Files({ files: given })
  })

/** The place of a file in the rollout's folder. Only its last name counts, so no task can write elsewhere. */
export const placeFor = ({ context, role }: Getter.Input, dest: string) =>
  Effect.gen(function* () {
    const fs = yield* FileSystem.FileSystem
    const path = yield* Path.Path
    const name = path.basename(dest)
    const folder = path.join(context.cache, role)
    yield* fs.makeDirectory(folder, { recursive: true })
    return { path: path.join(folder, name), name }
  })

/** Copies a file of the guest into the rollout's folder. */
export const fromGuest = (input: Getter.Input, guestPath: string, dest: string) =>
  Effect.gen(function* () {
    const fs = yield* FileSystem.FileSystem
    const place = yield* placeFor(input, dest)
    return yield* Stream.run(input.context.guest.readFile(guestPath), fs.sink(place.path)).pipe(
      Effect.as(Value.File(place)),
      // An empty file is there by then, which would be taken for what was judged.
      Effect.catchTag("GuestFileMissing", ({ message }) =>
        Effect.as(fs.remove(place.path, { force: true }), Value.Missing({ reason: message }))
      )
    )
  })

const vmFile = Getter.make("vm_file", Files, (parameters, input) =>
  files(parameters, (guestPath, dest) => fromGuest(input, guestPath, dest))
)

const cloudFile = Getter.make("cloud_file", Files, (parameters, input) =>
  files(parameters, (url, dest) =>
    Effect.gen(function* () {
      const fs = yield* FileSystem.FileSystem
      const assets = yield* Assets
      const local = yield* assets.fetch(url, input.context.taskFile)
      const place = yield* placeFor(input, dest)
      // Metrics find side files beside a file, so each rollout has its own copies under the task's names.
      yield* fs.copyFile(local, place.path)
      return Value.File(place)
    })
  )
)

const cacheFile = Getter.make("cache_file", Schema.Struct({ path: Schema.String }), ({ path: name }, { context }) =>
  Effect.gen(function* () {
    const fs = yield* FileSystem.FileSystem
    const path = yield* Path.Path
    const file = { path: path.join(context.cache, path.basename(name)), name }
    return (yield* fs.exists(file.path)) ? Value.File(file) : Value.Missing({ reason: `no setup step wrote ${name}` })
  })
)

export const getters: ReadonlyArray<Getter.Getter> = [vmFile, cloudFile, cacheFile]
