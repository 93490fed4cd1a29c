/** Spreadsheet formulas as trees. Text of a guest: it is parsed here and interpreted in `evaluate`, within limits. */
import * as Either from "effect/Either"
import * as CellRange from "../cellRange.js"

/** A corner of a reference; what is not absolute moves with the cell that the formula is for. */
export interface Corner {
  readonly row: number
  readonly column: number
  readonly rowFixed: boolean
  readonly columnFixed: boolean
}

export interface Reference {
  readonly _tag: "Reference"
  /** Undefined: the formula's own sheet. */
  readonly sheet: string | undefined
  readonly from: Corner
  readonly to: Corner
  readonly text: string
}

export type BinaryOperator = "=" | "<>" | "<" | ">" | "<=" | ">=" | "&" | "+" | "-" | "*" | "/" | "^"

export type Expression =
  | { readonly _tag: "Literal"; readonly value: number | string | boolean }
  | { readonly _tag: "Error"; readonly code: string }
  | Reference
  | { readonly _tag: "Call"; readonly name: string; readonly inputs: ReadonlyArray<Expression> }
  | { readonly _tag: "Unary"; readonly operator: "+" | "-" | "%"; readonly operand: Expression }
  | {
      readonly _tag: "Binary"
      readonly operator: BinaryOperator
      readonly left: Expression
      readonly right: Expression
    }
  | { readonly _tag: "Rows"; readonly rows: ReadonlyArray<ReadonlyArray<Expression>> }
  /** An input left out, as in `IF(A1,,2)`. */
  | { readonly _tag: "Missing" }

type Token =
  | { readonly _tag: "Value"; readonly expression: Expression }
  | { readonly _tag: "Name"; readonly name: string }
  | { readonly _tag: "Mark"; readonly mark: string }

/** Excel's own limit, and how deep and long a tree may be that is walked by recursion. */
const maxLength = 8192
const maxTokens = 2000
const maxDepth = 64

const sheetName = /(?:'((?:[^']|'')+)'|([A-Za-z_\u0080-\uffff][\w.\u0080-\uffff]*))!/y
const range =
  /(\$?)([A-Za-z]{1,3})(\$?)(\d{1,7})(?::(\$?)([A-Za-z]{1,3})(\$?)(\d{1,7}))?(?![\w.(\u0080-\uffff])|(\$?)([A-Za-z]{1,3}):(\$?)([A-Za-z]{1,3})(?![\w.(\u0080-\uffff])|(\$?)(\d{1,7}):(\$?)(\d{1,7})(?![\w.])/y
const number = /(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?/y
const text = /"((?:[^"]|"")*)"/y
const error = /#(?:NULL!|DIV\/0!|VALUE!|REF!|NAME\?|NUM!|N\/A)/iy
const name = /[A-Za-z_\\\u0080-\uffff][\w.\\\u0080-\uffff]*/y
const mark = /<>|<=|>=|[-+*/^&=<>%(),;{}]/y

const corners = (match: RegExpExecArray): readonly [Corner, Corner] => {
  const corner = (
    columnFixed: string | undefined,
    column: string | undefined,
    rowFixed: string | undefined,
    row: string | undefined,
    otherwise: { readonly row: number; readonly column: number }
  ): Corner => ({
    row: row === undefined ? otherwise.row : Number(row),
    column: column === undefined ? otherwise.column : CellRange.columnNumber(column),
    // The ends of a whole row or column stay where they are.
    rowFixed: row === undefined || rowFixed === "$",
    columnFixed: column === undefined || columnFixed === "$"
  })
  const start = { row: 1, column: 1 }
  const end = { row: CellRange.maxRows, column: CellRange.maxColumns }
  if (match[2] !== undefined) {
    const from = corner(match[1], match[2], match[3], match[4], start)
    return [from, match[6] === undefined ? from : corner(match[5], match[6], match[7], match[8], end)]
  }
  return match[10] !== undefined
    ? [
        corner(match[9], match[10], undefined, undefined, start),
        corner(match[11], match[12], undefined, undefined, end)
      ]
    : [
        corner(undefined, undefined, match[13], match[14], start),
        corner(undefined, undefined, match[15], match[16], end)
      ]
}

const literal = (value: number | string | boolean): Token => ({
  _tag: "Value",
  expression: { _tag: "Literal", value }
})

const tokenize = (source: string): ReadonlyArray<Token> | undefined => {
  const tokens: Array<Token> = []
  let i = 0
  const match = (pattern: RegExp): RegExpExecArray | undefined => {
    pattern.lastIndex = i
    const found = pattern.exec(source)
    if (found === null) return undefined
    i += found[0].length
    return found
  }
  while (i < source.length) {
    if (/\s/.test(source[i] ?? "")) {
      i++
      continue
    }
    const start = i
    const sheet = match(sheetName)
    const reference = match(range)
    if (reference !== undefined) {
      const [from, to] = corners(reference)
      const inside = [from, to].every(
        ({ column, row }) => row >= 1 && row <= CellRange.maxRows && column <= CellRange.maxColumns
      )
      if (!inside) return undefined
      const owner = sheet?.[1]?.replaceAll("''", "'") ?? sheet?.[2]
      const expression: Expression = { _tag: "Reference", sheet: owner, from, to, text: source.slice(start, i) }
      tokens.push({ _tag: "Value", expression })
      continue
    }
    if (sheet !== undefined) return undefined
    const digits = match(number)
    if (digits !== undefined) {
      tokens.push(literal(Number(digits[0])))
      continue
    }
    const quoted = match(text)
    if (quoted !== undefined) {
      tokens.push(literal((quoted[1] ?? "").replaceAll('""', '"')))
      continue
    }
    const code = match(error)
    if (code !== undefined) {
      tokens.push({ _tag: "Value", expression: { _tag: "Error", code: code[0].toUpperCase() } })
      continue
    }
    const word = match(name)
    if (word !== undefined) {
      tokens.push({ _tag: "Name", name: word[0].toUpperCase().replace(/^(_XLFN\.|_XLWS\.)+/, "") })
      continue
    }
    const sign = match(mark)
    if (sign === undefined) return undefined
    tokens.push({ _tag: "Mark", mark: sign[0] })
  }
  return tokens
}

