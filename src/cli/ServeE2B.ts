/**
 * `deskhand serve-e2b`: E2B's clients on sandboxes of one's own.
 *
 * @since 0.1.0
 */
import * as Console from "effect/Console"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import * as DesktopSpec from "../desktop/DesktopSpec.js"
import { SandboxProvider } from "../sandbox/SandboxProvider.js"
import { SandboxSpec } from "../sandbox/SandboxSpec.js"
import * as E2BServer from "../testing/E2BServer.js"
import { notListening } from "./internal/listening.js"

/**
 * @since 0.1.0
 * @category models
 */
export interface ServeOptions {
  /** A free one without it. */
  readonly port: Option.Option<number>
  /** The image of the template `deskhand-desktop`; other templates open an image of their own name. */
  readonly image: Option.Option<string>
}

/** What clients are to be told; the server listens on this machine alone, so the key is no secret. */
const key = "e2b_0000000000000000000000000000000000000000"

/**
 * Serves until it is interrupted. Closing it removes every sandbox that clients left open.
 *
 * @since 0.1.0
 * @category operations
 */
export const serve = (options: ServeOptions) =>
  Effect.gen(function* () {
    const provider = yield* SandboxProvider
    const image = Option.getOrElse(options.image, () => DesktopSpec.defaultImage)
    const metadata = { run: "serve-e2b" }
    const desktop = provider.capabilities.images
      ? DesktopSpec.forImage({ image, network: "default", metadata })
      : DesktopSpec.make({ metadata })
    const server = yield* E2BServer.make({
      apiKey: Redacted.make(key),
      templates: (template) =>
        template === DesktopSpec.defaultImage
          ? desktop
          : provider.capabilities.images
            ? new SandboxSpec({ image: template, network: "default", metadata })
            : undefined,
      ...Option.match(options.port, { onNone: () => ({}), onSome: (port) => ({ port }) })
    }).pipe(Effect.mapError(({ reason }) => notListening(reason)))
    yield* Console.log(
      [
        `E2B's API on ${provider.name}; the template ${DesktopSpec.defaultImage} is a desktop. For clients:`,
        `  export E2B_API_URL=${server.url} E2B_SANDBOX_URL=${server.url} E2B_API_KEY=${key}`
      ].join("\n")
    )
    return yield* Effect.never
  }).pipe(Effect.scoped)
