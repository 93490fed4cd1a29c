/** The functions that conditional formats use. What is not here is not guessed at. */
import type { Expression } from "./formula.js"
import { dateFunctions, textFunctions } from "./scalarFunctions.js"
import { type Scope, spend, target } from "./scope.js"
import * as V from "./values.js"

type Inputs = ReadonlyArray<Expression>

export interface Run {
  readonly scope: Scope
  readonly evaluate: (input: Expression) => V.Value
}

export type Implementation = (inputs: Inputs, run: Run) => V.Value

const missing: Expression = { _tag: "Missing" }

const value = (inputs: Inputs, i: number, { evaluate }: Run): V.Value => evaluate(inputs[i] ?? missing)

const isRange = (input: Expression, found: V.Value): boolean => V.isMatrix(found) || input._tag === "Reference"

interface Numbers {
  readonly all: ReadonlyArray<number>
  readonly failed: V.FormulaError | undefined
}

/** Text and truth values in ranges are no numbers; typed in, they are. */
const numbers = (inputs: Inputs, run: Run): Numbers => {
  const all: Array<number> = []
  for (const input of inputs) {
    const found = run.evaluate(input)
    spend(run.scope, V.weight(found))
    const inRange = isRange(input, found)
    for (const each of V.flat(found)) {
      if (V.isError(each)) return { all, failed: each }
      if (typeof each === "number") all.push(each)
      else if (!inRange) {
        const number = V.toNumber(each)
        if (V.isError(number)) return { all, failed: number }
        all.push(number)
      }
    }
  }
  return { all, failed: undefined }
}

const overNumbers =
  (f: (all: ReadonlyArray<number>) => V.Scalar): Implementation =>
  (inputs, run) => {
    const { all, failed } = numbers(inputs, run)
    return failed ?? f(all)
  }

const sum = (all: ReadonlyArray<number>): number => all.reduce((total, each) => total + each, 0)

const mean = (all: ReadonlyArray<number>): V.Scalar => (all.length === 0 ? V.error("#DIV/0!") : sum(all) / all.length)

const deviation =
  (rest: 0 | 1) =>
  (all: ReadonlyArray<number>): V.Scalar => {
    if (all.length <= rest) return V.error("#DIV/0!")
    const center = sum(all) / all.length
    return Math.sqrt(sum(all.map((each) => (each - center) ** 2)) / (all.length - rest))
  }

const sorted = (all: ReadonlyArray<number>): ReadonlyArray<number> => [...all].sort((a, b) => a - b)

/** Between two neighbours as far as the share says. */
const quantile = (all: ReadonlyArray<number>, share: number): V.Scalar => {
  const ordered = sorted(all)
  if (ordered.length === 0 || !(share >= 0 && share <= 1)) return V.error("#NUM!")
  const place = share * (ordered.length - 1)
  const low = ordered[Math.floor(place)] ?? 0
  return low + ((ordered[Math.ceil(place)] ?? low) - low) * (place % 1)
}

/** A range's numbers and one more number. */
const ranked =
  (f: (all: ReadonlyArray<number>, k: number) => V.Scalar): Implementation =>
  (inputs, run) => {
    const { all, failed } = numbers(inputs.slice(0, 1), run)
    const k = V.toNumber(V.first(value(inputs, 1, run)))
    return failed ?? (V.isError(k) ? k : f(all, k))
  }

const rank: Implementation = (inputs, run) => {
  const wanted = V.toNumber(V.first(value(inputs, 0, run)))
  if (V.isError(wanted)) return wanted
  const { all, failed } = numbers(inputs.slice(1, 2), run)
  if (failed !== undefined) return failed
  if (!all.includes(wanted)) return V.error("#N/A")
  const ascending = V.toTruth(V.first(value(inputs, 2, run)))
  if (V.isError(ascending)) return ascending
  return 1 + all.filter((each) => (ascending ? each < wanted : each > wanted)).length
}

