import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { DesktopAgent } from "../../../src/agents/DesktopAgent.js"
import * as Registry from "../../../src/agents/Registry.js"
import * as BuiltIn from "../../../src/history/BuiltIn.js"
import { imageCount } from "../../../src/history/HistoryPolicy.js"
import type { ModelReply, ModelRequest } from "../../../src/model/ModelClient.js"
import type { ModelError } from "../../../src/model/ModelError.js"
import { Sampling } from "../../../src/model/Sampling.js"
import { ModelCall } from "../../../src/rollout/Agent.js"
import { Observation } from "../../../src/rollout/Environment.js"
import { identity, row } from "../../rollout/simulator.js"
import { failure, memory, model, picture, policy, reply, replyWithTokens } from "../support.js"

const screen = { width: 40, height: 30 }
const acts = (n: number) => `Next.\n\`\`\`python\npyautogui.press('${n}')\n\`\`\``

interface Played {
  readonly asked: ReadonlyArray<ModelRequest>
  readonly calls: ReadonlyArray<ModelCall>
  readonly turns: ReadonlyArray<string>
  readonly agent: DesktopAgent["Type"]
  readonly error: string | undefined
}

/** Runs the agent for as many steps as the answers last or until it stops. */
const play = (
  answers: ReadonlyArray<ModelReply | ModelError>,
  options: {
    readonly agent?: string
    readonly history?: string
    readonly steps?: number
    readonly sampling?: Sampling
    readonly size?: typeof screen
  } = {}
): Effect.Effect<Played> =>
  Effect.gen(function* () {
    const asked: Array<ModelRequest> = []
    const calls: Array<ModelCall> = []
    const turns: Array<string> = []
    const store = memory()
    const chosen = Either.getOrThrow(Registry.fromText(options.agent ?? "prompt"))
    const layer = Registry.layer(chosen, {
      screen,
      ...(options.sampling === undefined ? {} : { sampling: options.sampling })
    }).pipe(
      Layer.provide([
        model(answers, asked),
        policy(Either.getOrThrow(BuiltIn.fromText(options.history ?? "fixed:3"))),
        store.layer
      ])
    )
    return yield* Effect.gen(function* () {
      const agent = yield* DesktopAgent
      const session = yield* agent.open({
        row: row(),
        identity: identity(),
        record: (call) => Effect.sync(() => void calls.push(call))
      })
      let error: string | undefined
      for (let step = 0; step < (options.steps ?? 1) && error === undefined; step++) {
        const size = options.size ?? screen
        const png = yield* Effect.promise(() =>
          picture(size.width, size.height, [{ left: step % 20, top: 0, width: 2, height: 2 }])
        )
        const observation = new Observation({ screenshot: store.put(png, "image/png"), milliseconds: 1 })
        const turn = yield* Effect.either(session.decide(observation, step))
        if (Either.isLeft(turn)) error = turn.left.message
        else {
          const { decisions, stop } = turn.right
          turns.push(
            stop?.kind ??
              decisions.map((decision) => (decision._tag === "Act" ? decision.action.code : decision._tag)).join("; ")
          )
          if (stop !== undefined) {
            turns.push(`${stop.attempts} ${stop.modelCallCompleted}`)
            break
          }
        }
      }
      return { asked, calls, turns, agent, error }
    }).pipe(Effect.scoped, Effect.provide(layer))
  })

const imagesOf = ({ messages }: { readonly messages: ModelCall["messages"] }): number =>
  messages.flatMap((message) => [...message.content]).filter(({ _tag }) => _tag === "ImagePart").length

const result = ({ result }: ModelCall): string =>
  result._tag === "CallFailed"
    ? result.error.reason
    : result.read._tag === "Reading"
      ? result.read.decisions.join(" ")
      : result.read.kind

/** Replays the calls as evidence has them: through JSON. */
const assertReplays = ({ agent, calls }: Played) => {
  const replay = Option.getOrThrow(
    Registry.replay({
      settings: JSON.parse(JSON.stringify(agent.settings)),
      contract: agent.contract,
      instruction: row().instruction
    })
  )
  for (const call of calls) {
    const read = Schema.decodeUnknownSync(ModelCall)(JSON.parse(JSON.stringify(Schema.encodeSync(ModelCall)(call))))
    const replayed = Either.getOrThrow(replay(read))
    assert.deepStrictEqual(replayed.messages, call.messages)
    assert.deepStrictEqual(replayed.plan, call.plan)
    assert.deepStrictEqual([replayed.purpose, replayed.parseAttempt], [call.purpose, call.parseAttempt])
    assert.deepStrictEqual(replayed.read, call.result._tag === "Replied" ? call.result.read : undefined)
  }
  return replay
}

