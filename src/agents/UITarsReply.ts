/**
 * Reads replies of UI-TARS: a Thought, and an Action that is one call or several.
 *
 * @since 0.1.0
 */
import * as Either from "effect/Either"
import type { DesktopAction } from "../desktop/Action.js"
import { Decision, type ParseFailure } from "../rollout/Agent.js"
import { type Call, calls } from "./internal/calls.js"
import { type Point, toScreen } from "./internal/coordinates.js"
import { combination, keyName } from "./internal/keys.js"
import { code, type Input } from "./internal/pyautogui.js"
import { act, unreadable, withoutThoughts } from "./internal/reply.js"
import type { Read, Size } from "./Protocol.js"

/**
 * @since 0.1.0
 * @category models
 */
export interface ReadOptions {
  readonly screen: Size
  /** The far corner of the space that points are in. */
  readonly space: Size
  /** In v2 `press` holds a key down until it is released; in v1 it lets it go. */
  readonly form: "v1" | "v2"
  /** How often the model has called the user in this episode. */
  readonly callsBefore: () => number
  /** How many such calls are waits; the ones after them say that the task cannot be done. */
  readonly tolerance: number
}

type Result<A> = Either.Either<A, ParseFailure>

// -----------------------------------------------------------------------------
// Arguments
// -----------------------------------------------------------------------------

const numbers = /^[[(]?\s*(\d{1,9}(?:\.\d{1,9})?(?:(?:\s*,\s*|\s+)\d{1,9}(?:\.\d{1,9})?){1,3})\s*[\])]?$/

const tags = /<\|box_(?:start|end)\|>|<\/?(?:point|bbox)>/g

/** The middle of a box, or a point. */
const middle = (text: string): readonly [number, number] | undefined => {
  const found = numbers.exec(text.replace(tags, "").trim())?.[1]
  const [a, b, c, d, ...rest] = found === undefined ? [] : found.split(/[\s,]+/).map(Number)
  if (a === undefined || b === undefined || rest.length > 0) return undefined
  if (c === undefined) return [a, b]
  return d === undefined ? undefined : [(a + c) / 2, (b + d) / 2]
}

const given = ({ arguments: values }: Call, ...names: ReadonlyArray<string>): string | undefined =>
  names.map((name) => values.get(name)).find((value) => value !== undefined && value !== "")

const place = (call: Call, options: ReadOptions, ...names: ReadonlyArray<string>): Result<Point | undefined> => {
  const written = given(call, ...names)
  if (written === undefined) return Either.right(undefined)
  const point = middle(written)
  if (point === undefined) return unreadable(`${call.name}: ${written.slice(0, 100)} is no point`)
  const pixel = toScreen(point[0], point[1], options.space, options.screen)
  const { height, width } = options.space
  return pixel === undefined
    ? unreadable(`${call.name}: (${point.join(", ")}) is outside of the picture, which is ${width} by ${height}`)
    : Either.right(pixel)
}

const wanted = <A>(call: Call, what: string, found: A | undefined): Result<A> =>
  found === undefined ? unreadable(`${call.name} wants ${what}: ${call.text.slice(0, 200)}`) : Either.right(found)

const start = ["start_box", "start_point", "point"]
const end = ["end_box", "end_point"]

const required = (call: Call, options: ReadOptions, names: ReadonlyArray<string>): Result<Point> =>
  Either.flatMap(place(call, options, ...names), (point) => wanted(call, "a point", point))

// -----------------------------------------------------------------------------
// Actions
// -----------------------------------------------------------------------------

const input = (made: Result<Input>): Result<Decision<DesktopAction>> => Either.map(made, (one) => act(code(one)))

const click = (
  call: Call,
  options: ReadOptions,
  button: "left" | "right",
  clicks: 1 | 2
): Result<Decision<DesktopAction>> =>
  input(Either.map(required(call, options, start), (at): Input => ({ type: "click", at, button, clicks })))

const key = (call: Call, type: "press" | "keyDown" | "keyUp"): Result<Decision<DesktopAction>> =>
  input(
    Either.map(
      wanted(call, "the name of a key", keyName(given(call, "key", "press") ?? "")),
      (name): Input => ({
        type,
        key: name
      })
    )
  )

const hotkey = (call: Call): Result<Decision<DesktopAction>> =>
  input(
    Either.map(
      wanted(call, "names of keys", combination(given(call, "key", "hotkey") ?? "")),
      (keys): Input => ({
        type: "hotkey",
        keys
      })
    )
  )

