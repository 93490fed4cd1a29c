/** A socket that its owner alone can reach, and that answers lines. */
import { lstatSync, readlinkSync } from "node:fs"
import { chmod, mkdtemp, rm, rmdir, symlink, unlink } from "node:fs/promises"
import { createServer, type Server, type Socket } from "node:net"
import { tmpdir } from "node:os"
import { basename, dirname, join } from "node:path"
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"

const prefix = "deskhand-control-"

/** A request is short; whoever sends more is not talking to us. */
const longestLine = 64 * 1024

/** Who connects and says nothing is not kept. */
const silenceMilliseconds = 60_000

const connections = 32

/** Answers line by line, one after the other. */
const converse = (socket: Socket, answer: (line: string) => Promise<string>): void => {
  let pending = ""
  let turn = Promise.resolve()
  socket.setEncoding("utf8")
  socket.setTimeout(silenceMilliseconds, () => socket.destroy())
  // A client that goes away in the middle is no event of the run.
  socket.on("error", () => socket.destroy())
  socket.on("data", (chunk: string) => {
    pending += chunk
    for (let end = pending.indexOf("\n"); end >= 0; end = pending.indexOf("\n")) {
      const line = pending.slice(0, end)
      pending = pending.slice(end + 1)
      turn = turn
        .then(() => answer(line))
        .then(
          (reply) => void (socket.writable && socket.write(`${reply}\n`)),
          () => void socket.destroy()
        )
    }
    if (pending.length > longestLine) socket.destroy()
  })
  // Whoever has said all still hears the answers.
  socket.on("end", () => void turn.then(() => socket.end()))
}

/** The folder that a link of a run that is gone leads to: only one that is of our own making, and of this user. */
const leftBehind = (link: string): string | undefined => {
  try {
    const folder = dirname(readlinkSync(link))
    if (!basename(folder).startsWith(prefix)) return undefined
    const found = lstatSync(folder)
    return found.isDirectory() && found.uid === process.getuid?.() ? folder : undefined
  } catch {
    return undefined
  }
}

const absent = (cause: unknown): boolean => cause instanceof Error && "code" in cause && cause.code === "ENOENT"

const removeLink = async (link: string): Promise<void> => {
  const folder = leftBehind(link)
  if (folder !== undefined) {
    // Not recursively: nothing but a socket is ever there.
    await rm(join(folder, "socket"), { force: true })
    await rmdir(folder)
  }
  await unlink(link).catch((cause) => {
    if (!absent(cause)) throw cause
  })
}

interface Listening {
  readonly server: Server
  readonly sockets: Set<Socket>
}

const open = async (link: string, answer: (line: string) => Promise<string>): Promise<Listening> => {
  await removeLink(link)
  const folder = await mkdtemp(join(tmpdir(), prefix))
  const file = join(folder, "socket")
  const sockets = new Set<Socket>()
  const server = createServer({ allowHalfOpen: true }, (socket) => {
    sockets.add(socket)
    socket.on("close", () => sockets.delete(socket))
    converse(socket, answer)
  })
  server.maxConnections = connections
  try {
    await new Promise<void>((resolve, reject) => {
      server.once("error", reject)
      server.listen(file, resolve)
    })
    await chmod(file, 0o600)
    await symlink(file, link)
  } catch (cause) {
    server.close()
    await rm(folder, { recursive: true, force: true })
    throw cause
  }
  // A run that has ended otherwise does not wait for its watchers.
  server.unref()
  return { server, sockets }
}

const close = async (link: string, { server, sockets }: Listening): Promise<void> => {
  const closed = new Promise<void>((resolve) => server.close(() => resolve()))
  for (const socket of sockets) socket.destroy()
  await closed
  await removeLink(link)
}

const reasonOf = (cause: unknown): string => (cause instanceof Error ? cause.message : String(cause))

/** Listens behind `link` until the scope closes; fails with why it cannot. */
export const listen = (
  link: string,
  answer: (line: string) => Promise<string>
): Effect.Effect<void, string, Scope.Scope> =>
  Effect.asVoid(
    Effect.acquireRelease(Effect.tryPromise({ try: () => open(link, answer), catch: reasonOf }), (listening) =>
      Effect.tryPromise({ try: () => close(link, listening), catch: reasonOf }).pipe(
        Effect.catchAll((reason) => Effect.logWarning(`${link} could not be removed: ${reason}`))
      )
    )
  )
