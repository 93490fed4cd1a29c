/**
 * Reads replies of Qwen's vision models: an Action in words, and calls of `computer_use` in `<tool_call>` tags or as native
 * tool calls.
 *
 * @since 0.1.0
 */
import * as Either from "effect/Either"
import * as ParseResult from "effect/ParseResult"
import * as Schema from "effect/Schema"
import type { DesktopAction } from "../desktop/Action.js"
import type { AssistantMessage } from "../model/Conversation.js"
import { Decision, type ParseFailure } from "../rollout/Agent.js"
import { type Point, toScreen } from "./internal/coordinates.js"
import { combination } from "./internal/keys.js"
import { code, type Input } from "./internal/pyautogui.js"
import { act, unreadable, withoutThoughts } from "./internal/reply.js"
import type { Read, Size } from "./Protocol.js"

/**
 * @since 0.1.0
 * @category models
 */
export interface ReadOptions {
  readonly screen: Size
  /** The far corner of the space that coordinates are in. */
  readonly space: Size
}

const Coordinate = Schema.Tuple(Schema.Finite, Schema.Finite)
const at = { coordinate: Schema.optionalWith(Coordinate, { exact: true }) }
const action = <Name extends string, Fields extends Schema.Struct.Fields>(name: Name, fields: Fields) =>
  Schema.Struct({ action: Schema.Literal(name), ...fields })

// More notches than any page has would keep the desktop busy until the action times out.
const Notches = Schema.Finite.pipe(Schema.between(-10_000, 10_000))

/**
 * The arguments of a call of `computer_use`. Coordinates are in the model's own space.
 *
 * @since 0.1.0
 * @category models
 */
export const ComputerUse = Schema.Union(
  action("key", { keys: Schema.Union(Schema.String, Schema.NonEmptyArray(Schema.String)) }),
  action("type", { text: Schema.NonEmptyString }),
  action("mouse_move", { coordinate: Coordinate }),
  action("left_click", at),
  action("right_click", at),
  action("middle_click", at),
  action("double_click", at),
  action("triple_click", at),
  action("left_click_drag", {
    coordinate: Coordinate,
    start_coordinate: Schema.optionalWith(Coordinate, { exact: true })
  }),
  action("scroll", { pixels: Notches, ...at }),
  action("hscroll", { pixels: Notches, ...at }),
  action("wait", {}),
  action("terminate", { status: Schema.Literal("success", "failure") })
)

/**
 * @since 0.1.0
 * @category models
 */
export type ComputerUse = typeof ComputerUse.Type

const decodeUse = Schema.decodeUnknownEither(ComputerUse)
const decodeCall = Schema.decodeUnknownEither(
  Schema.Struct({ name: Schema.Literal("computer_use"), arguments: Schema.Unknown })
)

type Result<A> = Either.Either<A, ParseFailure>

// -----------------------------------------------------------------------------
// Actions
// -----------------------------------------------------------------------------

const clicks = {
  left_click: { button: "left", clicks: 1 },
  right_click: { button: "right", clicks: 1 },
  middle_click: { button: "middle", clicks: 1 },
  double_click: { button: "left", clicks: 2 },
  triple_click: { button: "left", clicks: 3 }
} as const

const place = ([x, y]: readonly [number, number], { screen, space }: ReadOptions): Result<Point> => {
  const pixel = toScreen(x, y, space, screen)
  return pixel === undefined
    ? unreadable(`the coordinate (${x}, ${y}) is outside of the screen, which is ${space.width} by ${space.height}`)
    : Either.right(pixel)
}

const placed = (
  coordinate: readonly [number, number] | undefined,
  options: ReadOptions
): Result<{ readonly at?: Point }> =>
  coordinate === undefined ? Either.right({}) : Either.map(place(coordinate, options), (at) => ({ at }))

const keysOf = (keys: string | ReadonlyArray<string>): ReadonlyArray<string> | undefined => {
  const found = (typeof keys === "string" ? [keys] : keys).map(combination)
  const known = found.filter((names) => names !== undefined)
  return known.length === found.length ? known.flat() : undefined
}

const inputOf = (use: Exclude<ComputerUse, { action: "wait" | "terminate" }>, options: ReadOptions): Result<Input> => {
  switch (use.action) {
    case "key": {
      const keys = keysOf(use.keys)
      const [first, ...more] = keys ?? []
      if (keys === undefined || first === undefined)
        return unreadable(`${JSON.stringify(use.keys)} are no names of keys`)
      return Either.right(more.length === 0 ? { type: "press", key: first } : { type: "hotkey", keys })
    }
    case "type":
      return Either.right({ type: "write", text: use.text })
    case "mouse_move":
      return Either.map(place(use.coordinate, options), (to) => ({ type: "move", to }))
    case "left_click_drag":
      return Either.gen(function* () {
        const from = yield* placed(use.start_coordinate, options)
        const to = yield* place(use.coordinate, options)
        return { type: "drag", to, seconds: 0.5, ...(from.at === undefined ? {} : { from: from.at }) } as const
      })
    case "scroll":
    case "hscroll": {
      const notches = Math.trunc(use.pixels)
      if (notches === 0) return unreadable(`${use.action} by ${use.pixels} does nothing`)
      const way = use.action === "scroll" ? { right: 0, up: notches } : { right: notches, up: 0 }
      return Either.map(placed(use.coordinate, options), (at) => ({ type: "scroll", ...way, ...at }))
    }
    case "left_click":
    case "right_click":
    case "middle_click":
    case "double_click":
    case "triple_click":
      return Either.map(placed(use.coordinate, options), (at) => ({ type: "click", ...clicks[use.action], ...at }))
  }
}

