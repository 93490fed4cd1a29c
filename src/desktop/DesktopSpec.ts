/**
 * What a provider has to start for a desktop.
 *
 * @since 0.1.0
 */
import * as NodePath from "node:path"
import { fileURLToPath } from "node:url"
import * as FileSystem from "@effect/platform/FileSystem"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import type { Network } from "../sandbox/SandboxSpec.js"
import { HttpReadiness, Mount, Resources, SandboxSpec } from "../sandbox/SandboxSpec.js"
import { guestPort } from "./GuestApi.js"

/**
 * Where the parts of a desktop are on this host.
 *
 * @since 0.1.0
 * @category models
 */
export interface HostFacts {
  /** The folder of start.sh, `bin`, `etc` and `python`. */
  readonly guest: string
  /** The guest server, bundled to one file by `npm run build:guest`. */
  readonly server: string
  /** The Node binary that runs it. */
  readonly node: string
}

// This file is `src/desktop/DesktopSpec.ts` or, after a build, `dist/desktop/DesktopSpec.js`: the package's root is two
// folders up in both cases.
const root = NodePath.resolve(NodePath.dirname(fileURLToPath(import.meta.url)), "..", "..")

/**
 * The facts of this process and of the package that this file is in.
 *
 * @since 0.1.0
 * @category constants
 */
export const hostFacts: HostFacts = {
  guest: NodePath.join(root, "src", "desktop", "guest"),
  server: NodePath.join(root, "dist", "guest", "server.mjs"),
  node: process.execPath
}

/**
 * @since 0.1.0
 * @category models
 */
export interface DesktopOptions {
  /** Pixels. */
  readonly width?: number
  /** Pixels. */
  readonly height?: number
  readonly network?: Network
  readonly metadata?: Readonly<Record<string, string>>
  readonly readyTimeout?: Duration.DurationInput
}

/**
 * The ports that tasks and evaluators reach in a desktop: the guest server, the relay to Chrome's DevTools, Chrome's
 * DevTools, and VLC's HTTP interface.
 *
 * @since 0.1.0
 * @category constants
 */
export const ports = { guest: guestPort, devtoolsRelay: 9222, devtools: 1337, vlc: 8080 } as const

/**
 * The home folder of a desktop.
 *
 * @since 0.1.0
 * @category constants
 */
export const home = "/home/user"

const inside = "/opt/deskhand"
const runtime = "/run/user/1000"

const systemFiles = [
  ...[
    "alternatives",
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "localtime",
    "timezone",
    "os-release",
    "lsb-release"
  ],
  ...["debian_version", "nsswitch.conf", "protocols", "services", "shells", "profile", "profile.d", "bash.bashrc"],
  ...["inputrc", "terminfo", "locale.alias", "locale.conf", "environment", "machine-id", "magic", "magic.mime"],
  ...["mime.types", "mailcap", "mailcap.order", "xdg", "fonts", "X11", "gtk-2.0", "gtk-3.0", "gtk-4.0", "dconf"],
  ...["dbus-1", "at-spi2", "glvnd", "OpenCL", "vulkan", "drirc", "pulse", "alsa", "openal", "papersize", "paperspecs"],
  ...["libpaper.d", "cups", "ssl", "ca-certificates", "ca-certificates.conf", "pki", "crypto-policies", "sgml", "xml"],
  ...[
    "libreoffice",
    "java-11-openjdk",
    "java-17-openjdk",
    "java-21-openjdk",
    "chromium",
    "chromium.d",
    "chromium-browser"
  ],
  ...["opt", "firefox-esr", "firefox", "thunderbird", "gimp", "vlc", "ImageMagick-6", "ImageMagick-7", "ghostscript"],
  ...[
    "perl",
    "python3",
    "python3.9",
    "python3.10",
    "python3.11",
    "python3.12",
    "python3.13",
    "vim",
    "nanorc",
    "wgetrc"
  ],
  ...["sensors3.conf", "sensors.d", "mpv", "gstreamer-1.0", "speech-dispatcher", "enchant", "enchant-2", "emacs"]
].map((name) => `/etc/${name}`)

const environment = (options: DesktopOptions): Readonly<Record<string, string>> => ({
  HOME: home,
  USER: "user",
  LOGNAME: "user",
  SHELL: "/bin/bash",
  LANG: "C.UTF-8",
  // The wrappers come first: they stand in for what the official image has under these names.
  PATH: `${inside}/bin:/usr/local/bin:/usr/bin:/bin:/usr/local/games:/usr/games:/usr/local/sbin:/usr/sbin:/sbin`,
  PYTHONPATH: `${inside}/python`,
  PYTHONDONTWRITEBYTECODE: "1",
  DISPLAY: ":0",
  XDG_RUNTIME_DIR: runtime,
  XDG_SESSION_TYPE: "x11",
  XDG_CONFIG_DIRS: `${inside}/etc/xdg:/etc/xdg`,
  XDG_DATA_DIRS: `${inside}/etc/share:/usr/local/share:/usr/share`,
  DBUS_SESSION_BUS_ADDRESS: `unix:path=${runtime}/bus`,
  ACCESSIBILITY_ENABLED: "1",
  GNOME_ACCESSIBILITY: "1",
  QT_ACCESSIBILITY: "1",
  QT_LINUX_ACCESSIBILITY_ALWAYS_ON: "1",
  GTK_MODULES: "gail:atk-bridge",
  SAL_USE_VCLPLUGIN: "gtk3",
  LIBGL_ALWAYS_SOFTWARE: "1",
  DESKHAND_WIDTH: String(options.width ?? 1920),
  DESKHAND_HEIGHT: String(options.height ?? 1080),
  DESKHAND_GUEST_PORT: String(ports.guest)
})

