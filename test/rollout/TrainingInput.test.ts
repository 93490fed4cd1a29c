/** Recorded runs of simulated rollouts, and what they become. */
import * as FileSystem from "@effect/platform/FileSystem"
import * as NodeContext from "@effect/platform-node/NodeContext"
import { assert, describe, it } from "@effect/vitest"
import * as Arr from "effect/Array"
import * as Chunk from "effect/Chunk"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import { layer as artifactLayer, BlobRef } from "../../src/artifact/ArtifactStore.js"
import * as Compaction from "../../src/history/Compaction.js"
import type { HistoryPolicy } from "../../src/history/HistoryPolicy.js"
import { RolloutIdentity } from "../../src/identity/Identity.js"
import { AssistantMessage, ImagePart, text, user } from "../../src/model/Conversation.js"
import { ModelReply } from "../../src/model/ModelClient.js"
import { ModelError } from "../../src/model/ModelError.js"
import { Sampling } from "../../src/model/Sampling.js"
import { TokenBundle } from "../../src/model/TokenBundle.js"
import * as TokenCapture from "../../src/model/TokenCapture.js"
import { TokenEntry } from "../../src/model/TokenEntry.js"
import { type Agent, Decision, ModelCall, ParseFailure, Reading, Replied } from "../../src/rollout/Agent.js"
import { type Environment, EnvironmentError, EvaluationFailed } from "../../src/rollout/Environment.js"
import * as Episode from "../../src/rollout/Episode.js"
import { EpisodeLimits } from "../../src/rollout/EpisodeLimits.js"
import { Evaluation } from "../../src/rollout/Evaluation.js"
import * as Evidence from "../../src/rollout/Evidence.js"
import { once } from "../../src/rollout/FailurePolicy.js"
import { fromOneState } from "../../src/rollout/GroupEnvironment.js"
import { Masked, type RolloutOutcome, Scored, Unresolved } from "../../src/rollout/Outcome.js"
import * as RolloutCollector from "../../src/rollout/RolloutCollector.js"
import { AgentDone } from "../../src/rollout/Termination.js"
import * as TrainingInput from "../../src/rollout/TrainingInput.js"
import type { Owner } from "../../src/training/Owner.js"
import * as OwnerModule from "../../src/training/Owner.js"
import * as Simulator from "./simulator.js"

/** Ids of a prompt and a reply; log-probabilities are -0.1, -0.2 and so on. */
interface Said {
  readonly prompt: ReadonlyArray<number>
  readonly reply: ReadonlyArray<number>
  readonly read?: "no"
  readonly model?: string
  readonly tokens?: false
  readonly pictures?: ReadonlyArray<string>
  readonly logProbs?: ReadonlyArray<number>
  readonly purpose?: "summary"
}

const bundle = ({ logProbs, prompt, reply }: Said) =>
  new TokenBundle(
    {
      promptTokenIds: prompt,
      generationTokenIds: reply,
      generationLogProbs: logProbs ?? reply.map((_, at) => -0.1 * (at + 1))
    },
    // As a client that does not check.
    true
  )

const callOf = (step: number, parseAttempt: number, said: Said): ModelCall => {
  const pictures = (said.pictures ?? []).map(
    (sha256) => new ImagePart({ blob: new BlobRef({ sha256, bytes: 1, mediaType: "image/png" }) })
  )
  return new ModelCall({
    step,
    parseAttempt,
    purpose: said.purpose ?? "act",
    messages: [user(text("what now?"), ...pictures)],
    sampling: new Sampling({}),
    result: new Replied({
      read:
        said.read === "no"
          ? new ParseFailure({ kind: "unparseable", message: "no" })
          : new Reading({ decisions: ["go"] }),
      reply: new ModelReply({
        message: new AssistantMessage({
          role: "assistant",
          content: [text("go")],
          ...(said.tokens === false ? {} : { tokens: bundle(said) })
        }),
        finishReason: "stop",
        model: said.model ?? "policy-v3",
        sent: {},
        attempts: 1,
        milliseconds: 1
      })
    })
  })
}

