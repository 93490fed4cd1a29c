/**
 * How a desktop is prepared: the steps of a task's `config` and of its evaluator's `postconfig`.
 *
 * @since 0.1.0
 */
import * as Schema from "effect/Schema"
import { flag, optional } from "./internal/fields.js"

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

const OneOrMany = Schema.Union(
  Schema.NonEmptyArray(Schema.String),
  Schema.transform(Schema.String, Schema.Tuple(Schema.String), {
    strict: true,
    decode: (name) => [name] as const,
    encode: ([name]) => name
  })
)

const step = <Type extends string, Fields extends Schema.Struct.Fields>(type: Type, fields: Fields) =>
  Schema.Struct({ type: Schema.Literal(type), parameters: Schema.Struct(fields) })

const anything = <Type extends string>(type: Type) =>
  Schema.Struct({
    type: Schema.Literal(type),
    parameters: Schema.optionalWith(Schema.Record({ key: Schema.String, value: Schema.Unknown }), {
      default: () => ({}),
      nullable: true
    })
  })

/**
 * What is done to a Google Drive, one entry of `args` each, by the name that stands at its place in `operation`.
 *
 * @since 0.1.0
 * @category models
 */
export const DriveOperation = {
  /** Everything that the query finds; all that there is where it is empty. */
  delete: Schema.Struct({
    query: Schema.optionalWith(Schema.String, { default: () => "", nullable: true }),
    trash: flag("trash")
  }),
  mkdirs: Schema.Struct({ path: Schema.Array(Schema.String) }),
  /** The path ends in the file's name. */
  upload: Schema.Union(
    Schema.Struct({ url: Schema.String, path: OneOrMany }),
    Schema.transform(
      Schema.Struct({ url: Schema.String, dest: OneOrMany }),
      Schema.Struct({ url: Schema.String, path: Schema.typeSchema(OneOrMany) }),
      {
        strict: true,
        decode: ({ dest, url }) => ({ url, path: dest }),
        encode: ({ path, url }) => ({ url, dest: path })
      }
    )
  )
} as const

const isOperation = {
  delete: Schema.is(Schema.encodedSchema(DriveOperation.delete)),
  mkdirs: Schema.is(Schema.encodedSchema(DriveOperation.mkdirs)),
  upload: Schema.is(Schema.encodedSchema(DriveOperation.upload))
}

const driveParameters = Schema.Struct({
  /** Upstream's file of secrets; ours are in the environment. */
  settingsFile: Schema.propertySignature(Schema.String).pipe(Schema.fromKey("settings_file")),
  operation: Schema.Array(Schema.Literal("delete", "mkdirs", "upload")),
  args: Schema.Array(Schema.Unknown)
}).pipe(
  Schema.filter(({ args, operation }) => {
    if (args.length !== operation.length) return `${operation.length} operations have ${args.length} args`
    const index = operation.findIndex((name, at) => !isOperation[name](args[at]))
    return index < 0 ? undefined : `args[${index}] is no ${operation[index]}`
  })
)

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
  Schema.Struct({ type: Schema.Literal("googledrive"), parameters: driveParameters }),
  step("login", {
    settingsFile: Schema.propertySignature(Schema.String).pipe(Schema.fromKey("settings_file")),
    platform: Schema.Literal("googledrive")
  }),
  step("proxy", {}),
  // OSWorld has names for these and no more than that.
  anything("tidy_desktop"),
  anything("act"),
  anything("replay")
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
