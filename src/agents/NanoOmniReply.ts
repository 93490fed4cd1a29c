/**
 * Reads a reply with Thought, Action and Code sections. Nothing outside of the Code section is ever an action.
 *
 * @since 0.1.0
 */
import * as Either from "effect/Either"
import type { AssistantMessage } from "../model/Conversation.js"
import type { ParseFailure } from "../rollout/Agent.js"
import { projectCode, repairNewlines } from "./internal/projection.js"
import { syntaxError } from "./internal/python.js"
import { act, unreadable, word } from "./internal/reply.js"
import type { Read, Size } from "./Protocol.js"

/**
 * @since 0.1.0
 * @category models
 */
export interface ReadOptions {
  readonly finishReason: string
  readonly screen: Size
  /** Whether the thought is what the model reasoned, and not a section of its reply. */
  readonly thinking: boolean
  readonly coordinateType: "relative" | "absolute" | "qwen25"
}

/** Text between and in fences, in turn; the last fence may not be closed. */
const fenced = (text: string): ReadonlyArray<string> => text.split("```")

/** Line breaks that were written as `\n` outside of fences. */
const unescaped = (text: string): string =>
  fenced(text)
    .map((piece, at) => (at % 2 === 0 ? piece.replace(/\\r\\n|\\n/g, "\n") : piece))
    .join("```")

interface Section {
  readonly name: string
  readonly body: string
}

const heading = /^##[ \t]*(thought|action|code)\b[ \t]*:?[ \t]*/i

/** The sections in their order. A heading in a fence is a comment of the code and parts nothing. */
const sections = (text: string): ReadonlyArray<Section> => {
  const found: Array<{ name: string; lines: Array<string> }> = []
  let inFence = false
  for (const line of text.split("\n")) {
    const head = inFence ? null : heading.exec(line)
    if (head !== null) found.push({ name: (head[1] ?? "").toLowerCase(), lines: [line.slice(head[0].length)] })
    else if (!inFence && /^##(?!#)/.test(line)) found.push({ name: "", lines: [] })
    else found.at(-1)?.lines.push(line)
    if (line.split("```").length % 2 === 0) inFence = !inFence
  }
  return found.map(({ lines, name }) => ({ name, body: lines.join("\n").trim() }))
}

/** The last fence of the section with a tag of ours or none, or the bare section. */
const codeOf = (body: string): Either.Either<string, ParseFailure> => {
  const fences = Array.from(body.matchAll(/```([^\n`]*)(\n[\s\S]*?)?```/g), ([, first = "", rest = ""]) => {
    const tagged = /^(?:code|python|py|json)?[ \t]*$/i.test(first.trim())
    // A fence with another tag is taken as code that begins on the fence's line, and compiles or does not.
    return tagged ? rest.trim() : (first + rest).trim()
  })
  const last = fences.at(-1)
  if (last === undefined && body.startsWith("```")) return unreadable("<Error>: unsupported or unterminated Code fence")
  const code = last ?? body
  return code === "" ? unreadable("<Error>: the ## Code section is empty") : Either.right(code)
}

const status = /status["']?\s*[:=]\s*["'](success|failure)["']/i

const decide = (code: string, options: ReadOptions): Either.Either<Pick<Read, "decisions" | "code">, ParseFailure> => {
  const named = (text: string) => {
    const decision = word(text)
    return decision === undefined ? undefined : Either.right({ decisions: [decision], code: text })
  }
  const lower = code.toLowerCase()
  const alone = lower.includes("computer.wait") ? "WAIT" : code
  if (alone === code && lower.includes("computer.terminate")) {
    const said = status.exec(code.slice(lower.indexOf("computer.terminate")))?.[1]?.toLowerCase()
    if (said === undefined) return unreadable("<Error>: computer.terminate is missing a success/failure status")
    return named(said === "success" ? "DONE" : "FAIL") ?? unreadable("<Error>: no decision")
  }
  const token = named(alone)
  if (token !== undefined) return token
  const projected = projectCode(code, options.screen, options.coordinateType)
  const fault = syntaxError(projected)
  return fault === undefined ? Either.right({ decisions: [act(projected)], code: projected }) : unreadable(fault)
}

/**
 * What stands for an action that the reply does not put into words.
 *
 * @since 0.1.0
 * @category constants
 */
export const inferredAction = "Execute the provided code."

/**
 * - `computer.wait` anywhere in the code is a wait, `computer.terminate` is an end with the status that it names, and the
 *   bare words WAIT, DONE and FAIL are themselves.
 * - Anything else is Python: its points become pixels, and it has to compile.
 * - A reply without a Code section, or with one that is empty or not closed, cannot be read, whatever else it holds.
 *
 * @since 0.1.0
 * @category parsing
 */
export const read = (reply: AssistantMessage, options: ReadOptions): Either.Either<Read, ParseFailure> => {
  if (options.finishReason !== "stop" && options.finishReason !== "tool_calls") {
    return unreadable(`the reply ended otherwise than by itself: finish_reason=${options.finishReason}`)
  }
  const wrapped = /^\s*<think>([\s\S]*?)<\/think>/.exec(reply.text)
  const reasoning = reply.reasoning ?? wrapped?.[1]?.trim()
  const content = unescaped(wrapped === null ? reply.text : reply.text.slice(wrapped[0].length)).trimStart()
  const found = sections(content)
  const bodyOf = (name: string) => found.find((section) => section.name === name)?.body
  const section = bodyOf("code")
  if (section === undefined) return unreadable("<Error>: no explicit ## Code section found")
  return Either.map(
    Either.flatMap(codeOf(section), (code) => decide(repairNewlines(code), options)),
    (decided) => ({
      ...decided,
      thought: (options.thinking ? reasoning : (bodyOf("thought") ?? reasoning)) ?? "",
      action: bodyOf("action") || inferredAction
    })
  )
}