/** Plays, for each rollout, the calls of each of its steps. */
const agent = (
  script: (identity: RolloutIdentity) => ReadonlyArray<ReadonlyArray<Said>>,
  policy?: HistoryPolicy["Type"]
): Agent<string> => ({
  contract: {
    ...Simulator.contract,
    history_policy:
      policy === undefined
        ? null
        : {
            ...policy.config,
            history_policy_id: policy.id,
            supports_append_stable_intervals: policy.supportsAppendStableIntervals
          }
  },
  open: ({ identity, record }) =>
    Effect.succeed({
      decide: (_, step) =>
        Effect.gen(function* () {
          const steps = script(identity)
          yield* Effect.forEach(steps[step] ?? [], (said, at) => record(callOf(step, at, said)))
          const last = step + 1 >= steps.length
          return { decisions: [Decision.Act({ action: "go" }), ...(last ? [Decision.Done()] : [])], text: "go" }
        })
    })
})

const ofModel = (model: string) => {
  const found = /v(\d+)$/.exec(model)?.[1]
  return found === undefined ? undefined : Number(found)
}

const weightVersions = { dispatched: 3, ofModel }

interface Run {
  readonly out: string
  readonly outcomes: ReadonlyArray<RolloutOutcome>
}

/** Collects into a folder, with evidence as a run writes it. */
const recorded = (
  settings: {
    readonly tasks?: number
    readonly groupSize: number
    readonly environment: Environment<string>
    readonly agent: Agent<string>
    readonly resume?: boolean
    readonly noted?: (outcome: RolloutOutcome) => Effect.Effect<unknown>
  },
  out: string
): Effect.Effect<Run, unknown, NodeContext.NodeContext> =>
  Effect.gen(function* () {
    const collector = yield* RolloutCollector.RolloutCollector
    const program = Episode.program({ ...settings, limits: EpisodeLimits.make({ maxSteps: 5 }) })
    const rows = Stream.map(Stream.range(0, (settings.tasks ?? 1) - 1), Simulator.row)
    const outcomes = yield* collector
      .collect(rows, program, {
        runId: Simulator.runId,
        concurrency: 64,
        groupSize: settings.groupSize,
        failures: once,
        breaker: "off"
      })
      .pipe(Stream.tap(settings.noted ?? (() => Effect.void)), Stream.runCollect)
    return { out, outcomes: Chunk.toReadonlyArray(outcomes) }
  }).pipe(
    Effect.provide(
      Layer.merge(RolloutCollector.layer({ out, resume: settings.resume ?? false }), Evidence.layer({ out }))
    ),
    Effect.provide(artifactLayer({ directory: `${out}/blobs` }))
  )

const test = <E>(name: string, run: (out: string) => Effect.Effect<void, E, NodeContext.NodeContext | Scope.Scope>) =>
  it.scopedLive(name, () =>
    Effect.gen(function* () {
      const fs = yield* FileSystem.FileSystem
      yield* run(yield* fs.makeTempDirectoryScoped({ prefix: "deskhand-input-" }))
    }).pipe(Effect.provide(NodeContext.layer), Effect.provide(Logger.remove(Logger.defaultLogger)))
  )

const bySlot = (owners: ReadonlyArray<Owner>) => owners.toSorted((a, b) => a.slot - b.slot)

const shown = (owner: Owner | undefined) =>
  owner?._tag === "Valid"
    ? owner.segments.map(({ tokenIds, tokenMask }) =>
        Array.from(tokenIds, (id, at) => (tokenMask[at] === 1 ? `${id}!` : `${id}`)).join(" ")
      )
    : owner?.reason

const two: ReadonlyArray<ReadonlyArray<Said>> = [
  [{ prompt: [1, 2], reply: [3] }],
  [{ prompt: [1, 2, 3, 4], reply: [5, 6], model: "policy-v2" }]
]

const scored = (rolloutIndex: number, reward = 1): Scored =>
  new Scored({
    identity: new RolloutIdentity({ ...Simulator.identity(), rolloutIndex }),
    termination: new AgentDone(),
    steps: [],
    milliseconds: 1,
    evaluation: new Evaluation({ score: reward, details: [] }),
    reward
  })