describe("the loop of agents", () => {
  it.effect("asks once a step and records each call", () =>
    Effect.gen(function* () {
      const played = yield* play([reply(acts(1)), reply("WAIT"), reply("```python\nDONE\n```")], { steps: 3 })
      assert.deepStrictEqual(played.turns, ["pyautogui.press('1')", "Wait", "Done"])
      assert.deepStrictEqual(
        played.calls.map((call) => [call.step, call.parseAttempt, call.purpose, result(call)]),
        [
          [0, 0, "act", "pyautogui.press('1')"],
          [1, 0, "act", "WAIT"],
          [2, 0, "act", "DONE"]
        ]
      )
      assert.deepStrictEqual(played.calls.map(imagesOf), [1, 2, 3])
      assert.deepStrictEqual(
        played.asked.map(({ messages }) => messages),
        played.calls.map(({ messages }) => messages)
      )
      assertReplays(played)
    })
  )

  it.effect("asks again with what was wrong, without heaping up, and forgets it when the step is over", () =>
    Effect.gen(function* () {
      const played = yield* play([reply("I think"), reply("```python\nif True\n```"), reply(acts(1)), reply(acts(2))], {
        steps: 2
      })
      assert.deepStrictEqual(played.turns, ["pyautogui.press('1')", "pyautogui.press('2')"])
      assert.deepStrictEqual(played.calls.map(result).slice(0, 2), ["unparseable", "unparseable"])
      assert.deepStrictEqual(
        played.calls.map(({ messages }) => messages.length),
        [2, 4, 4, 4]
      )
      assert.deepStrictEqual(played.calls.map(imagesOf), [1, 1, 1, 2])
      assert.include(JSON.stringify(played.calls[2]?.messages), "Expected `:`")
      assert.notInclude(JSON.stringify(played.calls[2]?.messages), "I think")
      assert.notInclude(JSON.stringify(played.calls[3]?.messages), "if True")
      assert.deepStrictEqual(
        played.calls.map(({ shown }) => shown !== undefined),
        [true, false, false, true]
      )
      assertReplays(played)
    })
  )

  // osworld-gym.md 6.3.
  for (const [kind, answer] of [
    ["model_response_unparseable", reply("I think")],
    ["model_output_truncated", reply(acts(1), "length")],
    ["model_response_empty", reply("")]
  ] as const) {
    it.effect(`stops with ${kind} when every reply of a step is like this, and makes up no action`, () =>
      Effect.gen(function* () {
        const played = yield* play(Array(5).fill(answer), { steps: 2 })
        assert.deepStrictEqual(played.turns, [kind, "5 true"])
        assert.lengthOf(played.calls, 5)
        assertReplays(played)
      })
    )
  }

  it.effect("asks nano-omni again as its options say", () =>
    Effect.gen(function* () {
      const played = yield* play(Array(3).fill(reply("nothing")), {
        agent: "nano-omni:parse_retries=3,parse_retry_temperature=0.5",
        sampling: new Sampling({ temperature: 0, maxTokens: 9 })
      })
      assert.deepStrictEqual(played.turns, ["model_response_unparseable", "3 true"])
      assert.deepStrictEqual(
        played.calls.map(({ messages }) => messages.length),
        [2, 2, 2]
      )
      assert.deepStrictEqual(
        played.asked.map(({ sampling }) => ({ ...sampling })),
        [
          { temperature: 0, maxTokens: 9 },
          { temperature: 0.5, maxTokens: 9 },
          { temperature: 0.5, maxTokens: 9 }
        ]
      )
      assertReplays(played)
    })
  )

  it.effect("fails at once with what a model's own retries could not mend", () =>
    Effect.gen(function* () {
      const played = yield* play([failure("timeout"), reply(acts(1))])
      assert.match(played.error ?? "", /the model says timeout/)
      assert.deepStrictEqual(played.calls.map(result), ["timeout"])
      assertReplays(played)
    })
  )

  it.effect("shrinks a prompt that is too long, one image at a time, and goes on from there", () =>
    Effect.gen(function* () {
      const played = yield* play(
        [
          reply(acts(0)),
          reply(acts(1)),
          reply(acts(2)),
          failure("context_overflow"),
          failure("context_overflow"),
          reply(acts(3)),
          reply(acts(4))
        ],
        { steps: 5, history: "hysteresis:2,10" }
      )
      assert.deepStrictEqual(played.turns.slice(3), ["pyautogui.press('3')", "pyautogui.press('4')"])
      assert.deepStrictEqual(played.calls.map(imagesOf), [1, 2, 3, 4, 3, 2, 3])
      assert.deepStrictEqual(
        played.calls.map(({ plan }) => plan?.limit),
        [undefined, undefined, undefined, undefined, 3, 2, undefined]
      )
      assert.deepStrictEqual(
        played.calls.map(({ plan }) => plan?.imageIntervals.reduce((sum, [start, end]) => sum + end - start, 0)),
        played.calls.map(imagesOf)
      )
      assertReplays(played)
    })
  )

  it.effect("stops unanswered when no smaller prompt is left: never below the sink and the newest", () =>
    Effect.gen(function* () {
      const played = yield* play(
        [reply(acts(0)), reply(acts(1)), failure("context_overflow"), failure("context_overflow")],
        { steps: 3, history: "sink:1,3,10" }
      )
      assert.deepStrictEqual(played.turns.slice(2), ["model_context_overflow", "2 false"])
      assert.deepStrictEqual(played.calls.map(imagesOf), [1, 2, 3, 2])
      assertReplays(played)
    })
  )

  it.effect("has the turns that leave summed up, keeps the summary, and asks again for one that is empty", () =>
    Effect.gen(function* () {
      const played = yield* play(
        [
          reply(acts(0)),
          reply(acts(1)),
          reply(acts(2)),
          reply(""),
          reply("all in all"),
          reply(acts(3)),
          reply(acts(4))
        ],
        { steps: 5, history: "compaction:2,3" }
      )
      assert.deepStrictEqual(
        played.calls.map(({ parseAttempt, purpose, step }) => [step, parseAttempt, purpose]),
        [
          [0, 0, "act"],
          [1, 0, "act"],
          [2, 0, "act"],
          [3, 0, "summary"],
          [3, 1, "summary"],
          [3, 2, "act"],
          [4, 0, "act"]
        ]
      )
      const shows = (call: number) => JSON.stringify(played.calls[call]?.messages)
      // The prompt for the summary goes on from the one before it, so that a prefix cache has it.
      assert.deepStrictEqual(played.calls[3]?.messages.slice(0, -2), played.calls[2]?.messages)
      assert.include(shows(5), "all in all")
      assert.include(shows(5), row().instruction)
      assert.notInclude(shows(5), "press('1')")
      assert.include(shows(5), "press('2')")
      assert.deepStrictEqual(played.calls[6]?.messages.slice(0, 4), played.calls[5]?.messages)
      assertReplays(played)
    })
  )

  it.effect("counts a refused prompt as a call of the step, and does not scold the model for it", () =>
    Effect.gen(function* () {
      const before = [reply(acts(0)), reply(acts(1)), reply(acts(2))]
      const played = yield* play([...before, reply("what"), failure("context_overflow"), failure("context_overflow")], {
        agent: "prompt:attempts=3",
        steps: 4,
        history: "hysteresis:2,10"
      })
      assert.deepStrictEqual(played.turns.slice(3), ["model_context_overflow", "3 false"])
      assert.deepStrictEqual(played.calls.slice(3).map(imagesOf), [4, 4, 3])
      assert.deepStrictEqual(
        played.calls.slice(3).map((call) => JSON.stringify(call.messages).includes("could not be used")),
        [false, true, false]
      )
      assertReplays(played)
    })
  )

  it.effect("repeats no tokens in prompts", () =>
    Effect.gen(function* () {
      const answers = ["what", acts(0), acts(1), "all in all", acts(2)].map(replyWithTokens)
      const played = yield* play(answers, { steps: 3, history: "compaction:1,2" })
      assert.deepStrictEqual(
        played.calls.map(({ purpose }) => purpose),
        ["act", "act", "act", "summary", "act"]
      )
      assert.notInclude(JSON.stringify(played.asked), "promptTokenIds")
      assert.notInclude(JSON.stringify(played.asked), "prompt_token_ids")
      for (const { result } of played.calls) {
        assert.isDefined(result._tag === "Replied" ? result.reply.message.tokens : undefined)
      }
    })
  )

  it.effect("will not work on a screen that is not the contract's", () =>
    Effect.gen(function* () {
      const played = yield* play([reply(acts(1))], { size: { width: 50, height: 30 } })
      assert.match(played.error ?? "", /50 by 30 pixels, and the screen is said to have 40 by 30/)
      assert.lengthOf(played.calls, 0)
    })
  )

  it.effect("wants the tree that it is to show", () =>
    Effect.gen(function* () {
      const played = yield* play([reply(acts(1))], { agent: "prompt:observation=a11y_tree" })
      assert.match(played.error ?? "", /wants the accessibility tree/)
    })
  )

  it.effect("prompts extend each other between the breaks that plans declare", () =>
    Effect.gen(function* () {
      for (const agent of ["prompt", "nano-omni"]) {
        for (const history of ["fixed:2", "hysteresis:2,5", "sink:1,2,4", "compaction:2,4"]) {
          const say = (n: number) => reply(agent === "prompt" ? acts(n) : `## Action:\nx${n}\n## Code:\na(${n})`)
          // Enough for summaries too, which take any text.
          const played = yield* play(
            Array.from({ length: 40 }, (_, n) => say(n)),
            { agent, history, steps: 14 }
          )
          assert.lengthOf(played.turns, 14)
          const prompts = played.calls.filter(({ purpose }) => purpose === "act")
          prompts.slice(1).forEach((call, at) => {
            const before = prompts[at]?.messages ?? []
            const extended = JSON.stringify(call.messages.slice(0, before.length)) === JSON.stringify(before)
            assert.strictEqual(extended, call.plan?.compaction !== true, `${agent} ${history} step ${call.step}`)
          })
          assertReplays(played)
        }
      }
    })
  )
})