const decide = (use: ComputerUse, options: ReadOptions): Result<Decision<DesktopAction>> => {
  switch (use.action) {
    case "wait":
      return Either.right(Decision.Wait())
    case "terminate":
      return Either.right(use.status === "success" ? Decision.Done() : Decision.Fail())
    default:
      return Either.map(inputOf(use, options), (input) => act(code(input)))
  }
}

// -----------------------------------------------------------------------------
// Replies
// -----------------------------------------------------------------------------

const json = (text: string): Result<unknown> =>
  Either.orElse(
    Either.try((): unknown => JSON.parse(text)),
    () => unreadable(`this is no JSON: ${text.slice(0, 200)}`)
  )

const wrong = (error: ParseResult.ParseError): Either.Either<never, ParseFailure> =>
  unreadable(ParseResult.TreeFormatter.formatErrorSync(error).slice(0, 2000))

/** Arguments may be JSON within JSON. */
const useOf = (given: unknown): Result<ComputerUse> =>
  Either.flatMap(typeof given === "string" ? json(given) : Either.right(given), (value) =>
    Either.mapLeft(decodeUse(value), wrongFailure)
  )

const wrongFailure = (error: ParseResult.ParseError): ParseFailure => Either.merge(wrong(error))

const callOf = (value: unknown): Result<ComputerUse> =>
  Either.flatMap(Either.mapLeft(decodeCall(value), wrongFailure), (call) => useOf(call.arguments))

const opening = "<tool_call>"
const closing = "</tool_call>"

/** What stands in the tags; the last ones may be left open. */
const tagged = (text: string): ReadonlyArray<string> =>
  text
    .split(opening)
    .slice(1)
    .map((piece) => {
      const end = piece.lastIndexOf(closing)
      return (end < 0 ? piece : piece.slice(0, end)).trim()
    })

const bare = (text: string): ReadonlyArray<string> =>
  text
    .split("\n")
    .map((line) => line.trim())
    .filter((line) => line.startsWith("{") && line.endsWith("}"))

/** The calls, each not looked into before its turn comes. */
const usesOf = (said: string, { toolCalls }: AssistantMessage): ReadonlyArray<() => Result<ComputerUse>> => {
  const fromText = (texts: ReadonlyArray<string>) => texts.map((text) => () => Either.flatMap(json(text), callOf))
  if (said.includes(opening)) return fromText(tagged(said))
  if (toolCalls.length > 0) return toolCalls.map((call) => () => callOf({ name: call.name, arguments: call.arguments }))
  return fromText(bare(said))
}

const decideAll = (
  uses: ReadonlyArray<() => Result<ComputerUse>>,
  options: ReadOptions
): Result<ReadonlyArray<Decision<DesktopAction>>> => {
  const decisions: Array<Decision<DesktopAction>> = []
  for (const use of uses) {
    const decision = Either.flatMap(use(), (one) => decide(one, options))
    if (Either.isLeft(decision)) return Either.left(decision.left)
    decisions.push(decision.right)
  }
  return Either.right(decisions)
}

/**
 * - Each call is a decision, in order. One that cannot be read makes the whole reply unreadable.
 * - `wait` is a wait; `terminate` is the end with the status that it names, and without one it cannot be read.
 *
 * @since 0.1.0
 * @category parsing
 */
export const read = (reply: AssistantMessage, options: ReadOptions): Either.Either<Read, ParseFailure> => {
  const said = withoutThoughts(reply.text)
  const uses = usesOf(said, reply)
  if (uses.length === 0) return unreadable("the reply has no <tool_call>")
  const head = /^[ \t]*Action:[ \t]*(.*)$/m.exec(said)?.[1]?.trim()
  const { reasoning } = reply
  return Either.map(decideAll(uses, options), (decisions) => ({
    decisions,
    ...(reasoning === undefined ? {} : { thought: reasoning }),
    ...(head === undefined || head === "" ? {} : { action: head }),
    code: decisions.map((one) => (one._tag === "Act" ? one.action.code : one._tag.toUpperCase())).join("\n")
  }))
}

/**
 * A reply as later prompts repeat it: native tool calls as the text that the model wrote.
 *
 * @since 0.1.0
 * @category encoding
 */
export const repeated = (reply: AssistantMessage): string => {
  const { text, toolCalls } = reply
  if (text.includes(opening) || toolCalls.length === 0) return text
  const written = toolCalls.map((call) => {
    const given = Either.getOrElse(json(call.arguments), () => call.arguments)
    return `${opening}\n${JSON.stringify({ name: call.name, arguments: given })}\n${closing}`
  })
  return [...(text.trim() === "" ? [] : [text.trimEnd()]), ...written].join("\n")
}