describe("TrainingInput.fromEvidence", () => {
  test("makes owners of a recorded run: segments of what is scored, masks of what is not", (out) =>
    Effect.gen(function* () {
      const environment: Environment<string> = {
        ...Simulator.environment([]),
        open: (row, identity, needs) =>
          identity.rolloutIndex === 2
            ? new EnvironmentError({ phase: "setup", fault: "task", reason: "no such file" })
            : Effect.map(Simulator.environment([]).open(row, identity, needs), (session) => ({
                ...session,
                evaluate: () =>
                  Effect.succeed(new Evaluation({ score: identity.rolloutIndex === 0 ? 1 : 0, details: [] }))
              }))
      }
      const cut: ReadonlyArray<ReadonlyArray<Said>> = [...two, [{ prompt: [1, 9], reply: [7] }]]
      const broken = agent((identity) => (identity.rolloutIndex === 0 ? cut : two))
      const failing: Agent<string> = {
        ...broken,
        open: (context) =>
          context.identity.rolloutIndex === 3
            ? Effect.succeed({
                decide: () => new ModelError({ reason: "unavailable", url: "http://127.0.0.1:1", detail: "down" })
              })
            : broken.open(context)
      }
      const run = yield* recorded({ groupSize: 4, environment, agent: failing }, out)
      const owners = bySlot(
        yield* TrainingInput.owners(run.outcomes, TrainingInput.fromEvidence(out), { groupSize: 4, weightVersions })
      )
      assert.deepStrictEqual(owners.map(shown), [
        ["1 2 3! 4 5! 6!", "1 9 7!"],
        ["1 2 3! 4 5! 6!"],
        "rollout_failed",
        "rollout_failed"
      ])
      assert.deepStrictEqual(
        owners.map(({ groupId, reward, weightVersion }) => [groupId, reward, weightVersion]),
        [
          ["task-0:0", 1, 2],
          ["task-0:0", 0, 2],
          ["task-0:0", 0, 3],
          ["task-0:0", 0, 3]
        ]
      )
      // What failed before it asked was dispatched with the prompt of its siblings.
      assert.deepStrictEqual(
        owners.map(({ promptTokenIds }) => [...promptTokenIds]),
        Array(4).fill([1, 2])
      )
      const { assembled, batch } = yield* TrainingInput.batch(run.outcomes, TrainingInput.fromEvidence(out), {
        groupSize: 4,
        weightVersions,
        version: 3,
        prompts: 1,
        sampler: { name: "windowed", maxStaleness: 1, freshestFirst: false }
      })
      assert.deepStrictEqual(
        batch.rows.map(({ id, reward, sampleMask, usesBorrowedInput }) => [id, reward, sampleMask, usesBorrowedInput]),
        [
          ["task-0:0_g0_s0", 1, 1, false],
          ["task-0:0_g0_s1", 1, 1, false],
          ["task-0:0_g1_s0", 0, 1, false],
          ["task-0:0_g2_s0", 0, 0, true],
          ["task-0:0_g3_s0", 0, 0, true]
        ]
      )
      assert.deepStrictEqual(
        assembled.rejections.map(({ owner, reason }) => [owner, reason]),
        [
          ["task-0:0_g2", "rollout_failed"],
          ["task-0:0_g3", "rollout_failed"]
        ]
      )
      assert.include(assembled.rejections[0]?.detail ?? "", "no such file")
      // Rows of weights that are out of reach are no step's.
      const stale = yield* Effect.flip(
        TrainingInput.batch(run.outcomes, TrainingInput.fromEvidence(out), {
          groupSize: 4,
          weightVersions,
          version: 3,
          prompts: 1,
          sampler: { name: "windowed", maxStaleness: 0, freshestFirst: false }
        })
      )
      assert.include(String(stale), "oldest that may train are 3")
    }))

  /** One owner of a run of one rollout. */
  const ownerOf = (
    out: string,
    steps: ReadonlyArray<ReadonlyArray<Said>>,
    media?: TrainingInput.Media,
    outcome?: RolloutOutcome,
    policy?: HistoryPolicy["Type"]
  ) =>
    Effect.gen(function* () {
      const run = yield* recorded(
        { groupSize: 1, environment: Simulator.environment([]), agent: agent(() => steps, policy) },
        out
      )
      const [owner] = yield* TrainingInput.owners(
        outcome === undefined ? run.outcomes : [outcome],
        TrainingInput.fromEvidence(out, media === undefined ? {} : { media }),
        { groupSize: 1, weightVersions }
      )
      return owner
    })

  test("trains the reply that a step came to, and none that was asked for again", (out) =>
    Effect.gen(function* () {
      const owner = yield* ownerOf(out, [
        [
          { prompt: [1], reply: [66], read: "no" },
          { prompt: [1, 66, 2], reply: [3] }
        ],
        // The last one could not be read either: it is what the policy did.
        [
          { prompt: [1, 66, 2, 3, 4], reply: [67], read: "no" },
          { prompt: [1, 66, 2, 3, 4], reply: [68, 69], read: "no" }
        ]
      ])
      assert.deepStrictEqual(shown(owner), ["1 66 2 3! 4 68! 69!"])
    }))

  const picture = 9
  const media = { tokenId: picture, height: 28, width: 28 }
  const [a, b] = ["a".repeat(64), "b".repeat(64)]

  test("finds the pictures where their tokens are, and takes for text what the policy wrote", (out) =>
    Effect.gen(function* () {
      const owner = yield* ownerOf(
        out,
        [
          [{ prompt: [1, 9, 9, 2], reply: [9, 3], pictures: [a] }],
          [{ prompt: [1, 9, 9, 2, 9, 3, 9, 9, 4], reply: [5], pictures: [a, b] }]
        ],
        media
      )
      assert.strictEqual(owner?._tag, "Valid")
      if (owner?._tag !== "Valid") return
      assert.deepStrictEqual(shown(owner), ["1 9 9 2 9! 3! 9 9 4 5!"])
      assert.deepStrictEqual(
        owner.segments[0].images.map(({ id, length, offset }) => [id, offset, length]),
        [
          [a, 1, 2],
          [b, 6, 2]
        ]
      )
    }))

  /** The summary is asked for in a prompt that goes on, and the prompt after it begins anew. */
  const summedUp: ReadonlyArray<ReadonlyArray<Said>> = [
    [{ prompt: [1, 2], reply: [3], model: "policy-v3" }],
    [
      { prompt: [1, 2, 3, 4], reply: [70], purpose: "summary", read: "no" },
      { prompt: [1, 2, 3, 4], reply: [71, 9], purpose: "summary", model: "policy-v1" },
      { prompt: [1, 71, 9, 5], reply: [6] }
    ]
  ]
  const compaction = (trained?: boolean) =>
    Compaction.make({ keepImages: 1, triggerImages: 2, ...(trained === undefined ? {} : { trained }) })

  test("trains summaries where the history policy says so, and not otherwise", (out) =>
    Effect.gen(function* () {
      const untrained = ["1 2 3!", "1 71 9 5 6!"]
      for (const [name, policy] of Object.entries({
        absent: undefined,
        standard: compaction(),
        no: compaction(false)
      })) {
        const owner = yield* ownerOf(`${out}/${name}`, summedUp, undefined, undefined, policy)
        assert.deepStrictEqual(shown(owner), untrained, name)
        assert.strictEqual(owner?.weightVersion, 3)
      }
      const owner = yield* ownerOf(`${out}/yes`, summedUp, undefined, undefined, compaction(true))
      assert.deepStrictEqual(shown(owner), ["1 2 3! 4 71! 9!", "1 71 9 5 6!"])
      assert.strictEqual(owner?.weightVersion, 1)
    }))

  test("needs no tokens of a summary that does not train, and takes what it wrote for text", (out) =>
    Effect.gen(function* () {
      const bare: ReadonlyArray<ReadonlyArray<Said>> = [
        [
          { prompt: [1], reply: [70], purpose: "summary", tokens: false },
          { prompt: [1, 5], reply: [6] }
        ]
      ]
      assert.deepStrictEqual(shown(yield* ownerOf(`${out}/a`, bare, undefined, undefined, compaction())), ["1 5 6!"])
      const goesOn = (prompt: ReadonlyArray<number>): ReadonlyArray<ReadonlyArray<Said>> => [
        [{ prompt: [1, 9, 2], reply: [9], pictures: [a] }],
        [
          { prompt: [1, 9, 2, 9, 3], reply: [71, 9], purpose: "summary", pictures: [a] },
          { prompt, reply: [6], pictures: [a] }
        ]
      ]
      const fromSummary = yield* ownerOf(`${out}/b`, goesOn([1, 9, 2, 9, 3, 71, 9, 5]), media, undefined, compaction())
      assert.deepStrictEqual(shown(fromSummary), ["1 9 2 9! 3 71 9 5 6!"])
      const fromAct = yield* ownerOf(`${out}/c`, goesOn([1, 9, 2, 9, 5]), media, undefined, compaction())
      assert.deepStrictEqual(shown(fromAct), ["1 9 2 9! 5 6!"])
    }))

  test("masks an owner whose pictures are not where they should be", (out) =>
    Effect.map(ownerOf(out, [[{ prompt: [1, 9, 2, 9], reply: [3], pictures: [a] }]], media), (owner) =>
      assert.strictEqual(shown(owner), "image_alignment")
    ))

  test("masks an owner whose evidence is missing, cut off or another's", (out) =>
    Effect.gen(function* () {
      const fs = yield* FileSystem.FileSystem
      const file = `${out}/evidence/task-0.0-0.jsonl`
      const again = (outcome: RolloutOutcome) =>
        Effect.map(
          TrainingInput.owners([outcome], TrainingInput.fromEvidence(out), { groupSize: 2, weightVersions }),
          ([owner]) => owner
        )
      assert.isArray(shown(yield* ownerOf(out, two)))
      yield* fs.copyFile(file, `${out}/evidence/task-0.0-1.jsonl`)
      assert.strictEqual(shown(yield* again(scored(1))), "identity_mismatch")
      const whole = yield* fs.readFileString(file)
      const lines = whole.trimEnd().split("\n")
      yield* fs.writeFileString(file, `${lines.slice(0, -1).join("\n")}\n`)
      const owner = yield* again(scored(0))
      assert.strictEqual(shown(owner), "invalid_receipt")
      // Its reward counts for its siblings.
      assert.strictEqual(owner?.reward, 1)
      yield* fs.writeFileString(file, whole.slice(0, -10))
      assert.strictEqual(shown(yield* again(scored(0))), "invalid_receipt")
      yield* fs.remove(file)
      assert.strictEqual(shown(yield* again(scored(0))), "missing_receipt")
    }))

  test("masks an owner of which a call lacks its tokens, and fails where the server tells none", (out) =>
    Effect.gen(function* () {
      const hole: ReadonlyArray<ReadonlyArray<Said>> = [
        [{ prompt: [1], reply: [2] }],
        [{ prompt: [1, 2], reply: [3], tokens: false }]
      ]
      assert.strictEqual(shown(yield* ownerOf(`${out}/a`, hole)), "missing_staging_row")
      const none = yield* Effect.flip(ownerOf(`${out}/b`, [[{ prompt: [1], reply: [2], tokens: false }]]))
      assert.include(String(none), "Ask the server for them")
      const wrong = yield* Effect.flip(ownerOf(`${out}/c`, [[{ prompt: [1], reply: [2], logProbs: [0.5] }]]))
      assert.include(String(wrong), "0.5")
      assert.strictEqual(shown(yield* ownerOf(`${out}/d`, [])), "empty_manifest")
    }))

  it.effect(
    "masks what is unresolved as if somebody still wrote, and what is masked without a look at its tokens",
    () =>
      Effect.gen(function* () {
        const { identity, milliseconds, steps, termination } = scored(1)
        const outcomes = [
          new Unresolved({ identity: scored(0).identity }),
          new Masked({ identity, milliseconds, steps, termination, reason: "environment_lost", detail: "gone" })
        ]
        const owners = yield* TrainingInput.owners(outcomes, () => Effect.dieMessage("nothing is read"), {
          groupSize: 2,
          weightVersions
        })
        assert.deepStrictEqual(owners.map(shown), ["capture_poisoned", "rollout_failed"])
        // A group of which nothing trains is dropped, not an error.
        const { dropped, rows } = yield* OwnerModule.assemble(owners, 2)
        assert.deepStrictEqual(rows, [])
        assert.deepStrictEqual(
          dropped.map(({ groupId, reason }) => [groupId, reason]),
          [["task-0:0", "no_valid_owner"]]
        )
      })
  )

  test("goes on without a dropped group only as far as it may", (out) =>
    Effect.gen(function* () {
      const environment: Environment<string> = {
        ...Simulator.environment([]),
        open: (row, identity, needs) =>
          identity.taskIndex === 1
            ? new EnvironmentError({ phase: "open", fault: "infrastructure", reason: "no desktop" })
            : Simulator.environment([]).open(row, identity, needs)
      }
      const run = yield* recorded({ tasks: 3, groupSize: 2, environment, agent: agent(() => two) }, out)
      const make = (fewest: { readonly fewestGroups?: number }) =>
        TrainingInput.batch(run.outcomes, TrainingInput.fromEvidence(out), {
          groupSize: 2,
          weightVersions,
          version: 3,
          prompts: 3,
          sampler: { name: "windowed", maxStaleness: 1, freshestFirst: false },
          ...fewest
        })
      const { batch } = yield* make({ fewestGroups: 2 })
      assert.deepStrictEqual([...batch.owners.groupIds].sort(), ["task-0:0", "task-2:2"])
      assert.include(String(yield* Effect.flip(make({}))), "needs 3")
    }))

  test("has 272 owners of 17 groups of 16 that were copied, and no row more", (out) =>
    Effect.gen(function* () {
      let prepared = 0
      let sessions = 0
      const plain = Simulator.environment([])
      const counted = Effect.acquireRelease(
        Effect.sync(() => sessions++),
        () => Effect.sync(() => sessions--)
      )
      const forking: Environment<string> = {
        ...plain,
        open: () => Effect.dieMessage("every owner is of a group"),
        openGroup: (row, identities, needs) =>
          Effect.zipRight(
            Effect.sync(() => prepared++),
            Effect.forEach(identities, (identity) =>
              Effect.map(Effect.zipRight(counted, plain.open(row, identity, needs)), (session) => ({
                identity,
                session,
                release: Effect.void
              }))
            )
          )
      }
      const environment = yield* fromOneState(forking, { groupSize: 16 })
      const run = yield* recorded({ tasks: 17, groupSize: 16, environment, agent: agent(() => two) }, out)
      assert.strictEqual(prepared, 17)
      assert.strictEqual(sessions, 0)
      assert.lengthOf(run.outcomes, 272)
      const { batch } = yield* TrainingInput.batch(run.outcomes, TrainingInput.fromEvidence(out), {
        groupSize: 16,
        weightVersions,
        version: 3,
        prompts: 17,
        sampler: { name: "windowed", maxStaleness: 1, freshestFirst: false }
      })
      assert.lengthOf(batch.owners.owners, 272)
      assert.lengthOf(batch.rows, 272)
      const lines = (yield* (yield* FileSystem.FileSystem).readFileString(`${out}/rollouts.jsonl`))
        .trimEnd()
        .split("\n")
      assert.lengthOf(lines, 272)
      const kinds = Arr.groupBy(lines, (line) => String(JSON.parse(line).environment_origin.parent_index))
      assert.deepStrictEqual(
        Object.entries(kinds)
          .map(([parent, of]) => [parent, of.length])
          .sort(),
        [
          ["0", 255],
          ["null", 17]
        ]
      )
    }))
})

