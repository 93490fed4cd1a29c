/** Text that is kept as an item of its own: that of the shared strings, of which a workbook may have a million. */
import type { Handlers } from "./scan.js"

/** The plain text of a string item: its own `t` and those of its runs, without phonetic hints. */
export class StringItem implements Handlers {
  private said: string | undefined
  private phonetic = 0
  private inText = 0

  /** Whether nothing of an item was met yet. */
  isFresh(): boolean {
    return this.said === undefined && this.phonetic === 0 && this.inText === 0
  }

  open(name: string): void {
    if (name === "rPh") this.phonetic++
    else if (name === "t") this.inText++
  }

  close(name: string): void {
    if (name === "rPh") this.phonetic--
    else if (name === "t") this.inText--
  }

  text(part: string): void {
    if (this.inText > 0 && this.phonetic === 0) this.said = this.said === undefined ? part : this.said + part
  }

  /** The text so far, and from here on another item's. */
  take(): string {
    const taken = this.said ?? ""
    this.said = undefined
    return taken
  }
}

/** An item without runs and hints, which most are, and with nothing to resolve in it. */
const usualItem = /<si><t(?: xml:space="preserve")?>[^<&\r]*<\/t><\/si>/y

/** Reads the part of shared strings. A class, as V8 compiles the functions of each closure anew. */
export class SharedStrings implements Handlers {
  readonly strings: Array<string> = []
  private readonly item = new StringItem()

  open(name: string): void {
    this.item.open(name)
  }

  close(name: string): void {
    this.item.close(name)
    if (name === "si") this.strings.push(this.item.take())
  }

  text(text: string): void {
    this.item.text(text)
  }

  ahead(text: string, start: number): number {
    let at = start
    while (this.item.isFresh()) {
      usualItem.lastIndex = at
      if (!usualItem.test(text)) break
      const from = text.indexOf(">", at + "<si><t".length) + 1
      at = usualItem.lastIndex
      this.strings.push(text.slice(from, at - "</t></si>".length))
    }
    return at
  }
}
