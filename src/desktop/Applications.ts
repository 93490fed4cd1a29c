/**
 * Which Debian packages bring what a desktop needs and what tasks start in it.
 *
 * @since 0.1.0
 */

/**
 * An application as tasks name it. `packages` is empty when Debian has none, and `note` says what to do then.
 *
 * @since 0.1.0
 * @category models
 */
export interface Application {
  /** The commands by which tasks start it. */
  readonly commands: ReadonlyArray<string>
  /** Any one of these files, found on the PATH or absolute, means that it is installed. */
  readonly programs: ReadonlyArray<string>
  /** Files that all have to be there besides: without them it starts, and is another program to look at and to act in. */
  readonly parts?: ReadonlyArray<string>
  readonly packages: ReadonlyArray<string>
  readonly note?: string
  /** What to do on Ubuntu, whose package of that name brings no program but a snap, which no container can start. */
  readonly onUbuntu?: string
}

/**
 * What every desktop needs, whatever runs in it: the program that is looked for, and the package that brings it.
 *
 * @since 0.1.0
 * @category constants
 */
export const base: ReadonlyArray<Application> = [
  { commands: ["Xvfb"], programs: ["Xvfb"], packages: ["xvfb"] },
  { commands: ["openbox"], programs: ["openbox"], packages: ["openbox"] },
  { commands: ["dbus-daemon", "dbus-send"], programs: ["dbus-daemon"], packages: ["dbus"] },
  {
    commands: ["at-spi-bus-launcher"],
    programs: ["/usr/libexec/at-spi-bus-launcher", "/usr/lib/at-spi2-core/at-spi-bus-launcher"],
    packages: ["at-spi2-core", "libatk-adaptor"]
  },
  { commands: ["pyatspi"], programs: ["/usr/lib/python3/dist-packages/pyatspi"], packages: ["python3-pyatspi"] },
  { commands: ["Xlib"], programs: ["/usr/lib/python3/dist-packages/Xlib"], packages: ["python3-xlib"] },
  { commands: ["PIL"], programs: ["/usr/lib/python3/dist-packages/PIL"], packages: ["python3-pil"] },
  { commands: ["wmctrl"], programs: ["wmctrl"], packages: ["wmctrl"] },
  { commands: ["xdotool"], programs: ["xdotool"], packages: ["xdotool"] },
  { commands: ["setxkbmap"], programs: ["setxkbmap"], packages: ["x11-xkb-utils"] },
  { commands: ["xdg-open"], programs: ["xdg-open"], packages: ["xdg-utils", "shared-mime-info"] },
  { commands: ["gio", "gsettings"], programs: ["gio"], packages: ["libglib2.0-bin", "gsettings-desktop-schemas"] },
  { commands: ["socat"], programs: ["socat"], packages: ["socat"] },
  {
    commands: ["tinyproxy"],
    programs: ["tinyproxy"],
    // The program alone: the package tinyproxy would start a proxy for the whole machine.
    packages: ["tinyproxy-bin"],
    note: "tasks that ask for a proxy reach it through this"
  },
  { commands: ["pkill", "ps"], programs: ["pkill"], packages: ["procps"] },
  { commands: ["killall"], programs: ["killall"], packages: ["psmisc"] },
  { commands: ["curl"], programs: ["curl"], packages: ["curl"] },
  {
    commands: ["fonts"],
    programs: ["/usr/share/fonts/truetype/dejavu", "/usr/share/fonts/truetype/liberation"],
    packages: ["fonts-dejavu-core", "fonts-liberation"]
  }
]

/** The windows that the official image has. LibreOffice without them draws its own, and keys and clicks go elsewhere. */
const officeWindows = ["/usr/lib/libreoffice/program/libvclplug_gtk3lo.so"]

const office = (component: string, commands: ReadonlyArray<string>): Application => ({
  commands,
  programs: [`/usr/lib/libreoffice/program/s${component}`, `/usr/share/applications/libreoffice-${component}.desktop`],
  parts: officeWindows,
  packages: [`libreoffice-${component}`, "libreoffice-gtk3"]
})

/**
 * The applications that OSWorld tasks start, and the ones that stand in for them on Debian.
 *
 * @since 0.1.0
 * @category constants
 */
