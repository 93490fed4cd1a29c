/**
 * What every history policy has to obey, as pure checks that explain themselves. `deskhand/testing` runs them on anybody's
 * policy as property tests.
 *
 * @since 0.1.0
 */
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import * as ParseResult from "effect/ParseResult"
import * as Schema from "effect/Schema"
import {
  type HistoryPlan,
  type HistoryPolicy,
  HistoryPolicyConfig,
  HistoryState,
  imageCount,
  isLive,
  policyId,
  shrink
} from "./HistoryPolicy.js"

type Policy = HistoryPolicy["Type"]

// -----------------------------------------------------------------------------
// Models
// -----------------------------------------------------------------------------

/**
 * An episode to plan: so many turns, and the limits that a model's context length put on some of them.
 *
 * @since 0.1.0
 * @category models
 */
export interface Scenario {
  /** At least 1. */
  readonly turns: number
  /** The most images at a turn, by turn; at least 1. */
  readonly limits: ReadonlyMap<number, number>
}

/**
 * One planned prompt of an episode.
 *
 * @since 0.1.0
 * @category models
 */
export interface Planned {
  readonly completedTurns: number
  readonly limit: number | undefined
  /** What the plan was made from. */
  readonly state: HistoryState
  readonly plan: HistoryPlan
}

/**
 * What is tested: a policy, the same policy made once more, and others that are to differ from it in their ids where they
 * differ in what they do.
 *
 * @since 0.1.0
 * @category models
 */
export interface Subject {
  readonly policy: Policy
  readonly again: Policy
  readonly variants: ReadonlyArray<Policy>
}

/**
 * A law that does not hold, in words for the policy's author.
 *
 * @since 0.1.0
 * @category models
 */
export interface Violation {
  readonly law: string
  /** What was planned, what was expected, and at which turns. */
  readonly message: string
}

/**
 * @since 0.1.0
 * @category models
 */
export interface Law {
  /** A sentence, which is the name of its test. */
  readonly name: string
  readonly check: (subject: Subject, scenario: Scenario) => Either.Either<void, Violation>
}

// -----------------------------------------------------------------------------
// Episodes
// -----------------------------------------------------------------------------

/**
 * Plans an episode step by step from the policy's initial state.
 *
 * @since 0.1.0
 * @category operations
 */
export const plan = (policy: Policy, { limits, turns }: Scenario): ReadonlyArray<Planned> => {
  const planned: Array<Planned> = []
  let state = policy.initial
  for (let completedTurns = 0; completedTurns < turns; completedTurns++) {
    const limit = limits.get(completedTurns)
    const plan = limit === undefined ? policy.plan(state, completedTurns) : policy.plan(state, completedTurns, limit)
    planned.push({ completedTurns, limit, state, plan })
    state = plan.next
  }
  return planned
}

/** How a turn looks in a prompt. */
type Look = "image" | "text" | "summary"

const look = (plan: HistoryPlan, turn: number): Look =>
  plan.summary !== undefined && turn < plan.summary.turns ? "summary" : isLive(plan, turn) ? "image" : "text"

const signs: Readonly<Record<Look, string>> = { image: "#", text: ".", summary: "s" }

const drawn = 12

/**
 * Prompts as rows, turns as columns: `#` an image, `.` text, `s` in the summary. Long episodes show their end.
 *
 * @since 0.1.0
 * @category encoding
 */
export const draw = (planned: ReadonlyArray<Planned>): string =>
  planned
    .slice(-drawn)
    .map(({ completedTurns, limit, plan }) => {
      const row = Array.from({ length: completedTurns + 1 }, (_, turn) => signs[look(plan, turn)]).join("")
      const notes = [
        ...(limit === undefined ? [] : [`limit ${limit}`]),
        ...(plan.compaction ? ["declares a break"] : [])
      ].join(", ")
      return `  turn ${String(completedTurns).padStart(3)}  ${row}${notes === "" ? "" : `   ${notes}`}`
    })
    .join("\n")

// -----------------------------------------------------------------------------
// Laws
// -----------------------------------------------------------------------------

const holds: Either.Either<void, Violation> = Either.right(undefined)

/** A law of single prompts: `check` tells what is wrong with one, or nothing. */
const ofEachPrompt = (
  name: string,
  check: (
    prompt: Planned,
    before: Planned | undefined,
    subject: Subject,
    index: number,
    all: ReadonlyArray<Planned>
  ) => string | undefined
): Law => ({
  name,
  check: (subject, scenario) => {
    const planned = plan(subject.policy, scenario)
    for (const [index, prompt] of planned.entries()) {
      const wrong = check(prompt, planned[index - 1], subject, index, planned)
      if (wrong !== undefined) {
        return Either.left({
          law: name,
          message: `at turn ${prompt.completedTurns}, ${wrong}\n${draw(planned.slice(0, index + 1))}`
        })
      }
    }
    return holds
  }
})

