/**
 * What a spec wants of a provider, against what the provider has. Pure.
 */
import type { Capabilities, Capability } from "../Capabilities.js"
import type { SandboxSpec } from "../SandboxSpec.js"

/** What the spec needs. */
export const needed = (spec: SandboxSpec): ReadonlyArray<Capability> => [
  ...(spec.image === undefined ? [] : ["images" as const]),
  ...(spec.entrypoint === undefined ? [] : ["entrypoint" as const]),
  ...(spec.mounts.length === 0 ? [] : ["hostFiles" as const]),
  ...(Object.keys(spec.files).length === 0 ? [] : ["files" as const]),
  ...(spec.ports.length === 0 && spec.readiness?._tag !== "HttpReadiness" ? [] : ["endpoint" as const]),
  ...(spec.readiness?._tag === "CommandReadiness" ? ["exec" as const] : []),
  ...(spec.ttl === undefined ? [] : ["ttl" as const])
]

/** The first of them that is not there. */
export const missingCapability = (spec: SandboxSpec, capabilities: Capabilities): Capability | undefined =>
  needed(spec).find((capability) => !capabilities[capability])
