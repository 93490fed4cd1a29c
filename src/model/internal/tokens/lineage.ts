/**
 * Which call came out of which: a call continues the one whose prompt and reply together begin its prompt.
 */
import type { TokenEntry } from "../../TokenEntry.js"
import { makeTrie } from "./trie.js"

/**
 * - `kept`: it may be on a chain
 * - `ambiguous_parent`: several calls end in the same tokens, and it may continue any of them
 * - `superseded_retry`: a call with the same prompt was kept in its stead
 * - `below_quarantined`: what it continues is quarantined
 */
export type Fate = "kept" | "ambiguous_parent" | "superseded_retry" | "below_quarantined"

export interface Call {
  readonly entry: TokenEntry
  /** One; none for a root; several where they cannot be told apart. */
  readonly parents: ReadonlyArray<Call>
  readonly children: ReadonlyArray<Call>
  readonly fate: Fate
}

export interface Lineage {
  /** Calls that generated something, the shorter prompts first, then by call id. */
  readonly calls: ReadonlyArray<Call>
  /** Calls with the same prompt of which no other call says which was gone on with. */
  readonly unresolvedRetries: number
}

interface Growing extends Call {
  parents: ReadonlyArray<Growing>
  readonly children: Array<Growing>
  fate: Fate
}

const textOrder = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0)

/** Whatever the order of the entries, the same comes out. None of them may have generated nothing. */
export const lineageOf = (entries: ReadonlyArray<TokenEntry>): Lineage => {
  const calls = entries
    .map((entry): Growing => ({ entry, parents: [], children: [], fate: "kept" }))
    .sort(
      (a, b) =>
        a.entry.promptTokenIds.length - b.entry.promptTokenIds.length ||
        textOrder(a.entry.modelCallId, b.entry.modelCallId)
    )
  const whole = makeTrie<Growing>()
  const prompts = makeTrie<Growing>()
  for (const call of calls) {
    whole.insert(call.entry, call)
    prompts.insert({ promptTokenIds: call.entry.promptTokenIds, generationTokenIds: [] }, call)
  }
  for (const call of calls) {
    // A call's own whole is longer than its prompt, so it never finds itself.
    call.parents = whole.longestPrefix(call.entry.promptTokenIds)
    for (const parent of call.parents) parent.children.push(call)
    if (call.parents.length > 1) call.fate = "ambiguous_parent"
  }
  let unresolvedRetries = 0
  // Where a prompt is in the trie, the longest sequence that begins it is it; its calls come in order of their ids.
  for (const siblings of new Set(calls.map((call) => prompts.longestPrefix(call.entry.promptTokenIds)))) {
    if (siblings.length < 2 || siblings.some(({ fate }) => fate === "ambiguous_parent")) continue
    const extended = siblings.filter(({ children }) => children.some(({ fate }) => fate !== "ambiguous_parent"))
    if (extended.length === 0) unresolvedRetries += siblings.length
    const keep = new Set(extended.length === 0 ? siblings.slice(0, 1) : extended)
    for (const sibling of siblings) if (!keep.has(sibling)) sibling.fate = "superseded_retry"
  }
  for (const call of calls) {
    // Parents have shorter prompts, so theirs is decided.
    if (call.fate === "kept" && call.parents.some(({ fate }) => fate !== "kept")) call.fate = "below_quarantined"
  }
  return { calls, unresolvedRetries }
}

/**
 * The ways from a root to a leaf on which nothing is quarantined. A call whose continuations are all quarantined is no
 * leaf. The chain of the earliest root comes first.
 */
export const chainsOf = ({ calls }: Lineage): ReadonlyArray<ReadonlyArray<TokenEntry>> => {
  const chains: Array<ReadonlyArray<TokenEntry>> = []
  for (const root of calls) {
    if (root.fate !== "kept" || root.parents.length > 0) continue
    const path: Array<TokenEntry> = []
    // A rollout may have thousands of calls in a row, too many for recursion.
    const open: Array<{ readonly call: Call; readonly depth: number }> = [{ call: root, depth: 0 }]
    for (let at = open.pop(); at !== undefined; at = open.pop()) {
      path.length = at.depth
      path.push(at.call.entry)
      const depth = path.length
      if (at.call.children.length === 0) chains.push([...path])
      for (const child of at.call.children) if (child.fate === "kept") open.push({ call: child, depth })
    }
  }
  return chains.sort((a, b) => earlier(a[0], b[0]) || earlier(a.at(-1), b.at(-1)))
}

const earlier = (a: TokenEntry | undefined, b: TokenEntry | undefined): number =>
  a === undefined || b === undefined ? 0 : a.createdAt - b.createdAt || textOrder(a.modelCallId, b.modelCallId)
