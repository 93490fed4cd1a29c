import * as Fs from "node:fs"
import * as Os from "node:os"
import * as Path from "node:path"
import * as HttpClientRequest from "@effect/platform/HttpClientRequest"
import * as NodeContext from "@effect/platform-node/NodeContext"
import { assert, it, layer } from "@effect/vitest"
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Schedule from "effect/Schedule"
import * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import { build } from "esbuild"
import { DesktopAction } from "../../src/desktop/Action.js"
import * as DesktopSpec from "../../src/desktop/DesktopSpec.js"
import * as Guest from "../../src/desktop/Guest.js"
import type { GuestError } from "../../src/desktop/GuestError.js"
import { type Endpoint, httpClient } from "../../src/sandbox/Endpoint.js"
import * as LocalProvider from "../../src/sandbox/LocalProvider.js"
import type { OwnedSandbox } from "../../src/sandbox/Sandbox.js"
import { SandboxProvider } from "../../src/sandbox/SandboxProvider.js"

/** The guest server as the sources are now, in a folder that a guest may read. */
const facts = Effect.map(
  Effect.acquireRelease(
    Effect.promise(async () => {
      const folder = await Fs.promises.mkdtemp(Path.join(Os.tmpdir(), "deskhand-test-"))
      await Fs.promises.chmod(folder, 0o755)
      await build({
        entryPoints: [Path.join(DesktopSpec.hostFacts.guest, "main.ts")],
        bundle: true,
        platform: "node",
        target: "node20",
        format: "esm",
        banner: { js: "import{createRequire}from'node:module';const require=createRequire(import.meta.url);" },
        outfile: Path.join(folder, "server.mjs")
      })
      return folder
    }),
    (folder) => Effect.promise(() => Fs.promises.rm(folder, { recursive: true, force: true }))
  ),
  (folder): DesktopSpec.HostFacts => ({ ...DesktopSpec.hostFacts, server: Path.join(folder, "server.mjs") })
)

class Desktop extends Context.Tag("test/Desktop")<
  Desktop,
  { readonly guest: Guest.Guest; readonly sandbox: OwnedSandbox; readonly endpoint: Endpoint }
>() {}

const open = Effect.gen(function* () {
  const provider = yield* SandboxProvider
  const spec = DesktopSpec.make({ width: 1280, height: 800, metadata: { run: "test" } }, yield* facts)
  const sandbox = yield* provider.acquire(spec)
  const endpoint = yield* sandbox.endpoint(DesktopSpec.ports.guest)
  return { guest: yield* Guest.make(endpoint), sandbox, endpoint }
})

const Provider = Layer.unwrapScoped(
  Effect.map(
    Effect.acquireRelease(
      Effect.promise(() => Fs.promises.mkdtemp(Path.join(Os.tmpdir(), "deskhand-test-"))),
      (stateDir) => Effect.promise(() => Fs.promises.rm(stateDir, { recursive: true, force: true }))
    ),
    (stateDir) => LocalProvider.layer({ stateDir })
  )
).pipe(Layer.provide(NodeContext.layer))

const DesktopLayer = Layer.provide(Layer.scoped(Desktop, open), Provider)

const refusal = <A, E extends { readonly _tag: string }>(effect: Effect.Effect<A, E | GuestError>) =>
  Effect.map(Effect.flip(effect), (error) =>
    "reason" in error && error.reason._tag === "Refused"
      ? { status: error.reason.status, detail: error.reason.detail }
      : { status: 0, detail: String(error) }
  )

const bytes = (length: number) => Uint8Array.from({ length }, (_, index) => (index * 31) % 251)

const size = <E>(stream: Stream.Stream<Uint8Array, E>) =>
  Stream.runFold(stream, 0, (total, chunk) => total + chunk.length)

const eventually = <A>(effect: Effect.Effect<A, unknown>) =>
  effect.pipe(Effect.retry(Schedule.spaced("100 millis")), Effect.timeout("30 seconds"))

