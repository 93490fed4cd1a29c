/** What a guest is told to do, a line each. */
import * as FileSystem from "@effect/platform/FileSystem"
import * as Path from "@effect/platform/Path"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import type { Guest } from "../../../desktop/Guest.js"
import type { GuestError } from "../../../desktop/GuestError.js"

/** Characters of what a command printed, from its end, and of the command from its start. */
const limits = { output: 4000, command: 8000 }

type Told = (what: string) => (error: { readonly message: string }) => Effect.Effect<void>

interface Output {
  readonly exitCode?: number
  readonly stdout?: string
  readonly stderr?: string
}

const ending = (text: string) =>
  text.length <= limits.output
    ? text
    : `(${text.length - limits.output} characters before)${text.slice(-limits.output)}`

const beginning = (text: string) =>
  text.length <= limits.command
    ? text
    : `${text.slice(0, limits.command)}(${text.length - limits.command} characters more)`

export const open = (file: string, secrets: ReadonlyArray<string>, told: Told) =>
  Effect.gen(function* () {
    const fs = yield* FileSystem.FileSystem
    const path = yield* Path.Path
    const turn = yield* Effect.makeSemaphore(1)
    const hide = (text: string) => secrets.reduce((text, secret) => text.replaceAll(secret, "<redacted>"), text)
    const failed = told("the log of commands could not be written")
    const handle = yield* Effect.zipRight(
      fs.makeDirectory(path.dirname(file), { recursive: true }),
      fs.open(file, { flag: "w" })
    ).pipe(Effect.tapError(failed), Effect.option)
    let phase: "setup" | "evaluation" = "setup"
    let call = 0
    let broken = handle._tag === "None"

    const write = (line: object) =>
      Effect.suspend(() => {
        if (broken || handle._tag === "None") return Effect.void
        return Effect.catchAll(handle.value.writeAll(Buffer.from(`${JSON.stringify(line)}\n`)), (error) => {
          broken = true
          return failed(error)
        })
      }).pipe(turn.withPermits(1), Effect.uninterruptible)

    const logged = <A>(
      operation: string,
      asked: Readonly<Record<string, unknown>>,
      effect: Effect.Effect<A, GuestError>,
      output: (value: A) => Output
    ): Effect.Effect<A, GuestError> =>
      Effect.gen(function* () {
        const at = yield* Clock.currentTimeMillis
        const head = { schema_version: 1, time: new Date(at).toISOString(), phase, call: call++, operation }
        const shown = Object.fromEntries(
          Object.entries(asked).map(([name, value]) => [
            name,
            typeof value === "string"
              ? beginning(hide(value))
              : Array.isArray(value)
                ? value.map((word) => beginning(hide(String(word))))
                : value
          ])
        )
        return yield* effect.pipe(
          Effect.onExit((exit) =>
            Effect.flatMap(Clock.currentTimeMillis, (now) => {
              const result: Output & { readonly error?: string } = Exit.match(exit, {
                onSuccess: output,
                onFailure: (cause) => ({ error: cause._tag === "Fail" ? cause.error.message : "it was interrupted" })
              })
              return write({
                ...head,
                ...shown,
                exit_code: result.exitCode ?? null,
                milliseconds: now - at,
                ...(result.stdout === undefined ? {} : { stdout: ending(hide(result.stdout)) }),
                ...(result.stderr === undefined ? {} : { stderr: ending(hide(result.stderr)) }),
                ...(result.error === undefined ? {} : { error: hide(result.error) })
              })
            })
          )
        )
      })

    const printed = (result: Required<Output>): Output => result
    const nothing = (): Output => ({})

    const watch = (guest: Guest): Guest => ({
      ...guest,
      execute: (request) =>
        logged("execute", { command: request.command, shell: request.shell ?? false }, guest.execute(request), printed),
      executeAndVerify: (request) =>
        logged(
          "executeAndVerify",
          { command: request.command, shell: request.shell ?? false },
          guest.executeAndVerify(request),
          printed
        ),
      runPython: (code) => logged("runPython", { command: code }, guest.runPython(code), printed),
      runBash: (script, options) => logged("runBash", { command: script }, guest.runBash(script, options), printed),
      launch: (request) =>
        logged("launch", { command: request.command, shell: request.shell ?? false }, guest.launch(request), nothing),
      openFile: (place) => logged("openFile", { path: place }, guest.openFile(place), nothing),
      activateWindow: (match) => logged("activateWindow", { window: match.name }, guest.activateWindow(match), nothing),
      closeWindow: (match) => logged("closeWindow", { window: match.name }, guest.closeWindow(match), nothing),
      changeWallpaper: (place) => logged("changeWallpaper", { path: place }, guest.changeWallpaper(place), nothing)
    })
    return {
      watch,
      evaluating: () => {
        phase = "evaluation"
      }
    }
  })
