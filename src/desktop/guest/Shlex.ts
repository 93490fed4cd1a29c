/**
 * Splitting a command line into words as a POSIX shell would, without expanding anything.
 *
 * @since 0.1.0
 */
import * as Either from "effect/Either"

/**
 * Splits `line` like Python's `shlex.split`: blanks separate words, single quotes keep everything, double quotes keep
 * everything but `\"` and `\\`, a backslash outside quotes keeps the next character. `Left` says what is unfinished.
 *
 * @since 0.1.0
 * @category parsing
 */
export const split = (line: string): Either.Either<ReadonlyArray<string>, string> => {
  const words: Array<string> = []
  let word: string | undefined
  let quote: "'" | '"' | undefined
  const characters = Array.from(line)
  for (let index = 0; index < characters.length; index++) {
    const character = characters[index] ?? ""
    const next = characters[index + 1]
    if (quote === "'") {
      if (character === "'") quote = undefined
      else word = (word ?? "") + character
    } else if (quote === '"') {
      if (character === '"') quote = undefined
      else if (character === "\\" && (next === '"' || next === "\\")) {
        word = (word ?? "") + next
        index++
      } else word = (word ?? "") + character
    } else if (character === "'" || character === '"') {
      quote = character
      word = word ?? ""
    } else if (character === "\\") {
      if (next === undefined) return Either.left("the command ends in a backslash")
      word = (word ?? "") + next
      index++
    } else if (character === " " || character === "\t" || character === "\n" || character === "\r") {
      if (word !== undefined) words.push(word)
      word = undefined
    } else {
      word = (word ?? "") + character
    }
  }
  if (quote !== undefined) return Either.left(`the command has an opening ${quote} and no closing one`)
  if (word !== undefined) words.push(word)
  return Either.right(words)
}

/**
 * One word, quoted so that `split` and a POSIX shell read it back as it is.
 *
 * @since 0.1.0
 * @category formatting
 */
export const quote = (word: string): string => `'${word.replaceAll("'", `'"'"'`)}'`
