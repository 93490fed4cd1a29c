/** The tags of an MP3 file, by the names that Mutagen's `EasyID3` has for them. */
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import { type Reader as ReaderType, Unusable } from "../Metric.js"
import * as Reader from "../Reader.js"

const names: Readonly<Record<string, string>> = {
  TALB: "album",
  TBPM: "bpm",
  TCMP: "compilation",
  TCOM: "composer",
  TCON: "genre",
  TCOP: "copyright",
  TDOR: "originaldate",
  TDRC: "date",
  TENC: "encodedby",
  TEXT: "lyricist",
  TIT1: "grouping",
  TIT2: "title",
  TIT3: "version",
  TLAN: "language",
  TLEN: "length",
  TMED: "media",
  TMOO: "mood",
  TOLY: "author",
  TORY: "originaldate",
  TPE1: "artist",
  TPE2: "albumartist",
  TPE3: "conductor",
  TPE4: "arranger",
  TPOS: "discnumber",
  TPUB: "organization",
  TRCK: "tracknumber",
  TSO2: "albumartistsort",
  TSOA: "albumsort",
  TSOC: "composersort",
  TSOP: "artistsort",
  TSOT: "titlesort",
  TSRC: "isrc",
  TSST: "discsubtitle"
}

/** ID3v1 has its own few fields. */
const oldNames: Readonly<Record<string, string>> = { year: "date", track: "tracknumber" }

interface Tag {
  readonly id: string
  readonly value: unknown
}

/** ID3v2.3 keeps day and month (DDMM) apart from the year. */
const dateOf = (tags: ReadonlyArray<Tag>): string | undefined => {
  const [year, day] = ["TYER", "TDAT"].map((id) => tags.find((tag) => tag.id === id)?.value)
  if (year === undefined) return undefined
  return typeof day === "string" && /^\d{4}$/.test(day) ? `${year}-${day.slice(2)}-${day.slice(0, 2)}` : String(year)
}

/** Each tag's values, from the tags as the file has them. */
const easy = (version: string, tags: ReadonlyArray<Tag>): ReadonlyMap<string, ReadonlyArray<string>> => {
  const found = new Map<string, Array<string>>()
  for (const { id, value } of tags) {
    const name = version === "ID3v1" ? (oldNames[id] ?? id) : names[id]
    if (name === undefined || (typeof value !== "string" && typeof value !== "number")) continue
    const values = found.get(name) ?? []
    // Before ID3v2.4 a text is one text; the library takes it apart at its slashes.
    if (version === "ID3v2.3" && values[0] !== undefined) values[0] += `/${value}`
    else values.push(String(value))
    found.set(name, values)
  }
  const date = dateOf(tags)
  if (date !== undefined) found.set("date", [date])
  return found
}

/** A file without any ID3 tags is unparsable. */
export const tags: ReaderType<ReadonlyMap<string, ReadonlyArray<string>>> = (value) =>
  Effect.gen(function* () {
    const bytes = yield* Reader.file((bytes) => Either.right(bytes))(value)
    const unparsable = (reason: string, cause?: unknown) => new Unusable({ kind: "Unparsable", reason, cause })
    const { parseBuffer } = yield* Effect.promise(() => import("music-metadata"))
    const { native } = yield* Effect.tryPromise({
      try: () => parseBuffer(bytes, { mimeType: "audio/mpeg" }, { duration: false, skipCovers: true }),
      catch: (cause) => unparsable("no sound that has tags", cause)
    })
    for (const version of ["ID3v2.4", "ID3v2.3", "ID3v2.2", "ID3v1"] as const) {
      const found = native[version]
      if (found !== undefined) return easy(version, found)
    }
    return yield* unparsable("no ID3 tags")
  })
