import { assert, describe, it } from "@effect/vitest"
import * as Either from "effect/Either"
import * as FastCheck from "effect/FastCheck"
import * as Schema from "effect/Schema"
import { TokenEntry } from "../../src/model/TokenEntry.js"
import * as TraceBuilder from "../../src/model/TraceBuilder.js"

const rolloutId = "3-0"

const call = (
  modelCallId: string,
  promptTokenIds: ReadonlyArray<number>,
  generationTokenIds: ReadonlyArray<number>,
  more: {
    readonly createdAt?: number
    readonly outputItems?: TokenEntry["outputItems"]
    readonly tokenItemIndex?: number
  } = {}
): TokenEntry =>
  new TokenEntry({
    rolloutId,
    modelCallId,
    model: "m",
    promptTokenIds,
    generationTokenIds,
    generationLogProbs: generationTokenIds.map((_, at) => -(at + 1) / 8),
    outputItems: [{ type: "message", id: modelCallId, content: [] }],
    createdAt: 100,
    ...more
  })

const build = (entries: ReadonlyArray<TokenEntry>, incomplete = false) =>
  TraceBuilder.build({ rolloutId, entries, incomplete })

const idsOf = ({ calls }: TraceBuilder.Chain) => calls.map(({ modelCallId }) => modelCallId)

const chainIds = ({ chains }: TraceBuilder.Trace) => chains.map(idsOf)

const fates = ({ calls }: TraceBuilder.Trace) =>
  Object.fromEntries(calls.map(({ fate, modelCallId }) => [modelCallId, fate]))

const sequence = (chain: TraceBuilder.Chain | undefined): TraceBuilder.TokenSequence => {
  if (chain === undefined) return assert.fail("there is no chain")
  return Either.getOrThrowWith(TraceBuilder.sequence(chain), (error) => error)
}

const project = (chain: TraceBuilder.Chain | undefined): TraceBuilder.Projection => {
  if (chain === undefined) return assert.fail("there is no chain")
  return Either.getOrThrowWith(TraceBuilder.project(rolloutId, chain), (error) => error)
}

// Worked by hand: two turns, and the user's [9] between them.
const first = call("a", [1, 2], [3, 4])
const second = call("b", [1, 2, 3, 4, 9], [5])

