/** What agents share whose models call a computer tool. */
import * as Either from "effect/Either"
import * as ParseResult from "effect/ParseResult"
import type { DesktopAction } from "../../desktop/Action.js"
import type { AssistantMessage, ComputerCallPart } from "../../model/Conversation.js"
import { Decision, type ParseFailure } from "../../rollout/Agent.js"
import type { Read } from "../Protocol.js"
import { combination } from "./keys.js"
import type { Input } from "./pyautogui.js"
import { act, unreadable } from "./reply.js"

export type Result<A> = Either.Either<A, ParseFailure>

/** What the model is asked to say when the task cannot be done, so that no word of its has to be guessed at. */
export const infeasible = "[INFEASIBLE]"

/** What is wrong with an action, for the model to read. */
export const wrong = (error: ParseResult.ParseError): Either.Either<never, ParseFailure> => {
  const issues = ParseResult.ArrayFormatter.formatErrorSync(error)
  const lines = issues.map(({ message, path }) => (path.length === 0 ? message : `${path.join(".")} ${message}`))
  return unreadable(`an action cannot be read: ${Array.from(new Set(lines)).join("; ").slice(0, 1000)}`)
}

/** An action of a call as what hands do; or nothing to do but to look again. */
export type Move = Input | ReadonlyArray<Input> | "wait" | "look"

/** The names of keys that are pressed together. */
export const chord = (text: string): Result<ReadonlyArray<string>> =>
  Either.fromNullable(combination(text), () =>
    Either.merge(unreadable(`${JSON.stringify(text.slice(0, 200))} is no name of a key`))
  )

export const pressed = (keys: ReadonlyArray<string>): ReadonlyArray<Input> => {
  const [first, ...more] = keys
  if (first === undefined) return []
  return more.length === 0 ? [{ type: "press", key: first }] : [{ type: "hotkey", keys }]
}

/** Each of a list; the first that cannot be read makes the whole reply unreadable. */
export const every = <A, B>(values: ReadonlyArray<A>, read: (value: A) => Result<B>): Result<ReadonlyArray<B>> => {
  const done: Array<B> = []
  for (const value of values) {
    const one = read(value)
    if (Either.isLeft(one)) return Either.left(one.left)
    done.push(one.right)
  }
  return Either.right(done)
}

const decision = (
  move: Move,
  code: (inputs: ReadonlyArray<Input>) => string
): ReadonlyArray<Decision<DesktopAction>> => {
  if (move === "look") return []
  if (move === "wait") return [Decision.Wait()]
  return [act(code("type" in move ? [move] : move))]
}

const readOf = (reply: AssistantMessage, decisions: ReadonlyArray<Decision<DesktopAction>>): Read => {
  const { reasoning, text } = reply
  return {
    decisions,
    ...(reasoning === undefined || reasoning.trim() === "" ? {} : { thought: reasoning }),
    ...(text.trim() === "" ? {} : { action: text.trim() }),
    code: decisions.map((one) => (one._tag === "Act" ? one.action.code : one._tag.toUpperCase())).join("\n")
  }
}

export interface Reader {
  /** One action of a call, as the model wrote it. */
  readonly move: (action: ComputerCallPart["actions"][number]) => Result<Move>
  /** Whether words without a call say that the task cannot be done. */
  readonly refuses: (words: string) => boolean
  /** What is wrong with a call, whatever its actions are. */
  readonly fault: (call: ComputerCallPart) => string | undefined
  readonly code: (inputs: ReadonlyArray<Input>) => string
}

/**
 * The calls' actions are the decisions, in order; one that cannot be read makes the whole reply unreadable. A reply
 * without a call is the model's last word: that the task cannot be done, or that it is at its end. A screenshot comes
 * after every turn, so that asking for one is a wait where nothing else is asked for.
 */
export const read = (reply: AssistantMessage, { code, fault, move, refuses }: Reader): Result<Read> => {
  const { computerCalls, text, toolCalls } = reply
  if (text.includes(infeasible)) return Either.right(readOf(reply, [Decision.Fail()]))
  const [other] = toolCalls
  if (other !== undefined) return unreadable(`there is no function ${JSON.stringify(other.name.slice(0, 100))}`)
  if (computerCalls.length === 0) {
    if (text.trim() === "") return unreadable("the reply has neither words nor a call of the computer")
    return Either.right(readOf(reply, [refuses(text) ? Decision.Fail() : Decision.Done()]))
  }
  const [broken] = computerCalls.flatMap((call) => fault(call) ?? [])
  if (broken !== undefined) return unreadable(broken)
  const actions = computerCalls.flatMap((call) => call.actions)
  if (actions.length === 0) return unreadable("the call of the computer has no action")
  return Either.map(every(actions, move), (moves) => {
    const decisions = moves.flatMap((one) => decision(one, code))
    return readOf(reply, decisions.length === 0 ? [Decision.Wait()] : decisions)
  })
}
