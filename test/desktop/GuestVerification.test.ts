/** Commands whose effect a guest waits for, with guests of both generations. */
import * as Http from "node:http"
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Guest from "../../src/desktop/Guest.js"
import { Endpoint } from "../../src/sandbox/Endpoint.js"

describe("Guest.executeAndVerify", () => {
  /** A guest server that answers each path as it is told to, and keeps what it was asked. */
  const server = (answer: (url: string, body: string) => readonly [number, unknown]) =>
    Effect.map(
      Effect.acquireRelease(
        Effect.async<{ readonly server: Http.Server; readonly asked: Array<string> }>((resume) => {
          const asked: Array<string> = []
          const server = Http.createServer((request, response) => {
            let body = ""
            request.on("data", (chunk) => {
              body += chunk
            })
            request.on("end", () => {
              asked.push(`${request.url} ${body}`)
              const [status, reply] = request.url === "/platform" ? [200, "Linux"] : answer(request.url ?? "", body)
              response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(reply))
            })
          })
          server.listen(0, "127.0.0.1", () => resume(Effect.succeed({ server, asked })))
        }),
        ({ server }) =>
          Effect.async<void>((resume) => {
            server.closeAllConnections()
            server.close(() => resume(Effect.void))
          })
      ),
      ({ asked, server }) => {
        const address = server.address()
        const port = typeof address === "object" && address !== null ? address.port : 0
        return { asked, endpoint: Endpoint.Tcp({ url: `http://127.0.0.1:${port}`, headers: {} }) }
      }
    )

  const request = {
    command: ["start"],
    windowExists: "Mail",
    commandSuccess: "test -e /x",
    maxWait: "2 seconds",
    interval: "50 millis"
  } as const

  // The bodies are the new generation's: osworld-upstream.md section 1.1.
  it.scopedLive("takes the new generation's two answers", () =>
    Effect.gen(function* () {
      let met = true
      const { asked, endpoint } = yield* server(() => {
        const fields = { output: "out", error: "", returncode: 3, wait_time: 1 }
        return met
          ? [200, { ...fields, status: "success", verification: "passed" }]
          : [500, { ...fields, status: "verification_failed", verification: "failed" }]
      })
      const guest = yield* Guest.make(endpoint)
      assert.deepStrictEqual(yield* guest.executeAndVerify(request), {
        stdout: "out",
        stderr: "",
        exitCode: 3,
        verified: true
      })
      met = false
      assert.isFalse((yield* guest.executeAndVerify(request)).verified)
      assert.include(asked[0], '"verification":{"window_exists":"Mail","command_success":"test -e /x"}')
      assert.include(asked[0], '"max_wait_time":2,"check_interval":0.05')
    })
  )

  it.scopedLive("looks by itself where a guest has no such route, and runs the command once", () =>
    Effect.gen(function* () {
      let looks = 0
      const { asked, endpoint } = yield* server((url, body) => {
        if (url !== "/execute") return [404, { message: "no such route" }]
        const listing = body.includes("wmctrl")
        if (listing) looks++
        const output = listing && looks > 2 ? "0x01 0 host INBOX - MAIL\n" : ""
        return [200, { status: "success", output, error: "", returncode: 0 }]
      })
      const guest = yield* Guest.make(endpoint)
      assert.isTrue((yield* guest.executeAndVerify(request)).verified)
      assert.strictEqual(asked.filter((line) => line.includes('"start"')).length, 2)
      // The route that is not there was tried once, with nothing run by it.
      assert.isTrue((yield* guest.executeAndVerify(request)).verified)
      assert.strictEqual(asked.filter((line) => line.startsWith("/execute_with_verification")).length, 1)
    })
  )

  it.scopedLive("leaves a failure a failure", () =>
    Effect.gen(function* () {
      const { endpoint } = yield* server(() => [500, { status: "error", message: "timed out after 120 seconds" }])
      const guest = yield* Guest.make(endpoint)
      assert.strictEqual((yield* Effect.flip(guest.executeAndVerify(request))).reason._tag, "Refused")
    })
  )
})
