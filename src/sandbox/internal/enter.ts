/**
 * How a process of this host becomes one of a container: the scripts, as text. Nothing here is ever given by a guest.
 */
import { driverFd, unprivilegedId } from "./bwrapArguments.js"

/** Where the scripts find the working directory, the environment and the command, each ended by NUL. */
export const wordsFd = 3

/** Where the last script says that the command is about to run. */
export const begunFd = 4

const userFd = driverFd

/**
 * Signals to a command's whole process group come to who waits for it, too, and should not end that one before it can
 * tell how the command did. What is caught, and not ignored, is as ever in the command.
 */
const unmoved = "$SIG{$_} = sub {} for qw(HUP INT QUIT TERM USR1 USR2 ALRM);"

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
${unmoved}
my $child = fork; defined $child or die "fork: $!\\n";
if (!$child) { exec {$ARGV[0]} @ARGV; die "exec: $!\\n" }
1 until waitpid($child, 0) == $child;
if ($? & 127) { $SIG{$_} = "DEFAULT" for keys %SIG; kill $? & 127, $$; sleep 1; exit 128 + ($? & 127) }
exit($? >> 8);
`

/** PR_SET_CHILD_SUBREAPER, and the number of prctl. */
const beReaper = `${process.arch === "x64" ? 157 : 167}, 36, 1, 0, 0, 0`

/**
 * Runs as the guest's user in all of its namespaces. It stays as long as the command does and takes the parent's place
 * for whatever loses its own, so that all that the command started is below it. It holds none of the command's pipes.
 */
const inside = `
if (open my $user, "<&=", ${userFd}) { close $user }
open my $in, "<&=", ${wordsFd} or die "the words: $!\\n";
my ($folder, @words) = split /\\0/, do { local $/; <$in> }, -1;
close $in;
pop @words;
if (!chdir $folder) { print STDERR "cd: $folder: $!\\n"; exit 126 }
open my $begun, ">&=", ${begunFd} or die "the mark: $!\\n";
syswrite $begun, "x";
close $begun;
syscall(${beReaper}) == 0 or die "the reaper: $!\\n";
${unmoved}
my $child = fork;
defined $child or die "fork: $!\\n";
if (!$child) { exec "/usr/bin/env", "-i", "--", @words; die "exec: $!\\n" }
open STDIN, "<", "/dev/null";
open STDOUT, ">", "/dev/null";
open STDERR, ">", "/dev/null";
1 until waitpid(-1, 0) == $child;
exit($? & 127 ? 128 + ($? & 127) : $? >> 8);
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
    /usr/bin/nsenter --user=/proc/self/fd/${userFd} --preserve-credentials -- /usr/bin/perl -e "$1"
else
  exec /usr/bin/perl -MPOSIX -e "$2" "$first" /usr/bin/setpriv --no-new-privs /usr/bin/perl -e "$1"
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
}): string =>
  [options.workdir, ...Object.entries(options.env).map(([name, value]) => `${name}=${value}`), ...options.command]
    .map((word) => `${word}\0`)
    .join("")
