import { execFile } from "node:child_process"
import { existsSync } from "node:fs"
import * as path from "node:path"
import { promisify } from "node:util"
import { FileSystem } from "@effect/platform"
import * as NodeContext from "@effect/platform-node/NodeContext"
import * as NodeFileSystem from "@effect/platform-node/NodeFileSystem"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import { type EvaluationError, type Metric, type MetricContext, Value } from "../../../src/osworld/evaluator/Metric.js"

export const fixture = (name: string): string => path.join(import.meta.dirname, "fixtures", name)

export const file = (place: string): Value => Value.File({ path: place, name: path.basename(place) })

export const json = (value: unknown): Value => Value.Json({ json: value })

export const text = (content: string): Value => Value.Text({ text: content })

export const missing: Value = Value.Missing({ reason: "nobody wrote it" })

/** A score, or the reason why there is none. */
export const judge = (
  metric: Metric,
  result: Value,
  expected?: Value,
  options: Record<string, unknown> = {},
  context: Partial<MetricContext> = {}
): Effect.Effect<number | string> =>
  metric.evaluate({ result, expected, options, context: { compat: false, runPython: undefined, ...context } }).pipe(
    Effect.catchAll((error: EvaluationError) => Effect.succeed(error.message)),
    Effect.provide(NodeContext.layer)
  )

/** A directory that goes with the test, holding these files. */
export const written = (files: Record<string, string | Uint8Array>) =>
  Effect.gen(function* () {
    const fs = yield* FileSystem.FileSystem
    const directory = yield* fs.makeTempDirectoryScoped({ prefix: "deskhand-evaluator-" })
    for (const [name, content] of Object.entries(files)) {
      const bytes = typeof content === "string" ? new TextEncoder().encode(content) : content
      yield* fs.writeFile(path.join(directory, name), bytes)
    }
    return (name: string) => path.join(directory, name)
  }).pipe(Effect.provide(NodeFileSystem.layer))

const onPath = (program: string) =>
  (process.env.PATH ?? "").split(path.delimiter).some((directory) => existsSync(path.join(directory, program)))

export const soffice: string | undefined = ["soffice", "libreoffice"].find(onPath)

/** Converts files to .xlsx beside them; LibreOffice gets a profile of its own, so that runs don't meet. */
export const toXlsx = (profile: string, sources: ReadonlyArray<string>) =>
  Effect.promise(() =>
    promisify(execFile)(soffice ?? "soffice", [
      `-env:UserInstallation=file://${profile}`,
      "--headless",
      "--convert-to",
      "xlsx",
      "--outdir",
      path.dirname(profile),
      ...sources
    ])
  )

export const rightOf = <A, E>(either: Either.Either<A, E>): A =>
  Either.getOrThrowWith(either, (left) => new Error(JSON.stringify(left)))