describe("TrainingInput.recorded", () => {
  const read = (out: string, tasks?: ReadonlyArray<number>) =>
    Effect.map(Stream.runCollect(TrainingInput.recorded(out, tasks === undefined ? {} : { tasks })), (outcomes) =>
      Chunk.toReadonlyArray(outcomes)
    )

  const sorted = (outcomes: ReadonlyArray<RolloutOutcome>) =>
    outcomes.toSorted((a, b) => a.identity.rolloutKey.localeCompare(b.identity.rolloutKey))

  /** Owners 0 and 1 are scored, 2 is masked, 3 fails to open. */
  const mixed: Environment<string> = {
    ...Simulator.environment([]),
    open: (row, identity, needs) =>
      identity.rolloutIndex === 3
        ? new EnvironmentError({ phase: "setup", fault: "task", reason: "no such file" })
        : Effect.map(Simulator.environment([]).open(row, identity, needs), (session) => ({
            ...session,
            evaluate: () =>
              identity.rolloutIndex === 2
                ? new EvaluationFailed({ reason: "undecided" })
                : Effect.succeed(new Evaluation({ score: 1 - identity.rolloutIndex / 2, details: ["a check"] }))
          }))
  }

  test("has the outcomes as they were collected, those of the tasks that are meant", (out) =>
    Effect.gen(function* () {
      const run = yield* recorded({ tasks: 2, groupSize: 4, environment: mixed, agent: agent(() => two) }, out)
      const tags = sorted(run.outcomes).map(({ _tag }) => _tag)
      assert.deepStrictEqual(tags.slice(0, 4), ["Scored", "Scored", "Masked", "Failed"])
      assert.deepStrictEqual(sorted(yield* read(out)), sorted(run.outcomes))
      assert.deepStrictEqual(
        sorted(yield* read(out, [1])),
        sorted(run.outcomes.filter(({ identity }) => identity.taskIndex === 1))
      )
      assert.deepStrictEqual(yield* read(`${out}/nowhere`), [])
    }))

  test("makes a step whole that was interrupted in the middle", (out) =>
    Effect.gen(function* () {
      const seen: Array<RolloutOutcome> = []
      const settings = { groupSize: 4, environment: Simulator.environment([]) }
      const hanging: Agent<string> = {
        ...agent(() => two),
        open: (context) =>
          context.identity.rolloutIndex < 2
            ? agent(() => two).open(context)
            : Effect.succeed({ decide: () => Effect.never })
      }
      const stopped = yield* Deferred.make<void>()
      const noted = (outcome: RolloutOutcome) => {
        seen.push(outcome)
        return seen.length === 2 ? Deferred.succeed(stopped, undefined) : Effect.void
      }
      yield* Effect.raceFirst(recorded({ ...settings, agent: hanging, noted }, out), Deferred.await(stopped))
      const before = yield* read(out)
      assert.deepStrictEqual(sorted(before), sorted(seen))
      const resumed = yield* recorded({ ...settings, agent: agent(() => two), resume: true }, out)
      assert.deepStrictEqual(
        sorted(resumed.outcomes).map(({ identity }) => identity.rolloutIndex),
        [2, 3]
      )
      const all = yield* read(out)
      assert.deepStrictEqual(sorted(all), sorted([...before, ...resumed.outcomes]))
      const make = (outcomes: ReadonlyArray<RolloutOutcome>) =>
        TrainingInput.batch(outcomes, TrainingInput.fromEvidence(out), {
          groupSize: 4,
          weightVersions,
          version: 3,
          prompts: 1,
          sampler: { name: "windowed", maxStaleness: 1, freshestFirst: false }
        })
      assert.include(String(yield* Effect.flip(make(resumed.outcomes))), "task-0:0")
      const { assembled, batch } = yield* make(all)
      assert.deepStrictEqual(assembled.rejections, [])
      assert.deepStrictEqual(
        batch.rows.map(({ id }) => id).sort(),
        [0, 1, 2, 3].map((slot) => `task-0:0_g${slot}_s0`)
      )
    }))

  test("fails where the evidence of a score is missing, cut off or says something else", (out) =>
    Effect.gen(function* () {
      const fs = yield* FileSystem.FileSystem
      yield* recorded({ groupSize: 4, environment: mixed, agent: agent(() => two) }, out)
      const fault = Effect.map(Effect.flip(read(out)), ({ kind }) => kind)
      const rows = yield* fs.readFileString(`${out}/rollouts.jsonl`)
      // A row that is still being written is none.
      yield* fs.writeFileString(`${out}/rollouts.jsonl`, `${rows}{"_ng_task_index": 7, "_ng_ro`)
      assert.lengthOf(yield* read(out), 4)
      yield* fs.writeFileString(`${out}/rollouts.jsonl`, rows.replace('"osworld_score":0.5', '"osworld_score":1'))
      assert.strictEqual(yield* fault, "row_differs")
      yield* fs.writeFileString(`${out}/rollouts.jsonl`, rows)
      const masked = `${out}/evidence/task-0.0-2.jsonl`
      const whole = yield* fs.readFileString(masked)
      yield* fs.writeFileString(masked, whole.slice(0, -10))
      assert.deepStrictEqual(
        sorted(yield* read(out)).map(({ _tag }) => _tag),
        ["Scored", "Scored", "Unresolved", "Failed"]
      )
      const file = `${out}/evidence/task-0.0-0.jsonl`
      yield* fs.writeFileString(
        file,
        `${(yield* fs.readFileString(file)).trimEnd().split("\n").slice(0, -1).join("\n")}\n`
      )
      assert.strictEqual(yield* fault, "unfinished")
      yield* fs.copyFile(`${out}/evidence/task-0.0-1.jsonl`, file)
      assert.strictEqual(yield* fault, "row_differs")
      yield* fs.remove(file)
      assert.strictEqual(yield* fault, "unreadable")
    }))
})

