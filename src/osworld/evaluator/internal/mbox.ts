/**
 * A mail folder of Thunderbird: messages one after the other, each below a line that starts with `From `.
 *
 * The text is Latin-1, so that each byte is a character and nothing is lost.
 */

export interface Message {
  /** Fields with their continuation lines, without the line ends. */
  readonly fields: ReadonlyArray<string>
  readonly body: string
}

/** Thunderbird writes `From - ` and a date, or the line without either; others an address and a date. */
const separator = /^From (?:- .*|.*\d\d:\d\d.*|\s*)$/

const fieldsOf = (lines: ReadonlyArray<string>): ReadonlyArray<string> => {
  const fields: Array<string> = []
  for (const line of lines) {
    const last = fields.length - 1
    if (/^[ \t]/.test(line) && last >= 0) fields[last] += `\n${line}`
    else fields.push(line)
  }
  return fields
}

const message = (lines: ReadonlyArray<string>): Message => {
  const blank = lines.indexOf("")
  const end = blank < 0 ? lines.length : blank
  return { fields: fieldsOf(lines.slice(0, end)), body: lines.slice(end).join("\n").trim() }
}

/** A separator stands at the beginning or below an empty line; text that only looks like one is a part of its message. */
export const parse = (text: string): ReadonlyArray<Message> => {
  const messages: Array<Message> = []
  const lines = text.replace(/\r\n?/g, "\n").split("\n")
  let start: number | undefined
  for (const [index, line] of lines.entries()) {
    if (!separator.test(line) || (index > 0 && lines[index - 1] !== "")) continue
    if (start !== undefined) messages.push(message(lines.slice(start, index)))
    start = index + 1
  }
  if (start !== undefined) messages.push(message(lines.slice(start)))
  return messages
}

const nameOf = (field: string): string => (/^[^:\s]+(?=:)/.exec(field)?.[0] ?? "").toLowerCase()

/** A field's value by its lower-case name. */
export const field = ({ fields }: Message, name: string): string | undefined =>
  fields
    .find((one) => nameOf(one) === name)
    ?.slice(name.length + 1)
    .trim()

/** Without the fields of these lower-case names. */
export const without = (message: Message, names: ReadonlyArray<string>): Message => ({
  ...message,
  fields: message.fields.filter((one) => !names.includes(nameOf(one)))
})

/** Deleted and still in the file, as a folder has them until it is compacted. */
const expunged = 0x0008

export const isDeleted = (message: Message): boolean => {
  const status = field(message, "x-mozilla-status")
  return status !== undefined && /^[0-9a-f]+$/i.test(status) && (Number.parseInt(status, 16) & expunged) !== 0
}