layer(DesktopLayer, { timeout: "90 seconds", excludeTestServices: true })("a desktop", (it) => {
  it.effect("shows its screen", () =>
    Effect.gen(function* () {
      const { guest } = yield* Desktop
      yield* guest.ping
      assert.deepStrictEqual(yield* guest.screenSize, { width: 1280, height: 800 })
      const first = yield* guest.screenshot
      assert.strictEqual(Buffer.from(first).readUInt32BE(16), 1280)
      const all = yield* Effect.all(
        Array.from({ length: 8 }, () => guest.screenshot),
        { concurrency: 8 }
      )
      assert.isTrue(all.every((each) => Guest.imageFormat(each)._tag === "Some"))
      assert.strictEqual(yield* guest.platform, "Linux")
      assert.strictEqual(yield* guest.desktopPath, "/home/user/Desktop")
    })
  )

  it.effect("acts, and tells a program's failure from its own", () =>
    Effect.gen(function* () {
      const { guest } = yield* Desktop
      const moved = yield* guest.runAction(
        DesktopAction.Python({ code: "for x in (100, 200):\n  pyautogui.moveTo(x, 300)" })
      )
      assert.deepStrictEqual([moved.exitCode, moved.stderr], [0, ""])
      assert.deepStrictEqual(yield* guest.cursorPosition, { x: 200, y: 300 })
      const raised = yield* guest.runAction(DesktopAction.Python({ code: "1/0" }))
      assert.strictEqual(raised.exitCode, 1)
      assert.match(raised.stderr, /ZeroDivisionError/)
    })
  )

  it.effect("runs commands in every form", () =>
    Effect.gen(function* () {
      const { guest } = yield* Desktop
      const stdout = (command: string | ReadonlyArray<string>, shell?: boolean | string) =>
        Effect.map(guest.execute({ command, ...(shell === undefined ? {} : { shell }) }), (result) => result.stdout)
      assert.strictEqual(yield* stdout("echo 'a  b'"), "a  b\n")
      assert.strictEqual(yield* stdout(["echo", "~/x", "$HOME"]), "/home/user/x $HOME\n")
      assert.strictEqual(yield* stdout("echo $HOME | tr a-z A-Z", "true"), "/HOME/USER\n")
      assert.strictEqual(yield* stdout(["echo $0", "first"], true), "first\n")
      assert.deepStrictEqual(yield* guest.execute({ command: "echo no >&2; exit 3", shell: true }), {
        stdout: "",
        stderr: "no\n",
        exitCode: 3
      })
      assert.strictEqual((yield* guest.execute({ command: "kill -9 $$", shell: true })).exitCode, -9)
      assert.deepStrictEqual(yield* refusal(guest.execute({ command: ["nope"] })), {
        status: 500,
        detail: "nope could not be started: no program of that name is on the PATH"
      })
      assert.deepStrictEqual(yield* refusal(guest.execute({ command: "echo 'a" })), {
        status: 400,
        detail: "the command has an opening ' and no closing one"
      })
      assert.strictEqual((yield* refusal(guest.execute({ command: [] }))).status, 400)
    })
  )

  it.effect("runs scripts", () =>
    Effect.gen(function* () {
      const { guest } = yield* Desktop
      assert.deepStrictEqual(yield* guest.runPython("import sys\nprint('é')\nsys.exit(2)"), {
        stdout: "é\n",
        stderr: "",
        exitCode: 2
      })
      const bash = yield* guest.runBash('pwd; echo "$0" >&2', { workingDirectory: "/tmp" })
      assert.deepStrictEqual(bash, { stdout: "/tmp\n", stderr: "bash\n", exitCode: 0 })
      assert.strictEqual((yield* guest.runBash("sleep 60", { timeout: "200 millis" })).exitCode, 124)
    })
  )

  it.effect("does not wait for what a command leaves running", () =>
    Effect.gen(function* () {
      const { guest } = yield* Desktop
      const [took, { stdout }] = yield* Effect.timed(
        guest.execute({ command: "sleep 61.5 & echo started", shell: true })
      )
      assert.strictEqual(stdout, "started\n")
      assert.isBelow(Duration.toMillis(took), 5000)
      assert.strictEqual((yield* guest.execute({ command: ["pgrep", "-f", "sleep 61.5"] })).exitCode, 0)
    })
  )

  it.effect("stops a command and all its children when nobody waits for it any more", () =>
    Effect.gen(function* () {
      const { guest } = yield* Desktop
      const left = "sleep 62.5 & setsid sleep 62.5 & sleep 62.5"
      const error = yield* Effect.flip(guest.execute({ command: left, shell: true, timeout: "500 millis" }))
      assert.strictEqual(error.reason._tag, "Timeout")
      // pgrep does not find itself; it ends with 1 when it finds nothing.
      yield* eventually(
        Effect.filterOrFail(
          guest.execute({ command: ["pgrep", "-fc", "^sleep 62.5"] }),
          ({ stdout }) => stdout.trim() === "0"
        )
      )
    })
  )

  it.effect("survives a command that prints without end", () =>
    Effect.gen(function* () {
      const { guest } = yield* Desktop
      const { stdout } = yield* guest.execute({ command: "yes | head -c 60000000", shell: true })
      assert.isBelow(stdout.length, 8 * 1024 * 1024 + 200)
      assert.match(stdout.slice(-200), /output truncated here, 51611392 more bytes came/)
      yield* guest.ping
    })
  )

  it.scoped("takes files and gives them back, streamed", () =>
    Effect.gen(function* () {
      const { guest } = yield* Desktop
      const folder = yield* Effect.acquireRelease(
        Effect.promise(() => Fs.promises.mkdtemp(Path.join(Os.tmpdir(), "deskhand-test-"))),
        (folder) => Effect.promise(() => Fs.promises.rm(folder, { recursive: true }))
      )
      const local = Path.join(folder, "big")
      const content = bytes(5_000_000)
      yield* Effect.promise(() => Fs.promises.writeFile(local, content))
      yield* guest.writeFile("~/new/folder/big file é", local)
      const back = Buffer.concat(
        Array.from(yield* Stream.runCollect(guest.readFile("$HOME/new/folder/big file é")), (chunk) => chunk)
      )
      assert.isTrue(back.equals(content))
      yield* guest.writeFile("/home/user/new/short", Stream.make(bytes(10), bytes(7)))
      assert.strictEqual(yield* size(guest.readFile("/home/user/new/short")), 17)
      yield* guest.writeFile("/home/user/new/empty", Stream.empty, { length: 0 })
      assert.strictEqual(yield* size(guest.readFile("/home/user/new/empty")), 0)
      assert.isAbove(yield* size(guest.readFile("/proc/meminfo")), 100)
      assert.strictEqual((yield* Effect.flip(size(guest.readFile("/home/user/none"))))._tag, "GuestFileMissing")
      // A folder is no file; the guest itself is asked.
      assert.strictEqual((yield* Effect.flip(size(guest.readFile("/home/user/new"))))._tag, "GuestFileMissing")
      assert.match((yield* refusal(guest.writeFile("/usr/none/x", local))).detail, /\/usr\/none cannot be made/)
      const tree = yield* guest.listDirectory("/home/user/new")
      assert.deepStrictEqual(
        "children" in tree ? [...tree.children].map((child) => JSON.stringify(child)).sort() : [],
        [
          '{"type":"directory","name":"folder","children":[{"type":"file","name":"big file é"}]}',
          '{"type":"file","name":"empty"}',
          '{"type":"file","name":"short"}'
        ]
      )
      assert.strictEqual((yield* refusal(guest.listDirectory("/home/user/new/short"))).status, 400)
    })
  )

  it.effect("leaves nothing of an upload that broke off", () =>
    Effect.gen(function* () {
      const { guest } = yield* Desktop
      const source = Stream.concat(Stream.make(bytes(100_000)), Stream.fail({ _tag: "Mine" } as const))
      assert.strictEqual((yield* Effect.flip(guest.writeFile("/home/user/broken/x", source)))._tag, "Mine")
      yield* eventually(
        Effect.filterOrFail(
          guest.listDirectory("/home/user/broken"),
          (tree) => "children" in tree && tree.children.length === 0
        )
      )
    })
  )

  it.effect("opens files, and finds, raises and closes windows", () =>
    Effect.gen(function* () {
      const { guest } = yield* Desktop
      yield* guest.writeFile("/home/user/notes.txt", Stream.make(new TextEncoder().encode("hello\n")), { length: 6 })
      yield* guest.openFile("/home/user/notes.txt")
      assert.isAbove((yield* guest.windowSize("mousepad")).width, 100)
      yield* guest.launch({ command: ["pcmanfm", "--no-desktop", "/home/user"] })
      yield* eventually(guest.windowSize("pcmanfm"))
      // A window that has just come may take the focus after another was given it.
      yield* eventually(
        Effect.zipRight(
          guest.activateWindow({ name: "notes" }),
          Effect.filterOrFail(
            guest.execute({ command: ["xdotool", "getactivewindow", "getwindowname"] }),
            ({ stdout }) => /notes/.test(stdout)
          )
        )
      )
      const tree = yield* guest.accessibilityTree
      assert.match(tree, /mousepad/i)
      assert.strictEqual(yield* guest.terminal, null)
      yield* guest.closeWindow({ name: "Pcmanfm", byClass: true })
      yield* eventually(Effect.filterOrFail(refusal(guest.windowSize("pcmanfm")), ({ status }) => status === 404))
      // Official guests answer 200, and so does ours.
      yield* guest.activateWindow({ name: "no such window" })
    })
  )

  it.effect("says why something does not start or open", () =>
    Effect.gen(function* () {
      const { guest } = yield* Desktop
      assert.match((yield* refusal(guest.launch({ command: "nope --x" }))).detail, /^nope could not be started/)
      assert.match((yield* refusal(guest.launch({ command: "nope", shell: true }))).detail, /ended with code 127/)
      assert.strictEqual((yield* refusal(guest.openFile("/home/user/nothing.txt"))).status, 404)
      yield* guest.writeFile("/home/user/x.unknown-type", Stream.make(bytes(200)), { length: 200 })
      assert.match((yield* refusal(guest.openFile("/home/user/x.unknown-type"))).detail, /xdg-open .* ended with code/)
    })
  )

  it.effect("changes its wallpaper", () =>
    Effect.gen(function* () {
      const { guest } = yield* Desktop
      const made = yield* guest.runPython(
        "from PIL import Image; Image.new('RGB', (64, 40), (200, 30, 30)).save('/home/user/red one.png')"
      )
      assert.strictEqual(made.exitCode, 0)
      yield* guest.changeWallpaper("/home/user/red one.png")
      const picture = yield* guest.wallpaper
      assert.strictEqual(picture.length, yield* size(guest.readFile("/home/user/red one.png")))
      yield* guest.writeFile("/home/user/bad.png", Stream.make(bytes(10)), { length: 10 })
      assert.match((yield* refusal(guest.changeWallpaper("/home/user/bad.png"))).detail, /cannot be shown/)
      assert.strictEqual((yield* refusal(guest.changeWallpaper("/home/user/none.png"))).status, 404)
    })
  )

  it.effect("records, or says what it lacks", () =>
    Effect.gen(function* () {
      const { guest } = yield* Desktop
      assert.deepStrictEqual(yield* refusal(size(guest.endRecording)), {
        status: 400,
        detail: "no recording is running"
      })
      const has = yield* guest.execute({ command: ["which", "ffmpeg"] })
      if (has.exitCode !== 0) {
        assert.match((yield* refusal(guest.startRecording)).detail, /^ffmpeg could not be started/)
        return
      }
      yield* guest.startRecording
      assert.strictEqual((yield* refusal(guest.startRecording)).status, 400)
      assert.isAbove(yield* size(guest.endRecording), 1000)
    })
  )

  it.scoped("answers requests that make no sense, and lives on", () =>
    Effect.gen(function* () {
      const { endpoint, guest } = yield* Desktop
      const client = yield* httpClient(endpoint)
      const post = (path: string, body: string, type: string) =>
        Effect.flatMap(
          client.execute(HttpClientRequest.bodyText(HttpClientRequest.post(path), body, type)),
          (response) => Effect.map(response.text, (text) => ({ status: response.status, text }))
        )
      const malformed = yield* post("/execute", "{", "application/json")
      assert.strictEqual(malformed.status, 400)
      assert.match(malformed.text, /"status":"error".*the body of POST \/execute cannot be read/)
      const wrong = yield* post("/execute", '{"command":3}', "application/json")
      assert.strictEqual(wrong.status, 400)
      assert.match(wrong.text, /"status":"error".*command/)
      assert.strictEqual((yield* post("/file", "x=1", "application/x-www-form-urlencoded")).status, 400)
      assert.strictEqual((yield* post("/setup/upload", "x", "multipart/form-data; boundary=b")).status, 400)
      const nowhere = yield* post("/nowhere", "{}", "application/json")
      assert.strictEqual(nowhere.status, 404)
      assert.match(nowhere.text, /not a route/)
      const verified = yield* post(
        "/setup/execute_with_verification",
        '{"command":["true"],"verification":{"command_success":"false"},"max_wait_time":0.3,"check_interval":0.1}',
        "application/json"
      )
      assert.strictEqual(verified.status, 500)
      assert.match(verified.text, /"status":"verification_failed"/)
      const passed = yield* post(
        "/execute_with_verification",
        '{"command":["touch","/tmp/v"],"verification":{"command_success":"test -e /tmp/v"}}',
        "application/json"
      )
      assert.match(passed.text, /"verification":"passed"/)
      const script = yield* post("/run_bash_script", '{"script":"echo a; echo b >&2; exit 4"}', "application/json")
      assert.deepStrictEqual(JSON.parse(script.text), { status: "error", output: "a\nb\n", error: "", returncode: 4 })
      const slow = yield* post("/run_bash_script", '{"script":"echo a; sleep 60","timeout":0.3}', "application/json")
      assert.strictEqual(slow.status, 500)
      assert.match(slow.text, /"returncode":-1/)
      yield* guest.ping
    }).pipe(Effect.scoped)
  )

  it.scoped("runs a browser under Chrome's name that the host can debug", () =>
    Effect.gen(function* () {
      const { guest, sandbox } = yield* Desktop
      const page = new TextEncoder().encode("<title>A page of the test</title><h1>Hi</h1>")
      yield* guest.writeFile("/home/user/page.html", Stream.make(page), { length: page.length })
      yield* guest.launch({
        command: ["google-chrome", "--remote-debugging-port=1337", "file:///home/user/page.html"]
      })
      yield* guest.launch({ command: ["socat", "tcp-listen:9222,fork", "tcp:localhost:1337"] })
      const client = yield* httpClient(yield* sandbox.endpoint(DesktopSpec.ports.devtoolsRelay))
      const pages = yield* eventually(
        Effect.filterOrFail(
          Effect.flatMap(
            client.execute(HttpClientRequest.setHeader(HttpClientRequest.get("/json"), "host", "localhost")),
            (response) => response.text
          ),
          (text: string) => text.includes("A page of the test")
        )
      )
      assert.match(pages, /webSocketDebuggerUrl/)
      yield* eventually(guest.windowSize("google-chrome"))
      assert.strictEqual((yield* guest.execute({ command: ["pkill", "chrome"] })).exitCode, 0)
      yield* eventually(Effect.filterOrFail(refusal(guest.windowSize("google-chrome")), ({ status }) => status === 404))
    })
  )

  it.effect("gets a new screen helper when one dies", () =>
    Effect.gen(function* () {
      const { guest } = yield* Desktop
      assert.strictEqual((yield* guest.execute({ command: ["pkill", "-9", "-f", "screen.py"] })).exitCode, 0)
      assert.deepStrictEqual(yield* guest.screenSize, { width: 1280, height: 800 })
    })
  )
})

it.live("a desktop whose display ends is gone with the reason", () =>
  Effect.gen(function* () {
    const scope = yield* Scope.make()
    const { guest, sandbox } = yield* Scope.extend(open, scope)
    const call = yield* Effect.fork(Effect.flip(guest.execute({ command: ["sleep", "60"] })))
    yield* eventually(
      Effect.filterOrFail(guest.execute({ command: ["pgrep", "-fx", "sleep 60"] }), ({ exitCode }) => exitCode === 0)
    )
    const gone = yield* Effect.fork(Effect.flip(sandbox.gone))
    yield* Effect.ignore(guest.execute({ command: ["pkill", "-9", "Xvfb"] }))
    const reason = yield* Effect.timeout(Fiber.join(gone), "10 seconds")
    assert.match(reason.message, /Xvfb ended with code 137/)
    assert.strictEqual((yield* Fiber.join(call)).reason._tag, "Unreachable")
    yield* Scope.close(scope, Exit.void)
  }).pipe(Effect.scoped, Effect.provide(Provider))
)
