/**
 * What of this host a local sandbox sees: a pure decision over the spec and facts that were looked up before.
 */
import type { SandboxSpec } from "../SandboxSpec.js"

/** Where a sandbox's own things are, inside. */
export const guest = {
  home: "/home/user",
  runtime: "/run/user/1000",
  relay: "/run/deskhand",
  hostname: "deskhand"
} as const

/**
 * The user of this host that a guest is when the driver is root. A guest that were root outside of its namespace could
 * write root's kernel settings (`/proc/sys/kernel/core_pattern` runs a program outside of every sandbox). The id is one
 * that Debian keeps reserved and that systemd gives to nobody; it is below 65536, so that containers have it too.
 */
export const unprivilegedId = 65530

/** `/bin` and its like: a link into `/usr`, or a folder of its own on hosts that did not merge them. */
export interface SystemFolder {
  readonly path: string
  readonly link: string | undefined
}

/** What was found on this host. */
export interface HostFacts {
  readonly root: boolean
  readonly folders: ReadonlyArray<SystemFolder>
  /** Which of `lookedFor(spec)` exist. */
  readonly present: ReadonlySet<string>
}

/** The private folders and generated files on this host's disk that a sandbox is made of. */
export interface Folders {
  readonly home: string
  readonly runtime: string
  readonly relay: string
  /** Name below `/etc` and the file on this host that it shows. */
  readonly etc: ReadonlyArray<{ readonly name: string; readonly source: string }>
}

/** Folders that a host may have merged into `/usr`. */
export const systemFolderPaths = ["/bin", "/sbin", "/lib", "/lib64", "/lib32", "/libx32"] as const

/** Without these, programs of `/usr` don't find their libraries, commands or clock. */
const basics = [
  "/etc/ld.so.cache",
  "/etc/ld.so.conf",
  "/etc/ld.so.conf.d",
  "/etc/alternatives",
  "/etc/localtime",
  "/etc/os-release",
  "/etc/protocols",
  "/etc/services"
]

/** What names and certificates are resolved with, when the network is this host's. */
const networkFiles = ["/etc/resolv.conf", "/etc/gai.conf", "/etc/ssl/certs", "/etc/ssl/openssl.cnf"]

const optionalFolders = ["/opt/google"]

/** The files that the provider writes itself: identities and names of the host never show. */
export const generatedFiles = (machineId: string): ReadonlyArray<{ readonly name: string; readonly text: string }> => [
  {
    name: "passwd",
    text: `root:x:0:0:root:/root:/usr/sbin/nologin\nuser:x:1000:1000:user:${guest.home}:/bin/bash\nnobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n`
  },
  { name: "group", text: "root:x:0:\nuser:x:1000:\nnogroup:x:65534:\n" },
  {
    name: "hosts",
    text: `127.0.0.1 localhost\n127.0.1.1 ${guest.hostname}\n::1 localhost ip6-localhost ip6-loopback\n`
  },
  { name: "nsswitch.conf", text: "passwd: files\ngroup: files\nshadow: files\nhosts: files dns\nservices: files\n" },
  { name: "machine-id", text: `${machineId}\n` },
  { name: "hostname", text: `${guest.hostname}\n` }
]

const generatedPaths = new Set(generatedFiles("").map((file) => `/etc/${file.name}`))

const shownFiles = (spec: SandboxSpec): ReadonlyArray<string> =>
  [...new Set([...basics, ...(spec.network === "host" ? networkFiles : []), ...spec.systemFiles])]
    .filter((path) => !generatedPaths.has(path))
    .sort()

/** The paths whose existence `bwrapArguments` wants to know. */
export const lookedFor = (spec: SandboxSpec): ReadonlyArray<string> => [
  ...optionalFolders,
  ...shownFiles(spec),
  ...spec.mounts.map((mount) => mount.source)
]

const isPlainPath = (path: string) => path.startsWith("/") && path.split("/").slice(1).every(isPlainSegment)

const isPlainSegment = (segment: string) => segment !== "" && segment !== "." && segment !== ".."

const isWithin = (path: string, folder: string) => path === folder || path.startsWith(`${folder}/`)

/** A mount on, in or above one of these would change what the sandbox is. */
const reserved = ["/usr", ...systemFolderPaths, "/proc", "/sys", "/dev", guest.home, guest.runtime, guest.relay]

/** Folders that stay the sandbox's own, though single things may be mounted inside them. */
const reservedExactly = new Set(["/etc", "/tmp", "/var", "/var/tmp", ...generatedPaths])

