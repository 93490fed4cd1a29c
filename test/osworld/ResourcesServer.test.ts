import { createHash } from "node:crypto"
import { existsSync, readdirSync } from "node:fs"
import * as NodeContext from "@effect/platform-node/NodeContext"
import { assert, describe, it } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Redacted from "effect/Redacted"
import * as Scope from "effect/Scope"
import * as TestClock from "effect/TestClock"
import * as ResourcesServer from "../../src/osworld/ResourcesServer.js"
import { EnvironmentError, EvaluationFailed } from "../../src/rollout/Environment.js"
import { Evaluation } from "../../src/rollout/Evaluation.js"
import { aMoment, ask, double, png, seed, serve, task, token, tree, until } from "./serving.js"

const scoped = <E>(name: string, effect: () => Effect.Effect<void, E, Scope.Scope | NodeContext.NodeContext>) =>
  it.scoped(name, () => Effect.provide(effect(), NodeContext.layer))

const step = (url: string, session: string, operation_id: string, action: unknown = "x()", extra = {}) =>
  ask(url, "/step", { session, body: { operation_id, action, pause: 0, ...extra } })

const infrastructure = (reason: string) => new EnvironmentError({ phase: "step", fault: "infrastructure", reason })

describe("a session", () => {
  scoped("goes from seed to close, each thing once and in order", () =>
    Effect.gen(function* () {
      const desktops = double({ evaluate: () => Effect.succeed(new Evaluation({ score: 0.37, details: ["a: 0.37"] })) })
      const { directory, url } = yield* serve(desktops)
      const seeded = yield* seed(url, "s1", { environment: { require_a11y_tree: true } })
      assert.strictEqual(seeded.status, 200)
      const { observation, ...named } = seeded.body
      assert.deepStrictEqual(named, { session_id: "s1", task_id: "a", worker: "desktop", status: "ready" })
      const sha256 = createHash("sha256").update(png).digest("hex")
      const treeSha256 = createHash("sha256").update(tree).digest("hex")
      const shown = {
        screenshot: { sha256, bytes: png.length, media_type: "image/png", url: `/blobs/${sha256}` },
        screenshot_b64: png.toString("base64"),
        accessibility_tree_blob: {
          sha256: treeSha256,
          bytes: Buffer.byteLength(tree),
          media_type: "text/xml",
          url: `/blobs/${treeSha256}`
        },
        accessibility_tree: tree,
        terminal: null,
        instruction: "Do a",
        milliseconds: 1
      }
      assert.deepStrictEqual(observation, shown)
      assert.deepStrictEqual((yield* ask(url, "/observe", { session: "s1" })).body, shown)
      assert.deepStrictEqual((yield* step(url, "s1", "1", "click()")).body, {
        operation_id: "1",
        observation: shown,
        reward: 0,
        done: false,
        info: { exit_code: 0, stderr: "", milliseconds: 7, environment_done: false }
      })
      assert.strictEqual((yield* step(url, "s1", "2", "WAIT")).body["done"], false)
      assert.strictEqual((yield* step(url, "s1", "3", "DONE", { observe: false })).body["done"], true)
      const evaluated = yield* ask(url, "/evaluate", { session: "s1", body: {} })
      assert.deepStrictEqual(evaluated.body, { score: 0.37, details: ["a: 0.37"] })
      assert.deepStrictEqual(readdirSync(directory), ["s1"])
      const closed = yield* ask(url, "/close", { session: "s1", body: {} })
      assert.deepStrictEqual(closed.body, { closed: true, outcome: "closed" })
      assert.deepStrictEqual(desktops.trace, [
        "open a",
        "step click()",
        "wait",
        "wait",
        "evaluate agent_done",
        "close a"
      ])
      assert.deepStrictEqual(readdirSync(directory), [])
      assert.strictEqual((yield* ask(url, "/close", { session: "s1", body: {} })).body["outcome"], "already_closed")
      assert.strictEqual((yield* step(url, "s1", "4")).status, 404)
    })
  )

  scoped("is found by the cookie that its seed sets, by clients that keep cookies", () =>
    Effect.gen(function* () {
      const { url } = yield* serve(double())
      const seeded = yield* ask(url, "/seed_session", { body: { task_config: task("a") } })
      const cookie = seeded.headers.get("set-cookie") ?? ""
      assert.match(cookie, /^deskhand_session=[^;]+;.*HttpOnly.*SameSite=Strict/)
      const headers = { cookie: cookie.split(";")[0] ?? "" }
      assert.strictEqual((yield* ask(url, "/session", { headers })).body["session_id"], seeded.body["session_id"])
      // A cookie that is still kept after the end of its session begins a new one.
      assert.strictEqual((yield* ask(url, "/close", { headers, body: {} })).status, 200)
      const again = yield* ask(url, "/seed_session", { headers, body: { task_config: task("b") } })
      assert.strictEqual(again.status, 200)
      assert.notStrictEqual(again.body["session_id"], seeded.body["session_id"])
    })
  )

  scoped("shows its images by link where it is asked to, to whoever names it", () =>
    Effect.gen(function* () {
      const { url } = yield* serve(double())
      const seeded = yield* seed(url, "s1", { environment: { images: "link" } })
      yield* seed(url, "s2", { observe: false })
      const sha256 = createHash("sha256").update(png).digest("hex")
      assert.deepInclude(seeded.body["observation"], { screenshot_b64: null })
      const blob = yield* Effect.promise(async () => {
        const response = await fetch(`${url}/blobs/${sha256}`, {
          headers: { authorization: `Bearer ${token}`, "x-deskhand-session": "s1" }
        })
        return { type: response.headers.get("content-type"), bytes: Buffer.from(await response.arrayBuffer()) }
      })
      assert.deepStrictEqual(blob, { type: "image/png", bytes: png })
      assert.strictEqual((yield* ask(url, `/blobs/${sha256}`, { session: "s1", token: null })).status, 401)
      assert.strictEqual((yield* ask(url, `/blobs/${sha256}`)).status, 400)
      assert.strictEqual((yield* ask(url, `/blobs/${sha256}`, { session: "s2" })).status, 404)
      assert.strictEqual((yield* ask(url, "/blobs/..%2f..%2fetc%2fpasswd", { session: "s1" })).status, 404)
    })
  )

  scoped("is verified with its fraction, closed by it, and says the same when it is asked again", () =>
    Effect.gen(function* () {
      const desktops = double({ evaluate: () => Effect.succeed(new Evaluation({ score: 0.37, details: [] })) })
      const { url } = yield* serve(desktops)
      yield* seed(url, "s1")
      const body = { response: { id: "r" }, verifier_metadata: { task_id: "a" } }
      const [one, two] = yield* Effect.all(
        [ask(url, "/verify", { session: "s1", body }), ask(url, "/verify", { session: "s1", body })],
        { concurrency: 2 }
      )
      const expected = { ...body, reward: 0.37, mask_sample: false, osworld_score: 0.37, osworld_details: [] }
      assert.deepStrictEqual(one.body, expected)
      assert.deepStrictEqual(two.body, expected)
      assert.deepStrictEqual((yield* ask(url, "/verify", { session: "s1", body })).body, expected)
      assert.deepStrictEqual(desktops.trace, ["open a", "evaluate max_steps", "close a"])
    })
  )

  scoped("reads its score as the server is told to", () =>
    Effect.gen(function* () {
      const desktops = double({ evaluate: () => Effect.succeed(new Evaluation({ score: 0.5, details: [] })) })
      const { url } = yield* serve(desktops, { rewardMode: "binary" })
      yield* seed(url, "s1")
      const { body } = yield* ask(url, "/verify", { session: "s1", body: {} })
      assert.deepInclude(body, { reward: 0, osworld_score: 0.5, mask_sample: false })
    })
  )

  for (const [what, failure] of [
    ["an evaluator that cannot decide", new EvaluationFailed({ reason: "no gold" })],
    ["an environment that fails", infrastructure("the guest is silent")]
  ] as const) {
    scoped(`has no reward from ${what}, and is closed all the same`, () =>
      Effect.gen(function* () {
        const desktops = double({ evaluate: () => Effect.fail(failure) })
        const { url } = yield* serve(desktops)
        yield* seed(url, "s1")
        const { body, status } = yield* ask(url, "/verify", { session: "s1", body: {} })
        assert.strictEqual(status, 500)
        assert.strictEqual(body["detail"], failure.reason)
        assert.notProperty(body, "reward")
        assert.strictEqual(desktops.open.size, 0)
      })
    )
  }

  scoped("tells the evaluator what the caller says, or what the last action was", () =>
    Effect.gen(function* () {
      const desktops = double()
      const { url } = yield* serve(desktops)
      yield* seed(url, "s1")
      const evaluate = (body: unknown) => ask(url, "/evaluate", { session: "s1", body })
      yield* evaluate({})
      yield* step(url, "s1", "1", "FAIL")
      yield* evaluate({})
      yield* step(url, "s1", "2", { code: "FAIL" })
      yield* evaluate({})
      yield* step(url, "s1", "3", "finish")
      yield* evaluate({})
      yield* evaluate({ termination: { _tag: "AgentDone" } })
      assert.deepStrictEqual(
        desktops.trace.filter((line) => line.startsWith("evaluate")),
        ["max_steps", "agent_fail", "max_steps", "environment_done", "agent_done"].map((why) => `evaluate ${why}`)
      )
    })
  )
})

