/** Each line of an evidence file ends in a digest of itself and of all lines before it: no byte of it can change unseen. */
import { createHash } from "node:crypto"

/** What the first line is chained to. */
export const genesis: string = createHash("sha256").update("deskhand evidence 1").digest("hex")

/** The digest that a line carries, of the one before it and of the line's own bytes; a text stands for its UTF-8. */
export const link = (before: string, body: Uint8Array | string): string =>
  createHash("sha256").update(before).update(body).digest("hex")

const opening = Buffer.from(',"chain":"')
const closing = Buffer.from('"}')
const digits = 64
const tail = opening.length + digits + closing.length

/** A line with its digest and its newline. `json` is an object that has at least one key. */
export const seal = (before: string, json: string): { readonly line: string; readonly chain: string } => {
  const body = json.slice(0, -1)
  const chain = link(before, body)
  return { line: `${body}${opening}${chain}${closing}\n`, chain }
}

/** A line without its newline, taken apart. Undefined where it carries no digest. */
export const unseal = (line: Buffer): { readonly body: Buffer; readonly chain: string } | undefined => {
  const at = line.length - tail
  if (at < 1) return undefined
  const sealed =
    line.subarray(at, at + opening.length).equals(opening) &&
    line.subarray(line.length - closing.length).equals(closing)
  if (!sealed) return undefined
  return {
    body: line.subarray(0, at),
    chain: line.toString("latin1", at + opening.length, line.length - closing.length)
  }
}
