/** What GIMP, VLC and the desktop itself say of themselves, and what lies inside slides and sheets. */
import * as FileSystem from "@effect/platform/FileSystem"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Schema from "effect/Schema"
import * as DesktopSpec from "../../../../desktop/DesktopSpec.js"
import type { GuestError } from "../../../../desktop/GuestError.js"
import * as Getter from "../../Getter.js"
import { Value } from "../../Metric.js"
import type { Refusal } from "../../Reader.js"
import * as GuestFile from "../guestFile.js"
import { mediaOfSlide } from "../presentationMedia.js"
import { lastRow } from "../sheets/lastRow.js"
import { fromGuest, placeFor } from "./files.js"

/** A document that is opened on this host. */
const maxDocument = 256 * 1024 * 1024

const missing = (reason: string): Value => Value.Missing({ reason })

const none = Schema.Struct({})
const Dest = Schema.Struct({ dest: Schema.String })

/** Puts bytes into the rollout's folder. */
const keep = (input: Getter.Input, dest: string, bytes: Uint8Array) =>
  Effect.gen(function* () {
    const fs = yield* FileSystem.FileSystem
    const place = yield* placeFor(input, dest)
    yield* fs.writeFile(place.path, bytes)
    return Value.File(place)
  })

/** The guest is there and says that there is no such thing. */
const refused = ({ reason }: GuestError): boolean => reason._tag === "Refused"

// GIMP ---------------------------------------------------------------------------------------------------------------

/** The newest first: a GIMP that was updated has left its older folders behind. */
export const gimpVersions = (listing: string): ReadonlyArray<string> =>
  listing
    .split("\n")
    .flatMap((line) => {
      const [, major, minor] = /^(\d+)\.(\d+)$/.exec(line.trim()) ?? []
      return major === undefined || minor === undefined ? [] : [{ name: line.trim(), order: [+major, +minor] as const }]
    })
    .toSorted((a, b) => b.order[0] - a.order[0] || b.order[1] - a.order[1])
    .map(({ name }) => name)

const gimpConfigFile = Getter.make(
  "gimp_config_file",
  Schema.Struct({ file_name: Schema.String, dest: Schema.String }),
  ({ dest, file_name }, input) =>
    Effect.gen(function* () {
      const { stdout } = yield* input.context.guest.execute({
        command: ["sh", "-c", 'ls -1 "$HOME/.config/GIMP" 2>/dev/null']
      })
      for (const version of gimpVersions(stdout)) {
        const value = yield* fromGuest(input, `~/.config/GIMP/${version}/${file_name}`, dest)
        if (value._tag !== "Missing") return value
      }
      return missing(`GIMP has left no ${file_name}`)
    })
)

// VLC ----------------------------------------------------------------------------------------------------------------

const vlcConfig = Getter.make("vlc_config", Dest, ({ dest }, input) => fromGuest(input, "~/.config/vlc/vlcrc", dest))

/** The desktops' VLC takes this password, and no user's name. */
const vlcPassword = "password"

/** Where nobody listens, the program says so; VLC's own answers begin with their status. */
const askVlc = `import base64, urllib.error, urllib.request
request = urllib.request.Request("http://127.0.0.1:${DesktopSpec.ports.vlc}/requests/status.xml")
request.add_header("Authorization", "Basic " + base64.b64encode(b":${vlcPassword}").decode())
opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
try:
    with opener.open(request, timeout=10) as reply:
        print(reply.status, base64.b64encode(reply.read()).decode())
except urllib.error.HTTPError as error:
    print(error.code)
except urllib.error.URLError as error:
    print("refused" if isinstance(error.reason, ConnectionRefusedError) else error.reason)
`

const vlcPlayingInfo = Getter.make("vlc_playing_info", Dest, ({ dest }, input) =>
  Effect.gen(function* () {
    // Asked from inside: gateways are in the way of other ports, and only there is it known that nobody listens.
    const { exitCode, stderr, stdout } = yield* input.context.guest.runPython(askVlc)
    const [status = "", body = ""] = stdout.trim().split(" ")
    if (exitCode === 0 && status === "refused") return missing("VLC is not running, or has no HTTP interface")
    if (exitCode !== 0 || status !== "200") {
      return yield* Effect.fail({ message: `VLC's interface answered ${stdout.trim() || stderr.trim().slice(-500)}` })
    }
    return yield* keep(input, dest, Buffer.from(body, "base64"))
  })
)

/** The types of film that upstream asks for. */
const filmTypes = [
  ...["3gp", "3gpp", "3gpp2", "avi", "divx", "dv", "fli", "flv", "mp2t", "mp4", "mp4v-es", "mpeg", "mpeg-system"],
  ...["msvideo", "ogg", "quicktime", "vnd.divx", "vnd.mpegurl", "vnd.rn-realvideo", "webm", "x-anim", "x-avi"],
  ...["x-flc", "x-fli", "x-flv", "x-m4v", "x-matroska", "x-mpeg", "x-mpeg-system", "x-mpeg2", "x-ms-asf"],
  ...["x-ms-asf-plugin", "x-ms-asx", "x-ms-wm", "x-ms-wmv", "x-ms-wmx", "x-ms-wvx", "x-msvideo", "x-nsv", "x-ogm"],
  ...["x-ogm+ogg", "x-theora", "x-theora+ogg"]
]

