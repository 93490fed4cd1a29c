/**
 * Interprets formulas over the cached values of a sheet: what conditional formats need. Work is counted, because an
 * agent wrote the formulas and the cells.
 */
import type { BinaryOperator, Expression } from "./formula.js"
import { functions } from "./functions.js"
import { isFixed, readRange, type Scope, spend, target, Undecidable } from "./scope.js"
import * as V from "./values.js"

const compared: Record<"=" | "<>" | "<" | ">" | "<=" | ">=", (order: number) => boolean> = {
  "=": (order) => order === 0,
  "<>": (order) => order !== 0,
  "<": (order) => order < 0,
  ">": (order) => order > 0,
  "<=": (order) => order <= 0,
  ">=": (order) => order >= 0
}

const isComparison = (operator: BinaryOperator): operator is keyof typeof compared => Object.hasOwn(compared, operator)

const arithmetic = (operator: "+" | "-" | "*" | "/" | "^", a: number, b: number): V.Scalar => {
  switch (operator) {
    case "+":
      return V.finite(a + b)
    case "-":
      return V.finite(a - b)
    case "*":
      return V.finite(a * b)
    case "/":
      return b === 0 ? V.error("#DIV/0!") : V.finite(a / b)
    case "^":
      return V.finite(a ** b)
  }
}

const combine = (operator: BinaryOperator, a: V.Scalar, b: V.Scalar): V.Scalar => {
  if (V.isError(a)) return a
  if (V.isError(b)) return b
  if (isComparison(operator)) return compared[operator](V.order(a, b))
  if (operator === "&") return V.joined([V.toText(a), V.toText(b)])
  const left = V.toNumber(a)
  const right = V.toNumber(b)
  if (V.isError(left)) return left
  return V.isError(right) ? right : arithmetic(operator, left, right)
}

const unary = (operator: "+" | "-" | "%", value: V.Scalar): V.Scalar => {
  if (operator === "+" || V.isError(value)) return value
  const number = V.toNumber(value)
  return V.isError(number) ? number : operator === "-" ? -number : number / 100
}

export const evaluate = (expression: Expression, scope: Scope): V.Value => {
  spend(scope, 1)
  switch (expression._tag) {
    case "Literal":
      return expression.value
    case "Error":
      return V.error(expression.code)
    case "Missing":
      return null
    case "Reference": {
      const bound = scope.bound?.get(expression.text)
      if (bound !== undefined) return bound
      const found = target(expression, scope)
      return found === undefined ? V.error("#REF!") : readRange(found.sheet, found.range, scope, isFixed(expression))
    }
    case "Unary":
      return V.map(evaluate(expression.operand, scope), (value) => unary(expression.operator, value))
    case "Binary": {
      const left = evaluate(expression.left, scope)
      const right = evaluate(expression.right, scope)
      spend(scope, V.weight(left) + V.weight(right))
      return V.zip(left, right, (a, b) => combine(expression.operator, a, b))
    }
    case "Rows":
      return V.matrix(expression.rows.map((row) => row.map((item) => V.first(evaluate(item, scope)))))
    case "Call": {
      const known = functions.get(expression.name)
      if (known === undefined) throw new Undecidable(`not supported in a conditional format: ${expression.name}`)
      return known(expression.inputs, { scope, evaluate: (input) => evaluate(input, scope) })
    }
  }
}
