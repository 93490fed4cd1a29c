/**
 * Text as a Python string literal, so that nothing a model or a task wrote is ever read as Python code.
 *
 * @since 0.1.0
 */

const named: Readonly<Record<string, string>> = { "\\": "\\\\", "'": "\\'", "\n": "\\n", "\r": "\\r", "\t": "\\t" }

const hex = (value: number, width: number) => value.toString(16).padStart(width, "0")

const escape = (character: string): string => {
  const point = character.codePointAt(0) ?? 0
  const name = named[character]
  if (name !== undefined) return name
  if (point < 0x20 || (point >= 0x7f && point <= 0xff)) return `\\x${hex(point, 2)}`
  if (point < 0x7f) return character
  return point <= 0xffff ? `\\u${hex(point, 4)}` : `\\U${hex(point, 8)}`
}

/**
 * The literal of one text: printable ASCII, single quoted, on one line. Everything else is an escape, so it survives
 * any encoding on its way. A lone surrogate becomes the same lone surrogate in Python.
 *
 * @since 0.1.0
 * @category encoding
 */
export const fromString = (text: string): string => `'${Array.from(text, escape).join("")}'`

/**
 * The literal of a list of texts.
 *
 * @since 0.1.0
 * @category encoding
 */
export const fromStrings = (texts: Iterable<string>): string => `[${Array.from(texts, fromString).join(", ")}]`
