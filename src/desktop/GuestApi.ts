/**
 * The HTTP protocol of a desktop's guest server, as one definition: our guest server implements it and our client
 * speaks it, to ours and to both generations of the official OSWorld server.
 *
 * Wire names are the official server's. Where its generations differ in wording the schema takes any text.
 *
 * @since 0.1.0
 */
import * as HttpApi from "@effect/platform/HttpApi"
import * as HttpApiEndpoint from "@effect/platform/HttpApiEndpoint"
import * as HttpApiGroup from "@effect/platform/HttpApiGroup"
import * as HttpApiSchema from "@effect/platform/HttpApiSchema"
import * as Schema from "effect/Schema"

/**
 * The port that guest servers listen on.
 *
 * @since 0.1.0
 * @category constants
 */
export const guestPort = 5000

/**
 * The paths that are streamed in or out and therefore requested by hand.
 *
 * @since 0.1.0
 * @category constants
 */
export const paths = { file: "/file", upload: "/setup/upload", endRecording: "/end_recording" } as const

// -----------------------------------------------------------------------------
// Answers other than success
// -----------------------------------------------------------------------------

const refusal = { status: Schema.Literal("error"), message: Schema.String }

/**
 * 400: the request makes no sense.
 *
 * @since 0.1.0
 * @category errors
 */
export class BadRequest extends Schema.Class<BadRequest>("deskhand/guest/BadRequest")(
  refusal,
  HttpApiSchema.annotations({ status: 400 })
) {}

/**
 * 404: what the request names does not exist.
 *
 * @since 0.1.0
 * @category errors
 */
export class NotFound extends Schema.Class<NotFound>("deskhand/guest/NotFound")(
  refusal,
  HttpApiSchema.annotations({ status: 404 })
) {}

/**
 * 500: it was tried and did not work.
 *
 * @since 0.1.0
 * @category errors
 */
export class Failed extends Schema.Class<Failed>("deskhand/guest/Failed")(
  refusal,
  HttpApiSchema.annotations({ status: 500 })
) {}

/**
 * 500: the command ran, and what it should have brought about did not show in time.
 *
 * @since 0.1.0
 * @category errors
 */
export class VerificationFailed extends Schema.Class<VerificationFailed>("deskhand/guest/VerificationFailed")(
  {
    status: Schema.Literal("verification_failed"),
    verification: Schema.Literal("failed"),
    message: Schema.String,
    output: Schema.String,
    error: Schema.String,
    returncode: Schema.Int,
    wait_time: Schema.Number
  },
  HttpApiSchema.annotations({ status: 500 })
) {}

/**
 * 500: the script was stopped at its time limit.
 *
 * @since 0.1.0
 * @category errors
 */
export class ScriptTimedOut extends Schema.Class<ScriptTimedOut>("deskhand/guest/ScriptTimedOut")(
  { status: Schema.Literal("error"), output: Schema.String, error: Schema.String, returncode: Schema.Literal(-1) },
  HttpApiSchema.annotations({ status: 500 })
) {}

// -----------------------------------------------------------------------------
// Requests and replies
// -----------------------------------------------------------------------------

/**
 * A command line: text to split, or its words.
 *
 * @since 0.1.0
 * @category models
 */
export const Command = Schema.Union(Schema.String, Schema.Array(Schema.String))

/**
 * @since 0.1.0
 * @category models
 */
export type Command = typeof Command.Type

/**
 * Whether a shell reads the command. Some benchmark tasks carry the string `"true"`.
 *
 * @since 0.1.0
 * @category models
 */
export const Shell = Schema.Union(Schema.Boolean, Schema.String)

const CommandRequest = Schema.Struct({
  command: Command,
  shell: Schema.optionalWith(Shell, { nullable: true, default: () => false })
})

// A server may leave a text out or answer null for it; both mean that there was none.
const Text = Schema.optionalWith(Schema.String, { nullable: true, default: () => "" })

