/** The mark by which the processes of one command are found, however far they are from their parents. */

/** In the environment of all that one `exec` started, unless it cleared it. */
export const execMark = "DESKHAND_EXEC"

/** The same for E2B, whose sandboxes may be those of another provider, with its own mark in them. */
export const e2bExecMark = "DESKHAND_E2B_EXEC"

/** The environment of a command: its own over the sandbox's. Nothing that either gives goes over the mark. */
export const marked = (
  mark: string,
  token: string,
  sandbox: Readonly<Record<string, string>>,
  command: Readonly<Record<string, string>> | undefined
): Readonly<Record<string, string>> => ({ ...sandbox, ...command, [mark]: token })
