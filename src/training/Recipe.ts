/**
 * Recipes: everything that makes two training runs the same kind of run, as data.
 *
 * The figures are those of the published OSWorld v2 recipes for context compaction; the flash family is FlashREINFORCE's
 * estimator and gate over groups, dr_grpo is arXiv 2503.20783, the binary KL of the gate arXiv 2602.04879.
 *
 * @since 0.1.0
 */
import * as Schema from "effect/Schema"
import * as DropRules from "./DropRules.js"
import type { Objective } from "./Objective.js"
import { gatedCapacity, Sampler, WindowLimits } from "./Window.js"

const Positive = Schema.Int.pipe(Schema.positive())
const optional = <A, I>(schema: Schema.Schema<A, I>) => Schema.optionalWith(schema, { exact: true })

// -----------------------------------------------------------------------------
// Parts
// -----------------------------------------------------------------------------

/**
 * How owners are measured against each other; see `Advantage`.
 *
 * @since 0.1.0
 * @category models
 */
export const Estimator = Schema.Union(
  Schema.Struct({
    name: Schema.Literal("grpo"),
    leaveOneOut: Schema.Boolean,
    normalize: Schema.Boolean,
    population: Schema.Literal("all_owners", "valid_owners")
  }),
  Schema.Struct({ name: Schema.Literal("dr_grpo"), population: Schema.Literal("all_owners", "valid_owners") }),
  Schema.Struct({ name: Schema.Literal("reinforce_baseline"), population: Schema.Literal("all_owners") })
)

/**
 * Rows whose statistic is outside of `[min, max]` do not train; see `Gate`.
 *
 * @since 0.1.0
 * @category models
 */
export const RecipeGate = Schema.Struct({
  statistic: Schema.Literal("ratio", "binary_kl", "tv"),
  min: Schema.Finite,
  max: Schema.Finite
})

/**
 * The loss of a token; see `Loss`.
 *
 * @since 0.1.0
 * @category models
 */
export const RecipeLoss = Schema.Union(
  Schema.Struct({ name: Schema.Literal("ppo"), clipLow: Schema.Positive, clipHigh: Schema.Positive }),
  Schema.Struct({ name: Schema.Literal("on_policy") })
)

/**
 * Adam with a constant rate after a warm-up; what an external trainer is set up with.
 *
 * @since 0.1.0
 * @category models
 */
export const Optimizer = Schema.Struct({
  learningRate: Schema.Positive,
  minLearningRate: Schema.Positive,
  beta1: Schema.Finite,
  beta2: Schema.Finite,
  /** In optimizer steps. */
  warmupSteps: Schema.NonNegativeInt,
  decaySteps: Positive
})

/**
 * How rows are laid out for the trainer, in tokens.
 *
 * @since 0.1.0
 * @category models
 */
export const Sequence = Schema.Struct({
  /** Prompt and replies of one row. */
  maxTokens: Positive,
  /** Of one reply. */
  maxNewTokens: Positive,
  /** Room that is kept for the reply. */
  reservedTokens: Positive,
  packer: Schema.Literal("mffd"),
  /** Of one micro batch. */
  trainTokens: Positive,
  logProbTokens: Positive,
  /** Lengths are rounded up to a multiple of it. */
  roundTo: Positive
})

/**
 * Processors: whole nodes, and how a model is spread over them.
 *
 * @since 0.1.0
 * @category models
 */
export const Cluster = Schema.Struct({
  nodes: Positive,
  gpusPerNode: Positive,
  /** Of the nodes, those that generate. */
  generationNodes: Positive,
  tensorParallel: Positive,
  contextParallel: Positive,
  expertParallel: Positive
})

/**
 * What an episode may take, and how the engine is set up.
 *
 * @since 0.1.0
 * @category models
 */
export const RecipeRollouts = Schema.Struct({
  maxSteps: Positive,
  /** Rollouts at the same time. */
  parallel: Positive,
  prefixCaching: Schema.Boolean,
  /** Which log-probabilities the engine tells. */
  logProbs: Schema.Literal("processed_logprobs")
})

/**
 * The field's three families of recipes.
 *
 * @since 0.1.0
 * @category models
 */
export const RecipeFamily = Schema.Literal("standard", "molt", "flash")

// -----------------------------------------------------------------------------
// The recipe
// -----------------------------------------------------------------------------

/**
 * All figures of a training run that others follow from.
 *
 * @since 0.1.0
 * @category models
 */
