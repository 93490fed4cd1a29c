import { closeSync } from "node:fs"

/**
 * Ends the process. Node 20 puts a terminal back into its first state on its way out and aborts when the terminal has
 * gone (nodejs/node#58200); it looks at nothing that is closed.
 */
export const exit = (status: number, hungUp: boolean): never => {
  if (hungUp) {
    for (const descriptor of [0, 1, 2]) {
      try {
        closeSync(descriptor)
      } catch {
        // It was closed before.
      }
    }
  }
  process.exit(status)
}
