import * as Fs from "node:fs"
import * as Os from "node:os"
import * as Path from "node:path"
import * as NodeContext from "@effect/platform-node/NodeContext"
import * as Config from "effect/ConfigProvider"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as TestClock from "effect/TestClock"
import type { CommandResult } from "../../src/desktop/Guest.js"
import type { GuestError } from "../../src/desktop/GuestError.js"
import { AssetError, Assets } from "../../src/osworld/Assets.js"
import type { TaskContext } from "../../src/osworld/Setup.js"
import * as Setup from "../../src/osworld/Setup.js"
import { SetupStep } from "../../src/osworld/SetupStep.js"

/** A folder of this host that goes away. */
export const temporary = Effect.acquireRelease(
  Effect.promise(() => Fs.promises.mkdtemp(Path.join(Os.tmpdir(), "deskhand-setup-"))),
  (path) => Effect.promise(() => Fs.promises.rm(path, { recursive: true, force: true }))
)

/** Files by the names that tasks give them. */
export const assets = (files: Readonly<Record<string, string>>) =>
  Layer.succeed(Assets, {
    fetch: (url) => {
      const path = files[url]
      return path === undefined
        ? Effect.fail(new AssetError({ url, missing: true, reason: "the server answered HTTP 404" }))
        : Effect.succeed(path)
    }
  })

export const steps = (json: ReadonlyArray<unknown>): ReadonlyArray<SetupStep> =>
  Schema.decodeUnknownSync(Schema.Array(SetupStep))(json)

/** Runs steps as a task has them. */
export const setup = (
  context: TaskContext,
  json: ReadonlyArray<unknown>,
  options: {
    readonly list?: "config" | "postconfig"
    readonly files?: Readonly<Record<string, string>>
    readonly env?: Readonly<Record<string, string>>
  } = {}
): Effect.Effect<void, Setup.SetupError> =>
  Setup.run(context, options.list ?? "config", steps(json)).pipe(
    Effect.withConfigProvider(Config.fromMap(new Map(Object.entries(options.env ?? {})))),
    Effect.provide(Layer.merge(NodeContext.layer, assets(options.files ?? {})))
  )

export const ended = (stdout = "", exitCode = 0, stderr = ""): CommandResult => ({ stdout, stderr, exitCode })

/** Answers in their order, the last of them for ever, and how often it was asked. */
export const answers = <A>(...given: ReadonlyArray<Effect.Effect<A, GuestError>>) => {
  const asked = { times: 0 }
  const next = Effect.suspend(() => given[Math.min(asked.times++, given.length - 1)] ?? Effect.never)
  return { asked, next }
}

/** Time passes as it is waited for. */
export const hurried = <A, E>(effect: Effect.Effect<A, E>) =>
  Effect.gen(function* () {
    const fiber = yield* Effect.fork(effect)
    for (let second = 0; second < 600 && (yield* Fiber.poll(fiber))._tag === "None"; second++) {
      yield* TestClock.adjust("1 second")
      yield* Effect.promise(() => new Promise<void>((resolve) => setImmediate(resolve)))
    }
    return yield* Fiber.join(fiber)
  })

export const failure = <A>(effect: Effect.Effect<A, Setup.SetupError>) => Effect.flip(effect)
