/**
 * What a provider is asked to open: processes, files and ports, and nothing about what they are for.
 *
 * @since 0.1.0
 */
import * as Duration from "effect/Duration"
import * as Schema from "effect/Schema"

/**
 * A TCP port inside a sandbox.
 *
 * @since 0.1.0
 * @category models
 */
export const Port = Schema.Int.pipe(Schema.between(1, 65535), Schema.annotations({ identifier: "Port" }))

/** A time that is more than none and ends. */
const Span = Schema.DurationFromMillis.pipe(
  Schema.filter((span) => Duration.toMillis(span) > 0 && Duration.isFinite(span), {
    message: () => "a time that is finite and more than 0"
  })
)

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
 * Ready when a GET of `path` on `port` answers 2xx within `timeout`.
 *
 * @since 0.1.0
 * @category models
 */
export class HttpReadiness extends Schema.TaggedClass<HttpReadiness>("deskhand/sandbox/HttpReadiness")(
  "HttpReadiness",
  {
    port: Port,
    path: Schema.NonEmptyString,
    timeout: Span
  }
) {}

/**
 * Ready when a command exits with 0 within `timeout`.
 *
 * @since 0.1.0
 * @category models
 */
export class CommandReadiness extends Schema.TaggedClass<CommandReadiness>("deskhand/sandbox/CommandReadiness")(
  "CommandReadiness",
  { command: Schema.NonEmptyArray(Schema.String), timeout: Span }
) {}

/**
 * How a provider learns that the sandbox is of use.
 *
 * @since 0.1.0
 * @category models
 */
export const Readiness = Schema.Union(HttpReadiness, CommandReadiness)

/**
 * @since 0.1.0
 * @category models
 */
export type Readiness = typeof Readiness.Type

/**
 * The network a sandbox sees: `none` is a loopback of its own, `host` is this machine's network, `default` is whatever
 * the provider gives, usually the internet.
 *
 * @since 0.1.0
 * @category models
 */
export const Network = Schema.Literal("none", "host", "default")

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
 * What a sandbox may use. What is absent is the provider's own default.
 *
 * @since 0.1.0
 * @category models
 */
export class Resources extends Schema.Class<Resources>("deskhand/sandbox/Resources")({
  /** Cores; a fraction is a share of one. */
  cpu: Schema.optionalWith(Schema.Finite.pipe(Schema.positive()), { exact: true }),
  memoryMib: Schema.optionalWith(Schema.Int.pipe(Schema.positive()), { exact: true }),
  diskGib: Schema.optionalWith(Schema.Int.pipe(Schema.positive()), { exact: true })
}) {}

/**
 * A sandbox to open.
 *
 * @since 0.1.0
 * @category models
 */
export class SandboxSpec extends Schema.Class<SandboxSpec>("deskhand/sandbox/SandboxSpec")({
  /** The image or template that the sandbox starts from; a provider that lends this host's files has none. */
  image: Schema.optionalWith(Schema.NonEmptyString, { exact: true }),
  /** The command that the sandbox runs; when it ends, the sandbox is gone. Absent: the provider keeps it alive. */
  entrypoint: Schema.optionalWith(Schema.NonEmptyArray(Schema.String), { exact: true }),
  /** The environment of the entrypoint and of `exec`. Nothing is inherited from this host. */
  env: Schema.optionalWith(Schema.Record({ key: Schema.String, value: Schema.String }), { default: () => ({}) }),
  /** Where commands start; the provider's own home folder unless given. */
  workdir: Schema.optionalWith(Schema.NonEmptyString, { exact: true }),
  /** Text files to write, by absolute path, before the sandbox counts as ready. */
  files: Schema.optionalWith(Schema.Record({ key: Schema.String, value: Schema.String }), { default: () => ({}) }),
  /** Folders and files of this host that the sandbox sees, read-only. Only where the capability `hostFiles` is. */
  mounts: Schema.optionalWith(Schema.Array(Mount), { default: () => [] }),
  /**
   * Paths below `/etc` that the programs inside read. A provider that lends the sandbox this host's `/usr` shows them,
   * where they exist, read-only; a provider with an image of its own has them already.
   */
  systemFiles: Schema.optionalWith(Schema.Array(Schema.NonEmptyString), { default: () => [] }),
  /** Ports that `endpoint` can reach. */
  ports: Schema.optionalWith(
    Schema.Array(Port).pipe(
      Schema.filter((ports) => new Set(ports).size === ports.length, { message: () => "every port once" })
    ),
    { default: () => [] }
  ),
  network: Schema.optionalWith(Network, { default: () => "none" as const }),
  resources: Schema.optionalWith(Resources, { exact: true }),
  /** After this long the provider removes the sandbox by itself, whatever became of its owner. */
  ttl: Schema.optionalWith(Span, { exact: true }),
  readiness: Schema.optionalWith(Readiness, { exact: true }),
  metadata: Schema.optionalWith(Metadata, { default: () => ({}) })
}) {}
