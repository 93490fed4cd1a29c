/**
 * Reads replies of OpenCUA, Kimi and models with their form: Observation, Thought, Action and Code sections, the code in a
 * fence.
 *
 * @since 0.1.0
 */
import * as Either from "effect/Either"
import type { DesktopAction } from "../desktop/Action.js"
import type { AssistantMessage } from "../model/Conversation.js"
import { Decision, type ParseFailure } from "../rollout/Agent.js"
import { project, rewritePoints } from "./internal/projection.js"
import { spans, syntaxError } from "./internal/python.js"
import { act, unreadable, withoutThoughts, word } from "./internal/reply.js"
import type { Read, Size } from "./Protocol.js"

/**
 * @since 0.1.0
 * @category models
 */
export interface ReadOptions {
  readonly screen: Size
  /** The size of the picture that points are pixels of; shares of the screen unless given. */
  readonly image?: Size
}

type Result<A> = Either.Either<A, ParseFailure>

// -----------------------------------------------------------------------------
// Sections
// -----------------------------------------------------------------------------

const heading = /^[ \t]*##(?!#)[ \t]*(?:(observation|thought|action|code)\b[ \t]*:?[ \t]*)?/i

/** The sections by name; of two with one name, the last. A heading within a fence is a comment of the code. */
const sectionsOf = (text: string): ReadonlyMap<string, string> => {
  const found = new Map<string, Array<string>>()
  let lines: Array<string> = []
  let inFence = false
  for (const line of text.split("\n")) {
    const head = inFence ? null : heading.exec(line)
    if (head === null) {
      lines.push(line)
    } else {
      lines = [line.slice(head[0].length)]
      if (head[1] !== undefined) found.set(head[1].toLowerCase(), lines)
    }
    if (line.split("```").length % 2 === 0) inFence = !inFence
  }
  return new Map(Array.from(found, ([name, body]) => [name, body.join("\n").trim()]))
}

/**
 * The code of the last fence that is closed. Where there are sections it is in the one for code: what a model quotes in
 * its thoughts is not meant to run.
 */
