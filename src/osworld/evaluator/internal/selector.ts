/**
 * A subset of CSS selectors over XML: names with a namespace prefix (`ns|name`), `*`, `#id`, attributes
 * (`[name]`, `=`, `~=`, `|=`, `^=`, `$=`, `*=`, prefix `attr|id` too), the combinators descendant, `>`, `+` and `~`, and
 * lists. Prefixes are the document's own: the URIs behind them have changed between versions of the guest.
 */
import * as Either from "effect/Either"
import { type Element, elements, isElement } from "./xml.js"

type Test = (element: Element) => boolean

type Combinator = " " | ">" | "+" | "~"

interface Compound {
  readonly combinator: Combinator
  readonly tests: ReadonlyArray<Test>
}

export interface Selector {
  readonly text: string
  readonly alternatives: ReadonlyArray<ReadonlyArray<Compound>>
}

const operators: Record<string, (found: string, wanted: string) => boolean> = {
  "=": (found, wanted) => found === wanted,
  "~=": (found, wanted) => found.split(/\s+/).includes(wanted),
  "|=": (found, wanted) => found === wanted || found.startsWith(`${wanted}-`),
  "^=": (found, wanted) => wanted !== "" && found.startsWith(wanted),
  "$=": (found, wanted) => wanted !== "" && found.endsWith(wanted),
  "*=": (found, wanted) => wanted !== "" && found.includes(wanted)
}

const splitName = (text: string): { readonly prefix: string | undefined; readonly local: string } => {
  const bar = text.indexOf("|")
  return bar < 0 ? { prefix: undefined, local: text } : { prefix: text.slice(0, bar), local: text.slice(bar + 1) }
}

const nameTest = (text: string): Test => {
  const { local, prefix } = splitName(text)
  return (element) =>
    (local === "*" || element.localName === local) &&
    (prefix === undefined || prefix === "*" || (element.prefix ?? "") === prefix)
}

const attributeTest = (text: string, operator: string | undefined, wanted: string): Test => {
  const { local, prefix } = splitName(text)
  const compare = operator === undefined ? () => true : operators[operator]
  return (element) => {
    for (const attribute of element.attributes) {
      const own = attribute.prefix ?? ""
      const named = attribute.localName === local && (prefix === "*" || own === (prefix ?? ""))
      if (named && compare?.(attribute.value, wanted)) return true
    }
    return false
  }
}

const identifier = "(?:[\\w-]|[^\\x00-\\x7f]|\\\\.)+"
const compound = new RegExp(`^(?:(?:${identifier}|\\*)?\\|)?(?:${identifier}|\\*)`)
const hash = new RegExp(`^#(${identifier})`)
const attributePattern = new RegExp(
  `^\\[\\s*((?:(?:${identifier}|\\*)?\\|(?!=))?${identifier})\\s*` +
    `(?:([~|^$*]?=)\\s*(?:"((?:[^"\\\\]|\\\\[\\s\\S])*)"|'((?:[^'\\\\]|\\\\[\\s\\S])*)'|(${identifier}))\\s*)?\\]`
)
const combinatorPattern = /^\s*([>+~,])\s*|^\s+/

const unescape = (text: string): string =>
  text.replace(/\\(?:([0-9a-fA-F]{1,6})\s?|([\s\S]))/g, (_, hex: string | undefined, char: string | undefined) =>
    hex === undefined ? (char ?? "") : String.fromCodePoint(Number.parseInt(hex, 16))
  )

/** One simple selector at the start of `rest`. */
const readTest = (rest: string, first: boolean): { readonly test: Test; readonly length: number } | undefined => {
  const name = first ? compound.exec(rest) : null
  if (name !== null) return { test: nameTest(unescape(name[0])), length: name[0].length }
  const id = hash.exec(rest)
  if (id !== null) return { test: attributeTest("id", "=", unescape(id[1] ?? "")), length: id[0].length }
  const attribute = attributePattern.exec(rest)
  if (attribute === null) return undefined
  const [whole, attributeName = "", operator, double, single, bare] = attribute
  const wanted = unescape(double ?? single ?? bare ?? "")
  return { test: attributeTest(unescape(attributeName), operator, wanted), length: whole.length }
}

/** Pseudo-classes and whatever else is not listed above are refused, with the place. */
export const parse = (text: string): Either.Either<Selector, string> => {
  const refused = (rest: string) =>
    Either.left(`the selector ${JSON.stringify(text)} is not supported at ${JSON.stringify(rest)}`)
  const alternatives: Array<Array<Compound>> = []
  let current: Array<Compound> = []
  let combinator: Combinator = " "
  let rest = text.trim()
  while (true) {
    const tests: Array<Test> = []
    for (let next = readTest(rest, true); next !== undefined; next = readTest(rest, false)) {
      tests.push(next.test)
      rest = rest.slice(next.length)
    }
    if (tests.length === 0) return refused(rest)
    current.push({ combinator, tests })
    if (rest === "") break
    const between = combinatorPattern.exec(rest)
    if (between === null) return refused(rest)
    rest = rest.slice(between[0].length)
    const sign = between[1]
    if (sign === ",") {
      alternatives.push(current)
      current = []
      combinator = " "
    } else combinator = sign === ">" || sign === "+" || sign === "~" ? sign : " "
  }
  alternatives.push(current)
  return Either.right({ text, alternatives })
}

const parentOf = (element: Element): Element | undefined =>
  element.parentNode !== null && isElement(element.parentNode) ? element.parentNode : undefined

const previousOf = (element: Element): Element | undefined => {
  let node = element.previousSibling
  while (node !== null && !isElement(node)) node = node.previousSibling
  return node ?? undefined
}

/** From right to left, as browsers do; the combinator says where the compound before it has to be. */
const matchesChain = (element: Element, chain: ReadonlyArray<Compound>, index: number): boolean => {
  const part = chain[index]
  if (part === undefined || !part.tests.every((test) => test(element))) return false
  if (index === 0) return true
  const step = part.combinator === " " || part.combinator === ">" ? parentOf : previousOf
  const far = part.combinator === " " || part.combinator === "~"
  for (let at = step(element); at !== undefined; at = far ? step(at) : undefined) {
    if (matchesChain(at, chain, index - 1)) return true
  }
  return false
}

/** All elements that match, the root included, in document order. */
export const select = (root: Element, selectors: ReadonlyArray<Selector>): ReadonlyArray<Element> => {
  const chains = selectors.flatMap(({ alternatives }) => alternatives)
  const found: Array<Element> = []
  const pending: Array<Element> = [root]
  for (let element = pending.pop(); element !== undefined; element = pending.pop()) {
    const candidate = element
    if (chains.some((chain) => matchesChain(candidate, chain, chain.length - 1))) found.push(candidate)
    pending.push(...elements(candidate).reverse())
  }
  return found
}
