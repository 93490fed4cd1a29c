import * as Http from "node:http"
import { assert, describe, it } from "@effect/vitest"
import * as Data from "effect/Data"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Fiber from "effect/Fiber"
import * as Option from "effect/Option"
import * as Queue from "effect/Queue"
import * as Stream from "effect/Stream"
import * as TestClock from "effect/TestClock"
import { DesktopAction, pythonProgram } from "../../src/desktop/Action.js"
import * as Guest from "../../src/desktop/Guest.js"
import { GuestError, type GuestErrorReason, GuestFileMissing } from "../../src/desktop/GuestError.js"
import { Endpoint } from "../../src/sandbox/Endpoint.js"

interface Received {
  readonly method: string
  readonly path: string
  readonly headers: Http.IncomingHttpHeaders
  readonly body: string
}

type Answer = (request: Received, response: Http.ServerResponse) => void

/** A server that answers as it is told and keeps what it was asked. */
const serve = (answer: Answer) =>
  Effect.gen(function* () {
    const received: Array<Received> = []
    const arrivals = yield* Queue.unbounded<Received>()
    const server = Http.createServer((request, response) => {
      const chunks: Array<Buffer> = []
      request.on("data", (chunk: Buffer) => chunks.push(chunk))
      request.on("end", () => {
        const each = {
          method: request.method ?? "",
          path: request.url ?? "",
          headers: request.headers,
          body: Buffer.concat(chunks).toString("utf8")
        }
        received.push(each)
        Queue.unsafeOffer(arrivals, each)
        answer(each, response)
      })
    })
    yield* Effect.acquireRelease(
      Effect.async<void>((resume) => {
        server.listen(0, "127.0.0.1", () => resume(Effect.void))
      }),
      () =>
        Effect.async<void>((resume) => {
          server.closeAllConnections()
          server.close(() => resume(Effect.void))
        })
    )
    const address = server.address()
    const port = typeof address === "object" && address !== null ? address.port : 0
    return {
      endpoint: Endpoint.Tcp({ url: `http://127.0.0.1:${port}`, headers: { "x-token": "t" } }),
      received,
      arrivals
    }
  })

const json = (response: Http.ServerResponse, value: unknown, status = 200) => {
  response.writeHead(status, { "content-type": "application/json" })
  response.end(JSON.stringify(value))
}
const html = (response: Http.ServerResponse, status: number, title: string) => {
  response.writeHead(status, { "content-type": "text/html" })
  response.end(`<!doctype html><html lang=en><title>${status} ${title}</title><h1>${title}</h1>`)
}

const png = Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a, 1, 2, 3])

/** What the official server of May 2025 and before answers: no /run_python, plain texts, extra keys, JSON 404s. */
const oldOfficial: Answer = (request, response) => {
  switch (`${request.method} ${request.path}`) {
    case "GET /screenshot":
      return response.writeHead(200, { "content-type": "image/png" }).end(png)
    case "GET /platform":
      return response.writeHead(200, { "content-type": "text/html" }).end("Linux")
    case "GET /terminal":
      return json(response, { output: null, status: "success" })
    case "GET /accessibility":
      return json(response, { AT: "<desktop-frame/>" })
    case "GET /cursor_position":
      return json(response, [3, 4])
    case "POST /screen_size":
      return json(response, { width: 1920, height: 1080, extra: true })
    case "POST /execute": {
      const { command } = JSON.parse(request.body) as { command: ReadonlyArray<string> }
      return json(response, { status: "success", output: command.join("|"), error: null, returncode: 0, extra: 1 })
    }
    case "POST /setup/upload":
      return response.writeHead(200).end("File Uploaded")
    case "POST /file":
      return request.body === "file_path=%2Fhome%2Fuser%2Fa+b"
        ? response.writeHead(200, { "content-type": "application/octet-stream" }).end("content")
        : json(response, { error: "File not found" }, 404)
    case "POST /setup/launch":
      return response.writeHead(200).end("whatever launched successfully")
    case "POST /setup/activate_window":
      return response.writeHead(200).end("File opened successfully")
    case "POST /list_directory":
      return json(response, {
        directory_tree: {
          type: "directory",
          name: "d",
          children: [{ type: "file", name: "f" }, { error: "denied" }, { type: "directory", name: "e", children: [] }]
        }
      })
    case "POST /window_size":
      return html(response, 500, "Internal Server Error")
    default:
      return html(response, 404, "Not Found")
  }
}