const allTruths = (inputs: Inputs, run: Run): ReadonlyArray<boolean> | V.FormulaError => {
  const truths: Array<boolean> = []
  for (const input of inputs) {
    const found = run.evaluate(input)
    spend(run.scope, V.weight(found))
    for (const each of V.flat(found)) {
      if (isRange(input, found) && (each === null || typeof each === "string")) continue
      const truth = V.toTruth(each)
      if (typeof truth !== "boolean") return truth
      truths.push(truth)
    }
  }
  return truths.length === 0 ? V.error("#VALUE!") : truths
}

const overTruths =
  (f: (truths: ReadonlyArray<boolean>) => boolean): Implementation =>
  (inputs, run) => {
    const truths = allTruths(inputs, run)
    return "_tag" in truths ? truths : f(truths)
  }

const choose: Implementation = (inputs, run) => {
  const truth = V.toTruth(V.first(value(inputs, 0, run)))
  if (V.isError(truth)) return truth
  if (truth) return value(inputs, 1, run)
  return inputs.length > 2 ? value(inputs, 2, run) : false
}

const instead =
  (codes: ReadonlyArray<string> | "all"): Implementation =>
  (inputs, run) => {
    const found = value(inputs, 0, run)
    const other = V.first(value(inputs, 1, run))
    return V.map(found, (each) => (V.isError(each) && (codes === "all" || codes.includes(each.code)) ? other : each))
  }

/** A pattern may look at each character of a text for each of its own. */
const like = (text: string, pattern: string, { scope }: Run): boolean => {
  spend(scope, 1 + ((text.length * pattern.length) >> 6))
  return V.like(text, pattern)
}

/** What COUNTIF and its kind ask of a value: `">5"`, `"<>x"`, `"a*"` or a value. */
const criterion = (wanted: V.Scalar, run: Run): ((value: V.Scalar) => boolean) => {
  if (typeof wanted !== "string") return (value) => value !== null && V.order(value, wanted) === 0
  const [, operator = "=", text = ""] = /^(<>|<=|>=|=|<|>)?([\s\S]*)$/.exec(wanted) ?? []
  const number = V.toNumber(text)
  const equal = (value: V.Scalar): boolean => {
    if (typeof number === "number") return value !== null && V.toNumber(value) === number && typeof value !== "boolean"
    if (text === "") return value === null || value === ""
    return typeof value === "string" ? like(value, text, run) : typeof value === "boolean" && V.toText(value) === text
  }
  if (operator === "=") return equal
  if (operator === "<>") return (value) => !equal(value)
  const limit: V.Scalar = typeof number === "number" ? number : text
  return (value) => {
    if (value === null || typeof value !== typeof limit) return false
    const order = V.order(value, limit)
    if (order === 0) return operator.endsWith("=")
    return operator.startsWith("<") ? order < 0 : order > 0
  }
}

/** Which places of ranges of the same form meet all criteria: inputs are range, criterion, range, criterion. */
const chosen = (inputs: Inputs, run: Run): ReadonlyArray<boolean> => {
  let holds: ReadonlyArray<boolean> | undefined
  for (let i = 0; i < inputs.length; i += 2) {
    const range = V.flat(value(inputs, i, run))
    const meets = criterion(V.first(value(inputs, i + 1, run)), run)
    spend(run.scope, range.length)
    const before = holds
    holds = range.map((each, place) => (before?.[place] ?? before === undefined) && meets(each))
  }
  return holds ?? []
}

const countIf: Implementation = (inputs, run) => chosen(inputs, run).filter((holds) => holds).length

const onChosen =
  (f: (all: ReadonlyArray<number>) => V.Scalar, summedFirst: boolean): Implementation =>
  (inputs, run) => {
    const criteria = summedFirst ? inputs.slice(1) : inputs.slice(0, 2)
    const holds = chosen(criteria, run)
    const summed = V.flat(value(inputs, summedFirst || inputs.length < 3 ? 0 : 2, run))
    return f(summed.filter((each, i): each is number => holds[i] === true && typeof each === "number"))
  }

const sumProduct: Implementation = (inputs, run) => {
  const columns = inputs.map((input) => V.flat(run.evaluate(input)))
  const [one = []] = columns
  if (columns.some(({ length }) => length !== one.length)) return V.error("#VALUE!")
  spend(run.scope, one.length * columns.length)
  let total = 0
  for (let i = 0; i < one.length; i++) {
    let product = 1
    for (const column of columns) {
      const each = column[i] ?? null
      if (V.isError(each)) return each
      product *= typeof each === "number" ? each : 0
    }
    total += product
  }
  return total
}

