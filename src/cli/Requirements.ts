/**
 * What a run needs of this machine: the provider's own needs, a desktop's parts, and the applications of its tasks.
 *
 * @since 0.1.0
 */
import * as FileSystem from "@effect/platform/FileSystem"
import * as Effect from "effect/Effect"
import * as Applications from "../desktop/Applications.js"
import * as DesktopSpec from "../desktop/DesktopSpec.js"
import { type Grader, requiredCommands, requiredGraders } from "../osworld/RequiredCommands.js"
import type { Task } from "../osworld/Task.js"
import { type Check, SandboxProvider } from "../sandbox/SandboxProvider.js"

/** Where a desktop looks for programs. */
const searchPath = ["/usr/local/bin", "/usr/bin", "/bin", "/usr/games", "/usr/local/sbin", "/usr/sbin", "/sbin"]

/**
 * The applications that tasks start or name, each once. Commands that are no application of ours, `mkdir` among them,
 * are left out.
 *
 * @since 0.1.0
 * @category queries
 */
export const applicationsOf = (tasks: ReadonlyArray<Task>): ReadonlyArray<Applications.Application> => {
  const found = new Set<Applications.Application>()
  for (const task of tasks) {
    const { commands, relatedApps: names } = requiredCommands(task)
    for (const application of [
      ...Array.from(commands, (command) => Applications.find([command])),
      ...names.map(Applications.forRelatedApp)
    ]) {
      if (application !== undefined) found.add(application)
    }
  }
  return Array.from(found)
}

const isUbuntu: Effect.Effect<boolean, never, FileSystem.FileSystem> = Effect.flatMap(FileSystem.FileSystem, (fs) =>
  Effect.match(fs.readFileString("/etc/os-release"), {
    onFailure: () => false,
    onSuccess: (content) => /^ID="?ubuntu"?$/m.test(content)
  })
)

const applicationCheck = (
  application: Applications.Application,
  ubuntu: boolean
): Effect.Effect<Check, never, FileSystem.FileSystem> =>
  Effect.gen(function* () {
    const fs = yield* FileSystem.FileSystem
    const candidates = application.programs.flatMap((program) =>
      program.startsWith("/") ? [program] : searchPath.map((folder) => `${folder}/${program}`)
    )
    const exists = (path: string) => Effect.orElseSucceed(fs.exists(path), () => false)
    const present = yield* Effect.findFirst(candidates, exists)
    const part = yield* Effect.findFirst(application.parts ?? [], (path) => Effect.negate(exists(path)))
    const ok = present._tag === "Some" && part._tag === "None"
    const special = ubuntu ? application.onUbuntu : undefined
    const packages = special === undefined ? application.packages : []
    const note = special ?? application.note
    const remedy =
      packages.length === 0 ? (note ?? "Debian has no package of it") : `apt-get install ${packages.join(" ")}`
    return {
      subject: application.commands[0] ?? "application",
      ok,
      found: present._tag === "None" ? "not installed" : part._tag === "None" ? present.value : `without ${part.value}`,
      remedy: ok ? "" : remedy,
      packages: ok ? [] : packages
    }
  })

const graderCheck = ({ command, packages }: Grader): Effect.Effect<Check, never, FileSystem.FileSystem> =>
  Effect.gen(function* () {
    const fs = yield* FileSystem.FileSystem
    const folders = (process.env["PATH"] ?? "").split(":").filter((folder) => folder !== "")
    const present = yield* Effect.findFirst(
      folders.map((folder) => `${folder}/${command}`),
      (path) => Effect.orElseSucceed(fs.exists(path), () => false)
    )
    const ok = present._tag === "Some"
    return {
      subject: `${command} (grades)`,
      ok,
      found: ok ? present.value : "not installed",
      remedy: ok ? "" : `apt-get install ${packages.join(" ")}`,
      packages: ok ? [] : packages
    }
  })

const guestCheck: Effect.Effect<Check, never, FileSystem.FileSystem> = Effect.map(
  DesktopSpec.missingFiles(),
  (missing) => ({
    subject: "guest server",
    ok: missing.length === 0,
    found: missing.length === 0 ? "built" : `missing: ${missing.join(", ")}`,
    remedy: missing.length === 0 ? "" : "npm run build:guest",
    packages: []
  })
)