const reasonOf = <A, E>(effect: Effect.Effect<A, E>): Effect.Effect<GuestErrorReason> =>
  Effect.map(Effect.either(effect), (result) => {
    assert.isTrue(Either.isLeft(result) && result.left instanceof GuestError, `a GuestError, got ${String(result)}`)
    return Either.isLeft(result) && result.left instanceof GuestError
      ? result.left.reason
      : { _tag: "Malformed", detail: "no GuestError" }
  })

const text = (stream: Stream.Stream<Uint8Array, GuestError | GuestFileMissing>) =>
  Stream.mkString(Stream.decodeText(stream))

describe("with the old official guest", () => {
  it.scoped("reads", () =>
    Effect.gen(function* () {
      const server = yield* serve(oldOfficial)
      const guest = yield* Guest.make(server.endpoint)
      yield* guest.ping
      assert.deepStrictEqual(Buffer.from(yield* guest.screenshot), png)
      assert.strictEqual(yield* guest.platform, "Linux")
      assert.strictEqual(yield* guest.terminal, null)
      assert.strictEqual(yield* guest.accessibilityTree, "<desktop-frame/>")
      assert.deepStrictEqual(yield* guest.cursorPosition, { x: 3, y: 4 })
      assert.deepStrictEqual(yield* guest.screenSize, { width: 1920, height: 1080 })
      assert.deepStrictEqual(yield* guest.listDirectory("/d"), {
        type: "directory",
        name: "d",
        children: [{ type: "file", name: "f" }, { error: "denied" }, { type: "directory", name: "e", children: [] }]
      })
      assert.strictEqual(server.received[0]?.headers["x-token"], "t")
    })
  )

  it.scoped("falls back to /execute, once learnt for good", () =>
    Effect.gen(function* () {
      const server = yield* serve(oldOfficial)
      const guest = yield* Guest.make(server.endpoint)
      assert.strictEqual((yield* guest.runPython("print(1)")).stdout, "python3|-c|print(1)")
      assert.strictEqual((yield* guest.runPython("print(2)")).stdout, "python3|-c|print(2)")
      assert.deepStrictEqual(
        server.received.map(({ path }) => path),
        ["/run_python", "/platform", "/execute", "/execute"]
      )
      const bash = yield* guest.runBash("ls", { timeout: "1500 millis", workingDirectory: "/tmp" })
      assert.deepStrictEqual(bash, {
        stdout: "env|-C|/tmp|timeout|-k|2|1.5s|bash|-lc|ls",
        stderr: "",
        exitCode: 0
      })
    })
  )

  it.scoped("sends an action as one program that may start with a compound statement", () =>
    Effect.gen(function* () {
      const server = yield* serve(oldOfficial)
      const guest = yield* Guest.make(server.endpoint)
      yield* guest.runAction(DesktopAction.Python({ code: "for i in range(2):\n  pass" }))
      assert.deepStrictEqual(JSON.parse(server.received[0]?.body ?? ""), {
        command: ["python", "-c", pythonProgram("for i in range(2):\n  pass")],
        shell: false
      })
      assert.match(pythonProgram("x"), /^import pyautogui; import time; pyautogui.FAILSAFE = False\nx$/)
    })
  )

  it.scoped("makes the folder before an upload and takes any text for an answer", () =>
    Effect.gen(function* () {
      const server = yield* serve(oldOfficial)
      const guest = yield* Guest.make(server.endpoint)
      const content = new TextEncoder().encode("a\r\nb")
      yield* guest.writeFile("/home/user/x/é.txt", Stream.make(content), { length: content.length })
      const [mkdir, upload] = server.received
      assert.deepStrictEqual(JSON.parse(mkdir?.body ?? ""), {
        command: ["mkdir", "-p", "--", "/home/user/x"],
        shell: false
      })
      const boundary = /boundary=(.*)$/.exec(upload?.headers["content-type"] ?? "")?.[1]
      assert.strictEqual(
        upload?.body,
        `--${boundary}\r\nContent-Disposition: form-data; name="file_path"\r\n\r\n/home/user/x/é.txt\r\n` +
          `--${boundary}\r\nContent-Disposition: form-data; name="file_data"; filename="é.txt"\r\n` +
          `Content-Type: application/octet-stream\r\n\r\na\r\nb\r\n--${boundary}--\r\n`
      )
      assert.strictEqual(upload?.headers["content-length"], String(Buffer.byteLength(upload?.body ?? "")))
    })
  )

  it.scoped("fails an upload with the failure of its source", () =>
    Effect.gen(function* () {
      class Mine extends Data.TaggedError("Mine")<{ readonly n: number }> {}
      const server = yield* serve(oldOfficial)
      const guest = yield* Guest.make(server.endpoint)
      const source = Stream.concat(Stream.make(new Uint8Array(10)), Stream.fail(new Mine({ n: 1 })))
      assert.deepStrictEqual(yield* Effect.flip(guest.writeFile("/a", source)), new Mine({ n: 1 }))
      const missing = yield* Effect.flip(guest.writeFile("/a", "/nowhere/at/all"))
      assert.strictEqual(missing._tag, "GuestUploadUnreadable")
    })
  )

  it.scoped("tells a missing file from other refusals", () =>
    Effect.gen(function* () {
      const guest = yield* Guest.make((yield* serve(oldOfficial)).endpoint)
      assert.strictEqual(yield* text(guest.readFile("/home/user/a b")), "content")
      const missing = yield* Effect.flip(text(guest.readFile("/none")))
      assert.deepStrictEqual(missing, new GuestFileMissing({ path: "/none" }))
      const refused = yield* reasonOf(guest.windowSize("gimp"))
      assert.deepStrictEqual(refused, {
        _tag: "Refused",
        status: 500,
        detail: "500 Internal Server Error Internal Server Error"
      })
    })
  )

  it.scoped("acts whatever the text says", () =>
    Effect.gen(function* () {
      const guest = yield* Guest.make((yield* serve(oldOfficial)).endpoint)
      yield* guest.launch({ command: ["x"] })
      yield* guest.activateWindow({ name: "x" })
    })
  )
})

