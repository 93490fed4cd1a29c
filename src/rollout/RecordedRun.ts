/**
 * The report of a run that is on disk, whoever wrote it and whether it has ended: read a byte at a time, so that rows of any
 * size take no memory.
 *
 * @since 0.1.0
 */
import type { PlatformError } from "@effect/platform/Error"
import * as FileSystem from "@effect/platform/FileSystem"
import * as Path from "@effect/platform/Path"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as HashMap from "effect/HashMap"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import { unfinished } from "./internal/report/journal.js"
import { entryOf, selection, type TaskNames } from "./internal/report/rowFacts.js"
import { rowScanner, type ScannedRow } from "./internal/report/rowScan.js"
import * as Manifest from "./Manifest.js"
import * as Report from "./Report.js"

/**
 * Something about a run's files that a reader of its report must know.
 *
 * @since 0.1.0
 * @category models
 */
export interface Note {
  readonly kind: "unreadable" | "torn" | "duplicate" | "unknown_task" | "no_manifest" | "expected_unknown"
  /** The file's name, where the note is about a line of it. */
  readonly file?: string
  /** From 1. */
  readonly line?: number
  readonly text: string
}

/**
 * @since 0.1.0
 * @category models
 */
export interface RecordedRun {
  readonly folder: string
  readonly manifest: Option.Option<Manifest.Manifest>
  readonly report: Report.Report
  readonly notes: ReadonlyArray<Note>
}

/**
 * There is no run to report on.
 *
 * @since 0.1.0
 * @category errors
 */
export class NoRun extends Schema.TaggedError<NoRun>("deskhand/NoRun")("NoRun", {
  path: Schema.String,
  reason: Schema.String
}) {
  override get message() {
    return `${this.path} is no run: ${this.reason}. Give the folder that deskhand run wrote (its --out)`
  }
}

/**
 * A note as a line for a reader: `rollouts.jsonl, line 3: …`.
 *
 * @since 0.1.0
 * @category rendering
 */
export const showNote = ({ file, line, text }: Note): string =>
  file === undefined ? text : `${file}${line === undefined ? "" : `, line ${line}`}: ${text}`

const rowFiles = ["rollouts.jsonl", "failures.jsonl"] as const

/** Nothing where there is no such file. */
const rowsOf = (fs: FileSystem.FileSystem, path: string): Stream.Stream<ScannedRow, PlatformError> =>
  Stream.suspend(() => {
    const scanner = rowScanner(selection)
    return fs
      .stream(path)
      .pipe(Stream.mapConcat(scanner.feed), Stream.concat(Stream.suspend(() => Stream.fromIterable(scanner.end()))))
  }).pipe(
    Stream.catchAll((error) =>
      error._tag === "SystemError" && error.reason === "NotFound" ? Stream.empty : Stream.fail(error)
    )
  )

const nameOf = ({ rolloutIndex, taskId }: Report.Entry) => `${taskId} #${rolloutIndex + 1}`

/** Where a rollout was told of. */
interface Told {
  readonly line: number
  readonly attempt: number
}

interface Reading {
  readonly names: TaskNames
  readonly notes: Array<Note>
  report: Report.Report
}

const readRows = (fs: FileSystem.FileSystem, path: string, file: (typeof rowFiles)[number], reading: Reading) => {
  const told = new Map<string, Told>()
  return Stream.runForEach(rowsOf(fs, path), ({ line, row, torn }) =>
    Effect.sync(() => {
      const note = (kind: Note["kind"], text: string) => reading.notes.push({ kind, file, line, text })
      // Without its newline even a whole row may be the beginning of a longer one, or be written a second time.
      if (torn) return void note("torn", "the last row is torn; it does not count, and --resume cuts it off")
      if (typeof row === "string") return void note("unreadable", `no row, because ${row}; it does not count`)
      const decoded = entryOf(row, reading.names)
      if (Either.isLeft(decoded)) return void note("unreadable", `no row (${decoded.left}); it does not count`)
      const entry = decoded.right
      // A rollout has one score, and may have failed once each attempt.
      const rollout = Report.keyOf(entry)
      const key = file === "rollouts.jsonl" ? rollout : `${rollout}-${entry.attempt}`
      const before = told.get(key)
      if (before !== undefined) {
        const newer = entry.attempt === before.attempt ? "the later line" : "the newer attempt"
        note("duplicate", `a second row of ${nameOf(entry)}, after line ${before.line}; ${newer} holds, it counts once`)
      }
      if (before === undefined || before.attempt <= entry.attempt) told.set(key, { line, attempt: entry.attempt })
      reading.report = Report.put(reading.report, entry)
    })
  )
}

