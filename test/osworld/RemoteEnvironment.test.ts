import * as Http from "node:http"
import * as FileSystem from "@effect/platform/FileSystem"
import * as NodeContext from "@effect/platform-node/NodeContext"
import { assert, describe, it } from "@effect/vitest"
import * as Context from "effect/Context"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import * as Scope from "effect/Scope"
import * as ArtifactStore from "../../src/artifact/ArtifactStore.js"
import { DesktopAction } from "../../src/desktop/Action.js"
import { RolloutIdentity, RunId } from "../../src/identity/Identity.js"
import { OSWorld } from "../../src/osworld/OSWorld.js"
import * as RemoteEnvironment from "../../src/osworld/RemoteEnvironment.js"
import { type Agent, Decision } from "../../src/rollout/Agent.js"
import { type Environment, EnvironmentError, EvaluationFailed, StepFacts } from "../../src/rollout/Environment.js"
import { program } from "../../src/rollout/Episode.js"
import { EpisodeLimits } from "../../src/rollout/EpisodeLimits.js"
import { Evaluation } from "../../src/rollout/Evaluation.js"
import type { RolloutOutcome } from "../../src/rollout/Outcome.js"
import { TaskRow } from "../../src/rollout/TaskRow.js"
import * as Simulator from "../rollout/simulator.js"
import { double, serve, task, token, until } from "./serving.js"

const scoped = <E>(name: string, effect: () => Effect.Effect<void, E, Scope.Scope | NodeContext.NodeContext>) =>
  it.scopedLive(name, () => Effect.provide(effect(), NodeContext.layer))

/** A server of something else, which answers everything in the same way. */
const answering = (type: string, body: string) =>
  Effect.acquireRelease(
    Effect.async<Http.Server>((resume) => {
      const server = Http.createServer((_, response) => {
        response.writeHead(200, { "content-type": type })
        response.end(body)
      })
      server.listen(0, "127.0.0.1", () => resume(Effect.succeed(server)))
    }),
    (server) => Effect.sync(() => server.closeAllConnections())
  ).pipe(
    Effect.tap((server) => Effect.addFinalizer(() => Effect.sync(() => server.close()))),
    Effect.map((server) => {
      const address = server.address()
      return `http://127.0.0.1:${typeof address === "object" && address !== null ? address.port : 0}`
    })
  )

const act = (code: string) => Decision.Act({ action: DesktopAction.Python({ code }) })

const failed = (phase: EnvironmentError["phase"], fault: EnvironmentError["fault"], reason: string) =>
  new EnvironmentError({ phase, fault, reason })

type Faults = NonNullable<Parameters<typeof double>[0]>

/** What may happen to an episode, each by a row of its own. */
const happenings = {
  "a full score": { turns: [[act("a()"), act("b()")], [Decision.Wait()], [Decision.Done()]] },
  "a fraction": {
    turns: [[Decision.Done()]],
    faults: { evaluate: () => Effect.succeed(new Evaluation({ score: 0.37, details: ["0.37"] })) }
  },
  "an agent that gives up": { turns: [[act("a()")], [Decision.Fail()]] },
  "the last step": { turns: [[act("a()")], [act("b()")], [act("c()")], [act("d()")]] },
  "words that are code": { turns: [[act("DONE"), act("FAIL"), act("WAIT")], [Decision.Done()]] },
  "an environment that is done": { turns: [[act("finish")], [act("never")]] },
  "an open that fails": { turns: [], faults: { open: () => failed("setup", "infrastructure", "no image") } },
  "a task that is wrong": { turns: [], faults: { open: () => failed("setup", "task", "no such step") } },
  "an open with a bug": { turns: [], faults: { open: () => Effect.dieMessage("bug in open") } },
  "a step that fails": {
    turns: [[act("a()")], [act("b()")]],
    faults: { step: (code: string) => (code === "b()" ? failed("step", "infrastructure", "silent") : Effect.void) }
  },
  "a step with a bug": { turns: [[act("a()")]], faults: { step: () => Effect.dieMessage("bug in step") } },
  "a screen that fails": { turns: [[act("a()")]], faults: { observe: failed("observe", "infrastructure", "black") } },
  "an evaluator that cannot decide": {
    turns: [[Decision.Done()]],
    faults: { evaluate: () => Effect.fail(new EvaluationFailed({ reason: "no gold" })) }
  },
  "an evaluation that fails": {
    turns: [[Decision.Done()]],
    faults: { evaluate: () => Effect.fail(failed("step", "infrastructure", "silent")) }
  },
  "an evaluator with a bug": {
    turns: [[Decision.Done()]],
    faults: { evaluate: () => Effect.dieMessage("bug in evaluate") }
  },
  "an environment that ends by itself": {
    turns: [[act("a()")], [act("b()")]],
    // In the middle of the second step.
    faults: () => {
      const end = Effect.runSync(Deferred.make<never, EnvironmentError>())
      return {
        step: (code: string) =>
          code === "b()"
            ? Effect.zipRight(Deferred.fail(end, failed("step", "infrastructure", "killed")), Effect.never)
            : Effect.void,
        lost: Deferred.await(end)
      }
    }
  }
} satisfies Record<
  string,
  {
    readonly turns: ReadonlyArray<ReadonlyArray<Decision<DesktopAction>>>
    readonly faults?: Faults | (() => Faults)
  }
