/**
 * What it costs to grade one spreadsheet, presentation or document: the first time in a process, and once it is warm,
 * beside a bare loop that unpacks both files and decodes their XML. LibreOffice writes the files, up to the size of 1 MB.
 *
 *     npm run bench:evaluators -- [--runs 10] [--firsts 5]
 *
 * The aim is under 300 ms for a file under 1 MB. Both times are shown: that of the clock, and that of the processors, in
 * which what Node compiles and collects in threads of its own counts too.
 *
 * What is measured is JavaScript, as it is published. From a clone programs run through tsx, which has its own price the
 * first time; that one stands beside it.
 */
import { execFileSync, spawnSync } from "node:child_process"
import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs"
import { cpus, tmpdir } from "node:os"
import { basename, join } from "node:path"
import { fileURLToPath } from "node:url"
import { parseArgs } from "node:util"
import * as NodeContext from "@effect/platform-node/NodeContext"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as ManagedRuntime from "effect/ManagedRuntime"
import { tuneEngine } from "../../src/cli/internal/engine.js"
import { table } from "../../src/cli/internal/table.js"
import { unzip } from "../../src/osworld/evaluator/internal/zip.js"
import { Value } from "../../src/osworld/evaluator/Metric.js"
import * as Metrics from "../../src/osworld/evaluator/Metrics.js"

interface Subject {
  readonly metric: string
  readonly options: Record<string, unknown>
}

const subjects: Readonly<Record<string, Subject>> = {
  xlsx: {
    metric: "compare_table",
    options: { rules: [{ type: "sheet_data", sheet_idx0: 0, sheet_idx1: "EI0" }] }
  },
  pptx: { metric: "compare_pptx_files", options: {} },
  docx: { metric: "compare_docx_files", options: {} }
}

const { values, positionals } = parseArgs({
  options: {
    runs: { type: "string", default: "10" },
    firsts: { type: "string", default: "5" },
    one: { type: "boolean", default: false }
  },
  allowPositionals: true
})
const runs = Number(values.runs)
const firsts = Number(values.firsts)

const platform = ManagedRuntime.make(NodeContext.layer)

const evaluate = async (file: string): Promise<number> => {
  const subject = subjects[file.slice(file.lastIndexOf(".") + 1)]
  if (subject === undefined) throw new Error(`nothing grades ${file}`)
  const value = Value.File({ path: file, name: basename(file) })
  const score = await platform.runPromise(
    Effect.flatMap(Metrics.get(subject.metric), ({ evaluate }) =>
      evaluate({ result: value, expected: value, options: subject.options })
    )
  )
  if (score !== 1) throw new Error(`${file} is not equal to itself: ${score}`)
  return score
}

const bare = (file: string): number => {
  let characters = 0
  for (let side = 0; side < 2; side++) {
    const parts = Either.getOrThrow(unzip(readFileSync(file), (name) => /\.(?:xml|rels)$/.test(name)))
    for (const bytes of parts.values()) {
      const text = new TextDecoder().decode(bytes)
      for (let at = 0; at < text.length; at++) if (text.charCodeAt(at) === 60) characters++
    }
  }
  return characters
}

/** Milliseconds of a clock, and of the processors: the collector's threads work beside the program's. */
interface Time {
  readonly wall: number
  readonly cpu: number
}

const timed = async (work: () => unknown): Promise<Time> => {
  const before = process.cpuUsage()
  const began = performance.now()
  await work()
  const wall = performance.now() - began
  const { system, user } = process.cpuUsage(before)
  return { wall, cpu: (system + user) / 1000 }
}

const middle = (times: ReadonlyArray<number>): number =>
  [...times].sort((a, b) => a - b)[times.length >> 1] ?? Number.NaN

const median = (times: ReadonlyArray<Time>): Time => ({
  wall: middle(times.map(({ wall }) => wall)),
  cpu: middle(times.map(({ cpu }) => cpu))
})

const [only] = positionals
if (values.one && only !== undefined) {
  // As `runMain` does.
  tuneEngine()
  await platform.runtime()
  // The list of metrics and the platform's services are there by now, as they are in a run.
  const first = await timed(() => evaluate(only))
  const warm: Array<Time> = []
  const alone: Array<Time> = []
  for (let run = 0; run < runs; run++) {
    warm.push(await timed(() => evaluate(only)))
    alone.push(await timed(() => bare(only)))
  }
  console.log(JSON.stringify({ first, warm: median(warm), bare: median(alone) }))
  process.exit(0)
}

// -----------------------------------------------------------------------------
// Files
// -----------------------------------------------------------------------------

const soffice = ["soffice", "libreoffice"].find((name) => spawnSync("which", [name]).status === 0)
if (soffice === undefined) {
  console.error("LibreOffice writes the files of this bench, and is not installed: apt-get install libreoffice-calc")
  process.exit(1)
}

let state = 20261129
const random = (below: number): number => {
  state = (Math.imul(state, 1664525) + 1013904223) >>> 0
  return Math.floor((state / 2 ** 32) * below)
}
const words =
  "time year people way day man thing woman life child world school state family student group country".split(" ")
const word = () => `${words[random(words.length)]}${random(1000)}`
const sentence = (length: number) => Array.from({ length }, word).join(" ")

