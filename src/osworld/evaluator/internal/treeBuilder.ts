/** How `xmlTree` makes trees: with few objects, because those of a large document live until it is judged. */
import type { Tree } from "./xmlTree.js"

/**
 * The last element of each name as it was written. Programs write the same ones over and over, and where the same text
 * comes again so does the same tree, which is then neither read nor kept twice.
 */
export interface Seen {
  /** The name without its prefix: one string for all elements. */
  readonly local: string
  source: string
  tree: Tree | undefined
  /** What it counts against the limit of nodes. */
  nodes: number
}

/** What is known of the parts of one document: it keeps their text. */
export class Repeated {
  /** By the name as it is written. */
  readonly seen = new Map<string, Seen>()
  /** Of all parts that were read; what comes again counts each time. */
  nodes = 0
}

/** Longer ones are not compared, or nested ones of nearly the same text would be compared at each of their levels. */
const maxSource = 1_000

/** `<a></a>`: no level takes less. */
const levelLength = 7

/** Of most elements. */
const childless: ReadonlyArray<Tree | string> = []

/**
 * Elements that are open, and below them the finished children of each: one list for all, from which an element takes
 * its own when it ends. A list that grows with each element would be far larger than what it holds.
 */
export class Builder {
  private readonly finished: Array<Tree | string> = []
  private count = 0
  // By depth: what is known of the name, name and attributes as they are written, where the element and its children
  // start, and how many nodes there were before it.
  private readonly seen: Array<Seen> = []
  private readonly tags: Array<string> = []
  private readonly written: Array<string> = []
  private readonly places: Array<number> = []
  private readonly starts: Array<number> = []
  private readonly counts: Array<number> = []
  depth = 0
  nodes = 0

  constructor(
    private readonly text: string,
    private readonly repeated: Repeated,
    readonly maxDepth: number
  ) {}

  /** The written name of the innermost element. */
  tag(): string | undefined {
    return this.depth === 0 ? undefined : this.tags[this.depth - 1]
  }

  add(node: Tree | string): void {
    this.finished[this.count++] = node
  }

  /** Adds the element at `at` where it is written as the last one of its name, and answers where it ends; or -1. */
  repeat(tag: string, at: number): number {
    const seen = this.depth === 0 ? undefined : this.repeated.seen.get(tag)
    if (seen?.tree === undefined) return -1
    const end = at + seen.source.length
    // Not `startsWith`, which V8 makes a loop over characters.
    if (this.text.slice(at, end) !== seen.source) return -1
    if (this.depth + seen.source.length / levelLength >= this.maxDepth) return -1
    this.add(seen.tree)
    // The caller has counted the first.
    this.nodes += seen.nodes - 1
    return end
  }

  open(tag: string, written: string, at: number): void {
    const { depth } = this
    this.seen[depth] = this.named(tag)
    this.tags[depth] = tag
    this.written[depth] = written
    this.places[depth] = at
    this.counts[depth] = this.nodes - 1
    this.starts[depth] = this.count
    this.depth = depth + 1
  }

  /** The innermost element, which ends before `end`. */
  close(end: number): void {
    const depth = --this.depth
    const seen = this.seen[depth]
    if (seen === undefined) return
    const start = this.starts[depth] ?? 0
    const children = start === this.count ? childless : this.finished.slice(start, this.count)
    this.count = start
    const tree = { name: seen.local, written: this.written[depth] ?? "", children }
    this.add(tree)
    this.remember(seen, tree, this.places[depth] ?? 0, end, this.nodes - (this.counts[depth] ?? 0))
  }

  /** An element that closes itself. */
  empty(tag: string, written: string, at: number, end: number): void {
    const seen = this.named(tag)
    const tree = { name: seen.local, written, children: childless }
    this.add(tree)
    this.remember(seen, tree, at, end, 1)
  }

  /** Whether an element was opened at all. */
  get hasRoot(): boolean {
    return this.depth > 0 || this.count > 0
  }

  /** Once all are closed. */
  root(): Tree | undefined {
    this.repeated.nodes += this.nodes
    const root = this.count === 0 ? undefined : this.finished[0]
    return typeof root === "string" ? undefined : root
  }

  private remember(seen: Seen, tree: Tree, at: number, end: number, nodes: number): void {
    if (end - at > maxSource) return
    seen.source = this.text.slice(at, end)
    seen.tree = tree
    seen.nodes = nodes
  }

  private named(tag: string): Seen {
    const known = this.repeated.seen.get(tag)
    if (known !== undefined) return known
    const seen: Seen = { local: tag.slice(tag.indexOf(":") + 1), source: "", tree: undefined, nodes: 0 }
    this.repeated.seen.set(tag, seen)
    return seen
  }
}
