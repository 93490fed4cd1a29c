/**
 * A trainer of one's own, whole, that learns while you watch: rollouts from the collector, a policy behind a real model API,
 * owners, advantages, gate, loss, update, new weights. The policy is a table of twelve numbers; another trainer, engine,
 * agent or desktop is another layer, and `train` stays as it is.
 *
 *     npx tsx examples/trainer.ts
 *     npx tsx examples/trainer.ts --desktop local --buttons 2 --steps 12 --prompts 4
 *
 * The task: three times, press the right one of the buttons. Nothing but the reward at the end says which.
 */
import * as Http from "node:http"
import * as Command from "@effect/cli/Command"
import * as Options from "@effect/cli/Options"
import * as ValidationError from "@effect/cli/ValidationError"
import * as FileSystem from "@effect/platform/FileSystem"
import * as NodeContext from "@effect/platform-node/NodeContext"
import * as NodeHttpClient from "@effect/platform-node/NodeHttpClient"
import * as Chunk from "effect/Chunk"
import * as Clock from "effect/Clock"
import * as Console from "effect/Console"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
// In a project of your own, "../src/rollout/Episode.js" is "deskhand/rollout/Episode", and so on.
import { DesktopAgent } from "../src/agents/DesktopAgent.js"
import * as ArtifactStore from "../src/artifact/ArtifactStore.js"
import { runMain } from "../src/cli/Program.js"
import { DesktopAction } from "../src/desktop/Action.js"
import { RunId } from "../src/identity/Identity.js"
import * as ChatCompletions from "../src/model/ChatCompletions.js"
import * as Connections from "../src/model/Connections.js"
import { assistant, type Message, text, user } from "../src/model/Conversation.js"
import { ModelClient, ModelRequest } from "../src/model/ModelClient.js"
import { ModelError } from "../src/model/ModelError.js"
import { Sampling } from "../src/model/Sampling.js"
import * as Assets from "../src/osworld/Assets.js"
import * as OSWorld from "../src/osworld/OSWorld.js"
import { type Agent, CallFailed, Decision, ModelCall, ParseFailure, Reading, Replied } from "../src/rollout/Agent.js"
import type { AgentContract } from "../src/rollout/Contract.js"
import type { Environment } from "../src/rollout/Environment.js"
import * as Episode from "../src/rollout/Episode.js"
import { EpisodeLimits } from "../src/rollout/EpisodeLimits.js"
import { Evaluation } from "../src/rollout/Evaluation.js"
import * as Evidence from "../src/rollout/Evidence.js"
import * as GroupEnvironment from "../src/rollout/GroupEnvironment.js"
import { svgPlot } from "../src/rollout/Plot.js"
import * as RolloutCollector from "../src/rollout/RolloutCollector.js"
import { TaskRow } from "../src/rollout/TaskRow.js"
import * as TrainingInput from "../src/rollout/TrainingInput.js"
import * as LocalProvider from "../src/sandbox/LocalProvider.js"
import { draw } from "../src/testing/Distribution.js"
import * as SimulatedDesktops from "../src/testing/SimulatedDesktops.js"
import * as ChainPolicy from "../src/training/ChainPolicy.js"
import * as Controller from "../src/training/Controller.js"
import * as DropRules from "../src/training/DropRules.js"
import * as Recipe from "../src/training/Recipe.js"
import { type PublishedPolicy, ReferencePolicy, layer as referenceTrainer } from "../src/training/ReferenceTrainer.js"
import { Trainer } from "../src/training/Trainer.js"
import * as Update from "../src/training/Update.js"

const recipe = Recipe.flash

const decisions = ChainPolicy.standardTask.targets.length

/** With four buttons it is the task that the published figures are about; with fewer, chance succeeds sooner. */
const taskOf = ({ buttons }: Settings): ChainPolicy.ChainTask => ({
  actions: buttons,
  targets: ChainPolicy.standardTask.targets.map((target) => target % buttons)
})

/** Buttons stand side by side; the agent presses the middle of one. */
const buttonWidth = ({ actions }: ChainPolicy.ChainTask) => Math.floor(1920 / actions)
const middleOf = (task: ChainPolicy.ChainTask, button: number) => Math.round((button + 0.5) * buttonWidth(task))