export const applications: ReadonlyArray<Application> = [
  {
    commands: ["google-chrome", "google-chrome-stable", "chromium", "chromium-browser"],
    programs: ["google-chrome-stable", "chromium", "/opt/google/chrome/chrome"],
    packages: ["chromium"],
    note: "Google Chrome is not in Debian; Chromium is started in its place",
    onUbuntu:
      "Ubuntu's Chromium is a snap, which no container can start: install Google's .deb from https://www.google.com/chrome"
  },
  office("calc", ["libreoffice --calc", "localc", "soffice --calc"]),
  office("writer", ["libreoffice --writer", "lowriter", "soffice --writer"]),
  office("impress", ["libreoffice --impress", "loimpress", "soffice --impress"]),
  office("draw", ["libreoffice --draw", "lodraw", "soffice --draw"]),
  {
    commands: ["libreoffice", "soffice"],
    programs: ["soffice", "libreoffice"],
    parts: officeWindows,
    packages: ["libreoffice-calc", "libreoffice-writer", "libreoffice-impress", "libreoffice-draw", "libreoffice-gtk3"]
  },
  { commands: ["gimp"], programs: ["gimp"], packages: ["gimp"] },
  {
    commands: ["vlc", "cvlc"],
    // Its windows: the program alone comes without them.
    programs: ["/usr/share/applications/vlc.desktop"],
    packages: ["vlc"]
  },
  { commands: ["thunderbird"], programs: ["thunderbird"], packages: ["thunderbird"] },
  {
    commands: ["code"],
    // A wrapper of ours has the same name in desktops.
    programs: ["/usr/bin/code", "/usr/share/code/bin/code"],
    packages: [],
    note:
      "Visual Studio Code is not in Debian: install Microsoft's .deb from https://code.visualstudio.com/download, or give " +
      "its address to build-image.sh as CODE_DEB"
  },
  { commands: ["gnome-terminal"], programs: ["gnome-terminal"], packages: ["gnome-terminal"] },
  { commands: ["xfce4-terminal"], programs: ["xfce4-terminal"], packages: ["xfce4-terminal"] },
  { commands: ["gedit"], programs: ["gedit"], packages: ["gedit"] },
  { commands: ["mousepad"], programs: ["mousepad"], packages: ["mousepad"] },
  { commands: ["nautilus"], programs: ["nautilus"], packages: ["nautilus"] },
  { commands: ["pcmanfm"], programs: ["pcmanfm"], packages: ["pcmanfm"] },
  { commands: ["eog"], programs: ["eog"], packages: ["eog"] },
  { commands: ["evince"], programs: ["evince"], packages: ["evince"] },
  { commands: ["file-roller"], programs: ["file-roller"], packages: ["file-roller"] },
  { commands: ["gnome-calculator"], programs: ["gnome-calculator"], packages: ["gnome-calculator"] },
  {
    commands: ["gnome-control-center"],
    programs: ["gnome-control-center"],
    packages: ["gnome-control-center"],
    note: "without a GNOME session most of its panels do nothing"
  },
  { commands: ["ffmpeg"], programs: ["ffmpeg"], packages: ["ffmpeg"], note: "recordings need it" },
  { commands: ["xclip"], programs: ["xclip"], packages: ["xclip"] },
  { commands: ["socat"], programs: ["socat"], packages: ["socat"] },
  { commands: ["git"], programs: ["git"], packages: ["git"] }
]

/**
 * The application that a command line starts, by its program and, for LibreOffice, by the component it asks for.
 *
 * @since 0.1.0
 * @category queries
 */
export const find = (words: ReadonlyArray<string>): Application | undefined => {
  const program = (words[0] ?? "").split("/").at(-1) ?? ""
  const component = words.slice(1).find((word) => /^--(calc|writer|impress|draw)$/.test(word))
  const named = (command: string) => applications.find(({ commands }) => commands.includes(command))
  return (component === undefined ? undefined : named(`${program} ${component}`)) ?? named(program)
}

/** OSWorld's names in `related_apps`, which are spelt freely, as command lines. */
const relatedApps: Readonly<Record<string, ReadonlyArray<string>>> = {
  chrome: ["google-chrome"],
  browser: ["google-chrome"],
  google_chrome: ["google-chrome"],
  libreoffice_calc: ["libreoffice", "--calc"],
  calc: ["libreoffice", "--calc"],
  excel: ["libreoffice", "--calc"],
  libreoffice_writer: ["libreoffice", "--writer"],
  writer: ["libreoffice", "--writer"],
  word: ["libreoffice", "--writer"],
  libreoffice_impress: ["libreoffice", "--impress"],
  impress: ["libreoffice", "--impress"],
  powerpoint: ["libreoffice", "--impress"],
  ppt: ["libreoffice", "--impress"],
  libreoffice_draw: ["libreoffice", "--draw"],
  draw: ["libreoffice", "--draw"],
  vs_code: ["code"],
  vscode: ["code"],
  terminal: ["gnome-terminal"],
  files: ["nautilus"],
  pdf: ["evince"]
}

/**
 * The application that OSWorld means by a name in `related_apps`: `libreoffice_calc`, `LibreOffice Calc` or `calc`.
 * Undefined for what is none, such as `os`.
 *
 * @since 0.1.0
 * @category queries
 */
export const forRelatedApp = (name: string): Application | undefined => {
  const plain = name.trim().toLowerCase()
  const words = relatedApps[plain.replace(/[\s-]+/g, "_")]
  return find(words ?? [plain.replace(/\s+/g, "-")])
}

/**
 * The Debian packages of applications, each once, in a stable order.
 *
 * @since 0.1.0
 * @category queries
 */
export const packagesOf = (wanted: ReadonlyArray<Application>): ReadonlyArray<string> =>
  Array.from(new Set(wanted.flatMap(({ packages }) => packages))).sort()
