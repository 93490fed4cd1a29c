/**
 * What a history policy costs: how many images and tokens it sends over an episode, and how much of each prompt a prefix
 * cache would have. A model of prompts, not a measurement: every screenshot, turn and summary has the same size.
 *
 * @since 0.1.0
 */
import { type HistoryPlan, type HistoryPolicy, imageCount, isLive, wantsNewSummary } from "./HistoryPolicy.js"

/**
 * Sizes in tokens.
 *
 * @since 0.1.0
 * @category models
 */
export interface PromptSizes {
  /** What comes before the first turn: instructions, tools. */
  readonly system: number
  /** One screenshot. */
  readonly image: number
  /** The text of one turn: what is said with the screenshot, and the reply. */
  readonly text: number
  /** A summary. */
  readonly summary: number
}

/**
 * A screenshot of 1920 by 1080 pixels is 2,691 tokens to a model that sees squares of 28 by 28 pixels; the rest is what
 * OSWorld's prompts and replies come to, roughly.
 *
 * @since 0.1.0
 * @category constants
 */
export const defaultSizes: PromptSizes = { system: 800, image: 2691, text: 250, summary: 400 }

/**
 * One prompt of the episode.
 *
 * @since 0.1.0
 * @category models
 */
export interface PromptCost {
  readonly turn: number
  readonly images: number
  readonly tokens: number
  /** Of these, the ones that the prompt before began with. */
  readonly reused: number
  readonly compaction: boolean
  /** Tokens of the prompt that made a new summary before this one; 0 where none was made. */
  readonly summaryTokens: number
}

/**
 * An episode of a policy.
 *
 * @since 0.1.0
 * @category models
 */
export interface EpisodeCost {
  readonly prompts: ReadonlyArray<PromptCost>
  /** Images over all prompts: one that is shown in five prompts counts five times. */
  readonly imagesSent: number
  readonly tokensSent: number
  /** The share of `tokensSent` that a prefix cache would have, from 0 to 1. */
  readonly reusedShare: number
  readonly breaks: number
  readonly largestPrompt: number
  readonly meanPrompt: number
}

const sizeOf = (plan: HistoryPlan, turn: number, sizes: PromptSizes): number => {
  const summed = plan.summary?.turns ?? 0
  if (turn < summed) return turn === summed - 1 ? sizes.summary : 0
  return sizes.text + (isLive(plan, turn) ? sizes.image : 0)
}

/** The first of the turns before `turns` that does not look as it did, or `turns`. */
const firstChange = (before: HistoryPlan, now: HistoryPlan, turns: number): number => {
  const summed = now.summary?.turns ?? 0
  if (summed !== (before.summary?.turns ?? 0)) return 0
  for (let turn = summed; turn < turns; turn++) {
    if (isLive(before, turn) !== isLive(now, turn)) return turn
  }
  return turns
}

/**
 * Plans an episode and adds it up. Its prompts are the system text, the turns in order, the newest without its reply.
 *
 * @since 0.1.0
 * @category operations
 */
export const episodeCost = (policy: HistoryPolicy["Type"], turns: number, sizes: PromptSizes): EpisodeCost => {
  const prompts: Array<PromptCost> = []
  let state = policy.initial
  let before: { readonly plan: HistoryPlan; readonly tokens: number } | undefined
  for (let turn = 0; turn < turns; turn++) {
    const plan = policy.plan(state, turn)
    let tokens = sizes.system
    let reused = before === undefined ? 0 : before.tokens
    const change = before === undefined ? 0 : firstChange(before.plan, plan, turn)
    for (let earlier = 0; earlier <= turn; earlier++) {
      if (before !== undefined && earlier === change && change < turn) reused = tokens
      tokens += sizeOf(plan, earlier, sizes)
    }
    prompts.push({
      turn,
      images: imageCount(plan),
      tokens,
      reused,
      compaction: plan.compaction,
      summaryTokens: before !== undefined && wantsNewSummary(plan, before.plan.summary?.turns) ? before.tokens : 0
    })
    before = { plan, tokens }
    state = plan.next
  }
  const sum = (of: (prompt: PromptCost) => number) => prompts.reduce((total, prompt) => total + of(prompt), 0)
  const tokensSent = sum(({ summaryTokens, tokens }) => tokens + summaryTokens)
  return {
    prompts,
    imagesSent: sum(({ images }) => images),
    tokensSent,
    // The prompt that makes a summary repeats the one before it.
    reusedShare: tokensSent === 0 ? 0 : sum(({ reused, summaryTokens }) => reused + summaryTokens) / tokensSent,
    breaks: prompts.filter(({ compaction }) => compaction).length,
    largestPrompt: prompts.reduce((most, { tokens }) => Math.max(most, tokens), 0),
    meanPrompt: prompts.length === 0 ? 0 : sum(({ tokens }) => tokens) / prompts.length
  }
}
