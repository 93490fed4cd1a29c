/**
 * What failures of the machine mean, in plain words: pure readings of error texts.
 */
import type { PlatformError } from "@effect/platform/Error"
import * as Predicate from "effect/Predicate"

export interface Explanation {
  readonly reason: string
  readonly remedy: string
}

/** What the machine said of a failure. */
export const text = (error: PlatformError): string =>
  "description" in error && error.description !== undefined ? error.description : error.message

/**
 * Whether a file is known not to be there. Reading one of a process that ends meanwhile answers ESRCH. After every other
 * failure (too many open files, a disk that does not answer) it may well be there.
 */
export const isAbsent = (error: PlatformError): boolean =>
  error._tag === "SystemError" &&
  (error.reason === "NotFound" || (Predicate.hasProperty(error.cause, "code") && error.cause.code === "ESRCH"))

/** Whether something is there that may not be looked at. */
export const isForbidden = (error: PlatformError): boolean =>
  error._tag === "SystemError" &&
  (error.reason === "PermissionDenied" || (Predicate.hasProperty(error.cause, "code") && error.cause.code === "EPERM"))

/** Why a file operation below `place` failed. */
export const explainFileError = (error: PlatformError, place: string): Explanation => {
  const found = text(error)
  if (/\b(ENOSPC|EDQUOT)\b/.test(found)) {
    return {
      reason: `there is no space left for ${place} (${found})`,
      remedy: "Free some space, run `deskhand sweep`, or name a folder on another disk in DESKHAND_STATE_DIR"
    }
  }
  if (/\b(EACCES|EPERM|EROFS)\b/.test(found)) {
    return {
      reason: `${place} cannot be written (${found})`,
      remedy: "Make the folder belong to the user that runs this, or name another in DESKHAND_STATE_DIR"
    }
  }
  if (/\b(EMFILE|ENFILE)\b/.test(found)) {
    return { reason: `too many files are open (${found})`, remedy: "Raise the limit: ulimit -n 65536" }
  }
  if (/\b(EAGAIN|ENOMEM)\b/.test(found)) {
    return {
      reason: `the machine has no room for another process (${found})`,
      remedy: "Open fewer sandboxes at once, or raise ulimit -u"
    }
  }
  return { reason: found, remedy: "Run `deskhand doctor`" }
}

/** Settings of the kernel that decide whether containers can be made; undefined where a kernel does not have one. */
export interface KernelSettings {
  /** `kernel.apparmor_restrict_unprivileged_userns` */
  readonly apparmorRestricts: string | undefined
  /** `kernel.unprivileged_userns_clone` */
  readonly unprivilegedClone: string | undefined
  /** `user.max_user_namespaces` */
  readonly maxUserNamespaces: string | undefined
  /** This process runs inside a Docker or Podman container. */
  readonly inContainer: boolean
  /** The program's own path, for an AppArmor profile. */
  readonly bwrap: string
}

/** What to do when bubblewrap could not make its namespaces; `printed` is what it said. */
export const namespaceRemedy = (printed: string, settings: KernelSettings): string => {
  if (/loopback|RTM_NEWADDR|RTM_NEWLINK/i.test(printed) && settings.apparmorRestricts !== "1") {
    return "The network namespace could not be set up: run where NET_ADMIN inside of a user namespace is not filtered"
  }
  if (settings.inContainer) {
    return "Inside Docker or Podman, start the container with --privileged, or with --security-opt seccomp=unconfined --security-opt apparmor=unconfined --security-opt systempaths=unconfined (and --cap-add SYS_ADMIN --cap-add NET_ADMIN when it runs as root)"
  }
  if (settings.maxUserNamespaces === "0") {
    return "User namespaces are switched off: sudo sysctl -w user.max_user_namespaces=15000"
  }
  if (settings.unprivilegedClone === "0") {
    return "Unprivileged user namespaces are switched off: sudo sysctl -w kernel.unprivileged_userns_clone=1"
  }
  if (settings.apparmorRestricts === "1") {
    return `AppArmor keeps ordinary programs from user namespaces (Ubuntu 24.04 and later). Either allow all: sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0 (and write the setting to /etc/sysctl.d/60-deskhand.conf); or allow bubblewrap alone: write "abi <abi/4.0>, include <tunables/global> profile bwrap ${settings.bwrap} flags=(unconfined) { userns, }" to /etc/apparmor.d/bwrap and run sudo apparmor_parser -r /etc/apparmor.d/bwrap`
  }
  return "Run on a kernel and under a user that may create user, mount, pid and network namespaces"
}

/** Bubblewrap before this knows neither `--clearenv` nor `--perms`. */
export const oldestBubblewrap = "0.5.0"

/** Whether `bwrap --version`'s answer is new enough. */
export const isRecentBubblewrap = (answer: string): boolean => {
  const version = /(\d+)\.(\d+)/.exec(answer)
  return version !== null && (Number(version[1]) > 0 || Number(version[2]) >= 5)
}
