import { existsSync, mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs"
import * as FileSystem from "@effect/platform/FileSystem"
import * as NodeContext from "@effect/platform-node/NodeContext"
import { assert, describe, it } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import * as ArtifactStore from "../../src/artifact/ArtifactStore.js"
import type { Guest } from "../../src/desktop/Guest.js"
import { GuestError } from "../../src/desktop/GuestError.js"
import { RolloutIdentity, RunId } from "../../src/identity/Identity.js"
import * as Recording from "../../src/osworld/Recording.js"
import { Evaluation } from "../../src/rollout/Evaluation.js"
import { sha256 } from "./assetServer.js"
import { guestOf } from "./evaluator/chromeSupport.js"

const identity = new RolloutIdentity({
  runId: RunId.make("r"),
  taskId: "a",
  taskIndex: 0,
  rolloutIndex: 0,
  attemptIndex: 0
})

const stem = `a.${identity.rolloutId}`

const gone = new GuestError({ operation: "test", reason: { _tag: "Unreachable", detail: "gone" } })

/** A recording of a guest in folders of its own, and what was logged about it. */
const opened = <E>(
  abilities: Partial<Guest>,
  use: (
    recording: Recording.RolloutRecording,
    places: { readonly out: string; readonly cache: string; readonly logged: ReadonlyArray<string> }
  ) => Effect.Effect<void, E, Scope.Scope>,
  options: { readonly film?: boolean; readonly secrets?: ReadonlyArray<string> } = {}
) =>
  Effect.gen(function* () {
    const fs = yield* FileSystem.FileSystem
    const [out, cache] = [yield* fs.makeTempDirectoryScoped(), yield* fs.makeTempDirectoryScoped()]
    const logged: Array<string> = []
    const logger = Logger.replace(
      Logger.defaultLogger,
      Logger.make(({ message }) => void logged.push(String(message)))
    )
    const services = Recording.layer({ out, film: options.film ?? false }).pipe(
      Layer.provide(ArtifactStore.layer({ directory: `${out}/blobs` }))
    )
    yield* Effect.gen(function* () {
      const { open } = yield* Recording.Recording
      const recording = yield* open(identity, { guest: guestOf(abilities), cache, secrets: options.secrets ?? [] })
      yield* use(recording, { out, cache, logged })
    }).pipe(Effect.scoped, Effect.provide(services), Effect.provide(logger))
    return { out, logged }
  }).pipe(Effect.provide(NodeContext.layer))

const lines = (file: string): ReadonlyArray<Record<string, unknown>> =>
  readFileSync(file, "utf8")
    .split("\n")
    .slice(0, -1)
    .map((line) => JSON.parse(line))

describe("vm-exec", () => {
  it.scopedLive("has a line for each thing that the guest was told to do, failed or not, and no secret", () =>
    Effect.gen(function* () {
      const long = "x".repeat(5000)
      const { out } = yield* opened(
        {
          execute: ({ command }) =>
            command === "fail"
              ? Effect.fail(gone)
              : Effect.succeed({ stdout: `${long}hunter22`, stderr: "e", exitCode: 3 }),
          launch: () => Effect.void
        },
        ({ evaluating, guest }) =>
          Effect.gen(function* () {
            yield* guest.execute({ command: ["echo", "hunter22"] })
            yield* Effect.either(guest.execute({ command: "fail", shell: true }))
            yield* guest.launch({ command: "program" })
            yield* evaluating(
              Effect.as(guest.execute({ command: "late" }), new Evaluation({ score: 1, details: ["one"] }))
            )
          }),
        { secrets: ["hunter22"] }
      )
      const [first, second, third, fourth, ...more] = lines(`${out}/vm-exec/${stem}.jsonl`)
      assert.deepStrictEqual(more, [])
      assert.deepInclude(first, {
        schema_version: 1,
        phase: "setup",
        call: 0,
        operation: "execute",
        command: ["echo", "<redacted>"],
        shell: false,
        exit_code: 3,
        stderr: "e"
      })
      assert.strictEqual(first?.["stdout"], `(1010 characters before)${"x".repeat(3990)}<redacted>`)
      assert.isAtLeast(Number(first?.["milliseconds"]), 0)
      assert.deepInclude(second, { command: "fail", shell: true, exit_code: null, error: gone.message })
      assert.deepInclude(third, { operation: "launch", exit_code: null })
      assert.deepInclude(fourth, { phase: "evaluation", command: "late", call: 3 })
    })
  )

  it.scopedLive("a log that cannot be written is told once, and the rollout goes on", () =>
    Effect.gen(function* () {
      const fs = yield* FileSystem.FileSystem
      const out = yield* fs.makeTempDirectoryScoped()
      writeFileSync(`${out}/vm-exec`, "in the way")
      const logged: Array<string> = []
      yield* Effect.gen(function* () {
        const { open } = yield* Recording.Recording
        const guest = guestOf({ execute: () => Effect.succeed({ stdout: "", stderr: "", exitCode: 0 }) })
        const recording = yield* open(identity, { guest, cache: out, secrets: [] })
        for (const _ of [1, 2]) yield* recording.guest.execute({ command: "id" })
      }).pipe(
        Effect.scoped,
        Effect.provide(
          Recording.layer({ out, film: false }).pipe(Layer.provide(ArtifactStore.layer({ directory: `${out}/blobs` })))
        ),
        Effect.provide(
          Logger.replace(
            Logger.defaultLogger,
            Logger.make(({ message }) => void logged.push(String(message)))
          )
        )
      )
      assert.strictEqual(logged.length, 1)
      assert.include(logged[0], "the log of commands could not be written")
    }).pipe(Effect.provide(NodeContext.layer))
  )
})

describe("evaluated", () => {
  it.scopedLive("names the files that were judged, and keeps each as a blob", () =>
    Effect.gen(function* () {
      const { out } = yield* opened({}, ({ evaluating }, { cache, out }) =>
        Effect.gen(function* () {
          const evaluation = Effect.sync(() => {
            mkdirSync(`${cache}/result`)
            mkdirSync(`${cache}/expected`)
            writeFileSync(`${cache}/result/a.txt`, "mine")
            writeFileSync(`${cache}/expected/a.txt`, "gold")
            writeFileSync(`${cache}/stdout.txt`, "printed")
            symlinkSync("/etc/passwd", `${cache}/result/link`)
            return new Evaluation({ score: 0, details: ["compare_text_file of vm_file: 0"] })
          })
          const { details, score } = yield* evaluating(evaluation)
          assert.strictEqual(score, 0)
          assert.deepStrictEqual(details, [
            "compare_text_file of vm_file: 0",
            `judged a.txt: 4 bytes, sha256 ${sha256("mine")}`
          ])
          assert.deepStrictEqual(readdirSync(`${out}/blobs`).sort(), ["gold", "mine", "printed"].map(sha256).sort())
        })
      )
      const { files, rollout_id, task_id } = JSON.parse(readFileSync(`${out}/evaluated/${stem}.json`, "utf8"))
      assert.deepStrictEqual([task_id, rollout_id], ["a", identity.rolloutId])
      assert.deepStrictEqual(files, [
        { role: "expected", name: "a.txt", bytes: 4, sha256: sha256("gold"), kept: true },
        { role: "result", name: "a.txt", bytes: 4, sha256: sha256("mine"), kept: true },
        { role: "setup", name: "stdout.txt", bytes: 7, sha256: sha256("printed"), kept: true }
      ])
    })
  )

  it.scopedLive("keeps them where the evaluation fails, whose failure stays what it is", () =>
    Effect.gen(function* () {
      const { out } = yield* opened({}, ({ evaluating }, { cache }) =>
        Effect.gen(function* () {
          const evaluation = Effect.zipRight(
            Effect.sync(() => {
              mkdirSync(`${cache}/result`)
              writeFileSync(`${cache}/result/a.txt`, "mine")
            }),
            Effect.fail("undecided")
          )
          assert.strictEqual(yield* Effect.flip(evaluating(evaluation)), "undecided")
        })
      )
      assert.include(readFileSync(`${out}/evaluated/${stem}.json`, "utf8"), sha256("mine"))
    })
  )
})

describe("recordings", () => {
  const film = (end: Guest["endRecording"], start: Guest["startRecording"] = Effect.void) =>
    opened({ startRecording: start, endRecording: end }, ({ film }) => Effect.asVoid(film), { film: true })

  it.scopedLive("the guest's film is in the run's folder when the rollout is closed", () =>
    Effect.gen(function* () {
      const { logged, out } = yield* film(Stream.make(Buffer.from("fi"), Buffer.from("lm")))
      assert.deepStrictEqual(readdirSync(`${out}/recordings`), [`${stem}.mp4`])
      assert.strictEqual(readFileSync(`${out}/recordings/${stem}.mp4`, "utf8"), "film")
      assert.deepStrictEqual(logged, [])
    })
  )

  it.scopedLive("one that cannot be had is told, in the log and in its place, and nothing fails", () =>
    Effect.gen(function* () {
      for (const [what, ended] of [
        ["no film could be started", yield* film(Stream.empty, Effect.fail(gone))],
        ["the film could not be had", yield* film(Stream.concat(Stream.make(Buffer.from("fi")), Stream.fail(gone)))]
      ] as const) {
        assert.deepStrictEqual(readdirSync(`${ended.out}/recordings`), [`${stem}.failed.txt`])
        assert.include(readFileSync(`${ended.out}/recordings/${stem}.failed.txt`, "utf8"), what)
        assert.strictEqual(ended.logged.length, 1)
        assert.include(ended.logged[0], what)
      }
    })
  )

  it.scopedLive("a rollout that is interrupted has its film all the same", () =>
    Effect.gen(function* () {
      const fs = yield* FileSystem.FileSystem
      const out = yield* fs.makeTempDirectoryScoped()
      const began = yield* Deferred.make<void>()
      const rollout = Effect.gen(function* () {
        const { open } = yield* Recording.Recording
        const guest = guestOf({ startRecording: Effect.void, endRecording: Stream.make(Buffer.from("film")) })
        const { film } = yield* open(identity, { guest, cache: out, secrets: [] })
        yield* film
        yield* Deferred.succeed(began, undefined)
        return yield* Effect.never
      }).pipe(
        Effect.scoped,
        Effect.provide(
          Recording.layer({ out, film: true }).pipe(Layer.provide(ArtifactStore.layer({ directory: `${out}/blobs` })))
        )
      )
      const fiber = yield* Effect.fork(rollout)
      yield* Deferred.await(began)
      yield* Fiber.interrupt(fiber)
      assert.strictEqual(readFileSync(`${out}/recordings/${stem}.mp4`, "utf8"), "film")
    }).pipe(Effect.provide(NodeContext.layer))
  )

  it.scopedLive("without it nothing is asked of the guest's recorder", () =>
    Effect.gen(function* () {
      const { out } = yield* opened({}, ({ film }) => film)
      assert.isFalse(existsSync(`${out}/recordings`))
    })
  )
})