>

const agent = (turns: ReadonlyArray<ReadonlyArray<Decision<DesktopAction>>>): Agent<DesktopAction> => ({
  contract: {
    ...Simulator.contract,
    runner: { ...Simulator.contract.runner, observation_type: "screenshot_a11y_tree" }
  },
  open: () =>
    Effect.succeed({ decide: (_, step) => Effect.succeed({ decisions: turns[step] ?? [], text: `turn ${step}` }) })
})

const row = new TaskRow({ taskIndex: 0, taskId: "a", domain: "os", instruction: "Do a", task: task("a") })

const identity = new RolloutIdentity({
  runId: RunId.make("r"),
  taskId: "a",
  taskIndex: 0,
  rolloutIndex: 0,
  attemptIndex: 0
})

const episode = (
  environment: Environment<DesktopAction>,
  turns: ReadonlyArray<ReadonlyArray<Decision<DesktopAction>>>
) =>
  program({ environment, agent: agent(turns), limits: EpisodeLimits.make({ maxSteps: 3 }), rewardMode: "raw" })(
    row,
    identity
  ).pipe(Effect.provide(Simulator.evidence()))

const artifacts = Effect.gen(function* () {
  const fs = yield* FileSystem.FileSystem
  const directory = yield* fs.makeTempDirectoryScoped()
  return Context.get(yield* Layer.build(ArtifactStore.layer({ directory })), ArtifactStore.ArtifactStore)
})

const remote = (url: string, options: Partial<RemoteEnvironment.RemoteEnvironmentOptions> = {}) =>
  Effect.gen(function* () {
    const store = yield* artifacts
    const layer = RemoteEnvironment.layer({
      url,
      token: Redacted.make(token),
      pause: 0,
      heartbeat: "20 millis",
      ...options
    })
    const built = yield* Layer.build(Layer.provide(layer, Layer.succeed(ArtifactStore.ArtifactStore, store)))
    return { environment: Context.get(built, OSWorld), store }
  })

/** All of an outcome but how long things took, and where in the code a bug was. */
const told = (outcome: RolloutOutcome): unknown =>
  JSON.parse(JSON.stringify(outcome), (key, value: unknown) => {
    if (/milliseconds$/i.test(key)) return undefined
    return key === "detail" && typeof value === "string" ? (/bug in \w+/.exec(value)?.[0] ?? value) : value
  })

const opened = (environment: Environment<DesktopAction>) => environment.open(row, identity, { accessibilityTree: true })

