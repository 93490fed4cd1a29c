import { readdirSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import { assert, describe, it } from "@effect/vitest"

const src = fileURLToPath(new URL("../src", import.meta.url))

/** Values that a package's user can import: not the command's own rooms, nor what a guest runs. */
const isPublic = (file: string): boolean =>
  file.endsWith(".ts") && !/(^|\/)(internal|guest)\//.test(file) && !file.startsWith("cli/") && !/index\.ts$/.test(file)

/** An exported value or class, with the comment that ends on the line before it. */
const exported = /(\/\*\*(?:(?!\*\/)[\s\S])*?\*\/\n)?^export (?:const|class|abstract class) (\w+)/gm

/** The words of a comment without its marks and tags. */
const words = (comment: string): string =>
  comment
    .split("\n")
    .map((line) => line.replace(/^[\s/*]+|[\s*/]+$/g, ""))
    .filter((line) => !line.startsWith("@"))
    .join(" ")
    .trim()

const undocumented = (source: string): ReadonlyArray<string> =>
  Array.from(source.matchAll(exported))
    .filter(([, comment = ""]) => words(comment) === "")
    .map(([, , name = ""]) => name)

describe("docstrings", () => {
  it("each value and class that is exported says what it is", () => {
    const files = (readdirSync(src, { recursive: true }) as Array<string>).filter(isPublic)
    assert.isAbove(files.length, 100)
    const silent = files.flatMap((file) =>
      undocumented(readFileSync(join(src, file), "utf8")).map((name) => `${file}: ${name}`)
    )
    assert.deepStrictEqual(silent, [])
  })

  it("sees one that says nothing", () => {
    const tags = "/**\n * @since 0.1.0\n * @category models\n */\n"
    assert.deepStrictEqual(undocumented(`${tags}export const a = 1\nexport class B {}\n`), ["a", "B"])
    assert.deepStrictEqual(undocumented(`/**\n * What it is.\n *\n * @since 0.1.0\n */\nexport const a = 1\n`), [])
  })
})
