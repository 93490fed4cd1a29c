/**
 * What a reply of Claude's computer use says to do.
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
  /** The size that screenshots were shown at. */
  readonly space: Size
}

const Coordinate = Schema.Tuple(Schema.Finite, Schema.Finite)
const optional = <A, I>(schema: Schema.Schema<A, I>) => Schema.optionalWith(schema, { exact: true, nullable: true })
const at = { coordinate: optional(Coordinate), text: optional(Schema.String) }
const action = <Name extends string, Fields extends Schema.Struct.Fields>(name: Name, fields: Fields) =>
  Schema.Struct({ action: Schema.Literal(name), ...fields })

/**
 * The input of a call. Coordinates are in the space of the screenshots; the `text` of a click or a scroll names keys that
 * are down meanwhile. `zoom` and `cursor_position` are not offered.
 *
 * @since 0.1.0
 * @category models
 */
export const Action = Schema.Union(
  action("key", { text: Schema.NonEmptyString }),
  // Longer, and the action would time out with the keys down.
  action("hold_key", { text: Schema.NonEmptyString, duration: Schema.Finite.pipe(Schema.between(0, 30)) }),
  action("type", { text: Schema.NonEmptyString }),
  action("mouse_move", { coordinate: Coordinate }),
  action("left_click", at),
  action("right_click", at),
  action("middle_click", at),
  action("double_click", at),
  action("triple_click", at),
  action("left_click_drag", { coordinate: Coordinate, start_coordinate: optional(Coordinate), text: at.text }),
  action("left_mouse_down", {}),
  action("left_mouse_up", {}),
  action("scroll", {
    ...at,
    scroll_direction: Schema.Literal("up", "down", "left", "right"),
    // More notches than any page has would keep the desktop busy until the action times out.
    scroll_amount: Schema.Int.pipe(Schema.between(1, 10_000))
  }),
  action("wait", {}),
  action("screenshot", {})
)

/**
 * @since 0.1.0
 * @category models
 */
export type Action = typeof Action.Type

const decode = Schema.decodeUnknownEither(Action)

const clicks = {
  left_click: { button: "left", clicks: 1 },
  right_click: { button: "right", clicks: 1 },
  middle_click: { button: "middle", clicks: 1 },
  double_click: { button: "left", clicks: 2 },
  triple_click: { button: "left", clicks: 3 }
} as const

const ways = { up: [0, 1], down: [0, -1], left: [-1, 0], right: [1, 0] } as const

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
  coordinate === undefined ? Either.right({}) : Either.map(place(coordinate, options), (point) => ({ at: point }))

const held = (keys: string | undefined, input: Input): Result<ReadonlyArray<Input>> =>
  keys === undefined || keys === "" ? Either.right([input]) : Either.map(chord(keys), (down) => whileDown(down, input))

const moveOf = (use: Action, options: ReadOptions): Result<Move> => {
  switch (use.action) {
    // Several with spaces between them are pressed one after the other.
    case "key": {
      const chords = use.text.trim() === "" ? [use.text] : use.text.trim().split(/\s+/)
      return Either.map(every(chords, chord), (all) => all.flatMap(pressed))
    }
    case "hold_key":
      return Either.map(chord(use.text), (keys) => whileDown(keys, { type: "pause", seconds: use.duration }))
    case "type":
      return Either.right({ type: "write", text: use.text })
    case "mouse_move":
      return Either.map(place(use.coordinate, options), (to) => ({ type: "move", to }))
    case "left_click":
    case "right_click":
    case "middle_click":
    case "double_click":
    case "triple_click":
      return Either.flatMap(placed(use.coordinate, options), (where) =>
        held(use.text, { type: "click", ...clicks[use.action], ...where })
      )
    case "left_click_drag":
      return Either.gen(function* () {
        const from = yield* placed(use.start_coordinate, options)
        const to = yield* place(use.coordinate, options)
        const start = from.at === undefined ? {} : { from: from.at }
        return yield* held(use.text, { type: "drag", to, seconds: 0.5, ...start })
      })
    case "left_mouse_down":
      return Either.right({ type: "mouseDown" })
    case "left_mouse_up":
      return Either.right({ type: "mouseUp" })
    case "scroll": {
      const [right, up] = ways[use.scroll_direction]
      const turned = { right: right * use.scroll_amount, up: up * use.scroll_amount }
      return Either.flatMap(placed(use.coordinate, options), (where) =>
        held(use.text, { type: "scroll", ...turned, ...where })
      )
    }
    case "wait":
      return Either.right("wait")
    case "screenshot":
      return Either.right("look")
  }
}

const unknown = new Set<unknown>(["zoom", "cursor_position"])

/**
 * - Each call is an action, in order. One that cannot be read makes the whole reply unreadable.
 * - `wait` is a wait, and so is a `screenshot` alone.
 * - `[INFEASIBLE]` in the text is a fail; a reply without a call says that the task is done.
 *
 * @since 0.1.0
 * @category parsing
 */
export const read = (reply: AssistantMessage, options: ReadOptions): Either.Either<Read, ParseFailure> =>
  readCalls(reply, {
    move: (given) =>
      unknown.has(given["action"])
        ? unreadable(`the action ${String(given["action"])} is not supported: use the newest screenshot`)
        : Either.match(decode(given), { onLeft: wrong, onRight: (use) => moveOf(use, options) }),
    refuses: () => false,
    fault: () => undefined,
    code: codeOfAll
  })
