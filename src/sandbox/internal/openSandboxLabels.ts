/**
 * Labels as the service takes them: Kubernetes' rules, at most 63 characters of a small alphabet each. What fits is sent
 * as it is; the rest is encoded, and cut into pieces where it is long.
 */
import * as Either from "effect/Either"

type Labels = Readonly<Record<string, string>>

const limit = 63
const safe = /^[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?$/
const keyMark = "dhk."
const valueMark = "dhv."
const pieceMark = ".dhp"

/** Ends in a character that a label may end in, and begins so as well. */
const encode = (mark: string, text: string): string => `${mark}${Buffer.from(text).toString("base64url")}.0`

const decode = (mark: string, text: string): string =>
  text.startsWith(mark) && text.endsWith(".0")
    ? Buffer.from(text.slice(mark.length, -2), "base64url").toString("utf8")
    : text

const safeKey = (key: string): string =>
  safe.test(key) && key.length <= limit - 8 && !key.startsWith(keyMark) && !key.includes(pieceMark)
    ? key
    : encode(keyMark, key)

/** A value as the pieces that are sent for it; almost always one. */
const pieces = (value: string): ReadonlyArray<string> => {
  if (value === "" || (value.length <= limit && safe.test(value) && !value.startsWith(valueMark))) {
    return [value]
  }
  const whole = Buffer.from(value).toString("base64url")
  const size = limit - valueMark.length - 2
  const found: Array<string> = []
  for (let at = 0; at < whole.length; at += size) {
    found.push(`${valueMark}${whole.slice(at, at + size)}.0`)
  }
  return found
}

/** The service's metadata, or the key that is too long for it. */
export const toMetadata = (labels: Labels): Either.Either<Labels, string> => {
  const metadata: Record<string, string> = {}
  for (const [key, value] of Object.entries(labels)) {
    const name = safeKey(key)
    const parts = pieces(value)
    if (name.length > limit - (parts.length > 1 ? pieceMark.length + String(parts.length).length : 0)) {
      return Either.left(key)
    }
    for (const [index, part] of parts.entries()) {
      metadata[index === 0 ? name : `${name}${pieceMark}${index}`] = part
    }
  }
  return Either.right(metadata)
}

export const fromMetadata = (metadata: Labels): Labels => {
  const labels: Record<string, string> = {}
  for (const [key, value] of Object.entries(metadata)) {
    if (/\.dhp\d+$/.test(key)) {
      continue
    }
    const encoded = value.startsWith(valueMark) && value.endsWith(".0")
    let whole = encoded ? value.slice(valueMark.length, -2) : ""
    for (let index = 1; encoded; index += 1) {
      const next = metadata[`${key}${pieceMark}${index}`]
      if (next === undefined) {
        break
      }
      whole += next.slice(valueMark.length, -2)
    }
    labels[decode(keyMark, key)] = encoded ? Buffer.from(whole, "base64url").toString("utf8") : value
  }
  return labels
}
