/** Replies to fuzz a text protocol with: those of `replies.ts`, words of the format, and good replies put together anew. */
import * as FastCheck from "effect/FastCheck"
import { replies } from "./replies.js"

const place = FastCheck.double({ min: 0, max: 1, noNaN: true })

export const textReplies = (good: ReadonlyArray<string>, words: ReadonlyArray<string>): FastCheck.Arbitrary<string> => {
  const one = FastCheck.constantFrom(...good)
  const word = FastCheck.oneof(FastCheck.constantFrom(...words), FastCheck.string({ maxLength: 4, unit: "binary" }))
  const fragments = FastCheck.array(FastCheck.constantFrom(...words), { maxLength: 16 }).map((parts) => parts.join(""))
  const spliced = FastCheck.tuple(one, one, place, place).map(
    ([a, b, from, to]) => a.slice(0, Math.floor(from * a.length)) + b.slice(Math.floor(to * b.length))
  )
  const changed = FastCheck.tuple(
    one,
    FastCheck.array(FastCheck.tuple(place, FastCheck.nat(8), word), { minLength: 1, maxLength: 3 })
  ).map(([reply, changes]) =>
    changes.reduce((now, [at, length, put]) => {
      const from = Math.floor(at * now.length)
      return now.slice(0, from) + put + now.slice(from + length)
    }, reply)
  )
  return FastCheck.oneof(
    { arbitrary: one, weight: 1 },
    { arbitrary: replies(good), weight: 3 },
    { arbitrary: fragments, weight: 2 },
    { arbitrary: spliced, weight: 2 },
    { arbitrary: changed, weight: 4 }
  )
}

/** Words said again and again, for so many characters. */
export const tedious = (words: ReadonlyArray<string>, length = 100_000): ReadonlyArray<string> =>
  words.map((word) => word.repeat(Math.ceil(length / word.length)))

// What ours writes of one Python literal, back to the text.
export const literalText = (literal: string): string =>
  literal
    .slice(1, -1)
    .replace(/\\(?:x([\da-f]{2})|u([\da-f]{4})|U([\da-f]{8})|([\s\S]))/g, (_, x, u, U, one: string) => {
      const hex: string | undefined = x ?? u ?? U
      if (hex !== undefined) return String.fromCodePoint(Number.parseInt(hex, 16))
      return one === "n" ? "\n" : one === "r" ? "\r" : one === "t" ? "\t" : one
    })

/** A line of code that typed actions come out as: a function, its numbers, and its texts. */
export interface Line {
  readonly name: string
  readonly numbers: ReadonlyArray<number>
  readonly texts: ReadonlyArray<string>
}

const lineForm =
  /^pyautogui\.(\w+)\(((?:(?:[xy]=)?-?\d+|'(?:[\x20-\x26\x28-\x5b\x5d-\x7e]|\\[\x20-\x7e])*'|duration=[\d.]+|button='\w+'|, )*)\)$/

/** The lines of code, or nothing where any is not of that plain form. */
export const linesOf = (code: string): ReadonlyArray<Line> | undefined => {
  const lines: Array<Line> = []
  for (const line of code.split("\n")) {
    const [, name, given = ""] = lineForm.exec(line) ?? []
    if (name === undefined) return undefined
    const plain = given.replace(/duration=[\d.]+|button='\w+'/g, "")
    const literals = Array.from(plain.matchAll(/'(?:[^'\\]|\\.)*'/g), ([literal]) => literal)
    const numbers = Array.from(plain.replace(/'(?:[^'\\]|\\.)*'/g, "").matchAll(/-?\d+/g), ([number]) => Number(number))
    lines.push({ name, numbers, texts: literals.map(literalText) })
  }
  return lines
}