const question = (decision: number) => `Decision ${decision + 1} of ${decisions}: which button?`
const numberIn = (said: string) => Number(/\d+/.exec(said)?.[0] ?? Number.NaN)

// -----------------------------------------------------------------------------
// Training
// -----------------------------------------------------------------------------

interface Settings {
  readonly steps: number
  readonly seed: number
  readonly desktop: "simulated" | "local"
  readonly buttons: number
  readonly prompts: number
  readonly generations: number
}

const train = (out: string, settings: Settings) =>
  Effect.gen(function* () {
    const { desktop, generations, prompts, steps } = settings
    const task = taskOf(settings)
    const taskJson = buttonsTask(task)
    const trainer = yield* Trainer
    const policy = yield* ReferencePolicy
    const collector = yield* RolloutCollector.RolloutCollector
    const controller = yield* Controller.Controller
    const environment = yield* GroupEnvironment.fromOneState(yield* OSWorld.OSWorld, { groupSize: generations })
    const agent = yield* DesktopAgent
    const program = Episode.program({ environment, agent, limits: EpisodeLimits.make({ maxSteps: decisions }) })
    const curve: Array<{ readonly step: number; readonly reward: number; readonly success: number }> = []
    const began = yield* Clock.currentTimeMillis

    const takeStep = Effect.gen(function* () {
      const version = yield* trainer.version
      const rows = Array.from({ length: prompts }, (_, prompt) => {
        const taskId = `step-${version}-prompt-${prompt}`
        const taskIndex = version * prompts + prompt
        return new TaskRow({ taskIndex, taskId, domain: "buttons", instruction: taskJson.instruction, task: taskJson })
      })
      const outcomes = yield* controller.dispatch(() =>
        collector
          .collect(Stream.fromIterable(rows), program, {
            runId: RunId.make("trainer"),
            concurrency: desktop === "local" ? 4 : 64,
            groupSize: generations
          })
          .pipe(Stream.runCollect)
      )
      const { assembled, batch } = yield* TrainingInput.batch(outcomes, TrainingInput.fromEvidence(out), {
        groupSize: generations,
        prompts,
        version,
        sampler: recipe.sampler,
        fewestGroups: DropRules.fewestGroups(recipe.drops, prompts),
        // The engine says in each reply which weights gave it.
        weightVersions: { dispatched: version, ofModel: numberIn }
      })
      const { result, update } = yield* Update.make(Recipe.objectiveOf(recipe), batch, {
        id: `step-${version}`,
        version,
        previous: yield* trainer.score(Update.scoreRows(batch))
      })
      const report = yield* trainer.update(update)
      yield* controller.refit(report.version)

      const success = ChainPolicy.success((yield* policy.current).policy, task)
      const scored = Chunk.filter(outcomes, (outcome) => outcome._tag === "Scored" && outcome.reward === 1).length
      const reward = scored / (prompts * generations)
      curve.push({ step: report.version, reward, success })
      const lacking = assembled.rejections.length === 0 ? "" : `, ${assembled.rejections.length} failed`
      yield* Console.log(
        `step ${String(report.version).padStart(3)}  reward ${reward.toFixed(3)}  success ${success.toFixed(3)}  ` +
          `${"#".repeat(Math.round(success * 40)).padEnd(40)}  ${result.rows} rows, ${result.rejectedRows} gated${lacking}`
      )
    })
    yield* Effect.repeatN(takeStep, steps - 1)

    const seconds = ((yield* Clock.currentTimeMillis) - began) / 1000
    const chance = task.actions ** -decisions
    yield* Console.log(
      `success went from ${chance.toFixed(3)} to ${(curve.at(-1)?.success ?? chance).toFixed(3)} in ${steps} steps, ` +
        `${steps * prompts * generations} rollouts and ${seconds.toFixed(0)} seconds`
    )
    return svgPlot(`Learning by ${recipe.name}`, [
      {
        title: "Rollouts that succeed",
        xLabel: "optimizer step",
        yLabel: "share",
        yMax: 1,
        series: [
          { name: "reward of the step's rollouts", points: curve.map(({ reward, step }) => [step, reward]) },
          { name: "success of the policy after it", points: curve.map(({ step, success }) => [step, success]) }
        ]
      }
    ])
  })

// -----------------------------------------------------------------------------
// The engine: what an inference server is to a trainer
// -----------------------------------------------------------------------------

