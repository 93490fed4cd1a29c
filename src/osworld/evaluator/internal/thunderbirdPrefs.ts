/** `prefs.js` of Mozilla's programs: lines `user_pref("name", value);`, read and never run. */

export type Pref = string | number | boolean

const text = String.raw`"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'`
const line = new RegExp(String.raw`^\s*user_pref\(\s*(${text})\s*,\s*(${text}|true|false|[+-]?\d+)\s*\)\s*;`)

const named: Record<string, string> = { n: "\n", r: "\r" }

const unquote = (quoted: string): string =>
  quoted
    .slice(1, -1)
    .replace(
      /\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|(.))/g,
      (_, short?: string, long?: string, char: string = "") => {
        const code = short ?? long
        return code === undefined ? (named[char] ?? char) : String.fromCharCode(Number.parseInt(code, 16))
      }
    )

const valueOf = (source: string): Pref => {
  if (/^["']/.test(source)) return unquote(source)
  return source === "true" || source === "false" ? source === "true" : Number(source)
}

/** The program takes the last line of a name. What it does not understand it passes over, and so is it here. */
export const parse = (content: string): ReadonlyMap<string, Pref> => {
  const prefs = new Map<string, Pref>()
  for (const one of content.split("\n")) {
    const [, name, value] = line.exec(one) ?? []
    if (name !== undefined && value !== undefined) prefs.set(unquote(name), valueOf(value))
  }
  return prefs
}
