import { assert, describe, it } from "@effect/vitest"
import * as Either from "effect/Either"
import * as FastCheck from "effect/FastCheck"
import { ModelParameters, ParameterError, resolve, samplingOf } from "../../src/model/Parameters.js"

const runs = { numRuns: 1000 }

type Fields = Readonly<Record<string, unknown>>

const sent = (config: ConstructorParameters<typeof ModelParameters>[0], body: Fields): Fields =>
  Either.getOrThrow(resolve({ config: new ModelParameters(config), body }))

const refused = (config: ConstructorParameters<typeof ModelParameters>[0], body: Fields): string =>
  Either.match(resolve({ config: new ModelParameters(config), body }), {
    onLeft: (error) => {
      assert.instanceOf(error, ParameterError)
      return error.parameter
    },
    onRight: (value) => `sent ${JSON.stringify(value)}`
  })

/** Names that any API knows, without those that stand for one another. */
const names = ["temperature", "top_p", "seed", "stop", "top_k", "user", "presence_penalty"]

const fields = FastCheck.dictionary(
  FastCheck.constantFrom(...names),
  FastCheck.oneof(FastCheck.integer(), FastCheck.constant(null), FastCheck.string())
)

const layers = FastCheck.record({
  overrides: fields,
  body: fields,
  row: fields,
  extraBody: fields,
  dialect: FastCheck.constantFrom("chat" as const, "completions" as const)
})

