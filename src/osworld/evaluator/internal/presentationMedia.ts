/** The sound or the background picture of a slide, for getters that hand it to a metric. */
import * as Either from "effect/Either"
import type { Refusal } from "../Reader.js"
import * as Ooxml from "./ooxml.js"
import * as Presentation from "./presentation.js"
import { fillOf } from "./presentationColors.js"
import * as Xml from "./xmlTree.js"

/** `External`: a target outside the file, as it is written there (`file:///home/user/a.mp3`). */
export type SlideMedia =
  | { readonly _tag: "Embedded"; readonly name: string; readonly bytes: Uint8Array }
  | { readonly _tag: "External"; readonly target: string }

/** The relation of a sheet's own background picture. */
const backgroundRelation = (root: Xml.Tree | undefined, relations: ReadonlyArray<Ooxml.Relationship>) => {
  const background = Xml.child(Xml.child(Xml.child(root, "cSld"), "bg"), "bgPr")
  const blip = Xml.child(fillOf(background), "blip")
  const id = Ooxml.prefixed(blip, "embed") ?? Ooxml.prefixed(blip, "link")
  return id === undefined ? undefined : relations.find((relation) => relation.id === id)
}

/**
 * A slide's first sound, or the picture that fills its background, by the slide's place in the deck (from 0).
 * `undefined`: there is no such slide, or it has none. A slide without a background of its own has its layout's or
 * master's.
 */
export const mediaOfSlide = (
  bytes: Uint8Array,
  slideIndex: number,
  kind: "audio" | "background"
): Either.Either<SlideMedia | undefined, Refusal> =>
  Either.gen(function* () {
    const deck = yield* Presentation.parse(bytes)
    const slide = deck.slides[slideIndex]
    if (slide === undefined) return undefined
    const relations = yield* deck.package.relationships(slide.part)

    let found = relations.find((relation) => relation.kind === "audio")
    if (kind === "background") {
      found = undefined
      for (const { part } of [slide, slide.layout, slide.master].filter((sheet) => sheet !== undefined)) {
        const root = yield* deck.package.xml(part)
        const background = Xml.child(Xml.child(root, "cSld"), "bg")
        if (background === undefined) continue
        found = backgroundRelation(root, yield* deck.package.relationships(part))
        break
      }
    }
    if (found === undefined) return undefined
    if (found.external) return { _tag: "External", target: found.target } as const
    const content = yield* deck.package.media(found.target)
    return content === undefined
      ? undefined
      : ({ _tag: "Embedded", name: found.target.replace(/^.*\//, ""), bytes: content } as const)
  })
