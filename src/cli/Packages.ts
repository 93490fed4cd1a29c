/**
 * Installs Debian packages, for those who asked for it.
 *
 * @since 0.1.0
 */
import * as Command from "@effect/platform/Command"
import type * as CommandExecutor from "@effect/platform/CommandExecutor"
import * as Console from "effect/Console"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import { installCommand } from "./Requirements.js"

/**
 * @since 0.1.0
 * @category errors
 */
export class InstallError extends Schema.TaggedError<InstallError>("deskhand/InstallError")("InstallError", {
  command: Schema.String,
  reason: Schema.String,
  /** The end of what apt-get printed. */
  log: Schema.String
}) {
  override get message() {
    return `could not install what is missing: ${this.reason}${this.log === "" ? "" : `\n${this.log}`}\nTo do it by hand:\n  ${this.command}`
  }
}

/** Lines of apt-get's that are shown when it fails. */
const logLines = 12

const apt = (args: ReadonlyArray<string>, command: string) =>
  Effect.scoped(
    Effect.gen(function* () {
      const process = yield* Command.make("apt-get", ...args).pipe(
        Command.env({ DEBIAN_FRONTEND: "noninteractive" }),
        Command.start
      )
      const tail: Array<string> = []
      const keep = (line: string) =>
        Effect.sync(() => {
          if (tail.push(line) > logLines) tail.shift()
        })
      yield* Stream.merge(process.stdout, process.stderr).pipe(
        Stream.decodeText(),
        Stream.splitLines,
        Stream.runForEach(keep)
      )
      const code = yield* process.exitCode
      if (code !== 0) {
        return yield* new InstallError({
          command,
          reason: `apt-get ${args[0]} ended with exit code ${code}`,
          log: tail.join("\n")
        })
      }
    })
  ).pipe(
    Effect.catchAll((error) =>
      error instanceof InstallError
        ? Effect.fail(error)
        : Effect.fail(new InstallError({ command, reason: error.message, log: "" }))
    )
  )

/**
 * Installs packages with apt-get, which wants root, and says how long it took.
 *
 * @since 0.1.0
 * @category operations
 */
export const install = (
  packages: ReadonlyArray<string>,
  isRoot: boolean
): Effect.Effect<void, InstallError, CommandExecutor.CommandExecutor> =>
  Effect.gen(function* () {
    const command = installCommand(packages, isRoot)
    if (!isRoot) {
      return yield* new InstallError({ command, reason: "that takes root, and this is not root", log: "" })
    }
    yield* Console.error(`Installing with apt-get: ${packages.join(" ")}`)
    const [took] = yield* Effect.timed(
      Effect.zipRight(
        apt(["update", "-q"], command),
        apt(["install", "-y", "-q", "--no-install-recommends", ...packages], command)
      )
    )
    yield* Console.error(`Installed in ${Math.round(Duration.toSeconds(took))} s`)
  })