describe("Parameters", () => {
  it("takes each field from the highest layer that has it, and sends no other", () => {
    FastCheck.assert(
      FastCheck.property(layers, ({ body, dialect, extraBody, overrides, row }) => {
        // top_k is none of the fields that a completions API gets from a caller.
        const own =
          dialect === "chat" ? body : Object.fromEntries(Object.entries(body).filter(([key]) => key !== "top_k"))
        const prompt = dialect === "chat" ? {} : { prompt: "p" }
        const metadata = { extra_body: JSON.stringify(row) }
        const result = sent(
          { model: "served", samplingOverrides: overrides, extraBody, dialect },
          { ...body, ...prompt, metadata, model: "asked" }
        )
        for (const name of names) {
          const highest = [overrides, own, row, extraBody].find((layer) => Object.hasOwn(layer, name))
          assert.deepStrictEqual(
            Object.hasOwn(result, name) ? [result[name]] : [],
            highest === undefined ? [] : [highest[name]]
          )
        }
        const rest = Object.fromEntries(Object.entries(result).filter(([key]) => !names.includes(key)))
        assert.deepStrictEqual(rest, { ...prompt, model: "served", ...(dialect === "chat" ? { metadata } : {}) })
      }),
      runs
    )
  })

  it("lets overrides win over fields that ask for tokens, and those over everything else", () => {
    const tokens = FastCheck.constantFrom("logprobs" as const, "ids" as const)
    const noise = FastCheck.dictionary(
      FastCheck.constantFrom("logprobs", "top_logprobs", "return_tokens_as_token_ids", "return_token_ids"),
      FastCheck.oneof(FastCheck.boolean(), FastCheck.nat(5), FastCheck.constant(null))
    )
    FastCheck.assert(
      FastCheck.property(tokens, noise, noise, noise, noise, (wanted, overrides, body, row, extraBody) => {
        const result = sent(
          { samplingOverrides: overrides, extraBody, tokens: wanted },
          { ...body, metadata: { extra_body: JSON.stringify(row) } }
        )
        const asked: Fields = {
          logprobs: true,
          top_logprobs: 0,
          return_tokens_as_token_ids: true,
          ...(wanted === "ids" ? { return_token_ids: true } : {}),
          ...overrides
        }
        for (const [name, value] of Object.entries(asked)) assert.deepStrictEqual(result[name], value)
      }),
      runs
    )
  })

  it("merges the template's arguments key by key: the row's over the request's over the config's", () => {
    const kwargs = FastCheck.dictionary(FastCheck.constantFrom("a", "b", "c", "d"), FastCheck.integer())
    FastCheck.assert(
      FastCheck.property(kwargs, kwargs, kwargs, (config, body, row) => {
        const merged = { ...config, ...body, ...row }
        const result = sent(
          { chatTemplateKwargs: config, extraBody: { chat_template_kwargs: { lost: true } } },
          {
            ...(Object.keys(body).length === 0 ? {} : { chat_template_kwargs: body }),
            metadata: { chat_template_kwargs: JSON.stringify(row) }
          }
        )
        assert.deepStrictEqual(
          result["chat_template_kwargs"],
          Object.keys(merged).length === 0 ? { lost: true } : merged
        )
      }),
      runs
    )
  })

  it("keeps one limit of the reply's length, of the highest layer that names one", () => {
    const limits = ["max_tokens", "max_completion_tokens", "max_output_tokens"]
    const limit = FastCheck.option(FastCheck.tuple(FastCheck.constantFrom(...limits), FastCheck.nat()), {
      nil: undefined
    })
    const as = (pair: readonly [string, number] | undefined): Record<string, unknown> =>
      pair === undefined ? {} : { [pair[0]]: pair[1] }
    FastCheck.assert(
      FastCheck.property(limit, limit, limit, limit, (override, body, row, extra) => {
        const result = sent(
          { samplingOverrides: as(override), extraBody: as(extra) },
          { ...as(body), metadata: { extra_body: JSON.stringify(as(row)) } }
        )
        const kept = Object.fromEntries(Object.entries(result).filter(([key]) => limits.includes(key)))
        assert.deepStrictEqual(kept, as(override ?? body ?? row ?? extra))
      }),
      runs
    )
  })

  it("tells null from absent, and drops what is undefined", () => {
    assert.deepStrictEqual(sent({ extraBody: { seed: 1, top_p: 1 } }, { seed: null, top_p: undefined }), {
      seed: null,
      top_p: 1
    })
    assert.deepStrictEqual(sent({}, { top_logprobs: null, logprobs: null }), { logprobs: null })
    assert.deepStrictEqual(sent({}, { chat_template_kwargs: null }), { chat_template_kwargs: null })
    assert.deepStrictEqual(sent({}, JSON.parse('{"__proto__": {"seed": 1}}')), JSON.parse('{"__proto__": {"seed": 1}}'))
  })

  it("leaves the caller's model where the config names none", () => {
    assert.deepStrictEqual(sent({}, { model: "asked" }), { model: "asked" })
  })

  it("maps a chat request's parameters to a completions API", () => {
    assert.deepStrictEqual(
      sent(
        { model: "m", dialect: "completions", tokens: "ids" },
        {
          prompt: "p",
          messages: [],
          max_completion_tokens: 5,
          top_logprobs: 3,
          tool_choice: "auto",
          metadata: { extra_body: '{"seed":7,"add_special_tokens":false}' }
        }
      ),
      {
        model: "m",
        prompt: "p",
        max_tokens: 5,
        logprobs: 3,
        return_tokens_as_token_ids: true,
        return_token_ids: true,
        seed: 7,
        add_special_tokens: false
      }
    )
    assert.deepStrictEqual(sent({ dialect: "completions", tokens: "logprobs" }, { prompt: "p" }), {
      prompt: "p",
      logprobs: 0,
      return_tokens_as_token_ids: true
    })
    assert.deepStrictEqual(sent({ dialect: "completions" }, { prompt: "p", logprobs: true }), {
      prompt: "p",
      logprobs: 0
    })
    assert.deepStrictEqual(sent({ dialect: "completions" }, { prompt: "p", logprobs: false }), { prompt: "p" })
    assert.strictEqual(refused({ dialect: "completions" }, { messages: [] }), "prompt")
    assert.strictEqual(refused({ dialect: "completions" }, { prompt: "p", tools: [{}] }), "tools")
  })

  it("refuses by name what cannot go", () => {
    assert.strictEqual(refused({ tokens: "ids" }, { n: 2 }), "n")
    assert.strictEqual(refused({ tokens: "ids", samplingOverrides: { n: 2 } }, { n: 1 }), "n")
    assert.strictEqual(sent({ tokens: "ids", samplingOverrides: { n: 1 } }, { n: 2 })["n"], 1)
    assert.strictEqual(sent({ tokens: "none" }, { n: 2 })["n"], 2)
    assert.strictEqual(refused({ tokens: "ids", dialect: "responses" }, {}), "tokens")
    assert.strictEqual(refused({ tokens: "logprobs", dialect: "messages" }, {}), "tokens")
    assert.strictEqual(refused({}, { chat_template_kwargs: "x" }), "chat_template_kwargs")
    for (const bad of ["{", "[]", "null", "7", { seed: 1 }]) {
      assert.strictEqual(refused({}, { metadata: { extra_body: bad } }), "metadata.extra_body")
      assert.strictEqual(refused({}, { metadata: { chat_template_kwargs: bad } }), "metadata.chat_template_kwargs")
    }
  })

  it("sums up how a reply is drawn", () => {
    assert.deepStrictEqual(
      samplingOf({ model: "m", messages: [], temperature: 0, top_k: -1, max_output_tokens: 9, tools: [] }),
      {
        temperature: 0,
        top_k: -1,
        max_output_tokens: 9
      }
    )
  })
})
