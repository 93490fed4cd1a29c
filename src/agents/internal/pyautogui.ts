/** Typed actions as the pyautogui code that does them. Texts are literals in it: nothing of them is read as code. */
import * as PythonLiteral from "../../desktop/PythonLiteral.js"
import type { Point } from "./coordinates.js"

/** What hands do. Without a point the pointer stays where it is; keys have pyautogui's names. */
export type Input =
  | { readonly type: "move"; readonly to: Point }
  | {
      readonly type: "click"
      readonly at?: Point
      readonly button: "left" | "middle" | "right"
      readonly clicks: 1 | 2 | 3
    }
  /** With the left button, where the pointer is. */
  | { readonly type: "mouseDown" | "mouseUp" }
  /** With the left button, from the first point through all others. */
  | { readonly type: "path"; readonly points: readonly [Point, ...ReadonlyArray<Point>] }
  | { readonly type: "pause"; readonly seconds: number }
  /** With the left button. */
  | { readonly type: "drag"; readonly from?: Point; readonly to: Point; readonly seconds: number }
  /** Notches of the wheel; `right` and `up` are positive. */
  | { readonly type: "scroll"; readonly at?: Point; readonly right: number; readonly up: number }
  | { readonly type: "press" | "keyDown" | "keyUp"; readonly key: string }
  /** Pressed in order, and let go of the other way round. */
  | { readonly type: "hotkey"; readonly keys: ReadonlyArray<string> }
  /** A line break in it is the enter key. */
  | { readonly type: "write"; readonly text: string }

const call = (name: string, ...given: ReadonlyArray<string | number>): string =>
  `pyautogui.${name}(${given.join(", ")})`

const point = (at: Point | undefined): ReadonlyArray<number> => (at === undefined ? [] : [at.x, at.y])

const named = (at: Point | undefined): ReadonlyArray<string> => (at === undefined ? [] : [`x=${at.x}`, `y=${at.y}`])

const clicks = { 1: "click", 2: "doubleClick", 3: "tripleClick" } as const

const statements = (input: Input): ReadonlyArray<string> => {
  switch (input.type) {
    case "move":
      return [call("moveTo", ...point(input.to))]
    case "click":
      return [
        call(clicks[input.clicks], ...point(input.at), ...(input.button === "left" ? [] : [`button='${input.button}'`]))
      ]
    case "drag":
      return [
        ...(input.from === undefined ? [] : [call("moveTo", ...point(input.from))]),
        call("dragTo", ...point(input.to), `duration=${input.seconds}`, "button='left'")
      ]
    case "mouseDown":
    case "mouseUp":
      return [call(input.type)]
    case "path": {
      const [first, ...rest] = input.points
      return [
        call("moveTo", ...point(first)),
        call("mouseDown"),
        // Desktops take a pointer that jumps for one that was never dragged.
        ...rest.map((to) => call("moveTo", ...point(to), "duration=0.2")),
        call("mouseUp")
      ]
    }
    case "pause":
      return [`time.sleep(${input.seconds})`]
    case "scroll":
      return [
        ...(input.up === 0 ? [] : [call("scroll", input.up, ...named(input.at))]),
        ...(input.right === 0 ? [] : [call("hscroll", input.right, ...named(input.at))])
      ]
    case "press":
    case "keyDown":
    case "keyUp":
      return [call(input.type, PythonLiteral.fromString(input.key))]
    case "hotkey":
      return [call("hotkey", ...input.keys.map(PythonLiteral.fromString))]
    case "write":
      // Two line ends of one line are one enter.
      return [call("write", PythonLiteral.fromString(input.text.replaceAll("\r\n", "\n")))]
  }
}

/** One statement a line. */
export const code = (input: Input): string => statements(input).join("\n")

/** As `code`, of several in their order. */
export const codeOfAll = (inputs: ReadonlyArray<Input>): string => inputs.flatMap(statements).join("\n")

/** What is done while keys are down: let go of the other way round. */
export const whileDown = (keys: ReadonlyArray<string>, ...inputs: ReadonlyArray<Input>): ReadonlyArray<Input> => [
  ...keys.map((key): Input => ({ type: "keyDown", key })),
  ...inputs,
  ...keys.toReversed().map((key): Input => ({ type: "keyUp", key }))
]
