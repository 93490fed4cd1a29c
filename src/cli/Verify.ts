/**
 * `deskhand verify`: whether what a run put on record is whole and true.
 *
 * @since 0.1.0
 */
import type * as FileSystem from "@effect/platform/FileSystem"
import type * as Path from "@effect/platform/Path"
import * as Console from "effect/Console"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as Registry from "../agents/Registry.js"
import * as Verify from "../rollout/Verify.js"
import { table } from "./internal/table.js"
import { type UsageError, usage } from "./internal/usage.js"

/**
 * Something in the run is not as it was written.
 *
 * @since 0.1.0
 * @category errors
 */
export class NotWhole extends Schema.TaggedError<NotWhole>("deskhand/cli/NotWhole")("NotWhole", {
  folder: Schema.String,
  faults: Schema.Int
}) {
  override get message() {
    return `${this.folder}: ${this.faults === 1 ? "one fault was" : `${this.faults} faults were`} found`
  }
}

/** Faults of one kind in one file that are shown, before the rest are only counted. */
const shown = 20

const faultLines = (report: Verify.VerifyReport): ReadonlyArray<string> => {
  const counts = new Map<string, number>()
  const lines: Array<string> = []
  for (const fault of Verify.faultsOf(report)) {
    const key = `${fault.path}: ${fault.kind}`
    const count = (counts.get(key) ?? 0) + 1
    counts.set(key, count)
    if (count <= shown) lines.push(fault.message)
  }
  const more = Array.from(counts).filter(([, count]) => count > shown)
  return [...lines, ...more.map(([key, count]) => `${key}: ${count - shown} more`)]
}

/** What a reader would miss, and is as it should be. */
const noteLines = ({ rollouts }: Verify.VerifyReport): ReadonlyArray<string> =>
  rollouts.flatMap(({ abandonedFor, stem }) =>
    abandonedFor === undefined
      ? []
      : [`${stem}: abandoned attempt: it was stopped before its end, and attempt ${abandonedFor} counts instead`]
  )

/**
 * The report as a table, and a line for each fault and each abandoned attempt.
 *
 * @since 0.1.0
 * @category rendering
 */
export const render = (report: Verify.VerifyReport): string => {
  const faults = faultLines(report)
  const notes = noteLines(report)
  const count = (value: number) => String(value)
  return [
    table(
      ["rollout", "records", "steps", "calls", "prompts made again", "plans made again", "faults"],
      report.rollouts.map((rollout) => [
        rollout.stem,
        ...[rollout.records, rollout.steps, rollout.calls, rollout.replayed, rollout.replanned].map(count),
        rollout.faults.length === 0 ? "-" : count(rollout.faults.length)
      ])
    ),
    "",
    `${report.rollouts.length} rollouts and ${report.blobs} blobs were read.`,
    ...(faults.length === 0 ? ["No fault was found."] : ["", ...faults]),
    ...(notes.length === 0 ? [] : ["", ...notes])
  ].join("\n")
}

/**
 * Verifies the run in `folder` and says what it found. Fails with `NotWhole` where there is any fault, and with
 * `UsageError` where the folder is no run.
 *
 * @since 0.1.0
 * @category programs
 */
export const verify = (folder: string): Effect.Effect<void, UsageError | NotWhole, FileSystem.FileSystem | Path.Path> =>
  Effect.gen(function* () {
    const report = yield* Verify.run(folder, {
      replay: ({ contract, instruction, settings }, sampling) =>
        Registry.replay({ settings, contract, instruction, sampling })
    }).pipe(Effect.mapError(({ message }) => usage(message)))
    yield* Console.log(render(report))
    const faults = Verify.faultsOf(report).length
    if (faults > 0) return yield* new NotWhole({ folder, faults })
  })
