/** Which window of the desktop has the keyboard, and whether it is the one that is meant. */
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type { Guest, WindowMatch } from "../../desktop/Guest.js"

const Window = Schema.Struct({
  id: Schema.Int,
  title: Schema.String,
  /** `instance.Class`. */
  className: Schema.String,
  /** The window that this one is a dialogue of. */
  transientFor: Schema.NullOr(Schema.Int)
})

export const Windows = Schema.Struct({ active: Schema.NullOr(Schema.Int), windows: Schema.Array(Window) })

export type Windows = typeof Windows.Type

/**
 * How wmctrl takes a name: a part of the title in any case, with `strict` the whole title as it is written, and with
 * `byClass` the class in the title's place.
 */
export const matches = (window: (typeof Windows.Type)["windows"][number], match: WindowMatch): boolean => {
  const text = match.byClass === true ? window.className : window.title
  return match.strict === true ? text === match.name : text.toLowerCase().includes(match.name.toLowerCase())
}

/** `absent`: no window is the one that is meant. `behind`: there is one, and another window has the keyboard. */
export type State = "focused" | "behind" | "absent"

/** A dialogue that stands before the window is the window's own: whoever left it there meets it again. */
export const stateOf = ({ active, windows }: Windows, match: WindowMatch): State => {
  if (!windows.some((window) => matches(window, match))) return "absent"
  const seen = new Set<number>()
  let id = active
  while (id !== null && !seen.has(id)) {
    seen.add(id)
    const window = windows.find((each) => each.id === id)
    if (window === undefined) break
    if (matches(window, match)) return "focused"
    id = window.transientFor
  }
  return "behind"
}

/** Chromium, which stands in for Chrome, names itself in its titles. */
export const alternatives = (match: WindowMatch): ReadonlyArray<WindowMatch> =>
  match.byClass !== true && match.name.includes("Google Chrome")
    ? [match, { ...match, name: match.name.replaceAll("Google Chrome", "Chromium") }]
    : [match]

/** pyautogui stands on the same Xlib, so that every guest has it; the tools are for one that hides it. */
const script = `
import json, re, subprocess

def by_xlib():
    from Xlib import X, display, error
    connection = display.Display()
    root = connection.screen().root
    def value(window, name):
        found = window.get_full_property(connection.intern_atom(name), X.AnyPropertyType)
        return None if found is None else found.value
    def text(found):
        return found.decode("utf-8", "replace") if isinstance(found, bytes) else str(found or "")
    active = value(root, "_NET_ACTIVE_WINDOW")
    windows = []
    for number in value(root, "_NET_CLIENT_LIST") or []:
        try:
            window = connection.create_resource_object("window", number)
            parent = window.get_wm_transient_for()
            title = value(window, "_NET_WM_NAME")
            windows.append({
                "id": int(number),
                "title": text(value(window, "WM_NAME") if title is None else title),
                "className": ".".join(window.get_wm_class() or ()),
                "transientFor": None if parent is None else int(parent.id),
            })
        except error.XError:
            continue
    return {"active": int(active[0]) if active else None, "windows": windows}

def by_tools():
    def run(*words):
        try:
            return subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=5).stdout.decode("utf-8", "replace")
        except OSError:
            return ""
    found = re.search("0x[0-9a-f]+", run("xprop", "-root", "_NET_ACTIVE_WINDOW"))
    number = run("xdotool", "getactivewindow").strip()
    windows = []
    for line in run("wmctrl", "-lx").splitlines():
        parts = re.match(r"(0x[0-9a-f]+)\\s+-?\\d+ (\\S+)\\s+(\\S+) ?(.*)", line)
        if parts:
            windows.append({"id": int(parts.group(1), 16), "className": parts.group(2), "title": parts.group(4), "transientFor": None})
    if found is None and not number:
        raise SystemExit("neither Xlib nor xprop nor xdotool tells which window is active")
    return {"active": int(number) if number else int(found.group(), 16), "windows": windows}

try:
    import Xlib
    answer = by_xlib()
except ImportError:
    answer = by_tools()
print(json.dumps(answer))
`

/** What the guest tells of its windows. Reading again does no harm; a failure is the guest's. */
export const look = (guest: Guest): Effect.Effect<Windows, { readonly message: string }> =>
  Effect.gen(function* () {
    const { exitCode, stderr, stdout } = yield* guest.runPython(script)
    if (exitCode !== 0) {
      const said = stderr.trim().split("\n").at(-1) ?? ""
      return yield* Effect.fail({ message: `the desktop does not tell of its windows: ${said}` })
    }
    return yield* Schema.decode(Schema.parseJson(Windows))(stdout.trim())
  })
