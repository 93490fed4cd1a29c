/**
 * What a reply of OpenAI's computer use says to do, whichever generation its tool is of.
 *
 * @since 0.1.0
 */
import * as Either from "effect/Either"
import * as Schema from "effect/Schema"
import type { AssistantMessage } from "../model/Conversation.js"
import type { ParseFailure } from "../rollout/Agent.js"
import { chord, every, type Move, pressed, type Result, read as readCalls, wrong } from "./internal/computerUse.js"
import { type Point, toScreen } from "./internal/coordinates.js"
import { codeOfAll, type Input, whileDown } from "./internal/pyautogui.js"
import { unreadable } from "./internal/reply.js"
import type { Read, Size } from "./Protocol.js"

/**
 * @since 0.1.0
 * @category models
 */
export interface ReadOptions {
  readonly screen: Size
  /** Whether calls with safety checks are carried out. */
  readonly acknowledge: boolean
}

/**
 * Pixels that a notch of the wheel stands for: the model scrolls by pixels, the desktop by notches.
 *
 * @since 0.1.0
 * @category constants
 */
export const pixelsPerNotch = 100

const optional = <A, I>(schema: Schema.Schema<A, I>) => Schema.optionalWith(schema, { exact: true, nullable: true })
const action = <Name extends string, Fields extends Schema.Struct.Fields>(name: Name, fields: Fields) =>
  Schema.Struct({ type: Schema.Literal(name), ...fields })
const point = { x: Schema.Finite, y: Schema.Finite }
const keys = { keys: optional(Schema.Array(Schema.NonEmptyString)) }

// More than any page has would keep the desktop busy until the action times out.
const Pixels = Schema.Finite.pipe(Schema.between(-1_000_000, 1_000_000))

/**
 * An action of a call, in pixels of the screen. `keys` of another action than `keypress` are down meanwhile.
 *
 * @since 0.1.0
 * @category models
 */
export const Action = Schema.Union(
  action("click", { button: Schema.Literal("left", "right", "wheel"), ...point, ...keys }),
  action("double_click", { ...point, ...keys }),
  action("drag", { path: Schema.Array(Schema.Struct(point)).pipe(Schema.minItems(2)), ...keys }),
  action("keypress", { keys: Schema.NonEmptyArray(Schema.NonEmptyString) }),
  action("move", { ...point, ...keys }),
  action("screenshot", {}),
  action("scroll", { ...point, scroll_x: Pixels, scroll_y: Pixels, ...keys }),
  action("type", { text: Schema.NonEmptyString }),
  action("wait", {})
)

/**
 * @since 0.1.0
 * @category models
 */
export type Action = typeof Action.Type

const decode = Schema.decodeUnknownEither(Action)

const buttons = { left: "left", right: "right", wheel: "middle" } as const

const place = ({ x, y }: Point, screen: Size): Result<Point> => {
  const pixel = toScreen(x, y, screen, screen)
  return pixel === undefined
    ? unreadable(`the point (${x}, ${y}) is outside of the screen, which is ${screen.width} by ${screen.height}`)
    : Either.right(pixel)
}

/** At least one where there is any way to go. */
const notches = (pixels: number): number =>
  pixels === 0 ? 0 : Math.sign(pixels) * Math.max(1, Math.round(Math.abs(pixels) / pixelsPerNotch))

const chords = (names: ReadonlyArray<string>): Result<ReadonlyArray<string>> =>
  Either.map(every(names, chord), (all) => all.flat())

const held = (names: ReadonlyArray<string> | undefined, input: Input): Result<ReadonlyArray<Input>> =>
  Either.map(chords(names ?? []), (down) => whileDown(down, input))

const moveOf = (use: Action, screen: Size): Result<Move> => {
  switch (use.type) {
    case "click":
      return Either.flatMap(place(use, screen), (at) =>
        held(use.keys, { type: "click", button: buttons[use.button], clicks: 1, at })
      )
    case "double_click":
      return Either.flatMap(place(use, screen), (at) =>
        held(use.keys, { type: "click", button: "left", clicks: 2, at })
      )
    case "drag":
      return Either.flatMap(
        every(use.path, (one) => place(one, screen)),
        ([first, ...rest]) =>
          first === undefined
            ? unreadable("the drag has no path")
            : held(use.keys, { type: "path", points: [first, ...rest] })
      )
    case "keypress":
      return Either.map(chords(use.keys), pressed)
    case "move":
      return Either.flatMap(place(use, screen), (to) => held(use.keys, { type: "move", to }))
    case "scroll": {
      const [right, up] = [notches(use.scroll_x), -notches(use.scroll_y)]
      if (right === 0 && up === 0) return unreadable("a scroll by nothing does nothing")
      return Either.flatMap(place(use, screen), (at) => held(use.keys, { type: "scroll", right, up, at }))
    }
    case "type":
      return Either.right({ type: "write", text: use.text })
    case "wait":
      return Either.right("wait")
    case "screenshot":
      return Either.right("look")
  }
}

const refusal = /infeasible|unfeasible|impossible|not feasible|cannot be done/i

const told = (check: Readonly<Record<string, unknown>>): string => {
  const words = [check["code"], check["message"]].filter((word) => typeof word === "string")
  return words.length === 0 ? "unnamed" : words.join(": ").slice(0, 500)
}

/**
 * - Each action of each call is a decision, in order. One that cannot be read makes the whole reply unreadable.
 * - A call with safety checks cannot be read unless they are acknowledged.
 * - `wait` is a wait, and so is a `screenshot` alone.
 * - `[INFEASIBLE]` in the text is a fail. So is, without a call, one of OSWorld's words for it; any other reply without a
 *   call says that the task is done.
 *
 * @since 0.1.0
 * @category parsing
 */
export const read = (
  reply: AssistantMessage,
  { acknowledge, screen }: ReadOptions
): Either.Either<Read, ParseFailure> =>
  readCalls(reply, {
    move: (given) => Either.match(decode(given), { onLeft: wrong, onRight: (use) => moveOf(use, screen) }),
    refuses: (words) => refusal.test(words),
    fault: ({ safetyChecks }) =>
      acknowledge || safetyChecks.length === 0
        ? undefined
        : `the call has safety checks that nobody acknowledges (${safetyChecks.map(told).join("; ")})`,
    code: codeOfAll
  })
