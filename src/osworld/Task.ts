/**
 * OSWorld task files as typed values.
 *
 * A task file says how a desktop is prepared (`config`), what the agent is asked (`instruction`) and how the result is
 * judged (`evaluator`). Decoding turns upstream's loose conventions into sums that cannot be misread, and keeps the
 * original JSON in `raw`, because rows echo the task unchanged.
 *
 * @since 0.1.0
 */
import * as Arr from "effect/Array"
import * as Either from "effect/Either"
import * as ParseResult from "effect/ParseResult"
import * as Schema from "effect/Schema"
import type * as AST from "effect/SchemaAST"

// -------------------------------------------------------------------------------------------------------------------
// Setup steps
// -------------------------------------------------------------------------------------------------------------------

/** Five published tasks write `"shell": "true"`, so the words are accepted next to the booleans. */
const BooleanLike = Schema.transform(Schema.Literal(true, false, "true", "false"), Schema.Boolean, {
  strict: true,
  decode: (value) => value === true || value === "true",
  encode: (value) => value
})

const flag = (key: string) =>
  Schema.optionalWith(BooleanLike, { default: () => false, nullable: true }).pipe(Schema.fromKey(key))

const optional = <A, I>(schema: Schema.Schema<A, I>) => Schema.optionalWith(schema, { exact: true, nullable: true })

const list = <A, I>(schema: Schema.Schema<A, I>) =>
  Schema.optionalWith(Schema.Array(schema), { default: () => [], nullable: true })

/**
 * A command line: argv, or one string that is shell text or a line to be split, depending on `shell`.
 *
 * @since 0.1.0
 * @category models
 */
export const Command = Schema.Union(
  Schema.String,
  Schema.NonEmptyArray(Schema.String).annotations({ title: "a non-empty list of strings" })
)

/**
 * @since 0.1.0
 * @category models
 */
export type Command = typeof Command.Type

const commandFields = { command: Command, shell: flag("shell") }

const executeFields = {
  ...commandFields,
  /** File name in the task's cache directory that receives the standard output. */
  stdout: optional(Schema.String),
  /** The same for the standard error. */
  stderr: optional(Schema.String),
  /** Run again until one of these holds: equal exit code, or a substring of an output. */
  until: optional(
    Schema.Struct({
      returncode: optional(Schema.Number),
      stdout: optional(Schema.String),
      stderr: optional(Schema.String)
    })
  )
}

const windowFields = {
  windowName: Schema.propertySignature(Schema.String).pipe(Schema.fromKey("window_name")),
  /** The title has to be equal, not only to contain the name. */
  strict: flag("strict"),
  /** `windowName` is a WM_CLASS and not a title. */
  byClass: flag("by_class")
}

const seconds = Schema.NonNegative

const step = <Type extends string, Fields extends Schema.Struct.Fields>(type: Type, fields: Fields) =>
  Schema.Struct({ type: Schema.Literal(type), parameters: Schema.Struct(fields) })

/**
 * One entry of `config` or `postconfig`. A `type` that is not listed here does not decode, and the error lists the types
 * that do. Parameter names are camelCase; the JSON's are snake_case.
 *
 * @since 0.1.0
 * @category models
 */
