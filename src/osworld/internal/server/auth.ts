/** Who may call the server. */
import { createHash, timingSafeEqual } from "node:crypto"

const digest = (text: string): Buffer => createHash("sha256").update(text).digest()

/** Takes equally long for every wrong token, whatever its length and wherever it first differs. */
export const makeVerifier = (token: string): ((authorization: string | undefined) => boolean) => {
  const right = digest(token)
  return (authorization) =>
    timingSafeEqual(digest(/^bearer +(\S+) *$/i.exec(authorization ?? "")?.[1] ?? ""), right) && token !== ""
}

/** Whether only programs on this machine reach a server that listens there. */
export const isLoopback = (host: string): boolean =>
  host === "localhost" || host === "::1" || /^127(\.\d{1,3}){3}$/.test(host)