describe("an episode in a remote environment", () => {
  for (const [what, { turns, ...rest }] of Object.entries(happenings)) {
    scoped(`comes out as in the environment itself: ${what}`, () =>
      Effect.gen(function* () {
        const given: Faults | (() => Faults) = "faults" in rest ? rest.faults : {}
        const faults = typeof given === "function" ? given : () => given
        const here = double(faults())
        const direct = yield* episode(here.environment(yield* artifacts), turns)
        const there = double(faults())
        const { sessions, url } = yield* serve(there)
        const { environment } = yield* remote(url)
        const outcome = yield* episode(environment, turns)
        assert.deepStrictEqual(told(outcome), told(direct))
        assert.deepStrictEqual(there.trace, here.trace)
        assert.strictEqual(yield* sessions, 0)
        assert.strictEqual(there.open.size, 0)
      })
    )
  }

  scoped("leaves nothing on the server wherever it is interrupted", () =>
    Effect.gen(function* () {
      const slowly = Effect.sleep("4 millis")
      const desktops = double({
        open: () => slowly,
        observe: slowly,
        step: () => slowly,
        evaluate: () => Effect.as(slowly, new Evaluation({ score: 1, details: [] }))
      })
      const { sessions, url } = yield* serve(desktops)
      const { environment } = yield* remote(url)
      const { turns } = happenings["a full score"]
      let whole = 0
      for (let delay = 0; delay < 120; delay += 2) {
        const running = yield* Effect.fork(episode(environment, turns))
        yield* Effect.sleep(delay)
        const exit = yield* Fiber.interrupt(running)
        if (Exit.isSuccess(exit)) whole++
        // A seed that was under way when it was cut off may come after the close; it opens nothing.
        assert.strictEqual(yield* sessions, 0, `after ${delay} ms`)
        assert.strictEqual(desktops.open.size, 0, `after ${delay} ms`)
      }
      yield* Effect.sleep("100 millis")
      assert.strictEqual(yield* sessions, 0)
      const opens = desktops.trace.filter((line) => line === "open a").length
      assert.strictEqual(desktops.trace.filter((line) => line === "close a").length, opens)
      assert.isAbove(opens, 20)
      assert.isBelow(whole, 60)
    })
  )
})

/** Hands requests on, and of every third POST loses the answer. */
const lossy = (url: string) =>
  Effect.gen(function* () {
    let posts = 0
    let lost = 0
    const server = Http.createServer((request, response) => {
      const drop = request.method === "POST" && posts++ % 3 === 0
      const onward = Http.request(
        `${url}${request.url}`,
        { method: request.method, headers: request.headers },
        (answer) => {
          if (drop) {
            lost++
            answer.resume().on("end", () => request.socket.destroy())
          } else {
            response.writeHead(answer.statusCode ?? 500, answer.headers)
            answer.pipe(response)
          }
        }
      )
      request.pipe(onward)
    })
    yield* Effect.acquireRelease(
      Effect.async<void>((resume) => {
        server.listen(0, "127.0.0.1", () => resume(Effect.void))
      }),
      () =>
        Effect.async<void>((resume) => {
          server.close(() => resume(Effect.void))
          server.closeAllConnections()
        })
    )
    const address = server.address()
    const port = typeof address === "object" && address !== null ? address.port : 0
    return { url: `http://127.0.0.1:${port}`, lost: () => lost }
  })