export const SetupStep = Schema.Union(
  step("execute", executeFields),
  step("command", executeFields),
  step("execute_with_verification", {
    ...commandFields,
    verification: optional(
      Schema.Struct({
        windowExists: Schema.optionalWith(Schema.String, { exact: true }).pipe(Schema.fromKey("window_exists")),
        commandSuccess: Schema.optionalWith(Schema.String, { exact: true }).pipe(Schema.fromKey("command_success"))
      })
    ),
    /** Seconds. */
    maxWaitTime: Schema.optionalWith(seconds, { default: () => 10 }).pipe(Schema.fromKey("max_wait_time")),
    /** Seconds. */
    checkInterval: Schema.optionalWith(seconds, { default: () => 1 }).pipe(Schema.fromKey("check_interval"))
  }),
  step("sleep", { seconds }),
  step("launch", commandFields),
  step("download", { files: Schema.Array(Schema.Struct({ url: Schema.String, path: Schema.String })) }),
  step("upload_file", {
    files: Schema.Array(
      Schema.Struct({
        localPath: Schema.propertySignature(Schema.String).pipe(Schema.fromKey("local_path")),
        path: Schema.String
      })
    )
  }),
  step("open", { path: Schema.String }),
  step("activate_window", windowFields),
  step("close_window", windowFields),
  step("change_wallpaper", { path: Schema.String }),
  step("chrome_open_tabs", {
    urlsToOpen: Schema.propertySignature(Schema.Array(Schema.String)).pipe(Schema.fromKey("urls_to_open"))
  }),
  step("chrome_close_tabs", {
    urlsToClose: Schema.propertySignature(Schema.Array(Schema.String)).pipe(Schema.fromKey("urls_to_close"))
  }),
  step("update_browse_history", {
    history: Schema.Array(
      Schema.Struct({
        url: Schema.String,
        title: Schema.String,
        /** Seconds before now. */
        visitTimeFromNow: Schema.propertySignature(seconds).pipe(Schema.fromKey("visit_time_from_now_in_seconds"))
      })
    )
  }),
  step("googledrive", {
    settingsFile: Schema.propertySignature(Schema.String).pipe(Schema.fromKey("settings_file")),
    operation: Schema.Array(Schema.String),
    args: Schema.Array(Schema.Unknown)
  }),
  step("login", {
    settingsFile: Schema.propertySignature(Schema.String).pipe(Schema.fromKey("settings_file")),
    platform: Schema.String
  }),
  step("proxy", {})
)

/**
 * @since 0.1.0
 * @category models
 */
export type SetupStep = typeof SetupStep.Type

/**
 * The parameters of one type of setup step.
 *
 * @since 0.1.0
 * @category models
 */
export type SetupParameters<Type extends SetupStep["type"]> = Extract<SetupStep, { readonly type: Type }>["parameters"]

// -------------------------------------------------------------------------------------------------------------------
// Evaluator
// -------------------------------------------------------------------------------------------------------------------

const GetterJson = Schema.Struct(
  { type: Schema.NonEmptyString },
  { key: Schema.String, value: Schema.Unknown }
).annotations({ title: "a getter: an object with a type" })

/**
 * What to fetch for a metric: the getter's name and its parameters, which the getter decodes itself.
 *
 * @since 0.1.0
 * @category models
 */
export const GetterSpec = Schema.transform(
  GetterJson,
  Schema.Struct({
    type: Schema.NonEmptyString,
    parameters: Schema.Record({ key: Schema.String, value: Schema.Unknown })
  }),
  {
    strict: true,
    decode: ({ type, ...parameters }) => ({ type, parameters }),
    encode: ({ parameters, type }) => ({ ...parameters, type })
  }
)

/**
 * @since 0.1.0
 * @category models
 */
export type GetterSpec = typeof GetterSpec.Type

const Options = Schema.Record({ key: Schema.String, value: Schema.Unknown }).annotations({ title: "an object" })

/**
 * One metric with what it compares. Without `expected` the metric judges the result alone.
 *
 * @since 0.1.0
 * @category models
 */
export const Check = Schema.Struct({
  metric: Schema.NonEmptyString,
  result: Schema.typeSchema(GetterSpec),
  expected: Schema.UndefinedOr(Schema.typeSchema(GetterSpec)),
  options: Options
})

/**
 * @since 0.1.0
 * @category models
 */
export type Check = typeof Check.Type

/**
 * How several scores become one (`evaluator/Combine`).
 *
 * @since 0.1.0
 * @category models
 */
export const Conjunction = Schema.Literal("and", "or")

/**
 * @since 0.1.0
 * @category models
 */
export type Conjunction = typeof Conjunction.Type

const postconfig = Schema.Array(Schema.typeSchema(SetupStep))

/**
 * The task cannot be done, and the right answer is to say so.
 *
 * @since 0.1.0
 * @category models
 */
export const Infeasible = Schema.TaggedStruct("Infeasible", { postconfig })

/**
 * At least one check, in the order in which they are evaluated.
 *
 * @since 0.1.0
 * @category models
 */
export const Checks = Schema.TaggedStruct("Checks", {
  conj: Conjunction,
  checks: Schema.NonEmptyArray(Check),
  postconfig
})

/**
 * @since 0.1.0
 * @category models
 */
