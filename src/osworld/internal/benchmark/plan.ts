/** From files to tasks, and from tasks to the parts of the benchmark. Pure. */
import * as Arr from "effect/Array"
import * as Either from "effect/Either"
import * as Order from "effect/Order"
import * as Task from "../../Task.js"
import { decodeTask, type Found, isIndex, isNoTask, isObject, type Problem, parseJson } from "../taskJson.js"
import { sha256 } from "./digest.js"
import * as Facts from "./facts.js"
import { indexName, type Source } from "./source.js"

export interface Prepared {
  /** Its place among all tasks: the same in each part. */
  readonly index: number
  readonly task: Task.Task
  readonly domain: string
  /** Of the file's bytes. */
  readonly sha256: string
  readonly infeasible: boolean
  readonly drive: boolean
  readonly proxy: boolean
  readonly liveWeb: ReadonlyArray<"setup" | "evaluator">
  readonly assets: ReadonlyArray<string>
}

export const splitNames = ["all", "nogdrive", "small", "infeasible"] as const

export type SplitName = (typeof splitNames)[number]

export interface Plan {
  readonly tasks: ReadonlyArray<Prepared>
  /** A part that the files say nothing of is absent. */
  readonly splits: ReadonlyMap<SplitName, ReadonlyArray<Prepared>>
  /** Where the lists that came with the files say something else than the tasks themselves. */
  readonly notes: ReadonlyArray<string>
}

const domainOf = (name: string, task: Task.Task): string => {
  const [file = "", folder] = name.split("/").reverse()
  const prefix = /^(.+?)__./.exec(file)?.[1]
  return (
    prefix ?? (folder !== undefined && Task.domains.includes(folder) ? folder : (task.snapshot ?? folder ?? "unknown"))
  )
}

const read = ({ bytes, name }: Source["files"][number]): Found<unknown> =>
  parseJson(new TextDecoder().decode(bytes), name)

type Candidate = Omit<Prepared, "index"> & { readonly source: string }

const candidate = (file: Source["files"][number], json: unknown): Found<Candidate> =>
  Either.flatMap(decodeTask(json, file.name), (task): Found<Candidate> => {
    if (Facts.lacksRelay(task)) {
      return Either.left([
        {
          source: file.name,
          path: "config",
          message:
            "expected a relay to Chrome's DevTools, which listen inside of the desktop: launch socat tcp-listen:9222,fork tcp:localhost:1337"
        }
      ])
    }
    return Either.right({
      source: file.name,
      task,
      domain: domainOf(file.name, task),
      sha256: sha256(file.bytes),
      infeasible: task.evaluator._tag === "Infeasible",
      drive: Facts.wantsDrive(task),
      proxy: task.proxy,
      liveWeb: Facts.liveWeb(task),
      assets: Facts.assetsOf(task)
    })
  })

const byDomain = Order.combine(
  Order.mapInput(Order.string, ({ domain }: Candidate) => domain),
  Order.mapInput(Order.string, ({ task }: Candidate) => task.id)
)

const list = (ids: ReadonlyArray<string>): string =>
  ids.length > 3 ? `${ids.slice(0, 3).join(", ")} and ${ids.length - 3} more` : ids.join(", ")

export const plan = (source: string, files: Source["files"]): Found<Plan> => {
  const indexes = new Map<string, ReadonlyArray<string>>()
  const found: Array<Found<Candidate>> = []
  for (const file of files) {
    const json = read(file)
    const index = indexName.exec(file.name)?.[1]
    if (Either.isLeft(json)) found.push(Either.left(json.left))
    else if (index !== undefined && isIndex(json.right)) indexes.set(index, Object.values(json.right).flat())
    else if (!isNoTask(json.right) && isObject(json.right)) found.push(candidate(file, json.right))
  }
  const [left, candidates] = Arr.separate(found)
  const problems: Array<Problem> = left.flat()
  const first = new Map<string, string>()
  for (const { source, task } of candidates) {
    const there = first.get(task.id)
    if (there !== undefined)
      problems.push({ source, path: "id", message: `the task id ${task.id} is taken by ${there}` })
    else first.set(task.id, source)
  }
  // What a file that is broken would have been, nobody knows: then no list is held against the tasks.
  for (const [name, ids] of problems.length > 0 ? [] : indexes) {
    const missing = ids.filter((id) => !first.has(id))
    if (missing.length > 0) {
      problems.push({
        source: `${name}.json`,
        path: "",
        message: `it names tasks that are not there: ${list(missing)}`
      })
    }
  }
  if (candidates.length === 0 && problems.length === 0) {
    problems.push({
      source,
      path: "",
      message: `expected OSWorld's task files, found none among ${files.length} JSON files`
    })
  }
  if (Arr.isNonEmptyArray(problems)) return Either.left(problems)

  const tasks = Arr.sort(candidates, byDomain).map(({ source: _, ...task }, index): Prepared => ({ index, ...task }))
  const small = indexes.get("test_small")
  const splits = new Map<SplitName, ReadonlyArray<Prepared>>([
    ["all", tasks],
    ["nogdrive", tasks.filter(({ drive }) => !drive)],
    ...(small === undefined ? [] : [["small", tasks.filter(({ task }) => small.includes(task.id))] as const]),
    ["infeasible", tasks.filter(({ infeasible }) => infeasible)]
  ])
  const notes = (["all", "nogdrive", "infeasible"] as const).flatMap((name) => {
    const listed = indexes.get(`test_${name}`)
    if (listed === undefined) return []
    const ids = (splits.get(name) ?? []).map(({ task }) => task.id)
    const more = ids.filter((id) => !listed.includes(id))
    const less = listed.filter((id) => !ids.includes(id))
    return [
      ...(more.length > 0 ? [`test_${name}.json does not name ${list(more)}; the tasks themselves count`] : []),
      ...(less.length > 0 ? [`test_${name}.json names ${list(less)}; the tasks themselves count`] : [])
    ]
  })
  return Either.right({
    tasks,
    splits,
    notes: [...notes, ...(small === undefined ? ["there is no test_small.json, and so no part small"] : [])]
  })
}

/** The content of a set of tasks as one hash: changed by any byte of any of them, and by nothing else. */
export const contentHash = (
  tasks: ReadonlyArray<Pick<Prepared, "domain" | "sha256"> & { readonly id: string }>
): string =>
  sha256(
    Arr.sort(
      tasks.map(({ domain, id, sha256 }) => `${domain}/${id} ${sha256}\n`),
      Order.string
    ).join("")
  )
