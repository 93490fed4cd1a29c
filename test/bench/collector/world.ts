/**
 * Simulated desktops and models behind real sockets, for the collector's bench, in a process of their own. Prints the
 * port. They wait as long as a step takes, and spend as little of the machine as they can.
 */
import { createServer, type IncomingMessage, type ServerResponse } from "node:http"
import { modelMilliseconds, screenshotBytes, stepMilliseconds } from "./sizes.js"

const screenshot = Buffer.alloc(screenshotBytes)
// Bytes that no disk and no socket makes smaller, the same every time: a linear congruential generator (Numerical Recipes).
for (let at = 0, seed = 1; at < screenshotBytes; at += 4) {
  seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0
  screenshot.writeUInt32LE(seed, at)
}
Buffer.from("\x89PNG\r\n\x1a\n", "latin1").copy(screenshot)

let shots = 0

const reply = JSON.stringify({
  id: "chatcmpl-bench",
  object: "chat.completion",
  created: 0,
  model: "bench",
  choices: [
    {
      index: 0,
      finish_reason: "stop",
      message: {
        role: "assistant",
        content: `${"I look at the screen and move on. ".repeat(12)}pyautogui.click(960, 540)`
      }
    }
  ],
  usage: { prompt_tokens: 3000, completion_tokens: 120, total_tokens: 3120 }
})

const later = (milliseconds: number, response: ServerResponse, body: string) =>
  setTimeout(() => {
    response.writeHead(200, { "content-type": "application/json", "content-length": Buffer.byteLength(body) })
    response.end(body)
  }, milliseconds)

const answer = (request: IncomingMessage, response: ServerResponse) => {
  switch (request.url) {
    case "/screenshot": {
      // No two are alike, as with real desktops, so that each becomes a blob.
      const head = Buffer.from(screenshot.subarray(0, 64))
      head.writeUInt32LE(shots++, 16)
      response.writeHead(200, { "content-type": "image/png", "content-length": screenshotBytes })
      response.write(head)
      return response.end(screenshot.subarray(64))
    }
    case "/v1/chat/completions":
      // A model begins when it has all of the prompt.
      request.on("end", () => later(modelMilliseconds, response, reply))
      return request.resume()
    case "/act":
      request.on("end", () => later(stepMilliseconds - modelMilliseconds, response, '{"returncode":0}'))
      return request.resume()
    default:
      request.on("end", () => later(0, response, '{"score":1}'))
      return request.resume()
  }
}

const server = createServer({ keepAliveTimeout: 120_000, requestTimeout: 0 }, answer)
server.listen(0, "127.0.0.1", 65_535, () => {
  const address = server.address()
  process.stdout.write(`${typeof address === "object" && address !== null ? address.port : 0}\n`)
})
// It ends with whoever started it.
process.on("disconnect", () => process.exit(0))
