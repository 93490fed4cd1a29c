/**
 * Metrics over what editors keep: VS Code's key bindings, configuration, extensions; and archives of what they wrote.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Schema from "effect/Schema"
import * as Difflib from "./internal/difflib.js"
import * as Json from "./internal/json.js"
import * as Pdf from "./internal/pdf.js"
import { unzip } from "./internal/zip.js"
import { type Metric, make, makeEffect, verdict } from "./Metric.js"
import * as Reader from "./Reader.js"

const none = Schema.Struct({})

/** A comment in the first line is what VS Code writes; upstream knows no other. */
const parseBindings = (text: string, compat: boolean): unknown => {
  if (!compat) return Either.getOrUndefined(Json.parseWithComments(text))
  const whole = Either.getOrUndefined(Json.parse(text))
  return Array.isArray(whole) ? whole : Either.getOrUndefined(Json.parse(text.replace(/^[^\n]*\n/, "")))
}

const expectingBinding = Reader.json(
  Schema.Struct({ expected: Schema.Record({ key: Schema.String, value: Schema.Unknown }) })
)

/**
 * A list of key bindings has the expected one, exactly. Comments and trailing commas are tolerated, as VS Code tolerates
 * them.
 *
 * @since 0.1.0
 * @category metrics
 */
export const checkJsonKeybindings: Metric = make({
  name: "check_json_keybindings",
  result: Reader.text,
  expected: expectingBinding,
  options: none,
  score: (text, { expected }, _, { compat }) => {
    const bindings = parseBindings(text, compat)
    return verdict(Array.isArray(bindings) && bindings.some((one) => Json.equals(one, expected)))
  }
})

/** Objects may say more than is expected, at any depth; lists may not. */
const includes = (found: unknown, wanted: unknown): boolean =>
  Json.isObject(wanted)
    ? Json.isObject(found) &&
      Object.entries(wanted).every(([key, value]) => Object.hasOwn(found, key) && includes(found[key], value))
    : Json.equals(found, wanted)

const expectingText = Reader.json(Schema.Struct({ expected: Schema.NonEmptyString }))

/**
 * A configuration says what is expected. Both are JSON: objects may then say more. Or one of them is none: the expected
 * text is a part of it. Without `containment_ok` both are the same text, or the same JSON.
 *
 * @since 0.1.0
 * @category metrics
 */
export const compareConfig: Metric = make({
  name: "compare_config",
  result: Reader.text,
  expected: expectingText,
  options: Schema.Struct({
    containment_ok: Schema.optionalWith(Schema.Boolean, { default: () => true, nullable: true })
  }),
  score: (text, { expected }, { containment_ok }) => {
    const both = Either.all([Json.parse(text), Json.parse(expected)])
    if (containment_ok) {
      return verdict(
        Either.match(both, {
          onLeft: () => text.includes(expected.trim()),
          onRight: ([found, wanted]) => includes(found, wanted)
        })
      )
    }
    return verdict(text === expected || (Either.isRight(both) && Json.equals(both.right[0], both.right[1])))
  }
})

const extensionRule = Reader.json(
  Schema.Struct({ type: Schema.Literal("contain", "not_contain"), expected: Schema.NonEmptyString })
)

/**
 * The list of extensions names the expected one, or, by the rule's type `not_contain`, does not.
 *
 * @since 0.1.0
 * @category metrics
 */
export const isExtensionInstalled: Metric = make({
  name: "is_extension_installed",
  result: Reader.text,
  expected: extensionRule,
  options: none,
  score: (text, { expected, type }) => verdict(text.includes(expected) === (type === "contain"))
})

const archive = Reader.file((bytes) => unzip(bytes, () => true))

/** Two PDFs of an archive are the same from this similarity of their texts on. */
const samePdf = 0.95

const pdfText = (name: string, bytes: Uint8Array) => Pdf.text({ name, bytes })

const similarPdfs = (name: string, found: Uint8Array, wanted: Uint8Array): Effect.Effect<boolean, string> =>
  Effect.gen(function* () {
    const expected = yield* Effect.mapError(pdfText(name, wanted), ({ reason }) => `expected value: ${reason}`)
    const text = yield* Effect.catchAll(pdfText(name, found), ({ kind, reason }) =>
      kind === "Undecidable" ? Effect.fail(`result: ${reason}`) : Effect.succeed(undefined)
    )
    if (text === undefined || text === expected) return text === expected
    return (yield* Difflib.ratio(Array.from(text), Array.from(expected))) >= samePdf
  })

const sameBytes = (a: Uint8Array, b: Uint8Array): boolean => Buffer.compare(a, b) === 0

/**
 * Two ZIP archives hold the same files under the same names; PDFs need but say nearly the same (0.95 of
 * `difflib.SequenceMatcher`'s ratio, by characters). Upstream also minds whether folders are named on their own.
 *
 * @since 0.1.0
 * @category metrics
 */
export const compareZipFiles: Metric = makeEffect({
  name: "compare_zip_files",
  result: archive,
  expected: archive,
  options: none,
  score: (result, expected, _, { compat }) =>
    Effect.gen(function* () {
      const names = (members: ReadonlyMap<string, Uint8Array>) =>
        Array.from(members.keys())
          .filter((name) => compat || !name.endsWith("/"))
          .toSorted()
      const wanted = names(expected)
      if (!Json.equals(names(result), wanted)) return 0
      for (const name of wanted) {
        const [found, gold] = [result.get(name), expected.get(name)]
        if (found === undefined || gold === undefined) return 0
        const same = sameBytes(found, gold) || (/\.pdf$/i.test(name) && (yield* similarPdfs(name, found, gold)))
        if (!same) return 0
      }
      return 1
    })
})

/**
 * The metrics of this module, for the registry.
 *
 * @since 0.1.0
 * @category registry
 */
export const metrics: ReadonlyArray<Metric> = [
  checkJsonKeybindings,
  compareConfig,
  isExtensionInstalled,
  compareZipFiles
]
