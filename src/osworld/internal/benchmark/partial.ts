/**
 * A download that is not complete: a file beside its target, with what the server said of it.
 *
 * Whoever works on one owns it by its name, which holds this host and process; the name is taken by a rename, so nobody
 * shares it. One that a killed process left is taken over, and the download goes on where it stopped.
 */
import { randomUUID } from "node:crypto"
import { hostname } from "node:os"
import * as FileSystem from "@effect/platform/FileSystem"
import * as Path from "@effect/platform/Path"
import * as Effect from "effect/Effect"

export interface Partial {
  readonly data: string
  /** Holds the validator that the bytes belong to. */
  readonly note: string
}

const host = hostname().replace(/[^A-Za-z0-9-]/g, "_")

const isAlive = (pid: number): boolean => {
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    return error instanceof Error && "code" in error && error.code === "EPERM"
  }
}

export const prefix = ".partial-"

/** Names are `.partial-<target>~free~<id>` or `.partial-<target>~<host>~<pid>~<id>`. */
const isFree = (name: string, start: string): boolean => {
  const owner = name.slice(start.length)
  if (owner.startsWith("free~")) return true
  const [at, pid = ""] = owner.split("~")
  return at === host && /^\d+$/.test(pid) && Number(pid) !== process.pid && !isAlive(Number(pid))
}

const noteOf = (data: string) => `${data}.note`

/** The partial of a target, and this process's alone until `release`. */
export const claim = (directory: string, target: string) =>
  Effect.gen(function* () {
    const fs = yield* FileSystem.FileSystem
    const path = yield* Path.Path
    const start = `${prefix}${target}~`
    const data = path.join(directory, `${start}${host}~${process.pid}~${randomUUID()}`)
    const mine: Partial = { data, note: noteOf(data) }
    const names = yield* fs.readDirectory(directory)
    for (const name of names) {
      if (!name.startsWith(start) || name.endsWith(".note") || !isFree(name, start)) continue
      const theirs = path.join(directory, name)
      const taken = yield* Effect.isSuccess(fs.rename(theirs, mine.data))
      if (!taken) continue
      yield* Effect.ignore(fs.rename(noteOf(theirs), mine.note))
      break
    }
    return mine
  })

/** Leaves it to whoever comes next. */
export const release = (directory: string, target: string, partial: Partial) =>
  Effect.gen(function* () {
    const fs = yield* FileSystem.FileSystem
    const path = yield* Path.Path
    if (!(yield* fs.exists(partial.data))) return yield* discard(partial)
    const free = path.join(directory, `${prefix}${target}~free~${randomUUID()}`)
    // The note first: bytes whose origin nobody knows are of no use, and a note without bytes does no harm.
    yield* Effect.ignore(fs.rename(partial.note, noteOf(free)))
    yield* fs.rename(partial.data, free)
  }).pipe(Effect.ignore)

export const discard = (partial: Partial) =>
  Effect.gen(function* () {
    const fs = yield* FileSystem.FileSystem
    yield* Effect.ignore(fs.remove(partial.data, { force: true }))
    yield* Effect.ignore(fs.remove(partial.note, { force: true }))
  })