describe("TraceBuilder", () => {
  describe("follows one conversation", () => {
    it("masks prompts and what came between calls, and trains what was generated", () => {
      const trace = build([first, second])
      assert.isFalse(trace.masked)
      assert.deepStrictEqual(trace.reasons, [])
      assert.deepStrictEqual(trace.calls, [
        { modelCallId: "a", parentCallIds: [], fate: "kept" },
        { modelCallId: "b", parentCallIds: ["a"], fate: "kept" }
      ])
      const { logProbs, lossMask, tokenIds } = sequence(trace.delivered)
      assert.deepStrictEqual(tokenIds, [1, 2, 3, 4, 9, 5])
      assert.deepStrictEqual([...lossMask], [0, 0, 1, 1, 0, 1])
      assert.deepStrictEqual([...logProbs], [0, 0, -0.125, -0.25, 0, -0.125])
    })

    it("may have nothing between two calls", () => {
      const trace = build([first, call("b", [1, 2, 3, 4], [5])])
      assert.isFalse(trace.masked)
      assert.deepStrictEqual([...sequence(trace.delivered).lossMask], [0, 0, 1, 1, 1])
    })

    it("continues the longest call that fits, not the first", () => {
      const trace = build([first, second, call("c", [1, 2, 3, 4, 9, 5, 9], [6])])
      assert.deepStrictEqual(chainIds(trace), [["a", "b", "c"]])
    })

    it("does not continue a call whose last token it lacks", () => {
      const trace = build([first, call("b", [1, 2, 3, 7, 9], [5])])
      assert.deepStrictEqual(chainIds(trace), [["a"], ["b"]])
      assert.deepStrictEqual(trace.reasons, ["roots", "chains"])
    })

    it("has a thousand turns without recursion", () => {
      const turns: Array<TokenEntry> = []
      let known: ReadonlyArray<number> = [0]
      for (let turn = 0; turn < 1000; turn++) {
        turns.push(call(`call-${String(turn).padStart(4, "0")}`, known, [turn + 1]))
        known = [...known, turn + 1, 0]
      }
      const trace = build([...turns].reverse())
      assert.isFalse(trace.masked)
      assert.strictEqual(trace.delivered?.calls.length, 1000)
      assert.strictEqual(
        sequence(trace.delivered).lossMask.reduce((sum, one) => sum + one, 0),
        1000
      )
    })

    it("has a hundred calls of thirty thousand tokens", () => {
      const turns: Array<TokenEntry> = []
      let known = Array.from({ length: 30_000 }, (_, at) => (at * 7919) % 150_000)
      for (let turn = 0; turn < 100; turn++) {
        const said = Array.from({ length: 40 }, (_, at) => turn * 100 + at)
        turns.push(call(`call-${String(turn).padStart(3, "0")}`, known, said))
        known = [...known, ...said, 1, 2, 3]
      }
      const trace = build(turns)
      assert.isFalse(trace.masked)
      assert.strictEqual(trace.metrics.generatedTokensDelivered, 4000)
      const { lossMask, tokenIds } = sequence(trace.delivered)
      // The first prompt, 100 replies of 40 and 99 times 3 between them.
      assert.strictEqual(tokenIds.length, 30_000 + 4000 + 297)
      assert.strictEqual(
        lossMask.reduce((sum, one) => sum + one, 0),
        4000
      )
    })

    it("tells a hundred prompts of thirty thousand tokens apart that share all but their end", () => {
      const shared = Array.from({ length: 30_000 }, (_, at) => at)
      const trace = build(Array.from({ length: 100 }, (_, at) => call(`call-${at}`, [...shared, at], [1])))
      assert.strictEqual(trace.metrics.roots, 100)
      assert.isTrue(trace.masked)
    })
  })

  describe("calls that generated nothing", () => {
    it("are counted, and are nobody's parents", () => {
      const trace = build([first, call("empty", [1, 2, 3, 4], []), second])
      assert.isFalse(trace.masked)
      assert.deepStrictEqual(chainIds(trace), [["a", "b"]])
      assert.strictEqual(trace.metrics.emptyGenerationCalls, 1)
      assert.strictEqual(trace.metrics.calls, 3)
    })

    it("alone are nothing captured", () => {
      for (const entries of [[], [call("empty", [1], [])]]) {
        const trace = build(entries)
        assert.deepStrictEqual(trace.reasons, ["nothing_captured"])
        assert.isUndefined(trace.delivered)
        assert.isUndefined(trace.metrics.deliveredFraction)
      }
    })
  })

  describe("retries of the same prompt", () => {
    it("are decided by what was gone on with", () => {
      const trace = build([call("0", [1, 2], [8]), first, second, call("z", [1, 2], [3])])
      assert.deepStrictEqual(fates(trace), { "0": "superseded_retry", a: "kept", b: "kept", z: "superseded_retry" })
      assert.deepStrictEqual(chainIds(trace), [["a", "b"]])
      assert.isFalse(trace.masked)
      // Two of four calls; 3 of 5 tokens.
      assert.strictEqual(trace.metrics.quarantinedFraction, 0.5)
      assert.strictEqual(trace.metrics.deliveredFraction, 0.6)
    })

    it("that none says which was gone on with keep the lowest id and mask the rollout", () => {
      const trace = build([first, call("d", [1, 2, 3, 4, 9], [6]), call("c", [1, 2, 3, 4, 9], [5])])
      assert.deepStrictEqual(fates(trace), { a: "kept", c: "kept", d: "superseded_retry" })
      assert.deepStrictEqual(chainIds(trace), [["a", "c"]])
      assert.deepStrictEqual(trace.reasons, ["unresolved_retries"])
    })

    it("that were both gone on with are both kept, and the rollout is masked", () => {
      const other = call("other", [1, 2], [7])
      const trace = build([first, other, second, call("c", [1, 2, 7, 9], [5])])
      assert.deepStrictEqual(chainIds(trace), [
        ["a", "b"],
        ["other", "c"]
      ])
      assert.deepStrictEqual(trace.reasons, ["roots", "chains"])
    })
  })

  describe("calls that may continue several others", () => {
    // The same tokens, sampled twice: which one the conversation went on with cannot be told.
    const twin = call("a2", [1, 2], [3, 4])

    it("are quarantined, and leave no safe chain", () => {
      const trace = build([first, twin, second])
      assert.deepStrictEqual(fates(trace), { a: "kept", a2: "superseded_retry", b: "ambiguous_parent" })
      assert.deepStrictEqual(trace.calls[2]?.parentCallIds, ["a", "a2"])
      // Not an empty success: "a" is no leaf, as something continued it.
      assert.deepStrictEqual(chainIds(trace), [])
      assert.deepStrictEqual(trace.reasons, ["unresolved_retries", "ambiguous_parent", "chains"])
    })

    it("take what continues them along", () => {
      const trace = build([first, twin, second, call("c", [1, 2, 3, 4, 9, 5, 9], [6])])
      assert.strictEqual(fates(trace)["c"], "below_quarantined")
      assert.strictEqual(trace.metrics.quarantinedCalls, 3)
    })

    it("are those whose parents split the same tokens differently, too", () => {
      const trace = build([call("a", [1], [2, 3]), call("b", [1, 2], [3]), call("c", [1, 2, 3, 9], [4])])
      assert.strictEqual(fates(trace)["c"], "ambiguous_parent")
      assert.deepStrictEqual(chainIds(trace), [])
      assert.isTrue(trace.masked)
    })

    it("mask the rollout even where another chain is whole", () => {
      const trace = build([
        call("root", [1], [2]),
        call("x", [1, 2, 3], [4, 5]),
        call("y", [1, 2, 3, 4], [5]),
        call("lost", [1, 2, 3, 4, 5, 6], [7]),
        call("whole", [1, 2, 8], [9])
      ])
      assert.deepStrictEqual(chainIds(trace), [["root", "whole"]])
      assert.strictEqual(trace.metrics.roots, 1)
      assert.deepStrictEqual(trace.reasons, ["ambiguous_parent"])
    })
  })

  describe("several conversations", () => {
    const sub = (createdAt: number) => call("sub", [50, 51], [52], { createdAt })

    it("deliver the one that began first, and mask", () => {
      const orchestrator = [
        call("a", [1, 2], [3, 4], { createdAt: 10 }),
        call("b", [1, 2, 3, 4, 9], [5], { createdAt: 30 })
      ]
      const trace = build([sub(20), ...orchestrator])
      assert.deepStrictEqual(trace.delivered && idsOf(trace.delivered), ["a", "b"])
      assert.deepStrictEqual(trace.reasons, ["roots", "chains"])
      // Three of four tokens.
      assert.strictEqual(trace.metrics.deliveredFraction, 0.75)
    })

    it("deliver a side call where that began first, and say so", () => {
      const trace = build([first, second, sub(5)])
      assert.deepStrictEqual(trace.delivered && idsOf(trace.delivered), ["sub"])
      assert.isTrue(trace.masked)
      assert.strictEqual(trace.metrics.deliveredFraction, 0.25)
    })

    it("that began at once are told apart by call id", () => {
      assert.deepStrictEqual(chainIds(build([sub(100), second, first])), [["a", "b"], ["sub"]])
    })

    it("after a compaction are chains of their own, and reported", () => {
      const compacted = call("c", [1, 40, 41], [42], { createdAt: 200 })
      const trace = build([first, second, compacted])
      assert.deepStrictEqual(chainIds(trace), [["a", "b"], ["c"]])
      assert.strictEqual(trace.metrics.chains, 2)
      assert.deepStrictEqual([...sequence(trace.chains[1]).lossMask], [0, 0, 0, 1])
    })

    it("with the same beginning train it once", () => {
      const trace = build([first, second, call("c", [1, 2, 3, 4, 8], [6])])
      assert.deepStrictEqual(chainIds(trace), [
        ["a", "b"],
        ["a", "c"]
      ])
      assert.deepStrictEqual([...sequence(trace.chains[0]).lossMask], [0, 0, 1, 1, 0, 1])
      assert.deepStrictEqual([...sequence(trace.chains[1]).lossMask], [0, 0, 0, 0, 0, 1])
      assert.deepStrictEqual([...sequence(trace.chains[1]).logProbs], [0, 0, 0, 0, 0, -0.125])
    })
  })

  describe("what cannot be right", () => {
    it("is masked where tokens may be missing", () => {
      const trace = build([first, second], true)
      assert.deepStrictEqual(trace.reasons, ["incomplete"])
      assert.isTrue(trace.metrics.captureIncomplete)
    })

    it("is masked, not thrown, where entries contradict each other", () => {
      const twice = build([first, first])
      assert.deepStrictEqual(twice.reasons, ["invalid"])
      assert.strictEqual(twice.metrics.error, "several entries are of call a")
      const foreign = TraceBuilder.build({ rolloutId: "4-0", entries: [first], incomplete: false })
      assert.deepStrictEqual(foreign.reasons, ["invalid"])
      assert.strictEqual(foreign.metrics.error, "an entry is of rollout 3-0")
    })

    it("is a typed error where a chain was put together by other means", () => {
      const gap: TraceBuilder.Chain = { calls: [first, call("b", [1, 2, 3, 5], [6])], owns: new Set(["a", "b"]) }
      const error = new TraceBuilder.ContiguityError({ rolloutId, modelCallId: "b", before: "a" })
      assert.deepStrictEqual(TraceBuilder.sequence(gap), Either.left(error))
      assert.deepStrictEqual(TraceBuilder.project(rolloutId, gap), Either.left(error))
      const short: TraceBuilder.Chain = { calls: [first, call("b", [1, 2, 3], [6])], owns: new Set() }
      assert.deepStrictEqual(TraceBuilder.sequence(short), Either.left(error))
    })
  })

  describe("as a reply", () => {
    const reasoning = { type: "reasoning", id: "rs", summary: [] }
    const tool = { type: "function_call", call_id: "f", name: "f", arguments: "{}" }
    const tokensOf = ({ generationLogProbs, generationTokenIds, promptTokenIds }: TokenEntry) => ({
      prompt_token_ids: promptTokenIds,
      generation_token_ids: generationTokenIds,
      generation_log_probs: generationLogProbs
    })

    it("has the items of all calls, and one of each carries its tokens", () => {
      const one = call("a", [1, 2], [3, 4], { outputItems: [reasoning, tool], tokenItemIndex: 0 })
      const two = call("b", [1, 2, 3, 4, 9], [5], { outputItems: [reasoning, tool] })
      const three = call("c", [1, 2, 3, 4, 9, 5], [6], { outputItems: [] })
      assert.deepStrictEqual(project(build([one, two, three]).delivered), {
        id: "proj-3-0",
        object: "response",
        output: [
          { ...reasoning, ...tokensOf(one) },
          tool,
          reasoning,
          { ...tool, ...tokensOf(two) },
          {
            id: "msg_c",
            type: "message",
            role: "assistant",
            status: "completed",
            content: [],
            ...tokensOf(three)
          }
        ],
        usage: { input_tokens: 2, output_tokens: 4, total_tokens: 6 }
      })
    })

    it("keeps routed experts, and copies no array", () => {
      const routedExperts = [[[1]], [[2]]]
      const one = new TokenEntry({ ...first, routedExperts })
      const [item] = project(build([one]).delivered).output
      assert.strictEqual(item?.["routed_experts"], routedExperts)
      assert.strictEqual(item?.["prompt_token_ids"], one.promptTokenIds)
    })
  })

  it("encodes its metrics under the field's names", () => {
    assert.deepStrictEqual(Schema.encodeSync(TraceBuilder.TraceMetrics)(build([first, second]).metrics), {
      n_calls: 2,
      chains: 1,
      roots: 1,
      quarantined_calls: 0,
      quarantined_fraction: 0,
      delivered_fraction: 1,
      generated_tokens_captured: 3,
      generated_tokens_delivered: 3,
      empty_generation_calls: 0
    })
  })
})

