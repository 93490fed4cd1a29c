/**
 * Metrics over GIMP's configuration files: `gimprc`, `sessionrc` and their like.
 *
 * @since 0.1.0
 */
import * as Schema from "effect/Schema"
import { type Metric, make, verdict } from "./Metric.js"
import * as Reader from "./Reader.js"

const rule = Reader.json(
  Schema.Struct({
    key: Schema.Union(Schema.String, Schema.Tuple(Schema.String, Schema.String)),
    value: Schema.Union(Schema.String, Schema.Number)
  })
)

/** The words of a line without the brackets around it. */
const words = (line: string): ReadonlyArray<string> =>
  line
    .trim()
    .replace(/^\(+/, "")
    .replace(/\)+$/, "")
    .split(/\s+/)
    .filter((word) => word !== "")

/**
 * Some line has a setting's name first (one word or two) and its value last: `(undo-levels 100)`. Texts keep their
 * quotation marks. Comments don't count.
 *
 * @since 0.1.0
 * @category metrics
 */
export const checkConfigStatus: Metric = make({
  name: "check_config_status",
  result: Reader.text,
  expected: rule,
  options: Schema.Struct({}),
  score: (config, { key, value }) => {
    const names = typeof key === "string" ? [key] : key
    return verdict(
      config
        .split("\n")
        .filter((line) => !line.trimStart().startsWith("#"))
        .map(words)
        .some((found) => names.every((name, index) => found[index] === name) && found.at(-1) === String(value))
    )
  }
})

/**
 * The metrics of this module, for the registry.
 *
 * @since 0.1.0
 * @category metrics
 */
export const metrics: ReadonlyArray<Metric> = [checkConfigStatus]