const show = (plan: HistoryPlan): string =>
  JSON.stringify({
    images: plan.imageIntervals,
    compaction: plan.compaction,
    clamped: plan.clamped,
    ...(plan.summary === undefined ? {} : { summary: plan.summary }),
    next: { ...plan.next }
  })

/** Whether two plans are the same in all that a policy says. Runs for every prompt of every case. */
const same = (one: HistoryPlan, other: HistoryPlan): boolean =>
  one.compaction === other.compaction &&
  one.clamped === other.clamped &&
  one.summary?.turns === other.summary?.turns &&
  one.next.imageWindowStart === other.next.imageWindowStart &&
  one.next.compactionEpoch === other.next.compactionEpoch &&
  one.imageIntervals.length === other.imageIntervals.length &&
  one.imageIntervals.every(([start, end], index) => {
    const there = other.imageIntervals[index]
    return there !== undefined && there[0] === start && there[1] === end
  })

const count = (number: number, thing: string): string => `${number} ${thing}${number === 1 ? "" : "s"}`

const deterministic = ofEachPrompt(
  "the same state and turn give the same plan",
  ({ completedTurns, limit, plan, state }, _, { policy }) => {
    const again = policy.plan(state, completedTurns, limit)
    return same(again, plan) ? undefined : `it planned ${show(plan)} first, and ${show(again)} when asked again`
  }
)

const replayable: Law = {
  name: "an episode planned again from its start has the plans that it had, whatever was planned in between",
  check: ({ again, policy }, scenario) => {
    const first = plan(policy, scenario)
    for (const other of [policy, again]) {
      const second = plan(other, scenario)
      const index = first.findIndex(({ plan }, index) => {
        const there = second[index]
        return there === undefined || !same(plan, there.plan)
      })
      const [one, two] = [first[index], second[index]]
      if (one !== undefined && two !== undefined) {
        return Either.left({
          law: replayable.name,
          message: `at turn ${one.completedTurns} it planned ${show(one.plan)} the first time, and ${show(two.plan)} the second: something outlives the episode that is not in its state`
        })
      }
    }
    return holds
  }
}

const newestLive = ofEachPrompt("the newest screenshot is always shown", ({ completedTurns, plan }) =>
  isLive(plan, completedTurns) ? undefined : "the screenshot that the model is to act on is not shown"
)

const withinLimits = ofEachPrompt(
  "no prompt has more images than the policy and the limit allow",
  ({ limit, plan }, _, { policy }) => {
    const images = imageCount(plan)
    // Asked this way round, a most that is no number is caught too.
    if (!(images <= policy.maximumImages)) {
      return `${count(images, "image")} are shown, and the policy says that it shows at most ${policy.maximumImages}`
    }
    const most = Math.max(limit ?? Number.POSITIVE_INFINITY, policy.pinnedImages + 1)
    return images > most ? `${count(images, "image")} are shown where at most ${most} may be` : undefined
  }
)

const ordered = ofEachPrompt(
  "images are listed in order, in intervals that are apart and within the episode",
  ({ completedTurns, plan }) => {
    let end = -1
    for (const interval of plan.imageIntervals) {
      const [start, stop] = interval
      if (!Number.isSafeInteger(start) || !Number.isSafeInteger(stop) || start >= stop) {
        return `the interval [${interval}) is empty or no interval of turns`
      }
      if (start <= end) {
        return end === start
          ? `the interval [${interval}) begins where the one before it ends: they are one interval`
          : `the interval [${interval}) comes after one that ends at ${end}: the intervals are out of order`
      }
      if (start < 0 || stop > completedTurns + 1) {
        return `the interval [${interval}) reaches out of the turns 0 to ${completedTurns}`
      }
      end = stop
    }
    return undefined
  }
)

const pinnedStay = ofEachPrompt("pinned images stay", ({ completedTurns, plan }, _, { policy }) => {
  for (let turn = 0; turn < Math.min(policy.pinnedImages, completedTurns + 1); turn++) {
    if (!isLive(plan, turn)) return `the image of turn ${turn} is gone, and the first ${policy.pinnedImages} are pinned`
  }
  return undefined
})

const neverBack = ofEachPrompt("an image that has left does not come back", ({ completedTurns, plan }, before) => {
  if (before === undefined) return undefined
  for (let turn = 0; turn < completedTurns; turn++) {
    const was = look(before.plan, turn)
    const is = look(plan, turn)
    if (was !== "image" && is === "image")
      return `the image of turn ${turn} is back, which the prompt before did not show`
    if (was === "summary" && is !== "summary") return `turn ${turn} is out of the summary again`
  }
  return undefined
})

