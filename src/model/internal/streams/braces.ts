/**
 * Whether arguments that come in pieces are whole, without reading them anew with each piece.
 *
 * @since 0.1.0
 */

/**
 * Where in a JSON object a text ends.
 *
 * @since 0.1.0
 * @category models
 */
export interface Braces {
  /** Objects and lists that are open. */
  readonly depth: number
  readonly quoted: boolean
  /** Whether the last character was a backslash that makes the next one plain. */
  readonly escaped: boolean
  /** Whether the outermost object has been closed. */
  readonly whole: boolean
}

/**
 * Before the first character.
 *
 * @since 0.1.0
 * @category constructors
 */
export const initial: Braces = { depth: 0, quoted: false, escaped: false, whole: false }

/**
 * After more of the text. A text that is no JSON may be taken for whole or never be; one that is a JSON object is whole
 * with its last brace and not before.
 *
 * @since 0.1.0
 * @category combinators
 */
export const push = (before: Braces, text: string): Braces => {
  let { depth, escaped, quoted, whole } = before
  for (const character of text) {
    if (escaped) escaped = false
    else if (quoted) {
      if (character === "\\") escaped = true
      else if (character === '"') quoted = false
    } else if (character === '"') quoted = true
    else if (character === "{" || character === "[") depth++
    else if (character === "}" || character === "]") {
      depth--
      if (depth === 0) whole = true
    }
  }
  return { depth, escaped, quoted, whole }
}
