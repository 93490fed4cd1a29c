/** One line to a socket, and the line that comes back. */
import { realpathSync } from "node:fs"
import { createConnection } from "node:net"
import * as Effect from "effect/Effect"

/** A status of thousands of rollouts is long, and not longer than this. */
const longestReply = 16 * 1024 * 1024

const because = (cause: unknown): string => {
  const code = cause instanceof Error && "code" in cause ? cause.code : undefined
  if (code === "ENOENT") return "it has no control.sock"
  if (code === "ECONNREFUSED") return "its control.sock is what a run that was killed has left"
  if (code === "EACCES") return "it belongs to another user"
  return cause instanceof Error ? cause.message : String(cause)
}

export const exchange = (link: string, line: string): Effect.Effect<string, string> =>
  Effect.async<string, string>((resume) => {
    let real: string
    try {
      // The path of a socket is bounded; that of a link to it is not.
      real = realpathSync(link)
    } catch (cause) {
      return resume(Effect.fail(because(cause)))
    }
    const socket = createConnection({ path: real })
    let received = ""
    socket.setEncoding("utf8")
    socket.on("connect", () => socket.write(`${line}\n`))
    socket.on("error", (cause) => resume(Effect.fail(because(cause))))
    socket.on("close", () => resume(Effect.fail("it went away without an answer")))
    socket.on("data", (chunk: string) => {
      received += chunk
      const end = received.indexOf("\n")
      if (end >= 0) resume(Effect.succeed(received.slice(0, end)))
      else if (received.length > longestReply) resume(Effect.fail("its answer has no end"))
      else return
      socket.destroy()
    })
    return Effect.sync(() => socket.destroy())
  }).pipe(Effect.timeoutFail({ duration: "10 seconds", onTimeout: () => "it did not answer within 10 seconds" }))