const summaryFits = ofEachPrompt(
  "a summary stands for completed turns, and none of their images is shown",
  ({ completedTurns, plan }) => {
    if (plan.summary === undefined) return undefined
    const { turns } = plan.summary
    if (!Number.isSafeInteger(turns) || turns < 1 || turns > completedTurns) {
      return completedTurns === 0
        ? "there is a summary, and no turn is completed yet"
        : `the summary stands for ${count(turns, "turn")}, and has to stand for a whole number of them from 1 to ${completedTurns}`
    }
    const shown = plan.imageIntervals.find(([start]) => start < turns)
    return shown === undefined
      ? undefined
      : `the images [${shown}) are shown, and the summary stands for the first ${count(turns, "turn")}`
  }
)

const changed = (before: Planned, { plan }: Planned): number | undefined => {
  for (let turn = 0; turn <= before.completedTurns; turn++) {
    if (look(before.plan, turn) !== look(plan, turn)) return turn
  }
  return undefined
}

const appendOnly = ofEachPrompt("between declared breaks a prompt extends the one before", (prompt, before) => {
  if (before === undefined || prompt.plan.compaction) return undefined
  const turn = changed(before, prompt)
  return turn === undefined
    ? undefined
    : `turn ${turn} is ${look(prompt.plan, turn)} now and was ${look(before.plan, turn)}: that breaks the prefix, and no break is declared`
})

const breaksAreReal = ofEachPrompt("a declared break is one", (prompt, before) => {
  if (!prompt.plan.compaction) return undefined
  if (before === undefined) return "a break is declared, and there is no prompt before it"
  return changed(before, prompt) === undefined
    ? "a break is declared, and every earlier turn looks as it did: a prefix cache would be thrown away for nothing"
    : undefined
})

const breaksAreCounted = ofEachPrompt("the epoch counts the breaks", ({ plan, state }) => {
  const expected = state.compactionEpoch + (plan.compaction ? 1 : 0)
  return plan.next.compactionEpoch === expected
    ? undefined
    : `the epoch is ${plan.next.compactionEpoch} after this plan, and ${expected} breaks have been declared`
})

const clampedTells = ofEachPrompt(
  "a plan is clamped when the limit made it smaller, and only then",
  ({ completedTurns, limit, plan, state }, _, { policy }) => {
    if (limit === undefined) return plan.clamped ? "the plan is clamped, and there is no limit" : undefined
    const images = imageCount(plan)
    const wanted = imageCount(policy.plan(state, completedTurns))
    if (plan.clamped === images < wanted) return undefined
    return plan.clamped
      ? `the plan is clamped, and a limit of ${limit} takes nothing away: without it, ${count(wanted, "image")} would be shown`
      : `the plan is not clamped, and without the limit of ${limit} ${count(wanted, "image")} would be shown, not ${images}`
  }
)

/** Prompts that may follow a full one without an extension, besides as many as it has images. */
const patience = 10

/**
 * Looks at episodes without limits, because a window that a limit made smaller grows again and extends while it does. And
 * only from the first prompt with `maximumImages` on, because before that any window grows. From there on a policy that
 * makes the claim has to extend a prompt within `maximumImages + 10` turns, and one that does not must never: a run of one
 * extension is enough, as for a window between 3 and 4 images. A policy without a most is looked at from its first prompt;
 * one that never shows as many as it says it may is not judged.
 */
const appendStable: Law = {
  name: "prompts that follow a full one extend each other if the policy says so, and only then",
  check: ({ policy }, { turns }) => {
    const { maximumImages, supportsAppendStableIntervals: claimed } = policy
    const planned = plan(policy, { turns, limits: new Map() })
    const full = Number.isFinite(maximumImages) ? planned.findIndex(({ plan }) => imageCount(plan) >= maximumImages) : 0
    if (full < 0) return holds
    const extended = planned.findIndex((prompt, index) => {
      const before = planned[index - 1]
      // More images than the policy allows itself are another law's matter.
      if (index <= full || before === undefined || imageCount(prompt.plan) > maximumImages) return false
      return changed(before, prompt) === undefined
    })
    const failed = (end: number, message: string) =>
      Either.left({ law: appendStable.name, message: `${message}\n${draw(planned.slice(0, end + 1))}` })
    if (!claimed && extended >= 0) {
      return failed(
        extended,
        `at turn ${extended}, the prompt extends the one before, and supportsAppendStableIntervals is false`
      )
    }
    const last = full + patience + (Number.isFinite(maximumImages) ? maximumImages : 0)
    return claimed && extended < 0 && turns > last
      ? failed(
          last,
          `from turn ${full + 1} to turn ${last}, every prompt breaks the one before, and supportsAppendStableIntervals is true`
        )
      : holds
  }
}

