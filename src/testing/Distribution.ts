/**
 * How long simulated things take and how often they fail: drawn from names, so that what happens to a rollout does not
 * hang on when it runs.
 *
 * @since 0.1.0
 */
import * as Data from "effect/Data"

/**
 * A span of time, in milliseconds. `LogNormal` has its long tail to the right: half of it lies below `median`, and
 * `sigma` is the standard deviation of the logarithm (0.5: one in 44 takes longer than e times the median).
 *
 * @since 0.1.0
 * @category models
 */
export type Distribution = Data.TaggedEnum<{
  Fixed: { readonly milliseconds: number }
  Uniform: { readonly from: number; readonly to: number }
  LogNormal: { readonly median: number; readonly sigma: number }
}>

/**
 * Constructors of distributions, and matchers.
 *
 * @since 0.1.0
 * @category constructors
 */
export const Distribution = Data.taggedEnum<Distribution>()

/**
 * A number in [0, 1) that is the same for the same name and looks random otherwise: FNV-1a over the name, mixed by the
 * finaliser of MurmurHash3.
 *
 * @since 0.1.0
 * @category decisions
 */
export const draw = (...name: ReadonlyArray<string | number>): number => {
  let hash = 0x811c9dc5
  for (const character of name.join("\u0000")) {
    hash = Math.imul(hash ^ (character.codePointAt(0) ?? 0), 0x01000193)
  }
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b)
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35)
  return ((hash ^ (hash >>> 16)) >>> 0) / 2 ** 32
}

/**
 * The span that a name draws.
 *
 * @since 0.1.0
 * @category decisions
 */
export const sample = (distribution: Distribution, ...name: ReadonlyArray<string | number>): number => {
  switch (distribution._tag) {
    case "Fixed":
      return distribution.milliseconds
    case "Uniform":
      return distribution.from + (distribution.to - distribution.from) * draw(...name)
    case "LogNormal": {
      // Box and Muller: two even draws make a normal one. The first is not 0.
      const radius = Math.sqrt(-2 * Math.log(1 - draw(...name, "radius")))
      const normal = radius * Math.cos(2 * Math.PI * draw(...name, "angle"))
      return distribution.median * Math.exp(distribution.sigma * normal)
    }
  }
}