/** What most of the lines say, or the first of those that are said equally often; undefined where none says anything. */
export const mostCommon = (lines: ReadonlyArray<string>): string | undefined => {
  const counts = new Map<string, number>()
  for (const line of lines) if (line !== "") counts.set(line, (counts.get(line) ?? 0) + 1)
  const most = Math.max(...counts.values())
  return Array.from(counts).find(([, count]) => count === most)?.[0]
}

const defaultVideoPlayer = Getter.make("default_video_player", none, (_, { context }) =>
  Effect.gen(function* () {
    const questions = `for type in ${filmTypes.join(" ")}; do xdg-mime query default "video/$type"; done`
    const { exitCode, stderr, stdout } = yield* context.guest.execute({ command: ["sh", "-c", questions] })
    const player = mostCommon(stdout.split("\n").map((line) => line.trim()))
    if (player === undefined && exitCode === 127) return yield* Effect.fail({ message: stderr.trim() })
    // A command's output as tasks know it, with the end of its line.
    return Value.Text({ text: player === undefined ? "unknown" : `${player}\n` })
  })
)

// The desktop --------------------------------------------------------------------------------------------------------

const wallpaper = Getter.make("vm_wallpaper", Dest, ({ dest }, input) =>
  input.context.guest.wallpaper.pipe(
    Effect.map((bytes): Uint8Array | string => bytes),
    Effect.catchIf(
      ({ reason }) => reason._tag === "Refused" && reason.status === 404,
      (error) => Effect.succeed(error.message)
    ),
    Effect.flatMap((found) => (typeof found === "string" ? Effect.succeed(missing(found)) : keep(input, dest, found)))
  )
)

const screenSize = Getter.make("vm_screen_size", none, (_, { context }) =>
  Effect.map(context.guest.screenSize, (json) => Value.Json({ json }))
)

const windowSize = Getter.make(
  "vm_window_size",
  Schema.Struct({ app_class_name: Schema.String }),
  ({ app_class_name }, { context }) =>
    context.guest.windowSize(app_class_name).pipe(
      Effect.map((json): Value => Value.Json({ json })),
      // Whatever the status: official guests say 500 where there is no such window.
      Effect.catchIf(refused, (error) => Effect.succeed(missing(error.message)))
    )
)

const terminalOutput = Getter.make("vm_terminal_output", none, (_, { context }) =>
  Effect.map(context.guest.terminal, (text) =>
    text === null ? missing("there is no terminal in front") : Value.Text({ text })
  )
)

// Inside documents ---------------------------------------------------------------------------------------------------

/** A document of the guest, parsed. What is not there, or is none, is the agent's doing. */
const open = <A>(
  { context }: Getter.Input,
  path: string,
  parse: (bytes: Uint8Array) => Either.Either<A | undefined, Refusal>
): Effect.Effect<Either.Either<A, string>, { readonly message: string }> =>
  Effect.flatMap(GuestFile.read(context.guest, path, maxDocument), (bytes) => {
    if (bytes === undefined) return Effect.succeed(Either.left(`the guest has no file at ${path}`))
    return Either.match(parse(bytes), {
      onLeft: ({ kind, reason }) =>
        kind === "Undecidable"
          ? Effect.fail({ message: `${path}: ${reason}` })
          : Effect.succeed(Either.left(`${path}: ${reason}`)),
      onRight: (found) =>
        Effect.succeed(found === undefined ? Either.left(`${path} has no such part`) : Either.right(found))
    })
  })

const contentFromVmFile = Getter.make(
  "content_from_vm_file",
  Schema.Struct({
    path: Schema.String,
    file_type: Schema.Literal("xlsx"),
    file_content: Schema.Literal("last_row")
  }),
  ({ path }, input) =>
    Effect.map(
      open(input, path, lastRow),
      Either.match({ onLeft: missing, onRight: (json): Value => Value.Json({ json }) })
    )
)

const Slide = Schema.Struct({
  ppt_file_path: Schema.String,
  slide_index: Schema.Union(Schema.NonNegativeInt, Schema.compose(Schema.NumberFromString, Schema.NonNegativeInt)),
  dest: Schema.String
})

const filePath = (target: string): string | undefined => {
  if (!target.startsWith("file://")) return undefined
  const path = target.slice("file://".length)
  return Either.getOrElse(
    Either.try(() => decodeURIComponent(path)),
    () => path
  )
}

const mediaIn = (name: string, kind: "audio" | "background") =>
  Getter.make(name, Slide, ({ dest, ppt_file_path, slide_index }, input) =>
    Effect.gen(function* () {
      const found = yield* open(input, ppt_file_path, (bytes) => mediaOfSlide(bytes, slide_index, kind))
      if (Either.isLeft(found)) return missing(found.left)
      const media = found.right
      if (media._tag === "Embedded") return yield* keep(input, dest, media.bytes)
      const path = filePath(media.target)
      return path === undefined
        ? missing(`the slide refers to ${media.target}, which is no file of the desktop`)
        : yield* fromGuest(input, path, dest)
    })
  )

export const getters: ReadonlyArray<Getter.Getter> = [
  gimpConfigFile,
  vlcConfig,
  vlcPlayingInfo,
  defaultVideoPlayer,
  wallpaper,
  screenSize,
  windowSize,
  terminalOutput,
  contentFromVmFile,
  mediaIn("audio_in_slide", "audio"),
  mediaIn("background_image_in_slide", "background")
]