export class Recipe extends Schema.Class<Recipe>("deskhand/training/Recipe")(
  Schema.Struct({
    name: Schema.NonEmptyString,
    family: RecipeFamily,
    /** What it is for, in a sentence. */
    summary: Schema.NonEmptyString,
    /** Whether owners may have several segments. */
    contextCompaction: Schema.Boolean,
    /** Groups of a step. */
    prompts: Positive,
    /** Owners of a group. */
    generations: Positive,
    estimator: Estimator,
    loss: RecipeLoss,
    /** `null`: every row trains. */
    gate: Schema.NullOr(RecipeGate),
    aggregation: Schema.Literal("token-mean", "prompt-mean-token-mean"),
    sampler: Sampler,
    limits: WindowLimits,
    drops: DropRules.DropRules,
    /** Optimizer steps; as many as the run asks for when absent. */
    steps: optional(Positive),
    optimizer: optional(Optimizer),
    /** Parts of the model that stay as they are. */
    frozen: optional(Schema.Array(Schema.Literal("router", "vision", "sound"))),
    sequence: optional(Sequence),
    cluster: optional(Cluster),
    rollouts: optional(RecipeRollouts)
  }).pipe(
    Schema.filter(({ estimator, gate, limits, loss, prompts }) => {
      if (gate !== null && gate.min > gate.max) return `the gate keeps nothing: ${gate.min} is above ${gate.max}`
      if (gate !== null && loss.name !== "on_policy") return "a gate goes with the loss on_policy"
      if (estimator.name === "reinforce_baseline" && limits.minGroups !== prompts) {
        return `reinforce_baseline is over the whole step, so at least ${prompts} groups have to be taken at a time, not ${limits.minGroups}`
      }
      return limits.minGroups > limits.maxBuffered
        ? `a step takes ${limits.minGroups} groups at least, and only ${limits.maxBuffered} can be kept`
        : undefined
    })
  )
) {}

/**
 * What follows from a recipe.
 *
 * @since 0.1.0
 * @category models
 */
export interface DerivedFigures {
  /** Of a step, failed ones too: the trainer's global batch size. */
  readonly owners: number
  /** The fewest groups that a step may train on after drops. */
  readonly fewestGroups: number
  /** The oldest weights that a step may train on, in versions behind the trainer's. */
  readonly maxStaleness: number
  /** Groups that may be about at a time; the buffer's for a sampler without a gate. */
  readonly groupsAhead: number
  /** Owners of the whole run, where its steps are known. */
  readonly totalOwners: number | undefined
  readonly gpus: { readonly training: number; readonly generation: number } | undefined
}

/**
 * What follows from a recipe: owners a step, groups, staleness, GPUs.
 *
 * @since 0.1.0
 * @category queries
 */
export const derived = ({ cluster, drops, generations, limits, prompts, sampler, steps }: Recipe): DerivedFigures => ({
  owners: prompts * generations,
  fewestGroups: DropRules.fewestGroups(drops, prompts),
  maxStaleness: sampler.name === "windowed" ? sampler.maxStaleness : sampler.window,
  groupsAhead: sampler.name === "windowed" ? limits.maxBuffered : gatedCapacity(prompts, sampler.window),
  totalOwners: steps === undefined ? undefined : prompts * generations * steps,
  gpus:
    cluster === undefined
      ? undefined
      : {
          training: (cluster.nodes - cluster.generationNodes) * cluster.gpusPerNode,
          generation: cluster.generationNodes * cluster.gpusPerNode
        }
})

/**
 * What the recipe minimises. A gate goes with importance weights of single tokens.
 *
 * @since 0.1.0
 * @category conversions
 */
export const objectiveOf = ({ aggregation, estimator, gate, loss }: Recipe): Objective => ({
  advantage: estimator,
  loss,
  aggregation: { name: aggregation },
  ...(gate === null ? {} : { gate, importance: { truncation: { name: "seq-mask-tis" }, level: "token" } })
})

// -----------------------------------------------------------------------------
// The ones that come along
// -----------------------------------------------------------------------------