/**
 * The sandbox of one desktop. A pure function of its options and the host's facts.
 *
 * @since 0.1.0
 * @category constructors
 */
export const make = (options: DesktopOptions = {}, facts: HostFacts = hostFacts): SandboxSpec =>
  new SandboxSpec({
    entrypoint: ["/bin/bash", `${inside}/start.sh`],
    env: environment(options),
    mounts: [
      ...["start.sh", "bin", "etc", "python"].map(
        (name) => new Mount({ source: NodePath.join(facts.guest, name), target: `${inside}/${name}` })
      ),
      new Mount({ source: facts.server, target: `${inside}/server.mjs` }),
      new Mount({ source: facts.node, target: `${inside}/node` })
    ],
    systemFiles,
    ports: Object.values(ports),
    network: options.network ?? "none",
    readiness: new HttpReadiness({
      port: ports.guest,
      path: "/screenshot",
      timeout: Duration.decode(options.readyTimeout ?? "60 seconds")
    }),
    metadata: options.metadata ?? {}
  })

/**
 * @since 0.1.0
 * @category models
 */
export interface ImageOptions extends DesktopOptions {
  /** An image that src/desktop/guest/build-image.sh built, by the name that the provider knows it by. */
  readonly image: string
  readonly resources?: typeof Resources.Encoded
  /** Whether the spec says what to start; false where the image starts its desktop by itself. */
  readonly entrypoint?: boolean
  /** After this long the provider removes the desktop by itself. */
  readonly ttl?: Duration.DurationInput
  /** The port at which people can look on, `/vnc.html` over HTTP; nobody can unless given. */
  readonly vncPort?: number
}

/**
 * The sandbox of one desktop that an image brings, on any provider that has images. The guest server listens on every
 * address of the sandbox, because that is where providers' gateways arrive.
 *
 * @since 0.1.0
 * @category constructors
 */
export const forImage = (options: ImageOptions): SandboxSpec =>
  new SandboxSpec({
    image: options.image,
    ...(options.entrypoint === false ? {} : { entrypoint: ["/bin/bash", `${inside}/start.sh`] as const }),
    env: {
      ...environment(options),
      DESKHAND_GUEST_HOST: "0.0.0.0",
      // A task's own relay of it listens on port 9222.
      DESKHAND_GUEST_RELAY: String(ports.devtools),
      ...(options.vncPort === undefined ? {} : { DESKHAND_VNC_PORT: String(options.vncPort) })
    },
    workdir: home,
    ports: [...Object.values(ports), ...(options.vncPort === undefined ? [] : [options.vncPort])],
    network: options.network ?? "none",
    ...(options.resources === undefined ? {} : { resources: new Resources(options.resources) }),
    ...(options.ttl === undefined ? {} : { ttl: Duration.decode(options.ttl) }),
    readiness: new HttpReadiness({
      port: ports.guest,
      path: "/screenshot",
      timeout: Duration.decode(options.readyTimeout ?? "60 seconds")
    }),
    metadata: options.metadata ?? {}
  })

/**
 * @since 0.1.0
 * @category models
 */
export interface VirtualMachineOptions {
  /** OSWorld's disk image on this host, a qcow2 file; it is only read. */
  readonly disk: string
  /** Whether the machine runs on this host's `/dev/kvm`; without it, it is slow. */
  readonly kvm: boolean
  /** The official image unless given. */
  readonly image?: string
  readonly metadata?: Readonly<Record<string, string>>
  readonly readyTimeout?: Duration.DurationInput
}

/**
 * OSWorld's own desktop: a virtual machine in the official container image, which wants the provider to have
 * `DockerProvider.virtualMachine`. Its ports are the guest server's, the DevTools relay's, noVNC's (8006) and VLC's.
 *
 * @since 0.1.0
 * @category constructors
 */
export const forVirtualMachine = (options: VirtualMachineOptions): SandboxSpec =>
  new SandboxSpec({
    image: options.image ?? "happysixd/osworld-docker:latest",
    entrypoint: ["/usr/bin/tini", "-s", "/run/entry.sh"],
    env: { DISK_SIZE: "32G", RAM_SIZE: "4G", CPU_CORES: "4", ...(options.kvm ? {} : { KVM: "N" }) },
    mounts: [new Mount({ source: options.disk, target: "/System.qcow2" })],
    ports: [ports.guest, ports.devtoolsRelay, 8006, ports.vlc],
    network: "default",
    readiness: new HttpReadiness({
      port: ports.guest,
      path: "/screenshot",
      timeout: Duration.decode(options.readyTimeout ?? "10 minutes")
    }),
    metadata: options.metadata ?? {}
  })

/**
 * What `build-image.sh` calls the image that it builds.
 *
 * @since 0.1.0
 * @category constants
 */
export const defaultImage = "deskhand-desktop"

/**
 * The files that `make` mounts and that are not there: a package that was not built lacks the guest server.
 *
 * @since 0.1.0
 * @category queries
 */
export const missingFiles = (
  facts: HostFacts = hostFacts
): Effect.Effect<ReadonlyArray<string>, never, FileSystem.FileSystem> =>
  Effect.flatMap(FileSystem.FileSystem, (fs) =>
    Effect.filter(
      make({}, facts).mounts.map(({ source }) => source),
      (source) =>
        Effect.map(
          Effect.orElseSucceed(fs.exists(source), () => false),
          (exists) => !exists
        )
    )
  )