/**
 * What `/execute` answers of a command that has ended, whatever its exit code.
 *
 * @since 0.1.0
 * @category models
 */
export const ExecuteReply = Schema.Struct({ status: Text, output: Text, error: Text, returncode: Schema.Int })

const Verification = Schema.Struct({
  window_exists: Schema.optionalWith(Schema.String, { nullable: true, exact: true }),
  command_success: Schema.optionalWith(Schema.String, { nullable: true, exact: true })
})

/**
 * One entry of a folder. A folder that could not be read is an `error`.
 *
 * @since 0.1.0
 * @category models
 */
export type DirectoryEntry =
  | { readonly type: "directory"; readonly name: string; readonly children: ReadonlyArray<DirectoryEntry> }
  | { readonly type: "file"; readonly name: string }
  | { readonly error: string }

/**
 * A folder with what is in it, a file, or why one could not be looked at.
 *
 * @since 0.1.0
 * @category models
 */
export const DirectoryEntry: Schema.Schema<DirectoryEntry> = Schema.Union(
  Schema.Struct({
    type: Schema.Literal("directory"),
    name: Schema.String,
    children: Schema.Array(Schema.suspend((): Schema.Schema<DirectoryEntry> => DirectoryEntry))
  }),
  Schema.Struct({ type: Schema.Literal("file"), name: Schema.String }),
  Schema.Struct({ error: Schema.String })
)

/**
 * Pixels.
 *
 * @since 0.1.0
 * @category models
 */
export const Size = Schema.Struct({ width: Schema.Number, height: Schema.Number })

const WindowRequest = Schema.Struct({
  window_name: Schema.String,
  strict: Schema.optionalWith(Schema.Boolean, { nullable: true, default: () => false }),
  by_class: Schema.optionalWith(Schema.Boolean, { nullable: true, default: () => false })
})

const Path = Schema.Struct({ path: Schema.String })
const Message = HttpApiSchema.Text()
const Bytes = HttpApiSchema.Uint8Array()
const Image = HttpApiSchema.Uint8Array({ contentType: "image/png" })

// -----------------------------------------------------------------------------
// Routes
// -----------------------------------------------------------------------------

const execute = <const Name extends string>(name: Name, path: `/${string}`) =>
  HttpApiEndpoint.post(name, path).setPayload(CommandRequest).addSuccess(ExecuteReply)

const executeWithVerification = <const Name extends string>(name: Name, path: `/${string}`) =>
  HttpApiEndpoint.post(name, path)
    .setPayload(
      Schema.Struct({
        ...CommandRequest.fields,
        verification: Schema.optionalWith(Verification, { nullable: true, default: () => ({}) }),
        /** Seconds. */
        max_wait_time: Schema.optionalWith(Schema.Number, { nullable: true, default: () => 10 }),
        /** Seconds. */
        check_interval: Schema.optionalWith(Schema.Number, { nullable: true, default: () => 1 })
      })
    )
    .addSuccess(Schema.Struct({ ...ExecuteReply.fields, verification: Text, wait_time: Schema.Number }))
    .addError(VerificationFailed)

/**
 * Every route of a guest, of both generations.
 *
 * @since 0.1.0
 * @category api
 */