describe("Registry.replay", () => {
  it.effect("says of a changed prompt what it should have been, and of calls that are missing that they are", () =>
    Effect.gen(function* () {
      const played = yield* play([reply("what"), reply(acts(1)), reply(acts(2))], { steps: 2 })
      const head = {
        settings: played.agent.settings,
        contract: played.agent.contract,
        instruction: "Do something else"
      }
      const replay = Option.getOrThrow(Registry.replay(head))
      const [first, , third] = played.calls
      assert.isDefined(first)
      assert.isDefined(third)
      if (first === undefined || third === undefined) return
      assert.notDeepEqual(Either.getOrThrow(replay(first)).messages, first.messages)
      assert.match(Either.match(replay(third), { onLeft: String, onRight: () => "" }), /step 0 wants another call/)
    })
  )

  it.effect("is not for agents and policies that are not ours", () =>
    Effect.gen(function* () {
      const { agent } = yield* play([reply(acts(1))])
      const head = { settings: agent.settings, contract: agent.contract, instruction: "" }
      assert.isTrue(Option.isSome(Registry.replay(head)))
      assert.isTrue(Option.isNone(Registry.replay({ ...head, settings: undefined })))
      assert.isTrue(
        Option.isNone(
          Registry.replay({ ...head, settings: { protocol: { name: "other", options: {} }, password: "" } })
        )
      )
      assert.isTrue(Option.isNone(Registry.replay({ ...head, contract: { ...agent.contract, history_policy: null } })))
    })
  )
})