const spaces = ["office", "table", "text", "style", "draw", "presentation"]
  .map((name) => `xmlns:${name}="urn:oasis:names:tc:opendocument:xmlns:${name === "draw" ? "drawing" : name}:1.0"`)
  .concat(
    `xmlns:fo="urn:oasis:names:tc:opendocument:xmlns:xsl-fo-compatible:1.0"`,
    `xmlns:svg="urn:oasis:names:tc:opendocument:xmlns:svg-compatible:1.0"`
  )
  .join(" ")

const flat = (mimetype: string, body: string) =>
  `<?xml version="1.0" encoding="UTF-8"?><office:document ${spaces} office:version="1.3" office:mimetype="application/vnd.oasis.opendocument.${mimetype}"><office:body>${body}</office:body></office:document>`

const documents: Readonly<Record<string, (size: number) => string>> = {
  xlsx: (rows) =>
    flat(
      "spreadsheet",
      `<office:spreadsheet><table:table table:name="Data">${Array.from(
        { length: rows },
        () =>
          `<table:table-row>${Array.from({ length: 12 }, (_, column) =>
            column < 4
              ? `<table:table-cell office:value-type="string"><text:p>${sentence(2)}</text:p></table:table-cell>`
              : `<table:table-cell office:value-type="float" office:value="${random(1_000_000) / 100}"/>`
          ).join("")}</table:table-row>`
      ).join("")}</table:table></office:spreadsheet>`
    ),
  docx: (paragraphs) =>
    flat(
      "text",
      `<office:text>${Array.from({ length: paragraphs }, () => `<text:p>${sentence(60)}</text:p>`).join("")}</office:text>`
    ),
  pptx: (slides) =>
    flat(
      "presentation",
      `<office:presentation>${Array.from(
        { length: slides },
        (_, slide) =>
          `<draw:page draw:name="page${slide}">${Array.from(
            { length: 6 },
            (_, box) =>
              `<draw:frame svg:x="${1 + (box % 3) * 8}cm" svg:y="${2 + Math.floor(box / 3) * 6}cm" svg:width="7cm" svg:height="5cm"><draw:text-box><text:p>${sentence(14)}</text:p></draw:text-box></draw:frame>`
          ).join("")}</draw:page>`
      ).join("")}</office:presentation>`
    )
}

const sources: Readonly<Record<string, string>> = { xlsx: "fods", docx: "fodt", pptx: "fodp" }

const folder = mkdtempSync(join(tmpdir(), "deskhand-bench-"))
process.on("exit", () => rmSync(folder, { recursive: true, force: true }))

const write = (extension: string, name: string, size: number): string => {
  const make = documents[extension]
  if (make === undefined) throw new Error(`nothing writes .${extension}`)
  const source = join(folder, `${name}.${sources[extension]}`)
  writeFileSync(source, make(size))
  execFileSync(
    soffice,
    [
      `-env:UserInstallation=file://${folder}/profile`,
      "--headless",
      "--convert-to",
      extension,
      "--outdir",
      folder,
      source
    ],
    { stdio: "ignore" }
  )
  return join(folder, `${name}.${extension}`)
}

const kilobytes = (bytes: number) => `${Math.round(bytes / 1024)} KB`
const ms = ({ cpu, wall }: Time) => [wall, cpu].map((time) => time.toFixed(time < 10 ? 1 : 0)).join(" / ")

interface Measured {
  readonly first: Time
  readonly warm: Time
  readonly bare: Time
}

/** In a process of its own, which `program` starts. */
const measure = (program: ReadonlyArray<string>, file: string, times: number): Measured =>
  JSON.parse(execFileSync(process.execPath, [...program, "--one", "--runs", String(times), file], { encoding: "utf8" }))

/** There is one first time a process. */
const measureFirst = (program: ReadonlyArray<string>, file: string): Time =>
  median(Array.from({ length: firsts }, () => measure(program, file, 0).first))

const built = [fileURLToPath(import.meta.url)]
// npm starts scripts in the package's folder.
const cloned = ["--import", "tsx", "test/bench/evaluators.ts"]

/** What LibreOffice makes of these is nearly 1 MB. */
const largest: Readonly<Record<string, number>> = { xlsx: 9_400, docx: 6_000, pptx: 570 }
/** About half of that. */
const middling: Readonly<Record<string, number>> = { xlsx: 5_500, docx: 2_600, pptx: 220 }
const usual: Readonly<Record<string, number>> = { xlsx: 300, docx: 60, pptx: 12 }

console.log(
  `${cpus().length} cores, ${cpus()[0]?.model}; milliseconds of the clock / of the processors, the median of ${runs} where it is warm and of ${firsts} processes the first time`
)
const rows: Array<ReadonlyArray<string>> = []
for (const extension of Object.keys(subjects)) {
  for (const [name, sizes] of [
    ["usual", usual],
    ["middling", middling],
    ["large", largest]
  ] as const) {
    const file = write(extension, name, sizes[extension] ?? 1)
    const { bare, warm } = measure(built, file, runs)
    const first = measureFirst(built, file)
    rows.push([
      `${name}.${extension}`,
      kilobytes(statSync(file).size),
      ms(first),
      ms(warm),
      ms(bare),
      `${(warm.cpu / bare.cpu).toFixed(1)}`,
      warm.wall < 300 ? "yes" : "no",
      first.wall < 300 ? "yes" : "no",
      ms(measureFirst(cloned, file))
    ])
  }
}
const columns = ["", "size", "first time", "warm", "bare", "ratio", "warm < 300 ms", "first < 300 ms", "first, tsx"]
console.log(table(columns, rows))
