/** Containers of bubblewrap whose root is a folder, and command lines that join one. */
import { spawnSync } from "node:child_process"

/** Whether sandboxes can have namespaces of their own that commands can join later. */
export const canContain = (): boolean =>
  spawnSync("bwrap", ["--ro-bind", "/", "/", "--unshare-pid", "--proc", "/proc", "true"], { stdio: "ignore" })
    .status === 0 && spawnSync("nsenter", ["--version"], { stdio: "ignore" }).status === 0

export const systemFolders = ["/usr", "/bin", "/lib", "/lib64", "/sbin", "/etc"]

/** The command line of a container with the folder as its root; it ends with its first program. */
export const container = (root: string, argv: ReadonlyArray<string>): ReadonlyArray<string> => [
  "bwrap",
  "--bind",
  root,
  "/",
  ...systemFolders.flatMap((folder) => ["--ro-bind-try", folder, folder]),
  "--proc",
  "/proc",
  "--dev",
  "/dev",
  "--unshare-pid",
  "--die-with-parent",
  "--info-fd",
  "3",
  "--chdir",
  "/root",
  ...argv
]

/** The command line of another program in the container of this process. */
export const joined = (pid: number, cwd: string, argv: ReadonlyArray<string>): ReadonlyArray<string> => [
  "nsenter",
  ...(process.getuid?.() === 0 ? [] : ["--user", "--preserve-credentials"]),
  "--mount",
  "--pid",
  "--target",
  String(pid),
  "env",
  `--chdir=${cwd}`,
  ...argv
]