export type Evaluator = typeof Infeasible.Type | typeof Checks.Type

const EvaluatorJson = Schema.Struct({
  func: Schema.Union(
    Schema.NonEmptyString,
    Schema.NonEmptyArray(Schema.NonEmptyString).annotations({ title: "a non-empty list of metric names" })
  ),
  conj: Schema.optionalWith(Conjunction, { default: () => "and", nullable: true }),
  result: Schema.Unknown.pipe(Schema.optional),
  expected: Schema.Unknown.pipe(Schema.optional),
  options: Schema.Unknown.pipe(Schema.optional),
  postconfig: list(SetupStep)
})

const isEmpty = (value: unknown): boolean =>
  value === undefined ||
  value === null ||
  value === "" ||
  value === false ||
  (typeof value === "object" && Object.keys(value).length === 0)

/** Issues carry the JSON's own path, so that a message points into the file and not into our types. */
const readChecks = (
  json: typeof EvaluatorJson.Type,
  ast: AST.AST
): Either.Either<Arr.NonEmptyReadonlyArray<Check>, ParseResult.ParseIssue> => {
  const at = (path: Arr.NonEmptyReadonlyArray<PropertyKey>, issue: ParseResult.ParseIssue) =>
    new ParseResult.Pointer(path, json, issue)
  const fail = (key: string, actual: unknown, message: string) =>
    Either.left(at([key], new ParseResult.Type(ast, actual, message)))
  const decodeAt = <A, I>(schema: Schema.Schema<A, I>, value: unknown, path: Arr.NonEmptyReadonlyArray<PropertyKey>) =>
    Either.mapLeft(ParseResult.decodeUnknownEither(schema, { errors: "all" })(value), (issue) => at(path, issue))

  const check = (metric: string, result: unknown, expected: unknown, options: unknown, suffix: ReadonlyArray<number>) =>
    Either.gen(function* () {
      return {
        metric,
        result: yield* decodeAt(GetterSpec, result, ["result", ...suffix]),
        expected: isEmpty(expected) ? undefined : yield* decodeAt(GetterSpec, expected, ["expected", ...suffix]),
        options: isEmpty(options) ? {} : yield* decodeAt(Options, options, ["options", ...suffix])
      }
    })

  return Either.gen(function* () {
    const { expected, func, options, result } = json
    if (typeof func === "string") return Arr.of(yield* check(func, result, expected, options, []))
    if (func.includes("infeasible")) return yield* fail("func", func, `"infeasible" stands alone and not in a list`)
    const lists = {
      result,
      expected: isEmpty(expected) ? undefined : expected,
      options: isEmpty(options) ? undefined : options
    }
    for (const [key, value] of Object.entries(lists)) {
      if (value === undefined && key !== "result") continue
      const wanted = `a list of ${func.length}, because func is a list of ${func.length}`
      if (!Array.isArray(value)) return yield* fail(key, value, `Expected ${wanted}, found no list`)
      if (value.length !== func.length)
        return yield* fail(key, value, `Expected ${wanted}, found a list of ${value.length}`)
    }
    const entry = (value: unknown, index: number): unknown => (Array.isArray(value) ? value[index] : undefined)
    const checks: Array<Check> = []
    for (const [index, metric] of func.entries()) {
      checks.push(yield* check(metric, entry(result, index), entry(expected, index), entry(options, index), [index]))
    }
    return Arr.isNonEmptyReadonlyArray(checks) ? checks : yield* fail("func", func, "Expected at least one metric")
  })
}

/**
 * `evaluator` as a sum. A list of metrics needs lists of the same length in `result` and, where they are present, in
 * `expected` and `options`; empty entries of these two mean "none" and `{}`. It decodes only: a task is written as its
 * `raw`.
 *
 * @since 0.1.0
 * @category models
 */
export const Evaluator = Schema.transformOrFail(EvaluatorJson, Schema.Union(Infeasible, Checks), {
  strict: true,
  decode: (json, _, ast) =>
    json.func === "infeasible"
      ? Either.right({ _tag: "Infeasible" as const, postconfig: json.postconfig })
      : Either.map(readChecks(json, ast), (checks) => ({
          _tag: "Checks" as const,
          conj: json.conj,
          checks,
          postconfig: json.postconfig
        })),
  encode: (evaluator, _, ast) =>
    Either.left(
      new ParseResult.Forbidden(ast, evaluator, "An evaluator is not written back; write the task's raw JSON")
    )
})