/** An image that one plan shows and the other does not. By intervals, because long episodes have many turns. */
const showsMore = (plan: HistoryPlan, than: HistoryPlan): number | undefined => {
  for (const [start, end] of plan.imageIntervals) {
    let turn = start
    while (turn < end) {
      const shown = than.imageIntervals.find(([start, end]) => start <= turn && turn < end)
      if (shown === undefined) return turn
      turn = shown[1]
    }
  }
  return undefined
}

const shrinks = ofEachPrompt(
  "shrinking takes images away, a few at a time, and ends",
  ({ completedTurns, plan, state }, _, { policy }) => {
    let refused = plan
    for (let tries = imageCount(plan); tries >= 0; tries--) {
      const next = shrink(policy, state, completedTurns, refused)
      if (Option.isNone(next)) {
        const images = imageCount(refused)
        return images > policy.pinnedImages + 1
          ? `it cannot be brought below ${count(images, "image")}, and ${policy.pinnedImages} pinned and the newest are all that has to stay`
          : undefined
      }
      const smaller = next.value.plan
      if (!smaller.clamped)
        return `a limit of ${next.value.limit} made the plan smaller, and it does not say that it is clamped`
      const more = showsMore(smaller, refused)
      if (more !== undefined) {
        return `a limit of ${next.value.limit} shows the image of turn ${more}, which the larger prompt did not`
      }
      if (!isLive(smaller, completedTurns)) return `a limit of ${next.value.limit} takes the newest screenshot away`
      refused = smaller
    }
    return "shrinking does not end"
  }
)

const encodeState = Schema.encodeSync(Schema.parseJson(HistoryState))
const decodeState = Schema.decodeEither(Schema.parseJson(HistoryState))

const survivesJson = ofEachPrompt(
  "the state is the same after it has been written as JSON and read",
  ({ plan }, _, { policy }, index, all) => {
    const { next } = plan
    const read = Either.getOrUndefined(
      Either.flatMap(
        Either.try(() => encodeState(next)),
        decodeState
      )
    )
    if (read === undefined) return `the next state ${JSON.stringify(next)} cannot be written as JSON and read again`
    if (read.imageWindowStart !== next.imageWindowStart || read.compactionEpoch !== next.compactionEpoch) {
      return `the next state ${JSON.stringify(next)} comes back as ${JSON.stringify(read)}`
    }
    const after = all[index + 1]
    if (after === undefined) return undefined
    const replanned = policy.plan(read, after.completedTurns, after.limit)
    return same(replanned, after.plan)
      ? undefined
      : `from the state that was read the next plan is ${show(replanned)}, and from the one in memory ${show(after.plan)}`
  }
)

const decodeConfig = Schema.decodeUnknownEither(HistoryPolicyConfig, { onExcessProperty: "error" })

const idsTell: Law = {
  name: "the id is that of the configuration, and policies that plan differently have different ids",
  check: ({ again, policy, variants }, scenario) => {
    const failed = (message: string) => Either.left({ law: idsTell.name, message })
    const config = decodeConfig(policy.config)
    if (Either.isLeft(config)) {
      return failed(
        `its configuration ${JSON.stringify(policy.config)} is none: ${ParseResult.TreeFormatter.formatErrorSync(config.left)}`
      )
    }
    if (policy.id !== again.id) return failed(`made twice, it is ${policy.id} first and ${again.id} then`)
    const expected = policyId(policy.config)
    if (policy.id !== expected) {
      return failed(
        `its id is ${policy.id}, and that of its configuration ${JSON.stringify(policy.config)} is ${expected}`
      )
    }
    const own = plan(policy, scenario)
    for (const other of variants) {
      const theirs = plan(other, scenario)
      const differs = own.findIndex(({ plan }, index) => {
        const there = theirs[index]
        return there !== undefined && !same(plan, there.plan)
      })
      if (differs >= 0 && other.id === policy.id) {
        return failed(
          `two policies have the id ${policy.id} and plan differently at turn ${differs}: one\n${draw(own.slice(0, differs + 1))}\nand the other\n${draw(theirs.slice(0, differs + 1))}`
        )
      }
    }
    return holds
  }
}

/**
 * All of them: what is shown, what a summary stands for, when a prompt breaks the one before, what limits do, and what the
 * policy says of itself.
 *
 * @since 0.1.0
 * @category laws
 */
export const laws: ReadonlyArray<Law> = [
  deterministic,
  replayable,
  newestLive,
  withinLimits,
  ordered,
  pinnedStay,
  summaryFits,
  neverBack,
  appendOnly,
  breaksAreReal,
  breaksAreCounted,
  appendStable,
  clampedTells,
  shrinks,
  survivesJson,
  idsTell
]