// -----------------------------------------------------------------------------
// Properties
// -----------------------------------------------------------------------------

/** What a harness may do next: go on from a call (or from nothing) with some tokens between, and get some tokens. */
const move = FastCheck.record({
  from: FastCheck.nat({ max: 100 }),
  between: FastCheck.array(FastCheck.nat({ max: 2 }), { maxLength: 2 }),
  said: FastCheck.array(FastCheck.nat({ max: 2 }), { maxLength: 2 }),
  at: FastCheck.nat({ max: 5 })
})

/** Few tokens and few times, so that calls share prompts, continue each other by accident, and cannot be told apart. */
const anyCalls: FastCheck.Arbitrary<ReadonlyArray<TokenEntry>> = FastCheck.array(move, { maxLength: 12 }).map(
  (moves) => {
    const calls: Array<TokenEntry> = []
    for (const [index, { at, between, from, said }] of moves.entries()) {
      const parent = calls[(from % (calls.length + 1)) - 1]
      const known = parent === undefined ? [] : [...parent.promptTokenIds, ...parent.generationTokenIds]
      calls.push(call(`c${(index * 7) % 13}`, [...known, ...between], said, { createdAt: at }))
    }
    return calls
  }
)

const begins = (whole: ReadonlyArray<number>, start: ReadonlyArray<number>) =>
  JSON.stringify(whole.slice(0, start.length)) === JSON.stringify(start)

