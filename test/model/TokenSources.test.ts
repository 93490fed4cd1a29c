import { assert, describe, it } from "@effect/vitest"
import * as Either from "effect/Either"
import * as FastCheck from "effect/FastCheck"
import * as Option from "effect/Option"
import type { TokenBundle } from "../../src/model/TokenBundle.js"
import * as TokenSources from "../../src/model/TokenSources.js"

type Json = Readonly<Record<string, unknown>>

interface Tokens {
  readonly prompt: ReadonlyArray<number>
  readonly generation: ReadonlyArray<number>
  readonly logProbs: ReadonlyArray<number>
}

const tokenId = FastCheck.nat({ max: 200_000 })

const anyTokens = (minLength: number): FastCheck.Arbitrary<Tokens> =>
  FastCheck.record({
    prompt: FastCheck.array(tokenId, { maxLength: 20 }),
    pairs: FastCheck.array(FastCheck.tuple(tokenId, FastCheck.double({ min: -9999, max: 0, noNaN: true })), {
      minLength,
      maxLength: 20
    })
  }).map(({ pairs, prompt }) => ({
    prompt,
    generation: pairs.map(([id]) => id),
    logProbs: pairs.map(([, logProb]) => logProb)
  }))

const bundleOf = ({ generation, logProbs, prompt }: Tokens) => ({
  prompt_token_ids: prompt,
  generation_token_ids: generation,
  generation_log_probs: logProbs
})

const texts = ({ generation, logProbs }: Tokens) =>
  generation.map((id, index) => ({ token: `token_id:${id}`, logprob: logProbs[index], bytes: null, top_logprobs: [] }))

const words = ({ logProbs }: Tokens) => logProbs.map((logprob) => ({ token: "word", logprob }))

/** A chat reply that carries tokens in the places named, each told by its own `Tokens`. */
const chat = (places: { readonly bundle?: Tokens; readonly ids?: Tokens; readonly strings?: Tokens }): Json => ({
  id: "chatcmpl-1",
  object: "chat.completion",
  model: "m",
  prompt_token_ids: places.ids?.prompt ?? null,
  choices: [
    {
      index: 0,
      message: { role: "assistant", content: "hi", ...(places.bundle === undefined ? {} : bundleOf(places.bundle)) },
      finish_reason: "stop",
      token_ids: places.ids?.generation ?? null,
      logprobs:
        places.strings !== undefined
          ? { content: texts(places.strings) }
          : places.ids !== undefined
            ? { content: words(places.ids) }
            : null
    }
  ],
  usage: { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 }
})

const some = (read: Either.Either<Option.Option<TokenBundle>, TokenSources.TokenError>): TokenBundle =>
  Option.getOrThrow(Either.getOrThrowWith(read, (error) => error))

const same = (bundle: TokenBundle, { generation, logProbs, prompt }: Tokens) => {
  assert.deepStrictEqual(bundle.promptTokenIds, prompt)
  assert.deepStrictEqual(bundle.generationTokenIds, generation)
  assert.deepStrictEqual(bundle.generationLogProbs, logProbs)
}

const fails = (
  read: Either.Either<unknown, TokenSources.TokenError>,
  source: TokenSources.TokenSource,
  path: string
) => {
  assert.isTrue(Either.isLeft(read), "the tokens were taken")
  if (Either.isLeft(read)) {
    assert.instanceOf(read.left, TokenSources.TokenError)
    assert.deepStrictEqual([read.left.source, read.left.path], [source, path])
    assert.include(read.left.message, path)
  }
}

const runs = { fastCheck: { numRuns: 1000 } }

/** [4, 5] was shown, 6 and 7 were said. */
const example: Tokens = { prompt: [4, 5], generation: [6, 7], logProbs: [-0.5, -1.25] }