describe("Registry", () => {
  const told = (text: string) =>
    Either.match(Registry.fromText(text), { onLeft: ({ message }) => message, onRight: ({ name }) => name })

  it("names what there is when asked for what is not", () => {
    assert.match(told("constructor"), /there is no agent "constructor": the agents are prompt, nano-omni.* and noop/)
    assert.match(told("prompt:observation=radar"), /observation[\s\S]*radar/)
    assert.match(told("prompt:observation=som,action_space=computer_13"), /pyautogui alone/)
    assert.match(told("prompt:colour=red"), /colour/)
    assert.match(told("prompt:x"), /NAME:KEY=VALUE/)
  })

  it("every agent has a policy of its own that exists, and a contract", () => {
    for (const name of Registry.names) {
      const chosen = Either.getOrThrow(Registry.make(name))
      const policy = Either.getOrThrow(BuiltIn.fromText(chosen.protocol.historyPolicy))
      assert.isAbove(imageCount(policy.plan(policy.initial, 0)), 0)
      assert.match(
        Registry.contract(chosen, policy).model_protocol?.wire_contract_id ?? "",
        /^osworld-model-wire-[0-9a-f]{24}$/
      )
    }
  })

  it("reads options from text", () => {
    const { options } = Either.getOrThrow(
      Registry.fromText("nano-omni:parse_retries=2,thinking=false,parse_retry_temperature=0.7")
    )
    assert.deepStrictEqual(options, { parse_retries: 2, thinking: false, parse_retry_temperature: 0.7 })
  })
})