describe("RemoteEnvironment", () => {
  scoped("does once what it has to ask for twice", () =>
    Effect.gen(function* () {
      const desktops = double()
      const server = yield* serve(desktops)
      const proxy = yield* lossy(server.url)
      const { environment } = yield* remote(proxy.url)
      const outcome = yield* episode(environment, [[act("a()"), act("b()")], [act("c()")], [Decision.Done()]])
      assert.strictEqual(outcome._tag, "Scored")
      assert.isAtLeast(proxy.lost(), 2)
      assert.deepStrictEqual(desktops.trace, [
        "open a",
        "step a()",
        "step b()",
        "step c()",
        "evaluate agent_done",
        "close a"
      ])
    })
  )

  scoped("stores what it is shown, byte for byte", () =>
    Effect.gen(function* () {
      const { url } = yield* serve(double())
      const { environment, store } = yield* remote(url)
      const session = yield* opened(environment)
      const { accessibilityTree, screenshot } = yield* session.observe
      assert.deepInclude(screenshot, { bytes: 11, mediaType: "image/png" })
      assert.strictEqual((yield* store.get(screenshot)).length, 11)
      assert.isDefined(accessibilityTree)
      if (accessibilityTree === undefined) return
      assert.include(Buffer.from(yield* store.get(accessibilityTree)).toString(), "é")
    })
  )

  scoped("gives facts as they were", () =>
    Effect.gen(function* () {
      const { url } = yield* serve(double())
      const { environment } = yield* remote(url)
      const session = yield* opened(environment)
      assert.deepStrictEqual(
        yield* session.step(DesktopAction.Python({ code: "a()" })),
        new StepFacts({ exitCode: 0, stderr: "", milliseconds: 7, done: false })
      )
      assert.deepStrictEqual(yield* session.wait, new StepFacts({ milliseconds: 0, done: false }))
    })
  )

  scoped("is lost when its server goes, or forgets the session", () =>
    Effect.gen(function* () {
      const scope = yield* Scope.make()
      const { url } = yield* Scope.extend(serve(double()), scope)
      const { environment } = yield* remote(url, { tries: 1 })
      const lost = yield* Effect.scoped(
        Effect.gen(function* () {
          const session = yield* opened(environment)
          const watching = yield* Effect.fork(Effect.flip(session.lost))
          yield* Scope.close(scope, Exit.void)
          return yield* Fiber.join(watching)
        })
      )
      assert.strictEqual(lost.fault, "infrastructure")
      assert.match(lost.message, /gave no answer|gone/)
    })
  )

  scoped("waits for a place while there is none", () =>
    Effect.gen(function* () {
      const desktops = double()
      const { url } = yield* serve(desktops, { capacity: 1 })
      const { environment } = yield* remote(url)
      const first = yield* Scope.make()
      yield* Scope.extend(opened(environment), first)
      const second = yield* Effect.fork(Effect.scoped(opened(environment)))
      yield* Effect.sleep("200 millis")
      yield* Scope.close(first, Exit.void)
      yield* Fiber.join(second)
      assert.deepStrictEqual(desktops.trace, ["open a", "close a", "open a", "close a"])
    })
  )

  scoped("keeps a session from its time to live by asking about it", () =>
    Effect.gen(function* () {
      const desktops = double()
      const { sessions, url } = yield* serve(desktops, { ttl: "200 millis" })
      const { environment } = yield* remote(url)
      yield* Effect.scoped(Effect.zipRight(opened(environment), Effect.sleep("600 millis")))
      assert.deepStrictEqual(desktops.trace, ["open a", "close a"])
      yield* until(() => desktops.open.size === 0)
      assert.strictEqual(yield* sessions, 0)
    })
  )

  scoped("says that the token is wrong", () =>
    Effect.gen(function* () {
      const { url } = yield* serve(double())
      const { environment } = yield* remote(url, { token: Redacted.make("another") })
      const error = yield* Effect.flip(Effect.scoped(opened(environment)))
      assert.strictEqual(error.message, "invalid bearer token")
    })
  )

  scoped("finds out before a run whether a server is there, is one, and takes the token", () =>
    Effect.gen(function* () {
      const { sessions, url } = yield* serve(double())
      yield* RemoteEnvironment.reach({ url, token: Redacted.make(token) })
      assert.strictEqual(yield* sessions, 0)
      const refused = (options: Parameters<typeof RemoteEnvironment.reach>[0]) =>
        Effect.map(Effect.flip(RemoteEnvironment.reach(options)), ({ message }) => message)
      assert.include(
        yield* refused({ url, token: Redacted.make("another"), tokenName: "MINE" }),
        "refuses the token in MINE"
      )
      assert.include(yield* refused({ url }), "wants a token, and none was given")
      const nobody = yield* refused({ url: "http://127.0.0.1:9" })
      assert.include(nobody, "http://127.0.0.1:9 gave no answer: connect ECONNREFUSED 127.0.0.1:9. Check the address")
      assert.include(
        yield* refused({ url: `${url}/nothing` }),
        "does not answer as a deskhand serve does: HTTP 404 to GET"
      )
      for (const [type, body] of [
        ["text/html", "<html>hello</html>"],
        ["application/json", '{"status":"fine"}']
      ] as const) {
        const other = yield* answering(type, body)
        const told = yield* refused({ url: other })
        assert.include(told, "deskhand serve")
        assert.isBelow(told.length, 300)
        assert.notMatch(told, /readonly|└─|<->/)
        const { environment } = yield* remote(other, { tries: 1 })
        const error = yield* Effect.flip(Effect.scoped(opened(environment)))
        assert.isBelow(error.message.length, 300)
        assert.notMatch(error.message, /readonly|└─|<->/)
      }
    })
  )

  it.effect("takes an address that is one, and no secret in it", () =>
    Effect.gen(function* () {
      for (const [url, why] of [
        ["localhost:80", "no http"],
        ["ftp://host", "no http"],
        ["http://user:secret@host", "credentials"],
        ["http://host/?token=secret", "query"]
      ] as const) {
        const store = Layer.succeed(ArtifactStore.ArtifactStore, {
          directory: "",
          put: () => Effect.dieMessage("nothing is put"),
          receive: () => Effect.dieMessage("nothing comes"),
          get: () => Effect.dieMessage("nothing is got"),
          lend: () => Effect.dieMessage("nothing is lent")
        })
        const error = yield* Effect.flip(Effect.scoped(Effect.provide(RemoteEnvironment.make({ url }), store)))
        assert.include(error.message, why)
        assert.notInclude(error.message, "secret")
      }
    })
  )
})
