/**
 * Who may call the gateway.
 */
import { createHash, timingSafeEqual } from "node:crypto"
import type { IncomingHttpHeaders } from "node:http"

const digest = (text: string): Buffer => createHash("sha256").update(text).digest()

/** What a client shows: a bearer token, or the key in the header of Anthropic's clients. */
export const credentials = (headers: IncomingHttpHeaders): ReadonlyArray<string> => {
  const key = headers["x-api-key"]
  const bearer = /^bearer +(\S+) *$/i.exec(headers.authorization ?? "")?.[1]
  return [bearer, typeof key === "string" ? key : undefined].filter((shown) => shown !== undefined)
}

/** Takes equally long for every wrong token, whatever its length and wherever it first differs. */
export const makeVerifier = (token: string): ((headers: IncomingHttpHeaders) => boolean) => {
  const right = digest(token)
  return (headers) =>
    credentials(headers).reduce((found, shown) => timingSafeEqual(digest(shown), right) || found, false)
}

/** Whether only programs on this machine reach a server that listens there. */
export const isLoopback = (host: string): boolean =>
  host === "localhost" || host === "::1" || /^127(\.\d{1,3}){3}$/.test(host)
