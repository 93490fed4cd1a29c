/**
 * What a provider can do natively, as data. A missing capability is a typed error, never an emulation in disguise.
 *
 * @since 0.1.0
 */
import * as Schema from "effect/Schema"

/**
 * What a provider can do.
 *
 * @since 0.1.0
 * @category models
 */
export class Capabilities extends Schema.Class<Capabilities>("deskhand/sandbox/Capabilities")({
  /** `exec` and `execStream`. */
  exec: Schema.Boolean,
  /** `upload` and `download`. */
  files: Schema.Boolean,
  endpoint: Schema.Boolean,
  /** The spec's `mounts` and `systemFiles`: the sandbox runs on this host. */
  hostFiles: Schema.Boolean,
  /** The spec's `image`. */
  images: Schema.Boolean,
  /** The spec's `entrypoint`. Where it is not, what an image starts by itself is all that runs. */
  entrypoint: Schema.Boolean,
  /** `borrow`. */
  connect: Schema.Boolean,
  /** One running sandbox becomes several. */
  fork: Schema.Boolean,
  pause: Schema.Boolean,
  /** The time to live can be extended. */
  renew: Schema.Boolean,
  snapshot: Schema.Boolean,
  /** The spec's `ttl` is enforced by the provider even when this program is gone. */
  ttl: Schema.Boolean
}) {}

/**
 * @since 0.1.0
 * @category models
 */
export type Capability = keyof typeof Capabilities.fields
