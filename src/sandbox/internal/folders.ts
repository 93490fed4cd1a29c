/**
 * The folders of local sandboxes on this host's disk.
 */
import * as Command from "@effect/platform/Command"
import type { PlatformError } from "@effect/platform/Error"
import * as FileSystem from "@effect/platform/FileSystem"
import * as Clock from "effect/Clock"
import * as Data from "effect/Data"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import { type Folders, generatedFiles, unprivilegedId } from "./bwrapArguments.js"
import { isAbsent, text } from "./reasons.js"
import { isSandboxId, orphanedFile, RecordJson, recordFile, type SandboxRecord } from "./record.js"

/** The folder that all sandboxes are kept in is not one that only its user can change. */
export class UnsafeStateDir extends Data.TaggedError("UnsafeStateDir")<{ readonly reason: string }> {}

/** Something of a folder is left. */
export class NotRemoved extends Data.TaggedError("NotRemoved")<{ readonly folder: string; readonly reason: string }> {
  override get message() {
    return `${this.folder} could not be removed: ${this.reason}`
  }
}

/** What is found in the state folder under a sandbox's name. */
export interface Entry {
  readonly id: string
  /** undefined when the program that made the folder died before it wrote the record. */
  readonly record: SandboxRecord | undefined
  /** Why it is not known what the record says; undefined when that is known, or when there is none. */
  readonly unreadable: string | undefined
  /** Its owner gave up removing it. */
  readonly abandoned: boolean
  /** Milliseconds since 1970. */
  readonly changedAt: number
}

/** Sees that nobody else can put things into the state folder or swap them. */
export const checkStateDir = (stateDir: string) =>
  Effect.gen(function* () {
    const fs = yield* FileSystem.FileSystem
    if (yield* Effect.isSuccess(fs.readLink(stateDir))) {
      return yield* new UnsafeStateDir({ reason: `${stateDir} is a symbolic link` })
    }
    const info = yield* fs.stat(stateDir)
    if (Option.getOrUndefined(info.uid) !== process.getuid?.()) {
      return yield* new UnsafeStateDir({ reason: `${stateDir} belongs to another user` })
    }
    if ((info.mode & 0o022) !== 0) {
      return yield* new UnsafeStateDir({ reason: `other users can write ${stateDir}` })
    }
  })

export const ensureStateDir = (stateDir: string) =>
  Effect.gen(function* () {
    const fs = yield* FileSystem.FileSystem
    yield* fs.makeDirectory(stateDir, { recursive: true, mode: 0o700 })
    yield* checkStateDir(stateDir)
  })

/** Writes the record whole or not at all. */
const writeRecord = (folder: string, record: SandboxRecord) =>
  Effect.gen(function* () {
    const fs = yield* FileSystem.FileSystem
    const text = yield* Effect.orDie(Schema.encode(RecordJson)(record))
    yield* fs.writeFileString(`${folder}/${recordFile}.new`, `${text}\n`, { flag: "wx" })
    yield* fs.rename(`${folder}/${recordFile}.new`, `${folder}/${recordFile}`)
  })

/** Makes a sandbox's folder: the record first, then all that bubblewrap will show of it. */
export const create = (folder: string, record: SandboxRecord, root: boolean, machineId: string) =>
  Effect.gen(function* () {
    const fs = yield* FileSystem.FileSystem
    yield* fs.makeDirectory(folder, { mode: 0o700 })
    yield* writeRecord(folder, record)
    yield* fs.makeDirectory(`${folder}/etc`)
    yield* fs.makeDirectory(`${folder}/ports`)
    const etc = yield* Effect.forEach(generatedFiles(machineId), ({ name, text }) =>
      Effect.as(fs.writeFileString(`${folder}/etc/${name}`, text, { mode: 0o644 }), {
        name,
        source: `${folder}/etc/${name}`
      })
    )
    const folders: Folders = { home: `${folder}/home`, runtime: `${folder}/run`, relay: `${folder}/relay`, etc }
    for (const [path, mode] of [
      [folders.home, 0o755],
      [folders.runtime, 0o700],
      [folders.relay, 0o700]
    ] as const) {
      yield* fs.makeDirectory(path)
      yield* fs.chmod(path, mode)
      if (root) {
        yield* fs.chown(path, unprivilegedId, unprivilegedId)
      }
    }
    return folders
  })

/** The sandboxes of which a folder exists. */
export const entries = (stateDir: string) =>
  Effect.gen(function* () {
    const fs = yield* FileSystem.FileSystem
    const names = yield* fs.readDirectory(stateDir).pipe(
      Effect.catchIf(
        (error) => "reason" in error && error.reason === "NotFound",
        () => Effect.succeed([])
      )
    )
    const found = yield* Effect.forEach(names.filter(isSandboxId), (id) => entry(stateDir, id), { concurrency: 16 })
    return found.filter((each) => each !== undefined)
  })

