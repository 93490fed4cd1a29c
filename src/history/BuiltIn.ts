/**
 * The policies that come with Deskhand, by their configuration and by the short form that flags take.
 *
 * @since 0.1.0
 */
import * as Either from "effect/Either"
import * as ParseResult from "effect/ParseResult"
import * as Schema from "effect/Schema"
import * as Compaction from "./Compaction.js"
import * as FixedWindow from "./FixedWindow.js"
import { type HistoryPolicy, HistoryPolicyError } from "./HistoryPolicy.js"
import * as Hysteresis from "./Hysteresis.js"
import * as SinkWindow from "./SinkWindow.js"

const config = <Name extends string, Fields extends Schema.Struct.Fields>(name: Name, params: Fields) =>
  Schema.Struct({ schema_version: Schema.Literal(1), name: Schema.Literal(name), params: Schema.Struct(params) })

const Config = Schema.Union(
  config("fixed", { keep_images: Schema.Int }),
  config("hysteresis", { low_water: Schema.Int, high_water: Schema.Int }),
  config("sink_window", { sink: Schema.Int, low_water: Schema.Int, high_water: Schema.Int }),
  config("compaction", { keep_images: Schema.Int, trigger_images: Schema.Int, trained: Schema.Boolean })
)

const decode = Schema.decodeUnknownEither(Config, { onExcessProperty: "error" })

const made = (make: () => HistoryPolicy["Type"]): Either.Either<HistoryPolicy["Type"], HistoryPolicyError> =>
  Either.try({
    try: make,
    catch: (error) => new HistoryPolicyError({ message: error instanceof Error ? error.message : String(error) })
  })

/**
 * The policy that a configuration describes: exactly the keys that its id is made of.
 *
 * @since 0.1.0
 * @category constructors
 */
export const fromConfig = (value: unknown): Either.Either<HistoryPolicy["Type"], HistoryPolicyError> =>
  Either.flatMap(
    Either.mapLeft(
      decode(value),
      (error) =>
        new HistoryPolicyError({
          message: `this is no configuration of a history policy: ${ParseResult.TreeFormatter.formatErrorSync(error)}`
        })
    ),
    (config) =>
      made(() => {
        switch (config.name) {
          case "fixed":
            return FixedWindow.make({ keepImages: config.params.keep_images })
          case "hysteresis":
            return Hysteresis.make({ lowWater: config.params.low_water, highWater: config.params.high_water })
          case "sink_window":
            return SinkWindow.make({
              sink: config.params.sink,
              lowWater: config.params.low_water,
              highWater: config.params.high_water
            })
          case "compaction":
            return Compaction.make({
              keepImages: config.params.keep_images,
              triggerImages: config.params.trigger_images,
              trained: config.params.trained
            })
        }
      })
  )

/**
 * What `fromText` understands, for messages and for `--help`.
 *
 * @since 0.1.0
 * @category constants
 */
export const textForms =
  "fixed:IMAGES, hysteresis:LOW,HIGH, sink:SINK,LOW,HIGH, compaction:KEEP,TRIGGER or compaction:KEEP,TRIGGER,trained"

/**
 * The policy that a short form names: `fixed:3`, `hysteresis:3,10`, `sink:1,3,10`, `compaction:3,10`.
 *
 * @since 0.1.0
 * @category constructors
 */
export const fromText = (text: string): Either.Either<HistoryPolicy["Type"], HistoryPolicyError> => {
  const [name = "", ...rest] = text.split(":")
  const words = rest.join(":").split(",")
  const trained = name === "compaction" && words.at(-1) === "trained"
  const numbers = (trained ? words.slice(0, -1) : words).map((word) => (/^\d+$/.test(word) ? Number(word) : Number.NaN))
  const unknown = Either.left(new HistoryPolicyError({ message: `${text} names no history policy: ${textForms}` }))
  if (numbers.some(Number.isNaN)) return unknown
  const [first = 0, second = 0, third = 0] = numbers
  switch (`${name} ${numbers.length}`) {
    case "fixed 1":
      return made(() => FixedWindow.make({ keepImages: first }))
    case "hysteresis 2":
      return made(() => Hysteresis.make({ lowWater: first, highWater: second }))
    case "sink 3":
      return made(() => SinkWindow.make({ sink: first, lowWater: second, highWater: third }))
    case "compaction 2":
      return made(() => Compaction.make({ keepImages: first, triggerImages: second, trained }))
    default:
      return unknown
  }
}
