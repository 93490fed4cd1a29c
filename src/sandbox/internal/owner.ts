/**
 * Which process answers for a sandbox, and whether it still runs: pure decisions over what `/proc` says.
 */
import * as Schema from "effect/Schema"

/** A process, told apart from a later one that got the same number. */
export class Owner extends Schema.Class<Owner>("deskhand/sandbox/internal/Owner")({
  pid: Schema.Int,
  /** When the process started, in clock ticks after the boot: field 22 of `/proc/<pid>/stat`. */
  startedAt: Schema.String,
  /** Which boot of the machine. */
  boot: Schema.String,
  /** Which process-number space: containers on one machine may share a state folder. */
  pidNamespace: Schema.String
}) {}

/** What `/proc/<pid>/stat` says, as far as it is needed here. */
export interface ProcessStat {
  readonly state: string
  readonly parent: number
  readonly startedAt: string
}

/** The name in field 2 may hold spaces and parentheses, so the fields are counted from the last parenthesis. */
export const parseStat = (text: string): ProcessStat | undefined => {
  const fields = text
    .slice(text.lastIndexOf(")") + 2)
    .trim()
    .split(" ")
  const [state, parent] = fields
  const startedAt = fields[19]
  return state === undefined || parent === undefined || startedAt === undefined
    ? undefined
    : { state, parent: Number(parent), startedAt }
}

/** A process that has ended and that nobody has waited for yet is gone, too. */
export const isRunning = (stat: ProcessStat | undefined): stat is ProcessStat =>
  stat !== undefined && stat.state !== "Z" && stat.state !== "X"

/** `unknown`: the owner counts its processes elsewhere (in another container), so nobody here can tell. */
export type Liveness = "alive" | "dead" | "unknown"

/** `stat` is what is found now under the owner's number; `here` is this process. */
export const liveness = (owner: Owner, stat: ProcessStat | undefined, here: Owner): Liveness =>
  owner.boot !== here.boot
    ? "dead"
    : owner.pidNamespace !== here.pidNamespace
      ? "unknown"
      : isRunning(stat) && stat.startedAt === owner.startedAt
        ? "alive"
        : "dead"

/** An owner as a label: letters, digits and dots alone, and at most 63 of them, which every service takes. */
export const ownerLabel = (owner: Owner): string =>
  [
    owner.boot.replaceAll("-", "").slice(0, 12) || "0",
    owner.pidNamespace.replaceAll(/\D/g, "") || "0",
    owner.pid,
    owner.startedAt || "0"
  ].join(".")

export const parseOwnerLabel = (label: string): Owner | undefined => {
  const [boot, pidNamespace, pid, startedAt, ...rest] = label.split(".")
  return boot === undefined ||
    pidNamespace === undefined ||
    pid === undefined ||
    startedAt === undefined ||
    rest.length > 0 ||
    !/^\d+$/.test(pid)
    ? undefined
    : Owner.make({ boot, pidNamespace, pid: Number(pid), startedAt })
}