// -------------------------------------------------------------------------------------------------------------------
// Task
// -------------------------------------------------------------------------------------------------------------------

const TaskJson = Schema.Struct({
  id: Schema.NonEmptyString,
  instruction: Schema.String,
  snapshot: optional(Schema.String),
  source: optional(Schema.Union(Schema.String, Schema.Array(Schema.String))),
  config: list(SetupStep),
  relatedApps: list(Schema.String).pipe(Schema.fromKey("related_apps")),
  evaluator: Evaluator,
  proxy: flag("proxy"),
  fixedIp: flag("fixed_ip"),
  possibilityOfEnvChange: optional(Schema.String).pipe(Schema.fromKey("possibility_of_env_change"))
})

/**
 * One task. `Schema.decodeUnknown(TaskFromJson)` or `decode` makes it.
 *
 * @since 0.1.0
 * @category models
 */
export class Task extends Schema.Class<Task>("deskhand/osworld/Task")({
  /** UUID-shaped; the file's name without its extension. */
  id: Schema.NonEmptyString,
  /** What the agent is asked to do. */
  instruction: Schema.String,
  snapshot: Schema.optionalWith(Schema.String, { exact: true }),
  source: Schema.optionalWith(Schema.Union(Schema.String, Schema.Array(Schema.String)), { exact: true }),
  config: Schema.Array(Schema.typeSchema(SetupStep)),
  /** Application names in upstream's free spelling. */
  relatedApps: Schema.Array(Schema.String),
  evaluator: Schema.Union(Infeasible, Checks),
  /** The task wants its traffic to leave through a proxy. */
  proxy: Schema.Boolean,
  /** The task wants a fixed public address (the Google Drive ones). */
  fixedIp: Schema.Boolean,
  /** `low`, `medium` or `high`. */
  possibilityOfEnvChange: Schema.optionalWith(Schema.String, { exact: true }),
  /** The JSON that this was decoded from, unknown keys and all. */
  raw: Schema.Unknown
}) {}

/**
 * Task JSON to `Task`; encoding gives the original JSON back.
 *
 * @since 0.1.0
 * @category schemas
 */
export const TaskFromJson = Schema.transformOrFail(Schema.Unknown, Schema.typeSchema(Task), {
  strict: true,
  decode: (raw) =>
    Either.mapBoth(ParseResult.decodeUnknownEither(TaskJson, { errors: "all" })(raw), {
      onLeft: (issue) => issue,
      onRight: (fields) => new Task({ ...fields, raw }, { disableValidation: true })
    }),
  encode: (task) => Either.right(task.raw)
})

/**
 * A task file that does not say what a task file has to say. `issues` are in the file's own terms: `path` is a JSON path
 * such as `evaluator.result[1].type`.
 *
 * @since 0.1.0
 * @category errors
 */
export class TaskDecodeError extends Schema.TaggedError<TaskDecodeError>("deskhand/TaskDecodeError")(
  "TaskDecodeError",
  {
    /** The file, or wherever else the JSON came from. */
    source: Schema.String,
    issues: Schema.NonEmptyArray(Schema.Struct({ path: Schema.String, message: Schema.String }))
  }
) {
  override get message(): string {
    return `${this.source}: ${this.issues.map(({ message, path }) => `${path}: ${message}`).join("; ")}`
  }
}

const showPath = (path: ReadonlyArray<PropertyKey>): string =>
  path.length === 0
    ? "(top level)"
    : path.map((key, i) => (typeof key === "number" ? `[${key}]` : `${i === 0 ? "" : "."}${String(key)}`)).join("")

const clip = (text: string) => (text.length > 120 ? `${text.slice(0, 117)}...` : text)

/**
 * One line for each place. Alternatives of a union become one "Expected A or B"; that a field may also be left out is not
 * worth a word, and neither is a parent when something inside it is wrong.
 */