const levels: Record<string, number> = {
  "=": 1,
  "<>": 1,
  "<": 1,
  ">": 1,
  "<=": 1,
  ">=": 1,
  "&": 2,
  "+": 3,
  "-": 3,
  "*": 4,
  "/": 4,
  "^": 5
}

const isBinary = (sign: string): sign is BinaryOperator => Object.hasOwn(levels, sign)

/** Above `^`: -2^2 is 4 in a spreadsheet. */
const unaryLevel = 6

/** `undefined` where a formula makes no sense; an application would not have taken it. */
const build = (tokens: ReadonlyArray<Token>): Expression | undefined => {
  let at = 0
  const sign = (): string | undefined => {
    const token = tokens[at]
    return token?._tag === "Mark" ? token.mark : undefined
  }
  const take = (wanted: string): boolean => {
    if (sign() !== wanted) return false
    at++
    return true
  }

  const inputs = (depth: number): ReadonlyArray<Expression> | undefined => {
    if (take(")")) return []
    const found: Array<Expression> = []
    for (;;) {
      if (sign() === "," || sign() === ")") {
        found.push({ _tag: "Missing" })
      } else {
        const input = expression(1, depth + 1)
        if (input === undefined) return undefined
        found.push(input)
      }
      if (take(")")) return found
      if (!take(",")) return undefined
    }
  }

  const array = (depth: number): Expression | undefined => {
    const rows: Array<Array<Expression>> = [[]]
    for (;;) {
      const item = expression(1, depth + 1)
      if (item === undefined) return undefined
      rows[rows.length - 1]?.push(item)
      if (take("}")) return { _tag: "Rows", rows }
      if (take(";")) rows.push([])
      else if (!take(",")) return undefined
    }
  }

  const primary = (depth: number): Expression | undefined => {
    const token = tokens[at++]
    if (token === undefined) return undefined
    if (token._tag === "Value") return token.expression
    if (token._tag === "Name") {
      if (take("(")) {
        const given = inputs(depth)
        return given === undefined ? undefined : { _tag: "Call", name: token.name, inputs: given }
      }
      if (token.name === "TRUE" || token.name === "FALSE") return { _tag: "Literal", value: token.name === "TRUE" }
      return { _tag: "Call", name: `the name ${token.name}`, inputs: [] }
    }
    if (token.mark === "(") {
      const inner = expression(1, depth + 1)
      return inner !== undefined && take(")") ? inner : undefined
    }
    if (token.mark === "{") return array(depth)
    if (token.mark === "+" || token.mark === "-") {
      const operand = expression(unaryLevel, depth + 1)
      return operand === undefined ? undefined : { _tag: "Unary", operator: token.mark, operand }
    }
    return undefined
  }

  const expression = (level: number, depth: number): Expression | undefined => {
    if (depth > maxDepth) return undefined
    let left = primary(depth)
    while (left !== undefined) {
      const operator = sign()
      if (operator === undefined) return left
      if (operator === "%") {
        at++
        left = { _tag: "Unary", operator: "%", operand: left }
      } else {
        const own = levels[operator]
        if (!isBinary(operator) || own === undefined || own < level) return left
        at++
        const right = expression(own + 1, depth + 1)
        left = right === undefined ? undefined : { _tag: "Binary", operator, left, right }
      }
    }
    return undefined
  }

  if (tokens.length > maxTokens) return undefined
  const whole = expression(1, 0)
  return at === tokens.length ? whole : undefined
}

export const parse = (source: string): Either.Either<Expression, string> => {
  if (source.length > maxLength) return Either.left("a formula is longer than 8192 characters")
  const tokens = tokenize(source.replace(/^=/, ""))
  return Either.fromNullable(
    tokens === undefined ? undefined : build(tokens),
    () => `the formula ${JSON.stringify(source)} makes no sense`
  )
}

const partsOf = (expression: Expression): ReadonlyArray<Expression> => {
  switch (expression._tag) {
    case "Call":
      return expression.inputs
    case "Unary":
      return [expression.operand]
    case "Binary":
      return [expression.left, expression.right]
    case "Rows":
      return expression.rows.flat()
    case "Reference":
    case "Literal":
    case "Error":
    case "Missing":
      return []
  }
}

/** The references of a formula, each text once, in the order in which they occur. */
export const referencesOf = (expression: Expression): ReadonlyArray<Reference> => {
  const found = new Map<string, Reference>()
  const walk = (each: Expression): void => {
    if (each._tag === "Reference" && !found.has(each.text)) found.set(each.text, each)
    for (const part of partsOf(each)) walk(part)
  }
  walk(expression)
  return [...found.values()]
}
