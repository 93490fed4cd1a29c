/**
 * What an agent does to a desktop.
 *
 * @since 0.1.0
 */
import * as Data from "effect/Data"

/**
 * `Python` is code that runs in the desktop with `pyautogui` and `time` imported. Nothing persists from one action to
 * the next but what the code does to the desktop.
 *
 * @since 0.1.0
 * @category models
 */
export type DesktopAction = Data.TaggedEnum<{
  Python: { readonly code: string }
}>

/**
 * Constructors of actions, and matchers.
 *
 * @since 0.1.0
 * @category constructors
 */
export const DesktopAction = Data.taggedEnum<DesktopAction>()

/**
 * Lines that come before the code of every Python action. They are joined to it by a newline, so that code may start
 * with a compound statement.
 *
 * @since 0.1.0
 * @category constants
 */
export const pythonPrefix = "import pyautogui; import time; pyautogui.FAILSAFE = False"

/**
 * The program that a Python action runs. A `from __future__` import and a coding line have no place in an action.
 *
 * @since 0.1.0
 * @category encoding
 */
export const pythonProgram = (code: string): string => `${pythonPrefix}\n${code}`
