import * as Fs from "node:fs"
import * as Os from "node:os"
import * as Path from "node:path"
import { assert, describe, it } from "@effect/vitest"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Commands from "../../src/desktop/guest/Commands.js"
import * as Process from "../../src/desktop/guest/Process.js"
import { Recording, layer as recordingLayer } from "../../src/desktop/guest/Recording.js"
import * as Screen from "../../src/desktop/guest/Screen.js"

const isRunning = (marker: string) =>
  Fs.readdirSync("/proc").some((name) => {
    if (!/^\d+$/.test(name)) return false
    try {
      return Fs.readFileSync(`/proc/${name}/cmdline`, "utf8").includes(marker)
    } catch {
      return false
    }
  })

// Real programs take real time.
describe("Process", () => {
  it.live("stops a program at its limit with all its children, and keeps what it printed", () =>
    Effect.gen(function* () {
      const error = yield* Effect.flip(
        Process.run(["/bin/sh", "-c", "echo out; echo err >&2; setsid sleep 71.25 & sleep 71.25"], {
          limit: "300 millis"
        })
      )
      assert.isTrue(error._tag === "TimedOut")
      assert.strictEqual(error.message, "/bin/sh did not end within 300ms and was stopped with all its children")
      assert.deepStrictEqual(error._tag === "TimedOut" ? [error.stdout, error.stderr] : [], ["out\n", "err\n"])
      yield* Effect.sleep("50 millis")
      assert.isFalse(isRunning("71.25"))
    })
  )

  it.live("stops a program when nobody waits for it any more", () =>
    Effect.gen(function* () {
      yield* Effect.timeoutOption(Process.run(["sleep", "72.25"], { limit: "1 minutes" }), "200 millis")
      yield* Effect.sleep("50 millis")
      assert.isFalse(isRunning("72.25"))
    })
  )

  it.live("merges what is printed when asked", () =>
    Effect.gen(function* () {
      const ended = yield* Process.run(["/bin/sh", "-c", "echo a >&2; sleep 0.05; echo b"], {
        limit: "5 seconds",
        merge: true
      })
      assert.deepStrictEqual(ended, { stdout: "a\nb\n", stderr: "", exitCode: 0 })
    })
  )

  it.live("names what cannot be started, and why", () =>
    Effect.gen(function* () {
      const message = (...words: readonly [string, ...Array<string>]) =>
        Effect.map(Effect.flip(Process.run(words, { limit: "5 seconds" })), (error) => error.message)
      assert.strictEqual(yield* message("nope"), "nope could not be started: no program of that name is on the PATH")
      assert.strictEqual(yield* message("/nope"), "/nope could not be started: there is no such file")
      assert.match(yield* message("/etc/passwd"), /not an executable file/)
      assert.match(yield* message("true", "x".repeat(3_000_000)), /arguments are longer/)
      const folder = yield* Effect.flip(Process.run(["true"], { limit: "5 seconds", cwd: "/nope" }))
      assert.match(folder.message, /its working folder \/nope does not exist/)
    })
  )

  it.live("answers a command that runs into the limit with an error that says so", () =>
    Effect.gen(function* () {
      const error = yield* Effect.flip(Commands.execute({ command: ["sleep", "73.25"], shell: false }, "100 millis"))
      assert.match(error.message, /^sleep did not end within 100ms/)
      assert.deepStrictEqual(Commands.executeLimit, Duration.seconds(120))
      assert.deepStrictEqual(Commands.openLimit, Duration.seconds(1800))
    })
  )
})

/** A helper that answers what `script` prints for each request; `$n` counts them. */
const helper = (script: string) =>
  Screen.make(["/bin/bash", "-c", `n=0; while read -r line; do n=$((n + 1)); ${script}; done`], ":7")

const failure = <A>(effect: Effect.Effect<A, Screen.ScreenFailed>) =>
  Effect.map(Effect.flip(effect), ({ message }) => message)