/** Why the spec cannot be opened here, in plain words. */
export const problems = (spec: SandboxSpec, present: ReadonlySet<string>): ReadonlyArray<string> => {
  const found: Array<string> = []
  for (const path of spec.systemFiles) {
    if (!isPlainPath(path) || !path.startsWith("/etc/")) {
      found.push(`systemFiles has ${JSON.stringify(path)}, which is no plain path below /etc`)
    }
  }
  spec.mounts.forEach((mount, index) => {
    if (!isPlainPath(mount.source)) {
      found.push(`the mount source ${JSON.stringify(mount.source)} is no plain absolute path`)
    } else if (!present.has(mount.source)) {
      found.push(`the mount source ${mount.source} does not exist`)
    }
    if (!isPlainPath(mount.target)) {
      found.push(`the mount target ${JSON.stringify(mount.target)} is no plain absolute path`)
    } else if (
      reservedExactly.has(mount.target) ||
      reserved.some((path) => isWithin(mount.target, path) || isWithin(path, mount.target))
    ) {
      found.push(`the mount target ${mount.target} is part of the sandbox itself`)
    }
    if (spec.mounts.some((other, at) => at !== index && isWithin(mount.target, other.target))) {
      found.push(`the mount target ${mount.target} lies inside another mount`)
    }
  })
  for (const name of Object.keys(spec.env)) {
    if (name === "" || name.includes("=")) {
      found.push(`${JSON.stringify(name)} is no name of an environment variable`)
    }
  }
  if (spec.resources !== undefined) {
    found.push("resources cannot be limited by local sandboxes")
  }
  if (spec.workdir !== undefined && !isPlainPath(spec.workdir)) {
    found.push(`the workdir ${JSON.stringify(spec.workdir)} is no plain absolute path`)
  }
  if (spec.readiness?._tag === "HttpReadiness" && !spec.ports.includes(spec.readiness.port)) {
    found.push(`readiness asks port ${spec.readiness.port}, which is not among the ports`)
  }
  const texts = [
    ...entrypoint(spec),
    ...Object.entries(spec.env).flat(),
    ...spec.systemFiles,
    ...spec.mounts.flatMap((mount) => [mount.source, mount.target])
  ]
  if (texts.some((text) => text.includes("\0"))) {
    found.push("a text has a NUL character, which no command line can carry")
  }
  return found
}

/** What the container runs: as long as this does, it exists. */
const entrypoint = (spec: SandboxSpec): readonly [string, ...ReadonlyArray<string>] =>
  spec.entrypoint ?? ["/usr/bin/sleep", "infinity"]

const namespaces = (spec: SandboxSpec, root: boolean): ReadonlyArray<string> =>
  root
    ? [
        "--unshare-ipc",
        "--unshare-pid",
        "--unshare-uts",
        "--unshare-cgroup-try",
        ...(spec.network === "host" ? [] : ["--unshare-net"]),
        ...["--cap-drop", "ALL", "--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID", "--cap-add", "CAP_SETPCAP"]
      ]
    : ["--unshare-all", ...(spec.network === "host" ? ["--share-net"] : []), "--uid", "1000", "--gid", "1000"]

/** The ancestors of a path below the root, outermost first. */
const ancestors = (path: string): ReadonlyArray<string> => {
  const segments = path.split("/").slice(1, -1)
  return segments.map((_, index) => `/${segments.slice(0, index + 1).join("/")}`)
}

/**
 * The options of bubblewrap, in the order that it follows them. Everything that is shown is named here; the root folder
 * is empty otherwise and ends read-only.
 */