const Asked = Schema.parseJson(
  Schema.Struct({
    messages: Schema.Array(
      Schema.Struct({
        role: Schema.Literal("user", "assistant"),
        content: Schema.Union(Schema.String, Schema.Array(Schema.Struct({ text: Schema.String })))
      })
    )
  })
)

/** A chat completion with the ids of its tokens and how likely each was, as vLLM tells them. */
const complete = ({ policy, version }: PublishedPolicy, { messages }: typeof Asked.Type, u: number) => {
  const prompt = [ChainPolicy.textToken(policy)]
  let decision = 0
  for (const { content, role } of messages) {
    const said = numberIn(typeof content === "string" ? content : content.map(({ text }) => text).join(""))
    if (role === "user") decision = said - 1
    prompt.push(role === "user" ? ChainPolicy.decisionToken(policy, decision) : ChainPolicy.actionToken(said))
  }
  const action = ChainPolicy.act(ChainPolicy.probabilities(policy), policy.actions, decision, u)
  const token = ChainPolicy.actionToken(action)
  const logprob = ChainPolicy.logProbabilities(policy)[decision * policy.actions + action]
  return {
    id: "chatcmpl-policy",
    object: "chat.completion",
    // Which weights answered: the rows of a step need to know.
    model: `policy-v${version}`,
    prompt_token_ids: prompt,
    choices: [
      {
        index: 0,
        message: { role: "assistant", content: `button ${action}` },
        finish_reason: "stop",
        token_ids: [token],
        logprobs: { content: [{ token: `token_id:${token}`, logprob }] }
      }
    ],
    usage: { prompt_tokens: prompt.length, completion_tokens: 1 }
  }
}

class Engine extends Context.Tag("examples/trainer/Engine")<Engine, { readonly url: string }>() {}

