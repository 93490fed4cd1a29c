/** The step that lets a desktop's Chrome out through a proxy, whose password the desktop's commands do not show. */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Random from "effect/Random"
import * as Redacted from "effect/Redacted"
import * as Schedule from "effect/Schedule"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import type { Guest } from "../../../desktop/Guest.js"
import * as PythonLiteral from "../../../desktop/PythonLiteral.js"
import type { TaskContext } from "../../Setup.js"
import * as TaskProxy from "../taskProxy.js"
import { broken, fromGuest, idempotent, type Perform, type Requirements, StepFailed } from "./step.js"

const Place = Schema.Struct({ tinyproxy: Schema.NullOr(Schema.String), sudo: Schema.Boolean, taken: Schema.Boolean })

const placeScript = `
import json, os, shutil, socket
path = os.environ.get("PATH", "") + ":/usr/bin:/usr/local/sbin:/usr/sbin"
with socket.socket() as client:
    client.settimeout(2)
    taken = client.connect_ex(("127.0.0.1", ${TaskProxy.port})) == 0
print(json.dumps({"tinyproxy": shutil.which("tinyproxy", path=path), "sudo": shutil.which("sudo") is not None, "taken": taken}))
`

/** Ends when the proxy takes connections and the way to the next one is open; the words are the reason if it is not. */
const readyScript = (host: string, port: number) => `
import socket, sys, time
end = time.time() + 10
while True:
    try:
        socket.create_connection(("127.0.0.1", ${TaskProxy.port}), timeout=2).close()
        break
    except OSError:
        if time.time() > end:
            sys.exit("tinyproxy does not listen")
        time.sleep(0.1)
try:
    socket.create_connection((${PythonLiteral.fromString(host)}, ${port}), timeout=10).close()
except OSError as error:
    sys.exit("the desktop does not reach the proxy %s: %s" % (${PythonLiteral.fromString(`${host}:${port}`)}, error))
`

const python = <A>(
  guest: Guest,
  code: string,
  read: (stdout: string) => Effect.Effect<A, { readonly message: string }>
) =>
  Effect.gen(function* () {
    const { exitCode, stderr, stdout } = yield* Effect.mapError(guest.runPython(code), fromGuest)
    if (exitCode !== 0) {
      const said = stderr.trim().split("\n").at(-1) ?? ""
      return yield* Effect.fail(new StepFailed("infrastructure", said === "" ? `Python ended with ${exitCode}` : said))
    }
    return yield* Effect.mapError(read(stdout), broken)
  })

const place = (guest: Guest) =>
  python(guest, placeScript, (text) => Schema.decode(Schema.parseJson(Place))(text.trim()))

/** Only a file of the desktop's user holds what is secret, and only for as long as somebody reads it. */
const write = (guest: Guest, path: string, text: Redacted.Redacted) => {
  const bytes = new TextEncoder().encode(Redacted.value(text))
  return idempotent(guest.writeFile(path, Stream.make(bytes), { length: bytes.length }))
}

const privateFolder = (guest: Guest) =>
  Effect.acquireRelease(
    Effect.gen(function* () {
      const folder = `/tmp/deskhand-proxy-${yield* Random.nextIntBetween(0, Number.MAX_SAFE_INTEGER)}`
      const { exitCode, stderr } = yield* idempotent(
        guest.execute({ command: ["install", "-d", "-m", "700", "--", folder] })
      )
      if (exitCode !== 0) return yield* Effect.fail(new StepFailed("infrastructure", stderr.trim()))
      return folder
    }),
    (folder) =>
      Effect.ignoreLogged(idempotent(guest.execute({ command: ["rm", "-rf", "--", folder], timeout: "10 seconds" })))
  )

/** Debian's archives may be in use by the desktop's own updater, and a slow mirror is no reason to run it twice. */
const installLimit = "5 minutes"

/** OSWorld's own desktop has no tinyproxy and a user who may install it. */
const installScript = (folder: string) => `#!/bin/bash
run() { sudo -S -p '' env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=60 "$@" <${folder}/password; }
{ run update -q && run install -y -q --no-install-recommends tinyproxy-bin; } >${folder}/log 2>&1
echo $? >${folder}/code
`

const install = (context: TaskContext, folder: string) =>
  Effect.gen(function* () {
    const { guest } = context
    yield* write(guest, `${folder}/password`, Redacted.make(`${context.placeholders.clientPassword}\n`))
    yield* write(guest, `${folder}/install.sh`, Redacted.make(installScript(folder)))
    yield* Effect.mapError(guest.launch({ command: ["/bin/bash", `${folder}/install.sh`] }), fromGuest)
    const ended = yield* idempotent(guest.execute({ command: ["cat", "--", `${folder}/code`] })).pipe(
      Effect.filterOrFail(
        ({ exitCode }) => exitCode === 0,
        () => new StepFailed("infrastructure", `tinyproxy was not installed within ${installLimit}`)
      ),
      Effect.retry(Schedule.intersect(Schedule.spaced("2 seconds"), Schedule.recurUpTo(installLimit)))
    )
    if (ended.stdout.trim() === "0") return
    const log = yield* idempotent(guest.execute({ command: ["tail", "-n", "3", "--", `${folder}/log`] }))
    return yield* Effect.fail(
      new StepFailed("infrastructure", `tinyproxy could not be installed: ${log.stdout.trim()}`)
    )
  })

/** Starts the desktop's own end of the proxy where one is configured. */
export const start = (context: TaskContext): Effect.Effect<void, StepFailed, Requirements> =>
  Effect.gen(function* () {
    const upstreams = yield* Effect.mapError(
      TaskProxy.load,
      ({ kind, message }) => new StepFailed(kind === "proxy_configuration_error" ? "infrastructure" : "task", message)
    )
    if (Option.isNone(upstreams)) {
      return yield* Effect.logInfo("the task asks for a proxy and none is configured: it goes out directly")
    }
    const { guest } = context
    const number = yield* Random.nextIntBetween(0, upstreams.value.length)
    const upstream = upstreams.value[number] ?? upstreams.value[0]
    const found = yield* place(guest)
    if (found.taken) {
      return yield* Effect.fail(
        new StepFailed("infrastructure", `port ${TaskProxy.port} of the desktop, which is the proxy's, is taken`)
      )
    }
    yield* Effect.scoped(
      Effect.gen(function* () {
        const folder = yield* privateFolder(guest)
        if (found.tinyproxy === null) {
          if (!found.sudo) {
            return yield* Effect.fail(
              new StepFailed("infrastructure", "missing application tinyproxy: Debian: apt-get install tinyproxy-bin")
            )
          }
          yield* install(context, folder)
        }
        const program = found.tinyproxy ?? "/usr/bin/tinyproxy"
        yield* write(guest, `${folder}/tinyproxy.conf`, TaskProxy.tinyproxyConfig(upstream))
        yield* Effect.mapError(guest.launch({ command: [program, "-d", "-c", `${folder}/tinyproxy.conf`] }), fromGuest)
        yield* python(guest, readyScript(upstream.host, upstream.port), () => Effect.void)
      })
    )
  })

export const proxy: Perform<"proxy"> = (_, context) => start(context)
