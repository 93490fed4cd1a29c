/**
 * An Open Packaging archive (.pptx, .docx, .xlsx): parts and relationships. XML parts are unpacked when it
 * is opened, media only when somebody asks for them.
 *
 * Format: ECMA-376 part 2.
 */
import * as Either from "effect/Either"
import type { Refusal } from "../Reader.js"
import { decode } from "./xmlText.js"
import * as Xml from "./xmlTree.js"
import { limits, unzip } from "./zip.js"

export interface Relationship {
  readonly id: string
  /** The last word of its type: `slideLayout`, `image`, `hyperlink`. Strict and transitional files share it. */
  readonly kind: string
  readonly external: boolean
  /** A part's name without the leading `/`, or, of an external one, the target as it is written. */
  readonly target: string
  /** The target as it is written: an external one, or a place inside the document. */
  readonly written: string
}

export interface Package {
  /** In the archive's order, without a leading `/`. */
  readonly names: ReadonlyArray<string>
  /** What an XML part says, decoded for this call; `undefined` where there is no such part. */
  readonly text: (name: string) => string | undefined
  /** The root of an XML part, parsed for this call; `undefined` where there is no such part. */
  readonly xml: (name: string) => Either.Either<Xml.Tree | undefined, Refusal>
  /** Those of a part, or of the package itself (`""`), in the file's order; none where it has no such file. */
  readonly relationships: (partName: string) => Either.Either<ReadonlyArray<Relationship>, Refusal>
  /** The bytes of any part, unpacked for this call: pictures, sounds, fonts. */
  readonly media: (name: string) => Either.Either<Uint8Array | undefined, Refusal>
}

export interface Options {
  /** The XML parts that are unpacked. */
  readonly isWanted: (name: string) => boolean
  readonly limits: typeof limits
  /** Of all parts that are parsed, after which no other is. */
  readonly maxNodes: number
}

/** A tree takes several times its text's memory, so there is less room than in other archives. */
const defaults: Options = {
  isWanted: (name) => /\.(xml|rels|vml)$/i.test(name),
  // What a deck of some thousand full slides has.
  maxNodes: 3_000_000,
  limits: { ...limits, entryBytes: 16 * 1024 * 1024, totalBytes: 48 * 1024 * 1024 }
}

/** The name of the part that a target leads to, seen from the part `from`. */
export const resolve = (from: string, target: string): string => {
  const path = target.startsWith("/") ? [] : from.split("/").slice(0, -1)
  for (const step of target.split("/")) {
    if (step === "..") path.pop()
    else if (step !== "." && step !== "") path.push(step)
  }
  return path.join("/")
}

/** Part names are compared without regard to the case of ASCII letters: two that are equal so are one part. */
export const key = (name: string): string => (name.startsWith("/") ? name.slice(1) : name).toLowerCase()

/** Once for each part, however its name is written. */
export const memoize = <A>(compute: (name: string) => A): ((name: string) => A) => {
  const known = new Map<string, A>()
  return (name) => {
    const place = key(name)
    const before = known.get(place)
    if (before !== undefined) return before
    const value = compute(name)
    known.set(place, value)
    return value
  }
}

/** The value of an attribute that has a prefix, whichever: `r:id`, beside which there may be an `id`. */
export const prefixed = (element: Xml.Tree | undefined, localName: string): string | undefined =>
  new RegExp(`(?:^|\\s)[^\\s:="']+:${localName}\\s*=\\s*["']([^"']*)["']`).exec(element?.written ?? "")?.[1]

export const open = (
  bytes: Uint8Array,
  { isWanted, limits: allowed, maxNodes }: Options = defaults
): Either.Either<Package, Refusal> => {
  const names: Array<string> = []
  const note = (name: string) => {
    if (!name.endsWith("/")) names.push(name)
    return isWanted(name)
  }
  return Either.map(unzip(bytes, note, allowed), (members): Package => {
    // Programs write names in one case, mostly: what is asked for is there as it is written.
    let folded: ReadonlyMap<string, Uint8Array> | undefined
    const part = (name: string) => {
      const known = members.get(name)
      if (known !== undefined) return known
      folded ??= new Map(Array.from(members, ([each, content]) => [key(each), content]))
      return folded.get(key(name))
    }

    const text = (name: string) => {
      const content = part(name)
      return content === undefined ? undefined : decode(content)
    }

    const repeated = new Xml.Repeated()
    const xmlLimits = { ...Xml.limits, nodes: Math.min(Xml.limits.nodes, maxNodes) }
    const parsed = (name: string, content: string): Either.Either<Xml.Tree, Refusal> =>
      repeated.nodes > maxNodes
        ? Either.left({ kind: "Undecidable", reason: `more than ${maxNodes} XML nodes` })
        : Either.mapLeft(Xml.parse(content, xmlLimits, repeated), ({ kind, reason }) => ({
            kind,
            reason: `${name}: ${reason}`
          }))
    const xml = (name: string): Either.Either<Xml.Tree | undefined, Refusal> => {
      const content = text(name)
      return content === undefined ? Either.right(undefined) : parsed(name, content)
    }

    // By folder and text: those of slides that have a layout and nothing else are all alike.
    const listed = new Map<string, Either.Either<ReadonlyArray<Relationship>, Refusal>>()
    const relationships = memoize((partName): Either.Either<ReadonlyArray<Relationship>, Refusal> => {
      const from = partName.replace(/^\//, "")
      const slash = from.lastIndexOf("/") + 1
      const folder = from.slice(0, slash)
      const name = `${folder}_rels/${from.slice(slash)}.rels`
      const content = text(name)
      if (content === undefined) return Either.right([])
      const place = `${folder}\0${content}`
      const known = listed.get(place)
      if (known !== undefined) return known
      const list = Either.map(parsed(name, content), (root) =>
        Xml.children(root, "Relationship").map((relation) => {
          const written = Xml.attribute(relation, "Target") ?? ""
          const type = Xml.attribute(relation, "Type") ?? ""
          const external = Xml.attribute(relation, "TargetMode") === "External"
          return {
            id: Xml.attribute(relation, "Id") ?? "",
            kind: type.slice(type.lastIndexOf("/") + 1),
            external,
            target: external ? written : resolve(from, written),
            written
          }
        })
      )
      listed.set(place, list)
      return list
    })

    const media = (name: string): Either.Either<Uint8Array | undefined, Refusal> => {
      const known = part(name)
      if (known !== undefined) return Either.right(known)
      const wanted = key(name)
      return Either.map(
        unzip(bytes, (each) => key(each) === wanted),
        (found) => found.values().next().value
      )
    }

    return { names, text, xml, relationships, media }
  })
}
