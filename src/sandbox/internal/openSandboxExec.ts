/**
 * Commands as execd runs them. It takes shell text and gives lines: an event carries a line without its end, so a last
 * line without a newline looks like one with it. A mark that the shell prints behind the command tells them apart.
 */
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { exitCodeOf } from "./signalWords.js"

/** One event of a command's stream, as far as it is of interest. */
export class Event extends Schema.Class<Event>("deskhand/sandbox/OpenSandboxEvent")({
  type: Schema.String,
  text: Schema.optional(Schema.NullOr(Schema.String)),
  error: Schema.optional(
    Schema.NullOr(
      Schema.Struct({
        ename: Schema.optional(Schema.NullOr(Schema.String)),
        evalue: Schema.optional(Schema.NullOr(Schema.String)),
        traceback: Schema.optional(Schema.NullOr(Schema.Array(Schema.String)))
      })
    )
  )
}) {}

export class CommandStatus extends Schema.Class<CommandStatus>("deskhand/sandbox/OpenSandboxCommandStatus")({
  running: Schema.Boolean,
  exit_code: Schema.optional(Schema.NullOr(Schema.Int)),
  error: Schema.optional(Schema.NullOr(Schema.String))
}) {}

export const quote = (word: string): string => `'${word.replaceAll("'", `'\\''`)}'`

/** Shell text that runs an argv, with `stdinPath` as its input if there is one, and marks the end of both outputs. */
export const script = (
  command: ReadonlyArray<string>,
  options: { readonly mark: string; readonly stdinPath: string | undefined }
): string => {
  const argv = command.map(quote).join(" ")
  const ended = `printf %s ${options.mark}; printf %s ${options.mark} >&2`
  return options.stdinPath === undefined
    ? `${argv} </dev/null; r=$?; ${ended}; exit $r`
    : `exec 3<${quote(options.stdinPath)}; rm -f ${quote(options.stdinPath)}; ${argv} <&3; r=$?; ${ended}; exit $r`
}

/** A line of the stream: bare JSON, as execd writes it, or in the `data:` field that a gateway may put it in. */
export const payload = (line: string): string | undefined => {
  const text = line.startsWith("data:") ? line.slice(5).trim() : line.trim()
  return text.startsWith("{") ? text : undefined
}

/** What a line of output was before execd took its end off. */
export const output = (text: string, mark: string): string =>
  text === "\n" ? "\n" : text.endsWith(mark) ? text.slice(0, -mark.length) : `${text}\n`

/** An exit code, or none where nobody saw one: execd says -1 of what a signal ended, and names the signal beside it. */
export const exitCode = (said: number | string | null | undefined, note: string | undefined): Option.Option<number> => {
  const code = typeof said === "number" ? said : said === null || said === undefined ? Number.NaN : Number(said)
  if (said !== "" && Number.isInteger(code) && code >= 0) {
    return Option.some(code)
  }
  const signal = /signal: ([a-z ]+)/.exec(note ?? "")?.[1]?.trim()
  return Option.fromNullable(signal === undefined ? undefined : exitCodeOf(signal))
}
