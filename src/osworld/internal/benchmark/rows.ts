/** Rows of tasks, as trainers read them, and shares of such rows. */
import * as Either from "effect/Either"
import { isObject } from "../taskJson.js"
import { sha256 } from "./digest.js"
import type { Prepared } from "./plan.js"

/** One row: the task unchanged, under the names of the field. */
export const row = ({ domain, index, task }: Prepared, agent: string | undefined): unknown => ({
  responses_create_params: { input: [{ role: "user", content: task.instruction }] },
  ...(agent === undefined ? {} : { agent_ref: { type: "responses_api_agents", name: agent } }),
  verifier_metadata: { task_id: task.id, domain, osworld_task: task.raw },
  _ng_task_index: index
})

export const rows = (tasks: ReadonlyArray<Prepared>, agent: string | undefined): string =>
  tasks.map((task) => `${JSON.stringify(row(task, agent))}\n`).join("")

export interface ShardOptions {
  readonly shards: number
  /** From 0. */
  readonly shard: number
}

export interface Shard {
  readonly content: string
  readonly manifest: {
    readonly schema_version: 1
    readonly kind: "osworld-task-shard"
    readonly source_path: string
    readonly source_sha256: string
    readonly selection: "nonempty-row-index-modulo"
    readonly num_shards: number
    readonly shard_index: number
    readonly total_tasks: number
    readonly shard_tasks: number
    /** Of the ids, a line each. */
    readonly task_ids_sha256: string
    readonly task_ids: ReadonlyArray<string>
  }
}

const idOf = (line: string, index: number): string => {
  let json: unknown
  try {
    json = JSON.parse(line)
  } catch {
    return `row-${index}`
  }
  const metadata = isObject(json) ? json["verifier_metadata"] : undefined
  const task = isObject(metadata) ? metadata["osworld_task"] : undefined
  const ids = [isObject(metadata) ? metadata["task_id"] : undefined, isObject(task) ? task["id"] : undefined]
  return ids.find((id) => typeof id === "string" && id !== "")?.toString() ?? `row-${index}`
}

/** The rows whose place among those that are not empty leaves `shard` when divided by `shards`, in their order. Fails with what is wrong. */
export const shard = (
  source: { readonly path: string; readonly content: string },
  { shard, shards }: ShardOptions
): Either.Either<Shard, string> => {
  const lines = source.content
    .split("\n")
    .map((line) => line.replace(/\r+$/, ""))
    .filter((line) => line.trim() !== "")
  const chosen = lines.flatMap((line, index) => (index % shards === shard ? [{ line, id: idOf(line, index) }] : []))
  if (chosen.length === 0) return Either.left(`shard ${shard} of ${shards} is empty: there are ${lines.length} rows`)
  const ids = chosen.map(({ id }) => id)
  return Either.right({
    content: chosen.map(({ line }) => `${line}\n`).join(""),
    manifest: {
      schema_version: 1,
      kind: "osworld-task-shard",
      source_path: source.path,
      source_sha256: sha256(source.content),
      selection: "nonempty-row-index-modulo",
      num_shards: shards,
      shard_index: shard,
      total_tasks: lines.length,
      shard_tasks: chosen.length,
      task_ids_sha256: sha256(ids.join("\n")),
      task_ids: ids
    }
  })
}