describe("TokenSources of a chat reply", () => {
  it.prop(
    "are read the same from whichever places carry them",
    [
      anyTokens(1),
      FastCheck.record({ bundle: FastCheck.boolean(), ids: FastCheck.boolean(), strings: FastCheck.boolean() })
    ],
    ([tokens, where]) => {
      const reply = chat({
        ...(where.bundle ? { bundle: tokens } : {}),
        ...(where.ids ? { ids: tokens } : {}),
        ...(where.strings ? { strings: tokens } : {})
      })
      const needed = where.strings && !where.bundle && !where.ids
      assert.strictEqual(TokenSources.needsTokenize(reply), needed)
      const read = TokenSources.fromChatCompletion(reply, needed ? { promptTokens: tokens.prompt } : {})
      if (where.bundle || where.ids || where.strings) same(some(read), tokens)
      else assert.deepStrictEqual(read, Either.right(Option.none()))
    },
    runs
  )

  it.prop(
    "are refused when two places differ in one number",
    [
      anyTokens(1),
      FastCheck.constantFrom("prompt" as const, "generation" as const, "logProbs" as const),
      FastCheck.constantFrom("bundle" as const, "ids" as const, "strings" as const),
      FastCheck.nat()
    ],
    ([tokens, what, where, at]) => {
      const values = tokens[what]
      const index = values.length === 0 ? 0 : at % values.length
      const changed =
        values.length === 0 ? [1] : values.with(index, what === "logProbs" ? (values[index] ?? 0) - 1 : 777_777)
      const other = { ...tokens, [what]: changed }
      const reply = chat({ bundle: tokens, ids: tokens, strings: tokens, [where]: other })
      // The strings say nothing of the prompt: there it is /tokenize that differs.
      const options = where === "strings" && what === "prompt" ? { promptTokens: changed } : {}
      // Where strings are, they are the log-probabilities of the ids, too.
      const unsaid = where === "ids" && what === "logProbs"
      assert.strictEqual(Either.isLeft(TokenSources.fromChatCompletion(reply, options)), !unsaid)
    },
    runs
  )

  it("are no tokens where there are log-probabilities of words alone", () => {
    const reply = { choices: [{ message: {}, logprobs: { content: words(example) } }] }
    assert.deepStrictEqual(TokenSources.fromChatCompletion(reply), Either.right(Option.none()))
    assert.isFalse(TokenSources.needsTokenize(reply))
  })

  it("are refused where one place lacks what another has", () => {
    const bundled = { message: bundleOf(example), token_ids: example.generation }
    const reply = { prompt_token_ids: example.prompt, choices: [bundled] }
    fails(TokenSources.fromChatCompletion(reply), "token_ids", "choices[0].token_ids")
  })

  it("of a reply that said nothing are empty, not missing", () => {
    const nothing: Tokens = { prompt: [4, 5], generation: [], logProbs: [] }
    same(some(TokenSources.fromChatCompletion(chat({ ids: nothing }))), nothing)
    const withoutList = { prompt_token_ids: [4, 5], choices: [{ message: {}, token_ids: [], logprobs: null }] }
    same(some(TokenSources.fromChatCompletion(withoutList)), nothing)
  })

  it("keep the routed experts of either place, untouched, and refuse two that differ", () => {
    const routed = [[[1, 2]], [[3, 4]]]
    const on = (message: Json, choice: Json) => ({
      choices: [{ message: { ...bundleOf(example), ...message }, ...choice }]
    })
    const onMessage = on({ routed_experts: routed }, {})
    assert.strictEqual(some(TokenSources.fromChatCompletion(onMessage)).routedExperts, routed)
    const onChoice = on({}, { routed_experts: "opaque" })
    assert.strictEqual(some(TokenSources.fromChatCompletion(onChoice)).routedExperts, "opaque")
    const both = on({ routed_experts: routed }, { routed_experts: structuredClone(routed) })
    assert.deepStrictEqual(some(TokenSources.fromChatCompletion(both)).routedExperts, routed)
    fails(
      TokenSources.fromChatCompletion(on({ routed_experts: routed }, { routed_experts: [] })),
      "reply",
      "choices[0].routed_experts"
    )
  })

  const withBundle = (changed: Json) => ({ choices: [{ message: { ...bundleOf(example), ...changed } }] })
  const withIds = (reply: Json, choice: Json) => ({
    prompt_token_ids: example.prompt,
    ...reply,
    choices: [{ message: {}, token_ids: example.generation, logprobs: { content: words(example) }, ...choice }]
  })
  const withStrings = (content: unknown) => ({ choices: [{ message: {}, logprobs: { content } }] })
  const message = "choices[0].message"
  const content = "choices[0].logprobs.content"
  const prompt = { promptTokens: example.prompt }
  for (const [name, reply, source, path, options] of [
    ["a bundle without log-probabilities", withBundle({ generation_log_probs: null }), "bundle", message, {}],
    ["a bundle without a prompt", withBundle({ prompt_token_ids: undefined }), "bundle", message, {}],
    ["a bundle with too few log-probabilities", withBundle({ generation_log_probs: [-1] }), "bundle", message, {}],
    ["a negative id", withBundle({ prompt_token_ids: [-1] }), "bundle", `${message}.prompt_token_ids`, {}],
    [
      "a fraction as id",
      withBundle({ generation_token_ids: [6, 7.5] }),
      "bundle",
      `${message}.generation_token_ids`,
      {}
    ],
    ["a text as id", withBundle({ generation_token_ids: ["6", "7"] }), "bundle", `${message}.generation_token_ids`, {}],
    // What a JSON writer makes of NaN.
    [
      "null as log-probability",
      withBundle({ generation_log_probs: [-1, null] }),
      "bundle",
      `${message}.generation_log_probs`,
      {}
    ],
    [
      "NaN as log-probability",
      withBundle({ generation_log_probs: [-1, NaN] }),
      "bundle",
      `${message}.generation_log_probs`,
      {}
    ],
    [
      "true as log-probability",
      withBundle({ generation_log_probs: [-1, true] }),
      "bundle",
      `${message}.generation_log_probs`,
      {}
    ],
    [
      "a probability above 1",
      withBundle({ generation_log_probs: [-1, 0.1] }),
      "bundle",
      `${message}.generation_log_probs`,
      {}
    ],
    ["experts without tokens", { choices: [{ message: { routed_experts: [] } }] }, "bundle", message, {}],
    ["ids without a prompt", withIds({ prompt_token_ids: null }, {}), "token_ids", "choices[0].token_ids", {}],
    ["a prompt without ids", withIds({}, { token_ids: null }), "token_ids", "prompt_token_ids", {}],
    ["ids without log-probabilities", withIds({}, { logprobs: null }), "token_ids", "choices[0].token_ids", {}],
    [
      "ids with too few log-probabilities",
      withIds({}, { logprobs: { content: words(example).slice(1) } }),
      "token_ids",
      "choices[0].token_ids",
      {}
    ],
    [
      "ids with a boolean log-probability",
      withIds(
        {},
        {
          logprobs: {
            content: [
              { token: "a", logprob: -1 },
              { token: "b", logprob: true }
            ]
          }
        }
      ),
      "token_ids",
      `${content}[1].logprob`,
      {}
    ],
    [
      "a word among token strings",
      withStrings([...texts(example), { token: "word", logprob: -1 }]),
      "token_strings",
      `${content}[2].token`,
      prompt
    ],
    [
      "a token string that is no number",
      withStrings([{ token: "token_id:x", logprob: -1 }]),
      "token_strings",
      `${content}[0].token`,
      prompt
    ],
    [
      "a token string with a leading zero",
      withStrings([{ token: "token_id:01", logprob: -1 }]),
      "token_strings",
      `${content}[0].token`,
      prompt
    ],
    [
      "a token string without its log-probability",
      withStrings([{ token: "token_id:1" }]),
      "token_strings",
      `${content}[0].logprob`,
      prompt
    ],
    [
      "a token string whose log-probability is a text",
      withStrings([{ token: "token_id:1", logprob: "-1" }]),
      "token_strings",
      `${content}[0].logprob`,
      prompt
    ],
    ["token strings without a prompt", withStrings(texts(example)), "tokenize", "prompt_token_ids", {}],
    [
      "a prompt from /tokenize that is none",
      withStrings(texts(example)),
      "tokenize",
      "the answer of /tokenize",
      { promptTokens: [0.5] }
    ],
    [
      "tokens on two choices",
      { choices: [{ message: bundleOf(example) }, { message: {}, token_ids: [1] }] },
      "reply",
      "choices",
      {}
    ]
  ] satisfies ReadonlyArray<readonly [string, Json, TokenSources.TokenSource, string, TokenSources.TokenOptions]>) {
    it(`refuse ${name}`, () => fails(TokenSources.fromChatCompletion(reply, options), source, path))
  }
})

