/** The cells of one row: of a sheet with a million of them no object a cell, and no entry in a hash table. */
import type { Cell, CellValue, Look, Stored } from "./cell.js"

/** What is shown where that is not what is stored. */
interface Shown {
  readonly value: CellValue
  readonly stored: Stored
}

type Content = Stored | Shown

/** A list may be this much longer than what is in it, so that a stray cell in the last column does not make one. */
const mostLength = (size: number): number => 4 * size + 16

const valueOf = (content: Content): CellValue =>
  typeof content === "object" && content !== null ? content.value : content

const cellOf = (content: Content, { formula, style }: Look): Cell =>
  typeof content === "object" && content !== null
    ? { value: content.value, stored: content.stored, style, formula }
    : { value: content, stored: content, style, formula }

/** By column, from 1. */
export class Row {
  private count = 0
  // Contents and looks from the column `first` on, `undefined` where there is no cell.
  private first = 0
  private contents: Array<Content | undefined> = []
  private looks: Array<Look | undefined>
  /** Whether another row has the same list of looks, which then is not written to. It may be longer than that of contents. */
  private isShared: boolean
  /** Instead of those, for rows whose cells are far apart or in no order. */
  private apart: Map<number, { readonly content: Content; readonly look: Look }> | undefined

  /** Rows look like the one above, mostly: then they have one list of looks. */
  constructor(above?: Row) {
    this.looks = above?.looks ?? []
    this.isShared = above !== undefined
    if (above !== undefined) above.isShared = true
  }

  get size(): number {
    return this.apart?.size ?? this.count
  }

  /** What is there is replaced. */
  set(column: number, value: CellValue, stored: Stored, look: Look): void {
    const content: Content = value === stored ? stored : { value, stored }
    if (this.apart !== undefined) {
      this.apart.set(column, { content, look })
      return
    }
    if (this.count === 0) this.first = column
    const { contents } = this
    const place = column - this.first
    if (place === contents.length) {
      contents.push(content)
      this.count++
      this.setLook(place, look)
    } else if (place >= 0 && place <= mostLength(this.count)) {
      while (contents.length < place) contents.push(undefined)
      if (contents[place] === undefined) this.count++
      contents[place] = content
      this.setLook(place, look)
    } else {
      this.apart = this.listed()
      this.contents = []
      this.looks = []
      this.set(column, value, stored, look)
    }
  }

  has(column: number): boolean {
    return this.apart?.has(column) ?? this.contents[column - this.first] !== undefined
  }

  get(column: number): Cell | undefined {
    if (this.apart !== undefined) {
      const found = this.apart.get(column)
      return found === undefined ? undefined : cellOf(found.content, found.look)
    }
    const content = this.contents[column - this.first]
    const look = this.looks[column - this.first]
    return content === undefined || look === undefined ? undefined : cellOf(content, look)
  }

  /** `undefined` where there is no cell. */
  value(column: number): CellValue | undefined {
    const content = this.apart === undefined ? this.contents[column - this.first] : this.apart.get(column)?.content
    return content === undefined ? undefined : valueOf(content)
  }

  /** Of all that are there. */
  columns(): ReadonlyArray<number> {
    if (this.apart !== undefined) return Array.from(this.apart.keys())
    return this.contents.flatMap((content, i) => (content === undefined ? [] : this.first + i))
  }

  /** The last column whose value is so; 0 where there is none. */
  last(is: (value: CellValue) => boolean): number {
    if (this.apart !== undefined) {
      return Math.max(0, ...Array.from(this.apart).map(([column, { content }]) => (is(valueOf(content)) ? column : 0)))
    }
    for (let i = this.contents.length - 1; i >= 0; i--) {
      const content = this.contents[i]
      if (content !== undefined && is(valueOf(content))) return this.first + i
    }
    return 0
  }

  private setLook(place: number, look: Look): void {
    if (this.isShared) {
      if (this.looks[place] === look) return
      this.looks = this.looks.slice(0, this.contents.length)
      this.isShared = false
    }
    while (this.looks.length < place) this.looks.push(undefined)
    this.looks[place] = look
  }

  private listed() {
    const all = new Map<number, { readonly content: Content; readonly look: Look }>()
    for (const [i, content] of this.contents.entries()) {
      const look = this.looks[i]
      if (content !== undefined && look !== undefined) all.set(this.first + i, { content, look })
    }
    return all
  }
}

/** By row, from 1. */
export type Rows = ReadonlyMap<number, Row>
