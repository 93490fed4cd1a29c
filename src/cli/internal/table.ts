/** Columns as wide as their widest cell, the first to the left, numbers to the right, with a line under the heads. */
export const table = (heads: ReadonlyArray<string>, rows: ReadonlyArray<ReadonlyArray<string>>): string => {
  const widths = heads.map((head, column) => Math.max(head.length, ...rows.map((row) => (row[column] ?? "").length)))
  const line = (cells: ReadonlyArray<string>) =>
    widths
      .map((width, column) => {
        const cell = cells[column] ?? ""
        return column === 0 ? cell.padEnd(width) : cell.padStart(width)
      })
      .join("  ")
      .trimEnd()
  return [line(heads), widths.map((width) => "-".repeat(width)).join("  "), ...rows.map(line)].join("\n")
}
