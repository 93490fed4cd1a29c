/** `deskhand doctor`: what it takes, and what carries it out. */
import * as Command from "@effect/cli/Command"
import * as Console from "effect/Console"
import * as Effect from "effect/Effect"
import * as TaskSource from "../../../osworld/TaskSource.js"
import * as Packages from "../../Packages.js"
import * as Requirements from "../../Requirements.js"
import { UsageError } from "../../Run.js"
import { domains, rejectUnknownOptions, setup, tasks } from "../arguments.js"
import { bundledTasks, isRoot } from "../host.js"
import { lookAt, provider } from "../providerOptions.js"

export const doctor = Command.make("doctor", { tasks, domains, provider, setup }, ({ tasks, ...given }) =>
  Effect.gen(function* () {
    yield* rejectUnknownOptions(
      tasks,
      [domains, provider, setup],
      given.domains.map((domain) => ["domain", domain])
    )
    const patterns = tasks.length === 0 ? [bundledTasks] : tasks
    const loaded = yield* TaskSource.load(patterns, given.domains.length === 0 ? {} : { domain: given.domains })
    const check = Requirements.check(loaded.map(({ task }) => task))
    const before = yield* check
    const missing = Requirements.packagesFor(before)
    if (given.setup && missing.length > 0) yield* Packages.install(missing, isRoot)
    const checks = given.setup && missing.length > 0 ? yield* check : before
    yield* Console.log(Requirements.render(checks, isRoot))
    if (checks.some(({ ok }) => !ok)) return yield* new UsageError({ reason: "something is missing" })
  }).pipe(Effect.provide(lookAt(given.provider)))
).pipe(Command.withDescription("Say what tasks need of this machine, what is missing, and how to mend it"))
