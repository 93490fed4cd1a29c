/**
 * For tests of one's own: suites that any policy or provider must pass, and doubles of services.
 *
 * The suites are vitest's and want it. A double does not: outside of a test it is imported by itself, as
 * `deskhand/testing/SimulatedModel`.
 *
 * @since 0.1.0
 */
export * as Distribution from "./Distribution.js"
export * as E2BServer from "./E2BServer.js"
export * from "./HistoryPolicyLaws.js"
export * as OpenSandboxDouble from "./OpenSandboxDouble.js"
export * from "./ProviderConformance.js"
export * as SimulatedDesktops from "./SimulatedDesktops.js"
export * as SimulatedModel from "./SimulatedModel.js"
export * as SimulatedService from "./SimulatedService.js"
export * as VirtualClock from "./VirtualClock.js"