/** Where a value is in a row or column; without order asked for, exactly. */
const findIn = (wanted: V.Scalar, line: ReadonlyArray<V.Scalar>, kind: number, run: Run): number => {
  if (kind === 0) {
    return line.findIndex((each) =>
      typeof wanted === "string" && typeof each === "string"
        ? like(each, wanted, run)
        : each !== null && !V.isError(each) && V.order(each, wanted) === 0
    )
  }
  let found = -1
  for (const [i, each] of line.entries()) {
    if (each === null || V.isError(each) || typeof each !== typeof wanted) continue
    const order = V.order(each, wanted)
    if (kind > 0 ? order <= 0 : order >= 0) found = i
    else break
  }
  return found
}

const match: Implementation = (inputs, run) => {
  const wanted = V.first(value(inputs, 0, run))
  const line = V.flat(value(inputs, 1, run))
  spend(run.scope, line.length)
  const kind = inputs.length < 3 ? 1 : V.toNumber(V.first(value(inputs, 2, run)))
  if (V.isError(kind)) return kind
  if (V.isError(wanted)) return wanted
  const place = findIn(wanted, line, kind, run)
  return place < 0 ? V.error("#N/A") : place + 1
}

const verticalLookup: Implementation = (inputs, run) => {
  const wanted = V.first(value(inputs, 0, run))
  const table = value(inputs, 1, run)
  const column = V.toNumber(V.first(value(inputs, 2, run)))
  const near = inputs.length < 4 ? true : V.toTruth(V.first(value(inputs, 3, run)))
  if (V.isError(wanted)) return wanted
  if (V.isError(column)) return column
  if (V.isError(near)) return near
  const rows = V.isMatrix(table) ? table.rows : [[V.first(table)]]
  spend(run.scope, rows.length)
  const place = findIn(
    wanted,
    rows.map((row) => row[0] ?? null),
    near ? 1 : 0,
    run
  )
  if (place < 0) return V.error("#N/A")
  const found = rows[place]?.[Math.trunc(column) - 1]
  return found === undefined ? V.error("#REF!") : found
}

const index: Implementation = (inputs, run) => {
  const table = value(inputs, 0, run)
  const rows = V.isMatrix(table) ? table.rows : [[V.first(table)]]
  const one = V.toNumber(V.first(value(inputs, 1, run)))
  const two = V.toNumber(V.first(value(inputs, 2, run)))
  if (V.isError(one)) return one
  if (V.isError(two)) return two
  const [row, column] = rows.length === 1 && inputs.length < 3 ? [1, one] : [one, two === 0 ? 1 : two]
  const found = rows[Math.trunc(row) - 1]?.[Math.trunc(column) - 1]
  return found === undefined ? V.error("#REF!") : found
}

/** ROW, COLUMN and their plurals ask for a place and not for what is there. */
const placed =
  (
    own: (scope: Scope) => number,
    of: (range: { top: number; left: number; bottom: number; right: number }) => number
  ) =>
  (inputs: Inputs, { scope }: Run): V.Value => {
    const [input] = inputs
    if (input === undefined) return own(scope)
    const found = input._tag === "Reference" ? target(input, scope) : undefined
    return found === undefined ? V.error("#VALUE!") : of(found.range)
  }

const tests: Record<string, (value: V.Scalar) => boolean> = {
  ISBLANK: (each) => each === null,
  ISNUMBER: (each) => typeof each === "number",
  ISTEXT: (each) => typeof each === "string",
  ISNONTEXT: (each) => typeof each !== "string",
  ISLOGICAL: (each) => typeof each === "boolean",
  ISERROR: (each) => V.isError(each),
  ISERR: (each) => V.isError(each) && each.code !== "#N/A",
  ISNA: (each) => V.isError(each) && each.code === "#N/A"
}

const counting =
  (counts: (each: V.Scalar) => boolean): Implementation =>
  (inputs, run) =>
    inputs.reduce((total, input) => {
      const found = run.evaluate(input)
      spend(run.scope, V.weight(found))
      return total + V.flat(found).filter(counts).length
    }, 0)

