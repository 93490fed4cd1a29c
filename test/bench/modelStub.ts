/**
 * A model server in a process of its own: reads what it is sent, says the same each time. Under `/digest` the id of its
 * reply is the SHA-256 of the request's body. Prints its address; ends with its standard input.
 */
import { createHash } from "node:crypto"
import { createServer } from "node:http"

const reply = (id: string) =>
  JSON.stringify({
    id,
    object: "chat.completion",
    created: 1_700_000_000,
    model: "stub",
    choices: [{ index: 0, message: { role: "assistant", content: "pyautogui.click(12, 345)" }, finish_reason: "stop" }],
    usage: { prompt_tokens: 4_000, completion_tokens: 12, total_tokens: 4_012 }
  })

const usual = reply("chatcmpl-1")

const server = createServer((request, response) => {
  const hash = request.url?.startsWith("/digest/") === true ? createHash("sha256") : undefined
  request.on("data", (chunk: Buffer) => hash?.update(chunk))
  request.on("end", () => {
    const body = hash === undefined ? usual : reply(hash.digest("hex"))
    response
      .writeHead(200, { "content-type": "application/json", "content-length": String(Buffer.byteLength(body)) })
      .end(body)
  })
})

server.listen(0, "127.0.0.1", () => {
  const address = server.address()
  if (typeof address === "object" && address !== null) console.log(`http://127.0.0.1:${address.port}`)
})

process.stdin.resume()
process.stdin.on("end", () => process.exit(0))