const notches = 5
const directions: Readonly<Record<string, { readonly right: number; readonly up: number }>> = {
  up: { right: 0, up: notches },
  down: { right: 0, up: -notches },
  right: { right: notches, up: 0 },
  left: { right: -notches, up: 0 }
}

const scroll = (call: Call, options: ReadOptions): Result<Decision<DesktopAction>> => {
  const direction = (given(call, "direction") ?? "").trim().toLowerCase()
  const way = Object.hasOwn(directions, direction) ? directions[direction] : undefined
  return input(
    Either.gen(function* () {
      const { right, up } = yield* wanted(call, "a direction: up, down, left or right", way)
      const at = yield* place(call, options, ...start)
      return { type: "scroll", right, up, ...(at === undefined ? {} : { at }) } as const
    })
  )
}

const decide = (call: Call, options: ReadOptions): Result<Decision<DesktopAction>> => {
  switch (call.name) {
    case "click":
    case "left_single":
      return click(call, options, "left", 1)
    case "left_double":
      return click(call, options, "left", 2)
    case "right_single":
      return click(call, options, "right", 1)
    case "hover":
      return input(Either.map(required(call, options, start), (to): Input => ({ type: "move", to })))
    case "drag":
    case "select":
      return input(
        Either.gen(function* () {
          const from = yield* required(call, options, start)
          const to = yield* required(call, options, end)
          return { type: "drag", from, to, seconds: 1 } as const
        })
      )
    case "hotkey":
      return hotkey(call)
    case "press":
      return key(call, options.form === "v1" ? "press" : "keyDown")
    case "keydown":
      return key(call, "keyDown")
    case "release":
    case "keyup":
      return key(call, "keyUp")
    case "type":
      return input(
        Either.map(wanted(call, "content", given(call, "content")), (text): Input => ({ type: "write", text }))
      )
    case "scroll":
      return scroll(call, options)
    case "wait":
      return Either.right(Decision.Wait())
    case "finished":
      return Either.right(Decision.Done())
    case "error_env":
      return Either.right(Decision.Fail())
    case "call_user":
      return Either.right(options.callsBefore() < options.tolerance ? Decision.Wait() : Decision.Fail())
    default:
      return unreadable(`there is no action ${call.name.slice(0, 100)}`)
  }
}

// -----------------------------------------------------------------------------
// Replies
// -----------------------------------------------------------------------------

interface Parts {
  readonly thought: string
  readonly action: string
}

/** The last Action that begins a line, else the last one at all. */
const parts = (reply: string): Parts | undefined => {
  const said = withoutThoughts(reply)
  const heads = Array.from(said.matchAll(/^[ \t]*Action:/gm))
  const head = heads.at(-1)
  const at = head === undefined ? said.lastIndexOf("Action:") : head.index
  if (at < 0) return undefined
  const action = said.slice(said.indexOf(":", at) + 1).replace(/(?:\[EOS\]|<\|im_end\|>)\s*$/, "")
  return {
    thought: said
      .slice(0, at)
      .replace(/^\s*Thought:/, "")
      .trim(),
    action: action.trim()
  }
}

/**
 * How many of these replies call the user.
 *
 * @since 0.1.0
 * @category parsing
 */
export const userCalls = (replies: ReadonlyArray<string>): number =>
  replies.filter((reply) => calls(parts(reply)?.action ?? "")?.some(({ name }) => name === "call_user") === true).length

/**
 * - Each call behind `Action:` is a decision, in order. One that cannot be read makes the whole reply unreadable.
 * - `wait` is a wait, `finished` the end, `error_env` and a `call_user` beyond the tolerance say that the task cannot be
 *   done.
 * - Text that is typed has the escapes `\n`, `\r`, `\t`, `\\`, `\'` and `\"`.
 *
 * @since 0.1.0
 * @category parsing
 */
export const read = (reply: string, options: ReadOptions): Either.Either<Read, ParseFailure> => {
  const found = parts(reply)
  if (found === undefined) return unreadable("the reply has no Action:")
  const { action, thought } = found
  const made = calls(action)
  // Asked once, however often the reply calls the user.
  let before: number | undefined
  const callsBefore = () => {
    before ??= options.callsBefore()
    return before
  }
  if (made === undefined) return unreadable(`the Action is no call with quoted arguments: ${action.slice(0, 200)}`)
  return Either.map(Either.all(made.map((call) => decide(call, { ...options, callsBefore }))), (decisions) => ({
    decisions,
    thought,
    action,
    code: decisions.map((one) => (one._tag === "Act" ? one.action.code : one._tag.toUpperCase())).join("\n")
  }))
}
