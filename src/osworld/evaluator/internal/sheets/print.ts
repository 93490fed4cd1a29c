/** `sheet_print`: sheets as text, from the CSV files that a task has LibreOffice write beside its workbooks. */
import * as FileSystem from "@effect/platform/FileSystem"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import type { FileRef, Requirements } from "../../Metric.js"
import type { Workbooks } from "./judge.js"
import type * as Rules from "./rules.js"

/** Larger files are refused: a sheet of this size is no task's. */
const maxBytes = 64 * 1024 * 1024

/** UTF-8 with or without a mark, otherwise Latin-1. */
const decode = (bytes: Uint8Array): string =>
  Either.getOrElse(
    Either.try(() => new TextDecoder("utf-8", { fatal: true }).decode(bytes)),
    () => Buffer.from(bytes).toString("latin1")
  )

/** Where Python's `splitlines` ends a line. */
const lineEnd = /\r\n|[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]/

/** Lines without white space around them, and without empty ones at the end. */
export const printedLines = (text: string): ReadonlyArray<string> => {
  const lines = text.split(lineEnd).map((line) => line.trim())
  let end = lines.length
  while (end > 0 && lines[end - 1] === "") end--
  return lines.slice(0, end)
}

const isName = (name: string): boolean => name !== "" && !/[/\\\0]/.test(name)

/** The file's lines, `undefined` where it is not there; a reason where nobody can say. */
const readPrint = (
  book: FileRef,
  sheet: string
): Effect.Effect<ReadonlyArray<string> | undefined, string, Requirements> =>
  Effect.gen(function* () {
    // A sheet's name is the agent's: it names no file elsewhere.
    if (!isName(sheet)) return undefined
    const fs = yield* FileSystem.FileSystem
    const place = `${book.path.replace(/\.[^./\\]*$/, "")}-${sheet}.csv`
    const failed = () => `${place} cannot be read`
    if (!(yield* Effect.mapError(fs.exists(place), failed))) return undefined
    const info = yield* Effect.mapError(fs.stat(place), failed)
    if (info.type !== "File" || info.size > maxBytes) return yield* Effect.fail(`${place} is too large, or no file`)
    return printedLines(decode(yield* Effect.mapError(fs.readFile(place), failed)))
  })

interface Files {
  readonly result: FileRef
  readonly expected: FileRef | undefined
}

/** Names are taken as they are: the CSV file says whether there is such a sheet. */
const printOf = (workbooks: Workbooks, files: Files, { sheet, side }: Rules.SheetIndex) =>
  Effect.gen(function* () {
    const workbook = workbooks[side]
    const file = files[side]
    if (workbook === undefined || file === undefined) {
      return yield* Effect.fail("a rule asks for the expected workbook and the task gives none")
    }
    const name = typeof sheet === "number" ? workbook.sheets[sheet]?.name : sheet
    const lines = name === undefined ? undefined : yield* readPrint(file, name)
    if (lines === undefined && side === "expected") {
      return yield* Effect.fail(`the expected workbook has no printed sheet ${JSON.stringify(sheet)} beside it`)
    }
    return lines
  })

/** A sheet of the result that was not printed fails the rule. */
export const printsEqual = (
  workbooks: Workbooks,
  files: Files,
  { ignore_case, sheet_idx0, sheet_idx1 }: typeof Rules.SheetPrint.Type
): Effect.Effect<boolean, string, Requirements> =>
  Effect.gen(function* () {
    const left = yield* printOf(workbooks, files, sheet_idx0)
    const right = yield* printOf(workbooks, files, sheet_idx1)
    if (left === undefined || right === undefined || left.length !== right.length) return false
    const fold = (line: string | undefined) => (ignore_case ? line?.toLowerCase() : line)
    return left.every((line, i) => fold(line) === fold(right[i]))
  })
