/**
 * Where the things that metrics judge come from: the guest, the task, or the rollout's own folder.
 *
 * @since 0.1.0
 */
import * as FileSystem from "@effect/platform/FileSystem"
import * as Path from "@effect/platform/Path"
import * as Effect from "effect/Effect"
import * as ParseResult from "effect/ParseResult"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import { Assets } from "../Assets.js"
import type { GetterSpec } from "../EvaluatorSpec.js"
import * as Placeholders from "../Placeholders.js"
import type { TaskContext } from "../Setup.js"
import { Command } from "../SetupStep.js"
import { type FileRef, Value } from "./Metric.js"

/**
 * A getter could not find out. That is no score: what was looked for and is not there is a `Value.Missing`.
 *
 * @since 0.1.0
 * @category errors
 */
export class GetterError extends Schema.TaggedError<GetterError>("deskhand/GetterError")("GetterError", {
  getter: Schema.String,
  reason: Schema.String
}) {
  override get message() {
    return `the getter ${this.getter} failed: ${this.reason}`
  }
}

/** Whether a value is under judgement or what it is judged by: the two may ask for the same file name. */
type Role = "result" | "expected"

type Requirements = FileSystem.FileSystem | Path.Path | Assets

interface Input {
  readonly context: TaskContext
  readonly role: Role
}

type Getter = (
  spec: GetterSpec,
  input: Input
) => Effect.Effect<Value, GetterError | ParseResult.ParseError, Requirements>

const getter =
  <A, I>(
    parameters: Schema.Schema<A, I>,
    get: (parameters: A, input: Input) => Effect.Effect<Value, { readonly message: string }, Requirements>
  ): Getter =>
  (spec, input) =>
    Effect.flatMap(Schema.decodeUnknown(parameters)(spec.parameters), (decoded) =>
      Effect.mapError(get(decoded, input), (error) => new GetterError({ getter: spec.type, reason: error.message }))
    )

const OneOrMany = Schema.Union(Schema.String, Schema.NonEmptyArray(Schema.String))

/** One file, or with `multi` a list of them, of which `gives` (indices, the first unless given) reach the metric. */
const Files = Schema.Struct({
  path: OneOrMany,
  dest: OneOrMany,
  multi: Schema.optionalWith(Schema.Boolean, { default: () => false, nullable: true }),
  gives: Schema.optionalWith(Schema.Array(Schema.NonNegativeInt), { default: () => [0], nullable: true })
})

const asList = (value: string | ReadonlyArray<string>): ReadonlyArray<string> =>
  typeof value === "string" ? [value] : value

/** Brings each file to this host by `bring`, which answers `Missing` or a file, and gives the metric what it asked for. */
const files = (
  { dest, gives, path }: typeof Files.Type,
  bring: (path: string, dest: string) => Effect.Effect<Value, { readonly message: string }, Requirements>
) =>
  Effect.gen(function* () {
    const paths = asList(path)
    const names = asList(dest)
    if (paths.length !== names.length) {
      return yield* Effect.fail({ message: `it names ${paths.length} paths and ${names.length} destinations` })
    }
    const values = yield* Effect.forEach(paths, (path, index) => bring(path, names[index] ?? path))
    const given: Array<FileRef> = []
    for (const index of gives) {
      const value = values[index]
      if (value === undefined) return yield* Effect.fail({ message: `it gives file ${index} of ${values.length}` })
      if (value._tag !== "File") return value
      given.push(value)
    }
    const [only] = given
    return given.length === 1 && only !== undefined ? Value.File(only) : Value.Files({ files: given })
  })

/** The place of a file in the rollout's folder. Only its last name counts, so no task can write elsewhere. */
const placeFor = ({ context, role }: Input, dest: string) =>
  Effect.gen(function* () {
    const fs = yield* FileSystem.FileSystem
    const path = yield* Path.Path
    const name = path.basename(dest)
    const folder = path.join(context.cache, role)
    yield* fs.makeDirectory(folder, { recursive: true })
    return { path: path.join(folder, name), name }
  })

