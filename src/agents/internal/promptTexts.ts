/** What the `prompt` agent tells a model. */
import type { ObservationType } from "../../rollout/Contract.js"

export type ActionSpace = "pyautogui" | "computer_13"

const looks: Readonly<Record<ObservationType, string>> = {
  screenshot: `Each turn shows you a screenshot of the whole screen; its pixels are the coordinates that you use, with (0, 0) in the
upper left corner.`,
  a11y_tree: `Each turn gives you a table of what is on the screen, from the desktop's accessibility tree: a line for each element,
with its role, name, text, the upper left corner and the size of it in pixels. (0, 0) is the upper left corner of the
screen. To click on an element, aim at its middle.`,
  screenshot_a11y_tree: `Each turn shows you a screenshot of the whole screen and a table of what is on it, from the desktop's accessibility tree:
a line for each element, with its role, name, text, the upper left corner and the size of it in pixels. The screenshot's
pixels are the coordinates that you use, with (0, 0) in the upper left corner.`,
  som: `Each turn shows you a screenshot of the whole screen on which elements have a red box and a number, and a table of those
elements: number, role, name and text. In your code tag_1, tag_2 and so on are the middles of the elements with these
numbers, each a pair (x, y) of pixels. Use them wherever an element has a number, as in pyautogui.click(*tag_7), and give
pixels yourself only for what has none.`
}

const example = (observation: ObservationType): string =>
  observation === "som" ? "pyautogui.click(*tag_3)" : "pyautogui.click(400, 300)"

const words = `WAIT when the desktop needs more time before you can go on,
DONE when you have seen that the task is complete,
FAIL when the task cannot be done on this desktop at all. Try in earnest before you say so.

If a program asks for the user's password, it is: {password}`

const pyautogui = (
  observation: ObservationType
): string => `Answer each turn with a sentence or two on what you see and what you will do next, and then exactly one fenced block:

\`\`\`python
${example(observation)}
\`\`\`

The block is Python that runs on the desktop. pyautogui and time are imported already. Nothing is remembered from one
block to the next, so each must be complete in itself. Take coordinates from what you are shown; functions that search the
screen or take pictures of it are of no use here. Where one action needs a moment to show its effect before the next,
put a short time.sleep between them.

Instead of code the block may hold one of three words:
${words}`

const computer13 = `Answer each turn with a sentence or two on what you see and what you will do next, and then exactly one fenced block that
holds an action as JSON, or a list of actions:

\`\`\`json
{"action_type": "CLICK", "parameters": {"x": 400, "y": 300, "button": "left", "num_clicks": 1}}
\`\`\`

The actions and their parameters; those with a question mark may be left out, and without x and y an action happens where
the pointer is:
MOVE_TO x, y
CLICK x?, y?, button? ("left", "right" or "middle"), num_clicks? (1, 2 or 3)
RIGHT_CLICK x?, y?
DOUBLE_CLICK x?, y?
DRAG_TO x, y: from where the pointer is, with the left button held
MOUSE_DOWN button?
MOUSE_UP button?
SCROLL dx?, dy?: turns of the wheel, to the right and up
TYPING text
PRESS key
KEY_DOWN key
KEY_UP key
HOTKEY keys: a list, such as ["ctrl", "s"]
Keys have the names that pyautogui gives them.

Instead of JSON the block may hold one of three words:
${words}`

/** With `{password}` in it. */
export const systemTemplate = (observation: ObservationType, actionSpace: ActionSpace): string =>
  `You operate a Linux desktop for its user. ${looks[observation]}

${actionSpace === "pyautogui" ? pyautogui(observation) : computer13}`

export const texts = {
  task: "The task: {instruction}\n\n",
  first: "This is the desktop now.",
  later: "The desktop after step {step}.",
  gone: " (What it showed is no longer shown.)",
  tree: "\n\nWhat is on the screen:\n{tree}",
  summary: "A summary of what came before, in your own words:\n{summary}\n\n",
  noReply: "(no reply)",
  retry: `This answer could not be used: {error}

Answer this turn again, as you were told to at the start: with one fenced block.`
} as const