const codeOf = (text: string, sections: ReadonlyMap<string, string>): Result<string> => {
  const within = sections.size === 0 ? text : sections.get("code")
  if (within === undefined) return unreadable("the reply has no ## Code section")
  const last = Array.from(within.matchAll(/```([\s\S]*?)```/g)).at(-1)?.[1]
  if (last === undefined) return unreadable("the reply has no closed fence with code")
  const tag = /^[A-Za-z0-9_+-]+(?=[ \t]*(?:\r?\n|$))/.exec(last)?.[0] ?? ""
  const foreign = tag !== "" && word(tag) === undefined && !/^(?:python3?|py|code)$/i.test(tag)
  if (foreign) return unreadable(`the code is in a fence for ${tag.slice(0, 100)}, and not for python`)
  // A language may also have the code behind it on its line; a variable of its name is none.
  const code = last.replace(/^(?:python3?|py|code)\b(?!\s*[-+*/%&|^=.,:;([])/i, "").trim()
  return code === "" ? unreadable("the fence is empty") : Either.right(code)
}

// -----------------------------------------------------------------------------
// Code
// -----------------------------------------------------------------------------

const statusAt = /\bstatus["']?\s*[:=]\s*["'](success|failure)["']/gi
const onlyStatus = /^\s*["'](success|failure)["']\s*$/i

const ending = (given: string): Result<Decision<DesktopAction>> => {
  const named = Array.from(given.matchAll(statusAt), ([, status = ""]) => status.toLowerCase())
  const [status = onlyStatus.exec(given)?.[1]?.toLowerCase(), ...others] = named
  if (others.some((other) => other !== status)) return unreadable("computer.terminate names more than one status")
  switch (status) {
    case "success":
      return Either.right(Decision.Done())
    case "failure":
      return Either.right(Decision.Fail())
    default:
      return unreadable("computer.terminate wants a status: success or failure")
  }
}

const special = /^computer\.(wait|terminate)[ \t]*\(([\s\S]*)\)[ \t]*;?$/i

const withoutComments = (code: string): string =>
  spans(code)
    .map(({ kind, text }) => (kind === "comment" ? "" : text))
    .join("")
    .trim()

/** A statement that is no Python; `undefined` for one that is. */
const command = (written: string): Result<Decision<DesktopAction>> | undefined => {
  const statement = withoutComments(written)
  const alone = word(statement)
  if (alone !== undefined) return Either.right(alone)
  const [, name, given = ""] = special.exec(statement) ?? []
  // What stands between the outer parentheses may be more than one call.
  if (name === undefined || spans(given).some(({ kind, text }) => kind === "code" && /[();]/.test(text)))
    return undefined
  return name.toLowerCase() === "wait" ? Either.right(Decision.Wait()) : ending(given)
}

/** Python as it runs on the desktop: points in pixels, and checked. */
const python = (written: string, { image, screen }: ReadOptions): Result<Decision<DesktopAction>> => {
  const known = spans(written)
    .map(({ kind, text }) =>
      kind === "code" ? text.replace(/(?<![\w.])computer\.triple_click\b/g, "pyautogui.tripleClick") : text
    )
    .join("")
  const stray = spans(known).find(({ kind, text }) => kind === "code" && /(?<![\w.])computer\s*\./.test(text))
  if (stray !== undefined) {
    return unreadable(
      "computer.wait and computer.terminate are statements of their own, and there is no other computer function but triple_click"
    )
  }
  const code = rewritePoints(known, (x, y) => {
    const shares = Math.abs(x) <= 1 && Math.abs(y) <= 1
    if (image === undefined || shares) return project(x, y, screen, "relative")
    return [Math.trunc((x * screen.width) / image.width), Math.trunc((y * screen.height) / image.height)]
  })
  const fault = syntaxError(code)
  return fault === undefined ? Either.right(act(code)) : unreadable(fault)
}

/** Python between the commands, in order. Each stretch has to be whole, so a line within a text is never a command. */
const decide = (code: string, options: ReadOptions): Result<ReadonlyArray<Decision<DesktopAction>>> => {
  // A call may take several lines when it is all there is.
  const whole = command(code)
  if (whole !== undefined) return Either.map(whole, (decision) => [decision])
  const found: Array<Result<Decision<DesktopAction>>> = []
  let lines: Array<string> = []
  const flush = () => {
    const stretch = lines.join("\n").trimEnd()
    if (withoutComments(stretch) !== "") found.push(python(stretch, options))
    lines = []
  }
  for (const line of code.split("\n")) {
    // What is indented is within a statement.
    const decision = /^\s/.test(line) ? undefined : command(line)
    if (decision === undefined) {
      lines.push(line)
    } else {
      flush()
      found.push(decision)
    }
  }
  flush()
  return found.length === 0 ? unreadable("the code is comments alone") : Either.all(found)
}

// -----------------------------------------------------------------------------
// Replies
// -----------------------------------------------------------------------------

const marks = /◁\/?think▷/g

/** Kimi's own tags as the ones that are known. */
const plain = (text: string): string =>
  text.replaceAll("\r\n", "\n").replace(marks, (mark) => (mark.includes("/") ? "</think>" : "<think>"))

/**
 * - The code is Python, or commands on lines of their own: `computer.wait()`, `computer.terminate(status=...)`, and the
 *   words WAIT, DONE and FAIL. Each command and each stretch of Python is a decision, in order.
 * - Points of clicks, moves and drags become pixels of the screen. Everything that is run can be compiled.
 * - A reply without code cannot be read, whatever else it says.
 *
 * @since 0.1.0
 * @category parsing
 */
export const read = (reply: AssistantMessage, options: ReadOptions): Either.Either<Read, ParseFailure> => {
  const said = withoutThoughts(plain(reply.text))
  const sections = sectionsOf(said)
  const thought = reply.reasoning ?? sections.get("thought")
  const action = sections.get("action")
  return Either.gen(function* () {
    const code = yield* codeOf(said, sections)
    const decisions = yield* decide(code, options)
    return {
      decisions,
      ...(thought === undefined ? {} : { thought }),
      ...(action === undefined || action === "" ? {} : { action }),
      code: decisions.map((one) => (one._tag === "Act" ? one.action.code : one._tag.toUpperCase())).join("\n")
    }
  })
}

/**
 * The words of a reply's Observation; empty where it has none.
 *
 * @since 0.1.0
 * @category parsing
 */
export const observation = (reply: AssistantMessage): string =>
  sectionsOf(withoutThoughts(plain(reply.text))).get("observation") ?? ""
