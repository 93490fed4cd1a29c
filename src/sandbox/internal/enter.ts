/**
 * How a process of this host becomes one of a container: the scripts, as text. Nothing here is ever given by a guest.
 */
import { driverFd, unprivilegedId } from "./bwrapArguments.js"

/** In the environment of all that one `exec` started, unless it cleared it. */
export const execMark = "DESKHAND_EXEC"

/** Where the scripts find the working directory, the environment and the command, each ended by NUL. */
export const wordsFd = 3

/** Where the last script says that the command is about to run. */
export const begunFd = 4

const userFd = driverFd

/**
 * Bubblewrap's user namespace is the parent of the guest's, and no process is left in it: only its child knows the way.
 * An ordinary user who made both may enter both; `nsenter` of util-linux 2.38 cannot ask for a parent.
 */
const enterAsUser = `
my $pid = shift; my %ns;
for (qw(user mnt pid net ipc uts)) { open($ns{$_}, "<", "/proc/$pid/ns/$_") or die "ns/$_: $!\\n" }
my $parent = ioctl($ns{user}, 0xb702, 0);
defined $parent or die "the parent user namespace: $!\\n";
my $machine = (POSIX::uname())[4];
my $setns = $machine eq "x86_64" ? 308 : 268;
syscall($setns, 0 + $parent, 0) == 0 or die "the parent user namespace: $!\\n";
for (qw(mnt pid net ipc uts user)) { syscall($setns, fileno($ns{$_}), 0) == 0 or die "ns/$_: $!\\n" }
chdir "/"; $^F = 255;
my $child = fork; defined $child or die "fork: $!\\n";
if (!$child) { exec {$ARGV[0]} @ARGV; die "exec: $!\\n" }
waitpid $child, 0;
if ($? & 127) { $SIG{$_} = "DEFAULT" for keys %SIG; kill $? & 127, $$; sleep 1; exit 128 + ($? & 127) }
exit($? >> 8);
`

/** Runs as the guest's user in all of its namespaces. */
const inside = `
exec ${userFd}<&-
mapfile -d '' -t -u ${wordsFd} words
exec ${wordsFd}<&-
cd -- "\${words[0]}" || exit 126
printf x >&${begunFd}
exec ${begunFd}>&-
exec /usr/bin/env -i -- "\${words[@]:1}"
`

/**
 * Node's pipes are sockets, which cannot be opened a second time as \`/dev/stderr\` can; so they are made real pipes. The
 * forwarders end with the last process that holds the other end.
 */
const outside = `
umask 022
for fd in /proc/self/fd/*; do fd=\${fd##*/}; if ((fd > ${begunFd})); then exec {fd}>&-; fi; done
first=$1 guest=$2 input=$3 how=$4; shift 4
echo 500 >/proc/self/oom_score_adj 2>/dev/null
exec 6>&1 7>&2
if ((input)); then exec < <(exec cat 1>&1 2>/dev/null 3>&- 4>&- 6>&- 7>&-); else exec </dev/null; fi
exec > >(exec cat >&6 2>/dev/null 3>&- 4>&- 6>&- 7>&-) 2> >(exec cat >&7 2>/dev/null 3>&- 4>&- 6>&- 7>&-) 6>&- 7>&-
if [[ $how == root ]]; then
  # What is opened again by its name is opened by the guest.
  chown ${unprivilegedId} /proc/$$/fd/1 /proc/$$/fd/2
  if ((input)); then chown ${unprivilegedId} /proc/$$/fd/0; fi
  exec ${userFd}</proc/$guest/ns/user || exit 1
  exec nsenter --target "$first" --mount --pid --net --ipc --uts --cgroup -- \\
    /usr/bin/setpriv --reuid ${unprivilegedId} --regid ${unprivilegedId} --clear-groups \\
    --inh-caps=-all --ambient-caps=-all --bounding-set=-all --no-new-privs \\
    /usr/bin/nsenter --user=/proc/self/fd/${userFd} --preserve-credentials -- /bin/bash --norc -c "$1" exec
else
  exec perl -MPOSIX -e "$2" "$first" /usr/bin/setpriv --no-new-privs /bin/bash --norc -c "$1" exec
fi
`

/** The command that enters a container. `first` and `guest` are its processes 1 and 2, by their numbers outside. */
export const command = (options: {
  readonly first: number
  readonly guest: number
  readonly stdin: boolean
  readonly root: boolean
}): readonly [string, ...ReadonlyArray<string>] => [
  ...(["/bin/bash", "--norc", "-c", outside, "deskhand-exec"] as const),
  `${options.first}`,
  `${options.guest}`,
  options.stdin ? "1" : "0",
  options.root ? "root" : "user",
  inside,
  enterAsUser
]

/** What `inside` reads. */
export const words = (options: {
  readonly workdir: string
  readonly env: Readonly<Record<string, string>>
  readonly command: ReadonlyArray<string>
  readonly token: string
}): string =>
  [
    options.workdir,
    ...Object.entries(options.env).map(([name, value]) => `${name}=${value}`),
    `${execMark}=${options.token}`,
    ...options.command
  ]
    .map((word) => `${word}\0`)
    .join("")
