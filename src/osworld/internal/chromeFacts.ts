/** What a desktop says of its Chrome: whether it runs and how, who listens, and which profiles there are. */
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as DesktopSpec from "../../desktop/DesktopSpec.js"
import type { Guest } from "../../desktop/Guest.js"

/** A browser's main process, and what it was told of profiles and of DevTools. */
const Process = Schema.Struct({
  pid: Schema.Int,
  userDataDir: Schema.NullOr(Schema.String),
  profileDirectory: Schema.NullOr(Schema.String),
  debuggingPort: Schema.NullOr(Schema.String)
})

/** A folder that may hold profiles, and when its settings were last written (seconds since 1970). */
const Folder = Schema.Struct({ path: Schema.String, written: Schema.Number })

export const Facts = Schema.Struct({
  home: Schema.String,
  processes: Schema.Array(Process),
  /** Of the ports that were asked for, those that somebody listens at. */
  listening: Schema.Array(Schema.Int),
  folders: Schema.Array(Folder)
})

export type Facts = typeof Facts.Type

/**
 * Chrome's program may have any of these names; renderers and helpers are told apart by `--type`. Chrome may write its
 * command line anew, with spaces where other processes have zeros.
 */
const script = `
import glob, json, os, re, socket

names = {"chrome", "google-chrome", "google-chrome-stable", "chromium", "chromium-browser"}

def option(line, name):
    found = re.search(r"(?:^|[\\0 ])--%s=([^\\0]*?)(?=\\0| --|$)" % name, line)
    if found is None:
        return None
    value = os.path.expanduser(found.group(1))
    spaces = name == "profile-directory" or name == "user-data-dir" and os.path.isdir(value)
    return value if spaces else value.split(" ")[0]

processes = []
for place in glob.glob("/proc/[0-9]*/cmdline"):
    try:
        with open(place, "rb") as file:
            line = file.read().decode("utf-8", "replace").rstrip("\\0 ")
        program = os.readlink(os.path.join(os.path.dirname(place), "exe"))
    except OSError:
        continue
    if os.path.basename(program) in names and not re.search(r"[\\0 ]--type=", line):
        processes.append({
            "pid": int(os.path.basename(os.path.dirname(place))),
            "userDataDir": option(line, "user-data-dir"),
            "profileDirectory": option(line, "profile-directory"),
            "debuggingPort": option(line, "remote-debugging-port"),
        })

def listens(port):
    with socket.socket() as client:
        client.settimeout(2)
        return client.connect_ex(("127.0.0.1", port)) == 0

def written(folder):
    times = []
    for name in ("Local State", "Default/Preferences", "Default/History"):
        try:
            times.append(os.stat(os.path.join(folder, name)).st_mtime)
        except OSError:
            pass
    return max(times, default=0)

home = os.path.expanduser("~")
candidates = [
    os.path.join(home, ".config/google-chrome"),
    os.path.join(home, ".config/google-chrome-beta"),
    os.path.join(home, ".config/chromium"),
    os.path.join(home, "snap/chromium/common/chromium"),
]
candidates += [process["userDataDir"] for process in processes if process["userDataDir"] is not None]
folders = [{"path": path, "written": written(path)} for path in dict.fromkeys(candidates) if os.path.isdir(path)]
ports = [port for port in PORTS if listens(port)]
print(json.dumps({"home": home, "processes": processes, "listening": ports, "folders": folders}))
`

export const get = (guest: Guest): Effect.Effect<Facts, { readonly message: string }> =>
  Effect.gen(function* () {
    const ports = `[${DesktopSpec.ports.devtools}, ${DesktopSpec.ports.devtoolsRelay}]`
    const { exitCode, stderr, stdout } = yield* guest.runPython(script.replace("PORTS", ports))
    if (exitCode !== 0)
      return yield* Effect.fail({ message: `the desktop does not tell of its Chrome: ${stderr.trim()}` })
    return yield* Schema.decode(Schema.parseJson(Facts))(stdout.trim())
  })

/** Where the profiles are that a running Chrome was told to use; undefined where it was told nothing, or none runs. */
export const userDataDir = (facts: Facts): string | undefined =>
  facts.processes.flatMap(({ userDataDir }) => (userDataDir === null ? [] : [userDataDir]))[0]

/**
 * The profile that counts: the one that the running Chrome was told to use, else the one that was written last. Upstream
 * looks in the place that it knows, whatever runs. Undefined where there is none.
 */
export const profile = (facts: Facts): { readonly folder: string; readonly name: string } | undefined => {
  const told = userDataDir(facts)
  const [latest] = [...facts.folders].sort((a, b) => b.written - a.written)
  const folder = facts.folders.some(({ path }) => path === told) ? told : latest?.path
  const name = facts.processes.flatMap(({ profileDirectory: each }) => (each === null ? [] : [each]))[0]
  const safe = name !== undefined && !name.includes("/") && name !== ".." ? name : "Default"
  return folder === undefined ? undefined : { folder, name: safe }
}