const toDecodeError = (source: string, error: ParseResult.ParseError): TaskDecodeError => {
  const places = new Map<string, { found: string; readonly expected: Set<string>; readonly other: Set<string> }>()
  for (const issue of ParseResult.ArrayFormatter.formatErrorSync(error)) {
    const path = showPath(issue.path)
    const place = places.get(path) ?? { found: "", expected: new Set(), other: new Set() }
    places.set(path, place)
    const parts = /^Expected ([\s\S]*), actual ([\s\S]*)$/.exec(issue.message)
    const [, expected, found] = parts ?? []
    if (expected === undefined || found === undefined) place.other.add(issue.message)
    else {
      if (expected !== "null" && expected !== "undefined") place.expected.add(expected)
      place.found = clip(found)
    }
  }
  const paths = Array.from(places.keys())
  const isParent = (path: string) => paths.some((other) => other.startsWith(`${path}.`) || other.startsWith(`${path}[`))
  const issues = Array.from(places, ([path, { expected, found, other }]) => ({
    path,
    message: [
      ...(expected.size > 0 ? [`Expected ${Array.from(expected).join(" or ")}, found ${found}`] : []),
      ...other
    ].join("; ")
  })).filter(({ message, path }) => message !== "" && !isParent(path))
  return new TaskDecodeError({
    source,
    issues: Arr.isNonEmptyArray(issues) ? issues : [{ path: "(top level)", message: clip(error.message) }]
  })
}

/**
 * Reads one task. `source` names the file in the error.
 *
 * @since 0.1.0
 * @category decoding
 */
export const decode = (json: unknown, source: string): Either.Either<Task, TaskDecodeError> =>
  Either.mapLeft(Schema.decodeUnknownEither(TaskFromJson)(json), (error) => toDecodeError(source, error))

// -------------------------------------------------------------------------------------------------------------------
// What the desktop has to have
// -------------------------------------------------------------------------------------------------------------------

/** Shell words that no `PATH` look-up finds. */
const shellWords = new Set(
  "if then elif else fi for do done while until case esac in function { } ! : . [ [[ cd echo eval exec exit export false \
printf read return set shift source test trap true ulimit umask unset wait".split(" ")
)

/** The first word of each simple command in shell text; quotes are honoured, here-documents and substitutions are not. */
const shellCommandNames = (text: string): Array<string> => {
  const names: Array<string> = []
  const token = /(?:"(?:\\.|[^"\\])*"|'[^']*'|\\[\s\S]|[^\s;&|()"'\\])+|[;&|()\n]+|[^\S\n]+|["'\\]/g
  let atStart = true
  let redirect = false
  for (const [word] of text.matchAll(token)) {
    if (/^[;&|()\n]+$/.test(word)) atStart = true
    else if (/^\s+$/.test(word)) continue
    else if (redirect) redirect = false
    else if (/^\d*[<>]+&?$/.test(word)) redirect = true
    else if (atStart && !/^\w+=/.test(word) && !/^\d*[<>]/.test(word)) {
      const name = word.replace(/["'\\]/g, "")
      if (shellWords.has(name)) atStart = /^(if|then|elif|else|do|while|until|!|\{)$/.test(name)
      else {
        names.push(name)
        atStart = false
      }
    }
  }
  return names
}

const stepCommands = (step: SetupStep): ReadonlyArray<string> => {
  switch (step.type) {
    case "launch":
    case "execute":
    case "command":
    case "execute_with_verification": {
      const { command, shell } = step.parameters
      const first = typeof command === "string" ? command : command[0]
      // With a list and a shell, the guest's Popen takes the first element as the whole shell text.
      if (shell) return shellCommandNames(first)
      return typeof command === "string" ? shellCommandNames(first).slice(0, 1) : [first]
    }
    default:
      return []
  }
}

/**
 * The programs that a task's own steps start, as they are written there (`google-chrome`, `/usr/bin/thunderbird`), and
 * its `related_apps` in upstream's free spelling: what a doctor looks for in a desktop before it spends rollouts on it.
 *
 * @since 0.1.0
 * @category inspection
 */
export const requiredCommands = (
  task: Task
): { readonly commands: ReadonlySet<string>; readonly relatedApps: ReadonlyArray<string> } => ({
  commands: new Set([...task.config, ...task.evaluator.postconfig].flatMap(stepCommands)),
  relatedApps: task.relatedApps
})