export const bwrapOptions = (spec: SandboxSpec, facts: HostFacts, folders: Folders): ReadonlyArray<string> => {
  const made = new Set(["/usr", "/etc", "/home", "/run", "/run/user", "/tmp", "/var", "/var/tmp"])
  const parents = (path: string): ReadonlyArray<string> =>
    ancestors(path)
      .filter((folder) => !made.has(folder))
      .flatMap((folder) => {
        made.add(folder)
        return ["--dir", folder]
      })
  const show = (source: string, target: string) => {
    const options = [...parents(target), "--ro-bind", source, target]
    made.add(target)
    return options
  }
  return [
    ...namespaces(spec, facts.root),
    ...["--hostname", guest.hostname],
    ...["--die-with-parent", "--new-session", "--clearenv"],
    ...Object.entries(spec.env).flatMap(([name, value]) => ["--setenv", name, value]),
    ...["--ro-bind", "/usr", "/usr"],
    ...facts.folders.flatMap((folder) =>
      folder.link === undefined ? ["--ro-bind", folder.path, folder.path] : ["--symlink", folder.link, folder.path]
    ),
    ...["--proc", "/proc", "--dev", "/dev", "--perms", "1777", "--tmpfs", "/dev/shm"],
    ...["--perms", "1777", "--tmpfs", "/tmp"],
    // What every boot makes in /tmp, because X and ICE servers refuse to make it for ordinary users.
    ...["--perms", "1777", "--dir", "/tmp/.X11-unix", "--perms", "1777", "--dir", "/tmp/.ICE-unix"],
    ...["--dir", "/var", "--perms", "1777", "--tmpfs", "/var/tmp"],
    ...["--dir", "/run", "--dir", "/run/user", "--bind", folders.runtime, guest.runtime],
    ...["--bind", folders.relay, guest.relay, "--symlink", "../run", "/var/run"],
    ...["--dir", "/home", "--bind", folders.home, guest.home],
    ...["--dir", "/etc", "--symlink", "/proc/self/mounts", "/etc/mtab"],
    ...folders.etc.flatMap((file) => ["--ro-bind", file.source, `/etc/${file.name}`]),
    ...[...optionalFolders, ...shownFiles(spec)]
      .filter((path) => facts.present.has(path))
      .flatMap((path) => show(path, path)),
    ...spec.mounts.flatMap((mount) => show(mount.source, mount.target)),
    ...["--remount-ro", "/dev", "--remount-ro", "/"],
    ...["--chdir", spec.workdir ?? guest.home]
  ]
}

/** Gives up what root had and enters the user namespace in which the guest is user 1000, before anything runs. */
const unprivileged = [
  ...["/usr/bin/setpriv", "--reuid", `${unprivilegedId}`, "--regid", `${unprivilegedId}`, "--clear-groups"],
  ...["--inh-caps=-all", "--ambient-caps=-all", "--bounding-set=-all"],
  ...["/usr/bin/unshare", "--user", "--map-user=1000", "--map-group=1000", "--"]
]

/** Where the first program inside finds a pipe whose other end closes with the driver. */
export const driverFd = 5

/**
 * The first program inside: a relay for every port, then the entrypoint in its place. The relays are started by a shell
 * that ends, so that they are no children of the entrypoint; their complaints about a port that nobody listens on yet
 * are of no use to anybody.
 *
 * Bubblewrap ties a container to its parent only after it began to build it: a driver that was killed meanwhile would
 * leave it running. So for the first seconds a second tie holds: the driver's pipe ends when the driver does.
 */
const init = `
({ read -r -t 5 -u ${driverFd}; (($? > 128)) || kill -KILL -1; } >/dev/null 2>&1 &)
exec ${driverFd}<&-
tools=/usr/local/bin:/usr/bin:/bin
count=$1; shift
relay() {
  PATH=$tools socat -b65536 -t10 "UNIX-LISTEN:${guest.relay}/$1.sock,fork,backlog=128,mode=0600" "TCP:127.0.0.1:$1" \
    </dev/null >/dev/null 2>&1 &
}
for port in "\${@:1:count}"; do (relay "$port"); done
for port in "\${@:1:count}"; do
  for ((tries = 0; ; tries++)); do
    [[ -S ${guest.relay}/$port.sock ]] && break
    if ((tries == 500)); then echo "deskhand: the relay of port $port did not start; is socat installed?"; exit 1; fi
    PATH=$tools sleep 0.01
  done
done
: >${guest.relay}/started
shift "$count"
export -n PWD OLDPWD SHLVL
exec "$@"
`

/** How a process of a sandbox is known on this host, whoever started it. */
export const processMark = (id: string) => `deskhand-sandbox=${id}`

/** The command that bubblewrap runs. */
export const bwrapCommand = (id: string, spec: SandboxSpec, root: boolean): ReadonlyArray<string> => [
  ...(root ? unprivileged : []),
  ...["/bin/bash", "-c", init, processMark(id), `${spec.ports.length}`, ...spec.ports.map(String), ...entrypoint(spec)]
]

/** What `preflight` tries: the same namespaces, and nothing in them. */
export const trialArguments = (root: boolean): ReadonlyArray<string> => [
  ...(root
    ? [
        ...["--unshare-ipc", "--unshare-pid", "--unshare-uts", "--unshare-net", "--unshare-cgroup-try"],
        ...["--cap-drop", "ALL", "--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID", "--cap-add", "CAP_SETPCAP"]
      ]
    : ["--unshare-all", "--uid", "1000", "--gid", "1000"]),
  ...["--die-with-parent", "--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev", "--"],
  ...(root ? unprivileged : []),
  "/usr/bin/true"
]
