/** Tables of SQLite files that somebody else wrote. */
import * as Effect from "effect/Effect"
import type { Database } from "sql.js"
import * as Wal from "./wal.js"

/** Numbers and texts; a blob is null, because nothing that is judged is in one. */
export type Row = ReadonlyArray<number | string | null>

/** Far above what a browser keeps. */
const maxRows = 1_000_000

/** Whose fault it is that a query has no answer: the file's, or the query's or ours. */
export interface NoAnswer {
  readonly kind: "Unparsable" | "Undecidable"
  readonly reason: string
}

class Refused extends Error {
  constructor(readonly answer: NoAnswer) {
    super(answer.reason)
  }
}

const unparsable = (reason: string): Refused => new Refused({ kind: "Unparsable", reason })

/** A view or a computed column could count for ever; plain tables only. */
const isPlain = (type: unknown, sql: unknown): boolean =>
  type === "table" && typeof sql === "string" && !/\bVIRTUAL\b|\bGENERATED\b|\bAS\s*\(/i.test(sql)

const faultOfFile = /malformed|not a database|encrypted|no such (table|column)|unsupported file format|corrupt/i

const noAnswer = (error: unknown): NoAnswer => {
  if (error instanceof Refused) return error.answer
  const reason = error instanceof Error ? error.message : String(error)
  return { kind: faultOfFile.test(reason) ? "Unparsable" : "Undecidable", reason }
}

/** `log` is what is in the write-ahead log beside the file. */
const read = <A>(
  database: Uint8Array,
  log: Uint8Array | undefined,
  query: (opened: Database) => A
): Effect.Effect<A, NoAnswer> =>
  Effect.tryPromise({
    try: async () => {
      const { default: initSqlJs } = await import("sql.js")
      // A library of its own each time: what a broken file does to its memory ends with the query.
      const { Database } = await initSqlJs()
      const opened = new Database(Wal.merge(database, log))
      try {
        return query(opened)
      } finally {
        opened.close()
      }
    },
    catch: noAnswer
  })

/** Rows of a table: the named columns, or all of them. */
export const table = (
  database: Uint8Array,
  log: Uint8Array | undefined,
  name: string,
  columns: ReadonlyArray<string> | "*"
): Effect.Effect<ReadonlyArray<Row>, NoAnswer> =>
  read(database, log, (opened) => {
    const schema = opened.prepare("SELECT type, sql FROM sqlite_master WHERE name = ?")
    schema.bind([name])
    if (!schema.step()) throw unparsable(`there is no table ${name}`)
    const [type, sql] = schema.get()
    schema.free()
    if (!isPlain(type, sql)) throw unparsable(`${name} is no plain table`)
    const quoted = columns === "*" ? "*" : columns.map((column) => `[${column}]`).join(", ")
    const select = opened.prepare(`SELECT ${quoted} FROM [${name}]`)
    const rows: Array<Row> = []
    while (select.step()) {
      if (rows.length >= maxRows) {
        throw new Refused({ kind: "Undecidable", reason: `${name} has more than ${maxRows} rows` })
      }
      rows.push(select.get().map((value) => (value instanceof Uint8Array ? null : value)))
    }
    return rows
  })

/**
 * The first column of the first row that a trusted query gives, null where it gives none. The file is not trusted: what
 * the query names has to be plain tables.
 */
export const first = (database: Uint8Array, query: string): Effect.Effect<number | string | null, NoAnswer> =>
  read(database, undefined, (opened) => {
    const named = new Set(query.toLowerCase().match(/\w+/g))
    const schema = opened.prepare("SELECT type, sql, name FROM sqlite_master WHERE type IN ('table', 'view')")
    while (schema.step()) {
      const [type, sql, name] = schema.get()
      const isNamed = typeof name === "string" && named.has(name.toLowerCase())
      if (isNamed && !isPlain(type, sql)) throw unparsable(`${name} is no plain table`)
    }
    schema.free()
    const select = opened.prepare(query)
    const value = select.step() ? select.get()[0] : null
    return value === undefined || value instanceof Uint8Array ? null : value
  })
