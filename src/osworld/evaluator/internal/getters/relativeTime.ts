/** `rule_relativeTime`: a task's rules, with the days that they speak of. */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type { GuestError } from "../../../../desktop/GuestError.js"
import type { TaskContext } from "../../../Setup.js"
import * as Getter from "../../Getter.js"
import { Value } from "../../Metric.js"
import * as RelativeTime from "../../relativeTime.js"

const datePattern = /^(\d{4})-(\d{2})-(\d{2})$/

/** The day that the guest believes it is. Undefined where it cannot say; a guest that does not answer is no judge. */
const guestDay = (context: TaskContext): Effect.Effect<RelativeTime.Day | undefined, GuestError> =>
  context.guest.execute({ command: ["date", "+%Y-%m-%d"] }).pipe(
    Effect.map(({ exitCode, stdout }) => {
      const [, year, month, day] = (exitCode === 0 ? datePattern.exec(stdout.trim()) : null) ?? []
      return year === undefined ? undefined : { year: Number(year), month: Number(month), day: Number(day) }
    }),
    Effect.catchIf(
      ({ reason }) => reason._tag === "Refused",
      () => Effect.succeed(undefined)
    )
  )

/** Where the task says so, else where the guest is, else in UTC. */
const today = (context: TaskContext, timezone: string | undefined) =>
  Effect.gen(function* () {
    const here = timezone === undefined ? yield* guestDay(context) : undefined
    if (here !== undefined) return here
    const instant = yield* Clock.currentTimeMillis
    return yield* RelativeTime.dayAt(instant, timezone ?? "UTC", { compat: context.compat })
  })

export const getters: ReadonlyArray<Getter.Getter> = [
  Getter.make("rule_relativeTime", Schema.Struct({ rules: RelativeTime.Rules }), ({ rules }, { context }) =>
    today(context, rules.timezone).pipe(
      Effect.flatMap((now) => RelativeTime.resolve(rules, now, { compat: context.compat })),
      Effect.mapBoth({
        onFailure: (error) => (typeof error === "string" ? { message: error } : error),
        onSuccess: (json) => Value.Json({ json })
      })
    )
  )
]