/** What the image has to have, for whoever builds it. That it has is not known, so that it is no failure. */
const imageCheck = (wanted: ReadonlyArray<Applications.Application>): ReadonlyArray<Check> => {
  if (wanted.length === 0) return []
  const names = wanted.flatMap(({ commands }) => commands.slice(0, 1)).join(", ")
  const byHand = wanted.filter(({ packages }) => packages.length === 0).flatMap(({ commands }) => commands.slice(0, 1))
  const also = byHand.length === 0 ? "" : `, and ${byHand.join(", ")}, of which Debian has none`
  return [
    {
      subject: "image",
      ok: true,
      found: `the tasks start ${names}; an image with APPLICATIONS="${Applications.packagesOf(wanted).join(" ")}" has them${also}`,
      remedy: "",
      packages: []
    }
  ]
}

/**
 * Looks at everything that the tasks need of this machine. Changes nothing.
 *
 * @since 0.1.0
 * @category operations
 */
export const check = (
  tasks: ReadonlyArray<Task>
): Effect.Effect<ReadonlyArray<Check>, never, SandboxProvider | FileSystem.FileSystem> =>
  Effect.gen(function* () {
    const provider = yield* SandboxProvider
    const graders = yield* Effect.forEach(requiredGraders(tasks), graderCheck)
    const provided = [...(yield* provider.preflight), ...graders]
    // An image brings a desktop's parts and its applications, and nobody looks into it from here.
    if (provider.capabilities.images) return [...provided, ...imageCheck(applicationsOf(tasks))]
    const guest = yield* guestCheck
    const ubuntu = yield* isUbuntu
    const programs = yield* Effect.forEach([...Applications.base, ...applicationsOf(tasks)], (application) =>
      applicationCheck(application, ubuntu)
    )
    return [...provided, guest, ...programs]
  })

/**
 * The Debian packages that would mend what failed, each once, in a stable order.
 *
 * @since 0.1.0
 * @category queries
 */
export const packagesFor = (checks: ReadonlyArray<Check>): ReadonlyArray<string> =>
  Array.from(new Set(checks.flatMap(({ ok, packages }) => (ok ? [] : packages)))).sort()

/**
 * The command that installs packages, as one would type it.
 *
 * @since 0.1.0
 * @category encoding
 */
export const installCommand = (packages: ReadonlyArray<string>, isRoot: boolean): string => {
  const sudo = isRoot ? "" : "sudo "
  return `${sudo}apt-get update && ${sudo}apt-get install -y --no-install-recommends ${packages.join(" ")}`
}

/**
 * The checks as a table, what failed last, and after it what to do.
 *
 * @since 0.1.0
 * @category encoding
 */
export const render = (checks: ReadonlyArray<Check>, isRoot: boolean): string => {
  const width = Math.max(...checks.map(({ subject }) => subject.length))
  const line = ({ found, ok, subject }: Check) => `${ok ? "✔" : "✘"} ${subject.padEnd(width)}  ${found}`
  const failed = checks.filter(({ ok }) => !ok)
  const table = [...checks.filter(({ ok }) => ok), ...failed].map(line)
  const packages = packagesFor(checks)
  const byHand = failed.filter((check) => check.packages.length === 0)
  return [
    ...table,
    "",
    ...(failed.length === 0
      ? ["Everything that is needed is here."]
      : [`${failed.length} of ${checks.length} are missing. What to do:`]),
    ...(packages.length === 0 ? [] : [`  ${installCommand(packages, isRoot)}`]),
    ...byHand.map(({ remedy, subject }) => `  ${subject}: ${remedy}`)
  ].join("\n")
}

/**
 * What `--setup` would do about what failed, for whoever did not give it: it installs packages, and can nothing else.
 *
 * @since 0.1.0
 * @category encoding
 */
export const setupHint = (checks: ReadonlyArray<Check>): string => {
  const failed = checks.filter(({ ok }) => !ok)
  const byHand = failed.filter(({ packages }) => packages.length === 0)
  if (byHand.length === failed.length) return ""
  return byHand.length === 0
    ? "Or run the same command with --setup as root, which does it for you."
    : // A check may fail only because a package is missing, as user namespaces do without bubblewrap.
      `Or run the same command with --setup as root, which installs the packages; what may be missing still is then said: ${byHand.map(({ subject }) => subject).join(", ")}.`
}