describe("errors", () => {
  it.scoped("says what the guest said", () =>
    Effect.gen(function* () {
      const server = yield* serve((request, response) =>
        request.path === "/platform"
          ? oldOfficial(request, response)
          : json(response, { status: "error", message: "no such program" }, 500)
      )
      const guest = yield* Guest.make(server.endpoint)
      const error = yield* Effect.flip(guest.launch({ command: ["x"] }))
      assert.deepStrictEqual(error.reason, { _tag: "Refused", status: 500, detail: "no such program" })
      assert.strictEqual(error.message, "launch: the guest answered 500: no such program")
      // Asked once, and then whether it was the guest that said so.
      assert.deepStrictEqual(
        server.received.map(({ path }) => path),
        ["/setup/launch", "/platform"]
      )
    })
  )

  it.scoped("calls an answer of another form malformed", () =>
    Effect.gen(function* () {
      const server = yield* serve((_, response) => void response.writeHead(200).end("<html>"))
      const guest = yield* Guest.make(server.endpoint)
      assert.strictEqual((yield* reasonOf(guest.execute({ command: ["x"] })))._tag, "Malformed")
      assert.strictEqual((yield* reasonOf(guest.screenshot))._tag, "Malformed")
      assert.strictEqual(server.received.length, 2)
    })
  )

  it("knows images by their first bytes", () => {
    assert.deepStrictEqual(Guest.imageFormat(png), Option.some("png"))
    assert.deepStrictEqual(Guest.imageFormat(new Uint8Array([0xff, 0xd8, 0xff, 0])), Option.some("jpeg"))
    assert.deepStrictEqual(Guest.imageFormat(new Uint8Array([0xff, 0xd8])), Option.none())
  })

  it.live("tries reads again when nobody answers, and actions never", () =>
    Effect.gen(function* () {
      let broken = 2
      const server = yield* serve((request, response) => {
        if (request.path === "/screenshot" && broken-- <= 0) oldOfficial(request, response)
        else response.socket?.destroy()
      })
      const guest = yield* Guest.make(server.endpoint)
      assert.deepStrictEqual(Buffer.from(yield* guest.screenshot), png)
      assert.strictEqual(server.received.length, 3)
      assert.strictEqual((yield* reasonOf(guest.execute({ command: ["x"] })))._tag, "Unreachable")
      assert.strictEqual((yield* reasonOf(guest.launch({ command: ["x"] })))._tag, "Unreachable")
      assert.strictEqual((yield* reasonOf(guest.runPython("x")))._tag, "Unreachable")
      assert.strictEqual(server.received.length, 6)
    }).pipe(Effect.scoped)
  )

  it.scoped("says of a path that it holds no file where the server breaks off over it, and asks the guest", () =>
    Effect.gen(function* () {
      let exitCode = 1
      const server = yield* serve((request, response) =>
        request.path === "/file"
          ? json(response, { error: "[Errno 21] Is a directory: '/home/user/out.csv'" }, 500)
          : request.path === "/execute"
            ? json(response, { status: "success", output: "", error: "", returncode: exitCode })
            : oldOfficial(request, response)
      )
      const guest = yield* Guest.make(server.endpoint)
      const read = text(guest.readFile("/home/user/out.csv"))
      assert.instanceOf(yield* Effect.flip(read), GuestFileMissing)
      const asked = server.received.find(({ path }) => path === "/execute")?.body
      assert.include(asked, '"sh","/home/user/out.csv"')
      // A file that can be read, or a guest that cannot tell: then it was the server that failed.
      for (exitCode of [0, 127]) {
        assert.deepStrictEqual((yield* reasonOf(read))._tag, "Refused")
      }
    })
  )

  it.live("takes a gateway that does not reach the guest for what it is", () =>
    Effect.gen(function* () {
      const server = yield* serve((request, response) =>
        request.path === "/screenshot" && server.received.length > 1
          ? oldOfficial(request, response)
          : json(response, { message: "no such sandbox" }, request.path === "/screenshot" ? 502 : 404)
      )
      const guest = yield* Guest.make(server.endpoint)
      assert.deepStrictEqual(Buffer.from(yield* guest.screenshot), png)
      // No operation takes what a gateway says of a guest that is gone for what the guest says of a file or a window.
      for (const refused of [
        text(guest.readFile("/a")),
        Effect.asVoid(guest.listDirectory("/a")),
        Effect.asVoid(guest.wallpaper),
        Effect.asVoid(guest.windowSize("gimp")),
        Effect.asVoid(guest.runPython("print(1)")),
        Effect.asVoid(guest.execute({ command: ["x"] }))
      ]) {
        const reason = yield* reasonOf(refused)
        assert.isTrue(
          reason._tag === "Unreachable" && reason.detail.includes("the guest answered 404: no such sandbox"),
          JSON.stringify(reason)
        )
      }
      // That there is no such route was not learnt from a gateway.
      assert.strictEqual(server.received.filter(({ path }) => path === "/run_python").length, 1)
      yield* Effect.ignore(guest.runPython("print(1)"))
      assert.strictEqual(server.received.filter(({ path }) => path === "/run_python").length, 2)
    }).pipe(Effect.scoped)
  )

  it.live("gives up on a port that nobody listens on", () =>
    Effect.gen(function* () {
      const { endpoint } = yield* Effect.scoped(serve(oldOfficial))
      const guest = yield* Guest.make(endpoint)
      const reason = yield* reasonOf(guest.screenshot)
      assert.isTrue(reason._tag === "Unreachable" && /ECONNREFUSED/.test(reason.detail), JSON.stringify(reason))
      const gone = yield* Guest.make(Endpoint.Unix({ socketPath: "/nowhere/guest.sock" }))
      assert.strictEqual((yield* reasonOf(gone.ping))._tag, "Unreachable")
    }).pipe(Effect.scoped)
  )

  it.live("notices when the guest dies in the middle of an answer", () =>
    Effect.gen(function* () {
      const server = yield* serve((request, response) => {
        response.writeHead(200, { "content-length": "1000000" })
        response.write(request.path === "/file" ? "begin" : '{"status":', () => response.socket?.destroy())
      })
      const guest = yield* Guest.make(server.endpoint)
      assert.strictEqual((yield* reasonOf(guest.execute({ command: ["x"] })))._tag, "Unreachable")
      let got = ""
      const reason = yield* reasonOf(
        Stream.runForEach(guest.readFile("/a"), (chunk) =>
          Effect.sync(() => {
            got += Buffer.from(chunk).toString()
          })
        )
      )
      assert.strictEqual(reason._tag, "Unreachable")
      assert.strictEqual(got, "begin")
    }).pipe(Effect.scoped)
  )

  for (const [operation, seconds] of [
    ["screenshot", 10],
    ["execute", 130],
    ["accessibilityTree", 60],
    ["openFile", 1810],
    ["platform", 30]
  ] as const) {
    it.scoped(`gives up on ${operation} after ${seconds} s`, () =>
      Effect.gen(function* () {
        const server = yield* serve(() => {})
        const guest = yield* Guest.make(server.endpoint)
        const calls: Record<string, Effect.Effect<unknown, GuestError>> = {
          screenshot: guest.screenshot,
          execute: guest.execute({ command: ["x"] }),
          accessibilityTree: guest.accessibilityTree,
          openFile: guest.openFile("x"),
          platform: guest.platform
        }
        const fiber = yield* Effect.fork(Effect.flip(calls[operation] ?? Effect.void))
        yield* Queue.take(server.arrivals)
        yield* TestClock.adjust(Duration.seconds(seconds - 1))
        assert.isTrue(Option.isNone(yield* Fiber.poll(fiber)))
        yield* TestClock.adjust("1 seconds")
        const error = yield* Fiber.join(fiber)
        assert.deepStrictEqual(
          error,
          new GuestError({ operation, reason: { _tag: "Timeout", limit: Duration.seconds(seconds) } })
        )
        assert.strictEqual(server.received.length, 1)
      })
    )
  }

  it.live("takes other limits", () =>
    Effect.gen(function* () {
      const server = yield* serve(() => {})
      const guest = yield* Guest.make(server.endpoint, { timeouts: { screenshot: "20 millis" } })
      assert.strictEqual((yield* reasonOf(guest.screenshot))._tag, "Timeout")
      assert.strictEqual((yield* reasonOf(guest.execute({ command: ["x"], timeout: "20 millis" })))._tag, "Timeout")
    }).pipe(Effect.scoped)
  )

  it.live("gives up on a file whose next piece does not come", () =>
    Effect.gen(function* () {
      const server = yield* serve((_, response) => {
        response.writeHead(200)
        response.write("begin")
      })
      const guest = yield* Guest.make(server.endpoint, { timeouts: { other: "100 millis" } })
      assert.strictEqual((yield* reasonOf(text(guest.readFile("/a"))))._tag, "Timeout")
    }).pipe(Effect.scoped)
  )
})
