/**
 * Files that go in and out of the guest, streamed.
 *
 * @since 0.1.0
 */
import * as Fs from "node:fs"
import * as Os from "node:os"
import * as Path from "node:path"
import * as FileSystem from "@effect/platform/FileSystem"
import * as HttpServerResponse from "@effect/platform/HttpServerResponse"
import type * as Multipart from "@effect/platform/Multipart"
import * as NodeStream from "@effect/platform-node/NodeStream"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import type { DirectoryEntry } from "../GuestApi.js"
import { BadRequest, Failed, NotFound } from "../GuestApi.js"
import * as CommandLine from "./CommandLine.js"

const failed = (message: string) => new Failed({ status: "error", message })
const badRequest = (message: string) => new BadRequest({ status: "error", message })
const notFound = (message: string) => new NotFound({ status: "error", message })
const messageOf = (cause: unknown) => (cause instanceof Error ? cause.message : String(cause))
const codeOf = (cause: unknown) => (cause instanceof Error && "code" in cause ? cause.code : undefined)
const because = (message: string) => (cause: { readonly message: string }) => failed(`${message}: ${cause.message}`)

/**
 * The path that a request means: with `~` and variables replaced, absolute.
 *
 * @since 0.1.0
 * @category parsing
 */
export const resolve = (path: string): string =>
  Path.resolve(Os.homedir(), CommandLine.expandPath(path, process.env, Os.homedir()))

/**
 * The bytes of a file as a response.
 *
 * @since 0.1.0
 * @category responses
 */
export const respond = (
  path: string,
  contentType: string
): Effect.Effect<HttpServerResponse.HttpServerResponse, BadRequest | NotFound | Failed, Scope.Scope> =>
  Effect.gen(function* () {
    const unreadable = (cause: unknown) =>
      codeOf(cause) === "ENOENT" || codeOf(cause) === "ENOTDIR"
        ? notFound(`${path} does not exist`)
        : failed(`${path} cannot be read: ${messageOf(cause)}`)
    const handle = yield* Effect.acquireRelease(
      Effect.tryPromise({ try: () => Fs.promises.open(path, "r"), catch: unreadable }),
      (handle) => Effect.promise(() => handle.close())
    )
    const info = yield* Effect.tryPromise({ try: () => handle.stat(), catch: unreadable })
    if (info.isDirectory()) return yield* Effect.fail(badRequest(`${path} is a folder`))
    const bytes = NodeStream.fromReadable<Failed, Uint8Array>(
      () => handle.createReadStream({ autoClose: false }),
      (cause) => failed(`${path} cannot be read: ${messageOf(cause)}`)
    )
    return HttpServerResponse.stream(bytes, {
      contentType,
      // The system's own files say that they are empty and are not.
      ...(info.isFile() && info.size > 0 ? { contentLength: info.size } : {}),
      headers: {
        "content-disposition": `attachment; filename*=UTF-8''${encodeURIComponent(Path.basename(path))}`
      }
    })
  })

/**
 * Writes the file of a form to the path in it. The file appears whole or not at all. Returns its path and size.
 *
 * @since 0.1.0
 * @category actions
 */
export const receive = (
  parts: Stream.Stream<Multipart.Part, Multipart.MultipartError>
): Effect.Effect<{ readonly path: string; readonly bytes: number }, BadRequest | Failed, FileSystem.FileSystem> =>
  Effect.scoped(
    Effect.gen(function* () {
      const fs = yield* FileSystem.FileSystem
      let target = Option.none<string>()
      let received = Option.none<{ readonly at: string; readonly bytes: number }>()
      const partial = (near: string) =>
        Effect.acquireRelease(
          fs
            .makeTempDirectory({ directory: near, prefix: ".deskhand-upload-" })
            .pipe(Effect.mapError(because(`nothing can be written to ${near}`))),
          (folder) => Effect.ignoreLogged(fs.remove(folder, { recursive: true, force: true }))
        )
      yield* Stream.runForEach(parts, (part) =>
        Effect.gen(function* () {
          if (part._tag === "Field") {
            if (part.key === "file_path") target = Option.some(resolve(part.value))
            return
          }
          if (part.key !== "file_data") return yield* Stream.runDrain(part.content)
          const folder = Option.match(target, { onNone: Os.tmpdir, onSome: Path.dirname })
          yield* fs
            .makeDirectory(folder, { recursive: true })
            .pipe(Effect.mapError(because(`the folder ${folder} cannot be made`)))
          const at = Path.join(yield* partial(folder), "file")
          let bytes = 0
          yield* part.content.pipe(
            Stream.tap((chunk) =>
              Effect.sync(() => {
                bytes += chunk.length
              })
            ),
            Stream.run(fs.sink(at))
          )
          received = Option.some({ at, bytes })
        })
      ).pipe(
        Effect.catchTags({
          MultipartError: (error) => Effect.fail(badRequest(`the form cannot be read: ${error.message}`)),
          BadArgument: (error) => Effect.fail(failed(`the upload cannot be written: ${error.message}`)),
          SystemError: (error) => Effect.fail(failed(`the upload cannot be written: ${error.message}`))
        })
      )
      if (Option.isNone(target)) return yield* Effect.fail(badRequest("the form has no file_path"))
      if (Option.isNone(received)) return yield* Effect.fail(badRequest("the form has no file_data"))
      const path = target.value
      const { at, bytes } = received.value
      yield* fs
        .makeDirectory(Path.dirname(path), { recursive: true })
        .pipe(Effect.mapError(because(`the folder ${Path.dirname(path)} cannot be made`)))
      yield* fs.rename(at, path).pipe(
        // A form that named its path last was received on what may be another disk.
        Effect.catchAll(() => fs.copyFile(at, path)),
        Effect.mapError(because(`${path} cannot be written`))
      )
      return { path, bytes }
    })
  )

/**
 * Everything below a folder. Links to folders are followed unless they lead back to where they are.
 *
 * @since 0.1.0
 * @category queries
 */
export const tree = (path: string, ancestors: ReadonlySet<string> = new Set()): Effect.Effect<DirectoryEntry> =>
  Effect.gen(function* () {
    const within = new Set([...ancestors, yield* attempt(() => Fs.promises.realpath(path))])
    // The official server lists in the order of the disk; a stable one makes equal folders equal.
    const names = (yield* attempt(() => Fs.promises.readdir(path))).sort()
    const children = yield* Effect.forEach(names, (name) =>
      Effect.gen(function* () {
        const child = Path.join(path, name)
        const info = yield* Effect.option(attempt(() => Fs.promises.stat(child)))
        if (Option.isNone(info) || !info.value.isDirectory()) return { type: "file", name } as const
        const leadsTo = yield* attempt(() => Fs.promises.realpath(child))
        return within.has(leadsTo) ? ({ type: "directory", name, children: [] } as const) : yield* tree(child, within)
      })
    )
    return { type: "directory", name: Path.basename(path), children } as const
  }).pipe(Effect.catchAll((error) => Effect.succeed({ error })))

const attempt = <A>(evaluate: () => Promise<A>): Effect.Effect<A, string> =>
  Effect.tryPromise({ try: evaluate, catch: messageOf })
