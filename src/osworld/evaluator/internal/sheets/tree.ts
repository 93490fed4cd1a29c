/** Small parts of a workbook as trees: the scanner's events, kept. */
import * as Either from "effect/Either"
import { type Handlers, Malformed, scan } from "./scan.js"

export interface Node {
  readonly name: string
  readonly attributes: ReadonlyMap<string, string>
  readonly children: ReadonlyArray<Node>
  /** Text directly inside. */
  readonly text: string
}

/** How many elements all trees of one workbook may have: some 150 MB. */
export const maxNodes = 400_000

export interface Budget {
  nodes: number
}

interface Growing {
  readonly name: string
  readonly attributes: ReadonlyMap<string, string>
  readonly children: Array<Growing>
  text: string
}

/** Handlers that grow a tree; what is inside an element of `skip` stays out. */
export const builder = (
  budget: Budget,
  skip: ReadonlySet<string> = new Set()
): { readonly handlers: Handlers; readonly root: () => Node | undefined } => {
  const stack: Array<Growing> = []
  let root: Growing | undefined
  let skipped = 0
  return {
    root: () => root,
    handlers: {
      open: (name, attributes) => {
        if (skipped > 0 || skip.has(name)) {
          skipped++
          return
        }
        if (--budget.nodes < 0) {
          throw new Malformed(`the workbook has more than ${maxNodes} elements beside its cells`, "Undecidable")
        }
        const node: Growing = { name, attributes: attributes.copy(), children: [], text: "" }
        const parent = stack[stack.length - 1]
        if (parent === undefined) root ??= node
        else parent.children.push(node)
        stack.push(node)
      },
      close: () => {
        if (skipped > 0) skipped--
        else stack.pop()
      },
      text: (text) => {
        const node = stack[stack.length - 1]
        if (skipped === 0 && node !== undefined) node.text += text
      }
    }
  }
}

export const parse = (text: string, budget: Budget, skip?: ReadonlySet<string>): Either.Either<Node, Malformed> => {
  const { handlers, root } = builder(budget, skip)
  return Either.flatMap(scan(text, handlers), () =>
    Either.fromNullable(root(), () => new Malformed("an empty XML document"))
  )
}

export const children = (node: Node | undefined, name: string): ReadonlyArray<Node> =>
  node === undefined ? [] : node.children.filter((child) => child.name === name)

export const child = (node: Node | undefined, ...path: ReadonlyArray<string>): Node | undefined => {
  let at = node
  for (const name of path) at = at?.children.find((each) => each.name === name)
  return at
}

export const attribute = (node: Node | undefined, name: string): string | undefined => node?.attributes.get(name)

/** `val` of a child: the usual way in which OOXML says a property. */
export const value = (node: Node | undefined, name: string): string | undefined => attribute(child(node, name), "val")

/** The relationship that an element names, whatever the prefix is bound to. */
export const relationId = (node: Node): string | undefined => {
  for (const [name, id] of node.attributes) if (name.endsWith(":id")) return id
  return undefined
}

/** xsd:boolean. */
export const isTrue = (text: string | undefined): boolean => text === "1" || text === "true"

/** An attribute that is a truth value. */
export const flag = (node: Node | undefined, name: string, otherwise = false): boolean => {
  const text = attribute(node, name)
  return text === undefined ? otherwise : isTrue(text)
}

export const number = (text: string | undefined): number | null => {
  const value = text === undefined || text.trim() === "" ? Number.NaN : Number(text)
  return Number.isFinite(value) ? value : null
}

/** All elements of a name below `node`, in document order. */
export const descendants = (node: Node | undefined, name: string): ReadonlyArray<Node> => {
  const found: Array<Node> = []
  const walk = (at: Node) => {
    for (const each of at.children) {
      if (each.name === name) found.push(each)
      walk(each)
    }
  }
  if (node !== undefined) walk(node)
  return found
}