describe("TokenSources of a completions reply", () => {
  const completion = (choice: Json): Json => ({ object: "text_completion", choices: [{ text: "hi", ...choice }] })

  it.prop(
    "are read the same from ids and from strings",
    [anyTokens(1), FastCheck.boolean(), FastCheck.boolean(), FastCheck.boolean()],
    ([tokens, prompt, ids, strings]) => {
      const reply = completion({
        ...(prompt ? { prompt_token_ids: tokens.prompt } : {}),
        ...(ids ? { token_ids: tokens.generation } : {}),
        logprobs: {
          tokens: tokens.generation.map((id) => (strings ? `token_id:${id}` : "word")),
          token_logprobs: tokens.logProbs
        }
      })
      const carries = ids || strings
      assert.strictEqual(TokenSources.needsTokenize(reply), carries && !prompt)
      const read = TokenSources.fromCompletion(reply, prompt ? {} : { promptTokens: tokens.prompt })
      if (carries) same(some(read), tokens)
      else assert.deepStrictEqual(read, Either.right(Option.none()))
    },
    runs
  )

  it("refuse lengths that do not fit, which has let wrong tokens train elsewhere", () => {
    const logprobs = { tokens: ["a", "b"], token_logprobs: [-1, -2] }
    const ids = { prompt_token_ids: [1], token_ids: [6], logprobs }
    fails(TokenSources.fromCompletion(completion(ids)), "token_ids", "choices[0].token_ids")
    const short = { prompt_token_ids: [1], logprobs: { tokens: ["token_id:6", "token_id:7"], token_logprobs: [-1] } }
    fails(TokenSources.fromCompletion(completion(short)), "token_strings", "choices[0].logprobs")
    const differ = { prompt_token_ids: [1], token_ids: [6], logprobs: { tokens: ["token_id:7"], token_logprobs: [-1] } }
    fails(TokenSources.fromCompletion(completion(differ)), "token_strings", "choices[0].logprobs")
    const first = { prompt_token_ids: [1], token_ids: [6], logprobs: { tokens: ["a"], token_logprobs: [null] } }
    fails(TokenSources.fromCompletion(completion(first)), "token_ids", "choices[0].logprobs.token_logprobs[0]")
  })
})

