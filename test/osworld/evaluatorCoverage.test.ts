/**
 * Whether each metric and each getter has a case that passes, one that fails and one that is malformed. It reads the
 * sources of the tests: a case is found by the metric's constant or by its name, and by what is asserted of it.
 */
import { readdirSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { assert, describe, it } from "@effect/vitest"
import * as Getters from "../../src/osworld/evaluator/Getters.js"
import * as Metrics from "../../src/osworld/evaluator/Metrics.js"

const sources = join(import.meta.dirname, "../../src/osworld/evaluator")
const tests = join(import.meta.dirname, "evaluator")

interface Piece {
  readonly folder: string
  readonly file: string
  readonly text: string
}

const read = (folder: string, name: RegExp): ReadonlyArray<Piece> =>
  readdirSync(folder)
    .filter((file) => name.test(file))
    .map((file) => ({ folder, file, text: readFileSync(join(folder, file), "utf8") }))

/** A file's statements of the outermost level, and the cases in its `describe`s, which the formatter sets in by two. */
const piecesOf = ({ file, folder, text }: Piece): ReadonlyArray<Piece> => {
  const statements = text.split(/\n(?=\S)(?!\)|\}|\])/)
  return statements.flatMap((statement) =>
    /^describe|^layer\(/.test(statement)
      ? statement.split(/\n {2}(?=\S)(?!\)|\}|\])/).map((text) => ({ folder, file, text }))
      : [{ folder, file, text: statement }]
  )
}

const files = [
  ...read(tests, /\.test\.ts$/).filter(({ file }) => file !== "loading.test.ts"),
  // Getters that share an account or a browser with a setup step are tested with it.
  ...read(import.meta.dirname, /^Setup\w*\.test\.ts$/)
]

/** Constants of metrics by the name that they give. */
const constants = new Map(
  read(sources, /\.ts$/).flatMap(({ text }) =>
    Array.from(
      text.matchAll(/export const (\w+)[^=\n]*= [\s\S]*?"(\w+)"/g),
      ([, constant = "", name = ""]) => [name, constant] as const
    )
  )
)

const escaped = (text: string) => text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")

const lists = /\b(?:of |\.\.\.)?(?:(\w+)\.)?(metrics|getters)\b(?=\)|\.(?:map|flatMap|filter|forEach)\b|,? \()/

/** The names of a module's list that a piece goes through, one by one. */
const throughOf = async (file: Piece, piece: Piece): Promise<ReadonlyArray<string>> => {
  const [, space, list] = lists.exec(piece.text) ?? []
  if (list === undefined) return []
  const imported = space === undefined ? `\\{[^}]*\\b${list}\\b[^}]*\\}` : `\\* as ${space}`
  const from = new RegExp(`import ${imported} from "([^"]+)"`).exec(file.text)?.[1]
  if (from === undefined || from === "vitest") return []
  const module: Record<string, unknown> = await import(join(file.folder, from.replace(/\.js$/, ".ts")))
  const members = module[list]
  return Array.isArray(members) ? members.map(({ name }) => String(name)) : []
}

const through = new Map<string, ReadonlyArray<string>>()
for (const file of files) {
  for (const piece of piecesOf(file)) {
    if (!/^import\b/.test(piece.text)) through.set(`${file.file} ${piece.text}`, await throughOf(file, piece))
  }
}

/** What is said of a name: the cases that name it, and the file where a table or a helper does. */
const about = (name: string, constant: string | undefined): string => {
  const words = [`["'\`]${escaped(name)}\\b`, ...(constant === undefined ? [] : [`\\b${constant}\\b`])]
  const mention = new RegExp(words.join("|"))
  const isAbout = (piece: Piece) =>
    !/^import\b/.test(piece.text) &&
    (mention.test(piece.text) || through.get(`${piece.file} ${piece.text}`)?.includes(name) === true)
  return files
    .flatMap((file) => {
      const mentioned = piecesOf(file).filter(isAbout)
      if (mentioned.length === 0) return []
      const cases = mentioned.filter(({ text }) => /^(?:it|test|layer|effect)\b|assert\./.test(text))
      return cases.length > 0 && cases.length === mentioned.length ? cases.map(({ text }) => text) : [file.text]
    })
    .join("\n")
}

const kinds = {
  metrics: {
    passes: /(?:,|:|=>|\?)\s*1\b|passes|accepts/,
    fails: /(?:,|:|=>|\?)\s*0\b|fails|refuses|rejects/,
    malformed:
      /\bmissing\b|broken|malformed|garbage|unparsable|damaged|nonsense|cannot|bad options|not supported|no (?:JSON|ZIP|picture|XML)|assert\.(?:include|match|isString|typeOf)\(/i
  },
  getters: {
    passes: /assert\.(?:strictEqual|deepStrictEqual|isTrue|include|deepInclude|match)\(/,
    fails: /missing|there is no|absent|nothing|not there|"Missing"|none|default/i,
    malformed: /failed|broken|refus|malformed|Unreachable|validate|flip|wrong|cannot|garbage|damaged|isString|error/i
  }
}

type Kind = "metrics" | "getters"

const rowOf = (kind: Kind, name: string) => {
  const text = about(name, kind === "metrics" ? constants.get(name) : undefined)
  const { fails, malformed, passes } = kinds[kind]
  return { name, passes: passes.test(text), fails: fails.test(text), malformed: malformed.test(text) }
}

const names = {
  metrics: Metrics.all.map(({ name }) => name).sort(),
  getters: Getters.all.map(({ name }) => name).sort()
}

describe("cases of", () => {
  for (const kind of ["metrics", "getters"] as const) {
    it(`${kind}: one that passes, one that fails, one that is malformed`, () => {
      const rows = names[kind].map((name) => rowOf(kind, name))
      const mark = (is: boolean) => (is ? "yes" : "NO ")
      const width = Math.max(...names[kind].map((name) => name.length))
      const line = ({ fails, malformed, name, passes }: (typeof rows)[number]) =>
        `${name.padEnd(width)}  ${mark(passes)}     ${mark(fails)}    ${mark(malformed)}`
      console.log([`${kind.padEnd(width)}  passes  fails  malformed`, ...rows.map(line)].join("\n"))
      const short = rows.filter(({ fails, malformed, passes }) => !(passes && fails && malformed)).map(line)
      assert.deepStrictEqual(short, [])
    })
  }

  it("a name that nobody tests would be seen", () => {
    assert.deepStrictEqual(rowOf("metrics", "no_such_metric_at_all"), {
      ...{ name: "no_such_metric_at_all", passes: false, fails: false, malformed: false }
    })
  })
})
