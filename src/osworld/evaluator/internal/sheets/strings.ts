/** Text that is kept as an item of its own: that of the shared strings, of which a workbook may have a million. */
import type { Handlers } from "./scan.js"

/** Collects the plain text of a string item: its own `t` and those of its runs, without phonetic hints. */
export const stringItem = () => {
  let text: string | undefined
  let phonetic = 0
  let inText = 0
  return {
    /** Whether nothing of an item was met yet. */
    isFresh: (): boolean => text === undefined && phonetic === 0 && inText === 0,
    open: (name: string) => {
      if (name === "rPh") phonetic++
      else if (name === "t") inText++
    },
    close: (name: string) => {
      if (name === "rPh") phonetic--
      else if (name === "t") inText--
    },
    text: (part: string) => {
      if (inText > 0 && phonetic === 0) text = text === undefined ? part : text + part
    },
    /** The text so far, and from here on another item's. */
    take: (): string => {
      const taken = text ?? ""
      text = undefined
      return taken
    }
  }
}

/** An item without runs and hints, which most are, and with nothing to resolve in it. */
const usualItem = /<si><t(?: xml:space="preserve")?>[^<&\r]*<\/t><\/si>/y

/** Handlers for the part of shared strings. */
export const collector = (): { readonly handlers: Handlers; readonly strings: ReadonlyArray<string> } => {
  const strings: Array<string> = []
  const item = stringItem()
  return {
    strings,
    handlers: {
      open: (name) => item.open(name),
      close: (name) => {
        item.close(name)
        if (name === "si") strings.push(item.take())
      },
      text: (text) => item.text(text),
      ahead: (text, start) => {
        let at = start
        while (item.isFresh()) {
          usualItem.lastIndex = at
          if (!usualItem.test(text)) break
          const from = text.indexOf(">", at + "<si><t".length) + 1
          at = usualItem.lastIndex
          strings.push(text.slice(from, at - "</t></si>".length))
        }
        return at
      }
    }
  }
}