const engine = (seed: number): Layer.Layer<Engine, never, ReferencePolicy> =>
  Layer.scoped(
    Engine,
    Effect.gen(function* () {
      const { published } = yield* ReferencePolicy
      const server = Http.createServer((request, response) => {
        const chunks: Array<Buffer> = []
        request.on("data", (chunk: Buffer) => chunks.push(chunk))
        request.on("end", () => {
          const asked = Schema.decodeUnknownOption(Asked)(Buffer.concat(chunks).toString())
          const { "x-deskhand-rollout-id": rollout, "x-deskhand-step": step } = request.headers
          // What is drawn hangs on the rollout and not on whose call comes first: a seed gives one curve.
          const u = draw(seed, String(rollout), String(step))
          const [status, body] = Option.match(asked, {
            onNone: () => [400, { error: { message: "expected user and assistant messages" } }] as const,
            onSome: (asked) => [200, complete(Effect.runSync(published), asked, u)] as const
          })
          response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(body))
        })
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
      return { url: `http://127.0.0.1:${typeof address === "object" ? address?.port : 0}/v1` }
    })
  )

/** The model client of rollouts: no call is under way while the engine changes its weights. */
const client: Layer.Layer<
  ModelClient,
  never,
  Engine | Controller.Controller | NodeHttpClient.Dispatcher | ArtifactStore.ArtifactStore
> = Layer.effect(
  ModelClient,
  Effect.gen(function* () {
    const { url } = yield* Engine
    const controller = yield* Controller.Controller
    const { complete, model } = yield* ChatCompletions.make({ url, model: "policy", tokens: "ids" })
    return {
      model,
      complete: (request) =>
        controller
          .call(() => complete(request))
          .pipe(
            Effect.catchTag(
              "NoEngineServes",
              ({ message }) => new ModelError({ reason: "unavailable", url, detail: message })
            )
          )
    }
  })
)

// -----------------------------------------------------------------------------
// The agent and its desktops
// -----------------------------------------------------------------------------

const contract: AgentContract = {
  schema_version: 1,
  runner: {
    name: "buttons",
    kind: "example",
    action_space: "pyautogui",
    observation_type: "screenshot",
    agent_class_path: "examples/trainer",
    platform: "ubuntu",
    screen_size: [1920, 1080]
  },
  max_steps: decisions,
  model_protocol: null,
  history_policy: null,
  agent_options: null
}

const read = (task: ChainPolicy.ChainTask, said: string): Reading | ParseFailure => {
  const button = numberIn(said)
  return button < task.actions
    ? new Reading({ decisions: [`button ${button}`] })
    : new ParseFailure({ kind: "unparseable", message: `${said} names no button` })
}

/** Checking what is known to be right would be most of what a call costs here. */
const unchecked = true

/** Its last prompt shows nothing of what came before, so an owner has two segments: what compaction makes of episodes. */
const buttonAgent = (task: ChainPolicy.ChainTask): Layer.Layer<DesktopAgent, never, ModelClient> =>
  Layer.effect(
    DesktopAgent,
    Effect.map(
      ModelClient,
      (model): Agent<DesktopAction> => ({
        contract,
        open: ({ identity, record }) =>
          Effect.sync(() => {
            let shown: ReadonlyArray<Message> = []
            return {
              decide: (_, step) =>
                Effect.gen(function* () {
                  const [first, ...others] = [...(step === decisions - 1 ? [] : shown), user(text(question(step)))]
                  if (first === undefined) return { decisions: [], text: "" }
                  const asked = { messages: [first, ...others] as const, sampling: new Sampling({}), step }
                  const call = (result: ModelCall["result"]) =>
                    record(new ModelCall({ ...asked, parseAttempt: 0, purpose: "act", result }, unchecked))
                  const reply = yield* Effect.tapError(
                    model.complete(new ModelRequest({ ...asked, identity }, unchecked)),
                    (error) => call(new CallFailed({ error }, unchecked))
                  )
                  const found = read(task, reply.text)
                  yield* call(new Replied({ reply, read: found }, unchecked))
                  shown = [...asked.messages, assistant(text(reply.text))]
                  if (found._tag === "ParseFailure") return { decisions: [], text: reply.text }
                  const code = `pyautogui.click(${middleOf(task, numberIn(reply.text))}, 540)`
                  const act = Decision.Act({ action: DesktopAction.Python({ code }) })
                  return { decisions: step === decisions - 1 ? [act, Decision.Done()] : [act], text: reply.text }
                })
            }
          })
      })
    )
  )

/** Buttons that exist only in name, in no time. */
const simulated = (task: ChainPolicy.ChainTask, seed: number): Environment<DesktopAction> => {
  const desktops = SimulatedDesktops.make({ seed: String(seed) })
  return {
    ...desktops,
    open: (row, identity, needs) =>
      Effect.map(desktops.open(row, identity, needs), (session) => {
        const pressed: Array<number> = []
        return {
          ...session,
          step: (action) => {
            const [, x = Number.NaN] = /click\((\d+)/.exec(action.code)?.map(Number) ?? []
            pressed.push(Math.floor(x / buttonWidth(task)))
            return session.step(action)
          },
          evaluate: () => {
            const score = pressed.join() === task.targets.join() ? 1 : 0
            return Effect.succeed(new Evaluation({ score, details: [`pressed ${pressed.join(", ")}`] }))
          }
        }
      })
  }
}

/** Buttons on a real screen, which write down which one was pressed. */
const buttonsProgram = (task: ChainPolicy.ChainTask) => `
from Xlib import X, display
d = display.Display()
screen = d.screen()
window = screen.root.create_window(0, 0, 1920, 1080, 0, screen.root_depth, background_pixel=screen.white_pixel,
                                   event_mask=X.ExposureMask | X.ButtonPressMask, override_redirect=True)
window.map()
for button, colour in enumerate((0x0072b2, 0xd55e00, 0x009e73, 0xcc79a7)[:${task.actions}]):
    gc = window.create_gc(foreground=colour)
    window.fill_rectangle(gc, ${buttonWidth(task)} * button + 10, 10, ${buttonWidth(task)} - 20, 1060)
d.sync()
open("/home/user/pressed", "w").close()
while True:
    event = d.next_event()
    if event.type == X.ButtonPress:
        with open("/home/user/pressed", "a") as file:
            file.write(str(event.event_x // ${buttonWidth(task)}))
`

/** As a task of OSWorld's: its setup starts the buttons, its evaluator reads what was pressed. */
const buttonsTask = (task: ChainPolicy.ChainTask) => ({
  id: "buttons",
  instruction: `Press the right one of ${task.actions} buttons, ${decisions} times.`,
  config: [
    { type: "launch", parameters: { command: ["python3", "-c", buttonsProgram(task)] } },
    {
      type: "execute",
      parameters: { command: ["sh", "-c", "test -e /home/user/pressed && echo there"], until: { stdout: "there" } }
    }
  ],
  related_apps: [],
  evaluator: {
    func: "exact_match",
    result: { type: "vm_command_line", command: ["cat", "/home/user/pressed"] },
    expected: { type: "rule", rules: { expected: task.targets.join("") } }
  }
})

// -----------------------------------------------------------------------------
// The program
// -----------------------------------------------------------------------------

/** Everything that `train` asks for. */
const runtime = (out: string, settings: Settings) => {
  const { desktop, seed } = settings
  const task = taskOf(settings)
  const trainer = referenceTrainer({ task, learningRate: 2 })
  const controller = Layer.unwrapEffect(
    Effect.map(Trainer, (trainer) => Controller.layer({ engines: [{ name: "engine", load: trainer.publish }] }))
  )
  const desktops =
    desktop === "local"
      ? OSWorld.layer({ pause: "50 millis", settle: "100 millis" }).pipe(
          Layer.provide(LocalProvider.layerConfig),
          Layer.provide(Assets.layer({ directory: `${out}/assets` }))
        )
      : Layer.succeed(OSWorld.OSWorld, simulated(task, seed))
  const agent = buttonAgent(task).pipe(
    Layer.provide(client),
    Layer.provide(Connections.layer()),
    Layer.provide(engine(seed))
  )
  return Layer.mergeAll(RolloutCollector.layer({ out }), Evidence.layer({ out }), desktops, agent).pipe(
    Layer.provideMerge(controller),
    Layer.provideMerge(trainer),
    Layer.provide(ArtifactStore.layer({ directory: `${out}/blobs` }))
  )
}

const positive = (name: string, unlessGiven: number, what: string) =>
  Options.integer(name).pipe(
    Options.withSchema(Schema.Int.pipe(Schema.positive())),
    Options.withDefault(unlessGiven),
    Options.withDescription(`${what}; ${unlessGiven} unless given`)
  )

const command = Command.make(
  "trainer",
  {
    steps: positive("steps", 50, "Optimizer steps"),
    seed: Options.integer("seed").pipe(
      Options.withDefault(1),
      Options.withDescription("Of what the policy draws; 1 unless given")
    ),
    desktop: Options.choice("desktop", ["simulated", "local"]).pipe(
      Options.withDefault("simulated" as const),
      Options.withDescription("simulated, or containers with a real screen on this machine")
    ),
    buttons: Options.integer("buttons").pipe(
      Options.withSchema(Schema.Int.pipe(Schema.between(2, 4))),
      Options.withDefault(ChainPolicy.standardTask.actions),
      Options.withDescription("Buttons to choose from, 2 to 4; fewer are sooner learned")
    ),
    prompts: positive("prompts", recipe.prompts, "Groups of a step"),
    generations: positive("generations", recipe.generations, "Owners of a group"),
    out: Options.text("out").pipe(
      Options.optional,
      Options.withDescription("Keep the run and curve.svg in this folder; nothing is kept unless given")
    )
  },
  ({ out, ...settings }) =>
    Effect.gen(function* () {
      const fs = yield* FileSystem.FileSystem
      const folder = Option.isSome(out) ? out.value : yield* fs.makeTempDirectoryScoped({ prefix: "deskhand-trainer-" })
      const svg = yield* Effect.provide(train(folder, settings), runtime(folder, settings))
      if (Option.isNone(out)) return
      yield* fs.writeFileString(`${folder}/curve.svg`, svg)
      yield* Console.log(`the curve is in ${folder}/curve.svg`)
    }).pipe(Effect.scoped)
).pipe(Command.withDescription("Train a small policy by reinforcement, from rollouts to weights"))

const main = Command.run(command, { name: "trainer", version: "0.1.0" })(process.argv).pipe(
  Effect.provide(Layer.merge(NodeContext.layer, NodeHttpClient.layer)),
  Effect.as(0),
  Effect.catchAll((error) =>
    // @effect/cli has shown its own errors already.
    ValidationError.isValidationError(error) ? Effect.succeed(2) : Effect.as(Console.error(error.message), 1)
  )
)

runMain(main)
