/**
 * `check_accessibility_tree`: what the desktop shows, by its accessibility tree.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as ParseResult from "effect/ParseResult"
import * as Schema from "effect/Schema"
import * as Selector from "./internal/selector.js"
import * as Xml from "./internal/xml.js"
import * as XPath from "./internal/xpath.js"
import { type Metric, make, type Reader as ReaderType, type Score, Unusable } from "./Metric.js"
import * as Reader from "./Reader.js"
import { indelSimilarity } from "./Similarity.js"

const parsedBy = <A extends { readonly text: string }>(parse: (text: string) => Either.Either<A, string>) =>
  Schema.transformOrFail(
    Schema.String,
    Schema.declare((value: unknown): value is A => typeof value === "object" && value !== null),
    {
      strict: true,
      decode: (text, _, ast) => Either.mapLeft(parse(text), (reason) => new ParseResult.Type(ast, text, reason)),
      encode: ({ text }) => Either.right(text)
    }
  )

const common = {
  /** What an element's own text has to be. */
  text: Schema.optionalWith(Schema.String, { exact: true }),
  /** Equal, or as similar as possible. */
  exact: Schema.optionalWith(Schema.Boolean, { default: () => true, nullable: true })
}

/** Alternatives: elements that match any of them are looked at. */
const SelectorRule = Schema.Struct({ selectors: Schema.NonEmptyArray(parsedBy(Selector.parse)), ...common })

/** One that has both goes by its selectors, as upstream has it, also where those cannot be read. */
const XPathRule = Schema.Struct({
  selectors: Schema.optional(Schema.Undefined),
  xpath: parsedBy(XPath.parse),
  ...common
})

const TreeRule = Schema.Union(SelectorRule, XPathRule)

/** The tree comes from the guest's accessibility bus and not from the agent: a broken one judges nobody. */
const tree: ReaderType<Xml.Element> = (value) =>
  Effect.flatMap(Reader.text(value), (text) =>
    Either.mapLeft(Xml.parse(text), (reason) => new Unusable({ kind: "Undecidable", reason }))
  )

/** The text before the first child element. */
const ownText = (element: Xml.Element): string => {
  let text = ""
  for (let node = element.firstChild; node !== null && !Xml.isElement(node); node = node.nextSibling) {
    if (node.nodeType === 3 || node.nodeType === 4) text += node.nodeValue ?? ""
  }
  return text
}

const found = (root: Xml.Element, rule: typeof TreeRule.Type): Either.Either<ReadonlyArray<Xml.Element>, string> =>
  "xpath" in rule ? rule.xpath.select(root) : Either.right(Selector.select(root, rule.selectors))

const scoreRule = (root: Xml.Element, rule: typeof TreeRule.Type): Score =>
  Either.map(found(root, rule), (elements) => {
    const { exact, text } = rule
    if (text === undefined) return elements.length > 0 ? 1 : 0
    return elements.reduce((best, element) => {
      const own = ownText(element)
      return Math.max(best, exact ? Number(own === text) : indelSimilarity(own, text))
    }, 0)
  })

const rules = Reader.json(Schema.NonEmptyArray(TreeRule))

/**
 * Each rule scores its best element (1 for being there, or how well its text fits), and the product is the score.
 *
 * @since 0.1.0
 * @category metrics
 */
export const checkAccessibilityTree: Metric = make({
  name: "check_accessibility_tree",
  result: tree,
  expected: rules,
  options: Schema.Struct({}),
  score: (root, list) =>
    Either.map(Either.all(list.map((rule) => scoreRule(root, rule))), (scores) =>
      scores.reduce((product, score) => product * score, 1)
    )
})

/**
 * The metrics of this module, for the registry.
 *
 * @since 0.1.0
 * @category registry
 */
export const metrics: ReadonlyArray<Metric> = [checkAccessibilityTree]