const wholeOf = ({ generationTokenIds, promptTokenIds }: TokenEntry) => [...promptTokenIds, ...generationTokenIds]

const runs = { fastCheck: { numRuns: 1000 } }

describe("TraceBuilder, whatever was captured", () => {
  it.prop(
    "gives the same in whatever order",
    [
      anyCalls.chain((calls) =>
        FastCheck.tuple(FastCheck.constant(calls), FastCheck.shuffledSubarray([...calls], { minLength: calls.length }))
      )
    ],
    ([[calls, shuffled]]) => assert.deepStrictEqual(build(shuffled), build(calls)),
    runs
  )

  it.prop(
    "finds the parents that comparing all with all finds",
    [anyCalls],
    ([calls]) => {
      const spoken = calls.filter(({ generationTokenIds }) => generationTokenIds.length > 0)
      for (const { modelCallId, parentCallIds } of build(calls).calls) {
        const prompt = calls.find((entry) => entry.modelCallId === modelCallId)?.promptTokenIds ?? []
        const fitting = spoken.filter((other) => begins(prompt, wholeOf(other)))
        const longest = Math.max(...fitting.map((other) => wholeOf(other).length))
        assert.deepStrictEqual(
          [...parentCallIds].sort(),
          fitting
            .filter((other) => wholeOf(other).length === longest)
            .map((other) => other.modelCallId)
            .sort()
        )
      }
    },
    runs
  )

  it.prop(
    "makes chains that a trainer's own check accepts",
    [anyCalls],
    ([calls]) => {
      for (const chain of build(calls).chains) {
        let seen: ReadonlyArray<number> = []
        for (const item of project(chain).output) {
          const entry = calls.find(({ modelCallId }) => item["id"] === modelCallId)
          if (entry === undefined) return assert.fail("an item is of no call")
          assert.strictEqual(item["prompt_token_ids"], entry.promptTokenIds)
          assert.isTrue(begins(entry.promptTokenIds, seen), "the prompt does not begin with all tokens so far")
          seen = wholeOf(entry)
        }
        assert.deepStrictEqual(sequence(chain).tokenIds, seen)
      }
    },
    runs
  )

  it.prop(
    "trains every token of every chain once, with its own log-probability, and no other",
    [anyCalls],
    ([calls]) => {
      const { chains } = build(calls)
      const expected = new Map(calls.map((entry) => [entry.modelCallId, entry]))
      const owners = chains.flatMap(({ owns }) => [...owns])
      assert.strictEqual(new Set(owners).size, owners.length, "a call is owned twice")
      assert.deepStrictEqual([...new Set(chains.flatMap(idsOf))].sort(), [...owners].sort())
      for (const chain of chains) {
        const { logProbs, lossMask, tokenIds } = sequence(chain)
        const trained = [...lossMask].flatMap((one, at) => (one === 1 ? [[tokenIds[at], logProbs[at]]] : []))
        assert.deepStrictEqual(
          trained,
          idsOf(chain).flatMap((id) => {
            const entry = expected.get(id)
            return entry === undefined || !chain.owns.has(id)
              ? []
              : entry.generationTokenIds.map((token, at) => [token, entry.generationLogProbs[at]])
          })
        )
        assert.isTrue([...logProbs].every((logProb, at) => lossMask[at] === 1 || logProb === 0))
      }
    },
    runs
  )

  it.prop(
    "masks unless every call is on the one chain or was a retry of one that is",
    [anyCalls],
    ([calls]) => {
      const { chains, delivered, masked, metrics, ...trace } = build(calls)
      if (masked) return
      assert.strictEqual(chains.length, 1)
      const on = new Set(delivered?.calls.map(({ modelCallId }) => modelCallId))
      const prompts = new Set(delivered?.calls.map(({ promptTokenIds }) => JSON.stringify(promptTokenIds)))
      for (const { fate, modelCallId } of trace.calls) {
        const prompt = calls.find((entry) => entry.modelCallId === modelCallId)?.promptTokenIds
        if (!on.has(modelCallId)) {
          assert.strictEqual(fate, "superseded_retry")
          assert.isTrue(prompts.has(JSON.stringify(prompt)))
        }
      }
      assert.strictEqual(metrics.quarantinedCalls, trace.calls.length - on.size)
    },
    runs
  )

  it.prop(
    "delivers all of an undisturbed conversation, retries of a turn that was gone on with aside",
    [
      FastCheck.array(
        FastCheck.record({
          between: FastCheck.array(FastCheck.nat({ max: 9 }), { maxLength: 4 }),
          said: FastCheck.array(FastCheck.nat({ max: 9 }), { minLength: 1, maxLength: 4 }),
          retried: FastCheck.boolean()
        }),
        { minLength: 1, maxLength: 10 }
      )
    ],
    ([turns]) => {
      const calls: Array<TokenEntry> = []
      let known: ReadonlyArray<number> = [0]
      for (const [index, { between, retried, said }] of turns.entries()) {
        known = [...known, ...between]
        calls.push(call(`turn-${index}`, known, said))
        // 99 is said by nothing else, so that nothing continues this one.
        if (retried && index < turns.length - 1) calls.push(call(`again-${index}`, known, [99]))
        known = [...known, ...said]
      }
      const trace = build(calls)
      assert.deepStrictEqual(trace.reasons, [])
      assert.deepStrictEqual(chainIds(trace), [turns.map((_, index) => `turn-${index}`)])
      assert.deepStrictEqual(sequence(trace.delivered).tokenIds, known)
    },
    runs
  )

  it.prop(
    "masks whatever is incomplete, and changes nothing else",
    [anyCalls],
    ([calls]) => {
      const whole = build(calls)
      const torn = build(calls, true)
      assert.isTrue(torn.masked)
      assert.deepStrictEqual(torn.reasons, ["incomplete", ...whole.reasons])
      assert.deepStrictEqual(torn.chains, whole.chains)
    },
    runs
  )
})