/** A function of single values, for each value where it is given many. */
const each =
  (f: (...values: ReadonlyArray<V.Scalar>) => V.Scalar): Implementation =>
  (inputs, run) => {
    const found = inputs.map((input) => run.evaluate(input))
    for (const one of found) spend(run.scope, V.weight(one))
    const widest = found.find(V.isMatrix)
    if (widest === undefined) return f(...found.map(V.first))
    return V.matrix(
      widest.rows.map((row, i) =>
        row.map((_, j) => f(...found.map((one) => (V.isMatrix(one) ? (one.rows[i]?.[j] ?? V.error("#N/A")) : one))))
      )
    )
  }

const aggregates: Record<string, Implementation> = {
  SUM: overNumbers((all) => V.finite(sum(all))),
  AVERAGE: overNumbers(mean),
  MIN: overNumbers((all) => all.reduce((low, one) => Math.min(low, one), all[0] ?? 0)),
  MAX: overNumbers((all) => all.reduce((high, one) => Math.max(high, one), all[0] ?? 0)),
  PRODUCT: overNumbers((all) => V.finite(all.reduce((product, one) => product * one, 1))),
  MEDIAN: overNumbers((all) => quantile(all, 0.5)),
  STDEV: overNumbers(deviation(1)),
  "STDEV.S": overNumbers(deviation(1)),
  STDEVP: overNumbers(deviation(0)),
  "STDEV.P": overNumbers(deviation(0)),
  LARGE: ranked((all, k) => sorted(all)[all.length - Math.trunc(k)] ?? V.error("#NUM!")),
  SMALL: ranked((all, k) => sorted(all)[Math.trunc(k) - 1] ?? V.error("#NUM!")),
  PERCENTILE: ranked(quantile),
  "PERCENTILE.INC": ranked(quantile),
  QUARTILE: ranked((all, k) => quantile(all, Math.trunc(k) / 4)),
  "QUARTILE.INC": ranked((all, k) => quantile(all, Math.trunc(k) / 4)),
  RANK: rank,
  "RANK.EQ": rank,
  COUNT: counting((one) => typeof one === "number"),
  COUNTA: counting((one) => one !== null),
  COUNTBLANK: counting((one) => one === null || one === ""),
  COUNTIF: countIf,
  COUNTIFS: countIf,
  SUMIF: onChosen((all) => V.finite(sum(all)), false),
  SUMIFS: onChosen((all) => V.finite(sum(all)), true),
  AVERAGEIF: onChosen(mean, false),
  AVERAGEIFS: onChosen(mean, true),
  SUMPRODUCT: sumProduct,
  MATCH: match,
  VLOOKUP: verticalLookup,
  INDEX: index
}

const logic: Record<string, Implementation> = {
  AND: overTruths((truths) => truths.every((truth) => truth)),
  OR: overTruths((truths) => truths.some((truth) => truth)),
  XOR: overTruths((truths) => truths.filter((truth) => truth).length % 2 === 1),
  NOT: each((one = null) => {
    const truth = V.toTruth(one)
    return V.isError(truth) ? truth : !truth
  }),
  TRUE: () => true,
  FALSE: () => false,
  IF: choose,
  IFERROR: instead("all"),
  IFNA: instead(["#N/A"]),
  NA: () => V.error("#N/A"),
  ROW: placed(
    ({ row }) => row,
    ({ top }) => top
  ),
  COLUMN: placed(
    ({ column }) => column,
    ({ left }) => left
  ),
  ROWS: placed(
    () => 1,
    ({ bottom, top }) => bottom - top + 1
  ),
  COLUMNS: placed(
    () => 1,
    ({ left, right }) => right - left + 1
  )
}

const scalars = { ...textFunctions, ...dateFunctions }

export const functions: ReadonlyMap<string, Implementation> = new Map([
  ...Object.entries(aggregates),
  ...Object.entries(logic),
  ...Object.entries(tests).map(([name, test]) => [name, each((one = null) => test(one))] as const),
  ...Object.entries(scalars).map(([name, f]) => [name, each(f)] as const)
])
