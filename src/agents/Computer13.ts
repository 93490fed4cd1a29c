/**
 * OSWorld's thirteen typed actions: JSON from a model, pyautogui code for the desktop.
 *
 * @since 0.1.0
 */
import * as Either from "effect/Either"
import * as ParseResult from "effect/ParseResult"
import * as Schema from "effect/Schema"
import type { DesktopAction } from "../desktop/Action.js"
import * as PythonLiteral from "../desktop/PythonLiteral.js"
import type { Decision, ParseFailure } from "../rollout/Agent.js"
import { act, unreadable, withoutThoughts, word } from "./internal/reply.js"

const Coordinate = Schema.Finite
const Button = Schema.Literal("left", "right", "middle")
const Key = Schema.String.pipe(Schema.minLength(1), Schema.maxLength(20))
const optional = <A, I>(schema: Schema.Schema<A, I>) => Schema.optionalWith(schema, { exact: true })
const action = <Name extends string, Fields extends Schema.Struct.Fields>(name: Name, fields: Fields) =>
  Schema.Struct({ action_type: Schema.Literal(name), ...fields })

const point = { x: Coordinate, y: Coordinate }
const here = { x: optional(Coordinate), y: optional(Coordinate) }

/**
 * The actions, their parameters beside their type. Coordinates are pixels of the screen; where they are left out, the
 * pointer is where it is.
 *
 * @since 0.1.0
 * @category models
 */
export const Computer13Action = Schema.Union(
  action("MOVE_TO", point),
  action("CLICK", { ...here, button: optional(Button), num_clicks: optional(Schema.Literal(1, 2, 3)) }),
  action("MOUSE_DOWN", { button: optional(Button) }),
  action("MOUSE_UP", { button: optional(Button) }),
  action("RIGHT_CLICK", here),
  action("DOUBLE_CLICK", here),
  action("DRAG_TO", point),
  action("SCROLL", { dx: optional(Schema.Int), dy: optional(Schema.Int) }),
  action("TYPING", { text: Schema.String }),
  action("PRESS", { key: Key }),
  action("KEY_DOWN", { key: Key }),
  action("KEY_UP", { key: Key }),
  action("HOTKEY", { keys: Schema.NonEmptyArray(Key) })
)

/**
 * @since 0.1.0
 * @category models
 */
export type Computer13Action = typeof Computer13Action.Type

const decode = Schema.decodeUnknownEither(Computer13Action)

const place = ({ x, y }: { readonly x?: number; readonly y?: number }): ReadonlyArray<string> =>
  x === undefined || y === undefined ? [] : [`x=${x}`, `y=${y}`]

const quoted = (key: string): string => PythonLiteral.fromString(key.toLowerCase())

/**
 * The pyautogui code of an action. Texts are literals in it, and nothing of them is read as code.
 *
 * @since 0.1.0
 * @category encoding
 */
export const code = (action: Computer13Action): string => {
  switch (action.action_type) {
    case "MOVE_TO":
      return `pyautogui.moveTo(${action.x}, ${action.y})`
    case "CLICK":
      return `pyautogui.click(${[...place(action), `clicks=${action.num_clicks ?? 1}`, `button='${action.button ?? "left"}'`].join(", ")})`
    case "MOUSE_DOWN":
      return `pyautogui.mouseDown(button='${action.button ?? "left"}')`
    case "MOUSE_UP":
      return `pyautogui.mouseUp(button='${action.button ?? "left"}')`
    case "RIGHT_CLICK":
      return `pyautogui.rightClick(${place(action).join(", ")})`
    case "DOUBLE_CLICK":
      return `pyautogui.doubleClick(${place(action).join(", ")})`
    case "DRAG_TO":
      return `pyautogui.dragTo(${action.x}, ${action.y}, duration=1.0, button='left')`
    case "SCROLL":
      return [
        ...(action.dx === undefined ? [] : [`pyautogui.hscroll(${action.dx})`]),
        ...(action.dy === undefined ? [] : [`pyautogui.scroll(${action.dy})`])
      ].join("\n")
    case "TYPING":
      return `pyautogui.write(${PythonLiteral.fromString(action.text)}, interval=0.01)`
    case "PRESS":
      return `pyautogui.press(${quoted(action.key)})`
    case "KEY_DOWN":
      return `pyautogui.keyDown(${quoted(action.key)})`
    case "KEY_UP":
      return `pyautogui.keyUp(${quoted(action.key)})`
    case "HOTKEY":
      return `pyautogui.hotkey(${action.keys.map(quoted).join(", ")})`
  }
}

// -----------------------------------------------------------------------------
// Reading
// -----------------------------------------------------------------------------

type Json = { readonly [key: string]: unknown }

const isObject = (value: unknown): value is Json => typeof value === "object" && value !== null && !Array.isArray(value)

