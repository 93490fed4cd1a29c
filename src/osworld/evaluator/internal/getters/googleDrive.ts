/** Files of the Google Drive that a task was about. */
import * as FileSystem from "@effect/platform/FileSystem"
import * as NodeHttpClient from "@effect/platform-node/NodeHttpClient"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import * as GoogleAccount from "../../../internal/googleAccount.js"
import * as GoogleDrive from "../../../internal/googleDrive.js"
import * as Getter from "../../Getter.js"
import { type FileRef, Value } from "../../Metric.js"
import { placeFor } from "./files.js"

const Names = Schema.NonEmptyArray(Schema.String)

/** How a file is found: a query, or a name, for each folder on the way and for the file. */
const Parameters = Schema.Union(
  Schema.Struct({ query: Names, dest: Schema.String }),
  Schema.Struct({ path: Names, dest: Schema.String }),
  Schema.Struct({ query_list: Schema.NonEmptyArray(Names), dest: Names }),
  Schema.Struct({ path_list: Schema.NonEmptyArray(Names), dest: Names })
)

interface Wanted {
  readonly queries: ReadonlyArray<string>
  readonly dest: string
}

/** Each name is looked for where it may be: a folder until the last. */
const byNames = (names: ReadonlyArray<string>): ReadonlyArray<string> =>
  names.map((name, index) => {
    const found = `title = '${name.replace(/[\\']/g, "\\$&")}' and trashed = false`
    return index < names.length - 1 ? `${found} and mimeType = '${GoogleDrive.folderType}'` : found
  })

/** What the parameters ask for, undefined where the lists are of different lengths. */
export const wanted = (parameters: typeof Parameters.Type): ReadonlyArray<Wanted> | undefined => {
  if ("query" in parameters) return [{ queries: parameters.query, dest: parameters.dest }]
  if ("path" in parameters) return [{ queries: byNames(parameters.path), dest: parameters.dest }]
  const lists = "query_list" in parameters ? parameters.query_list : parameters.path_list.map(byNames)
  if (lists.length !== parameters.dest.length) return undefined
  return lists.map((queries, index) => ({ queries, dest: parameters.dest[index] ?? "" }))
}

const find = (drive: GoogleDrive.Drive, queries: ReadonlyArray<string>) =>
  Effect.gen(function* () {
    let found: GoogleDrive.File | undefined
    for (const query of queries) {
      const [first] = yield* drive.list(`( ${query} ) and '${found?.id ?? "root"}' in parents`)
      if (first === undefined) return undefined
      found = first
    }
    return found
  })

const bring = (drive: GoogleDrive.Drive, { dest, queries }: Wanted, input: Getter.Input) =>
  Effect.gen(function* () {
    const file = yield* find(drive, queries)
    if (file === undefined) return Value.Missing({ reason: `the Drive has nothing at ${queries.join(" / ")}` })
    const fs = yield* FileSystem.FileSystem
    const place = yield* placeFor(input, dest)
    return yield* Stream.run(drive.content(file.id), fs.sink(place.path)).pipe(
      Effect.as(Value.File(place)),
      // It may have gone while it was looked for.
      Effect.catchIf(
        (error) => error._tag === "DriveError" && GoogleDrive.hasNoContent(error),
        (error) => Effect.as(fs.remove(place.path, { force: true }), Value.Missing({ reason: error.message }))
      )
    )
  })

const googledriveFile = Getter.make("googledrive_file", Parameters, (parameters, input) =>
  Effect.gen(function* () {
    const all = wanted(parameters)
    if (all === undefined) return yield* Effect.fail({ message: "its lists are of different lengths" })
    const account = yield* GoogleAccount.api
    const drive = yield* GoogleDrive.make(account)
    const given: Array<FileRef> = []
    for (const each of all) {
      const value = yield* bring(drive, each, input)
      // Where one of several is not there, there is nothing to compare.
      if (value._tag !== "File") return value
      given.push(value)
    }
    const [only] = given
    return typeof parameters.dest === "string" && only !== undefined ? Value.File(only) : Value.Files({ files: given })
  }).pipe(Effect.provide(NodeHttpClient.layer))
)

export const getters: ReadonlyArray<Getter.Getter> = [googledriveFile]
