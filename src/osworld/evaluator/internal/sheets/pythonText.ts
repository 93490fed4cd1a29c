/** Values as Python's `str` writes them, which is what upstream compares. */

/** Shortest digits that read back the same; powers of ten from 16 on, and below -4, with an exponent. */
export const float = (value: number): string => {
  if (Number.isNaN(value)) return "nan"
  if (!Number.isFinite(value)) return value > 0 ? "inf" : "-inf"
  if (value === 0) return Object.is(value, -0) ? "-0.0" : "0.0"
  const [mantissa = "", power = "0"] = value.toExponential().split("e")
  const exponent = Number(power)
  if (exponent >= -4 && exponent < 16) {
    const digits = String(value)
    return digits.includes("e") || digits.includes(".") ? plain(value) : `${digits}.0`
  }
  const sign = exponent < 0 ? "-" : "+"
  return `${mantissa}e${sign}${String(Math.abs(exponent)).padStart(2, "0")}`
}

/** JavaScript turns to exponents only below 1e-6, so up to there its digits are Python's. */
const plain = (value: number): string => String(value)

const pad = (value: number, width = 2): string => String(value).padStart(width, "0")

const fraction = (millis: number): string => {
  const rest = ((millis % 1000) + 1000) % 1000
  return rest === 0 ? "" : `.${pad(rest, 3)}000`
}

export const date = (millis: number): string => {
  const at = new Date(millis)
  return `${pad(at.getUTCFullYear(), 4)}-${pad(at.getUTCMonth() + 1)}-${pad(at.getUTCDate())}`
}

export const time = (millis: number): string => {
  const seconds = Math.floor(millis / 1000)
  return `${pad(Math.floor(seconds / 3600) % 24)}:${pad(Math.floor(seconds / 60) % 60)}:${pad(seconds % 60)}${fraction(millis)}`
}

const dayMillis = 86_400_000

export const timestamp = (millis: number): string => {
  const day = Math.floor(millis / dayMillis) * dayMillis
  return `${date(millis)} ${time(millis - day)}`
}

/** As pandas' `Timedelta`. */
export const duration = (millis: number): string => {
  const days = Math.floor(millis / dayMillis)
  const rest = time(millis - days * dayMillis)
  return `${days} days ${days < 0 ? "+" : ""}${rest}`
}
