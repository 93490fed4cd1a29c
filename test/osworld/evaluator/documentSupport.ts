import { readFileSync } from "node:fs"
import * as Effect from "effect/Effect"
import { strFromU8, strToU8, unzipSync, zipSync } from "fflate"
import type { Metric, MetricContext } from "../../../src/osworld/evaluator/Metric.js"
import { file, fixture, json, judge, written } from "./support.js"

/** What `report.fodt` became in LibreOffice. */
export const report = new Uint8Array(readFileSync(fixture("documents/report.docx")))
export const reportOdt = new Uint8Array(readFileSync(fixture("documents/report.odt")))

type Change = readonly [from: string | RegExp, to: string]

/** A document with changes in one part; each has to find something. */
export const edited =
  (archive: Uint8Array, part: string) =>
  (...changes: ReadonlyArray<Change>): Uint8Array => {
    const members = unzipSync(archive)
    const before = strFromU8(members[part] ?? new Uint8Array())
    const after = changes.reduce((text, [from, to]) => {
      const next = text.replaceAll(typeof from === "string" ? from : new RegExp(from, "g"), to)
      if (next === text) throw new Error(`${String(from)} is not in ${part}`)
      return next
    }, before)
    return zipSync({ ...members, [part]: strToU8(after) })
  }

export const editedReport = edited(report, "word/document.xml")

/** The smallest .docx with this body. */
export const docx = (body: string, parts: Record<string, string | Uint8Array> = {}): Uint8Array =>
  zipSync({
    "_rels/.rels": strToU8(
      '<Relationships><Relationship Id="r" Type="x/officeDocument" Target="word/document.xml"/></Relationships>'
    ),
    "word/document.xml": strToU8(`<w:document xmlns:w="w"><w:body>${body}</w:body></w:document>`),
    ...Object.fromEntries(
      Object.entries(parts).map(([name, content]) => [name, typeof content === "string" ? strToU8(content) : content])
    )
  })

const escape = (text: string) => text.replace(/&/g, "&amp;").replace(/</g, "&lt;")

export const run = (text: string, properties = "") =>
  `<w:r><w:rPr>${properties}</w:rPr><w:t xml:space="preserve">${escape(text)}</w:t></w:r>`

export const paragraph = (content: string, properties = "") => `<w:p><w:pPr>${properties}</w:pPr>${content}</w:p>`

/** A .docx of these paragraphs. */
export const lines = (...texts: ReadonlyArray<string>) => docx(texts.map((text) => paragraph(run(text))).join(""))

/** The smallest .odt with this body. */
export const odt = (body: string, automatic = ""): Uint8Array =>
  zipSync({
    "content.xml": strToU8(
      `<office:document-content><office:automatic-styles>${automatic}</office:automatic-styles><office:body><office:text>${body}</office:text></office:body></office:document-content>`
    )
  })

/** No archive at all, a torn one, an archive of something else, XML that breaks off. */
export const malformed: ReadonlyArray<Uint8Array> = [
  strToU8("no document"),
  report.slice(0, 2000),
  zipSync({ "a.txt": strToU8("a") }),
  docx("<w:p>")
]

/** A metric on files that are written for it; a plain object is a rule. */
export const compare = (
  metric: Metric,
  result: Uint8Array,
  expected?: Uint8Array | ReadonlyArray<Uint8Array> | Record<string, unknown>,
  options: Record<string, unknown> = {},
  context: Partial<MetricContext> & { readonly extension?: string } = {}
) =>
  Effect.gen(function* () {
    const { extension = "docx", ...rest } = context
    const files = expected instanceof Uint8Array ? [expected] : Array.isArray(expected) ? expected : undefined
    const name = (i: number) => `expected-${i}.${extension}`
    const at = yield* written({
      [`result.${extension}`]: result,
      ...Object.fromEntries((files ?? []).map((bytes, i) => [name(i), bytes]))
    })
    const given = files?.map((_, i) => ({ path: at(name(i)), name: name(i) }))
    const [only] = given ?? []
    const value =
      only === undefined
        ? expected === undefined
          ? undefined
          : json(expected)
        : given !== undefined && given.length > 1
          ? ({ _tag: "Files", files: given } as const)
          : file(only.path)
    return yield* judge(metric, file(at(`result.${extension}`)), value, options, rest)
  })
