/**
 * Which programs a task starts: what a desktop has to have before a rollout is spent on it.
 *
 * @since 0.1.0
 */
import type { SetupStep } from "./SetupStep.js"
import type { Task } from "./Task.js"

/** Shell words that no `PATH` look-up finds. */
const shellWords = new Set(
  "if then elif else fi for do done while until case esac in function { } ! : . [ [[ cd echo eval exec exit export false \
printf read return set shift source test trap true ulimit umask unset wait".split(" ")
)

/** The first word of each simple command in shell text; quotes are honoured, here-documents and substitutions are not. */
const shellCommandNames = (text: string): Array<string> => {
  const names: Array<string> = []
  const token = /(?:"(?:\\.|[^"\\])*"|'[^']*'|\\[\s\S]|[^\s;&|()"'\\])+|[;&|()\n]+|[^\S\n]+|["'\\]/g
  let atStart = true
  let redirect = false
  for (const [word] of text.matchAll(token)) {
    if (/^[;&|()\n]+$/.test(word)) atStart = true
    else if (/^\s+$/.test(word)) continue
    else if (redirect) redirect = false
    else if (/^\d*[<>]+&?$/.test(word)) redirect = true
    else if (atStart && !/^\w+=/.test(word) && !/^\d*[<>]/.test(word)) {
      const name = word.replace(/["'\\]/g, "")
      if (shellWords.has(name)) atStart = /^(if|then|elif|else|do|while|until|!|\{)$/.test(name)
      else {
        names.push(name)
        atStart = false
      }
    }
  }
  return names
}

const stepCommands = (step: SetupStep): ReadonlyArray<string> => {
  switch (step.type) {
    case "launch":
    case "execute":
    case "command":
    case "execute_with_verification": {
      const { command, shell } = step.parameters
      const first = typeof command === "string" ? command : command[0]
      // With a list and a shell, the guest's Popen takes the first element as the whole shell text.
      if (shell) return shellCommandNames(first)
      return typeof command === "string" ? shellCommandNames(first).slice(0, 1) : [first]
    }
    default:
      return []
  }
}

/**
 * The programs that a task's own steps start, as they are written there (`google-chrome`, `/usr/bin/thunderbird`), and
 * its `related_apps` in upstream's free spelling: what a doctor looks for in a desktop before it spends rollouts on it.
 *
 * @since 0.1.0
 * @category inspection
 */
export const requiredCommands = (
  task: Task
): { readonly commands: ReadonlySet<string>; readonly relatedApps: ReadonlyArray<string> } => ({
  commands: new Set([...task.config, ...task.evaluator.postconfig].flatMap(stepCommands)),
  relatedApps: task.relatedApps
})

/** What metrics read files with that no library of ours reads, on the host that grades. */
const graders: Readonly<Record<string, Grader>> = {
  compare_audios: { command: "ffmpeg", packages: ["ffmpeg"] },
  compare_videos: { command: "ffmpeg", packages: ["ffmpeg"] },
  compare_image_text: { command: "tesseract", packages: ["tesseract-ocr"] }
}

/**
 * A program of the host that grades, and the Debian packages that bring it.
 *
 * @since 0.1.0
 * @category models
 */
export interface Grader {
  readonly command: string
  readonly packages: ReadonlyArray<string>
}

/**
 * The programs that the grades of tasks take on this host, whatever their desktops have; each once.
 *
 * @since 0.1.0
 * @category inspection
 */
export const requiredGraders = (tasks: ReadonlyArray<Task>): ReadonlyArray<Grader> => {
  const found = new Map<string, Grader>()
  for (const { evaluator } of tasks) {
    for (const { metric } of evaluator._tag === "Checks" ? evaluator.checks : []) {
      const grader = graders[metric]
      if (grader !== undefined) found.set(grader.command, grader)
    }
  }
  return Array.from(found.values())
}
