/**
 * Connections to an engine, whatever lies between.
 */
import { spawn } from "node:child_process"
import { readFileSync } from "node:fs"
import * as Http from "node:http"
import * as Net from "node:net"
import { join } from "node:path"
import { Duplex } from "node:stream"
import * as Tls from "node:tls"
import type { Address } from "./dockerAddress.js"

/** The standard streams of a `docker system dial-stdio` on the engine's machine. */
const dial = (address: Extract<Address, { readonly _tag: "Ssh" }>): Duplex => {
  const child = spawn(
    "ssh",
    [
      "-o",
      "BatchMode=yes",
      "-o",
      "ConnectTimeout=30",
      ...(address.user === "" ? [] : ["-l", address.user]),
      ...(address.port === "" ? [] : ["-p", address.port]),
      "--",
      address.host,
      "docker",
      "system",
      "dial-stdio"
    ],
    { stdio: ["pipe", "pipe", "pipe"] }
  )
  const duplex = new Duplex({
    read: () => {
      child.stdout.resume()
    },
    write: (bytes: Uint8Array, _, done) => {
      // When nobody reads any more, ssh has ended or will, and says why.
      child.stdin.write(bytes, () => done())
    },
    final: (done) => {
      child.stdin.end(() => done())
    },
    destroy: (error, done) => {
      child.kill()
      done(error)
    }
  })
  // Whoever reads it hears of its errors; when nobody does any more, they do not matter.
  duplex.on("error", () => {})
  child.stdin.on("error", () => {})
  child.stdout.on("data", (bytes: Uint8Array) => {
    if (!duplex.push(bytes)) {
      child.stdout.pause()
    }
  })
  let said = ""
  child.stderr.setEncoding("utf8").on("data", (text: string) => {
    said = (said + text).slice(-2000)
  })
  child.on("error", (error) => duplex.destroy(error))
  child.on("close", (code) => {
    if (code === 0) {
      duplex.push(null)
    } else {
      duplex.destroy(new Error(`ssh ${address.host} ended with code ${code}: ${said.trim()}`))
    }
  })
  return duplex
}

const certificates = (folder: string) => ({
  ca: readFileSync(join(folder, "ca.pem")),
  cert: readFileSync(join(folder, "cert.pem")),
  key: readFileSync(join(folder, "key.pem"))
})

/** Opens one. What goes wrong is the stream's error. */
export const open = (address: Address): Duplex => {
  switch (address._tag) {
    case "Unix":
      return Net.connect({ path: address.path })
    case "Tcp":
      return address.certificates === undefined
        ? Net.connect({ host: address.host, port: address.port })
        : Tls.connect({
            host: address.host,
            port: address.port,
            ...(Net.isIP(address.host) === 0 ? { servername: address.host } : {}),
            ...certificates(address.certificates)
          })
    case "Ssh":
      return dial(address)
  }
}

/** Keeps connections for the next call, except over ssh, whose streams are no sockets. */
export const agent = (address: Address): Http.Agent => {
  const made = new Http.Agent({ keepAlive: address._tag !== "Ssh", maxSockets: Number.POSITIVE_INFINITY })
  return Object.assign(made, { createConnection: () => open(address) })
}
