/**
 * A spec as the engine wants it, and what the engine says of a container as we want it: pure.
 */
import * as Duration from "effect/Duration"
import * as Either from "effect/Either"
import type { SandboxInfo } from "../Sandbox.js"
import type { SandboxSpec } from "../SandboxSpec.js"
import { type Address, engineHost, isLocal, isWildcard, origin, publishAt } from "./dockerAddress.js"
import type { Inspected } from "./dockerEngine.js"

/** What all containers of a provider have, whatever their spec says. */
export interface Settings {
  /** For specs that name none. */
  readonly image?: string
  /**
   * The address of the engine's machine that ports are published at: the loopback where the engine is on this host, and
   * the host's address elsewhere. It has to be an IP address.
   */
  readonly publishHost?: string
  /** The network of specs that ask for the default; the engine's `bridge` unless given. */
  readonly network?: string
  /** Devices of the engine's machine, such as `/dev/kvm`. */
  readonly devices?: ReadonlyArray<string>
  /** Such as `NET_ADMIN`. */
  readonly capAdd?: ReadonlyArray<string>
  /** Such as `seccomp=unconfined`. */
  readonly securityOpt?: ReadonlyArray<string>
  /** Processes and threads that a container may have at once; 4096 unless given. */
  readonly pidsLimit?: number
}

/** The network of containers that may be reached and that reach nothing: the engine's `none` has no way in at all. */
export const isolatedNetwork = "deskhand-isolated"

export const isolatedNetworkBody = {
  Name: isolatedNetwork,
  CheckDuplicate: true,
  Driver: "bridge",
  Internal: true,
  // Neither do its containers reach each other.
  Options: { "com.docker.network.bridge.enable_icc": "false" },
  Labels: { "deskhand.network": "isolated" }
}

export interface Problem {
  readonly reason: string
  readonly remedy: string
}

/** The network that a container of this spec is in. */
export const networkOf = (spec: Pick<SandboxSpec, "network" | "ports">, settings: Settings): string =>
  spec.network === "none"
    ? spec.ports.length === 0
      ? "none"
      : isolatedNetwork
    : spec.network === "host"
      ? "host"
      : (settings.network ?? "bridge")

