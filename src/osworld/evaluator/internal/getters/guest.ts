/** What the guest says of itself: commands, folders, trees, windows. And the task's own rules. */
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { type GuestError, isCommandTimeout, notStarted } from "../../../../desktop/GuestError.js"
import * as Placeholders from "../../../Placeholders.js"
import { Command } from "../../../SetupStep.js"
import * as Getter from "../../Getter.js"
import { Value } from "../../Metric.js"

const CommandLine = Schema.Struct({
  command: Command,
  shell: Schema.optionalWith(Schema.Union(Schema.Boolean, Schema.String), { default: () => false, nullable: true })
})

/** Where the desktop's own programs are. One that is missing there is nobody's answer, as is one without a path. */
const systemFolders = /^\/(?:usr|bin|sbin|lib|opt|snap|etc)\//

/** What the agent left: a program that does not come to its end, or none where the task looks for one. */
const isAgentsDoing = (error: GuestError): boolean => {
  const program = notStarted(error)
  return isCommandTimeout(error) || (program?.includes("/") === true && !systemFolders.test(program))
}

const commandOutput = (name: string, stream: "stdout" | "stderr") =>
  Getter.make(name, CommandLine, ({ command, shell }, { context }) =>
    context.guest
      .execute({
        command: Placeholders.fillCommand(command, context.placeholders),
        shell: shell === true || shell === "true"
      })
      .pipe(
        Effect.map((result): Value => Value.Text({ text: result[stream] })),
        Effect.catchIf(isAgentsDoing, (error) => Effect.succeed(Value.Missing({ reason: error.message })))
      )
  )

export const getters: ReadonlyArray<Getter.Getter> = [
  Getter.make("rule", Schema.Struct({ rules: Schema.Unknown }), ({ rules }) =>
    Effect.succeed(Value.Json({ json: rules }))
  ),
  commandOutput("vm_command_line", "stdout"),
  commandOutput("vm_command_error", "stderr"),
  Getter.make("accessibility_tree", Schema.Struct({}), (_, { context }) =>
    Effect.map(context.guest.accessibilityTree, (text) => Value.Text({ text }))
  ),
  Getter.make("list_directory", Schema.Struct({ path: Schema.String }), ({ path }, { context }) =>
    context.guest.listDirectory(path).pipe(
      Effect.map((json): Value => Value.Json({ json })),
      Effect.catchIf(
        ({ reason }) => reason._tag === "Refused" && (reason.status === 400 || reason.status === 404),
        (error) => Effect.succeed(Value.Missing({ reason: error.message }))
      )
    )
  )
]
