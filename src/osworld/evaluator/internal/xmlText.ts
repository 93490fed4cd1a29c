/** What the bytes of an XML file say: UTF-8, or UTF-16 where it starts with that mark. Marks stay out. */
import { isAscii } from "node:buffer"

const utf8 = new TextDecoder()

export const decode = (bytes: Uint8Array): string => {
  // By index: taking it apart as a list asks an iterator for each.
  const first = bytes[0]
  const second = bytes[1]
  if (first === 0xff && second === 0xfe) return new TextDecoder("utf-16le").decode(bytes)
  if (first === 0xfe && second === 0xff) return new TextDecoder("utf-16be").decode(bytes)
  // Large documents are mostly ASCII, which takes V8 a fraction of a decoder's time.
  return isAscii(bytes)
    ? Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString("latin1")
    : utf8.decode(bytes)
}
