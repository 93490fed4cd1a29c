/**
 * Files of a container, through the engine's archives: they work whatever programs the image has.
 */
import { randomBytes } from "node:crypto"
import * as Fs from "node:fs/promises"
import { tmpdir } from "node:os"
import { posix } from "node:path"
import { Readable } from "node:stream"
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import { SandboxFileError } from "../SandboxError.js"
import { type Engine, isFolder } from "./dockerEngine.js"
import { helper } from "./dockerExec.js"
import { type EngineError, isMissing } from "./dockerFailure.js"
import * as Tar from "./dockerTar.js"

/** Whose files are written. */
export interface User {
  readonly uid: number
  readonly gid: number
}

export interface Sandbox {
  readonly engine: Engine
  readonly provider: string
  readonly id: string
  /** Who the container's programs are. */
  readonly user: Effect.Effect<User>
}

const fileError = (
  { id, provider }: Sandbox,
  operation: "upload" | "download",
  path: string,
  reason: string,
  missing = false
) => new SandboxFileError({ provider, sandboxId: id, operation, path, missing, reason })

/** An archive says its files' sizes first, so more than this waits on disk until its end has come. */
const memoryLimit = 1024 * 1024

const pieceSize = 256 * 1024

/** Bytes of which the number is known. */
interface Spooled {
  readonly size: number
  readonly open: () => AsyncIterable<Uint8Array>
}

const spool = <E>(bytes: Stream.Stream<Uint8Array, E>, failed: (cause: unknown) => SandboxFileError) =>
  Effect.gen(function* () {
    const path = `${tmpdir()}/deskhand-upload-${randomBytes(12).toString("hex")}`
    const state: { size: number; chunks: Array<Uint8Array>; file: Fs.FileHandle | undefined } = {
      size: 0,
      chunks: [],
      file: undefined
    }
    const attempt = <A>(run: () => Promise<A>) => Effect.tryPromise({ try: run, catch: failed })
    yield* Effect.addFinalizer(() => Effect.promise(async () => state.file?.close().catch(() => {})))
    yield* Stream.runForEach(bytes, (part) =>
      Effect.gen(function* () {
        state.size += part.length
        state.chunks.push(part)
        if (state.file === undefined && state.size > memoryLimit) {
          yield* Effect.uninterruptible(
            attempt(async () => {
              state.file = await Fs.open(path, "wx+", 0o600)
              // It is read by its descriptor, and so nothing of it is left however this program ends.
              await Fs.unlink(path)
            })
          )
        }
        const { file } = state
        if (file !== undefined) {
          const waiting = state.chunks
          state.chunks = []
          yield* attempt(async () => {
            for (const chunk of waiting) {
              await file.writeFile(chunk)
            }
          })
        }
      })
    )
    const spooled: Spooled = {
      size: state.size,
      open: async function* () {
        const { chunks, file } = state
        if (file === undefined) return yield* chunks
        for (let at = 0; at < state.size; ) {
          const { buffer, bytesRead } = await file.read(Buffer.allocUnsafe(pieceSize), 0, pieceSize, at)
          // The archive has promised more: the engine refuses one that ends here.
          if (bytesRead === 0) return
          at += bytesRead
          yield buffer.subarray(0, bytesRead)
        }
      }
    }
    return spooled
  })

/** Follows a link; a file that is not there is none. */
const statOf = (sandbox: Sandbox, path: string) =>
  Effect.gen(function* () {
    const stat = yield* sandbox.engine.stat(sandbox.id, path)
    return stat.linkTarget === undefined || stat.linkTarget === ""
      ? { path, stat }
      : { path: stat.linkTarget, stat: yield* sandbox.engine.stat(sandbox.id, stat.linkTarget) }
  }).pipe(Effect.catchAll((error) => (isMissing(error.failure) ? Effect.succeed(undefined) : Effect.fail(error))))

/** Who the container's programs are; root when that cannot be told. */
export const userOf = (engine: Engine, id: string): Effect.Effect<User> =>
  Effect.gen(function* () {
    const { Config } = yield* engine.inspect(id)
    const configured = Config.User ?? ""
    if (configured === "" || configured === "root") {
      return { uid: 0, gid: 0 }
    }
    const numbers = /^(\d+):(\d+)$/.exec(configured)
    if (numbers !== null) {
      return { uid: Number(numbers[1]), gid: Number(numbers[2]) }
    }
    const { output } = yield* helper({ engine, id }, ["/bin/sh", "-c", "id -u && id -g"])
    const [uid, gid] = output.trim().split("\n").map(Number)
    return uid !== undefined && gid !== undefined && Number.isInteger(uid) && Number.isInteger(gid)
      ? { uid, gid }
      : { uid: 0, gid: 0 }
  }).pipe(Effect.orElseSucceed(() => ({ uid: 0, gid: 0 })))