describe("operations", () => {
  scoped("that are sent a thousand times at once are carried out once", () =>
    Effect.gen(function* () {
      const go = yield* Deferred.make<void>()
      const desktops = double({ step: () => Deferred.await(go) })
      const { url } = yield* serve(desktops)
      yield* seed(url, "s1")
      const asked = yield* Effect.fork(
        Effect.all(
          Array.from({ length: 1000 }, () => step(url, "s1", "once", "click()", { observe: false })),
          { concurrency: "unbounded" }
        )
      )
      yield* until(() => desktops.trace.includes("step click()"))
      yield* Effect.repeatN(aMoment, 20)
      yield* Deferred.succeed(go, undefined)
      const answers = yield* Fiber.join(asked)
      assert.strictEqual(new Set(answers.map(({ body }) => JSON.stringify(body))).size, 1)
      assert.deepStrictEqual(new Set(answers.map(({ status }) => status)), new Set([200]))
      assert.deepStrictEqual((yield* step(url, "s1", "once", "click()", { observe: false })).body, answers[0]?.body)
      assert.deepStrictEqual(
        desktops.trace.filter((line) => line.startsWith("step")),
        ["step click()"]
      )
      assert.strictEqual((yield* step(url, "s1", "once", "other()", { observe: false })).status, 409)
    })
  )

  scoped("take their turns, and go on when whoever asked goes away", () =>
    Effect.gen(function* () {
      const go = yield* Deferred.make<void>()
      const running = { now: 0, most: 0 }
      const desktops = double({
        step: (code) =>
          Effect.sync(() => {
            running.now++
            running.most = Math.max(running.most, running.now)
          }).pipe(
            Effect.zipRight(code === "0" ? Deferred.await(go) : Effect.promise(() => Promise.resolve())),
            Effect.ensuring(
              Effect.sync(() => {
                running.now--
              })
            )
          )
      })
      const { url } = yield* serve(desktops)
      yield* seed(url, "s1")
      const left = yield* Effect.fork(step(url, "s1", "0", "0"))
      yield* until(() => desktops.trace.includes("step 0"))
      yield* Fiber.interrupt(left)
      const others = yield* Effect.fork(
        Effect.forEach(
          Array.from({ length: 20 }, (_, i) => String(i + 1)),
          (id) => step(url, "s1", id, id),
          {
            concurrency: "unbounded"
          }
        )
      )
      yield* aMoment
      yield* Deferred.succeed(go, undefined)
      assert.deepStrictEqual(new Set((yield* Fiber.join(others)).map(({ status }) => status)), new Set([200]))
      assert.strictEqual(running.most, 1)
      assert.strictEqual((yield* step(url, "s1", "0", "0")).status, 200)
      assert.strictEqual(desktops.trace.filter((line) => line === "step 0").length, 1)
    })
  )

  scoped("that failed are not carried out again, and nothing is done in a desktop that nobody knows the state of", () =>
    Effect.gen(function* () {
      const desktops = double({
        step: (code) => (code === "break" ? infrastructure("the guest is silent") : Effect.void)
      })
      const { url } = yield* serve(desktops)
      yield* seed(url, "s1")
      const first = yield* step(url, "s1", "1", "break")
      assert.strictEqual(first.status, 500)
      assert.deepStrictEqual(first.body, {
        _tag: "EnvironmentFailed",
        detail: "the guest is silent",
        phase: "step",
        lost: false,
        bug: false
      })
      assert.deepStrictEqual((yield* step(url, "s1", "1", "break")).body, first.body)
      assert.deepStrictEqual((yield* step(url, "s1", "2", "go()")).body, first.body)
      assert.deepStrictEqual((yield* ask(url, "/evaluate", { session: "s1", body: {} })).body, first.body)
      assert.deepInclude((yield* ask(url, "/session", { session: "s1" })).body, {
        status: "error",
        error: { detail: "the guest is silent", lost: false }
      })
      assert.deepStrictEqual(desktops.trace, ["open a", "step break"])
      const reset = yield* ask(url, "/reset", { session: "s1", body: { task_config: task("b") } })
      assert.deepInclude(reset.body, { session_id: "s1", task_id: "b", status: "ready" })
      assert.strictEqual((yield* step(url, "s1", "1", "break again")).status, 200)
      assert.deepStrictEqual(desktops.trace, ["open a", "step break", "close a", "open b", "step break again"])
    })
  )

  scoped("end with a defect of the environment, and the server lives on", () =>
    Effect.gen(function* () {
      const desktops = double({ step: () => Effect.dieMessage("a bug") })
      const { url } = yield* serve(desktops)
      yield* seed(url, "s1")
      const { body, status } = yield* step(url, "s1", "1")
      assert.strictEqual(status, 500)
      assert.deepInclude(body, { _tag: "EnvironmentFailed", bug: true })
      assert.strictEqual((yield* seed(url, "s2")).status, 200)
    })
  )

  scoped("end when they take longer than they may", () =>
    Effect.gen(function* () {
      const desktops = double({ step: () => Effect.never })
      const { url } = yield* serve(desktops, { operationTimeout: "10 minutes" })
      yield* seed(url, "s1")
      const asked = yield* Effect.fork(step(url, "s1", "1"))
      yield* until(() => desktops.trace.includes("step x()"))
      yield* TestClock.adjust("10 minutes")
      const { body, status } = yield* Fiber.join(asked)
      assert.strictEqual(status, 500)
      assert.strictEqual(body["detail"], "it took longer than 10m")
    })
  )

  scoped("of which too many wait are refused, with when to come again", () =>
    Effect.gen(function* () {
      const go = yield* Deferred.make<void>()
      const desktops = double({ step: () => Deferred.await(go) })
      const { url } = yield* serve(desktops)
      yield* seed(url, "s1")
      const asked = yield* Effect.fork(
        Effect.forEach(
          Array.from({ length: 80 }, (_, i) => String(i)),
          (id) => step(url, "s1", id, id),
          {
            concurrency: "unbounded"
          }
        )
      )
      yield* until(() => desktops.trace.length > 1)
      yield* Effect.repeatN(aMoment, 20)
      yield* Deferred.succeed(go, undefined)
      const answers = yield* Fiber.join(asked)
      const refused = answers.filter(({ status }) => status === 429)
      // One runs and 64 wait.
      assert.strictEqual(refused.length, 80 - 65)
      assert.strictEqual(refused[0]?.headers.get("retry-after"), "5")
      assert.strictEqual(desktops.trace.filter((line) => line.startsWith("step")).length, 65)
    })
  )

  scoped("hear of an environment that ends by itself, whatever they do", () =>
    Effect.gen(function* () {
      const end = yield* Deferred.make<never, EnvironmentError>()
      const desktops = double({ step: () => Effect.never, lost: Deferred.await(end) })
      const { url } = yield* serve(desktops)
      yield* seed(url, "s1")
      const asked = yield* Effect.fork(step(url, "s1", "1"))
      yield* until(() => desktops.trace.includes("step x()"))
      yield* Deferred.fail(end, infrastructure("the container was killed"))
      const { body, status } = yield* Fiber.join(asked)
      assert.strictEqual(status, 500)
      assert.deepInclude(body, { detail: "the container was killed", lost: true })
      assert.deepInclude((yield* ask(url, "/session", { session: "s1" })).body, {
        error: { detail: "the container was killed", lost: true }
      })
    })
  )
})

