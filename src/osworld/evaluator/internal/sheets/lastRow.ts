/** What the getter `content_from_vm_file` answers of a workbook: its last row, as texts. */
import * as Either from "effect/Either"
import type { Refusal } from "../../Reader.js"
import * as Frame from "../frame.js"
import * as Spreadsheet from "../Spreadsheet.js"
import * as PythonText from "./pythonText.js"

const text = (value: Spreadsheet.CellValue, asFloat: boolean, column: Frame.Column): string => {
  if (value === null) return column.type === "date" || column.type === "duration" ? "NaT" : "nan"
  if (typeof value === "number") {
    // In a column of mixed things a whole number is an integer, as it is in the file.
    const whole = column.type === "int" || column.type === "object"
    return whole && !asFloat && Number.isInteger(value) ? String(value) : PythonText.float(value)
  }
  if (typeof value === "boolean") return value ? "True" : "False"
  if (typeof value === "string") return value
  switch (value._tag) {
    case "Date":
      return PythonText.timestamp(value.millis)
    case "Time":
      return PythonText.time(value.millis)
    case "Duration":
      return PythonText.duration(value.millis)
    case "Error":
      return "nan"
  }
}

/**
 * The last row of the first sheet below its header, as pandas reads and Python writes it: whole numbers of a column with
 * gaps or fractions have a `.0`, a missing value is `nan`. Where all columns are numbers, and one is of floats, all are.
 *
 * A workbook without a row below the header is unparsable: it has no last row.
 */
export const lastRow = (bytes: Uint8Array): Either.Either<ReadonlyArray<string>, Refusal> =>
  Either.gen(function* () {
    const { sheets } = yield* Spreadsheet.parse(bytes)
    const [sheet] = sheets
    if (sheet === undefined) return yield* Either.left<Refusal>({ kind: "Unparsable", reason: "it has no sheet" })
    const columns = yield* Either.mapLeft(Frame.read(sheet), (reason): Refusal => ({ kind: "Undecidable", reason }))
    const rows = columns[0]?.values.length ?? 0
    if (rows === 0) return yield* Either.left<Refusal>({ kind: "Unparsable", reason: "it has no row below a header" })
    const numeric = columns.every(({ type }) => type === "int" || type === "float")
    const asFloat = numeric && columns.some(({ type }) => type === "float")
    return columns.map((column) => text(column.values[rows - 1] ?? null, asFloat, column))
  })
