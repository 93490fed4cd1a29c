/**
 * Sandboxes on this host: each is a bubblewrap container with a home folder of its own and, of the host, `/usr` and the
 * files that its spec names, read-only.
 *
 * @since 0.1.0
 */
import * as os from "node:os"
import * as CommandExecutor from "@effect/platform/CommandExecutor"
import * as FileSystem from "@effect/platform/FileSystem"
import * as Path from "@effect/platform/Path"
import * as Config from "effect/Config"
import type * as ConfigError from "effect/ConfigError"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import * as Host from "./internal/host.js"
import { confirmGone, list, sweep } from "./internal/localInventory.js"
import { type Platform, provider } from "./internal/localRemoval.js"
import { acquire, borrow, capabilities } from "./internal/localSandbox.js"
import { Ledger, makeMemory } from "./Ledger.js"
import { SandboxUnsupported } from "./SandboxError.js"
import { SandboxProvider } from "./SandboxProvider.js"

/**
 * @since 0.1.0
 * @category models
 */
export interface Options {
  /**
   * Where sandboxes are kept while they exist, each in a folder of its own. Only its user may be able to write there;
   * it is made when it is missing. Programs that share it see each other's sandboxes in `list` and `sweep`.
   */
  readonly stateDir: string
}

/**
 * Opens sandboxes on this host.
 *
 * - A guest is user 1000 in namespaces of its own, with no capabilities. Outside, it is the user that runs this program;
 *   when that is root, it is the unprivileged user 65530 instead.
 * - A container ends with the thread that started it: run this on the main thread, not in a worker that ends early.
 *   SIGKILL of this program ends its containers, at whatever moment; `sweep` removes what they leave on the disk.
 * - With the spec's network `none` or `default` a sandbox has a loopback of its own and nothing else; there is no other
 *   network that could be lent without privileges. With `host`, 127.0.0.1 is this host's: two sandboxes cannot listen on the same port, and a guest
 *   reaches what listens on this host.
 * - A `Ledger` in the context is kept, too: then a run's receipt knows its local sandboxes.
 * - Waiting is on the real clock: tests use `it.live` or a live clock.
 *
 * @since 0.1.0
 * @category constructors
 */
export const make = (options: Options): Effect.Effect<SandboxProvider["Type"], never, Platform> =>
  Effect.gen(function* () {
    const path = yield* Path.Path
    const memory = yield* makeMemory
    const stateDir = path.resolve(options.stateDir)
    const platform = Context.pick(
      FileSystem.FileSystem,
      Path.Path,
      CommandExecutor.CommandExecutor
    )(yield* Effect.context<Platform>())
    const ledger = Option.getOrElse(yield* Effect.serviceOption(Ledger), () => memory)
    /** The folders that this program answers for, from the intent to the end of the removal. */
    const answered = new Set<string>()
    const open = acquire(stateDir, ledger, answered)
    const lend = borrow(stateDir)
    const clean = sweep(stateDir)
    return {
      name: provider,
      capabilities,
      acquire: (spec) =>
        Effect.mapInputContext(open(spec), (scope: Context.Context<Scope.Scope>) => Context.merge(platform, scope)),
      borrow: (descriptor) => Effect.provide(lend(descriptor), platform),
      fork: () => new SandboxUnsupported({ provider, capability: "fork" }),
      list: (selector) => Stream.provideContext(list(stateDir, selector), platform),
      sweep: (selector) =>
        clean(selector).pipe(
          Effect.tap(() => confirmGone(stateDir, ledger, answered, selector)),
          Effect.provide(platform)
        ),
      preflight: Effect.provide(Host.preflight(stateDir), platform)
    }
  })

/**
 * Sandboxes on this host; what is open is removed with the layer.
 *
 * @since 0.1.0
 * @category layers
 */
export const layer = (options: Options): Layer.Layer<SandboxProvider, never, Platform> =>
  Layer.effect(SandboxProvider, make(options))

/**
 * Keeps sandboxes in the folder that `DESKHAND_STATE_DIR` names, `<temporary folder>/deskhand-<uid>` without it.
 *
 * @since 0.1.0
 * @category layers
 */
export const layerConfig: Layer.Layer<SandboxProvider, ConfigError.ConfigError, Platform> = Layer.unwrapEffect(
  Effect.gen(function* () {
    const stateDir = yield* Config.nonEmptyString("DESKHAND_STATE_DIR").pipe(
      Config.orElse(() => Config.sync(() => `${os.tmpdir()}/deskhand-${process.getuid?.() ?? 0}`))
    )
    return layer({ stateDir })
  })
)
