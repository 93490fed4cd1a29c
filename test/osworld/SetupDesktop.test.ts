/** Steps that run commands, bring files and raise windows, in a real desktop. */
import * as Fs from "node:fs"
import * as Path from "node:path"
import { assert, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as WindowFocus from "../../src/osworld/internal/windowFocus.js"
import { activeTitle, Desktop, DesktopLayer, eventually, shell } from "./setupDesktop.js"
import { setup } from "./setupSupport.js"

layer(DesktopLayer, { timeout: "90 seconds", excludeTestServices: true })("setup of a desktop", (it) => {
  it.effect("runs commands in every form, with placeholders, and keeps what they print", () =>
    Effect.gen(function* () {
      const context = yield* Desktop
      yield* setup(context, [
        { type: "execute", parameters: { command: ["printf", "%s", "{CLIENT_PASSWORD}"], stdout: "out.txt" } },
        { type: "command", parameters: { command: "printf '%s %s' a 'b c' >&2", shell: "true", stderr: "err.txt" } },
        // Of a list, a shell takes the first word as its script.
        { type: "execute", parameters: { command: ["echo $0 $1", "x", "y z"], shell: true, stdout: "list.txt" } },
        { type: "execute", parameters: { command: "printf '%s|' ~/a {SCREEN_WIDTH_HALF}", stdout: "text.txt" } },
        { type: "execute", parameters: { command: ["printf", "%s", "~/a"], stdout: "home.txt" } },
        {
          type: "execute",
          parameters: { command: "echo x >>/tmp/ticks; wc -l </tmp/ticks", shell: true, until: { stdout: "3" } }
        },
        { type: "execute", parameters: { command: ["false"], until: {} } }
      ])
      const kept = (name: string) => Fs.readFileSync(Path.join(context.cache, name), "utf8")
      assert.deepStrictEqual(["out.txt", "err.txt", "list.txt", "text.txt", "home.txt"].map(kept), [
        "secret word",
        "a b c",
        "x y z\n",
        "~/a|640|",
        "/home/user/a"
      ])
      assert.strictEqual(yield* shell(context, "cat /tmp/ticks"), "x\nx\nx")
    })
  )

  it.effect("waits for what a command should bring about, and fails where it does not come", () =>
    Effect.gen(function* () {
      const context = yield* Desktop
      const verified = (verification: unknown, max_wait_time: number) =>
        setup(context, [
          {
            type: "execute_with_verification",
            parameters: {
              command: "(sleep 0.5; touch /tmp/came) &",
              shell: true,
              verification,
              max_wait_time,
              check_interval: 0.2
            }
          }
        ])
      yield* verified({ command_success: "test -e /tmp/came" }, 10)
      const failed = yield* Effect.flip(verified({ command_success: "test -e /tmp/never" }, 1))
      assert.strictEqual(failed.fault, "infrastructure")
      assert.match(failed.reason, /did not within 1 s.*test -e \/tmp\/never/)
      assert.match((yield* Effect.flip(verified({ window_exists: "no such window" }, 1))).reason, /no such window/)
    })
  )

  it.effect("brings files and counts their bytes", () =>
    Effect.gen(function* () {
      const context = yield* Desktop
      const local = Path.join(context.cache, "asset.bin")
      Fs.writeFileSync(local, Buffer.alloc(100_000, 7))
      const files = { "https://files.test/asset.bin": local, here: local }
      yield* setup(
        context,
        [
          {
            type: "download",
            parameters: { files: [{ url: "https://files.test/asset.bin", path: "~/new folder/asset.bin" }] }
          },
          {
            type: "upload_file",
            parameters: { files: [{ local_path: "here", path: "/home/user/asset-{SCREEN_WIDTH}" }] }
          }
        ],
        { files }
      )
      assert.strictEqual(yield* shell(context, "stat -c %s ~/'new folder/asset.bin' ~/asset-1280"), "100000\n100000")
      const gone = yield* Effect.flip(
        setup(context, [
          { type: "download", parameters: { files: [{ url: "https://files.test/none", path: "/tmp/x" }] } }
        ])
      )
      assert.strictEqual(gone.fault, "task")
    })
  )

  it.effect("says which application is missing", () =>
    Effect.gen(function* () {
      const context = yield* Desktop
      const failed = yield* Effect.flip(setup(context, [{ type: "launch", parameters: { command: ["code", "/tmp"] } }]))
      assert.match(failed.reason, /missing application code: .*Debian/)
      assert.strictEqual(failed.fault, "infrastructure")
    })
  )

  it.effect(
    "raises windows, sees whether they are in front, and masks where one that is needed is not there",
    () =>
      Effect.gen(function* () {
        const context = yield* Desktop
        const activate = (window_name: string, rest = {}) => ({
          type: "activate_window",
          parameters: { window_name, ...rest }
        })
        yield* shell(context, "echo one >~/one.txt; echo two >~/two.txt")
        yield* setup(context, [
          { type: "launch", parameters: { command: ["mousepad", "--disable-server", "/home/user/one.txt"] } },
          { type: "launch", parameters: { command: "mousepad --disable-server /home/user/two.txt" } },
          // Both are on their way up when these are asked for.
          activate("one.txt"),
          activate("two.txt")
        ])
        assert.include(yield* activeTitle(context), "two.txt")
        yield* setup(context, [activate("ONE.TXT")], { list: "postconfig" })
        const title = yield* activeTitle(context)
        assert.include(title, "one.txt")
        yield* setup(context, [activate("two.txt"), activate(title, { strict: true })], { list: "postconfig" })
        assert.strictEqual(yield* activeTitle(context), title)
        yield* setup(context, [activate("mousepad.Mousepad", { by_class: true, strict: true })], { list: "postconfig" })

        // Without Xlib, the tools tell the same.
        const seen = yield* WindowFocus.look(context.guest)
        const { guest } = context
        const byTools = yield* WindowFocus.look({
          ...guest,
          runPython: (code) => guest.runPython(code.replace("import Xlib", "raise ImportError"))
        })
        assert.strictEqual(byTools.active, seen.active)
        const names = ({ windows }: WindowFocus.Windows) =>
          windows.map(({ className, id, title }) => `${id} ${className} ${title}`).sort()
        assert.deepStrictEqual(names(byTools), names(seen))

        // A dialogue before the window takes the keyboard, and is the window's own.
        const press = (...keys: ReadonlyArray<string>) => ({
          type: "execute",
          parameters: { command: ["python", "-c", `import pyautogui; pyautogui.hotkey(*${JSON.stringify(keys)})`] }
        })
        yield* setup(context, [activate("one.txt"), press("ctrl", "shift", "s")])
        yield* eventually(
          Effect.filterOrFail(
            activeTitle(context),
            (found) => found === "Save As",
            (found) => `${found} is in front`
          )
        )
        yield* setup(context, [activate("one.txt")], { list: "postconfig" })
        yield* setup(context, [press("esc")])

        const absent = [activate("nowhere.txt"), { type: "sleep", parameters: { seconds: 0 } }]
        // An agent may have saved and closed it: what is on disk is graded.
        yield* setup(context, absent, { list: "postconfig" })
        // Nobody counts on it here, and there somebody does.
        yield* setup(context, absent)
        const failed = yield* Effect.flip(setup(context, [...absent, press("ctrl", "s")]))
        assert.deepStrictEqual(
          [failed.list, failed.index, failed.type, failed.fault],
          ["config", 0, "activate_window", "infrastructure"]
        )
        assert.match(failed.reason, /no window matched "nowhere.txt"/)
        yield* setup({ ...context, compat: true }, absent, { list: "postconfig" })

        yield* setup(context, [
          { type: "close_window", parameters: { window_name: "two.txt" } },
          { type: "close_window", parameters: { window_name: "nowhere.txt" } }
        ])
        yield* eventually(
          Effect.filterOrFail(
            WindowFocus.look(context.guest),
            ({ windows }) => !windows.some((window) => window.title.includes("two.txt")),
            () => "it is still there"
          )
        )
      }),
    { timeout: 120_000 }
  )
})