describe("seeds", () => {
  scoped("of the same session join, others conflict, and a spent id opens nothing", () =>
    Effect.gen(function* () {
      const go = yield* Deferred.make<void>()
      const desktops = double({ open: () => Deferred.await(go) })
      const { url } = yield* serve(desktops)
      const both = yield* Effect.fork(Effect.all([seed(url, "s1"), seed(url, "s1")], { concurrency: 2 }))
      yield* until(() => desktops.open.size > 0)
      assert.strictEqual((yield* ask(url, "/session", { session: "s1" })).body["status"], "creating")
      const changed = { ...task("a"), instruction: "Do something else" }
      assert.strictEqual((yield* seed(url, "s1", { task_config: changed })).status, 409)
      yield* Deferred.succeed(go, undefined)
      const [one, two] = yield* Fiber.join(both)
      assert.strictEqual(one.status, 200)
      assert.deepStrictEqual(one.body, two.body)
      assert.deepStrictEqual((yield* seed(url, "s1")).body, one.body)
      assert.deepStrictEqual(desktops.trace, ["open a"])
      yield* ask(url, "/close", { session: "s1", body: {} })
      assert.strictEqual((yield* seed(url, "s1")).status, 409)
      // A close that overtakes its seed spends the id.
      yield* ask(url, "/close", { session: "s2", body: {} })
      assert.strictEqual((yield* seed(url, "s2")).status, 409)
      assert.deepStrictEqual(desktops.trace, ["open a", "close a"])
    })
  )

  scoped("that find no place are told when to come again; a place comes free with its desktop, or its failure", () =>
    Effect.gen(function* () {
      const removed = yield* Deferred.make<void>()
      const desktops = double({
        open: (id) => (id === "bad" ? infrastructure("no such image") : Effect.void),
        close: Deferred.await(removed)
      })
      const { sessions, url } = yield* serve(desktops, { capacity: 1 })
      const failing = yield* Effect.fork(seed(url, "s0", { task_config: task("bad") }))
      yield* until(() => desktops.trace.includes("open bad"))
      const full = yield* seed(url, "s1")
      assert.strictEqual(full.status, 503)
      assert.strictEqual(full.headers.get("retry-after"), "5")
      yield* Deferred.succeed(removed, undefined)
      const failed = yield* Fiber.join(failing)
      assert.strictEqual(failed.status, 500)
      assert.deepInclude(failed.body, { detail: "no such image" })
      assert.strictEqual(yield* sessions, 0)
      assert.strictEqual((yield* seed(url, "s1")).status, 200)
      assert.deepInclude((yield* ask(url, "/healthz", { token: null })).body, {
        status: "ok",
        deployment_id: "default",
        sessions: 1,
        creating: 0,
        capacity: 1,
        proxy_configured: false,
        workers: [{ name: "desktop", capacity: 1, active: 1, reserved: 0, available: 0, last_error: "no such image" }]
      })
    })
  )

  scoped("that ask for what there is not are refused before anything opens", () =>
    Effect.gen(function* () {
      const desktops = double()
      const { url } = yield* serve(desktops)
      for (const [extra, status] of [
        [{ task_config: { instruction: "no id" } }, 422],
        [{ task_config: "text" }, 422],
        [{ environment: { enable_proxy: true } }, 422],
        [{ environment: { require_terminal: true } }, 422],
        [{ environment: { action_space: "computer_13" } }, 400],
        [{ environment: { screen_width: 5 } }, 400],
        [{ task_file: "a.json" }, 422],
        [{ session_id: "../../etc" }, 400]
      ] as const) {
        assert.strictEqual((yield* seed(url, "s1", extra)).status, status, JSON.stringify(extra))
      }
      for (const session of ["../outside", "/etc", "a/b", "x".repeat(129)]) {
        const named = yield* ask(url, "/seed_session", { session, body: { task_config: task("a") } })
        assert.strictEqual(named.status, 400, session)
        assert.strictEqual((yield* ask(url, "/close", { session, body: {} })).status, 400, session)
      }
      assert.deepStrictEqual(desktops.trace, [])
    })
  )

  scoped("may name a task's file in the server's folder of tasks, and nowhere else", () =>
    Effect.gen(function* () {
      const { url } = yield* serve(double(), { tasks: "/srv/tasks" })
      assert.strictEqual((yield* seed(url, "s1", { task_file: "os/a.json" })).status, 200)
      for (const task_file of ["../a.json", "/etc/a.json", "os/../../tasks-of-others/a.json", "."]) {
        assert.strictEqual((yield* seed(url, "s2", { task_file })).status, 422, task_file)
      }
    })
  )
})

