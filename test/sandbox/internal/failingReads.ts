/** A host of which some things cannot be read. */
import { type PlatformError, SystemError } from "@effect/platform/Error"
import * as FileSystem from "@effect/platform/FileSystem"
import * as NodeContext from "@effect/platform-node/NodeContext"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"

/** What opening a file says of a code of errno, as the platform's file system tells it. */
const failure = (method: string, path: string, code: string) =>
  new SystemError({
    reason: code === "ENOENT" ? "NotFound" : code === "EACCES" ? "PermissionDenied" : "Unknown",
    module: "FileSystem",
    method,
    pathOrDescriptor: path,
    description: `${code}: told to fail, open '${path}'`,
    cause: Object.assign(new Error(code), { code })
  })

/** The platform, on which reading a path fails with the code that `codeOf` has for it. */
export const failingReads = (codeOf: (path: string) => string | undefined) =>
  Layer.merge(
    NodeContext.layer,
    Layer.effect(
      FileSystem.FileSystem,
      Effect.map(FileSystem.FileSystem, (fs) => {
        const or = <A>(method: string, path: string, read: Effect.Effect<A, PlatformError>) =>
          Effect.suspend(() => {
            const code = codeOf(path)
            return code === undefined ? read : Effect.fail(failure(method, path, code))
          })
        return FileSystem.FileSystem.of({
          ...fs,
          readFileString: (path, encoding) => or("readFileString", path, fs.readFileString(path, encoding)),
          readDirectory: (path, options) => or("readDirectory", path, fs.readDirectory(path, options)),
          readLink: (path) => or("readLink", path, fs.readLink(path)),
          stat: (path) => or("stat", path, fs.stat(path))
        })
      })
    ).pipe(Layer.provide(NodeContext.layer))
  )
