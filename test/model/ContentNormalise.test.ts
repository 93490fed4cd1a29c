import { assert, describe, it } from "@effect/vitest"
import * as Either from "effect/Either"
import * as fc from "effect/FastCheck"
import * as PythonLiteral from "../../src/desktop/PythonLiteral.js"
import {
  type ContentError,
  normaliseContent,
  normaliseMessage,
  structuredContent
} from "../../src/model/ContentNormalise.js"
import vectors from "../vectors/osworld-gym-vectors.json" with { type: "json" }
import { words } from "./convert/conversations.js"

const normal = (content: unknown) => Either.getOrThrow(normaliseContent(content))

const wrong = <A>(result: Either.Either<A, ContentError>): string =>
  Either.match(result, { onLeft: (error) => error.message, onRight: () => assert.fail("it was taken") })

const part = (text: unknown, type = "text") => ({ type, text })

/** As Python writes a list of one part: `repr([{"type": "text", "text": text}])`, every text single quoted. */
const repr = (text: string): string => `[{'type': 'text', 'text': ${PythonLiteral.fromString(text)}}]`

describe("the field's vectors", () => {
  it.each(vectors.chat_content_normalise)("%j", (vector) => {
    const result = normaliseContent(vector.content)
    if ("error" in vector) assert.isTrue(Either.isLeft(result))
    else assert.strictEqual(Either.getOrThrow(result), vector.result)
  })
})

describe("lists that were written out", () => {
  it("are read as JSON and as Python, whatever the text", () => {
    fc.assert(
      fc.property(words, (value) => {
        // A text that is itself a list would be read once more; the next test has that.
        const text = `-${value}`
        assert.strictEqual(normal(JSON.stringify([part(text)])), text)
        assert.strictEqual(normal(repr(text)), text)
        assert.strictEqual(normal(text), text)
      }),
      { numRuns: 1_000 }
    )
  })

  it("are read in each other, four deep and no deeper", () => {
    const wrap = (times: number): string => (times === 0 ? "x" : JSON.stringify([part(wrap(times - 1))]))
    assert.strictEqual(normal(wrap(4)), "x")
    assert.include(wrong(normaliseContent(wrap(5))), "more than 4 deep")
    const repeated = (times: number): string => (times === 0 ? "x" : repr(repeated(times - 1)))
    assert.strictEqual(normal(repeated(4)), "x")
  })

  it("may be escaped twice, apostrophes and all", () => {
    assert.strictEqual(normal("[{'type': 'text', 'text': 'don\\\\'t'}]"), "don't")
  })

  it("that break off give their first code, its line breaks as they were", () => {
    const placeholder = "## Action:\nExecute the first generated action.\n## Code:\n"
    assert.strictEqual(
      normal("[{'type': 'text', 'text': 'a ```python\\nf(\\'x\\')\\n``` b ```python\\ng()\\n```"),
      `${placeholder}\`\`\`python\nf('x')\n\`\`\``
    )
    // Python takes no line break inside a text, so this is no list.
    assert.strictEqual(normal("[{'type': 'text', 'text': '```\nf()\n```'}]"), `${placeholder}\`\`\`\nf()\n\`\`\``)
    assert.strictEqual(normal("[{'type': 'text', 'te"), "[{'type': 'text', 'te")
  })

  it("may be any other Python, which is no text", () => {
    for (const content of ["[]", "[None, True]", "[1.5, -2e3]", "[(1, 2), {'a': []}]", "[{'type': 'image'}]"]) {
      assert.isTrue(Either.isLeft(normaliseContent(content)), content)
    }
    // Neither JSON nor Python.
    for (const content of [
      "[x]",
      "[1, 2",
      "[1 2]",
      "['a' 'b']",
      "[{1: 2}]",
      "['\\x4']",
      "[] and more",
      "[".repeat(1e5)
    ]) {
      assert.strictEqual(normal(content), content)
    }
  })
})

describe("parts", () => {
  it("of several, all up to the first closed code is kept", () => {
    const parts = [part("a ```", "output_text"), part("py\nf()\n``` b"), part("```\ng()\n```")]
    assert.strictEqual(normal(parts), "## Action:\na ```py\nf()\n```")
    assert.include(wrong(normaliseContent([part("a"), part("```py\nf()")])), "2 parts and no code")
  })

  it("that are no text are wrong, and so is content that is neither", () => {
    assert.include(wrong(normaliseContent([part(1)])), "a part whose text is a number")
    assert.include(wrong(normaliseContent([part("x"), "y"])), "a text where a part should be")
    assert.include(wrong(normaliseContent(null)), "null where a text should be")
  })
})

describe("messages", () => {
  const call = (args: unknown) => ({ id: "c", function: { name: "click", arguments: args } })

  it("have their native calls written into the text", () => {
    const message = { content: "go", tool_calls: [call('{"x": 1}'), call("{"), call("[2]")] }
    assert.strictEqual(
      Either.getOrThrow(normaliseMessage(message)),
      'go\n<tool_call>\n{"name":"click","arguments":{"x":1}}\n</tool_call>\n<tool_call>\n{"name":"click","arguments":[2]}\n</tool_call>'
    )
    assert.strictEqual(
      Either.getOrThrow(normaliseMessage({ content: null, tool_calls: [call("{}")] })),
      '<tool_call>\n{"name":"click","arguments":{}}\n</tool_call>'
    )
    const written = { ...message, content: "<tool_call>mine</tool_call>" }
    assert.strictEqual(Either.getOrThrow(normaliseMessage(written)), written.content)
    assert.isTrue(Either.isLeft(normaliseMessage({ content: null })))
  })

  it("give their reasoning from a field, or from a span that they begin with", () => {
    const read = (message: Record<string, unknown>) => Either.getOrThrow(structuredContent(message))
    assert.deepStrictEqual(read({ content: "a", reasoning_content: "r" }), { content: "a", reasoning: "r" })
    assert.deepStrictEqual(read({ content: "a", reasoning_content: "", reasoning: "r" }), {
      content: "a",
      reasoning: "r"
    })
    assert.deepStrictEqual(read({ content: "<think>r</think>a" }), { content: "a", reasoning: "r" })
    assert.deepStrictEqual(read({ content: `\n<think>r\n</think>\n${repr("a")}` }), { content: "a", reasoning: "r\n" })
    assert.deepStrictEqual(read({ content: "a <think>r</think>" }), { content: "a <think>r</think>" })
    assert.deepStrictEqual(read({ content: "<think>r" }), { content: "<think>r" })
  })
})
