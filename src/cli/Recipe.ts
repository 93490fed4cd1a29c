/**
 * `deskhand recipe`: what training recipes are made of.
 *
 * @since 0.1.0
 */
import * as Console from "effect/Console"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import * as YAML from "yaml"
import * as Recipe from "../training/Recipe.js"
import { distance } from "./internal/nearest.js"
import { table } from "./internal/table.js"
import { UsageError } from "./Run.js"

/**
 * @since 0.1.0
 * @category models
 */
export const formats = ["table", "json", "yaml"] as const

/**
 * @since 0.1.0
 * @category models
 */
export interface RecipeOptions {
  /** All of them in short when absent. */
  readonly name: Option.Option<string>
  readonly format: (typeof formats)[number]
}

const encode = Schema.encodeSync(Recipe.Recipe)

/** A recipe and what follows from it. */
const whole = (recipe: Recipe.Recipe) => ({ ...encode(recipe), derived: Recipe.derived(recipe) })

const gateOf = ({ gate }: Recipe.Recipe): string =>
  gate === null ? "none" : `${gate.statistic} ${gate.min}..${gate.max}`

const samplerOf = ({ sampler }: Recipe.Recipe): string =>
  sampler.name === "windowed"
    ? `windowed, ${sampler.maxStaleness} ${sampler.maxStaleness === 1 ? "version" : "versions"} old at most`
    : `${sampler.name}, ${sampler.window} ahead`

/**
 * All recipes side by side.
 *
 * @since 0.1.0
 * @category rendering
 */
export const renderAll = (): string =>
  table(
    ["recipe", "prompts", "owners each", "owners", "estimator", "gate", "aggregation", "steps"],
    Array.from(Recipe.recipes.values(), (recipe) => [
      recipe.name,
      String(recipe.prompts),
      String(recipe.generations),
      String(Recipe.derived(recipe).owners),
      recipe.estimator.name,
      gateOf(recipe),
      recipe.aggregation,
      recipe.steps === undefined ? "-" : String(recipe.steps)
    ])
  )

const group = (count: number): string => count.toLocaleString("en-US")

const lines = (recipe: Recipe.Recipe): ReadonlyArray<readonly [name: string, value: string]> => {
  const { cluster, drops, estimator, frozen, limits, loss, optimizer, rollouts, sequence } = recipe
  const figures = Recipe.derived(recipe)
  return [
    ["family", recipe.family],
    ["segments", recipe.contextCompaction ? "several an owner" : "one an owner"],
    ["step", `${recipe.prompts} prompts x ${recipe.generations} owners = ${group(figures.owners)} owners`],
    ["steps", recipe.steps === undefined ? "as many as asked for" : group(recipe.steps)],
    ...(figures.totalOwners === undefined ? [] : [["owners of the run", group(figures.totalOwners)] as const]),
    ["advantage", `${estimator.name}, over ${estimator.population.replace("_", " ")}`],
    ["loss", loss.name === "ppo" ? `ppo, clipped ${1 - loss.clipLow}..${1 + loss.clipHigh}` : loss.name],
    ["gate", gateOf(recipe)],
    ["aggregation", recipe.aggregation],
    ["sampler", samplerOf(recipe)],
    [
      "groups",
      `${limits.minGroups} at least to train, ${limits.maxInFlight} in flight, ${limits.maxBuffered} kept at most`
    ],
    ["fewest groups", `${figures.fewestGroups} of ${recipe.prompts} after drops, which ${drops.onDropped}`],
    [
      "attempts",
      `${drops.infrastructureAttempts} for infrastructure, ${drops.dataAttempts} for data, ${drops.rowAttempts} of a row`
    ],
    ...(optimizer === undefined
      ? []
      : [
          [
            "optimizer",
            `Adam ${optimizer.beta1}/${optimizer.beta2}, rate ${optimizer.learningRate}, warm-up ${optimizer.warmupSteps} steps`
          ] as const
        ]),
    ...(frozen === undefined ? [] : [["frozen", frozen.join(", ")] as const]),
    ...(sequence === undefined
      ? []
      : [
          [
            "tokens",
            `${group(sequence.maxTokens)} a row, ${group(sequence.maxNewTokens)} a reply, packed by ${sequence.packer}`
          ] as const
        ]),
    ...(rollouts === undefined
      ? []
      : [["rollouts", `${rollouts.maxSteps} steps at most, ${rollouts.parallel} at a time`] as const]),
    ...(cluster === undefined || figures.gpus === undefined
      ? []
      : [
          [
            "cluster",
            `${cluster.nodes} nodes x ${cluster.gpusPerNode} GPUs: ${figures.gpus.training} train, ${figures.gpus.generation} generate; TP${cluster.tensorParallel} CP${cluster.contextParallel} EP${cluster.expertParallel}`
          ] as const
        ])
  ]
}

/**
 * One recipe, a line for each figure.
 *
 * @since 0.1.0
 * @category rendering
 */
export const render = (recipe: Recipe.Recipe): string => {
  const shown = lines(recipe)
  const width = Math.max(...shown.map(([name]) => name.length))
  return [
    `${recipe.name}: ${recipe.summary}`,
    "",
    ...shown.map(([name, value]) => `${name.padEnd(width)}  ${value}`)
  ].join("\n")
}

/** Names by how much has to be changed to get from what was given to them. */
const nearest = (given: string): ReadonlyArray<string> =>
  [...Recipe.recipes.keys()]
    .map((name) => ({ name, apart: distance(given.toLowerCase(), name) }))
    .sort((a, b) => a.apart - b.apart)
    .slice(0, 3)
    .map(({ name }) => name)

/**
 * One recipe, or all of them in short. JSON and YAML have the figures that follow from it under `derived`.
 *
 * @since 0.1.0
 * @category rendering
 */
export const text = ({ format, name }: RecipeOptions): Either.Either<string, UsageError> => {
  const written = (value: unknown) =>
    format === "json" ? JSON.stringify(value, null, 2) : YAML.stringify(value).trimEnd()
  if (Option.isNone(name)) {
    return Either.right(
      format === "table"
        ? `${renderAll()}\n\ndeskhand recipe NAME shows one of them`
        : written(Array.from(Recipe.recipes.values(), whole))
    )
  }
  const found = Recipe.recipes.get(name.value)
  if (found === undefined) {
    const reason = `there is no recipe ${name.value}. The nearest are ${nearest(name.value).join(", ")}; deskhand recipe lists all`
    return Either.left(new UsageError({ reason }))
  }
  return Either.right(format === "table" ? render(found) : written(whole(found)))
}

/**
 * @since 0.1.0
 * @category programs
 */
export const recipe = (options: RecipeOptions): Effect.Effect<void, UsageError> =>
  Effect.flatMap(text(options), Console.log)
