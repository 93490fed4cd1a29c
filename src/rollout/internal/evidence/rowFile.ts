/** The files that a run's rows are in. */
import type * as FileSystem from "@effect/platform/FileSystem"
import type * as Path from "@effect/platform/Path"
import * as Either from "effect/Either"
import * as ParseResult from "effect/ParseResult"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import { fileStem } from "../../Evidence.js"
import { EvidenceFault } from "../../EvidenceFault.js"
import { byteLines } from "./lines.js"
import { decodeRow, type RowFacts } from "./rows.js"

/** A row, and where it is. */
export interface PlacedRow {
  readonly path: string
  readonly line: number
  readonly row: RowFacts
}

/** The name of its files. */
export const stemOf = ({ row }: PlacedRow): string =>
  fileStem({ taskId: row.verifier_metadata.task_id, rolloutId: row._ng_rollout_id })

const json = Schema.decodeUnknownEither(Schema.parseJson())

/** The rows of a file. One that cannot be read is a fault. */
const rowsOfFile = (fs: FileSystem.FileSystem, path: string): Stream.Stream<Either.Either<PlacedRow, EvidenceFault>> =>
  byteLines(fs.stream(path)).pipe(
    Stream.filter(({ bytes }) => bytes.length > 0),
    Stream.map(({ bytes, number, torn }) => {
      const fault = (kind: "torn_tail" | "unreadable", detail: string) =>
        new EvidenceFault({ kind, path, line: number, detail })
      if (torn) return Either.left(fault("torn_tail", "the last row is torn"))
      return json(bytes.toString("utf8")).pipe(
        Either.flatMap(decodeRow),
        Either.mapBoth({
          onLeft: (error) => fault("unreadable", ParseResult.TreeFormatter.formatErrorSync(error)),
          onRight: (row) => ({ path, line: number, row })
        })
      )
    }),
    Stream.catchAll((error) =>
      error._tag === "SystemError" && error.reason === "NotFound"
        ? Stream.empty
        : Stream.make(Either.left(new EvidenceFault({ kind: "unreadable", path, detail: error.message })))
    )
  )

/** All rows of a run, scored ones first. A file that is not there has none. */
export const rowsOf = (
  fs: FileSystem.FileSystem,
  path: Path.Path,
  folder: string
): Stream.Stream<Either.Either<PlacedRow, EvidenceFault>> =>
  Stream.flatMap(Stream.make("rollouts.jsonl", "failures.jsonl"), (name) => rowsOfFile(fs, path.join(folder, name)))