/** What molt and flash recipes share. */
const common = {
  contextCompaction: true,
  loss: { name: "on_policy" },
  sampler: { name: "windowed", maxStaleness: 1, freshestFirst: false },
  drops: DropRules.contextCompaction,
  steps: 300,
  optimizer: {
    learningRate: 5e-6,
    minLearningRate: 5e-6,
    beta1: 0.9,
    beta2: 0.99,
    warmupSteps: 9,
    decaySteps: 300
  },
  frozen: ["router", "vision", "sound"],
  sequence: {
    maxTokens: 49_152,
    maxNewTokens: 16_384,
    reservedTokens: 11_152,
    packer: "mffd",
    trainTokens: 49_152,
    logProbTokens: 49_152,
    roundTo: 32
  },
  cluster: {
    nodes: 4,
    gpusPerNode: 8,
    generationNodes: 3,
    tensorParallel: 1,
    contextParallel: 8,
    expertParallel: 8
  },
  rollouts: { maxSteps: 150, parallel: 8, prefixCaching: true, logProbs: "processed_logprobs" }
} as const

const limits = (minGroups: number, maxInFlight: number, maxBuffered: number) =>
  new WindowLimits({ minGroups, maxInFlight, maxBuffered })

const flashOf = (prompts: number, generations: number, estimator: "reinforce_baseline" | "dr_grpo") =>
  new Recipe({
    ...common,
    name: `flash-b${prompts}n${generations}-${estimator === "dr_grpo" ? "dr-grpo" : "reinforce"}`,
    family: "flash",
    summary: `${prompts} prompts of ${generations} owners, rows gated by binary KL, every prompt with the same say`,
    prompts,
    generations,
    estimator: { name: estimator, population: "all_owners" },
    gate: { statistic: "binary_kl", min: 0, max: 0.01 },
    aggregation: "prompt-mean-token-mean",
    limits: limits(prompts, 8, prompts)
  })

/**
 * Ordinary GRPO without compaction, with the defaults of NeMo RL.
 *
 * @since 0.1.0
 * @category recipes
 */
export const standard = new Recipe({
  name: "standard",
  family: "standard",
  summary: "ordinary GRPO: clipped ratios, every token with the same say, one row an owner",
  contextCompaction: false,
  prompts: 32,
  generations: 16,
  estimator: { name: "grpo", leaveOneOut: true, normalize: true, population: "valid_owners" },
  loss: { name: "ppo", clipLow: 0.2, clipHigh: 0.2 },
  gate: null,
  aggregation: "token-mean",
  sampler: { name: "windowed", maxStaleness: 1, freshestFirst: false },
  limits: new WindowLimits({}),
  drops: DropRules.standard
})

/**
 * The smallest run with compaction: one step of one prompt.
 *
 * @since 0.1.0
 * @category recipes
 */
export const baseCompaction = new Recipe({
  name: "base-cc",
  family: "standard",
  summary: "one step of one prompt with two owners: whether compaction works at all",
  contextCompaction: true,
  prompts: 1,
  generations: 2,
  estimator: { name: "grpo", leaveOneOut: true, normalize: true, population: "valid_owners" },
  loss: { name: "ppo", clipLow: 0.2, clipHigh: 0.2 },
  gate: null,
  aggregation: "token-mean",
  sampler: { name: "in_order", window: 0 },
  limits: limits(1, 1, 1),
  drops: DropRules.contextCompaction,
  steps: 1
})

/**
 * The recipe `molt-b8k8`: 8 prompts of 8 owners, rows gated by their mean ratio.
 *
 * @since 0.1.0
 * @category recipes
 */
export const molt = new Recipe({
  ...common,
  name: "molt-b8k8",
  family: "molt",
  summary: "8 prompts of 8 owners, rows gated by their mean ratio, every token with the same say",
  prompts: 8,
  generations: 8,
  estimator: { name: "reinforce_baseline", population: "all_owners" },
  gate: { statistic: "ratio", min: 0.99, max: 1.01 },
  aggregation: "token-mean",
  limits: limits(8, 8, 16)
})

/**
 * The recipe `flash-b8n8-reinforce`.
 *
 * @since 0.1.0
 * @category recipes
 */
export const flash = flashOf(8, 8, "reinforce_baseline")

/**
 * Every recipe, by name.
 *
 * @since 0.1.0
 * @category recipes
 */
export const recipes: ReadonlyMap<string, Recipe> = new Map(
  [
    standard,
    baseCompaction,
    molt,
    flash,
    flashOf(8, 8, "dr_grpo"),
    flashOf(17, 16, "dr_grpo"),
    flashOf(17, 16, "reinforce_baseline")
  ].map((recipe) => [recipe.name, recipe])
)