/** It is there, or may be there, and it is not known what it says. */
class Unreadable extends Data.TaggedError("Unreadable")<{ readonly reason: string }> {}

/** undefined for what is not there, and for nothing else. */
const present = <A, R>(path: string, read: Effect.Effect<A, PlatformError, R>) =>
  Effect.catchAll(read, (error) =>
    isAbsent(error)
      ? Effect.succeed(undefined)
      : Effect.fail(new Unreadable({ reason: `${path} could not be read: ${text(error)}` }))
  )

/** A record is renamed into its place when it is whole: one that cannot be understood is another version's, or damaged. */
const readRecord = (path: string) =>
  Effect.gen(function* () {
    const fs = yield* FileSystem.FileSystem
    const found = yield* present(path, fs.readFileString(path))
    return found === undefined
      ? undefined
      : yield* Effect.mapError(
          Schema.decode(RecordJson)(found),
          () => new Unreadable({ reason: `${path} is no record that this version of Deskhand understands` })
        )
  })

const unknown = ({ reason }: Unreadable) => ({ record: undefined, unreadable: reason, abandoned: false })

const readRecords = (folder: string, id: string) =>
  Effect.gen(function* () {
    const abandoned = yield* readRecord(`${folder}/${orphanedFile}`)
    const record = abandoned ?? (yield* readRecord(`${folder}/${recordFile}`))
    return {
      // A record that names another sandbox was copied here.
      record: record?.id === id ? record : undefined,
      unreadable: undefined,
      abandoned: abandoned !== undefined
    }
  }).pipe(Effect.catchTag("Unreadable", (error) => Effect.succeed(unknown(error))))

const entry = (stateDir: string, id: string): Effect.Effect<Entry | undefined, never, FileSystem.FileSystem> =>
  Effect.gen(function* () {
    const fs = yield* FileSystem.FileSystem
    const folder = `${stateDir}/${id}`
    const info = yield* present(folder, fs.stat(folder))
    if (info?.type !== "Directory") {
      return undefined
    }
    const changedAt = Option.match(info.mtime, { onNone: () => 0, onSome: (date) => date.getTime() })
    return { id, changedAt, ...(yield* readRecords(folder, id)) }
  }).pipe(Effect.catchTag("Unreadable", (error) => Effect.succeed({ id, changedAt: 0, ...unknown(error) })))

/** Says for every later `list` and `sweep` that the owner no longer answers for this sandbox. */
export const abandon = (folder: string) =>
  Effect.flatMap(FileSystem.FileSystem, (fs) => fs.rename(`${folder}/${recordFile}`, `${folder}/${orphanedFile}`))

/**
 * The record goes last. `rm` and `chmod` walk trees of any depth without following links, which path by path cannot be
 * done; folders that the guest closed are opened on the second try.
 */
const remover = `
purge() {
  find "$1" -mindepth 1 -maxdepth 1 ! -name ${recordFile} ! -name ${orphanedFile} -exec rm -rf -- {} +
}
[[ -e $1 ]] || exit 0
purge "$1" 2>/dev/null || { chmod -R u+rwx -- "$1" 2>/dev/null; purge "$1"; } && rm -rf -- "$1"
`

/** After this long a removal is begun anew; what it has removed by then stays so. */
const removalLimit = Duration.seconds(4)

/** Removes a sandbox's folder and sees that it is gone, or fails. */
export const remove = (folder: string) =>
  Effect.gen(function* () {
    const fs = yield* FileSystem.FileSystem
    const process = yield* Command.make("/bin/bash", "-c", `{ ${remover} } 2>&1 | tail -c 500`, "remove", folder).pipe(
      Command.env({}, { extendEnv: false }),
      Command.start
    )
    // A shell that stands still hears no SIGTERM, and whoever started it would wait for its end for ever.
    yield* Effect.addFinalizer(() => Effect.ignore(Effect.whenEffect(process.kill("SIGKILL"), process.isRunning)))
    const printed = yield* Stream.mkString(Stream.decodeText(process.stdout))
    yield* process.exitCode
    if (yield* fs.exists(folder)) {
      return yield* new NotRemoved({ folder, reason: printed.trim() === "" ? "it is still there" : printed.trim() })
    }
  }).pipe(
    Effect.scoped,
    Effect.timeoutFail({
      duration: removalLimit,
      onTimeout: () => new NotRemoved({ folder, reason: `it took longer than ${Duration.format(removalLimit)}` })
    }),
    Effect.catchTags({
      BadArgument: (error) => new NotRemoved({ folder, reason: error.message }),
      SystemError: (error) => new NotRemoved({ folder, reason: error.message })
    })
  )

/** Whether a folder without a record is old enough that nobody can be about to write it. */
export const isStale = (found: Entry) => Effect.map(Clock.currentTimeMillis, (now) => now - found.changedAt > 60_000)
