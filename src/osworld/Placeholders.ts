/**
 * What tasks write in commands for things that differ from desktop to desktop.
 *
 * @since 0.1.0
 */
import type { Command } from "./SetupStep.js"

/**
 * @since 0.1.0
 * @category models
 */
export interface Values {
  readonly clientPassword: string
  /** Pixels. */
  readonly screenWidth: number
  /** Pixels. */
  readonly screenHeight: number
}

/**
 * `text` with `{CLIENT_PASSWORD}`, `{SCREEN_WIDTH}`, `{SCREEN_HEIGHT}`, `{SCREEN_WIDTH_HALF}` and `{SCREEN_HEIGHT_HALF}`
 * filled in. Other braces stay.
 *
 * @since 0.1.0
 * @category combinators
 */
export const fill = (text: string, values: Values): string =>
  text.replace(/\{(CLIENT_PASSWORD|SCREEN_(?:WIDTH|HEIGHT)(?:_HALF)?)\}/g, (_, name: string) => {
    switch (name) {
      case "CLIENT_PASSWORD":
        return values.clientPassword
      case "SCREEN_WIDTH":
        return String(values.screenWidth)
      case "SCREEN_HEIGHT":
        return String(values.screenHeight)
      case "SCREEN_WIDTH_HALF":
        return String(Math.floor(values.screenWidth / 2))
      default:
        return String(Math.floor(values.screenHeight / 2))
    }
  })

/**
 * A command with the values in the place of its placeholders, word by word.
 *
 * @since 0.1.0
 * @category combinators
 */
export const fillCommand = (command: Command, values: Values): Command =>
  typeof command === "string"
    ? fill(command, values)
    : [fill(command[0], values), ...command.slice(1).map((word) => fill(word, values))]
