import { existsSync, readFileSync } from "node:fs"
import { join } from "node:path"
import * as NodeContext from "@effect/platform-node/NodeContext"
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Gateway from "../../src/cli/Gateway.js"
import { UsageError } from "../../src/cli/Run.js"
import { completion, folder, json, upstream } from "../model/gatewayHarness.js"
import { Workplace } from "./harness.js"

const workplace = Effect.acquireRelease(
  Effect.sync(() => new Workplace()),
  (place) => Effect.sync(() => place.remove())
)

const ask = (url: string, headers: Record<string, string> = {}) =>
  Effect.promise(() =>
    fetch(`${url}/chat/completions`, {
      method: "POST",
      headers: { "content-type": "application/json", ...headers },
      body: JSON.stringify({ model: "m", messages: [{ role: "user", content: "hello" }] })
    })
  )

describe("deskhand gateway", () => {
  it.scopedLive("prints its address, serves, captures, and stops at a signal", () =>
    Effect.gen(function* () {
      const stub = yield* upstream((_, response) => json(response, 200, completion({ content: "hi" })))
      const place = yield* workplace
      const directory = yield* folder
      const running = place.start(
        ["gateway", "--upstream", stub.url, "--capture", directory, "--token-env", "MY_TOKEN", "--model", "served"],
        { MY_TOKEN: "secret-of-mine" }
      )
      const address = yield* Effect.async<string>((resume) => {
        let text = ""
        running.process.stdout?.on("data", (chunk: Buffer) => {
          text += chunk
          const [, found] = /OPENAI_BASE_URL=(\S+)/.exec(text) ?? []
          if (found !== undefined) resume(Effect.succeed(found))
        })
      })
      const rollout = address.replace("/v1", "/ng-rollout/3-0/v1")
      assert.strictEqual((yield* ask(rollout)).status, 401)
      assert.strictEqual((yield* ask(rollout, { authorization: "Bearer secret-of-mine" })).status, 200)
      assert.strictEqual(JSON.parse(stub.received[0]?.body.toString() ?? "").model, "served")
      running.process.kill("SIGTERM")
      const { status, stderr, stdout } = yield* Effect.promise(() => running.ended)
      assert.strictEqual(status, 143)
      assert.notInclude(stdout + stderr, "secret-of-mine")
      const [line = ""] = readFileSync(join(directory, "3-0.capture.jsonl"), "utf8").split("\n")
      assert.deepInclude(JSON.parse(line), { dialect: "chat", status_code: 200 })
      assert.isFalse(existsSync(join(directory, "3-0.capture.incomplete")))
    })
  )

  it.effect("says what makes no sense", () =>
    Effect.gen(function* () {
      const options: Gateway.GatewayOptions = {
        upstreams: ["http://127.0.0.1:1/v1"],
        dialects: [],
        model: Option.none(),
        apiKeyEnv: Option.none(),
        tokenEnv: Option.none(),
        host: "127.0.0.1",
        port: Option.none(),
        capture: Option.none(),
        tokens: "ids",
        samplingOverrides: Option.none(),
        extraBody: Option.none(),
        silenceSeconds: 900,
        maxRequestMib: 1,
        maxReplyMib: 1
      }
      for (const [wrong, told] of [
        [{ upstreams: [] }, "--upstream"],
        [{ upstreams: ["localhost:8000"] }, "http://host:port/v1"],
        [{ host: "0.0.0.0" }, "Give a token"],
        [{ tokenEnv: Option.some("NOT_SET_ANYWHERE") }, "NOT_SET_ANYWHERE"],
        [{ extraBody: Option.some("[]") }, "no JSON object"]
      ] as const) {
        const error = yield* Effect.flip(Gateway.serve({ ...options, ...wrong }))
        assert.instanceOf(error, UsageError)
        assert.include(error.message, told)
      }
    }).pipe(Effect.provide(NodeContext.layer))
  )
})
