/** The part of sql.js that we use; the package brings no types. */
declare module "sql.js" {
  export type SqlValue = number | string | Uint8Array | null
  export interface Statement {
    bind(values: ReadonlyArray<SqlValue>): boolean
    step(): boolean
    get(): Array<SqlValue>
    getColumnNames(): Array<string>
    free(): boolean
  }
  export interface Database {
    prepare(sql: string): Statement
    run(sql: string, values?: ReadonlyArray<SqlValue>): Database
    export(): Uint8Array
    close(): void
  }
  export interface SqlJs {
    readonly Database: new (bytes?: Uint8Array) => Database
  }
  export default function initSqlJs(): Promise<SqlJs>
}