describe("the server", () => {
  scoped("lets nobody in without its token, and says no more than that", () =>
    Effect.gen(function* () {
      const desktops = double()
      const { url } = yield* serve(desktops)
      const body = { session_id: "s1", task_config: task("a") }
      for (const shown of [null, "", "wrong", `${token}x`, token.slice(0, -1)]) {
        const refused = yield* ask(url, "/seed_session", { body, token: shown })
        assert.strictEqual(refused.status, 401)
        assert.strictEqual(refused.body["detail"], "invalid bearer token")
      }
      for (const path of ["/session", "/observe", "/blobs/x"]) {
        assert.strictEqual((yield* ask(url, path, { token: null })).status, 401)
      }
      for (const path of ["/reset", "/step", "/evaluate", "/close", "/verify"]) {
        assert.strictEqual((yield* ask(url, path, { token: null, body: "not even what it should be" })).status, 401)
      }
      const basic = yield* ask(url, "/session", { token: null, headers: { authorization: `Basic ${token}` } })
      assert.strictEqual(basic.status, 401)
      const lower = yield* ask(url, "/session", { token: null, headers: { authorization: `bearer ${token}` } })
      assert.strictEqual(lower.status, 400)
      assert.deepStrictEqual(desktops.trace, [])
      assert.strictEqual((yield* ask(url, "/", { token: null })).status, 200)
    })
  )

  scoped("knows no session that nobody seeded", () =>
    Effect.gen(function* () {
      const { url } = yield* serve(double())
      assert.strictEqual((yield* ask(url, "/observe")).status, 400)
      assert.strictEqual((yield* ask(url, "/observe", { session: "nobody" })).status, 404)
      assert.strictEqual((yield* step(url, "nobody", "1")).status, 404)
      assert.strictEqual((yield* ask(url, "/verify", { session: "nobody", body: {} })).status, 404)
      assert.strictEqual((yield* ask(url, "/close", { session: "nobody", body: {} })).status, 200)
    })
  )

  scoped("refuses a request that is too large, without reading it whole", () =>
    Effect.gen(function* () {
      const { url } = yield* serve(double(), { requestLimit: 10_000 })
      yield* seed(url, "s1")
      const answer = yield* Effect.either(
        Effect.tryPromise(() =>
          fetch(`${url}/step`, {
            method: "POST",
            headers: {
              authorization: `Bearer ${token}`,
              "x-deskhand-session": "s1",
              "content-type": "application/json"
            },
            body: JSON.stringify({ operation_id: "1", action: "x".repeat(1_000_000) })
          }).then(({ status }) => status)
        )
      )
      // Where the server hangs up while the client still writes, the client sees no answer.
      if (answer._tag === "Right") assert.oneOf(answer.right, [400, 413])
      assert.strictEqual((yield* step(url, "s1", "2")).status, 200)
    })
  )

  scoped("starts with a token, or on this machine alone", () =>
    Effect.gen(function* () {
      const { directory, url } = yield* serve(double(), { deployment: "team-a" })
      const base = {
        environment: ({ store }: ResourcesServer.DesktopWish) => Effect.succeed(double().environment(store)),
        directory,
        capacity: 1
      }
      for (const wrong of [
        { host: "0.0.0.0" },
        { host: "::" },
        { token: Redacted.make("") },
        { token: Redacted.make("two words") },
        { deployment: "a b" },
        { capacity: 0 }
      ]) {
        const error = yield* Effect.flip(ResourcesServer.make({ ...base, ...wrong }))
        assert.strictEqual(error.kind, "options")
      }
      const taken = yield* Effect.flip(ResourcesServer.make({ ...base, port: Number(new URL(url).port) }))
      assert.strictEqual(taken.kind, "listen")
      const open = yield* ResourcesServer.make(base)
      assert.strictEqual((yield* ask(open.url, "/observe", { token: null })).status, 400)
    })
  )

  scoped("closes what nobody asks for, and never what runs", () =>
    Effect.gen(function* () {
      const go = yield* Deferred.make<void>()
      const desktops = double({ step: () => Deferred.await(go) })
      const { sessions, url } = yield* serve(desktops, { ttl: "10 minutes" })
      yield* seed(url, "s1")
      yield* seed(url, "s2")
      const asked = yield* Effect.fork(step(url, "s1", "1"))
      yield* until(() => desktops.trace.includes("step x()"))
      yield* TestClock.adjust("9 minutes")
      assert.strictEqual((yield* ask(url, "/session", { session: "s2" })).status, 200)
      yield* TestClock.adjust("9 minutes")
      // Asked about nine minutes ago: still there, and so is the one that has been stepping for eighteen.
      assert.strictEqual(yield* sessions, 2)
      yield* TestClock.adjust("9 minutes")
      yield* until(() => desktops.open.size === 1)
      assert.deepStrictEqual([...desktops.open], ["s1"])
      yield* Deferred.succeed(go, undefined)
      assert.strictEqual((yield* Fiber.join(asked)).status, 200)
      // Its time begins when the step ends.
      yield* TestClock.adjust("9 minutes")
      assert.strictEqual(yield* sessions, 1)
      yield* TestClock.adjust("1 minute")
      yield* Effect.repeat(Effect.zipRight(aMoment, sessions), { until: (count) => count === 0 })
      assert.strictEqual(desktops.open.size, 0)
      assert.strictEqual((yield* ask(url, "/session", { session: "s1" })).status, 404)
    })
  )

  scoped("closes a session after the step that runs, and after a while in spite of it", () =>
    Effect.gen(function* () {
      const go = yield* Deferred.make<void>()
      const desktops = double({ step: (code) => (code === "long" ? Effect.never : Deferred.await(go)) })
      const { url } = yield* serve(desktops, { closeGrace: "1 minute" })
      yield* seed(url, "s1")
      const running = yield* Effect.fork(step(url, "s1", "1", "short"))
      yield* until(() => desktops.trace.includes("step short"))
      const waiting = yield* Effect.fork(step(url, "s1", "2", "never begun"))
      yield* aMoment
      const closing = yield* Effect.fork(ask(url, "/close", { session: "s1", body: {} }))
      yield* Effect.repeatN(aMoment, 5)
      assert.strictEqual((yield* ask(url, "/session", { session: "s1" })).body["status"], "closing")
      assert.strictEqual((yield* step(url, "s1", "3", "too late")).status, 410)
      yield* Deferred.succeed(go, undefined)
      assert.strictEqual((yield* Fiber.join(running)).status, 200)
      assert.strictEqual((yield* Fiber.join(waiting)).status, 410)
      assert.strictEqual((yield* Fiber.join(closing)).status, 200)
      assert.deepStrictEqual(desktops.trace, ["open a", "step short", "close a"])

      yield* seed(url, "s2")
      const stuck = yield* Effect.fork(step(url, "s2", "1", "long"))
      yield* until(() => desktops.trace.includes("step long"))
      const cutting = yield* Effect.fork(ask(url, "/close", { session: "s2", body: {} }))
      yield* Effect.repeatN(aMoment, 5)
      assert.strictEqual(desktops.open.size, 1)
      yield* TestClock.adjust("1 minute")
      assert.strictEqual((yield* Fiber.join(cutting)).status, 200)
      assert.strictEqual((yield* Fiber.join(stuck)).status, 410)

      yield* seed(url, "s3")
      const cut = yield* Effect.fork(step(url, "s3", "1", "long"))
      yield* until(() => desktops.trace.filter((line) => line === "step long").length === 2)
      assert.strictEqual((yield* ask(url, "/close", { session: "s3", body: { force: true } })).status, 200)
      assert.strictEqual((yield* Fiber.join(cut)).status, 410)
      assert.strictEqual(desktops.open.size, 0)
    })
  )

  scoped("closes every desktop when it is closed, side by side, and answers who waits", () =>
    Effect.gen(function* () {
      const together = yield* Deferred.make<void>()
      const asked = yield* Deferred.make<void>()
      let closing = 0
      const desktops = double({
        open: (id) => (id === "slow" ? Effect.never : Effect.void),
        step: () => Effect.never,
        // None is done before all have begun.
        close: Effect.suspend(() => {
          closing++
          return closing === 3 ? Deferred.succeed(together, undefined) : Effect.void
        }).pipe(Effect.zipRight(Deferred.await(together)), Effect.zipRight(Deferred.await(asked)))
      })
      const scope = yield* Scope.make()
      const { directory, url } = yield* Scope.extend(serve(desktops), scope)
      yield* seed(url, "s1")
      yield* seed(url, "s2")
      const opening = yield* Effect.fork(seed(url, "s3", { task_config: task("slow") }))
      const stepping = yield* Effect.fork(step(url, "s1", "1"))
      yield* until(() => desktops.open.size === 3 && desktops.trace.includes("step x()"))
      const shutting = yield* Effect.fork(Scope.close(scope, Exit.void))
      yield* until(() => closing === 3)
      // Whoever asks meanwhile is told so.
      assert.strictEqual((yield* seed(url, "s4")).status, 503)
      assert.strictEqual((yield* ask(url, "/session", { session: "s1" })).body["status"], "closing")
      yield* Deferred.succeed(asked, undefined)
      assert.strictEqual((yield* Fiber.join(opening)).status, 410)
      assert.strictEqual((yield* Fiber.join(stepping)).status, 410)
      yield* Fiber.join(shutting)
      assert.strictEqual(desktops.open.size, 0)
      assert.isFalse(existsSync(directory))
    })
  )

  scoped("drains: nothing new begins, and it is through when the last session ends", () =>
    Effect.gen(function* () {
      const desktops = double()
      const { drain, url } = yield* serve(desktops)
      yield* seed(url, "s1")
      const drained = yield* Effect.fork(drain)
      yield* aMoment
      const refused = yield* seed(url, "s2")
      assert.strictEqual(refused.status, 503)
      assert.strictEqual((yield* ask(url, "/healthz")).body["status"], "draining")
      assert.strictEqual((yield* step(url, "s1", "1")).status, 200)
      yield* ask(url, "/close", { session: "s1", body: {} })
      yield* Fiber.join(drained)
    })
  )
})