/**
 * The container sees mounts of its own in these places, and the engine's archives see what is under them: a file
 * written there would be seen by nobody.
 */
const outOfReach = (path: string): boolean => /^\/(proc|sys|dev)(\/|$)/.test(posix.normalize(path))

const reachReason = "the engine does not reach files below /proc, /sys and /dev; use exec"

export const upload = <E>(
  sandbox: Sandbox,
  path: string,
  bytes: Stream.Stream<Uint8Array, E>
): Effect.Effect<void, SandboxFileError | E> =>
  Effect.scoped(
    Effect.gen(function* () {
      const { engine, id } = sandbox
      const failed = (cause: unknown) =>
        fileError(sandbox, "upload", path, cause instanceof Error ? cause.message : String(cause))
      if (!path.startsWith("/") || path.endsWith("/") || path.includes("\0")) {
        return yield* fileError(sandbox, "upload", path, "it is no absolute path of a file")
      }
      const content = yield* spool(bytes, failed)
      const user = yield* sandbox.user
      yield* Effect.gen(function* () {
        // A link is written through, as a program in the container would.
        const found = yield* statOf(sandbox, path)
        const target = posix.normalize(found?.path ?? path)
        if (outOfReach(target)) {
          return yield* fileError(sandbox, "upload", path, reachReason)
        }
        if (found !== undefined && isFolder(found.stat)) {
          return yield* fileError(sandbox, "upload", path, "it is a folder")
        }
        const folder = posix.dirname(target)
        const there = found !== undefined || (yield* statOf(sandbox, folder)) !== undefined
        if (!there) {
          // The engine would make it root's; where this does not work, it does.
          yield* helper(sandbox, ["mkdir", "-p", "--", folder])
        }
        const file: Tar.FileFields = {
          name: there ? posix.basename(target) : target.slice(1),
          size: content.size,
          mode: found === undefined ? 0o644 : found.stat.mode & 0o777,
          ...user,
          modified: Math.floor(Date.now() / 1000)
        }
        yield* engine.putArchive(id, there ? folder : "/", Tar.archiveSize(file), () =>
          Readable.from(
            (async function* () {
              yield Tar.head(file)
              yield* content.open()
              yield Tar.tail(file.size)
            })(),
            { objectMode: false }
          )
        )
      }).pipe(Effect.mapError((error) => (error._tag === "EngineError" ? failed(error) : error)))
    })
  )

export const download = (sandbox: Sandbox, path: string): Stream.Stream<Uint8Array, SandboxFileError> =>
  Stream.unwrapScoped(
    Effect.gen(function* () {
      const { engine, id } = sandbox
      const failed = (error: EngineError) =>
        fileError(sandbox, "download", path, error.message, isMissing(error.failure))
      if (!path.startsWith("/") || path.includes("\0")) {
        return yield* fileError(sandbox, "download", path, "it is no absolute path")
      }
      if (outOfReach(path)) {
        return yield* fileError(sandbox, "download", path, reachReason)
      }
      const found = yield* Effect.mapError(statOf(sandbox, path), failed)
      if (found === undefined) {
        return yield* fileError(sandbox, "download", path, "there is no such file", true)
      }
      if (isFolder(found.stat)) {
        return yield* fileError(sandbox, "download", path, "it is a folder")
      }
      const archive = yield* Effect.mapError(engine.getArchive(id, found.path), failed)
      const reader = Tar.reader()
      const problem = () =>
        reader.problem ??
        (reader.entry !== undefined && reader.entry.type !== "file"
          ? "it is no regular file"
          : reader.done
            ? undefined
            : "its end is missing")
      return archive.bytes.pipe(
        Stream.mapError(failed),
        Stream.takeUntil(() => reader.done),
        Stream.mapConcat((part) => reader.push(part)),
        Stream.concat(
          Stream.drain(
            Stream.fromEffect(
              Effect.suspend(() => {
                const reason = problem()
                return reason === undefined ? Effect.void : Effect.fail(fileError(sandbox, "download", path, reason))
              })
            )
          )
        )
      )
    })
  )
