/**
 * Metrics over Python that an agent wrote, which runs in the desktop and nowhere else.
 *
 * @since 0.1.0
 */
import * as FileSystem from "@effect/platform/FileSystem"
import * as Path from "@effect/platform/Path"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as PythonJudge from "./internal/pythonJudge.js"
import {
  type FileRef,
  type Metric,
  type MetricContext,
  makeEffect,
  type Reader as ReaderType,
  Unusable
} from "./Metric.js"

/** Files as they are: this host does not look into them. */
const refs: ReaderType<readonly [FileRef, ...Array<FileRef>]> = (value) => {
  if (value?._tag === "File") return Effect.succeed([{ name: value.name, path: value.path }])
  if (value?._tag === "Files") {
    const [first, ...rest] = value.files
    if (first !== undefined) return Effect.succeed([first, ...rest])
  }
  if (value?._tag === "Missing") return new Unusable({ kind: "Missing", reason: value.reason })
  return new Unusable({ kind: "Undecidable", reason: `a file is needed, not ${value?._tag ?? "nothing"}` })
}

/** Far above what a program needs beside itself. */
const maxSideFiles = 100
const maxSideBytes = 16 * 1024 * 1024

/** Tasks bring several files and give the metric one of them: the others lie beside it. */
const withSideFiles = (files: ReadonlyArray<FileRef>) =>
  Effect.gen(function* () {
    const fs = yield* FileSystem.FileSystem
    const path = yield* Path.Path
    const found = new Map<string, FileRef>()
    for (const folder of new Set(files.map((file) => path.dirname(file.path)))) {
      for (const name of (yield* fs.readDirectory(folder)).slice(0, maxSideFiles)) {
        const place = path.join(folder, name)
        const { size, type } = yield* fs.stat(place)
        if (type === "File" && size <= maxSideBytes) found.set(name, { name, path: place })
      }
    }
    for (const file of files) found.set(path.basename(file.name), file)
    return Array.from(found.values())
  }).pipe(Effect.mapError((error) => `files cannot be read: ${error.message}`))

const Verdict = Schema.parseJson(
  Schema.Union(Schema.Struct({ score: Schema.Number }), Schema.Struct({ fault: Schema.String }))
)

const decodeVerdict = Schema.decodeUnknown(Verdict)

/** What the program that judges says. Whatever it cannot say is no score. */
const judge = ({ runPython }: MetricContext, code: string, files: ReadonlyArray<FileRef>) =>
  Effect.gen(function* () {
    if (runPython === undefined)
      return yield* Effect.fail("an agent's program runs in a desktop only, and there is none")
    const { exitCode, stderr, stdout } = yield* Effect.mapError(
      runPython({ code, files }),
      ({ message }) => `the desktop cannot run Python: ${message}`
    )
    const said = yield* Effect.mapError(
      decodeVerdict(stdout.trim()),
      () => `the desktop's Python ended with ${exitCode}: ${(stderr.trim() || stdout.trim()).slice(-500)}`
    )
    return "fault" in said ? yield* Effect.fail(said.fault) : said.score
  })

/**
 * Runs a function of the expected file in the desktop, beside the files that the agent wrote and that it imports. True,
 * or a number in [0, 1], is the score; what raises, or does not end within 20 s, scores 0.
 *
 * @since 0.1.0
 * @category metrics
 */
export const checkPythonFileByTestSuite: Metric = makeEffect({
  name: "check_python_file_by_test_suite",
  result: refs,
  expected: refs,
  options: Schema.Struct({
    test_function_name: Schema.optionalWith(Schema.NonEmptyString, { default: () => "test", nullable: true })
  }),
  score: (written, [test, ...others], { test_function_name }, context) =>
    Effect.gen(function* () {
      const path = yield* Path.Path
      const files = yield* withSideFiles(written)
      // Gold last: what the agent wrote never takes its place.
      return yield* judge(context, PythonJudge.testSuite(path.basename(test.name), test_function_name), [
        ...files,
        ...others,
        test
      ])
    })
})

const goldName = "deskhand_gold.py"

/**
 * The agent's program prints what the expected one prints. Both run in the desktop, for 10 s at most.
 *
 * @since 0.1.0
 * @category metrics
 */
export const checkPythonFileByGoldFile: Metric = makeEffect({
  name: "check_python_file_by_gold_file",
  result: refs,
  expected: refs,
  options: Schema.Struct({}),
  score: (written, [gold], _, context) =>
    Effect.gen(function* () {
      const path = yield* Path.Path
      const files = yield* withSideFiles(written)
      return yield* judge(context, PythonJudge.sameOutput(path.basename(written[0].name), goldName), [
        ...files,
        { ...gold, name: goldName }
      ])
    })
})

/**
 * The metrics of this module, for the registry.
 *
 * @since 0.1.0
 * @category registry
 */
export const metrics: ReadonlyArray<Metric> = [checkPythonFileByTestSuite, checkPythonFileByGoldFile]
