/** Lists of strings as Python and GVariant print them, which is all that is read: nothing is evaluated. */
import * as Either from "effect/Either"

const token = /\s*(?:('(?:[^'\\]|\\[\s\S])*'|"(?:[^"\\]|\\[\s\S])*")|([[\],]))\s*/y

const named: Record<string, string> = { n: "\n", t: "\t", r: "\r", b: "\b", f: "\f", v: "\v", a: "\x07" }

const unescape = (quoted: string): string =>
  quoted
    .slice(1, -1)
    .replace(
      /\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|([\s\S]))/g,
      (_, short?: string, long?: string, char: string = "") => {
        const code = short ?? long
        return code === undefined ? (named[char] ?? char) : String.fromCharCode(Number.parseInt(code, 16))
      }
    )

/** `['a', "b"]`; GVariant writes an empty one with its type, `@as []`. */
export const parse = (text: string): Either.Either<ReadonlyArray<string>, string> => {
  const source = text.trim().replace(/^@as\s+/, "")
  const refused = Either.left(`no list of strings: ${JSON.stringify(source.slice(0, 100))}`)
  const items: Array<string> = []
  let expects: "open" | "item" | "separator" | "end" = "open"
  token.lastIndex = 0
  while (token.lastIndex < source.length) {
    const match = token.exec(source)
    if (match === null) return refused
    const [, quoted, mark] = match
    if (expects === "open" && mark === "[") expects = "item"
    else if (expects === "item" && quoted !== undefined) {
      items.push(unescape(quoted))
      expects = "separator"
    } else if (expects === "separator" && mark === ",") expects = "item"
    else if ((expects === "separator" || expects === "item") && mark === "]") expects = "end"
    else return refused
  }
  return expects === "end" ? Either.right(items) : refused
}
