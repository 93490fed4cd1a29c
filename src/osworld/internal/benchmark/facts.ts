/** What a task is like, read from its data alone: what decides into which part of the benchmark it goes. */
import * as Arr from "effect/Array"
import type { SetupStep } from "../../SetupStep.js"
import type { Task } from "../../Task.js"
import { isObject } from "../taskJson.js"

/** Tasks that want a Google account of one's own; OSWorld's list without Drive leaves these out. */
const driveTasks: ReadonlySet<string> = new Set([
  "0c825995-5b70-4526-b663-113f4c999dd2",
  "22a4636f-8179-4357-8e87-d1743ece1f81",
  "46407397-a7d5-4c6b-92c6-dbe038b1457b",
  "4e9f0faf-2ecc-4ae8-a804-28c9a75d1ddc",
  "78aed49a-a710-4321-a793-b611a7c5b56b",
  "897e3b53-5d4d-444b-85cb-2cdc8a97d903",
  "a0b9dc9c-fc07-4a88-8c5d-5e3ecad91bcb",
  "b52b40a5-ad70-4c53-b5b0-5650a8387052"
])

/** Getters that look at a page of the web, or at what is open in the browser. */
const pageGetters: ReadonlySet<string> = new Set([
  "active_tab_info",
  "active_tab_html_parse",
  "active_tab_url_parse",
  "active_url_from_accessTree",
  "gotoRecreationPage_and_get_html_content",
  "info_from_website",
  "open_tabs_info",
  "page_info",
  "pdf_from_url",
  "url_dashPart",
  "url_path_parse"
])

const isWeb = (text: string): boolean =>
  /^https?:\/\//i.test(text) && !/^https?:\/\/(?:localhost|127\.0\.0\.1|\[::1\])(?:[:/]|$)/i.test(text)

const stepsOf = (task: Task): ReadonlyArray<SetupStep> => [...task.config, ...task.evaluator.postconfig]

const wordsOf = (step: SetupStep): ReadonlyArray<string> => {
  switch (step.type) {
    case "execute":
    case "command":
    case "launch":
    case "execute_with_verification":
      return typeof step.parameters.command === "string" ? [step.parameters.command] : step.parameters.command
    default:
      return []
  }
}

const opensPages = (step: SetupStep): boolean =>
  step.type === "chrome_open_tabs"
    ? step.parameters.urlsToOpen.some((url) => isWeb(/^[a-z]+:/i.test(url) ? url : `https://${url}`))
    : step.type === "launch" && wordsOf(step).slice(1).some(isWeb)

/** Why the task depends on what the web has today: its setup opens pages, or its evaluator looks at them. */
export const liveWeb = (task: Task): ReadonlyArray<"setup" | "evaluator"> => {
  const checks = task.evaluator._tag === "Checks" ? task.evaluator.checks : []
  const looks = checks.some(({ expected, result }) =>
    [result.type, ...(expected === undefined ? [] : [expected.type])].some((type) => pageGetters.has(type))
  )
  return [...(stepsOf(task).some(opensPages) ? ["setup" as const] : []), ...(looks ? ["evaluator" as const] : [])]
}

export const wantsDrive = (task: Task): boolean => {
  const checks = task.evaluator._tag === "Checks" ? task.evaluator.checks : []
  return (
    task.fixedIp ||
    driveTasks.has(task.id) ||
    stepsOf(task).some(({ type }) => type === "googledrive") ||
    checks.some(({ expected, result }) => [result.type, expected?.type].includes("googledrive_file"))
  )
}

const cloudFiles = (json: unknown): ReadonlyArray<string> => {
  if (Array.isArray(json)) return json.flatMap(cloudFiles)
  if (!isObject(json)) return []
  const { path, type } = json
  const own = type === "cloud_file" ? (Array.isArray(path) ? path : [path]) : []
  return [...own.filter((one) => typeof one === "string"), ...Object.values(json).flatMap(cloudFiles)]
}

/** The addresses of the files that the task wants: of setup, of postconfig, and of gold anywhere in the evaluator. */
export const assetsOf = (task: Task): ReadonlyArray<string> => {
  const downloads = stepsOf(task).flatMap((step) =>
    step.type === "download" ? step.parameters.files.map(({ url }) => url) : []
  )
  const evaluator = isObject(task.raw) ? cloudFiles(task.raw["evaluator"]) : []
  return Arr.dedupe([...downloads, ...evaluator].filter((url) => /^https?:\/\//i.test(url)))
}

/**
 * A Chrome that can be looked into only from inside of the desktop: its DevTools listen on the desktop's own 1337, and
 * what reaches them from outside is a relay from 9222. Whole words count: 13370 is another port.
 */
export const lacksRelay = (task: Task): boolean => {
  const commands = stepsOf(task).map((step) => wordsOf(step).join(" "))
  const debugged = commands.some((command) => /--remote-debugging-port[= ]1337(?!\w)/.test(command))
  const relayed = commands.some(
    (command) =>
      /(?<!\w)socat(?!\w)/i.test(command) &&
      /listen:9222(?!\w)/i.test(command) &&
      /(?<![\w.])(?:localhost|127\.0\.0\.1):1337(?!\w)/i.test(command)
  )
  return debugged && !relayed
}
