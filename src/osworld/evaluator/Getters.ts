/**
 * The getters that we have, by upstream's names.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import type { GetterSpec } from "../EvaluatorSpec.js"
import { type Getter, GetterError, type Input, type Requirements } from "./Getter.js"
import * as ChromeLive from "./internal/getters/chromeLive.js"
import * as ChromeProfile from "./internal/getters/chromeProfile.js"
import * as Editors from "./internal/getters/editors.js"
import * as Files from "./internal/getters/files.js"
import * as GoogleDrive from "./internal/getters/googleDrive.js"
import * as Guest from "./internal/getters/guest.js"
import * as Media from "./internal/getters/media.js"
import * as RelativeTime from "./internal/getters/relativeTime.js"
import type { Value } from "./Metric.js"

/**
 * All of them. What they read with is loaded when it is used, and not with this list.
 *
 * @since 0.1.0
 * @category registry
 */
export const all: ReadonlyArray<Getter> = [
  ...Files.getters,
  ...Guest.getters,
  ...RelativeTime.getters,
  ...ChromeProfile.getters,
  ...ChromeLive.getters,
  ...Media.getters,
  ...Editors.getters,
  ...GoogleDrive.getters
]

const byName: ReadonlyMap<string, Getter> = new Map(all.map((getter) => [getter.name, getter]))

/**
 * The names of all getters, upstream's and ours.
 *
 * @since 0.1.0
 * @category registry
 */
export const supported: ReadonlySet<string> = new Set(byName.keys())

const find = (type: string): Effect.Effect<Getter, GetterError> =>
  Effect.orElseFail(
    Effect.fromNullable(byName.get(type)),
    () => new GetterError({ getter: type, reason: "it is not yet supported" })
  )

/**
 * Why this getter cannot be carried out, whatever the desktop: it is not there, or its parameters make no sense.
 *
 * @since 0.1.0
 * @category registry
 */
export const validate = (spec: GetterSpec): Effect.Effect<void, GetterError> =>
  Effect.flatMap(find(spec.type), (getter) => getter.validate(spec))

/**
 * Carries a getter out.
 *
 * @since 0.1.0
 * @category operations
 */
export const get = (spec: GetterSpec, input: Input): Effect.Effect<Value, GetterError, Requirements> =>
  Effect.flatMap(find(spec.type), (getter) => getter.get(spec, input))