describe("Screen", () => {
  it.scopedLive("asks one thing at a time and reads pictures whole", () =>
    Effect.gen(function* () {
      const screen = yield* helper(
        `printf '{"ok":true,"length":6,"width":1,"height":1}\\nab'; sleep 0.02; printf "c\\n%02d" $n`
      )
      const all = yield* Effect.all([screen.screenshot, screen.screenshot, screen.screenshot], { concurrency: 3 })
      assert.deepStrictEqual(
        all.map((each) => Buffer.from(each).toString()),
        ["abc\n01", "abc\n02", "abc\n03"]
      )
    })
  )

  it.scopedLive("is not confused by a caller that went away", () =>
    Effect.gen(function* () {
      const screen = yield* helper(`sleep 0.2; printf '{"ok":true,"x":%d,"y":2,"width":%d,"height":2}\\n' $n $n`)
      yield* Effect.timeoutOption(screen.cursor, "50 millis")
      assert.deepStrictEqual(yield* screen.size, { width: 2, height: 2 })
    })
  )

  it.scopedLive("starts a helper that died again, once", () =>
    Effect.gen(function* () {
      const mark = `/tmp/deskhand-screen-${process.pid}`
      const screen = yield* helper(
        `if [ -e ${mark} ]; then rm ${mark}; exit 1; fi; printf '{"ok":true,"x":1,"y":2}\\n'`
      )
      Fs.writeFileSync(mark, "")
      assert.deepStrictEqual(yield* screen.cursor, { x: 1, y: 2 })
      const dying = yield* helper("echo broken >&2; exit 1")
      assert.match(yield* failure(dying.cursor), /display :7 ended with code 1: broken/)
    })
  )

  it.scopedLive("names the display that is gone", () =>
    Effect.gen(function* () {
      const gone = yield* helper("exit 3")
      assert.strictEqual(yield* failure(gone.screenshot), "display :7 is gone")
      const refusing = yield* helper(`echo '{"ok":false,"error":"no picture"}'`)
      assert.strictEqual(yield* failure(refusing.screenshot), "display :7: no picture")
      const senseless = yield* helper("echo what")
      assert.match(yield* failure(senseless.size), /the screen helper answered "what/)
      const missing = yield* Screen.make(["/no/python"], ":7")
      assert.match(yield* failure(missing.size), /^\/no\/python could not be started/)
    })
  )
})

describe("Recording", () => {
  /** A program in ffmpeg's place. */
  const stand = (script: string) =>
    Effect.gen(function* () {
      const folder = yield* Effect.acquireRelease(
        Effect.sync(() => Fs.mkdtempSync(Path.join(Os.tmpdir(), "deskhand-test-"))),
        (folder) => Effect.sync(() => Fs.rmSync(folder, { recursive: true }))
      )
      Fs.writeFileSync(Path.join(folder, "ffmpeg"), `#!/bin/bash\n${script}\n`, { mode: 0o755 })
      const path = process.env.PATH
      yield* Effect.acquireRelease(
        Effect.sync(() => {
          process.env.PATH = `${folder}:${path}`
        }),
        () =>
          Effect.sync(() => {
            process.env.PATH = path
          })
      )
      const layer = recordingLayer({
        display: ":7",
        path: Path.join(folder, "film.mp4"),
        size: Effect.succeed({ width: 8, height: 6 })
      })
      return yield* Effect.map(Layer.build(layer), (context) => ({ context, folder }))
    })

  /** As ffmpeg does: the film is there when it records, written on SIGINT, and the code is 255. On a busy desktop late. */
  const records = (seconds: number) =>
    `sleep ${seconds}; trap 'echo "$@" >"\${@: -1}"; exit 255' INT; : >"\${@: -1}"; while :; do sleep 0.05; done`

  it.scopedLive(
    "has begun when its film is there, and takes no earlier one for it",
    () =>
      Effect.gen(function* () {
        const { context, folder } = yield* stand(records(4))
        const film = Path.join(folder, "film.mp4")
        Fs.writeFileSync(film, "an earlier one")
        yield* Effect.gen(function* () {
          const recording = yield* Recording
          // Longer than the two seconds for which any start is watched.
          yield* recording.start
          assert.strictEqual(Fs.readFileSync(film, "utf8"), "")
          assert.match(Fs.readFileSync(yield* recording.end, "utf8"), /-f x11grab/)
        }).pipe(Effect.provide(context))
      }),
    20_000
  )

  it.scopedLive("runs one at a time and ends with a film", () =>
    Effect.gen(function* () {
      const { context, folder } = yield* stand(records(0))
      yield* Effect.gen(function* () {
        const recording = yield* Recording
        assert.strictEqual((yield* Effect.flip(recording.end)).message, "no recording is running")
        yield* recording.start
        assert.strictEqual((yield* Effect.flip(recording.start)).message, "a recording is running already")
        const film = yield* recording.end
        assert.strictEqual(film, Path.join(folder, "film.mp4"))
        assert.match(Fs.readFileSync(film, "utf8"), /-f x11grab .*-framerate 30 -video_size 8x6 -i :7 -c:v libx264/)
        assert.strictEqual((yield* Effect.flip(recording.end)).message, "no recording is running")
      }).pipe(Effect.provide(context))
    })
  )

  it.scopedLive("says why it did not start", () =>
    Effect.gen(function* () {
      const { context } = yield* stand("echo no such display >&2; exit 1")
      const error = yield* Effect.flip(Effect.flatMap(Recording, ({ start }) => start).pipe(Effect.provide(context)))
      assert.strictEqual(error.message, "ffmpeg ended at once with code 1: no such display")
    })
  )
})