describe("TokenSources of a Responses reply", () => {
  const item = { type: "message", role: "assistant", content: [] }

  it("are on one item, of whatever type", () => {
    const output = [
      { type: "reasoning", summary: [] },
      { type: "function_call", name: "f", ...bundleOf(example) }
    ]
    const read = Option.getOrThrow(Either.getOrThrow(TokenSources.fromResponse({ output })))
    assert.strictEqual(read.itemIndex, 1)
    same(read.tokens, example)
  })

  it("are none where no item carries any", () => {
    assert.deepStrictEqual(TokenSources.fromResponse({ output: [item] }), Either.right(Option.none()))
    assert.deepStrictEqual(TokenSources.fromResponse({}), Either.right(Option.none()))
  })

  it("are refused on two items, and in part", () => {
    const carrier = { ...item, ...bundleOf(example) }
    fails(TokenSources.fromResponse({ output: [carrier, carrier] }), "bundle", "output[1]")
    fails(TokenSources.fromResponse({ output: [item, { ...item, generation_token_ids: [1] }] }), "bundle", "output[1]")
  })
})

describe("withoutTokens", () => {
  it("leaves all but tokens as it was, in its order", () => {
    const usage = { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 }
    assert.strictEqual(
      JSON.stringify(TokenSources.withoutTokens(chat({ bundle: example, ids: example, strings: example }))),
      JSON.stringify({
        id: "chatcmpl-1",
        object: "chat.completion",
        model: "m",
        choices: [{ index: 0, message: { role: "assistant", content: "hi" }, finish_reason: "stop" }],
        usage
      })
    )
    const item = { type: "message", content: [{ type: "output_text", text: "hi", logprobs: [] }] }
    assert.deepStrictEqual(
      TokenSources.withoutTokens({ id: "resp_1", output: [{ ...item, ...bundleOf(example), routed_experts: [] }] }),
      { id: "resp_1", output: [item] }
    )
    const chunk = { choices: [{ delta: { content: "h", ...bundleOf(example) }, token_ids: [6], logprobs: null }] }
    assert.deepStrictEqual(TokenSources.withoutTokens(chunk), { choices: [{ delta: { content: "h" } }] })
  })

  it.prop(
    "leaves nothing that could be read as tokens",
    [anyTokens(0)],
    ([tokens]) => {
      const bare = TokenSources.withoutTokens(chat({ bundle: tokens, ids: tokens, strings: tokens }))
      assert.deepStrictEqual(TokenSources.fromChatCompletion(bare), Either.right(Option.none()))
      assert.deepStrictEqual(TokenSources.withoutTokens(bare), bare)
    },
    runs
  )
})
