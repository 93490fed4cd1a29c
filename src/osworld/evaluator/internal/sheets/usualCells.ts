/**
 * Cells side by side as programs write them, with a value, without a formula and with nothing to resolve. One native
 * match goes over many of them; what is in them is then read by its place, in a fraction of the time that their tags and
 * texts take one by one, above all in a process that has not read a sheet before.
 */
const pattern = /(?:<c r="[A-Z]{1,3}[1-9]\d{0,6}"(?: s="\d{1,6}")?(?: t="[a-z]{1,3}")?><v>[^<&\r]*<\/v><\/c>){1,64}/y

/** So many digits are a whole number below 2^53, and so is a power of ten: dividing one by the other rounds once. */
const maxDigits = 15
const powers = Array.from({ length: maxDigits + 1 }, (_, i) => 10 ** i)

const codes = { quote: 34, minus: 45, point: 46, zero: 48, nine: 57, less: 60, s: 115, t: 116 }

/** Goes from cell to cell; its fields are those of the one that was read last. */
export class UsualCells {
  column = 0
  row = 0
  /** The number of its style. */
  style = 0
  type = "n"
  /** Its content, where that is a plain decimal; NaN for any other. */
  number = Number.NaN
  /** Where the next one starts. */
  at = 0

  private text = ""
  private end = 0
  private from = 0
  private to = 0

  /** Whether there are such cells at `start`. */
  open(text: string, start: number): boolean {
    pattern.lastIndex = start
    if (!pattern.test(text)) return false
    this.text = text
    this.at = start
    this.end = pattern.lastIndex
    return true
  }

  /** Reads the next one, if there is one more. */
  next(): boolean {
    if (this.at === this.end) return false
    const { text } = this
    let i = this.at + '<c r="'.length
    let code = text.charCodeAt(i)
    this.column = 0
    for (; code > codes.nine; code = text.charCodeAt(++i)) this.column = this.column * 26 + code - 64
    this.row = 0
    for (; code >= codes.zero; code = text.charCodeAt(++i)) this.row = this.row * 10 + code - codes.zero
    this.style = 0
    if (text.charCodeAt(i + 2) === codes.s) {
      i += '" s="'.length
      for (code = text.charCodeAt(i); code >= codes.zero; code = text.charCodeAt(++i)) {
        this.style = this.style * 10 + code - codes.zero
      }
    }
    this.type = "n"
    if (text.charCodeAt(i + 2) === codes.t) {
      const from = i + '" t="'.length
      i = from + 1
      while (text.charCodeAt(i) !== codes.quote) i++
      this.type = text.slice(from, i)
    }
    this.readNumber(i + '"><v>'.length)
    this.at = this.to + "</v></c>".length
    return true
  }

  /** As it is written. */
  content(): string {
    return this.text.slice(this.from, this.to)
  }

  private readNumber(from: number): void {
    const { text } = this
    let i = from
    let code = text.charCodeAt(i)
    const isNegative = code === codes.minus
    if (isNegative) code = text.charCodeAt(++i)
    let digits = 0
    let number = 0
    for (; code >= codes.zero && code <= codes.nine; code = text.charCodeAt(++i)) {
      number = number * 10 + code - codes.zero
      digits++
    }
    let fraction = 0
    if (code === codes.point) {
      for (code = text.charCodeAt(++i); code >= codes.zero && code <= codes.nine; code = text.charCodeAt(++i)) {
        number = number * 10 + code - codes.zero
        fraction++
      }
      digits += fraction
    }
    this.from = from
    if (code === codes.less && digits > 0 && digits <= maxDigits) {
      this.to = i
      const value = number / (powers[fraction] ?? 1)
      this.number = isNegative ? -value : value
    } else {
      this.to = text.indexOf("<", i)
      this.number = Number.NaN
    }
  }
}