/** What a manifest says of how much was asked for; where it says nothing, what the rows say. */
const askedOf = (
  manifest: Manifest.Manifest,
  found: Report.Report
): { readonly asked: Report.Report; readonly notes: ReadonlyArray<Note> } => {
  const repeats = Report.entries(found).reduce((most, { rolloutIndex }) => Math.max(most, rolloutIndex + 1), 1)
  const asked = Report.ofTasks(
    manifest.tasks.map(({ domain, id, index, rollouts = repeats }) => ({
      taskIndex: index,
      taskId: id,
      rollouts,
      ...(domain === undefined ? {} : { domain })
    }))
  )
  const known = manifest.tasks.every(({ rollouts }) => rollouts !== undefined)
  const strangers = new Map(
    Report.entries(found)
      .filter(({ taskIndex }) => !asked.asked.has(taskIndex))
      .map(({ taskId, taskIndex }) => [taskIndex, taskId])
  )
  return {
    asked,
    notes: [
      ...(known
        ? []
        : [
            {
              kind: "expected_unknown" as const,
              text: `run.json does not say how many rollouts of a task were asked for; ${repeats} each is taken from the rows`
            }
          ]),
      ...Array.from(strangers, ([taskIndex, taskId]) => ({
        kind: "unknown_task" as const,
        text: `there are rows of ${taskId} (task number ${taskIndex}), which run.json does not know; they count`
      }))
    ]
  }
}

/**
 * Reads the run in `folder`. Rows that cannot be read, and rows that tell of the same rollout a second time, are notes;
 * what cannot be read at all is an error.
 *
 * @since 0.1.0
 * @category operations
 */
export const read = (folder: string): Effect.Effect<RecordedRun, NoRun, FileSystem.FileSystem | Path.Path> =>
  Effect.gen(function* () {
    const fs = yield* FileSystem.FileSystem
    const path = yield* Path.Path
    const because = (reason: string) => new NoRun({ path: folder, reason })
    const files = yield* Effect.mapError(fs.readDirectory(folder), (error) =>
      because(
        error._tag === "SystemError" && error.reason === "NotFound"
          ? "there is no such folder"
          : "it cannot be read as a folder"
      )
    )
    if (!["run.json", ...rowFiles].some((name) => files.includes(name))) {
      return yield* because("it has neither run.json nor rollouts.jsonl nor failures.jsonl")
    }
    const manifest = yield* Effect.mapError(Manifest.read(folder), ({ reason }) =>
      because(`its run.json cannot be read: ${reason}`)
    )
    const tasks = Option.match(manifest, { onNone: () => [], onSome: ({ tasks }) => tasks })
    const byIndex = new Map(tasks.map((task) => [task.index, task]))
    const names: TaskNames = (taskIndex) => {
      const task = byIndex.get(taskIndex)
      if (task === undefined) return undefined
      return { taskId: task.id, ...(task.domain === undefined ? {} : { domain: task.domain }) }
    }
    const reading: Reading = { names, notes: [], report: Report.empty(0) }
    for (const file of rowFiles) {
      yield* Effect.mapError(readRows(fs, path.join(folder, file), file, reading), ({ message }) =>
        because(`${file} cannot be read: ${message}`)
      )
    }
    const open = yield* Effect.mapError(unfinished(fs, path.join(folder, "journal.jsonl"), names), ({ message }) =>
      because(`journal.jsonl cannot be read: ${message}`)
    )
    for (const entry of open) {
      // A row is written before the journal says so.
      const told = HashMap.get(reading.report.entries, Report.keyOf(entry))
      if (Option.exists(told, ({ attempt }) => attempt >= entry.attempt)) continue
      reading.report = Report.put(reading.report, entry)
    }
    const found = reading.report
    if (Option.isNone(manifest)) {
      const note: Note = {
        kind: "no_manifest",
        text: "there is no run.json, so nothing is known of rollouts that were asked for and have no row"
      }
      return { folder, manifest, report: found, notes: [note, ...reading.notes] }
    }
    const { asked, notes } = askedOf(manifest.value, found)
    return {
      folder,
      manifest,
      report: { ...asked, entries: found.entries },
      notes: [...notes, ...reading.notes]
    }
  })
