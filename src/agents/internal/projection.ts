/** Coordinates that a model wrote in units of its own, rewritten as pixels inside its pyautogui calls. */
import type { Size } from "../Protocol.js"
import { spans } from "./python.js"

/**
 * - `relative`: shares of the screen where both are at most 1, else pixels
 * - `qwen25`: thousandths of the screen
 * - `absolute`: pixels
 */
export type CoordinateType = "relative" | "absolute" | "qwen25"

/** The pixel that a point stands for. */
export type ToPixels = (x: number, y: number) => readonly [number, number]

/** As Python rounds: a half goes to the even neighbour. */
export const roundHalfEven = (value: number): number => {
  const floor = Math.floor(value)
  const rest = value - floor
  const rounded = rest < 0.5 ? floor : rest > 0.5 ? floor + 1 : floor % 2 === 0 ? floor : floor + 1
  return rounded === 0 ? 0 : rounded
}

export const project = (x: number, y: number, screen: Size, type: CoordinateType): readonly [number, number] => {
  const scaled = (by: number) =>
    [roundHalfEven((x / by) * screen.width), roundHalfEven((y / by) * screen.height)] as const
  switch (type) {
    case "absolute":
      return [roundHalfEven(x), roundHalfEven(y)]
    case "qwen25":
      return scaled(1000)
    case "relative":
      return Math.abs(x) <= 1 && Math.abs(y) <= 1 ? scaled(1) : [roundHalfEven(x), roundHalfEven(y)]
  }
}

const digits = String.raw`\d(?:_?\d)*`
const literal = new RegExp(
  `^-?[ \\t]*(?:0[xX][0-9a-fA-F]+|0[oO][0-7]+|0[bB][01]+|(?:${digits}\\.?(?:${digits})?|\\.${digits})(?:[eE][+-]?${digits})?)$`
)

const numberOf = (text: string): number | undefined => {
  const size = text.replace(/^-?[ \t]*/, "")
  // Python has no integers with leading zeros.
  if (!literal.test(text) || /^0[\d_]*[1-9][\d_]*$/.test(size)) return undefined
  const value = Number(size.replaceAll("_", "")) * (text.startsWith("-") ? -1 : 1)
  // Longer numbers than a screen has use for would be written in another way than Python writes them.
  return Math.abs(value) < 1e12 ? value : undefined
}

interface Argument {
  readonly keyword?: string
  readonly value: string
}

/** The arguments, or nothing where they are not of the plain kind that can be rewritten. */
const argumentsOf = (text: string): ReadonlyArray<Argument> | undefined => {
  const parts: Array<string> = [""]
  let depth = 0
  for (const span of spans(text)) {
    if (span.kind === "comment") return undefined
    if (span.kind === "string") {
      parts.push((parts.pop() ?? "") + span.text)
      continue
    }
    for (const character of span.text) {
      if ("[{".includes(character)) depth++
      if ("]}".includes(character)) depth--
      if (character === "," && depth === 0) parts.push("")
      else parts.push((parts.pop() ?? "") + character)
    }
  }
  if (parts.at(-1)?.trim() === "") parts.pop()
  const found = parts.map((part): Argument => {
    const [, keyword, value] = /^\s*([A-Za-z_]\w*)\s*=(?!=)\s*([\s\S]*)$/.exec(part) ?? []
    return keyword === undefined || value === undefined ? { value: part.trim() } : { keyword, value: value.trim() }
  })
  const firstKeyword = found.findIndex(({ keyword }) => keyword !== undefined)
  const ordered = firstKeyword < 0 || found.slice(firstKeyword).every(({ keyword }) => keyword !== undefined)
  return ordered && found.every(({ value }) => value !== "" && !value.startsWith("*")) ? found : undefined
}

const projected = (text: string, toPixels: ToPixels): string | undefined => {
  const given = argumentsOf(text)
  if (given === undefined) return undefined
  const indexOf = (keyword: string, place: number): number =>
    given[place] !== undefined && given[place].keyword === undefined
      ? place
      : given.findIndex((argument) => argument.keyword === keyword)
  const atX = indexOf("x", 0)
  const atY = indexOf("y", 1)
  const x = numberOf(given[atX]?.value ?? "")
  const y = numberOf(given[atY]?.value ?? "")
  if (x === undefined || y === undefined) return undefined
  const pixels = toPixels(x, y)
  return given
    .map(({ keyword, value }, at) => {
      const shown = at === atX ? String(pixels[0]) : at === atY ? String(pixels[1]) : value
      return keyword === undefined ? shown : `${keyword}=${shown}`
    })
    .join(", ")
}

const call = /(?<![\w.])pyautogui\.(click|rightClick|middleClick|doubleClick|tripleClick|moveTo|dragTo)[ \t]*\($/

/**
 * The code with the points of its clicks, moves and drags in pixels. Left as they are: calls with parentheses or a line
 * break among their arguments, calls whose point is no pair of numbers, and everything in strings and comments.
 */
export const rewritePoints = (code: string, toPixels: ToPixels): string => {
  // Where code is, and no string and no comment.
  const isCode = spans(code).flatMap(({ kind, text }) => Array<boolean>(text.length).fill(kind === "code"))
  let result = ""
  let from = 0
  for (let open = code.indexOf("("); open >= 0; open = code.indexOf("(", open + 1)) {
    if (open < from || isCode[open] !== true) continue
    const head = call.exec(code.slice(Math.max(0, open - 64), open + 1))
    const name = head?.[1]
    if (head === null || name === undefined) continue
    const start = open + 1 - head[0].length
    const rest = /^[^()\n]*\)/.exec(code.slice(open + 1))?.[0]
    if (start < from || rest === undefined || isCode[open + rest.length] !== true) continue
    const point = projected(rest.slice(0, -1), toPixels)
    if (point === undefined) continue
    result += `${code.slice(from, start)}pyautogui.${name}(${point})`
    from = open + 1 + rest.length
  }
  return result + code.slice(from)
}

/** With points in one of the units that have a name. */
export const projectCode = (code: string, screen: Size, type: CoordinateType): string =>
  rewritePoints(code, (x, y) => project(x, y, screen, type))

/** Line breaks that a model wrote as `\n`: no Python outside of strings holds a backslash before an n. */
export const repairNewlines = (code: string): string =>
  spans(code)
    .map(({ kind, text }) => (kind === "code" ? text.replace(/(?:\\r)?\\n/g, "\n") : text))
    .join("")