const aliases: Readonly<Record<string, string>> = {
  LEFT_CLICK: "CLICK",
  MOUSE_MOVE: "MOVE_TO",
  TYPE: "TYPING",
  KEY: "PRESS"
}

const pointed = new Set(["MOVE_TO", "CLICK", "RIGHT_CLICK", "DOUBLE_CLICK", "DRAG_TO"])

/** What models write instead of the names that they are told, one way in. */
const normalised = (given: Json): Json => {
  const all: Json = { ...given, ...(isObject(given.parameters) ? given.parameters : {}) }
  const { action_type, click_type, parameters: _, varies, ...inline } = all
  const named = typeof action_type === "string" ? action_type.trim().toUpperCase() : action_type
  const type = typeof named === "string" && Object.hasOwn(aliases, named) ? aliases[named] : named
  const kind = typeof click_type === "string" ? click_type.toUpperCase() : ""
  const button = typeof inline.button === "string" ? { button: inline.button.toLowerCase() } : {}
  const base: Json = {
    ...inline,
    ...button,
    ...(inline.y === undefined && varies !== undefined ? { y: varies } : {}),
    action_type: type
  }
  if (type === "TRIPLE_CLICK") return { ...base, action_type: "CLICK", num_clicks: 3 }
  const clicks = type === "CLICK" || type === "MOUSE_DOWN" || type === "MOUSE_UP"
  if (clicks && (kind === "LEFT" || kind === "RIGHT" || kind === "MIDDLE"))
    return { ...base, button: kind.toLowerCase() }
  if (kind === "WHEEL_UP" || kind === "WHEEL_DOWN") {
    return { action_type: "SCROLL", dy: kind === "WHEEL_UP" ? 1 : -1 }
  }
  return base
}

const one = (value: unknown): Either.Either<Decision<DesktopAction>, ParseFailure> => {
  if (typeof value === "string") {
    const alone = word(value.trim().toUpperCase())
    return alone === undefined ? unreadable(`${JSON.stringify(value)} is no action`) : Either.right(alone)
  }
  if (!isObject(value)) return unreadable("an action is a JSON object with an action_type")
  const plain = normalised(value)
  const alone = typeof plain.action_type === "string" ? word(plain.action_type) : undefined
  if (alone !== undefined) return Either.right(alone)
  return Either.match(decode(plain), {
    onLeft: (error) => unreadable(ParseResult.TreeFormatter.formatErrorSync(error).slice(0, 2000)),
    onRight: (action) => {
      if ("x" in action !== "y" in action && pointed.has(action.action_type)) {
        return unreadable(`${action.action_type} wants both x and y, or neither`)
      }
      const program = code(action)
      return program === "" ? unreadable("SCROLL wants dx or dy") : Either.right(act(program))
    }
  })
}

const flat = (value: unknown): ReadonlyArray<unknown> => (Array.isArray(value) ? value.flat(8) : [value])

const json = (text: string): Either.Either<unknown, ParseFailure> =>
  Either.orElse(
    Either.try((): unknown => JSON.parse(text)),
    () => unreadable(`this is no JSON: ${text.slice(0, 200)}`)
  )

/**
 * The decisions in a reply: the words WAIT, DONE and FAIL alone, or JSON in fences (those with the tag `json`, else those
 * with none), or a reply that is JSON altogether. One action that cannot be read makes the whole reply unreadable.
 *
 * @since 0.1.0
 * @category parsing
 */
export const parse = (reply: string): Either.Either<ReadonlyArray<Decision<DesktopAction>>, ParseFailure> => {
  const text = withoutThoughts(reply).trim()
  const alone = word(text.toUpperCase())
  if (alone !== undefined) return Either.right([alone])
  const fences = Array.from(
    text.matchAll(/```([A-Za-z0-9_+-]*)[ \t]*(?:\r?\n)?([\s\S]*?)```/g),
    ([, tag = "", body = ""]) => ({
      tag: tag.toLowerCase(),
      body: body.trim()
    })
  )
  const wanted = fences.filter(({ tag }) => tag === "json")
  const untagged = fences.flatMap(({ body, tag }) =>
    tag === "" ? [body] : word(tag.toUpperCase()) !== undefined && body === "" ? [tag.toUpperCase()] : []
  )
  const texts = wanted.length > 0 ? wanted.map(({ body }) => body) : fences.length > 0 ? untagged : [text]
  const decisions: Array<Decision<DesktopAction>> = []
  for (const body of texts) {
    const said = word(body.toUpperCase())
    if (said !== undefined) {
      decisions.push(said)
      continue
    }
    const value = json(body)
    if (Either.isLeft(value)) return Either.left(value.left)
    for (const entry of flat(value.right)) {
      const decision = one(entry)
      if (Either.isLeft(decision)) return Either.left(decision.left)
      decisions.push(decision.right)
    }
  }
  return decisions.length === 0 ? unreadable("the reply holds no action") : Either.right(decisions)
}