export const routes = HttpApiGroup.make("guest", { topLevel: true })
  .add(HttpApiEndpoint.get("screenshot", "/screenshot").addSuccess(Image))
  .add(HttpApiEndpoint.get("accessibility", "/accessibility").addSuccess(Schema.Struct({ AT: Schema.String })))
  .add(
    HttpApiEndpoint.get("terminal", "/terminal").addSuccess(
      Schema.Struct({
        output: Schema.optionalWith(Schema.NullOr(Schema.String), { default: () => null }),
        status: Text
      })
    )
  )
  .add(execute("execute", "/execute"))
  .add(execute("setupExecute", "/setup/execute"))
  .add(executeWithVerification("executeWithVerification", "/execute_with_verification"))
  .add(executeWithVerification("setupExecuteWithVerification", "/setup/execute_with_verification"))
  .add(
    HttpApiEndpoint.post("runPython", "/run_python")
      .setPayload(Schema.Struct({ code: Schema.String }))
      .addSuccess(
        Schema.Struct({
          status: Text,
          message: Text,
          need_more: Schema.optionalWith(Schema.Boolean, { nullable: true, default: () => false }),
          output: Text,
          error: Text,
          return_code: Schema.Int
        })
      )
  )
  .add(
    HttpApiEndpoint.post("runBashScript", "/run_bash_script")
      .setPayload(
        Schema.Struct({
          script: Schema.String,
          /** Seconds. */
          timeout: Schema.optionalWith(Schema.Number, { nullable: true, default: () => 100 }),
          working_dir: Schema.optionalWith(Schema.String, { nullable: true, exact: true })
        })
      )
      .addSuccess(ExecuteReply)
      .addError(ScriptTimedOut)
  )
  .add(
    HttpApiEndpoint.post("file", paths.file)
      .setPayload(HttpApiSchema.withEncoding(Schema.Struct({ file_path: Schema.String }), { kind: "UrlParams" }))
      .addSuccess(Bytes)
  )
  .add(
    HttpApiEndpoint.post("upload", paths.upload)
      .setPayload(HttpApiSchema.MultipartStream(Schema.Struct({ file_path: Schema.String, file_data: Schema.Unknown })))
      .addSuccess(Message)
  )
  .add(
    HttpApiEndpoint.post("downloadFile", "/setup/download_file")
      .setPayload(Schema.Struct({ url: Schema.String, path: Schema.String }))
      .addSuccess(Message)
  )
  .add(HttpApiEndpoint.post("openFile", "/setup/open_file").setPayload(Path).addSuccess(Message))
  .add(HttpApiEndpoint.post("launch", "/setup/launch").setPayload(CommandRequest).addSuccess(Message))
  .add(HttpApiEndpoint.post("activateWindow", "/setup/activate_window").setPayload(WindowRequest).addSuccess(Message))
  .add(HttpApiEndpoint.post("closeWindow", "/setup/close_window").setPayload(WindowRequest).addSuccess(Message))
  .add(HttpApiEndpoint.post("changeWallpaper", "/setup/change_wallpaper").setPayload(Path).addSuccess(Message))
  .add(HttpApiEndpoint.post("screenSize", "/screen_size").addSuccess(Size))
  .add(
    HttpApiEndpoint.post("windowSize", "/window_size")
      .setPayload(HttpApiSchema.withEncoding(Schema.Struct({ app_class_name: Schema.String }), { kind: "UrlParams" }))
      .addSuccess(Size)
  )
  .add(HttpApiEndpoint.post("desktopPath", "/desktop_path").addSuccess(Schema.Struct({ desktop_path: Schema.String })))
  .add(HttpApiEndpoint.post("wallpaper", "/wallpaper").addSuccess(Image))
  .add(
    HttpApiEndpoint.post("listDirectory", "/list_directory")
      .setPayload(Path)
      .addSuccess(Schema.Struct({ directory_tree: DirectoryEntry }))
  )
  .add(HttpApiEndpoint.get("platform", "/platform").addSuccess(Message))
  .add(HttpApiEndpoint.get("cursorPosition", "/cursor_position").addSuccess(Schema.Tuple(Schema.Number, Schema.Number)))
  .add(
    HttpApiEndpoint.post("startRecording", "/start_recording").addSuccess(
      Schema.Struct({ status: Text, message: Text })
    )
  )
  .add(
    HttpApiEndpoint.post("endRecording", paths.endRecording).addSuccess(
      HttpApiSchema.Uint8Array({ contentType: "video/mp4" })
    )
  )
  .addError(BadRequest)
  .addError(NotFound)
  .addError(Failed)

/**
 * The HTTP API of a guest.
 *
 * @since 0.1.0
 * @category api
 */
export class GuestApi extends HttpApi.make("guest").add(routes) {}
