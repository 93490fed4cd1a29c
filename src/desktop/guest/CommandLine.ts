/**
 * What a command in a request means: a pure decision, shared by everything that runs one.
 *
 * @since 0.1.0
 */
import * as Either from "effect/Either"
import type { Command } from "../GuestApi.js"
import * as Shlex from "./Shlex.js"

/**
 * The words to run, the first of which is the program.
 *
 * @since 0.1.0
 * @category models
 */
export type Words = readonly [program: string, ...rest: ReadonlyArray<string>]

/**
 * Reads a command as the official server does. Words of a list that start with `~/` get the home folder. With a shell,
 * text is a script, and of a list the first word is the script and the rest are its `$0`, `$1`, ... `Left` says what is
 * wrong with it.
 *
 * @since 0.1.0
 * @category parsing
 */
export const parse = (
  request: { readonly command: Command; readonly shell: boolean | string },
  home: string
): Either.Either<Words, string> => {
  const shell = request.shell === true || (typeof request.shell === "string" && request.shell.toLowerCase() === "true")
  if (typeof request.command === "string") {
    if (request.command.includes("\0")) return Either.left("the command has a NUL character in it")
    if (shell) return Either.right(["/bin/sh", "-c", request.command])
    return Either.flatMap(Shlex.split(request.command), nonEmpty)
  }
  const words = request.command.map((word) => (word.startsWith("~/") ? `${home}${word.slice(1)}` : word))
  if (words.some((word) => word.includes("\0"))) return Either.left("the command has a NUL character in it")
  return Either.map(nonEmpty(words), (words): Words => (shell ? ["/bin/sh", "-c", ...words] : words))
}

const nonEmpty = (words: ReadonlyArray<string>): Either.Either<Words, string> => {
  const [program, ...rest] = words
  return program === undefined || program === ""
    ? Either.left("the command is empty")
    : Either.right([program, ...rest])
}

/**
 * `$NAME`, `${NAME}` and a leading `~` replaced, as Python's `expanduser` and `expandvars` do. Unknown variables stay.
 *
 * @since 0.1.0
 * @category parsing
 */
export const expandPath = (path: string, env: Readonly<Record<string, string | undefined>>, home: string): string => {
  const atHome = path === "~" || path.startsWith("~/") ? `${home}${path.slice(1)}` : path
  return atHome.replace(
    /\$(?:(\w+)|\{([^}]*)\})/g,
    (whole, bare: string | undefined, braced: string | undefined) => env[bare ?? braced ?? ""] ?? whole
  )
}
