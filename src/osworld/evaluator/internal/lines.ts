/** Text in lines, as Python has them. */

/** All line ends that Python's `str.splitlines` knows; the last one ends a line and starts none. */
export const splitLines = (text: string): ReadonlyArray<string> => {
  const lines = text.split(/\r\n|[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]/)
  return lines.at(-1) === "" ? lines.slice(0, -1) : lines
}

/** `str.expandtabs`: up to the next column that `width` divides. */
export const expandTabs = (line: string, width: number): string => {
  let text = ""
  let column = 0
  for (const char of line) {
    const part = char === "\t" ? " ".repeat(width - (column % width)) : char
    text += part
    column += char === "\t" ? part.length : 1
  }
  return text
}