/** As `docker://` is written in front of images elsewhere. */
const imageName = (image: string) => image.replace(/^docker:\/\//, "")

/** More than any desktop needs and less than what a fork bomb makes. */
const defaultPidsLimit = 4096

const mebibyte = 1024 * 1024

/** What the container runs. `timeout` ends it when its time is over, and the engine removes it then. */
const programs = (spec: SandboxSpec): ReadonlyArray<string> => {
  const seconds = spec.ttl === undefined ? undefined : Math.ceil(Duration.toSeconds(spec.ttl))
  return spec.entrypoint === undefined
    ? ["sleep", seconds === undefined ? "2147483647" : String(seconds)]
    : [...(seconds === undefined ? [] : ["timeout", "-s", "KILL", String(seconds)]), ...spec.entrypoint]
}

/** The body of the create. */
export const createBody = (
  spec: SandboxSpec,
  labels: Readonly<Record<string, string>>,
  settings: Settings,
  address: Address
): Either.Either<Readonly<Record<string, unknown>>, Problem> => {
  const image = spec.image ?? settings.image
  if (image === undefined) {
    return Either.left({
      reason: "the spec names no image",
      remedy: "Name one, such as deskhand-desktop:latest, which src/desktop/guest/build-image.sh builds"
    })
  }
  const network = networkOf(spec, settings)
  if (network === isolatedNetwork && !isLocal(address)) {
    return Either.left({
      reason: 'a network "none" with ports is reached at the containers\' own addresses, and the engine is elsewhere',
      remedy: 'Ask for the network "default", or reach the engine by its unix socket'
    })
  }
  const publishes = network !== isolatedNetwork && network !== "host" && spec.ports.length > 0
  const hostIp = publishAt(address, settings.publishHost)
  if (publishes && hostIp === undefined) {
    return Either.left({
      reason: `ports cannot be published at ${settings.publishHost ?? engineHost(address)}, which is no IP address`,
      remedy: "Name an address of the engine's machine in the publishHost option"
    })
  }
  const { cpu, memoryMib } = spec.resources ?? {}
  const memory = memoryMib === undefined ? undefined : memoryMib * mebibyte
  const [program, ...words] = programs(spec)
  return Either.right({
    Image: imageName(image),
    Entrypoint: [program],
    Cmd: words,
    Env: Object.entries(spec.env).map(([name, value]) => `${name}=${value}`),
    Labels: labels,
    ...(spec.workdir === undefined ? {} : { WorkingDir: spec.workdir }),
    ExposedPorts: Object.fromEntries(spec.ports.map((port) => [`${port}/tcp`, {}])),
    HostConfig: {
      // Somebody has to wait for orphans, and a first process without handlers would not hear of SIGTERM.
      Init: true,
      NetworkMode: network,
      AutoRemove: spec.ttl !== undefined,
      PidsLimit: settings.pidsLimit ?? defaultPidsLimit,
      ...(cpu === undefined ? {} : { NanoCpus: Math.round(cpu * 1e9) }),
      // The same number for both means no swap.
      ...(memory === undefined ? {} : { Memory: memory, MemorySwap: memory }),
      ...(publishes
        ? {
            PortBindings: Object.fromEntries(
              spec.ports.map((port) => [`${port}/tcp`, [{ HostIp: hostIp, HostPort: "" }]])
            )
          }
        : {}),
      Mounts: spec.mounts.map(({ source, target }) => ({
        Type: "bind",
        Source: source,
        Target: target,
        ReadOnly: true
      })),
      Devices: (settings.devices ?? []).map((path) => ({
        PathOnHost: path,
        PathInContainer: path,
        CgroupPermissions: "rwm"
      })),
      CapAdd: settings.capAdd ?? [],
      SecurityOpt: settings.securityOpt ?? []
    }
  })
}

/** What the engine calls a state, as we do. */
export const stateOf = (status: string): SandboxInfo["state"] => {
  switch (status.toLowerCase()) {
    case "created":
    case "restarting":
      return "starting"
    case "running":
      return "running"
    case "paused":
      return "paused"
    case "exited":
    case "removing":
    case "dead":
      return "stopped"
    default:
      return "unknown"
  }
}

/** Where a port is reached from here; left is why it is not. */
export const endpointOf = (
  found: typeof Inspected.Type,
  port: number,
  address: Address
): Either.Either<string, string> => {
  if (!found.State.Running) {
    return Either.left(`the container does not run (${found.State.Status})`)
  }
  const host = engineHost(address)
  if (found.HostConfig.NetworkMode === "host") {
    return Either.right(origin(host, port))
  }
  const bindings = (found.NetworkSettings.Ports?.[`${port}/tcp`] ?? []).flatMap(({ HostIp, HostPort }) =>
    HostPort === undefined || HostPort === "" || HostPort === "0" ? [] : [{ ip: HostIp ?? "", port: Number(HostPort) }]
  )
  // The loopback first, then an address, and a wildcard last, which is reached at the engine's own host.
  const rank = ({ ip }: { readonly ip: string }) => (ip === "127.0.0.1" ? 0 : isWildcard(ip) ? 2 : 1)
  const [best] = [...bindings].sort((a, b) => rank(a) - rank(b))
  if (best !== undefined) {
    return Either.right(origin(isWildcard(best.ip) ? host : best.ip, best.port))
  }
  if (!isLocal(address)) {
    return Either.left("it is not published")
  }
  const own = Object.values(found.NetworkSettings.Networks ?? {})
    .flatMap(({ GlobalIPv6Address, IPAddress }) => [IPAddress, GlobalIPv6Address])
    .find((ip) => ip !== undefined && ip !== "")
  return own === undefined
    ? Either.left("it is not published, and the container has no network")
    : Either.right(origin(own, port))
}

/** Why a container that ran does not run any more. */
export const endOf = (found: typeof Inspected.Type): string =>
  found.State.OOMKilled === true
    ? "it ran out of memory"
    : `its first program ended with code ${found.State.ExitCode ?? "unknown"}${
        found.State.Error === undefined || found.State.Error === "" ? "" : `: ${found.State.Error}`
      }`
