/**
 * Metrics over records: the lines of a CSV file with a header, and what a query says of an SQLite file.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Schema from "effect/Schema"
import * as Sqlite from "./internal/sqlite.js"
import { type Metric, make, makeEffect, type Reader as ReaderType, Unusable, verdict } from "./Metric.js"
import * as Reader from "./Reader.js"
import { decodeCsv } from "./text.js"

const none = Schema.Struct({})

/** Parsed, a CSV file takes many times its size. */
const maxCsv = 32 * 1024 * 1024

const csvText = Reader.file((bytes) =>
  bytes.length > maxCsv
    ? Either.left({ kind: "Undecidable", reason: `${bytes.length} bytes, more than ${maxCsv}` })
    : Either.right(decodeCsv(bytes))
)

type Row = ReadonlyMap<string, string>

const Rows = Schema.Array(Schema.Array(Schema.String))

/** The lines below the header, by its names. */
const records: ReaderType<ReadonlyArray<Row>> = (value) =>
  Effect.gen(function* () {
    const text = value?._tag === "Text" ? value.text : yield* csvText(value)
    const { parse } = yield* Effect.promise(() => import("csv-parse/sync"))
    const rows = yield* Effect.try({
      try: (): unknown =>
        parse(text, { bom: true, relax_column_count: true, relax_quotes: true, skip_empty_lines: true }),
      catch: (error) => new Unusable({ kind: "Unparsable", reason: `no CSV: ${String(error)}` })
    })
    const [header = [], ...lines] = yield* Effect.mapError(
      Schema.decodeUnknown(Rows)(rows),
      () => new Unusable({ kind: "Unparsable", reason: "no CSV" })
    )
    return lines.map((line) => new Map(header.slice(0, line.length).map((name, index) => [name, line[index] ?? ""])))
  })

const Wanted = Schema.optionalWith(Schema.Array(Schema.Record({ key: Schema.String, value: Schema.String })), {
  default: () => [],
  nullable: true
})

const recordRules = Reader.json(Schema.Struct({ expect: Wanted, unexpect: Wanted }))

/**
 * Each record of `expect` is among the lines of a CSV file with a header, and none of `unexpect` is. A record says the
 * values of some columns.
 *
 * @since 0.1.0
 * @category metrics
 */
export const checkCsv: Metric = make({
  name: "check_csv",
  result: records,
  expected: recordRules,
  options: none,
  score: (rows, { expect, unexpect }) => {
    const occurs = (wanted: Readonly<Record<string, string>>) =>
      rows.some((row) => Object.entries(wanted).every(([name, value]) => row.get(name) === value))
    return verdict(expect.every(occurs) && !unexpect.some(occurs))
  }
})

const database = Reader.file((bytes) => Either.right(bytes))

const queryRule = Reader.json(Schema.Struct({ sql: Schema.NonEmptyString }))

/**
 * What the first column of the first row of `sql` says of an SQLite file: a number, which is the score. Nothing is 0.
 *
 * The query is the task's, the file is the agent's: a query about anything but plain tables of it scores 0.
 *
 * @since 0.1.0
 * @category metrics
 */
export const runSqlite3: Metric = makeEffect({
  name: "run_sqlite3",
  result: database,
  expected: queryRule,
  options: none,
  score: (bytes, { sql }) =>
    Sqlite.first(bytes, sql).pipe(
      Effect.catchAll(({ kind, reason }) => (kind === "Unparsable" ? Effect.succeed(null) : Effect.fail(reason))),
      Effect.flatMap((value) => {
        const number = Number(value ?? 0)
        return Number.isNaN(number) ? Effect.fail(`the query answers ${JSON.stringify(value)}`) : Effect.succeed(number)
      })
    )
})

/**
 * The metrics of this module, for the registry.
 *
 * @since 0.1.0
 * @category registry
 */
export const metrics: ReadonlyArray<Metric> = [checkCsv, runSqlite3]
