/**
 * What a provider is asked to open: processes, files and ports, and nothing about what they are for.
 *
 * @since 0.1.0
 */
import * as Schema from "effect/Schema"

/**
 * A TCP port inside a sandbox.
 *
 * @since 0.1.0
 * @category models
 */
export const Port = Schema.Int.pipe(Schema.between(1, 65535), Schema.annotations({ identifier: "Port" }))

/**
 * A folder or file of this host that the sandbox sees, read-only.
 *
 * @since 0.1.0
 * @category models
 */
export class Mount extends Schema.Class<Mount>("deskhand/sandbox/Mount")({
  /** Absolute path on this host. */
  source: Schema.NonEmptyString,
  /** Absolute path inside the sandbox. */
  target: Schema.NonEmptyString
}) {}

/**
 * How a provider learns that the sandbox is ready: a GET of `path` on `port` that answers 2xx within `timeout`.
 *
 * @since 0.1.0
 * @category models
 */
export class Readiness extends Schema.Class<Readiness>("deskhand/sandbox/Readiness")({
  port: Port,
  path: Schema.NonEmptyString,
  timeout: Schema.DurationFromMillis
}) {}

/**
 * The network a sandbox sees: `none` is a loopback of its own, `host` is this machine's network.
 *
 * @since 0.1.0
 * @category models
 */
export const Network = Schema.Literal("none", "host")

/**
 * @since 0.1.0
 * @category models
 */
export type Network = typeof Network.Type

/**
 * The labels by which a run's sandboxes are found again. `run` names the run that owns the sandbox.
 *
 * @since 0.1.0
 * @category models
 */
export const Metadata = Schema.Record({ key: Schema.String, value: Schema.String })

/**
 * A sandbox to open.
 *
 * @since 0.1.0
 * @category models
 */
export class SandboxSpec extends Schema.Class<SandboxSpec>("deskhand/sandbox/SandboxSpec")({
  /** The command that the sandbox runs; when it ends, the sandbox is gone. */
  entrypoint: Schema.NonEmptyArray(Schema.String),
  /** The whole environment of the entrypoint: nothing is inherited from this host. */
  env: Schema.Record({ key: Schema.String, value: Schema.String }),
  /** Folders and files of this host that the sandbox sees, read-only. */
  mounts: Schema.Array(Mount),
  /**
   * Paths below `/etc` that the programs inside read. A provider that lends the sandbox this host's `/usr` shows them,
   * where they exist, read-only; a provider with an image of its own has them already.
   */
  systemFiles: Schema.Array(Schema.NonEmptyString),
  /** Ports that `endpoint` can reach. */
  ports: Schema.Array(Port).pipe(
    Schema.filter((ports) => new Set(ports).size === ports.length, { message: () => "every port once" })
  ),
  network: Network,
  readiness: Schema.optionalWith(Readiness, { exact: true }),
  metadata: Metadata
}) {}
