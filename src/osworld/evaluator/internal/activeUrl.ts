/** The address in Chrome's address bar, by the desktop's accessibility tree. */
import * as Either from "effect/Either"
import * as Urls from "../../internal/urls.js"
import * as Selector from "./selector.js"
import * as Xml from "./xml.js"

const bars = Either.all(
  ["Google Chrome", "Chromium"].map((name) =>
    Selector.parse(`application[name="${name}"] entry[name="Address and search bar"]`)
  )
)

const text = (bar: Xml.Element): string => Xml.text(bar).trim()

/** Whether the window that it is in is the one in front. */
const isInFront = (bar: Xml.Element): boolean => {
  for (let node = bar.parentNode; node !== null && Xml.isElement(node); node = node.parentNode) {
    for (const attribute of node.attributes) {
      if (attribute.localName === "active" && attribute.value === "true") return true
    }
  }
  return false
}

/**
 * The address that the window in front shows, or else any window; undefined where no Chrome shows one. Upstream takes
 * the first window's, and none where the last window's is empty.
 */
export const find = (
  tree: string,
  prefix: string,
  { compat }: { readonly compat: boolean }
): Either.Either<string | undefined, string> =>
  Either.gen(function* () {
    const root = yield* Xml.parse(tree)
    const found = Selector.select(root, yield* bars)
    const filled = found.filter((bar) => text(bar) !== "")
    const last = found.at(-1)
    const bar = compat
      ? last !== undefined && text(last) !== ""
        ? found[0]
        : undefined
      : (filled.find(isInFront) ?? filled[0])
    return bar === undefined ? undefined : Urls.fromAddressBar(text(bar), prefix, { literal: compat })
  })