describe("TrainingInput.fromTokenCapture", () => {
  const entry = (rolloutId: string, modelCallId: string, at: number, { model = "policy-v3", prompt, reply }: Said) =>
    new TokenEntry({
      rolloutId,
      modelCallId,
      model,
      promptTokenIds: prompt,
      generationTokenIds: reply,
      generationLogProbs: reply.map(() => -0.5),
      outputItems: [],
      createdAt: at
    })

  const owners = (outcomes: ReadonlyArray<RolloutOutcome>) =>
    TrainingInput.owners(outcomes, TrainingInput.fromTokenCapture, { groupSize: 2, weightVersions })

  test("makes segments of the chains that a gateway kept, whatever the order in which they came", (out) =>
    Effect.gen(function* () {
      const capture = yield* TokenCapture.TokenCapture
      yield* Effect.forEach(
        [
          entry("0-0", "c2", 3, { prompt: [1, 8], reply: [9], model: "policy-v1" }),
          entry("0-0", "c1", 2, { prompt: [1, 2, 3, 4], reply: [5] }),
          entry("0-0", "c0", 1, { prompt: [1, 2], reply: [3] })
        ],
        (one) => Effect.zipRight(capture.begin(one.rolloutId, one.modelCallId), capture.put(one))
      )
      const [owner] = yield* owners([scored(0)])
      assert.deepStrictEqual(shown(owner), ["1 2 3! 4 5!", "1 8 9!"])
      assert.strictEqual(owner?.weightVersion, 1)
      assert.deepStrictEqual([...(owner?.promptTokenIds ?? [])], [1, 2])
    }).pipe(Effect.provide(TokenCapture.layer({ directory: out }))))

  test("masks a rollout with a call that somebody may still write, and keeps the call's id and the tokens", (out) =>
    Effect.gen(function* () {
      const capture = yield* TokenCapture.TokenCapture
      const first = entry("0-0", "c0", 1, { prompt: [1, 2], reply: [3] })
      yield* capture.begin("0-0", "c0")
      yield* capture.put(first)
      yield* capture.begin("0-0", "c1")
      const [pending, absent] = yield* owners([scored(0), scored(1)])
      assert.strictEqual(shown(pending), "capture_poisoned")
      assert.include(pending?._tag === "Rejected" ? pending.detail : "", "c1")
      assert.strictEqual(shown(absent), "empty_manifest")
      // What comes late is refused, and what is there stays.
      const late = yield* Effect.flip(capture.put(entry("0-0", "c1", 2, { prompt: [1, 2, 3], reply: [4] })))
      assert.strictEqual(late.reason, "frozen")
      assert.strictEqual((yield* Effect.flip(capture.begin("0-0", "c1"))).reason, "frozen")
      assert.lengthOf((yield* capture.snapshot("0-0")).entries, 1)
      assert.strictEqual(shown((yield* owners([scored(0)]))[0]), "capture_poisoned")
    }).pipe(Effect.provide(TokenCapture.layer({ directory: out }))))

  test("masks a rollout whose tokens cannot be read", (out) =>
    Effect.gen(function* () {
      const fs = yield* FileSystem.FileSystem
      yield* fs.writeFileString(`${out}/0-0.tokens.jsonl`, "no entry\n")
      const [owner] = yield* owners([scored(0)]).pipe(Effect.provide(TokenCapture.layer({ directory: out })))
      assert.strictEqual(shown(owner), "invalid_receipt")
    }))
})
