/**
 * Columns as Parquet has them.
 */
import type { ColumnSource, SchemaElement } from "hyparquet-writer"
import type { Column } from "../Export.js"
import type { Cell } from "./cells.js"

type Leaf = Pick<SchemaElement, "type" | "converted_type">

const leaves: Readonly<Record<string, Leaf>> = {
  boolean: { type: "BOOLEAN" },
  int32: { type: "INT32" },
  double: { type: "DOUBLE" },
  string: { type: "BYTE_ARRAY", converted_type: "UTF8" }
}

const elementsOf = ({ name, nullable, type }: Column): ReadonlyArray<SchemaElement> => {
  const repetition_type = nullable ? "OPTIONAL" : "REQUIRED"
  const element = /^list<(.*)>$/.exec(type)?.[1]
  if (element === undefined) return [{ name, repetition_type, ...leaves[type] }]
  return [
    { name, repetition_type, num_children: 1, converted_type: "LIST" },
    { name: "list", repetition_type: "REPEATED", num_children: 1 },
    { name: "element", repetition_type: "REQUIRED", ...leaves[element] }
  ]
}

export const parquetSchema = (columns: ReadonlyArray<Column>): Array<SchemaElement> => [
  { name: "root", num_children: columns.length },
  ...columns.flatMap(elementsOf)
]

export const columnData = (
  columns: ReadonlyArray<Column>,
  records: ReadonlyArray<Readonly<Record<string, Cell>>>
): Array<ColumnSource> =>
  columns.map(({ name, nullable }) => ({
    name,
    nullable,
    data: records.map((record) => record[name] ?? null)
  }))
