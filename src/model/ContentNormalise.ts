/**
 * A model's content as one text, whatever shape a server gave it: parts, parts that were written out as text, calls of
 * tools that the server took out of the text.
 *
 * @since 0.1.0
 */
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import type { JsonObject } from "./Convert.js"
import { isObject, kindOf, typeName } from "./internal/convert/json.js"
import { closeTag, openTag } from "./internal/convert/think.js"
import { decodeSerialised } from "./internal/serialised.js"

/**
 * Content in which no text for an agent can be found. The reply itself is still in the caller's hands.
 *
 * @since 0.1.0
 * @category errors
 */
export class ContentError extends Schema.TaggedError<ContentError>("deskhand/ContentError")("ContentError", {
  what: Schema.String
}) {
  override get message() {
    return `the reply's content gives no text: ${this.what}. Look at the server's chat template and its parsers`
  }
}

/**
 * @since 0.1.0
 * @category models
 */
export interface StructuredContent {
  readonly content: string
  readonly reasoning?: string
}

type Result<A> = Either.Either<A, ContentError>

const wrong = (what: string): Either.Either<never, ContentError> => Either.left(new ContentError({ what }))

/** Lists written out inside lists written out that are still read. */
const nestingLimit = 4

const actionHeading = /^#+[ \t]*Action\b/im

/** A fence that opens a line break before its code and is closed. */
const completeFence = /```[^\n`]*\n[\s\S]*?```/

const partText = (part: unknown): Result<string> => {
  if (!isObject(part)) return wrong(`${kindOf(part)} where a part should be`)
  const { text, type } = part
  if (type !== "text" && type !== "output_text") return wrong(`a part of type ${typeName(type)}`)
  return typeof text === "string" ? Either.right(text) : wrong(`a part whose text is ${kindOf(text)}`)
}

/** Several parts are one attempt after another, of which the first that holds code counts. */
const firstAction = (texts: ReadonlyArray<string>): Result<string> => {
  const whole = texts.join("")
  const fence = completeFence.exec(whole)
  if (fence === null) return wrong(`${texts.length} parts and no code that is closed among them`)
  const kept = whole.slice(0, fence.index + fence[0].length)
  return Either.right(actionHeading.test(kept) ? kept : `## Action:\n${kept}`)
}

const fromParts = (parts: ReadonlyArray<unknown>, depth: number): Result<string> =>
  Either.flatMap(Either.all(parts.map(partText)), (texts): Result<string> => {
    const [first] = texts
    if (first === undefined) return wrong("no parts")
    return texts.length === 1 ? fromText(first, depth) : firstAction(texts)
  })

const escapes: Readonly<Record<string, string>> = { n: "\n", t: "\t", r: "\r", "'": "'", '"': '"', "\\": "\\" }

/** Code on one line with escapes in place of its line breaks was cut out of a text that was written out. */
const unescaped = (text: string): string =>
  text.includes("\n") ? text : text.replace(/\\([ntr'"\\])/g, (whole, letter: string) => escapes[letter] ?? whole)

/** What is left of a list that was not written out to its end: its first code, where there is some. */
const salvaged = (text: string): string => {
  const fence = /```[\s\S]*?```/.exec(text)
  return fence === null ? text : `## Action:\nExecute the first generated action.\n## Code:\n${unescaped(fence[0])}`
}

const fromText = (text: string, depth: number): Result<string> => {
  if (!text.trimStart().startsWith("[")) return Either.right(text)
  return Option.match(decodeSerialised(text.trim()), {
    onNone: () => Either.right(salvaged(text)),
    onSome: (value) => {
      if (!Array.isArray(value)) return Either.right(text)
      return depth >= nestingLimit
        ? wrong(`lists written out in lists, more than ${nestingLimit} deep`)
        : fromParts(value, depth + 1)
    }
  })
}

/**
 * Content as one text. A text stands as it is, unless it is a list of parts that a server wrote out as JSON or as a
 * Python literal: that is read, up to four such lists inside each other. One part is its text; of several, all up to and
 * including the first closed code is kept, under an `Action` heading. A list that breaks off gives its first code under a
 * placeholder for the action. Fails on anything else.
 *
 * @since 0.1.0
 * @category normalisation
 */
export const normaliseContent = (content: unknown): Result<string> => {
  if (typeof content === "string") return fromText(content, 0)
  return Array.isArray(content) ? fromParts(content, 0) : wrong(`${kindOf(content)} where a text should be`)
}

const parsed = (source: unknown): Option.Option<unknown> => {
  if (typeof source !== "string") return source === undefined ? Option.none() : Option.some(source)
  try {
    return Option.some(JSON.parse(source))
  } catch {
    return Option.none()
  }
}

const callText = (call: unknown): ReadonlyArray<string> => {
  const called = isObject(call) && isObject(call["function"]) ? call["function"] : undefined
  if (called === undefined || typeof called["name"] !== "string") return []
  return Option.match(parsed(called["arguments"]), {
    onNone: () => [],
    onSome: (args) => [`<tool_call>\n${JSON.stringify({ name: called["name"], arguments: args })}\n</tool_call>`]
  })
}

const withCalls = (content: string, message: JsonObject): string => {
  const calls = message["tool_calls"]
  if (!Array.isArray(calls) || content.includes("<tool_call>")) return content
  const texts = calls.flatMap(callText)
  return [...(content === "" ? [] : [content]), ...texts].join("\n")
}

/** Calls stand for content that is not there. */
const contentOf = (message: JsonObject): Result<string> => {
  const content = message["content"]
  const calls = message["tool_calls"]
  const isAbsent = content === null || content === undefined
  return isAbsent && Array.isArray(calls) && calls.length > 0 ? Either.right("") : normaliseContent(content)
}

/**
 * The message of a chat completion as one text, its native tool calls written into it as `<tool_call>` blocks where it
 * has none by itself. A call whose arguments are no JSON is left out. Fails as `normaliseContent`.
 *
 * @since 0.1.0
 * @category normalisation
 */
export const normaliseMessage = (message: JsonObject): Result<string> =>
  Either.map(contentOf(message), (content) => withCalls(content, message))

const reasoningField = (message: JsonObject): string | undefined =>
  [message["reasoning_content"], message["reasoning"]].find(
    (value): value is string => typeof value === "string" && value !== ""
  )

/** A text that begins with a span of reasoning: the span, and what follows it. */
const leadingThink = (text: string): { readonly reasoning: string; readonly rest: string } | undefined => {
  const start = text.trimStart()
  const end = start.startsWith(openTag) ? start.indexOf(closeTag) : -1
  if (end === -1) return undefined
  return { reasoning: start.slice(openTag.length, end), rest: start.slice(end + closeTag.length) }
}

/**
 * As `normaliseMessage`, with the reasoning apart: from its field, or from a `<think>` span that the content begins
 * with, after which the rest is normalised again.
 *
 * @since 0.1.0
 * @category normalisation
 */
export const structuredContent = (message: JsonObject): Result<StructuredContent> =>
  Either.flatMap(contentOf(message), (content): Result<StructuredContent> => {
    const field = reasoningField(message)
    if (field !== undefined) return Either.right({ content: withCalls(content, message), reasoning: field })
    const thought = leadingThink(content)
    if (thought === undefined) return Either.right({ content: withCalls(content, message) })
    return Either.map(normaliseContent(thought.rest), (rest) => ({
      content: withCalls(rest, message),
      reasoning: thought.reasoning
    }))
  })
