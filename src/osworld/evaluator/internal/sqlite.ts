/** Tables of SQLite files that somebody else wrote. */
import * as Effect from "effect/Effect"
import * as Wal from "./wal.js"

/** Numbers and texts; a blob is null, because nothing that is judged is in one. */
export type Row = ReadonlyArray<number | string | null>

/** Far above what a browser keeps. */
const maxRows = 1_000_000

class Refused extends Error {}

/** A view or a computed column could count for ever; plain tables only. */
const isPlain = (type: unknown, sql: unknown): boolean =>
  type === "table" && typeof sql === "string" && !/\bVIRTUAL\b|\bGENERATED\b|\bAS\s*\(/i.test(sql)

/**
 * Rows of a table: the named columns, or all of them. `log` is what is in the write-ahead log beside the file. A failure
 * says why the file is none that can be read.
 */
export const table = (
  database: Uint8Array,
  log: Uint8Array | undefined,
  name: string,
  columns: ReadonlyArray<string> | "*"
): Effect.Effect<ReadonlyArray<Row>, string> =>
  Effect.flatMap(
    Effect.promise(async () => {
      const { default: initSqlJs } = await import("sql.js")
      return await initSqlJs()
    }),
    ({ Database }) =>
      Effect.try({
        try: () => {
          const opened = new Database(Wal.merge(database, log))
          try {
            const schema = opened.prepare("SELECT type, sql FROM sqlite_master WHERE name = ?")
            schema.bind([name])
            if (!schema.step()) throw new Refused(`there is no table ${name}`)
            const [type, sql] = schema.get()
            schema.free()
            if (!isPlain(type, sql)) throw new Refused(`${name} is no plain table`)
            const quoted = columns === "*" ? "*" : columns.map((column) => `[${column}]`).join(", ")
            const select = opened.prepare(`SELECT ${quoted} FROM [${name}]`)
            const rows: Array<Row> = []
            while (select.step()) {
              if (rows.length >= maxRows) throw new Refused(`${name} has more than ${maxRows} rows`)
              rows.push(select.get().map((value) => (value instanceof Uint8Array ? null : value)))
            }
            return rows
          } finally {
            opened.close()
          }
        },
        catch: (error) => (error instanceof Error ? error.message : String(error))
      })
  )

/** Whose fault it is that a query has no answer: the file's, or the query's. */
export interface NoAnswer {
  readonly kind: "Unparsable" | "Undecidable"
  readonly reason: string
}

const faultOfFile = /malformed|not a database|encrypted|no such (table|column)|unsupported file format|corrupt/i

/**
 * The first column of the first row that a trusted query gives, null where it gives none. The file is not trusted: what
 * the query names has to be plain tables.
 */
export const first = (database: Uint8Array, query: string): Effect.Effect<number | string | null, NoAnswer> =>
  Effect.flatMap(
    Effect.promise(async () => {
      const { default: initSqlJs } = await import("sql.js")
      return await initSqlJs()
    }),
    ({ Database }) =>
      Effect.try({
        try: () => {
          const opened = new Database(Wal.merge(database, undefined))
          try {
            const named = new Set(query.toLowerCase().match(/\w+/g))
            const schema = opened.prepare("SELECT type, sql, name FROM sqlite_master WHERE type IN ('table', 'view')")
            while (schema.step()) {
              const [type, sql, name] = schema.get()
              const isNamed = typeof name === "string" && named.has(name.toLowerCase())
              if (isNamed && !isPlain(type, sql)) throw new Refused(`${name} is no plain table`)
            }
            schema.free()
            const select = opened.prepare(query)
            const value = select.step() ? select.get()[0] : null
            return value === undefined || value instanceof Uint8Array ? null : value
          } finally {
            opened.close()
          }
        },
        catch: (error): NoAnswer => {
          const reason = error instanceof Error ? error.message : String(error)
          return { kind: error instanceof Refused || faultOfFile.test(reason) ? "Unparsable" : "Undecidable", reason }
        }
      })
  )
