/**
 * An Open Packaging archive (.pptx, .docx, .xlsx): parts and relationships. XML parts are unpacked when it
 * is opened, media only when somebody asks for them.
 *
 * Format: ECMA-376 part 2.
 */
import * as Either from "effect/Either"
import type { Refusal } from "../Reader.js"
import * as Xml from "./xmlTree.js"
import { limits, unzip } from "./zip.js"

export interface Relationship {
  readonly id: string
  /** The last word of its type: `slideLayout`, `image`, `hyperlink`. Strict and transitional files share it. */
  readonly kind: string
  readonly external: boolean
  /** A part's name without the leading `/`, or, of an external one, the target as it is written. */
  readonly target: string
}

export interface Package {
  /** In the archive's order, without a leading `/`. */
  readonly names: ReadonlyArray<string>
  /** The bytes of an XML part; `undefined` where there is no such part. */
  readonly part: (name: string) => Uint8Array | undefined
  /** The root of an XML part, parsed for this call; `undefined` where there is no such part. */
  readonly xml: (name: string) => Either.Either<Xml.Tree | undefined, Refusal>
  /** Those of a part, or of the package itself (`""`), in the file's order; none where it has no such file. */
  readonly relationships: (partName: string) => Either.Either<ReadonlyArray<Relationship>, Refusal>
  /** The bytes of any part, unpacked for this call: pictures, sounds, fonts. */
  readonly media: (name: string) => Either.Either<Uint8Array | undefined, Refusal>
}

/** A tree takes several times its text's memory. */
const xmlLimits = { ...limits, entryBytes: 16 * 1024 * 1024, totalBytes: 48 * 1024 * 1024 }

/** Of all parts that are parsed, after which no other is: what a deck of some thousand full slides has. */
const maxNodes = 3_000_000

const isXml = (name: string): boolean => /\.(xml|rels|vml)$/i.test(name)

/** The name of the part that a target leads to, seen from the part `from`. */
export const resolve = (from: string, target: string): string => {
  const path = target.startsWith("/") ? [] : from.split("/").slice(0, -1)
  for (const step of target.split("/")) {
    if (step === "..") path.pop()
    else if (step !== "." && step !== "") path.push(step)
  }
  return path.join("/")
}

/** Part names are compared without regard to the case of ASCII letters. */
const key = (name: string): string => (name.startsWith("/") ? name.slice(1) : name).toLowerCase()

const utf8 = new TextDecoder()

const decode = (bytes: Uint8Array): string => {
  const [first, second] = bytes
  if (first === 0xff && second === 0xfe) return new TextDecoder("utf-16le").decode(bytes)
  return first === 0xfe && second === 0xff ? new TextDecoder("utf-16be").decode(bytes) : utf8.decode(bytes)
}

const memoize = <A>(compute: (name: string) => A): ((name: string) => A) => {
  const known = new Map<string, A>()
  return (name) => {
    const before = known.get(name)
    if (before !== undefined) return before
    const value = compute(name)
    known.set(name, value)
    return value
  }
}

/** The value of an attribute that has a prefix, whichever: `r:id`, beside which there may be an `id`. */
export const prefixed = (element: Xml.Tree | undefined, localName: string): string | undefined =>
  new RegExp(`(?:^|\\s)[^\\s:="']+:${localName}\\s*=\\s*["']([^"']*)["']`).exec(element?.written ?? "")?.[1]

export const open = (bytes: Uint8Array): Either.Either<Package, Refusal> => {
  const names: Array<string> = []
  const note = (name: string) => {
    if (!name.endsWith("/")) names.push(name)
    return isXml(name)
  }
  return Either.map(unzip(bytes, note, xmlLimits), (members): Package => {
    // Programs write names in one case, mostly: what is asked for is there as it is written.
    let folded: ReadonlyMap<string, Uint8Array> | undefined
    const part = (name: string) => {
      const known = members.get(name)
      if (known !== undefined) return known
      folded ??= new Map(Array.from(members, ([each, content]) => [key(each), content]))
      return folded.get(key(name))
    }

    const repeated = new Xml.Repeated()
    const parsed = (name: string, text: string): Either.Either<Xml.Tree, Refusal> =>
      repeated.nodes > maxNodes
        ? Either.left({ kind: "Undecidable", reason: `more than ${maxNodes} XML nodes` })
        : Either.mapLeft(Xml.parse(text, Xml.limits, repeated), ({ kind, reason }) => ({
            kind,
            reason: `${name}: ${reason}`
          }))
    const xml = (name: string): Either.Either<Xml.Tree | undefined, Refusal> => {
      const content = part(name)
      return content === undefined ? Either.right(undefined) : parsed(name, decode(content))
    }

    // By folder and text: those of slides that have a layout and nothing else are all alike.
    const listed = new Map<string, Either.Either<ReadonlyArray<Relationship>, Refusal>>()
    const relationships = memoize((partName): Either.Either<ReadonlyArray<Relationship>, Refusal> => {
      const from = partName.replace(/^\//, "")
      const slash = from.lastIndexOf("/") + 1
      const folder = from.slice(0, slash)
      const name = `${folder}_rels/${from.slice(slash)}.rels`
      const content = part(name)
      if (content === undefined) return Either.right([])
      const text = decode(content)
      const place = `${folder}\0${text}`
      const known = listed.get(place)
      if (known !== undefined) return known
      const list = Either.map(parsed(name, text), (root) =>
        Xml.children(root, "Relationship").map((relation) => {
          const target = Xml.attribute(relation, "Target") ?? ""
          const type = Xml.attribute(relation, "Type") ?? ""
          const external = Xml.attribute(relation, "TargetMode") === "External"
          return {
            id: Xml.attribute(relation, "Id") ?? "",
            kind: type.slice(type.lastIndexOf("/") + 1),
            external,
            target: external ? target : resolve(from, target)
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

    return { names, part, xml, relationships, media }
  })
}