const vmFile = getter(Files, (parameters, input) =>
  files(parameters, (guestPath, dest) =>
    Effect.gen(function* () {
      const fs = yield* FileSystem.FileSystem
      const place = yield* placeFor(input, dest)
      return yield* Stream.run(input.context.guest.readFile(guestPath), fs.sink(place.path)).pipe(
        Effect.as(Value.File(place)),
        Effect.catchTag("GuestFileMissing", (error) => Effect.succeed(Value.Missing({ reason: error.message })))
      )
    })
  )
)

const cloudFile = getter(Files, (parameters, input) =>
  files(parameters, (url, dest) =>
    Effect.gen(function* () {
      const fs = yield* FileSystem.FileSystem
      const assets = yield* Assets
      const local = yield* assets.fetch(url, input.context.taskFile)
      const place = yield* placeFor(input, dest)
      // Metrics find side files beside a file, so each rollout has its own copies under the task's names.
      yield* fs.copyFile(local, place.path)
      return Value.File(place)
    })
  )
)

const cacheFile = getter(Schema.Struct({ path: Schema.String }), ({ path: name }, { context }) =>
  Effect.gen(function* () {
    const fs = yield* FileSystem.FileSystem
    const path = yield* Path.Path
    const file = { path: path.join(context.cache, path.basename(name)), name }
    return (yield* fs.exists(file.path)) ? Value.File(file) : Value.Missing({ reason: `no setup step wrote ${name}` })
  })
)

const CommandLine = Schema.Struct({
  command: Command,
  shell: Schema.optionalWith(Schema.Union(Schema.Boolean, Schema.String), { default: () => false, nullable: true })
})

const commandOutput = (stream: "stdout" | "stderr") =>
  getter(CommandLine, ({ command, shell }, { context }) =>
    Effect.map(
      context.guest.execute({
        command: Placeholders.fillCommand(command, context.placeholders),
        shell: shell === true || shell === "true"
      }),
      (result) => Value.Text({ text: result[stream] })
    )
  )

const getters: ReadonlyMap<string, Getter> = new Map([
  ["vm_file", vmFile],
  ["cloud_file", cloudFile],
  ["cache_file", cacheFile],
  [
    "rule",
    getter(Schema.Struct({ rules: Schema.Unknown }), ({ rules }) => Effect.succeed(Value.Json({ json: rules })))
  ],
  ["vm_command_line", commandOutput("stdout")],
  ["vm_command_error", commandOutput("stderr")],
  [
    "accessibility_tree",
    getter(Schema.Struct({}), (_, { context }) =>
      Effect.map(context.guest.accessibilityTree, (text) => Value.Text({ text }))
    )
  ],
  [
    "list_directory",
    getter(Schema.Struct({ path: Schema.String }), ({ path }, { context }) =>
      context.guest.listDirectory(path).pipe(
        Effect.map((json): Value => Value.Json({ json })),
        Effect.catchIf(
          ({ reason }) => reason._tag === "Refused" && (reason.status === 400 || reason.status === 404),
          (error) => Effect.succeed(Value.Missing({ reason: error.message }))
        )
      )
    )
  ]
])

/**
 * The getters that `get` knows, by the names that tasks use.
 *
 * @since 0.1.0
 * @category constants
 */
export const supported: ReadonlySet<string> = new Set(getters.keys())

/**
 * Carries a getter out.
 *
 * @since 0.1.0
 * @category operations
 */
export const get = (
  spec: GetterSpec,
  role: Role,
  context: TaskContext
): Effect.Effect<Value, GetterError, Requirements> => {
  const found = getters.get(spec.type)
  if (found === undefined) {
    return Effect.fail(new GetterError({ getter: spec.type, reason: "it is not yet supported" }))
  }
  return Effect.catchTag(found(spec, { context, role }), "ParseError", (error) =>
    Effect.fail(new GetterError({ getter: spec.type, reason: ParseResult.TreeFormatter.formatErrorSync(error) }))
  )
}
