/**
 * What every sandbox provider has to do, as tests: run them on a provider of your own.
 *
 * @since 0.1.0
 */
import { layer as withLayer } from "@effect/vitest"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import type * as Layer from "effect/Layer"
import type * as Scope from "effect/Scope"
import type { Driver, Settle } from "../sandbox/Driver.js"
import type { Ledger } from "../sandbox/Ledger.js"
import type { SandboxProvider } from "../sandbox/SandboxProvider.js"
import type { SandboxSpec } from "../sandbox/SandboxSpec.js"
import { driver } from "./internal/conformance/driver.js"
import { endpoints } from "./internal/conformance/endpoints.js"
import { exec } from "./internal/conformance/exec.js"
import { files } from "./internal/conformance/files.js"
import { lifecycle } from "./internal/conformance/lifecycle.js"
import { fork, ownership } from "./internal/conformance/ownership.js"
import { schedules } from "./internal/conformance/schedules.js"
import type { Suite } from "./internal/conformance/suite.js"

/**
 * @since 0.1.0
 * @category models
 */
export type Fields = Partial<NonNullable<ConstructorParameters<typeof SandboxSpec>[0]>>

/**
 * @since 0.1.0
 * @category models
 */
export type Part = "lifecycle" | "exec" | "files" | "endpoints" | "ownership" | "fork" | "driver" | "interruption"

/**
 * A sandbox in which something answers a GET of `/` on `port` with 200 and `body`.
 *
 * @since 0.1.0
 * @category models
 */
export interface Server {
  /** That sandbox, with these fields over it. */
  readonly spec: (fields: Fields) => SandboxSpec
  readonly port: number
  readonly body: string
}

/**
 * What goes wrong during the random schedules, besides their interruptions. A schedule draws up to three faults, each
 * with the moment at which it is injected; half of them are there before anything begins. Schedules that run at the same
 * time share the service, so a fault is met by whichever of them asks next; one that nobody has met when all of them are
 * settled is cleared before the next begin.
 *
 * Holders may fail for them. What counts is that nothing is left, and that no sweep was needed for it: a fault has to be
 * one that passes, because nobody survives a service that says for ever that there is nothing.
 *
 * @since 0.1.0
 * @category models
 */
export interface Faults<R = never> {
  /** By what a reader of a failed schedule is told: each makes something go wrong once. */
  readonly inject?: Readonly<Record<string, Effect.Effect<void, never, R>>>
  /** Forgets what was injected and not met yet; nothing is done unless given. */
  readonly clear?: Effect.Effect<void, never, R>
  /** Fields, over those of `spec`, of a sandbox that goes wrong by itself; about one of seven holders has some. */
  readonly specs?: Readonly<Record<string, Fields>>
}

/**
 * @since 0.1.0
 * @category models
 */
export interface Options<R = never, Handle extends { readonly id: string } = { readonly id: string }> {
  /** The smallest sandbox with `/bin/sh` and the usual tools on its path, with these fields over it. */
  readonly spec: (fields: Fields) => SandboxSpec
  /** The part "endpoints" is left out without it. */
  readonly server?: Server
  /** A path that cannot be written; `/proc/nothing` unless given. */
  readonly unwritable?: string
  /**
   * The driver that the provider is made of, and that it can be made of again; the part "driver" is left out without it.
   * A provider knows of a create whose answer was lost only what its driver finds, so this part looks past the provider
   * and loses answers. Without it, lost creates are tested by `faults` that lose them and by `leftovers`, or not at all.
   */
  readonly driver?: Effect.Effect<Driver<Handle>, never, R | Scope.Scope>
  /** Of the providers that are made of `driver`. */
  readonly settle?: Settle
  /** Random schedules of interruptions and faults; 20 unless given. */
  readonly schedules?: number
  /** Schedules at the same time, which share the service and its faults; 4 unless given. */
  readonly concurrency?: number
  /** The seed of the schedules; one of its own unless given. */
  readonly seed?: number
  /** Interruptions alone unless given. */
  readonly faults?: Faults<R>
  /** What the service has after the schedules, asked for without the provider: it has to become nothing. */
  readonly leftovers?: Effect.Effect<ReadonlyArray<string>, never, R>
  /** How long the reaper may take until nothing is left; 1 minute unless given. */
  readonly settled?: Duration.DurationInput
  /** For each test; 2 minutes unless given. */
  readonly timeout?: number
  /** All of them unless given. */
  readonly parts?: ReadonlyArray<Part>
}

/**
 * Declares the tests. The layer's ledger is the one that the provider keeps; what the faults need comes from it, too.
 *
 * @since 0.1.0
 * @category tests
 */
export const providerConformance = <E, R = never, Handle extends { readonly id: string } = { readonly id: string }>(
  name: string,
  layer: Layer.Layer<SandboxProvider | Ledger | R, E>,
  options: Options<R, Handle>
): void => {
  const has = (part: Part) => options.parts === undefined || options.parts.includes(part)
  const timeout = options.timeout ?? 120_000

  withLayer(layer, { excludeTestServices: true, timeout })(`${name} conforms`, (it) => {
    const suite: Suite = {
      spec: options.spec,
      settled: options.settled ?? "1 minute",
      check: (title, test) => it.effect(title, () => test, timeout)
    }
    if (has("lifecycle")) {
      lifecycle(suite)
    }
    if (has("exec")) {
      exec(suite)
    }
    if (has("files")) {
      files(suite, options.unwritable ?? "/proc/nothing")
    }
    if (has("endpoints") && options.server !== undefined) {
      endpoints(suite, options.server)
    }
    if (has("ownership")) {
      ownership(suite)
    }
    if (has("fork")) {
      fork(suite, has("files"))
    }
    if (has("driver")) {
      if (options.driver !== undefined) {
        driver(
          suite,
          {
            driver: options.driver,
            settle: options.settle ?? {},
            leftovers: options.leftovers ?? Effect.succeed([])
          },
          (title, test) => it.effect(title, () => test, timeout)
        )
      } else if (options.faults?.inject === undefined) {
        // Nothing else in the suite would say so.
        it.effect.skip("a create whose answer is lost: not tested without `driver`", () => Effect.void)
      }
    }
    if (has("interruption")) {
      const count = options.schedules ?? 20
      schedules(
        suite,
        {
          schedules: count,
          concurrency: options.concurrency ?? 4,
          seed: options.seed ?? Math.floor(Math.random() * 2 ** 31),
          faults: options.faults ?? {},
          leftovers: options.leftovers ?? Effect.succeed([])
        },
        (title, test) => it.effect(title, () => test, timeout + count * 10_000)
      )
    }
  })
}
