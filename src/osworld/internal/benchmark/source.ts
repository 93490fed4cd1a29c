/** The JSON files of a benchmark, in a checkout or in an archive of one. */
import * as FileSystem from "@effect/platform/FileSystem"
import * as Path from "@effect/platform/Path"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Order from "effect/Order"
import { glob } from "tinyglobby"
import * as Archive from "../../evaluator/Archive.js"
import { sha256 } from "./digest.js"

export interface Source {
  readonly kind: "folder" | "archive"
  /** Of an archive. */
  readonly sha256: string | undefined
  /** The commit of a checkout. */
  readonly revision: string | undefined
  /** By their path in it, in the order of the alphabet. */
  readonly files: ReadonlyArray<{ readonly name: string; readonly bytes: Uint8Array }>
}

/** Far above a checkout of OSWorld. */
const limits = { entries: 200_000, entryBytes: 16 * 1024 * 1024, totalBytes: 1024 * 1024 * 1024 }

/** Files of other benchmarks that are beside OSWorld's, and of tools. */
const foreign = /(?:^|\/)(?:examples_windows|node_modules|\.git)\//

const inExamples = /(?:^|\/)examples\/[^/]+\/[^/]+\.json$/

export const indexName = /(?:^|\/)(test_(?:all|nogdrive|small|infeasible))\.json$/

/** Where there is a folder of examples, tasks are in it alone. */
const relevant = (names: ReadonlyArray<string>): ReadonlyArray<string> => {
  const mine = names.filter((name) => /\.json$/i.test(name) && !foreign.test(name)).sort(Order.string)
  return mine.some((name) => inExamples.test(name))
    ? mine.filter((name) => inExamples.test(name) || indexName.test(name))
    : mine
}

const failed = (reason: string) => ({ _tag: "Unreadable" as const, reason })

const fromArchive = (bytes: Uint8Array) =>
  Either.map(
    Archive.members(bytes, (name) => /\.json$/i.test(name), limits),
    (members) =>
      relevant(Array.from(members.keys())).map((name) => ({ name, bytes: members.get(name) ?? new Uint8Array() }))
  )

/** The commit that a checkout is at, without asking git. */
const revisionOf = (root: string) =>
  Effect.gen(function* () {
    const fs = yield* FileSystem.FileSystem
    const path = yield* Path.Path
    const read = (name: string) => Effect.map(fs.readFileString(path.join(root, ".git", name)), (text) => text.trim())
    const head = yield* read("HEAD")
    const [, ref] = /^ref: (refs\/\S+)$/.exec(head) ?? []
    if (ref === undefined) return head
    return yield* Effect.orElse(read(ref), () =>
      Effect.map(
        read("packed-refs"),
        (text) => text.split("\n").flatMap((line) => (line.endsWith(` ${ref}`) ? [line.slice(0, 40)] : []))[0]
      )
    )
  }).pipe(
    Effect.map((text) => (text !== undefined && /^[0-9a-f]{40,64}$/.test(text) ? text : undefined)),
    Effect.orElseSucceed(() => undefined)
  )

export const read = (source: string) =>
  Effect.gen(function* () {
    const fs = yield* FileSystem.FileSystem
    const path = yield* Path.Path
    const info = yield* Effect.mapError(fs.stat(source), () =>
      failed(`there is no such file or folder (looked in ${path.resolve(".")})`)
    )
    const unreadable = (error: { readonly message: string }) => failed(`could not be read: ${error.message}`)
    if (info.type !== "Directory") {
      if (Number(info.size) > limits.totalBytes) return yield* Effect.fail(failed("it is larger than 1 GiB"))
      const bytes = yield* Effect.mapError(fs.readFile(source), unreadable)
      const files = yield* Either.mapLeft(fromArchive(bytes), ({ reason }) => failed(reason))
      return { kind: "archive", sha256: sha256(bytes), revision: undefined, files } satisfies Source
    }
    const inner = path.join(source, "evaluation_examples")
    const root = (yield* Effect.orElseSucceed(fs.exists(inner), () => false)) ? inner : source
    const names = yield* Effect.promise(() =>
      glob("**/*.json", { cwd: root, expandDirectories: false, ignore: ["**/node_modules/**"] })
    )
    const files = yield* Effect.forEach(relevant(names), (name) =>
      Effect.map(Effect.mapError(fs.readFile(path.join(root, name)), unreadable), (bytes) => ({ name, bytes }))
    )
    return { kind: "folder", sha256: undefined, revision: yield* revisionOf(source), files } satisfies Source
  })
