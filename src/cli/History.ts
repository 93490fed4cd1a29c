/**
 * `deskhand history`: what history policies cost, side by side.
 *
 * @since 0.1.0
 */
import * as FileSystem from "@effect/platform/FileSystem"
import * as Console from "effect/Console"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import { fromText } from "../history/BuiltIn.js"
import { type EpisodeCost, episodeCost, type PromptSizes } from "../history/Economics.js"
import { svgPlot } from "../rollout/Plot.js"
import { table } from "./internal/table.js"
import { UsageError } from "./Run.js"

/**
 * @since 0.1.0
 * @category models
 */
export interface HistoryOptions {
  /** Short forms, such as `hysteresis:3,10`. */
  readonly policies: ReadonlyArray<string>
  readonly turns: number
  readonly sizes: PromptSizes
  /** Where the plot goes. */
  readonly svg: Option.Option<string>
}

interface Compared {
  readonly name: string
  readonly id: string
  readonly cost: EpisodeCost
}

const whole = (value: number): string => Math.round(value).toLocaleString("en-US")

const percent = (share: number): string => `${(100 * share).toFixed(0)} %`

/**
 * The comparison as a table.
 *
 * @since 0.1.0
 * @category rendering
 */
export const render = (
  compared: ReadonlyArray<Compared>,
  { sizes, turns }: Pick<HistoryOptions, "sizes" | "turns">
): string =>
  [
    `${turns} turns; ${whole(sizes.image)} tokens a screenshot, ${whole(sizes.text)} the text of a turn, ${whole(sizes.system)} before the first turn`,
    "",
    table(
      [
        "policy",
        "images sent",
        "tokens sent",
        "mean prompt",
        "largest prompt",
        "from a prefix cache",
        "tokens computed",
        "breaks"
      ],
      compared.map(({ cost, name }) => [
        name,
        whole(cost.imagesSent),
        whole(cost.tokensSent),
        whole(cost.meanPrompt),
        whole(cost.largestPrompt),
        percent(cost.reusedShare),
        whole(cost.tokensSent * (1 - cost.reusedShare)),
        String(cost.breaks)
      ])
    ),
    "",
    ...compared.map(({ id, name }) => `${name} is ${id}`)
  ].join("\n")

/**
 * The comparison as a picture: how long prompts get, and how much of each a prefix cache has.
 *
 * @since 0.1.0
 * @category rendering
 */
export const plot = (compared: ReadonlyArray<Compared>): string =>
  svgPlot("History policies over an episode", [
    {
      title: "Tokens of each prompt",
      xLabel: "turn",
      yLabel: "tokens",
      series: compared.map(({ cost, name }) => ({
        name,
        points: cost.prompts.map(({ tokens, turn }) => [turn, tokens])
      }))
    },
    {
      title: "Share of each prompt that a prefix cache has",
      xLabel: "turn",
      yLabel: "share",
      yMax: 1,
      showY: percent,
      series: compared.map(({ cost, name }) => ({
        name,
        points: cost.prompts.slice(1).map(({ reused, tokens, turn }) => [turn, reused / tokens])
      }))
    }
  ])

/**
 * @since 0.1.0
 * @category programs
 */
export const history = (options: HistoryOptions): Effect.Effect<void, UsageError, FileSystem.FileSystem> =>
  Effect.gen(function* () {
    const compared = yield* Effect.forEach(options.policies, (name) =>
      Either.match(fromText(name), {
        onLeft: ({ message }) => new UsageError({ reason: message }),
        onRight: (policy) =>
          Effect.succeed({ name, id: policy.id, cost: episodeCost(policy, options.turns, options.sizes) })
      })
    )
    yield* Console.log(render(compared, options))
    if (Option.isSome(options.svg)) {
      const file = options.svg.value
      yield* Effect.flatMap(FileSystem.FileSystem, (fs) => fs.writeFileString(file, plot(compared))).pipe(
        Effect.mapError((error) => new UsageError({ reason: `${file} cannot be written: ${error.message}` }))
      )
      yield* Console.log(`\nThe plot is in ${file}`)
    }
  })
