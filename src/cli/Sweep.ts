/**
 * `deskhand sweep`: removes what programs that are gone left behind.
 *
 * @since 0.1.0
 */
import * as Arr from "effect/Array"
import * as Console from "effect/Console"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import * as TaskFolder from "../osworld/TaskFolder.js"
import { SandboxProvider } from "../sandbox/SandboxProvider.js"

/**
 * Something could not be removed.
 *
 * @since 0.1.0
 * @category errors
 */
export class SweepIncomplete extends Schema.TaggedError<SweepIncomplete>("deskhand/SweepIncomplete")(
  "SweepIncomplete",
  { left: Schema.NonEmptyArray(Schema.Struct({ id: Schema.String, reason: Schema.String })) }
) {
  override get message() {
    return `these are left:\n${this.left.map(({ id, reason }) => `  ${id}: ${reason}`).join("\n")}`
  }
}

/**
 * Sweeps the sandboxes of one run, or of all runs that are over, and with these the folders of tasks on this host. What
 * programs that are alive have stays.
 *
 * @since 0.1.0
 * @category operations
 */
export const sweep = (run: Option.Option<string>) =>
  Effect.gen(function* () {
    const provider = yield* SandboxProvider
    const receipt = yield* provider.sweep(Option.match(run, { onNone: () => ({}), onSome: (run) => ({ run }) }))
    yield* Console.log(
      `${provider.name}: ${receipt.removed.length} removed, ${receipt.inUse.length} in use, ${receipt.left.length} left`
    )
    // A folder bears no run's name.
    const folders = Option.isSome(run) ? { removed: [], left: [] } : yield* TaskFolder.sweep
    if (folders.removed.length > 0) yield* Console.log(`task folders: ${folders.removed.length} removed`)
    const left = [...receipt.left, ...folders.left]
    if (Arr.isNonEmptyArray(left)) return yield* new SweepIncomplete({ left })
  })
