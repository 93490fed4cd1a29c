import { type UsageError, usage } from "./usage.js"

/** A server of ours does not listen: why, in Node's words, and what to do. */
export const notListening = (reason: string): UsageError =>
  usage(
    `the server does not listen: ${reason}. ${
      /EADDRNOTAVAIL|ENOTFOUND|EAI_AGAIN/.test(reason)
        ? "Give --host an address of this machine, such as 127.0.0.1"
        : "Give it another --port, or none for a free one"
    }`
  )
