import * as FastCheck from "effect/FastCheck"
import type { SseEvent } from "../../src/model/internal/sse.js"
import type { JsonObject } from "../../src/model/internal/streams/streamError.js"

/** An event of a chat stream. */
export const sent = (data: unknown, event = "message"): SseEvent => ({
  event,
  data: typeof data === "string" ? data : JSON.stringify(data)
})

export const done: SseEvent = sent("[DONE]")

/** A chunk of one choice. */
export const chunk = (delta: JsonObject, choice: JsonObject = {}, fields: JsonObject = {}): JsonObject => ({
  id: "chatcmpl-1",
  object: "chat.completion.chunk",
  created: 1_700_000_000,
  model: "served",
  ...fields,
  choices: [{ index: 0, delta, finish_reason: null, ...choice }]
})

export interface Call {
  readonly id: string
  readonly name: string
  readonly arguments: string
}

/** What a model said, in the order in which servers stream it. */
export interface Said {
  readonly reasoning: string
  readonly content: string
  readonly refusal: string
  readonly calls: ReadonlyArray<Call>
  readonly finish: string
  readonly usage: JsonObject | undefined
}

/** The completion that a call without `stream` gives. */
export const completionOf = (said: Said): JsonObject => ({
  id: "chatcmpl-1",
  object: "chat.completion",
  created: 1_700_000_000,
  model: "served",
  choices: [
    {
      index: 0,
      message: {
        role: "assistant",
        content: said.content === "" ? null : said.content,
        ...(said.reasoning === "" ? {} : { reasoning_content: said.reasoning }),
        ...(said.refusal === "" ? {} : { refusal: said.refusal }),
        ...(said.calls.length === 0
          ? {}
          : {
              tool_calls: said.calls.map(({ id, name, arguments: text }) => ({
                id,
                type: "function",
                function: { name, arguments: text }
              }))
            })
      },
      finish_reason: said.finish
    }
  ],
  ...(said.usage === undefined ? {} : { usage: said.usage })
})

const pieces = (text: string, size: number): ReadonlyArray<string> =>
  Array.from({ length: Math.ceil(text.length / size) }, (_, index) => text.slice(index * size, (index + 1) * size))

/** How a server cuts a reply: characters to a delta, and whether calls come in turns, not one after the other. */
export interface Cut {
  readonly size: number
  readonly turns: boolean
}

const callDeltas = (calls: ReadonlyArray<Call>, { size, turns }: Cut): ReadonlyArray<JsonObject> => {
  const each = calls.map(({ id, name, arguments: text }, index) => [
    { index, id, type: "function", function: { name, arguments: "" } },
    ...pieces(text, size).map((piece) => ({ index, function: { arguments: piece } }))
  ])
  // In turns, blanks after whole arguments could come when the next call has begun, and are let go then.
  if (!turns || calls.some(({ arguments: text }) => text !== text.trimEnd())) return each.flat()
  const longest = Math.max(0, ...each.map(({ length }) => length))
  return Array.from({ length: longest }, (_, at) => each.flatMap((deltas) => deltas.slice(at, at + 1))).flat()
}

/** The stream in which a server tells it. */
export const streamOf = (said: Said, cut: Cut): ReadonlyArray<SseEvent> => [
  sent(chunk({ role: "assistant" })),
  ...pieces(said.reasoning, cut.size).map((piece) => sent(chunk({ reasoning_content: piece }))),
  ...pieces(said.content, cut.size).map((piece) => sent(chunk({ content: piece }))),
  ...pieces(said.refusal, cut.size).map((piece) => sent(chunk({ refusal: piece }))),
  ...callDeltas(said.calls, cut).map((call) => sent(chunk({ tool_calls: [call] }))),
  sent(chunk({}, { finish_reason: said.finish })),
  ...(said.usage === undefined ? [] : [sent({ ...chunk({}), choices: [], usage: said.usage })]),
  done
]

const text = FastCheck.oneof(
  FastCheck.string({ maxLength: 12 }),
  FastCheck.array(
    FastCheck.constantFrom("<think>", "</think>", "<", "<th", "think>", "</", "a b", "\n", "ä", "😀", " "),
    { maxLength: 8 }
  ).map((parts) => parts.join(""))
)

// Blanks around them, and none at all, are what models write too.
const args = FastCheck.oneof(
  FastCheck.constantFrom("", "{}", " {}", '{"a": "}"}', '{"a":{"b":[1,2]}} '),
  FastCheck.dictionary(FastCheck.string({ maxLength: 4 }), FastCheck.jsonValue({ maxDepth: 1 }), { maxKeys: 3 }).map(
    (value) => JSON.stringify(value)
  )
)

const count = FastCheck.nat({ max: 100_000 })

export const said: FastCheck.Arbitrary<Said> = FastCheck.record({
  reasoning: FastCheck.oneof({ weight: 2, arbitrary: FastCheck.constant("") }, text),
  content: text,
  refusal: FastCheck.oneof({ weight: 4, arbitrary: FastCheck.constant("") }, FastCheck.constant("I can't do that")),
  calls: FastCheck.array(FastCheck.record({ name: FastCheck.constantFrom("click", "type"), arguments: args }), {
    maxLength: 3
  }).map((calls) => calls.map((call, index) => ({ ...call, id: `call_${index}` }))),
  finish: FastCheck.constantFrom("stop", "length", "tool_calls", "content_filter"),
  usage: FastCheck.option(
    FastCheck.record({
      prompt_tokens: count,
      completion_tokens: count,
      total_tokens: count,
      prompt_tokens_details: FastCheck.option(FastCheck.record({ cached_tokens: count })),
      completion_tokens_details: FastCheck.option(FastCheck.record({ reasoning_tokens: count }))
    }),
    { nil: undefined }
  )
})

export const cut: FastCheck.Arbitrary<Cut> = FastCheck.record({
  size: FastCheck.integer({ min: 1, max: 20 }),
  turns: FastCheck.boolean()
})
